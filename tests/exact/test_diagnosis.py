"""Each number of a diagnosis against an exact or a dense counterpart."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import pgsom
from pgsom.baselines import LeaveOneOutBaseline
from pgsom.curvature import CausalHessian, Fisher, dense
from pgsom.environments import three_state
from pgsom.environments.registry import make
from pgsom.experiments.diagnosis import Diagnosis, Effort, clarity, curvature_of, diagnose_at, spectrum
from pgsom.experiments.lanczos import lanczos
from pgsom.experiments.listing import list_trajectories, truth_of
from pgsom.experiments.moments import moments_of
from pgsom.experiments.problems import Problem
from pgsom.methods import Common, Method, assemble, make_method
from pgsom.objective import Weighting, observe
from pgsom.policies import Layer, Policy, make_policy, tabular_softmax
from pgsom.rollout import collect
from pgsom.updates.update_rule import describe

THETA = np.random.default_rng(3).normal(size=(3, 2))
STEP = np.asarray([[0.3, -0.2], [0.1, 0.4], [-0.3, 0.2]])


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Always:
    """The same direction, whatever the episodes say."""

    direction: Any

    def init(self, params: Any) -> Any:
        return ()

    def update(self, objective: Any, state: Any, params: Any) -> Any:
        return self.direction, state, describe(objective.gradient(), self.direction)


def method() -> Method:
    common = Common(batch=4, discount=0.9, discounting="lemma", baseline="none")
    return assemble("always", Always((Layer(jnp.asarray(STEP), None),)), 1.0, common)


@pytest.fixture(scope="module", name="found")
def _found() -> Diagnosis:
    effort = Effort(batches=1500, episodes=4000, steps=6)
    policy = Policy(tabular_softmax(3, 2))
    with jax.enable_x64(True):
        params = (Layer(jnp.asarray(THETA), None),)
        rule = Always((Layer(jnp.asarray(STEP), None),))
        return diagnose_at(
            three_state(), policy, replace(method(), rule=rule), params, curvature="causal", effort=effort
        )


def test_clarity_is_its_formula() -> None:
    x = np.asarray([[1.0, 0.0], [3.0, 2.0]])
    # mean (2, 1), variances (2, 2): signal² = 5 − 4/2
    found = clarity(x)
    assert found.norm == pytest.approx(np.sqrt(3.0))
    assert found.signal_to_noise == pytest.approx(np.sqrt(3 / 4)) and found.batches_needed == pytest.approx(4 / 3)
    assert clarity(np.asarray([[1.0], [-1.0]])) == (0.0, 0.0, np.inf)
    assert clarity(np.ones((3, 2)))[1:] == (np.inf, 0.0)
    assert clarity(np.zeros((3, 2)))[1:] == (0.0, np.inf)


def test_clarity_does_not_take_noise_for_signal() -> None:
    """‖mean‖² itself would be 1 + 50/20 on average."""
    generator = np.random.default_rng(0)
    truth = np.zeros(50)
    truth[0] = 1.0
    squares = [clarity(truth + generator.normal(size=(20, 50))).norm ** 2 for _ in range(400)]
    assert np.mean(squares) == pytest.approx(1, abs=0.1)


def test_signal_and_noise_are_those_of_all_trajectories(found: Diagnosis) -> None:
    """Of a batch of four: a quarter of one trajectory's variance, listed."""
    with jax.enable_x64(True):
        listing = list_trajectories(Problem("three", three_state(), THETA))
        for quantity, seen in ((None, found.gradient), (CausalHessian(), found.curvature)):
            moments = moments_of(listing, quantity)
            norm = np.sqrt(np.square(moments.expectation).sum())
            noise = moments.total_variance / 4
            assert seen.norm == pytest.approx(norm, abs=4 * np.sqrt(noise / 1500))
            # What is left of the noise in the mean of 1,500 batches bounds how well the ratio is known.
            assert seen.signal_to_noise == pytest.approx(norm / np.sqrt(noise), abs=4 / np.sqrt(1500))


