"""Intervals for means over seeds, with an explicit random generator."""

from typing import NamedTuple

import numpy as np
import scipy.stats
from numpy.typing import ArrayLike, NDArray


class Interval(NamedTuple):
    """A mean and the interval around it, entry by entry."""

    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def bootstrap_mean(
    samples: ArrayLike, *, level: float = 0.95, resamples: int = 2000, generator: np.random.Generator | None = None
) -> Interval:
    """The mean over the first axis (seeds) with its percentile bootstrap interval; one sample has no width to show.

    With few seeds percentiles are too narrow (5 normal samples: 84 % coverage for 95 %); they are widened by
    √(n/(n−1)) t/z, which makes the interval Student's where the data are normal. Seeds are resampled whole: entries
    of one seed stay together. The default generator is seeded, so the same samples give the same interval.
    """
    values = np.asarray(samples, dtype=np.float64)
    draw = np.random.default_rng(0) if generator is None else generator
    seeds = values.shape[0]
    mean = values.mean(axis=0)
    if seeds == 1:
        return Interval(mean, mean, mean)
    counts = draw.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
    means = np.tensordot(counts, values, axes=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2], axis=0)
    upper = (1 + level) / 2
    wider = np.sqrt(seeds / (seeds - 1)) * scipy.stats.t.ppf(upper, seeds - 1) / scipy.stats.norm.ppf(upper)
    return Interval(mean, mean - wider * (mean - low), mean + wider * (high - mean))


def interquartile_mean(samples: ArrayLike) -> NDArray[np.float64]:
    """The mean over the first axis without its lowest and highest quarter, ⌊n/4⌋ samples each."""
    return np.asarray(scipy.stats.trim_mean(np.asarray(samples, dtype=np.float64), 0.25, axis=0))
