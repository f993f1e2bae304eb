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

from pgsom.checks import check_count, check_known
from pgsom.curvature import ESTIMATORS, LemmaHessian, make_estimator
from pgsom.environments import FiniteMDP, enumerate_trajectories
from pgsom.environments.exact import dynamics_of
from pgsom.experiments.ascent import Ascent, ascents
from pgsom.experiments.listing import (
    BASELINES,
    Listing,
    Matrix,
    Truth,
    exact_derivatives,
    expected_matrix,
    list_trajectories,
    log_probability_gradient,
    trajectory_scores,
)
from pgsom.experiments.moments import (
    GRADIENT,
    TOLERANCE,
    Moments,
    Played,
    each_trajectory,
    moments_from,
    moments_of,
    quantity_of,
    sampled_mean,
    z_scores,
)
from pgsom.experiments.problems import Problem
from pgsom.objective import LocalObjective
from pgsom.returns import DISCOUNTINGS, Discounting

__all__ = [
    "GRADIENT",
    "Ascent",
    "Finding",
    "Moments",
    "Study",
    "ascents",
    "lemma_errors",
    "lemma_matrix",
    "list_trajectories",
    "moments_of",
    "sampled_mean",
    "score_error",
    "study",
    "z_scores",
]
EPISODES = 1_000
"""Really played, for the z-scores."""
SHOWN: tuple[Discounting, ...] = ("lemma", "appendix")


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
        """Up to which numbers are called equal here: returns may be large where all derivatives cancel."""
        mdp = self.problem.mdp
        largest_return = mdp.horizon * float(np.abs(mdp.reward).max())
        return TOLERANCE * max(1.0, float(np.abs(self.truth.hessian).max()), largest_return)

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
        if self.score_error > TOLERANCE:
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
        drawn = 6 * np.sqrt(finding.moments.uncertain)
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
        played = Played(listing, episodes, seed) if episodes else None
        findings = tuple(
            _finding(listing, name, objective, (baseline, discounting), played)
            for discounting in SHOWN
            for baseline in BASELINES
            for objective in [listing.objective(baseline, discounting)]
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


def _finding(
    listing: Listing, name: str, objective: LocalObjective, how: tuple[str, Discounting], played: Played | None
) -> Finding:
    quantity = quantity_of(name)
    moments = moments_from(listing, *each_trajectory(objective, quantity))
    truth = listing.truth.gradient if quantity is None else listing.truth.hessian_diagonal
    z = None
    if played is not None and how == ("none", "lemma"):
        z = z_scores(played.mean(quantity), moments, played.episodes)
    return Finding(name, *how, moments, moments.expectation - truth, z)


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


def _another_kernel(transition: Matrix) -> Matrix:
    """Random, with the same possible transitions."""
    drawn = (transition > 0) * np.random.default_rng(0).uniform(0.5, 1.5, transition.shape)
    return drawn / drawn.sum(axis=-1, keepdims=True)
