"""How far a run is, on stderr."""

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol

from pgsom.runs import Progress

SECONDS_BETWEEN_LINES = 5.0


class Reporter(Protocol):
    """Where progress is shown."""

    def stage(self, name: str) -> None:
        """Say what begins."""
        ...

    def advance(self, progress: Progress) -> None:
        """Show how far training is."""
        ...


class Silent:
    """Nowhere."""

    def stage(self, name: str) -> None:
        del name

    def advance(self, progress: Progress) -> None:
        del progress


class Lines:
    """Now and then a line, for files and pipes; none before training has begun, as its input may yet be wrong."""

    def __init__(self) -> None:
        self._last: float | None = None

    def stage(self, name: str) -> None:
        if self._last is not None:
            print(name, file=sys.stderr, flush=True)

    def advance(self, progress: Progress) -> None:
        now = time.monotonic()
        if self._last is None or now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            print(describe(progress), file=sys.stderr, flush=True)


class Bar:
    """A bar that moves, for terminals; `rich` is the `rich.progress.Progress` it is drawn with."""

    def __init__(self, rich: Any) -> None:
        self._rich = rich
        self._task = rich.add_task("", total=None, numbers="")

    def stage(self, name: str) -> None:
        self._rich.update(self._task, description=name, numbers="")
        self._rich.reset(self._task, total=None)

    def advance(self, progress: Progress) -> None:
        self._rich.update(
            self._task,
            description="training",
            total=progress.total_updates,
            completed=progress.updates,
            numbers=describe(progress),
        )


def describe(progress: Progress) -> str:
    """Episodes, return, speed and time left; and how many seeds are frozen, if any."""
    total = progress.episodes * progress.total_updates // progress.updates
    minutes, seconds = divmod(round(progress.seconds_left), 60)
    return (
        f"{progress.episodes:,} of {total:,} episodes · mean return {progress.mean_return:.4g}"
        f" · {progress.steps_per_second:,.0f} steps/s · {minutes}:{seconds:02d} left{_frozen(progress)}"
    )


def _frozen(progress: Progress) -> str:
    # A column of the last update; nothing has been imported for it.
    frozen = int((progress.chunk.frozen[:, -1] > 0).sum()) if progress.chunk is not None else 0
    return f" · {frozen:,} of {len(progress.chunk.frozen):,} seeds frozen" if frozen else ""


@contextlib.contextmanager
def reporter(*, silent: bool) -> Iterator[Reporter]:
    """What suits stderr; cleared away at the end."""
    if silent:
        yield Silent()
    elif not sys.stderr.isatty():
        yield Lines()
    else:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TextColumn
        from rich.progress import Progress as RichProgress

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[numbers]}"),
        )
        with RichProgress(*columns, console=Console(stderr=True), transient=True) as rich:
            yield Bar(rich)
