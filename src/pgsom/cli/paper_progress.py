"""How far ``pgsom paper`` is: a line for every variant, with its score so far and the time left, on stderr."""

import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgsom.experiments.blocks import Cell
    from pgsom.experiments.printed import Variant

SECONDS_BETWEEN_LINES = 5.0


class Board:
    """What is known of a stage: for every variant the share that is done, and its score. Says nothing itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.stage = ""
        self._clear()

    def _clear(self) -> None:
        self.shares: dict[Cell, float] = {}
        self.scores: dict[Variant, float] = {}
        self.reused = 0
        self.started: float | None = None

    def begin(self, protocol: str, stage: str, cells: "Sequence[Cell]") -> None:
        with self._lock:
            self._clear()
            self.stage = f"{protocol}, {stage}"
            self.shares = dict.fromkeys(cells, 0.0)
            self.started = time.monotonic()
        self.show(begun=True)

    def advance(self, cell: "Cell", share: float, score: float) -> None:
        with self._lock:
            self.shares[cell] = share
            self.scores[cell.variant] = score
        self.show()

    def kept(self, cell: "Cell") -> None:
        with self._lock:
            self.shares[cell] = 1.0
            self.reused += 1

    def share_of(self, variant: "Variant") -> float:
        """How much of a variant is done."""
        own = [share for cell, share in self.shares.items() if cell.variant == variant]
        return sum(own) / len(own)

    @property
    def variants(self) -> "list[Variant]":
        """In their order."""
        return list(dict.fromkeys(cell.variant for cell in self.shares))

    @property
    def share(self) -> float:
        """Of the whole stage."""
        return sum(self.shares.values()) / max(1, len(self.shares))

    @property
    def time_left(self) -> str:
        """By what the done part took; parts that were there already took nothing."""
        fresh = self.share * len(self.shares) - self.reused
        to_do = len(self.shares) - self.reused
        if self.started is None or fresh <= 0.02 * to_do:
            return "–:––"
        minutes, seconds = divmod(round((time.monotonic() - self.started) * (to_do / fresh - 1)), 60)
        return f"{minutes}:{seconds:02d}"

    def show(self, *, begun: bool = False) -> None:
        """Nothing is shown."""

    def close(self) -> None:
        """Nothing to clear away."""


class Lines(Board):
    """A line now and then, for files and pipes."""

    def __init__(self) -> None:
        super().__init__()
        self._first, self._last = time.monotonic(), float("-inf")

    def show(self, *, begun: bool = False) -> None:
        now = time.monotonic()
        if not begun and now - self._last < SECONDS_BETWEEN_LINES and self.share < 1:
            return
        self._last = now
        latest = ", ".join(f"{v.label} {self.scores[v]:.0f}" for v in self.variants if 0 < self.share_of(v) < 1)
        said = f"{now - self._first:5.0f} s  {self.stage}: {self.share:4.0%}, {self.time_left} left"
        print(f"{said}{'; ' + latest if latest else ''}", file=sys.stderr, flush=True)


class Bars(Board):
    """A bar for each variant, for terminals."""

    def __init__(self, rich: Any) -> None:
        super().__init__()
        self._rich = rich
        self._tasks: dict[Any, Any] = {}
        rich.start()

    def show(self, *, begun: bool = False) -> None:
        if begun:
            for task in self._tasks.values():
                self._rich.remove_task(task)
            self._tasks = {v: self._rich.add_task(v.label, total=1.0, numbers="") for v in self.variants}
            self._tasks[""] = self._rich.add_task(self.stage, total=1.0, numbers="")
        for variant, task in self._tasks.items():
            if variant == "":
                self._rich.update(task, completed=self.share, numbers=f"{self.time_left} left")
            else:
                score = f"score {self.scores[variant]:.1f}" if variant in self.scores else ""
                self._rich.update(task, completed=self.share_of(variant), numbers=score)

    def close(self) -> None:
        self._rich.stop()


def board(*, silent: bool) -> Board:
    """What suits stderr."""
    if silent:
        return Board()
    if not sys.stderr.isatty():
        return Lines()
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[numbers]}"))
    return Bars(Progress(*columns, console=Console(stderr=True), transient=True))
