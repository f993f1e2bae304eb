"""Side-by-side timing: the contestants take turns, so that a noisy minute hits them all alike."""

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax


class Ratio(NamedTuple):
    """Median over rounds of the time of one contestant over the reference's, with the quartiles."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:6.2f}×  [{self.low:.2f}, {self.high:.2f}]"


class Timing(NamedTuple):
    seconds: float
    ratio: Ratio
    least: float
    """The least time over the reference's least: what is left of the ratio on a machine with other work to do."""


def side_by_side(contestants: dict[str, Callable[[], Any]], reference: str, rounds: int = 31) -> dict[str, Timing]:
    """Time each contestant once a round, in turn; ratios are taken within rounds."""
    for call in contestants.values():
        jax.block_until_ready(call())
        jax.block_until_ready(call())
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, call in contestants.items():
            started = time.perf_counter()
            jax.block_until_ready(call())
            times[name].append(time.perf_counter() - started)
    return {
        name: Timing(statistics.median(own), ratio_of(own, times[reference]), min(own) / min(times[reference]))
        for name, own in times.items()
    }


def ratio_of(numerators: list[float], denominators: list[float]) -> Ratio:
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    low, median, high = statistics.quantiles(ratios, n=4)
    return Ratio(median, low, high)
