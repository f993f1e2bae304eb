"""Intervals for whatever follows from mean learning curves, by resampling seeds.

Every method has the same seeds, so a resample takes the same seeds of all of them.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgsom.experiments.blocks import Trained
from pgsom.experiments.verdicts import Number

RESAMPLES = 2000
Cells = Mapping[tuple[str, str], Trained]
"""Trained variants by (method, stabiliser)."""


class Resampled(NamedTuple):
    """A quantity of the seeds themselves, and of every resample of them."""

    value: NDArray[np.float64]
    resampled: NDArray[np.float64]
    """[resample, …]"""

    def number(self) -> Number:
        """With the percentile interval; an unbounded end is ∞."""
        if np.isnan(self.value):
            return Number(float("nan"), float("nan"), float("nan"))
        known = self.resampled[~np.isnan(self.resampled)]
        low, high = np.quantile(known, (0.025, 0.975), method="nearest")
        return Number(float(self.value), min(float(low), float(self.value)), max(float(high), float(self.value)))

    def map(self, function: "np.ufunc | object", *others: "Resampled") -> "Resampled":
        """The function of both parts."""
        with np.errstate(divide="ignore", invalid="ignore"):
            value = function(self.value, *(other.value for other in others))  # type: ignore[operator]
            resampled = function(self.resampled, *(other.resampled for other in others))  # type: ignore[operator]
        return Resampled(np.asarray(value), np.asarray(resampled))


def mean_score(trained: Trained, at: int | slice = -1) -> Resampled:
    """The mean over seeds at one evaluation, or at all."""
    scores = trained.scores.astype(np.float64)[:, at]
    weights = _weights(len(scores))
    return Resampled(scores.mean(axis=0), np.tensordot(weights, scores, 1))


def spread(trained: Trained) -> Resampled:
    """The standard deviation over seeds at the last evaluation."""
    scores = trained.scores.astype(np.float64)[:, -1]
    weights = _weights(len(scores))
    mean, square = weights @ scores, weights @ np.square(scores)
    return Resampled(scores.std(), np.sqrt(np.maximum(square - np.square(mean), 0)))


def first_reaches(trained: Trained, threshold: float, *, counted: str = "episodes") -> Resampled:
    """Where the mean score first reaches the threshold, between evaluations on a straight line; ∞ if it never does.

    `counted` is updates, episodes or env_steps (the mean over seeds).
    """
    x = np.asarray(getattr(trained, counted), np.float64)
    x = x.mean(axis=0) if x.ndim == 2 else x
    curves = mean_score(trained, slice(None))
    crossings = _crossings(np.concatenate([curves.value[None], curves.resampled]), x, threshold)
    return Resampled(crossings[0], crossings[1:])


def largest(*quantities: Resampled) -> Resampled:
    """The largest of several."""
    return Resampled(np.max([q.value for q in quantities], axis=0), np.max([q.resampled for q in quantities], axis=0))


def smallest(*quantities: Resampled) -> Resampled:
    """The smallest of several."""
    return Resampled(np.min([q.value for q in quantities], axis=0), np.min([q.resampled for q in quantities], axis=0))


def _crossings(curves: NDArray[np.float64], x: NDArray[np.float64], threshold: float) -> NDArray[np.float64]:
    """Of every curve [curve, point]."""
    above = curves >= threshold
    index = np.argmax(above, axis=1)
    row = np.arange(len(curves))
    before = np.maximum(index - 1, 0)
    rise = curves[row, index] - curves[row, before]
    share = np.where(rise > 0, (threshold - curves[row, before]) / np.where(rise > 0, rise, 1), 0)
    place = x[before] + np.clip(share, 0, 1) * (x[index] - x[before])
    return np.where(above.any(axis=1), place, np.inf)


@cache
def _weights(seeds: int) -> NDArray[np.float64]:
    """How often each seed is in each resample, over the number of seeds."""
    drawn = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES)
    return np.asarray(drawn / seeds)
