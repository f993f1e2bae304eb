"""What a run leaves on the disk while it goes on: a sink that writes beside the training, not in its way."""

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgsom.runs.checkpoint import Checkpoint, prune, write_checkpoint
from pgsom.runs.driver import Carried, Chunk, Stand
from pgsom.runs.files import refused
from pgsom.runs.folder import Keeping
from pgsom.runs.rows import join_neighbours, write_rows
from pgsom.training import Metrics

SECONDS_BETWEEN_ROWS = 2.0
LEAST_SCORE = float("-inf")


class _Job(NamedTuple):
    """Rows to be written, then a checkpoint that stands on them."""

    rows: tuple[int, Metrics] | None
    checkpoint: Checkpoint | None


class Recorder:
    """Rows every few seconds, checkpoints as `Keeping` says; what fails is said by the next call.

    Rows always precede the checkpoint that stands on them, so a checkpoint never lacks rows. Time is the steady
    clock's: setting the calendar back changes nothing.
    """

    def __init__(
        self,
        run: Path,
        seeds: tuple[int, ...],
        keeping: Keeping,
        carried: Callable[[], Carried],
        *,
        settings: str,
        compile_seconds: float,
        scores: dict[str, float],
    ) -> None:
        self._run, self._seeds, self._keeping, self._carried = run, seeds, keeping, carried
        self._settings, self._compile_seconds, self._scores = settings, compile_seconds, scores
        self._first = 0
        self._pending: list[Metrics] = []
        self._returns: list[Any] = []
        self._last: tuple[Chunk, Carried] | None = None
        self._last_rows = self._last_checkpoint = time.monotonic()
        self._jobs: queue.Queue[_Job | None] = queue.Queue(maxsize=2)
        self._error: Exception | None = None
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="pgsom recorder", daemon=True)
        self._thread.start()

    def write(self, chunk: Chunk) -> None:
        """Keep the chunk, and pass on what is due."""
        with self._guard:
            self._check()
            if not self._pending:
                self._first = chunk.first
            self._pending.append(chunk.rows)
            self._returns.append(np.ravel(chunk.rows.episode_return))
            self._last = chunk, dict(self._carried())
            now, every = time.monotonic(), self._keeping.updates
            # By the clock only when the disk has kept up; by updates in any case.
            idle = self._jobs.unfinished_tasks == 0
            by_clock = idle and now - self._last_checkpoint >= self._keeping.seconds
            if by_clock or (every and chunk.last % every == 0):
                self._jobs.put(_Job(self._rows(), self._checkpoint(*self._last)))
            elif idle and now - self._last_rows >= SECONDS_BETWEEN_ROWS:
                self._jobs.put(_Job(self._rows(), None))

    def close(self) -> None:
        """Write all that is left, with a checkpoint at its end."""
        with self._guard:
            if self._thread.is_alive():
                if self._last is not None and self._returns:
                    self._jobs.put(_Job(self._rows(), self._checkpoint(*self._last)))
                self._jobs.put(None)
                self._thread.join()
            self._check()

    def _rows(self) -> tuple[int, Metrics] | None:
        if not self._pending:
            return None
        rows, self._pending = self._pending, []
        self._last_rows = time.monotonic()
        return self._first, Metrics._make(np.concatenate(parts, axis=1) for parts in zip(*rows, strict=True))

    def _checkpoint(self, chunk: Chunk, carried: Carried) -> Checkpoint:
        score, self._returns = _mean(np.concatenate(self._returns)), []
        self._last_checkpoint = time.monotonic()
        stand = Stand(chunk.state, chunk.last, chunk.seconds)
        return Checkpoint(stand, carried, score, self._compile_seconds, self._settings)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                if self._error is None:
                    self._do(job)
            except Exception as error:
                self._error = error
            finally:
                self._jobs.task_done()

    def _do(self, job: _Job) -> None:
        if job.rows is not None:
            write_rows(self._run, *job.rows, self._seeds)
            join_neighbours(self._run, self._seeds)
        if job.checkpoint is not None:
            path = write_checkpoint(self._run, job.checkpoint)
            self._scores[path.name] = job.checkpoint.score
            prune(self._run, self._keeping.last, self._scores)

    def _check(self) -> None:
        if isinstance(self._error, OSError):
            raise refused(self._run, self._error)
        if self._error is not None:
            raise self._error


def _mean(values: NDArray[np.floating]) -> float:
    """Of what is finite; less than anything if nothing is."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if finite.size else LEAST_SCORE
