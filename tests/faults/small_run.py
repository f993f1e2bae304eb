"""A run that is small enough to be made a thousand times, and what it must end with."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

import pgsom
from pgsom.runs.folder import SETTINGS
from pgsom.runs.rows import read_rows

UPDATES, EVERY, STOP = 12, 3, 6
ENVIRONMENT, METHOD = "three-state", "reinforce"
OPTIONS: dict[str, Any] = {"seeds": 2, "updates": UPDATES, "learning_rate": 0.5, "baseline": "moving-average"}


def uninterrupted() -> pgsom.Result:
    return pgsom.train(ENVIRONMENT, METHOD, **OPTIONS)


def begun(run: Path, **changes: Any) -> pgsom.Result:
    """The run in a folder, to its end, with a checkpoint every few updates."""
    return pgsom.train(ENVIRONMENT, METHOD, out=run, checkpoint_updates=EVERY, **OPTIONS | changes)


def stopped(run: Path) -> pgsom.Result:
    """The same, stopped in the middle."""
    return begun(run, callback=lambda progress: progress.updates >= STOP)


def carried_on(run: Path) -> pgsom.Result:
    """To its end; from the beginning if it was killed before it had settings."""
    return pgsom.resume(run) if (run / SETTINGS).exists() else begun(run, resume="auto")


def difference(one: pgsom.Result, other: pgsom.Result) -> str:
    """The first array in which parameters or metrics of two runs differ in a bit; empty if none does."""
    for name in ("params", "metrics"):
        leaves = [jax.tree_util.tree_leaves_with_path(getattr(result, name)) for result in (one, other)]
        for (path, mine), (_, theirs) in zip(*leaves, strict=True):
            first, second = np.asarray(mine), np.asarray(theirs)
            if first.dtype != second.dtype or first.shape != second.shape or first.tobytes() != second.tobytes():
                return f"{name}{jax.tree_util.keystr(path)}"
    return ""


def rows_difference(run: Path, result: pgsom.Result) -> str:
    """In which metric the rows on disk are not those of the run, each once; empty if none."""
    rows = read_rows(run, len(result.seeds))
    if rows.damaged:
        return "; ".join(rows.damaged)
    for name, mine, theirs in zip(rows.metrics._fields, rows.metrics, result.metrics, strict=True):
        if np.asarray(mine).tobytes() != np.asarray(theirs).tobytes():
            return name
    parts = [(part.first, part.last) for part in rows.parts]
    listed = [path.name for path in (run / "metrics").iterdir()]
    return "" if len(parts) == len(listed) else f"{len(listed)} files for {parts}"
