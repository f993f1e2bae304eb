"""Updates that were left out, in words."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pgsom.diagnosis import quantities_of
from pgsom.training import Metrics


class Failure(NamedTuple):
    """An update that was left out, and what in it was not finite, the cause first."""

    seed: int
    update: int
    """Counted from 0, as in the table of metrics."""
    quantities: tuple[str, ...]

    def __str__(self) -> str:
        return f"update {self.update:,} of seed {self.seed} was left out; not finite: {', then '.join(self._named())}"

    def _named(self) -> list[str]:
        cause, *later = self.quantities
        return [cause, ", ".join(later)] if later else [cause]


def failures_of(metrics: Metrics, seeds: Sequence[int], *, before: int = 0) -> tuple[Failure, ...]:
    """The first failure of every seed that has one, the earliest first; `before` rows precede these."""
    skipped, bits = np.asarray(metrics.skipped), np.asarray(metrics.not_finite)
    firsts = sorted((int(np.argmax(row)), place) for place, row in enumerate(skipped > 0) if row.any())
    return tuple(
        Failure(seeds[place], before + first, quantities_of(int(bits[place, first]))) for first, place in firsts
    )
