"""The paper's lemmas, and every estimator, on MDPs small enough to list all trajectories: no sampling error.

The estimators are those that train policies, given a listing (`pgsom.experiments.listing`), so an expectation here is
that of the code which trains. Bias is against ∇J and diag ∇²J of the return Σ_t γ^t r_t, which a recursion over states
gives that knows nothing of trajectories. `study` does all of it in float64; the other functions in the default dtype.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pgsom.checks import check_count, check_known
from pgsom.curvature import ESTIMATORS, Estimator, Hutchinson, LemmaHessian, make_estimator
from pgsom.environments import FiniteMDP, enumerate_trajectories
from pgsom.environments.exact import dynamics_of
from pgsom.experiments.listing import (
    BASELINES,
    KnownBaseline,
    Listing,
    Matrix,
    Truth,
    exact_derivatives,
    expected_matrix,
    list_trajectories,
    log_probability_gradient,
    matrix_of_each,
    observed,
    play,
    trajectory_scores,
    values_of_each,
)
from pgsom.experiments.problems import Problem
from pgsom.objective import LocalObjective, Weighting
from pgsom.returns import DISCOUNTINGS, Discounting
from pgsom.updates import som
from pgsom.updates.som import SHAPES, SecondOrderMomentum

DRAWS = 16
"""How often a random estimator is asked about each trajectory."""
TOLERANCE = 1e-9
"""What counts as equal, relative to the larger of 1 and the truth's size."""
EPISODES = 1_000
"""Really played, for the z-scores."""
GRADIENT = "gradient"
"""Beside the estimators' names: the policy gradient itself."""
SHOWN: tuple[Discounting, ...] = ("lemma", "appendix")


class Moments(NamedTuple):
    """Of an estimate made from one trajectory, entry by entry [S, A]."""

    expectation: Matrix
    variance: Matrix
    negative: float
    """How likely an entry of the estimate is negative, averaged over the entries that matter (`Listing.matters`)."""
    exact: bool
    """Whether no randomness is left; where an estimator draws numbers of its own, `DRAWS` of them stand for all."""

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


class Finding(NamedTuple):
    """What is found of one estimator with one baseline and one way to discount."""

    estimator: str
    baseline: str
    discounting: Discounting
    moments: Moments
    bias: Matrix
    z: Matrix | None
    """Of the mean over episodes really played, entry by entry; only without a baseline, by the lemma's discounting."""

    @property
    def largest_bias(self) -> float:
        """In any entry."""
        return float(np.abs(self.bias).max())

    @property
    def largest_z(self) -> float | None:
        """In any entry; 3 is rare, 5 is an error."""
        return None if self.z is None else float(np.abs(self.z).max())


class Ascent(NamedTuple):
    """Whether dividing by a shaped curvature P still climbs."""

    estimator: str
    shape: str
    inner: float
    """gᵀP⁻¹g with the exact gradient and P of the curvature's expectation (rms: of its second moment)."""
    alignment: float
    """The cosine between P⁻¹g and g."""
    of_one_trajectory: float
    """The cosine between E[ĝ/P̂], both estimated from the same single trajectory, and g."""


@dataclass(frozen=True, eq=False)
class Study:
    """All that is found at one policy of one MDP."""

    listing: Listing
    truth: Truth
    lemma_errors: dict[str, float]
    score_error: float
    findings: tuple[Finding, ...]
    ascents: tuple[Ascent, ...]
    episodes: int

    @property
    def problem(self) -> Problem:
        """Which MDP and policy."""
        return self.listing.problem

    @property
    def trajectories(self) -> int:
        """How many there are."""
        return self.listing.count

    @property
    def tolerance(self) -> float:
        """Up to which numbers are called equal here."""
        return TOLERANCE * max(1.0, float(np.abs(self.truth.hessian).max()))

    @property
    def negative_share(self) -> float:
        """Of the entries of diag ∇²J that matter, how many are negative."""
        return float((self.truth.hessian_diagonal < -self.tolerance)[self.listing.matters].mean())

    @property
    def estimators(self) -> tuple[str, ...]:
        """Those studied."""
        return tuple(dict.fromkeys(finding.estimator for finding in self.findings if finding.estimator != GRADIENT))

    def finding(self, estimator: str, baseline: str = "none", discounting: Discounting = "lemma") -> Finding:
        """The one of this name."""
        wanted = (estimator, baseline, discounting)
        return next(f for f in self.findings if (f.estimator, f.baseline, f.discounting) == wanted)

    def broken(self) -> list[str]:
        """What contradicts a lemma, or an estimator's own declaration; empty if all holds."""
        said = [
            f"Lemma 1 ({way}) is off by {self.lemma_errors[way]:.3g}"
            for way in ("lemma", "undiscounted")
            if self.lemma_errors[way] > self.tolerance
        ]
        if self.score_error > self.tolerance:
            said.append(f"Lemma 2 is off by {self.score_error:.3g}")
        for finding in self.findings:
            said += self._against_declaration(finding)
        return said

    def _against_declaration(self, finding: Finding) -> list[str]:
        who = f"{finding.estimator}, baseline {finding.baseline}, {finding.discounting}"
        unbiased = finding.estimator == GRADIENT or not make_estimator(finding.estimator).biased
        definite = finding.estimator != GRADIENT and make_estimator(finding.estimator).positive_semi_definite
        said = []
        if unbiased and finding.discounting == "lemma" and self._is_biased(finding):
            said.append(f"{who}: declared unbiased, off by {finding.largest_bias:.3g}")
        if definite and (finding.moments.negative > 0 or finding.moments.expectation.min() < -self.tolerance):
            said.append(f"{who}: declared positive semi-definite, negative entries")
        return said

    def _is_biased(self, finding: Finding) -> bool:
        """By more than rounding, or for a random estimator by more than its draws explain."""
        drawn = 0.0 if finding.moments.exact else 6 * np.sqrt(finding.moments.variance / DRAWS)
        return bool(np.any(np.abs(finding.bias) > self.tolerance + drawn))


