"""How far a run is, told to whoever wants to know after each chunk of updates."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pgsom.runs.driver import Chunk
from pgsom.runs.plan import Plan
from pgsom.training import Metrics, TrainState


class Progress(NamedTuple):
    """Where a run stands; given to the callback after each chunk of updates."""

    updates: int
    total_updates: int
    episodes: int
    """Episodes of each seed that goes on."""
    env_steps: int
    """Environment steps of all seeds."""
    mean_return: float
    """Over seeds and the chunk's updates, those that have a return; NaN if none has."""
    steps_per_second: float
    seconds_left: float
    chunk: Metrics
    """The chunk's metrics [seed, update of the chunk]."""
    state: TrainState | None = None
    """The training state after the chunk; its leading axis has the seeds, of several methods one after the other."""
    plan: Plan | None = None
    """What is being run."""


Callback = Callable[[Progress], bool | None]


class Report:
    """Tells the callback of each chunk, and whether it asked to stop."""

    def __init__(self, plan: Plan, callback: Callback | None, *, updates: int = 0, env_steps: int = 0) -> None:
        self.plan, self.callback = plan, callback
        self.started = time.perf_counter()
        self._before = (updates, env_steps)

    def __call__(self, chunk: Chunk) -> bool:
        return self.callback is not None and bool(self.callback(self._progress(chunk)))

    def _progress(self, chunk: Chunk) -> Progress:
        elapsed = time.perf_counter() - self.started
        updates, env_steps = self._before
        steps = int(np.asarray(chunk.rows.env_steps)[:, -1].sum())
        returns = np.asarray(chunk.rows.episode_return)
        returns = returns[np.isfinite(returns)]
        return Progress(
            updates=chunk.last,
            total_updates=self.plan.updates,
            episodes=int(np.asarray(chunk.rows.episodes)[:, -1].max()),
            env_steps=steps,
            mean_return=float(returns.mean()) if returns.size else float("nan"),
            steps_per_second=(steps - env_steps) / elapsed,
            seconds_left=elapsed / (chunk.last - updates) * (self.plan.updates - chunk.last),
            chunk=chunk.rows,
            state=chunk.state,
            plan=self.plan,
        )
