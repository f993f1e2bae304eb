"""What `pgsom theory` says, against loops over trajectories in NumPy that share nothing with it."""

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np
import pytest

from pgsom.curvature import CausalHessian, LemmaHessian
from pgsom.environments import FiniteMDP, chain, random_mdp
from pgsom.experiments import theory
from pgsom.experiments.listing import Listing, list_trajectories
from pgsom.experiments.problems import Problem, built_in_problems, random_problems
from pgsom.experiments.theory import Moments, Study, study

TINY = 1e-10
ESTIMATORS = ("causal", "lemma", "fisher", "hutchinson")


def small() -> Problem:
    generator = np.random.default_rng(5)
    mdp = random_mdp(generator, 3, 2, 3, 0.8, 1)
    return Problem("small", mdp, generator.normal(size=(3, 2)))


@pytest.fixture(scope="module", name="found")
def _found() -> Study:
    return study(small(), episodes=400, estimators=ESTIMATORS)


class ByHand:
    """Σ over every sequence of states and actions, possible or not."""

    def __init__(self, problem: Problem, state_value: bool, appendix: bool = False):
        mdp = problem.mdp
        self.pi = np.exp(problem.theta) / np.exp(problem.theta).sum(axis=1, keepdims=True)
        self.probabilities: list[float] = []
        self.estimates: dict[str, list[np.ndarray]] = {"gradient": [], "lemma": [], "causal": [], "rows": []}
        self.scores: list[np.ndarray] = []
        values = self.values(mdp)
        for path in self.paths(mdp):
            p = mdp.start[path[0][0]]
            for s, a, reached in path:
                p *= self.pi[s, a] * mdp.transition[s, a, reached]
            if p == 0:
                continue
            rewards = [mdp.reward[s, a] for s, a, _ in path]
            w = []
            for t, (s, _, _) in enumerate(path):
                to_go = sum(mdp.discount ** (k - t) * rewards[k] for k in range(t, len(path)))
                front = 1 if appendix else mdp.discount**t
                w.append(front * (to_go - (values[t][s] if state_value else 0)))
            self.add(p, path, w)

    def paths(self, mdp: FiniteMDP) -> Any:
        """Up to the horizon, or the first terminal state."""
        for length in range(1, mdp.horizon + 1):
            steps = itertools.product(range(mdp.states), range(mdp.actions))
            for taken in itertools.product(list(steps), repeat=length):
                for last in range(mdp.states):
                    states = [s for s, _ in taken] + [last]
                    inner = any(mdp.terminal[s] for s in states[:-1])
                    ended = mdp.terminal[last] or length == mdp.horizon
                    if not inner and ended:
                        yield [(s, a, states[t + 1]) for t, (s, a) in enumerate(taken)]

    def values(self, mdp: FiniteMDP) -> list[np.ndarray]:
        later, found = np.zeros(mdp.states), []
        for _ in range(mdp.horizon):
            q = mdp.reward + mdp.discount * mdp.transition @ later
            later = np.where(mdp.terminal, 0.0, (self.pi * q).sum(axis=1))
            found.insert(0, later)
        return found

    def score(self, s: int, a: int) -> np.ndarray:
        z = np.zeros(self.pi.shape)
        z[s] = -self.pi[s]
        z[s, a] += 1
        return z.ravel()

    def add(self, p: float, path: Any, w: list[float]) -> None:
        z = [self.score(s, a) for s, a, _ in path]
        curvature = []
        for s, _, _ in path:
            full = np.zeros((*self.pi.shape, *self.pi.shape))
            full[s, :, s, :] = np.outer(self.pi[s], self.pi[s]) - np.diag(self.pi[s])
            curvature.append(full.reshape(self.pi.size, self.pi.size))
        surrogate = sum(wt * zt for wt, zt in zip(w, z, strict=True))
        bend = sum(wt * c for wt, c in zip(w, curvature, strict=True))
        lemma, causal = bend + np.outer(sum(z), surrogate), bend.copy()
        for t, wt in enumerate(w):
            before = sum(z[:t], np.zeros(self.pi.size))
            causal += wt * (np.outer(z[t], z[t]) + np.outer(z[t], before) + np.outer(before, z[t]))
        self.probabilities.append(p)
        self.scores.append(sum(z))
        self.estimates["gradient"].append(surrogate)
        self.estimates["lemma"].append(np.diag(lemma))
        self.estimates["causal"].append(np.diag(causal))
        self.estimates["rows"].append(np.square(causal - np.diag(np.diag(causal))).sum(axis=1))

    def moments(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Expectation, variance, and the probability of a negative entry."""
        p, x = np.asarray(self.probabilities), np.asarray(self.estimates[name])
        assert p.sum() == pytest.approx(1, abs=1e-12)
        mean = p @ x
        shape = self.pi.shape
        return mean.reshape(shape), (p @ (x - mean) ** 2).reshape(shape), (p @ (x < -1e-14)).reshape(shape)


@pytest.mark.parametrize(
    ("baseline", "discounting"), [("none", "lemma"), ("state value", "lemma"), ("none", "appendix")]
)
def test_moments_are_those_of_all_trajectories_by_hand(found: Study, baseline: str, discounting: Any) -> None:
    hand = ByHand(small(), baseline == "state value", discounting == "appendix")
    for name in ("gradient", "lemma", "causal"):
        expectation, variance, negative = hand.moments(name)
        moments = found.finding(name, baseline, discounting).moments
        np.testing.assert_allclose(moments.expectation, expectation, atol=TINY)
        np.testing.assert_allclose(moments.variance, variance, atol=TINY)
        assert moments.exact
        # State 2 is terminal: nobody acts there.
        if baseline == "none":
            assert moments.negative == pytest.approx(negative[:2].mean(), abs=1e-9)
        needed = variance.sum() / np.square(expectation).sum()
        assert moments.trajectories_needed == pytest.approx(needed, rel=1e-6)


def test_a_hutchinson_probe_adds_the_squares_beside_the_diagonal(found: Study) -> None:
    hand = ByHand(small(), state_value=False)
    expectation, variance, _ = hand.moments("causal")
    moments = found.finding("hutchinson").moments
    np.testing.assert_allclose(moments.expectation, expectation, atol=TINY)
    np.testing.assert_allclose(moments.variance, variance + hand.moments("rows")[0], atol=TINY)


def test_the_truth_is_what_finite_differences_of_the_return_say(found: Study) -> None:
    problem, step = small(), 1e-4

    def J(theta: np.ndarray) -> float:
        hand = ByHand.__new__(ByHand)
        hand.pi = np.exp(theta) / np.exp(theta).sum(axis=1, keepdims=True)
        return float(problem.mdp.start @ hand.values(problem.mdp)[0])

    assert found.truth.value == pytest.approx(J(problem.theta), abs=TINY)
    for s, a in np.ndindex(problem.theta.shape):
        e = np.zeros(problem.theta.shape)
        e[s, a] = step
        up, here, down = (J(problem.theta + k * e) for k in (1, 0, -1))
        assert found.truth.gradient[s, a] == pytest.approx((up - down) / (2 * step), abs=1e-7)
        assert found.truth.hessian_diagonal[s, a] == pytest.approx((up - 2 * here + down) / step**2, abs=1e-6)


def test_lemmas_hold_and_the_appendix_does_not_discount_so(found: Study) -> None:
    assert found.lemma_errors["lemma"] < TINY and found.lemma_errors["undiscounted"] < TINY
    assert found.lemma_errors["appendix"] > 1e-4
    assert found.score_error < TINY
    assert found.broken() == []


def test_the_causal_form_with_the_state_value_is_the_quietest_unbiased_one() -> None:
    """Of the example that hides nothing: Lemma 1, less with a baseline, least with both."""
    with jax.enable_x64(True):
        listing = list_trajectories(next(p for p in built_in_problems() if p.name == "three-state"))
        lemma, with_value = (theory.moments_of(listing, LemmaHessian(), b) for b in ("none", "state value"))
        causal, both = (theory.moments_of(listing, CausalHessian(), b) for b in ("none", "state value"))
    totals = [m.total_variance for m in (lemma, causal, with_value, both)]
    assert totals == sorted(totals, reverse=True)
    assert totals[0] > 20 * totals[3]


def test_a_wrong_declaration_is_found_out(found: Study) -> None:
    """Findings of the Fisher under the name of the causal Hessian, and the other way round."""
    swapped = {"fisher": "causal", "causal": "fisher"}
    findings = tuple(f._replace(estimator=swapped.get(f.estimator, f.estimator)) for f in found.findings)
    said = dataclasses.replace(found, findings=findings).broken()
    assert any(line.startswith("causal,") and "unbiased" in line for line in said)
    assert any(line.startswith("fisher,") and "semi-definite" in line for line in said)


def test_rounding_of_large_returns_is_no_contradiction() -> None:
    """Where every reward is the same and all episodes are as long, ∇J and ∇²J are 0 and the weights are not."""
    mdp = random_problems(1)[0].mdp
    assert not mdp.terminal.any()
    problem = Problem("constant", FiniteMDP(mdp.transition, np.full((3, 2), 1e9), mdp.start, 0.8, 3), small().theta)
    assert study(problem, episodes=0, estimators=("lemma", "causal")).broken() == []


def test_scores_of_a_trajectory_are_the_derivative_of_its_whole_probability() -> None:
    with jax.enable_x64(True):
        listing = list_trajectories(small())
        assert theory.score_error(listing) < TINY
        # A step too many counted, and the lemma would not hold.
        longer = listing.rollout._replace(length=listing.rollout.length - 1)
        assert theory.score_error(dataclasses.replace(listing, rollout=longer)) > 0.1


def test_z_scores_tell_a_right_mean_from_a_wrong_one(found: Study) -> None:
    """Played episodes: the largest of the entries of a right estimator, and of one that forgets a term."""
    for name in ESTIMATORS:
        largest = found.finding(name).largest_z
        assert largest is not None and largest < 5, name
    moments = found.finding("causal").moments
    assert np.abs(theory.z_scores(moments.expectation + 1.0, moments, 400)[:2]).min() > 5
    still = Moments(np.ones((1, 2)), np.zeros((1, 2)), 0.0, True)
    assert theory.z_scores(np.asarray([[1.0, 2.0]]), still, 10).tolist() == [[0.0, np.inf]]


def test_raw_division_walks_downhill_where_the_curvature_is_negative() -> None:
    """The bandit with J = σ(θ), θ > 0: g > 0, h < 0."""
    bandit = next(p for p in built_in_problems() if p.name == "two-armed-bandit")
    problem = Problem("bandit", bandit.mdp, np.asarray([[0.5, -0.5]]))
    with jax.enable_x64(True):
        by_shape = {a.shape: a for a in theory.ascents(list_trajectories(problem), "causal")}
    sigma = 1 / (1 + np.exp(-1.0))
    # With respect to each of the two logits J′ = ±σ(1 − σ) and J″ = σ(1 − σ)(1 − 2σ).
    inner = 2 * sigma * (1 - sigma) / (1 - 2 * sigma)
    assert by_shape["raw"].inner == pytest.approx(inner, rel=1e-6) and inner < 0
    assert by_shape["raw"].alignment == pytest.approx(-1)
    assert by_shape["absolute"].inner == pytest.approx(-inner, rel=1e-6)


def test_random_problems_are_the_same_however_many() -> None:
    few, many = random_problems(2, seed=3), random_problems(5, seed=3)
    assert [p.mdp for p in few] == [p.mdp for p in many[:2]]
    np.testing.assert_array_equal(few[1].theta, many[1].theta)
    assert many[1].mdp.terminal.any() and len({p.mdp for p in many}) == 5


def test_episodes_of_different_lengths_are_listed_whole() -> None:
    with jax.enable_x64(True):
        listing: Listing = list_trajectories(Problem("chain", chain(2, 4), np.zeros((3, 2))))
    assert listing.probability.sum() == pytest.approx(1, abs=1e-12)
    assert len(set(np.asarray(listing.rollout.length)[: listing.count].tolist())) == 3
    assert listing.matters.tolist() == [[True] * 2, [True] * 2, [False] * 2]
