"""How the runs in a folder stand, told from their files alone: nothing is rebuilt, nothing waited for."""

import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pgsom.checks import InputError, wrong
from pgsom.runs.files import DamageError
from pgsom.runs.folder import FINISHED, SETTINGS, Written, is_run, plain, read_settings, sealed, standing
from pgsom.runs.rows import Rows, read_rows

DAMAGED = "damaged"
DEEPEST = 6
"""Folders below the one that is looked through."""
SHARE = 0.1
"""Of the updates made, whose mean is the last return."""


@dataclass(frozen=True)
class Overview:
    """A run in a line."""

    folder: str
    state: str
    """running, interrupted, failed, finished or damaged."""
    environment: str | None
    method: str | None
    seeds: int
    updates: int
    planned_updates: int
    last_return: float | None
    """Mean over the seeds that have one, of the last tenth of the updates made."""
    age_seconds: float
    """Since something was last written."""
    held_by: str | None
    problems: tuple[str, ...]
    """Sentences on what is damaged."""


def find_runs(folder: Path) -> list[Path]:
    """The runs in a folder and the folders below it, or the folder itself; links are not followed."""
    if not folder.is_dir():
        raise wrong("folder", str(folder), "no such folder; accepted is one with runs in it")
    return sorted(_runs_in(folder, 0))


def overview(run: Path) -> Overview:
    """How the run stands; never fails, whatever is in the folder."""
    problems: list[str] = []
    written = _tried(lambda: read_settings(run), problems)
    now = _tried(lambda: standing(run), problems)
    seeds = len(written.settings.seeds) if written else 0
    rows = _tried(lambda: read_rows(run, seeds), problems) if seeds else None
    problems += rows.damaged if rows else ()
    state = now.state if now else DAMAGED
    if state == FINISHED and not problems and not sealed(run):
        problems.append(f"{run}: a file is not as it was written (sha256sum --check says which)")
    return Overview(
        folder=str(run),
        state=DAMAGED if problems else state,
        environment=written.settings.environment if written else None,
        method=written.settings.method if written else None,
        seeds=seeds,
        updates=now.updates if now else 0,
        planned_updates=written.settings.updates if written else 0,
        last_return=last_return(rows) if rows else None,
        age_seconds=max(0.0, time.time() - _newest(run)),
        held_by=str(now.holder) if now and now.holder else None,
        problems=tuple(problems),
    )


def details(run: Path) -> dict[str, Any]:
    """`overview` with the settings, and what the summary says if the run has one."""
    if not run.is_dir() or not is_run(run):
        raise wrong("run", str(run), f"accepted is the folder of a run, with {SETTINGS} in it")
    unheard: list[str] = []
    written: Written | None = _tried(lambda: read_settings(run), unheard)
    now = _tried(lambda: standing(run), unheard)
    return asdict(overview(run)) | {
        "settings": plain(asdict(written.settings)) if written else None,
        "versions": written.versions if written else None,
        "summary": now.summary if now else {},
    }


def last_return(rows: Rows) -> float | None:
    """Of the last tenth of the rows there are; None if they hold no return."""
    returns = np.asarray(rows.metrics.episode_return, float)
    count = returns.shape[1]
    last = returns[:, count - max(1, round(SHARE * count)) :] if count else returns
    known = last[np.isfinite(last)]
    return float(known.mean()) if known.size else None


def _runs_in(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
    elif depth < DEEPEST:
        try:
            inner = [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for path in inner:
            if not path.name.startswith("."):
                yield from _runs_in(path, depth + 1)


def _newest(run: Path) -> float:
    times = [0.0]
    for folder in (run, run / "metrics", run / "checkpoints"):
        try:
            times += [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(folder)]
        except OSError:
            continue
    return max(times)


def _tried(read: Any, problems: list[str]) -> Any:
    """What is read; None, and a sentence on it, if it cannot be."""
    try:
        return read()
    except DamageError as error:
        problems.append(str(error))
    except (InputError, OSError, ValueError, KeyError, TypeError) as error:
        problems.append(f"{type(error).__name__}: {error}")
    return None
