"""An axis: where it begins and ends, its ticks, and how numbers are written beside it."""

import math
from collections.abc import Iterable
from typing import NamedTuple


class Scale(NamedTuple):
    """A linear axis from `low` to `high`, with round `ticks` on it."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Where on the axis: 0 at its beginning, 1 at its end."""
        return (value - self.low) / (self.high - self.low)


def scale(values: Iterable[float | None], *, margin: float = 0.0) -> Scale:
    """The axis for these values, with this share of their span around them; from zero if they come near it.

    What is not finite does not count, and there is no margin beyond zero.
    """
    finite = [value for value in values if value is not None and math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if 0 < low <= high / 2:
        low = 0.0
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
    around = margin * (high - low)
    low, high = low - around * (low != 0), high + around * (high != 0)
    step, slack = _round_step((high - low) / 6), (high - low) * 1e-9
    first, last = math.ceil((low - slack) / step), math.floor((high + slack) / step)
    return Scale(low, high, tuple(float(f"{k * step:.12g}") for k in range(first, last + 1)))


def written(value: float | None) -> str:
    """A number in few characters: 200, 0.25, 15k, 1.2M."""
    if value is None or not math.isfinite(value):
        return "–"
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= 10 * size or (unit == "M" and abs(value) >= size):
            return f"{_short(value / size)}{unit}"
    return _short(value)


def _short(value: float) -> str:
    """Four figures, and no zeros behind the point."""
    text = f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
    return text.replace("e-0", "e-").replace("-", "−") if value else "0"


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 2.5, 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= least * (1 - 1e-9))
