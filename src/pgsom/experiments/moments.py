"""Expectation and variance of what one trajectory says, and the same from episodes really played."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgsom.curvature import Estimator, Hutchinson, make_estimator
from pgsom.experiments.listing import KnownBaseline, Listing, Matrix, matrix_of_each, observed, play, values_of_each
from pgsom.objective import LocalObjective, Weighting
from pgsom.returns import Discounting

DRAWS = 8
"""How often a random estimator is asked about each trajectory."""
TOLERANCE = 1e-9
"""What counts as equal, relative to the larger of 1 and the truth's size."""
GRADIENT = "gradient"
"""Beside the estimators' names: the policy gradient itself."""


class Moments(NamedTuple):
    """Of an estimate made from one trajectory, entry by entry [S, A]."""

    expectation: Matrix
    variance: Matrix
    negative: float
    """How likely an entry of the estimate is negative, averaged over the entries that matter (`Listing.matters`)."""
    exact: bool
    """Whether no randomness is left; where an estimator draws numbers of its own, `DRAWS` of them stand for all."""
    uncertain: Matrix | float = 0.0
    """The variance of `expectation` that is due to these draws."""

    @property
    def total_variance(self) -> float:
        """Σ of the entries' variances."""
        return float(self.variance.sum())

    @property
    def trajectories_needed(self) -> float:
        """n with ‖E X‖² = Σ Var X / n: signal-to-noise 1 for the whole vector; ∞ where there is no signal."""
        return _ratio(self.total_variance, float(np.square(self.expectation).sum()))

    @property
    def trajectories_needed_by_entry(self) -> Matrix:
        """The same for each entry alone."""
        return np.vectorize(_ratio, otypes=[float])(self.variance, np.square(self.expectation))


def quantity_of(name: str) -> Estimator | None:
    """None stands for the gradient."""
    return None if name == GRADIENT else make_estimator(name)


def moments_of(
    listing: Listing, quantity: Estimator | None, baseline: str = "none", discounting: Discounting = "lemma"
) -> Moments:
    """Of the gradient (None), or of an estimator's diagonal, from one trajectory."""
    return moments_from(listing, *each_trajectory(listing.objective(baseline, discounting), quantity))


def moments_from(listing: Listing, values: Matrix, spread: Matrix, exact: bool) -> Moments:
    """Of values [trajectory, D], with what varies given the trajectory."""
    p = listing.probability
    expectation = p @ values
    variance = p @ np.square(values - expectation) + p @ spread
    # What is left of a constant after rounding.
    variance = np.where(variance <= 1e-24 * np.square(expectation), 0.0, variance)
    shape = listing.problem.theta.shape
    negative = float((p @ (values < 0))[listing.matters.ravel()].mean())
    uncertain = 0.0 if exact else (np.square(p) @ spread / DRAWS).reshape(shape)
    return Moments(expectation.reshape(shape), variance.reshape(shape), negative, exact, uncertain)


def each_trajectory(objective: LocalObjective, quantity: Estimator | None) -> tuple[Matrix, Matrix, bool]:
    """The estimate from each trajectory [trajectory, D], its variance given the trajectory, and if both are exact.

    Hutchinson's is known: diag H, with Σ_{j≠i} H_ij² / k. Any other estimator that gives another value with another
    key is asked `DRAWS` times.
    """
    if isinstance(quantity, Hutchinson):
        values, off_diagonal = (np.asarray(x) for x in matrix_of_each(objective, quantity.of))
        return values, off_diagonal / quantity.probes, True
    first, second = (np.asarray(values_of_each(objective, quantity, jax.random.key(i))) for i in range(2))
    if np.array_equal(first, second):
        return first, np.zeros_like(first), True
    more = [np.asarray(values_of_each(objective, quantity, jax.random.key(i))) for i in range(2, DRAWS)]
    drawn = np.stack([first, second, *more])
    return drawn.mean(axis=0), drawn.var(axis=0, ddof=1), False


class Played:
    """Episodes really played, without a baseline."""

    def __init__(self, listing: Listing, episodes: int, seed: int):
        self.episodes, self.shape = episodes, listing.problem.theta.shape
        self.key, play_key, observe_key = jax.random.split(jax.random.key(seed), 3)
        mdp, policy, params = listing.problem.mdp, listing.policy, listing.params
        rollout = play(mdp, policy, params, play_key, episodes)
        weighting = Weighting(jnp.asarray(mdp.discount), KnownBaseline(jnp.zeros(())), 0.0, "lemma", "sum")
        share = jnp.full(episodes, 1 / episodes)
        self.objective = observed(weighting, policy, params, rollout, share, observe_key)

    def mean(self, quantity: Estimator | None) -> Matrix:
        """Of what each episode says alone [S, A]."""
        return np.asarray(values_of_each(self.objective, quantity, self.key)).mean(axis=0).reshape(self.shape)


def sampled_mean(listing: Listing, quantity: Estimator | None, episodes: int, *, seed: int = 0) -> Matrix:
    """The mean [S, A] over episodes really played, estimated as in training, without a baseline."""
    return Played(listing, episodes, seed).mean(quantity)


def z_scores(mean: Matrix, moments: Moments, episodes: int) -> Matrix:
    """(mean − E) / √(Var / n) entry by entry; where nothing varies, 0 if both agree and else ∞."""
    error, noise = mean - moments.expectation, np.sqrt(moments.variance / episodes + moments.uncertain)
    tiny = TOLERANCE * max(1.0, float(np.abs(moments.expectation).max()))
    still = np.where(np.abs(error) <= tiny, 0.0, np.inf)
    return np.where(noise <= tiny, still, error / np.where(noise > 0, noise, 1))


def _ratio(noise: float, signal: float) -> float:
    """Noise over signal; a signal of the size of rounding is none."""
    if signal <= 1e-24 * (noise + signal):
        return float("inf") if noise > 0 else 0.0
    return noise / signal
