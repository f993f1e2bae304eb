"""Runs among others: second writers, readers, disks that are full or closed, clocks that go back, signals."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import pgsom
from pgsom.checks import InputError, RunError
from pgsom.cli.main import main
from pgsom.runs import files
from pgsom.runs.checkpoint import entries
from pgsom.runs.driver import engine_for
from pgsom.runs.folder import Keeping, standing
from pgsom.runs.lock import LOCK, Holder, Lock, living_holder
from pgsom.runs.store import rebuilt
from tests.faults.kills import PROGRAM, Config
from tests.faults.living import memory_over, read_while_written
from tests.faults.small_run import begun, carried_on, difference, rows_difference, stopped, uninterrupted


@pytest.fixture(scope="module", name="whole")
def _whole() -> pgsom.Result:
    return uninterrupted()


# --- two writers -------------------------------------------------------------------------------------------------


def test_the_second_writer_is_told_who_holds_the_run(
    whole: pgsom.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    stopped(run)
    said = []

    def second(progress: pgsom.Progress) -> None:
        said.append((main(["resume", str(run)]), capsys.readouterr().err))
        with pytest.raises(InputError, match="held by process"):
            whole.save(run)

    assert difference(pgsom.resume(run, callback=second), whole) == ""
    code, line = said[0]
    assert code == 2
    assert line.startswith(f"pgsom resume: {run}: held by process {os.getpid()} on {socket.gethostname()} since 20")
    assert living_holder(run) is None and not (run / LOCK).exists()


def test_the_lock_of_a_dead_process_is_taken_over(whole: pgsom.Result, tmp_path: Path) -> None:
    run = tmp_path / "run"
    stopped(run)
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead = Holder(ended.pid, socket.gethostname(), "2026-01-01 00:00:00", "1")
    (run / LOCK).write_text(json.dumps(dead._asdict()))
    assert living_holder(run) is None and standing(run).state == "interrupted"
    # The same number, another process.
    (run / LOCK).write_text(json.dumps(dead._replace(pid=os.getpid())._asdict()))
    assert living_holder(run) is None
    with Lock(run) as lock:
        assert lock.abandoned == dead._replace(pid=os.getpid())
        assert living_holder(run) is not None
    assert difference(pgsom.resume(run), whole) == ""


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"pid": "x"}', b'{"pid": 1e999}'])
def test_a_lock_that_says_nonsense_is_no_lock(content: bytes, tmp_path: Path) -> None:
    (tmp_path / LOCK).write_bytes(content)
    assert living_holder(tmp_path) is None
    with Lock(tmp_path):
        pass


def test_a_lock_that_cannot_be_signed_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"), Lock(tmp_path):
            pass
    with Lock(tmp_path):
        pass


# --- readers -----------------------------------------------------------------------------------------------------


def test_readers_see_whole_rows_while_a_run_is_written(tmp_path: Path) -> None:
    """Twelve of them; ``make faults`` has 200."""
    count, wrong = read_while_written(tmp_path / "run", 12, 60)
    assert wrong == [] and count > 24


# --- disks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 2, 5, 11, 16])
def test_a_full_disk_is_said_and_the_run_carried_on(
    room: int, whole: pgsom.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every write fails after the first few. On a disk that is really full: ``make faults``."""
    run, written, sync = tmp_path / "run", [], os.fsync

    def full(handle: int) -> None:
        written.append(handle)
        if len(written) > room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises((InputError, RunError), match="No space left on device"):
        begun(run)
    monkeypatch.undo()
    assert not list(run.rglob("*.part"))
    assert difference(carried_on(run), whole) == "" and rows_difference(run, whole) == ""


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_cannot_be_written_to_is_refused(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    stopped(run)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    real = os.open

    def closed(path: str, flags: int, *more: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR) and str(path).startswith(str(run)):
            raise OSError(number, os.strerror(number))
        return real(path, flags, *more)

    monkeypatch.setattr(files.os, "open", closed)
    for command in (["resume", str(run)], ["train", "--env", "three-state", "--out", str(run), "--overwrite"]):
        assert main([*command, "--quiet", "--evaluate", "0"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"out={str(run)!r}: cannot be written ({os.strerror(number)})" in line
    assert pgsom.load(run).updates >= 1
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


# --- time --------------------------------------------------------------------------------------------------------


def test_a_clock_that_goes_back_changes_nothing(
    whole: pgsom.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = iter(range(10**6, 0, -1))
    real = time.localtime

    def back(seconds: float | None = None) -> time.struct_time:
        return real(next(hours) * 3600.0 if seconds is None else seconds)

    monkeypatch.setattr(time, "time", lambda: next(hours) * 3600.0)
    monkeypatch.setattr(time, "strftime", lambda form, when=None, format_=time.strftime: format_(form, when or back()))
    run = tmp_path / "run"
    stopped(run)
    assert difference(pgsom.resume(run), whole) == ""
    assert difference(pgsom.load(run), whole) == ""


def test_checkpoints_follow_the_clock_and_the_best_stays(tmp_path: Path) -> None:
    run = tmp_path / "run"
    kept = pgsom.train(
        "two-armed-bandit", "reinforce", updates=40, learning_rate=0.5, out=run, checkpoint_updates=4, keep=2
    )
    listed = entries(run)
    assert [entry.updates for entry in listed[:2]] == [40, 36] and len(listed) <= 3
    by_checkpoint = np.asarray(kept.metrics.episode_return).reshape(10, 4).mean(axis=1)
    assert by_checkpoint.max() in [by_checkpoint[entry.updates // 4 - 1] for entry in listed]
    assert pgsom.load(run, checkpoint="best").updates == 40
    fast = tmp_path / "fast"
    limit = time.monotonic() + 60

    def enough(progress: pgsom.Progress) -> bool:
        return len(entries(fast)) > 2 or time.monotonic() > limit

    options = {"updates": 10**7, "checkpoint_seconds": 0.05, "keep": 100}
    pgsom.train("two-armed-bandit", "reinforce", out=fast, callback=enough, **options)
    assert len(entries(fast)) > 2
    with pytest.raises(InputError, match="checkpoint_seconds=0: accepted is a number > 0"):
        Keeping(seconds=0)


def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    """Seconds of it; ten minutes: ``make faults``."""
    samples, updates = memory_over(tmp_path / "run", "three-state", 12_000)
    assert updates == 12_000 and samples[-1] <= 1.05 * samples[len(samples) // 3]


def test_a_chunk_of_another_length_compiles_nothing(whole: pgsom.Result, caplog: pytest.LogCaptureFixture) -> None:
    """Each program that is compiled stays in memory, and the lengths of chunks follow the clock."""
    engine = engine_for(rebuilt(whole.settings))
    state = engine.start()
    engine.advance(state, 1)
    with jax.log_compiles():
        for count in range(2, 8):
            rows = engine.advance(state, count)[1]
            assert rows.episode_return.shape == (2, count)
            assert all(np.asarray(leaf).base is None for leaf in rows), "it would keep the rows of all the program"
    assert [record.getMessage() for record in caplog.records if "ompil" in record.getMessage()] == []


# --- signals -----------------------------------------------------------------------------------------------------


def test_killed_then_terminated_then_carried_on(tmp_path: Path) -> None:
    """50 times, over methods and kinds of environments: ``make faults``."""
    config = Config("three-state", "reinforce", 6_000, {"learning_rate": 0.5})
    run = tmp_path / "run"
    for number in (signal.SIGKILL, signal.SIGTERM):
        before = standing(run).updates if run.is_dir() else 0
        process = subprocess.Popen([*PROGRAM, "train", *config.words(run)], stderr=subprocess.PIPE, text=True)
        while process.poll() is None and (not run.is_dir() or standing(run).updates <= before):
            time.sleep(0.01)
        process.send_signal(number)
        sent = time.monotonic()
        said = process.communicate(timeout=60)[1]
        if number == signal.SIGTERM:
            assert process.returncode == 130, said
            assert time.monotonic() - sent < 10, "two seconds on a machine that is not busy otherwise"
            assert f"updates; saved in {run}" in said.splitlines()[-1]
        else:
            assert process.returncode == -signal.SIGKILL
            assert standing(run).state == "interrupted", "nobody holds it"
    result = pgsom.resume(run)
    whole = config.uninterrupted()
    assert difference(result, whole) == "" and rows_difference(run, whole) == ""


CLOSES_SLOWLY = """
import os, signal, sys, time
from pgsom.cli.interrupt import Interrupt

with Interrupt(lambda: None, lambda: "saved", kept=sys.argv[1] == "kept") as interrupt:
    os.kill(os.getpid(), signal.SIGTERM)
    interrupt.reached()
    time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("kept", "seconds", "code", "said"), [("kept", "60", 130, "saved\n"), ("not kept", "2.5", 0, "")]
)
def test_a_kept_run_that_takes_long_to_close_is_left_as_it_is(kept: str, seconds: str, code: int, said: str) -> None:
    """All that counts is on the disk by then; of a run that is not kept, what is printed is all there is."""
    program = [sys.executable, "-c", CLOSES_SLOWLY, kept, seconds]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=50)
    assert (ended.returncode, ended.stderr) == (code, said)