def study(
    problem: Problem, *, episodes: int = EPISODES, seed: int = 0, estimators: Sequence[str] = tuple(ESTIMATORS)
) -> Study:
    """Everything about one problem, of all registered estimators or of those named.

    `episodes` are really played for the z-scores; with 0 there are none.
    """
    check_count("episodes", episodes, at_least=0)
    check_known("estimators", estimators, ESTIMATORS)
    with jax.enable_x64(True):
        listing = list_trajectories(problem)
        findings = tuple(
            _finding(listing, name, baseline, discounting, episodes, seed)
            for discounting in SHOWN
            for baseline in BASELINES
            for name in (GRADIENT, *estimators)
        )
        return Study(
            listing=listing,
            truth=listing.truth,
            lemma_errors=lemma_errors(listing),
            score_error=score_error(listing),
            findings=findings,
            ascents=tuple(ascent for name in estimators for ascent in ascents(listing, name)),
            episodes=episodes,
        )


def _finding(listing: Listing, name: str, baseline: str, discounting: Discounting, episodes: int, seed: int) -> Finding:
    quantity = quantity_of(name)
    moments = moments_of(listing, quantity, baseline, discounting)
    truth = listing.truth.gradient if quantity is None else listing.truth.hessian_diagonal
    z = None
    if episodes and baseline == "none" and discounting == "lemma":
        z = z_scores(sampled_mean(listing, quantity, episodes, seed=seed), moments, episodes)
    return Finding(name, baseline, discounting, moments, moments.expectation - truth, z)


def quantity_of(name: str) -> Estimator | None:
    """None stands for the gradient."""
    return None if name == GRADIENT else make_estimator(name)


def moments_of(
    listing: Listing, quantity: Estimator | None, baseline: str = "none", discounting: Discounting = "lemma"
) -> Moments:
    """Of the gradient (None), or of an estimator's diagonal, from one trajectory."""
    p = listing.probability
    values, spread, exact = each_trajectory(listing.objective(baseline, discounting), quantity)
    expectation = p @ values
    variance = p @ np.square(values - expectation) + p @ spread
    # What is left of a constant after rounding.
    variance = np.where(variance <= 1e-24 * np.square(expectation), 0.0, variance)
    shape = listing.problem.theta.shape
    negative = float((p @ (values < 0))[listing.matters.ravel()].mean())
    return Moments(expectation.reshape(shape), variance.reshape(shape), negative, exact)


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


def sampled_mean(listing: Listing, quantity: Estimator | None, episodes: int, *, seed: int = 0) -> Matrix:
    """The mean [S, A] over episodes really played, estimated as in training, without a baseline."""
    root = jax.random.key(seed)
    problem, policy, params = listing.problem, listing.policy, listing.params
    rollout = play(problem.mdp, policy, params, root, episodes)
    weighting = Weighting(jnp.asarray(problem.mdp.discount), KnownBaseline(jnp.zeros(())), 0.0, "lemma", "sum")
    share = jnp.full(episodes, 1 / episodes)
    objective = observed(weighting, policy, params, rollout, share, jax.random.fold_in(root, 1))
    values = values_of_each(objective, quantity, jax.random.fold_in(root, 2))
    return np.asarray(values).mean(axis=0).reshape(problem.theta.shape)


