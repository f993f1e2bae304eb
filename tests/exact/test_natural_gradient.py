"""Natural gradients against the dense Fisher matrix; trust regions against the divergence itself."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.baselines import NoBaseline
from pgsom.checks import InputError
from pgsom.curvature import CausalHessian, dense
from pgsom.environments import random_mdp, two_armed_bandit
from pgsom.objective import LocalObjective, Weighting, observe
from pgsom.policies import MLP, Policy, policy_from_functions
from pgsom.rollout import Rollout
from pgsom.updates import natural_gradient, trust_region
from tests.exact.oracle import STATES, estimates, flat, objective_of, quick_jit, random_params, tabular, truth

pytestmark = pytest.mark.usefixtures("float64")
LINEAR = Policy(MLP(STATES, 2, (), bias=False, pinned_output=True, one_hot=True))
NETWORK = Policy(MLP(STATES, 3, (3,), one_hot=True))


def objective_on(policy: Policy, params: Any, seed: int = 1, **changes: Any) -> LocalObjective:
    actions = jax.eval_shape(policy.outputs, params, jnp.asarray(0)).shape[0]
    mdp = random_mdp(np.random.default_rng(seed), STATES, actions, 2, 0.9)
    return objective_of(mdp, policy, params, (2, 600), **changes)


def run(rule: Any, objective: LocalObjective) -> Any:
    return quick_jit(rule.update)(objective, rule.init(objective.params), objective.params)


# --- natural gradients -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("policy", [LINEAR, NETWORK], ids=["linear", "network"])
def test_the_natural_gradient_is_the_dense_solve(policy: Policy, damping: float) -> None:
    """For the network, whose Fisher matrix is singular, only damped."""
    if policy is NETWORK and damping == 0:
        damping = 1e-3
    objective = objective_on(policy, random_params(policy))
    fisher = estimates(objective, ("fisher",))["fisher"] / float(objective.step_weight.sum())
    gradient = flat(objective.gradient())
    expected = np.linalg.solve(fisher + damping * np.eye(gradient.size), gradient)
    options = {"damping": damping, "cg_steps": 60, "tolerance": 1e-14}
    direction, _, info = run(natural_gradient(step_length="rate", **options), objective)
    np.testing.assert_allclose(flat(direction), expected, rtol=1e-6, atol=1e-9)
    scaled, _, _ = run(natural_gradient(kl_radius=0.02, **options), objective)
    np.testing.assert_allclose(0.5 * flat(scaled) @ fisher @ flat(scaled), 0.02)
    np.testing.assert_allclose(flat(scaled) / np.linalg.norm(flat(scaled)), expected / np.linalg.norm(expected), 1e-6)
    assert info.declined == 0 and info.alignment > 0


@pytest.mark.parametrize("step_length", ["rate", "kl"])
def test_another_parameterisation_of_the_policy_gives_the_same_step(step_length: Any) -> None:
    """θ = M φ: the step in φ, mapped back, is the step in θ."""
    matrix = jnp.asarray(np.random.default_rng(5).normal(size=(STATES, STATES)) + 2 * np.eye(STATES))
    params = random_params(LINEAR)
    theta, unravel = ravel_pytree(params)
    other = policy_from_functions(
        lambda key: jnp.zeros(STATES), lambda phi, s: LINEAR.outputs(unravel(matrix @ phi), s)
    )
    rule = natural_gradient(damping=0.0, cg_steps=20, tolerance=1e-14, step_length=step_length)
    plain, _, _ = run(rule, objective_on(LINEAR, params))
    mapped, _, _ = run(rule, objective_on(other, jnp.linalg.solve(matrix, theta)))
    np.testing.assert_allclose(matrix @ mapped, flat(plain), rtol=1e-8)
    gradients = [
        objective_on(*pair).gradient() for pair in ((LINEAR, params), (other, jnp.linalg.solve(matrix, theta)))
    ]
    assert np.abs(matrix @ gradients[1] - flat(gradients[0])).max() > 1e-3, "which the plain gradient does not do"


def test_the_metric_must_be_one() -> None:
    with pytest.raises(InputError, match="metric='causal': accepted is an estimator that is positive semi-definite"):
        natural_gradient("causal")


# --- what a step gains -------------------------------------------------------------------------------------------


def test_the_gain_by_whole_trajectories_is_the_difference_of_returns() -> None:
    """Exactly, by enumeration, for steps of any size; and its Hessian at θ is the causal one."""
    policy = tabular()
    mdp = random_mdp(np.random.default_rng(3), 3, 2, 3, 0.9, 1)
    params, there = random_params(policy, 0), random_params(policy, 1)
    objective = objective_of(mdp, policy, params, (3, 600))
    theta, unravel = ravel_pytree(params)

    def gain(vector: jax.Array, whole_past: bool = True) -> jax.Array:
        return objective.evaluate(objective.gain_fold(unravel(vector), whole_past=whole_past))[0]

    expected = truth(mdp, policy, there).value - truth(mdp, policy, params).value
    assert float(gain(ravel_pytree(there)[0])) == pytest.approx(expected, rel=1e-10)
    assert abs(float(gain(ravel_pytree(there)[0], whole_past=False)) - expected) > 1e-3
    np.testing.assert_allclose(jax.hessian(gain)(theta), dense(CausalHessian(), objective), atol=1e-10)


@pytest.mark.parametrize("whole_past", [False, True])
def test_the_gains_slope_is_the_gradient_with_its_entropy_bonus(whole_past: bool) -> None:
    params = random_params(NETWORK)
    objective = objective_on(NETWORK, params, entropy=0.3)
    theta, unravel = ravel_pytree(params)
    slope = jax.grad(lambda v: objective.evaluate(objective.gain_fold(unravel(v), whole_past=whole_past))[0])(theta)
    np.testing.assert_allclose(slope, flat(objective.gradient()), rtol=1e-9, atol=1e-12)


# --- trust regions -----------------------------------------------------------------------------------------------

SMALL = Policy(MLP(3, 3, (5,)))
PROBLEMS, STEPS, EPISODES = 400, 6, 3


def random_problem(key: jax.Array) -> LocalObjective:
    """Random parameters, observations, actions, rewards and lengths: policies from uniform to all but deterministic."""
    keys = jax.random.split(key, 7)
    size = jnp.exp(jax.random.uniform(keys[0], minval=-2, maxval=2))
    params = jax.tree.map(lambda leaf: leaf * size, SMALL.init(keys[1]))
    params = (*params[:-1], params[-1]._replace(weight=jax.random.normal(keys[2], (5, 3)) * size))
    observation = jax.random.normal(keys[3], (STEPS, EPISODES, 3)) * size
    length = jax.random.randint(keys[4], (EPISODES,), 1, STEPS + 1)
    outputs = jax.vmap(jax.vmap(SMALL.outputs, (None, 0)), (None, 0))(params, observation)
    rollout = Rollout(
        observation,
        jax.random.categorical(keys[5], outputs).astype(jnp.int32),
        outputs,
        jax.random.normal(keys[6], (STEPS, EPISODES)) * (jnp.arange(STEPS)[:, None] < length),
        length,
        length < STEPS,
        length == STEPS,
        observation[-1],
    )
    weighting = Weighting(0.9, NoBaseline(), 0.0, "appendix", "sum")
    return observe(weighting, (), SMALL, params, rollout, key)


def divergence(objective: LocalObjective, params: Any) -> np.ndarray:
    """Mean over steps of KL(π_θ ‖ π_params), problem by problem, in NumPy."""

    def forward(layers: Any, index: int) -> np.ndarray:
        a = np.asarray(objective.rollout.observation[index])
        for depth, layer in enumerate(layers):
            a = a @ np.asarray(layer.weight[index]) + np.asarray(layer.bias[index])
            a = np.tanh(a) if depth < len(layers) - 1 else a
        return a - np.log(np.exp(a - a.max(-1, keepdims=True)).sum(-1, keepdims=True)) - a.max(-1, keepdims=True)

    found = []
    for index in range(PROBLEMS):
        old, new = forward(objective.params, index), forward(params, index)
        taken = np.arange(STEPS)[:, None] < np.asarray(objective.rollout.length[index])
        found.append((np.exp(old) * (old - new)).sum(-1)[taken].mean())
    return np.asarray(found)


@pytest.fixture(scope="module", name="problems")
def _problems() -> LocalObjective:
    with jax.enable_x64(True):
        return quick_jit(jax.vmap(random_problem))(jax.random.split(jax.random.key(0), PROBLEMS))


@pytest.mark.parametrize(("tries", "accept", "fail"), [(10, 0.0, False), (1, 0.0, True), (2, 0.9, True)])
def test_no_step_ever_leaves_its_radius(problems: LocalObjective, tries: int, accept: float, fail: bool) -> None:
    """400 random problems, radii from 10⁻³ to 30. With few tries many searches fail; then nothing moves."""
    radius = jnp.exp(jnp.linspace(np.log(1e-3), np.log(30.0), PROBLEMS))
    rule = trust_region(kl_radius=1.0, tries=tries, accept=accept)

    def solve(radius: jax.Array, objective: LocalObjective) -> tuple[Any, Any, jax.Array]:
        scaled = replace(rule, natural=replace(rule.natural, kl_radius=radius))
        direction, _, info = scaled.update(objective, (), objective.params)
        there = jax.tree.map(jnp.add, objective.params, direction)
        return there, info, objective.value(there) - objective.value(objective.params)

    there, info, gain = quick_jit(jax.vmap(solve))(radius, problems)
    declined = np.asarray(info.declined).astype(bool)
    assert np.all(divergence(problems, there) <= np.asarray(radius) * (1 + 1e-9))
    assert np.all(np.asarray(gain)[~declined] > 0)
    unmoved = np.asarray(info.direction_norm) == 0
    np.testing.assert_array_equal(unmoved, declined)
    for before, after in zip(jax.tree.leaves(problems.params), jax.tree.leaves(there), strict=True):
        np.testing.assert_array_equal(before[declined], after[declined])
    assert declined.mean() > 0.1 if fail else declined.mean() < 0.1
    assert not declined.all()


def test_a_step_that_would_turn_a_policy_round_is_halved_until_it_fits_or_declined() -> None:
    """A bandit that all but surely takes the worse arm: to second order a step of KL 5 is far too long."""
    policy = tabular()
    params = jax.tree.map(lambda leaf: leaf.at[0].set(jnp.asarray([-7.0, 0.0])), random_params(policy, scale=0.0))
    objective = objective_of(two_armed_bandit(), policy, params, (1, 4))
    assert float(objective.gradient()[0].weight[0, 0]) > 0
    once = trust_region(kl_radius=5.0, damping=1e-6, tries=1)
    direction, _, info = run(once, objective)
    assert info.declined == 1 and not np.any(flat(direction))
    often = trust_region(kl_radius=5.0, damping=1e-6, tries=10)
    direction, _, info = run(often, objective)
    moved = jax.tree.map(jnp.add, params, direction)
    assert info.declined == 0 and 0 < float(objective.kl(moved)) <= 5.0
    full = natural_gradient(kl_radius=5.0, damping=1e-6)
    share = flat(direction)[:2] / flat(run(full, objective)[0])[:2]
    assert np.log2(share[0]) == pytest.approx(round(np.log2(share[0]))) and share[0] < 1


def test_curvature_that_is_not_finite_is_no_declined_step() -> None:
    """It must reach training, which leaves the update out and counts it."""
    params = random_params(LINEAR)
    objective = objective_on(LINEAR, params)
    broken = replace(objective, episode_weight=objective.episode_weight.at[0].set(jnp.nan))
    direction, _, _ = run(trust_region(), broken)
    assert np.isnan(flat(direction)).all()
