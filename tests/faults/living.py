"""Runs among others: many readers, a full disk, memory over time, and what keeping a run costs."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import pgsom
from pgsom.checks import InputError, RunError
from pgsom.runs import recorder
from pgsom.runs.folder import standing
from pgsom.runs.rows import read_rows
from tests.faults.small_run import begun, carried_on, difference


def read_while_written(run: Path, readers: int, updates: int) -> tuple[int, list[str]]:
    """How often the run was read while it went on, and what was wrong."""
    ended, wrong, counts = threading.Event(), [], [0] * readers
    seen: list[tuple[int, bytes]] = []

    def read(place: int) -> None:
        while not ended.is_set():
            try:
                rows = read_rows(run, 2)
                returns = np.asarray(rows.metrics.episode_return)
                if rows.damaged:
                    wrong.append("; ".join(rows.damaged))
                if returns.shape[1] and place == 0:
                    seen.append((returns.shape[1], returns.tobytes()))
                if (run / "summary.json").exists() and standing(run).state not in ("running", "finished"):
                    wrong.append(standing(run).state)
                if place % 20 == 0 and (run / "checkpoints").is_dir() and any((run / "checkpoints").iterdir()):
                    pgsom.load(run)
            except InputError as error:
                if "no policies yet" not in str(error):
                    wrong.append(str(error))
            except Exception as error:
                wrong.append(repr(error))
            counts[place] += 1
            time.sleep(0.005)

    threads = [threading.Thread(target=read, args=(place,)) for place in range(readers)]
    for thread in threads:
        thread.start()
    before, recorder.SECONDS_BETWEEN_ROWS = recorder.SECONDS_BETWEEN_ROWS, 0.0
    try:
        result = begun(run, updates=updates)
    finally:
        recorder.SECONDS_BETWEEN_ROWS = before
        ended.set()
        for thread in threads:
            thread.join()
    whole = np.asarray(result.metrics.episode_return)
    wrong += [f"rows 0 to {n} are not those of the run" for n, content in seen if whole[:, :n].tobytes() != content]
    return sum(counts), wrong


@contextlib.contextmanager
def small_disk(folder: Path, kibibytes: int, *options: str) -> Iterator[Path]:
    """A file system of its own, in memory; needs root."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", ",".join((f"size={kibibytes}k", *options)), "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def full_disk(folder: Path, expected: pgsom.Result) -> list[str]:
    """Filled up to every few KiB before the run, which must say so, and be carried on when there is room."""
    said = []
    for room in range(0, 200, 8):
        with small_disk(folder, 512) as disk:
            filler = disk / "filler"
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                for _ in range(512 - room):
                    file.write(b"x" * 1024)
            run = disk / "run"
            try:
                begun(run)
                outcome = "there was room"
            except (InputError, RunError) as error:
                outcome = "said so" if "No space left on device" in str(error) else f"WRONG: {error}"
            except Exception as error:
                outcome = f"WRONG: {error!r}"
            filler.unlink()
            found = difference(carried_on(run), expected)
            said.append(outcome if not found else f"WRONG: {found} differs when carried on")
        folder.rmdir()
    return said


def resident() -> float:
    """Memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def memory_over(
    run: Path, environment: str, updates: int, *, seconds: float = float("inf"), warm: float = 0.0
) -> tuple[list[float], int]:
    """Resident MiB from `warm` seconds after the beginning to the end, and the updates made."""
    samples: list[float] = []
    started = time.monotonic()

    def after_chunk(progress: pgsom.Progress) -> bool:
        elapsed = time.monotonic() - started
        if elapsed > warm:
            samples.append(resident())
        return elapsed > seconds

    options = {"updates": updates, "hidden": (16,), "checkpoint_seconds": 5}
    result = pgsom.train(environment, "reinforce", out=run, callback=after_chunk, **options)
    return samples, result.updates


def cost(run: Path, repeats: int, updates: int, environment: str = "CartPole-v1") -> list[float]:
    """Seconds with the run kept over seconds without, in pairs of alternating order."""
    options = {"hidden": (64, 64), "seeds": 4, "updates": updates}
    ratios = []
    pgsom.train(environment, "pg-som", **options | {"updates": 20})
    for repeat in range(repeats):
        spent = {}
        for kept in (True, False) if repeat % 2 else (False, True):
            began = time.perf_counter()
            keeping = {"out": run / str(repeat), "checkpoint_seconds": 2.0} if kept else {}
            result = pgsom.train(environment, "pg-som", **options, **keeping)
            spent[kept] = time.perf_counter() - began - result.compile_seconds
        ratios.append(spent[True] / spent[False])
        print(f"  {spent[False]:.2f} s without, {spent[True]:.2f} with", flush=True)
    return ratios