def z_scores(mean: Matrix, moments: Moments, episodes: int) -> Matrix:
    """(mean − E) / √(Var / n) entry by entry; where nothing varies, 0 if both agree and else ∞."""
    error, noise = mean - moments.expectation, np.sqrt(moments.variance / episodes)
    tiny = TOLERANCE * max(1.0, float(np.abs(moments.expectation).max()))
    still = np.where(np.abs(error) <= tiny, 0.0, np.inf)
    return np.where(noise <= tiny, still, error / np.where(noise > 0, noise, 1))


def lemma_matrix(listing: Listing, discounting: Discounting) -> Matrix:
    """E[∇²Ψ + (∇ ln p)(∇Ψ)ᵀ], the right-hand side of Lemma 1, its symmetric half."""
    return np.asarray(expected_matrix(listing.objective("none", discounting), LemmaHessian()))


def lemma_errors(listing: Listing) -> dict[str, float]:
    """The largest |Lemma 1 − ∇²J| for each way to discount; the undiscounted one against ∇² of that return."""
    problem, found = listing.problem, {}
    for discounting in DISCOUNTINGS:
        truth = listing.truth.hessian
        if discounting == "undiscounted":
            dynamics = dynamics_of(problem.mdp)._replace(discount=jnp.ones(()))
            truth = np.asarray(exact_derivatives(dynamics, problem.theta, problem.mdp.horizon)[2])
        matrix = lemma_matrix(listing, discounting)  # type: ignore[arg-type]  # its keys are the discountings
        found[discounting] = float(np.abs(matrix - truth).max())
    return found


def score_error(listing: Listing) -> float:
    """Lemma 2: the largest |∇ ln p(τ) − Σ_t z_t| over the trajectories.

    ∇ ln p by differentiating the logarithm of the trajectory's whole probability, transition kernel and all, for the
    MDP's own kernel and for another one with the same possible transitions; Σ_t z_t knows neither.
    """
    scores = np.asarray(trajectory_scores(listing.objective()))[: listing.count]
    mdp, worst = listing.problem.mdp, 0.0
    for transition in (mdp.transition, _another_kernel(mdp.transition)):
        found = enumerate_trajectories(
            FiniteMDP(transition, mdp.reward, mdp.start, mdp.discount, mdp.horizon, mdp.terminal)
        )
        of_whole = np.asarray(log_probability_gradient(found, listing.problem.theta))
        worst = max(worst, float(np.abs(of_whole - scores).max()))
    return worst


def ascents(listing: Listing, name: str) -> list[Ascent]:
    """For each shape that the estimator may have, with the lemma's discounting and no baseline."""
    estimator, objective = make_estimator(name), listing.objective()
    moments = moments_of(listing, estimator)
    gradients, curvatures = each_trajectory(objective, None)[0], each_trajectory(objective, estimator)[0]
    g = listing.truth.gradient
    found = []
    for shape in SHAPES:
        if shape == "negative_part" and estimator.positive_semi_definite:
            continue
        rule = som(estimator, shape=shape, beta1=0.0, beta2=0.0)  # type: ignore[arg-type]  # its keys are the shapes
        h = np.sqrt(moments.variance + np.square(moments.expectation)) if shape == "rms" else moments.expectation
        direction = np.asarray(_preconditioned(rule, g.reshape(1, -1), h.reshape(1, -1)))[0]
        expected = listing.probability @ np.asarray(_preconditioned(rule, gradients, curvatures))
        inner = float(g.ravel() @ direction)
        found.append(Ascent(name, shape, inner, _cosine(g, direction), _cosine(g, expected)))
    return found


@jax.jit
def _preconditioned(rule: SecondOrderMomentum, gradients: Array, curvatures: Array) -> Array:
    """d [trajectory, D] of Algorithm 1 without memory."""

    def of_one(gradient: Array, curvature: Array) -> Array:
        return rule.precondition(gradient, curvature, rule.init(gradient))[0]

    return jax.vmap(of_one)(jnp.asarray(gradients), jnp.asarray(curvatures))


def _another_kernel(transition: Matrix) -> Matrix:
    """Random, with the same possible transitions."""
    drawn = (transition > 0) * np.random.default_rng(0).uniform(0.5, 1.5, transition.shape)
    return drawn / drawn.sum(axis=-1, keepdims=True)


def _cosine(first: Matrix, second: Matrix) -> float:
    """0 where one of them is 0."""
    first, second = (vector.ravel() / max(float(np.abs(vector).max()), 1e-300) for vector in (first, second))
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / lengths if lengths > 0 else 0.0


def _ratio(noise: float, signal: float) -> float:
    """Noise over signal; a signal of the size of rounding is none."""
    if signal <= 1e-24 * (noise + signal):
        return float("inf") if noise > 0 else 0.0
    return noise / signal