def test_negative_entries_are_those_of_the_exact_diagonal(found: Diagnosis) -> None:
    with jax.enable_x64(True):
        truth = truth_of(Problem("three", three_state(), THETA))
    assert found.negative_of_mean == (truth.hessian_diagonal < 0).mean()
    assert 0.3 < found.negative < 0.7


def test_alignment_and_improvement_are_the_exact_ones(found: Diagnosis) -> None:
    with jax.enable_x64(True):
        here, there = (truth_of(Problem("three", three_state(), theta)) for theta in (THETA, THETA + STEP))
    g, H, step = here.gradient.ravel(), here.hessian, STEP.ravel()
    assert found.step_norm == pytest.approx(np.linalg.norm(step))
    assert found.alignment == pytest.approx(g @ step / np.linalg.norm(g) / np.linalg.norm(step), abs=0.1)
    # Along a given direction 4,000 episodes tell the gradient to a few thousandths.
    assert found.predicted == pytest.approx(g @ step, abs=0.04)
    assert found.predicted_second - found.predicted == pytest.approx(0.5 * step @ H @ step, abs=0.04)
    assert found.actual == pytest.approx(there.value - here.value, abs=4 * found.actual_error)
    assert found.actual_error < 0.02 < abs(there.value - here.value)


def test_the_spectrum_is_that_of_the_dense_matrix() -> None:
    with jax.enable_x64(True):
        environment = make("chain")
        policy = make_policy("mlp", environment, hidden=(3,))
        params = policy.init(jax.random.key(1))
        rollout = collect(environment, policy, params, jax.random.key(2), 32)
        weighting = Weighting(jnp.asarray(0.95), LeaveOneOutBaseline(), 0.0, "lemma", "sum")
        objective = observe(weighting, (), policy, params, rollout, jax.random.key(3))
        for estimator in (CausalHessian(), Fisher()):
            exact = np.linalg.eigvalsh(np.asarray(dense(estimator, objective)))[::-1]
            size = ravel_pytree(params)[0].size
            whole = spectrum(objective, estimator, size)
            np.testing.assert_allclose(whole.top(3), exact[:3], atol=1e-9)
            np.testing.assert_allclose(whole.bottom(1), exact[-1:], atol=1e-9)
            short = spectrum(objective, estimator, 8)
            for value, bound in zip(short.values, short.bounds, strict=True):
                assert np.abs(exact - value).min() <= bound + 1e-9
            assert short.values[0] == pytest.approx(exact[0], rel=1e-3)


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_lanczos_on_a_matrix_with_known_eigenvalues(steps: int) -> None:
    generator = np.random.default_rng(0)
    exact = np.sort(np.concatenate([[9.0, -7.0, 5.0], generator.normal(size=27) * 0.1]))[::-1]
    Q = np.linalg.qr(generator.normal(size=(30, 30)))[0]
    H = Q @ np.diag(exact) @ Q.T
    found = lanczos(lambda v: H @ v, 30, steps)
    assert len(found.values) == min(steps, 30)
    for value, bound in zip(found.values, found.bounds, strict=True):
        assert np.abs(exact - value).min() <= bound + 1e-10
    if steps == 40:
        np.testing.assert_allclose(found.values, exact, atol=1e-10)
    if steps == 5:
        np.testing.assert_allclose([found.values[0], found.values[-1]], [9, -7], atol=1e-3)


def test_lanczos_stops_where_the_space_ends() -> None:
    found = lanczos(lambda v: 2 * v, 10, 8)
    np.testing.assert_allclose(found.values, [2.0])
    np.testing.assert_allclose(found.bounds, [0.0], atol=1e-12)
    assert lanczos(lambda v: 0 * v, 4, 3).values.tolist() == [0.0]


def test_the_curvature_is_the_methods_own() -> None:
    assert curvature_of(make_method("pg-som", curvature="fisher")).name == "fisher"
    assert curvature_of(make_method("reinforce")) == CausalHessian()


def test_too_little_effort_is_refused() -> None:
    with pytest.raises(pgsom.InputError, match="batches=1"):
        Effort(batches=1)
