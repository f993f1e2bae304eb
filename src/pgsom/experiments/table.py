"""Table 1 side by side: the printed cells, and what many seeds say of them."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgsom.experiments.blocks import Trained
from pgsom.experiments.printed import PRINTED, RUNS, Variant
from pgsom.statistics import bootstrap_mean

RESAMPLES = 20_000


class Row(NamedTuple):
    """One cell in one reading; columns of ``table1.csv``."""

    protocol: str
    method: str
    stabiliser: str
    reading: str
    seeds: int
    mean: float
    std: float
    ci_low: float
    ci_high: float
    five_run_mean_low: float
    five_run_mean_high: float
    five_run_std_low: float
    five_run_std_high: float
    printed_mean: float
    printed_std: float
    episodes: float
    env_steps: float

    @property
    def mean_is_in_band(self) -> bool:
        """Whether five runs of ours would show a mean like the printed one in 95 of 100 cases."""
        return self.five_run_mean_low <= self.printed_mean <= self.five_run_mean_high

    @property
    def std_is_in_band(self) -> bool:
        """The same for the standard deviation."""
        return self.five_run_std_low <= self.printed_std <= self.five_run_std_high

    @property
    def variant(self) -> Variant:
        """Which cell, in which reading."""
        return Variant(self.method, self.stabiliser, self.reading)


def table(protocol: str, trained: Mapping[Variant, Trained]) -> list[Row]:
    """A row for each variant that the paper's table has, from its scores at the last evaluation.

    The standard deviation is the population's.
    """
    rows = []
    for variant, outcome in trained.items():
        if (variant.method, variant.stabiliser) not in PRINTED:
            continue
        scores = outcome.scores[:, -1].astype(np.float64)
        interval = bootstrap_mean(scores)
        means, stds = five_run_bands(scores)
        rows.append(
            Row(
                protocol,
                *variant,
                len(scores),
                float(interval.mean),
                float(scores.std()),
                float(interval.low),
                float(interval.high),
                *means,
                *stds,
                *PRINTED[variant.method, variant.stabiliser],
                float(outcome.episodes[-1]),
                float(outcome.env_steps[:, -1].mean()),
            )
        )
    return rows


def five_run_bands(scores: NDArray[np.float64]) -> tuple[tuple[float, float], tuple[float, float]]:
    """The 95 % bands in which mean and standard deviation of five runs fall, drawn from these seeds."""
    drawn = np.random.default_rng(0).choice(scores, size=(RESAMPLES, RUNS))
    bands = [np.quantile(statistic, (0.025, 0.975)) for statistic in (drawn.mean(axis=1), drawn.std(axis=1))]
    return tuple((float(low), float(high)) for low, high in bands)  # type: ignore[return-value]
