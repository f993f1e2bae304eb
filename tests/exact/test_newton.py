"""Newton's methods against dense solutions: damped, cubic, and by a critic's compatible weights."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from jax.flatten_util import ravel_pytree

from pgsom.checks import InputError
from pgsom.curvature import CausalHessian, Fisher, GaussNewton, dense
from pgsom.environments import random_mdp, two_armed_bandit
from pgsom.objective import LocalObjective
from pgsom.policies import MLP, Policy
from pgsom.updates.cubic import Tridiagonal, lanczos, lowest_eigenvalue, maximise_cubic
from pgsom.updates.cubic_newton import cubic_newton
from pgsom.updates.hessian_free import hessian_free
from pgsom.updates.natural_actor_critic import natural_actor_critic
from tests.exact.oracle import (
    STATES,
    flat,
    objective_of,
    quick_jit,
    random_params,
    tabular,
    truth,
    weights_by_hand,
)
from tests.exact.test_natural_gradient import random_problem

pytestmark = pytest.mark.usefixtures("float64")
MDP = random_mdp(np.random.default_rng(3), 3, 2, 3, 0.9)
POLICY, SHAPE = tabular(), (3, 864)
LINEAR = Policy(MLP(STATES, 2, (), bias=False, pinned_output=True, one_hot=True))


def at(params: Any, policy: Policy = POLICY) -> LocalObjective:
    return objective_of(MDP, policy, params, SHAPE)


_update = quick_jit(lambda rule, objective, state: rule.update(objective, state, objective.params))


def run(rule: Any, objective: LocalObjective, state: Any = None) -> Any:
    made = jax.tree.map(jnp.asarray, rule)
    return _update(made, objective, made.init(objective.params) if state is None else state)


# --- hessian-free ------------------------------------------------------------------------------------------------

FULL = {"cg_steps": 60, "tolerance": 1e-13, "kl_radius": 1e9}


@pytest.mark.parametrize("curvature", [GaussNewton(), CausalHessian()])
def test_conjugate_gradients_to_the_end_are_the_dense_damped_solve(curvature: Any) -> None:
    objective = at(random_params(POLICY))
    matrix = dense(curvature, objective) * (1 if curvature.positive_semi_definite else -1)
    damping = 0.3 + max(0.0, -float(np.linalg.eigvalsh(matrix)[0]))
    found, _, info = run(hessian_free(curvature, damping=damping, **FULL), objective)
    wanted = np.linalg.solve(matrix + damping * np.eye(len(matrix)), flat(objective.gradient()))
    np.testing.assert_allclose(flat(found), wanted, rtol=1e-8, atol=1e-10)
    assert info.declined == 0


def test_a_step_stays_within_its_radius() -> None:
    """To second order; beyond it the direction is the same and the length what √(2δ / xᵀFx) says."""
    objective = at(random_params(POLICY))
    long, _, _ = run(hessian_free(damping=0.01, **FULL), objective)
    short, _, _ = run(hessian_free(damping=0.01, **FULL | {"kl_radius": 1e-4}), objective)
    assert float(objective.mean_step_curvature(short)) == pytest.approx(2e-4)
    share = np.linalg.norm(flat(short)) / np.linalg.norm(flat(long))
    np.testing.assert_allclose(flat(short), share * flat(long), rtol=1e-6, atol=1e-12)
    assert share < 1


def test_at_negative_curvature_the_step_still_climbs() -> None:
    """Indefinite Hessians, hardly damped, everywhere: every step is finite, gains, and is kept within the radius."""
    rule = hessian_free("causal", damping=1e-6, cg_steps=20, kl_radius=0.02)
    indefinite = 0
    for seed in range(12):
        objective = at(random_params(POLICY, seed, scale=1.5))
        found, _, info = run(rule, objective)
        indefinite += np.linalg.eigvalsh(truth(MDP, POLICY, objective.params).hessian)[-1] > 1e-3
        there = jax.tree.map(jnp.add, objective.params, found)
        gain = truth(MDP, POLICY, there).value - truth(MDP, POLICY, objective.params).value
        assert np.all(np.isfinite(flat(found))) and flat(found) @ flat(objective.gradient()) > 0
        assert gain > 0 and info.declined == 0
        assert float(objective.mean_step_curvature(found)) <= 0.04 * (1 + 1e-9)
    assert indefinite > 6


def test_where_j_bends_up_along_the_gradient_the_step_is_along_it() -> None:
    """The bandit's J = σ(θ₀ − θ₁) below its middle: the first direction already has negative curvature."""
    params = jax.tree.map(lambda leaf: leaf.at[0].set(jnp.asarray([-3.0, 0.0])), random_params(POLICY, scale=0.0))
    objective = objective_of(two_armed_bandit(), POLICY, params, (1, 4))
    found, _, _ = run(hessian_free("causal", damping=1e-6, kl_radius=0.5), objective)
    g = flat(objective.gradient())
    assert g @ dense(CausalHessian(), objective) @ g > 0
    np.testing.assert_allclose(flat(found), g * (flat(found) @ g) / (g @ g), atol=1e-12)
    assert flat(found) @ g > 0


def test_damping_follows_how_well_the_model_predicts() -> None:
    """Short steps are predicted well; a Newton step that is hardly damped promises more than J can ever hold."""
    objective = at(random_params(POLICY))
    _, state, _ = run(hessian_free("causal", damping=3.0, kl_radius=1e-6), objective)
    assert float(state.damping) == pytest.approx(2.0)
    params = jax.tree.map(lambda leaf: leaf.at[0].set(jnp.asarray([0.02, 0.0])), random_params(POLICY, scale=0.0))
    bandit = objective_of(two_armed_bandit(), POLICY, params, (1, 4))
    found, state, info = run(hessian_free("causal", damping=3e-3, kl_radius=1e9), bandit)
    assert np.any(flat(found)) and info.declined == 0
    assert float(state.damping) == pytest.approx(4.5e-3)


def test_a_step_that_gains_nothing_is_not_taken() -> None:
    """Newton steps of any length on random batches: those declined would have gained nothing by the batch itself."""
    problems = jax.vmap(random_problem)(jax.random.split(jax.random.key(0), 60))
    rule = hessian_free(damping=1e-6, kl_radius=1e9)

    def of_one(objective: LocalObjective) -> Any:
        found, state, info = rule.update(objective, rule.init(objective.params), objective.params)
        full = rule.solve(objective, objective.gradient(), state.damping * 0 + 1e-6).x
        there = jax.tree.map(jnp.add, objective.params, full)
        gain = objective.value(there) - objective.value(objective.params)
        return ravel_pytree(found)[0], state.damping, info.declined, gain

    found, damping, declined, gain = quick_jit(jax.vmap(of_one))(problems)
    declined = np.asarray(declined).astype(bool)
    np.testing.assert_array_equal(gain <= 0, declined)
    np.testing.assert_array_equal(np.any(np.asarray(found) != 0, axis=1), ~declined)
    np.testing.assert_allclose(damping[declined], 1.5e-6)
    assert 0.05 < declined.mean() < 0.95


# --- cubic -------------------------------------------------------------------------------------------------------


def secular(B: np.ndarray, g: np.ndarray, rho: float) -> np.ndarray:
    """The s that minimises −gᵀs + ½ sᵀBs + (ρ/6)‖s‖³, from all eigenvalues of B."""
    values, vectors = np.linalg.eigh(B)
    along = vectors.T @ g
    along[np.abs(along) < 1e-12] = 0

    def short(nu: float) -> np.ndarray:
        gap = values + nu
        return np.where(along == 0, 0, along / np.where(gap == 0, np.inf, gap))

    least = max(0.0, -values[0])
    start = least + 1e-13
    if np.linalg.norm(short(start)) > 2 * start / rho:
        high = least + np.sqrt(rho * np.linalg.norm(g)) + 1
        nu = scipy.optimize.brentq(lambda n: np.linalg.norm(short(n)) - 2 * n / rho, start, high, xtol=1e-15)
        return vectors @ short(nu)
    s = short(least)
    return vectors @ s + np.sqrt((2 * least / rho) ** 2 - s @ s) * vectors[:, 0]


def model(B: np.ndarray, g: np.ndarray, rho: float, s: np.ndarray) -> float:
    return float(g @ s - 0.5 * s @ B @ s - rho / 6 * np.linalg.norm(s) ** 3)


def problem(lowest: float, seed: int, hard: bool) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues from `lowest` to 3 in 7 dimensions; in the hard case g has no part along the lowest."""
    generator = np.random.default_rng(seed)
    vectors, _ = np.linalg.qr(generator.normal(size=(7, 7)))
    along = generator.normal(size=7) * (0.1 if hard else 1.0)
    along[0] *= not hard
    return vectors @ np.diag(np.linspace(lowest, 3, 7)) @ vectors.T, vectors @ along


_maximise = quick_jit(lambda B, g, rho, key: maximise_cubic(lambda v: B @ v, g, rho, 7, key))


@pytest.mark.parametrize(
    ("lowest", "rho", "hard"),
    [(0.2, 0.5, False), (-2.0, 0.5, False), (-2.0, 50.0, False), (-2.0, 0.5, True), (-0.5, 1e-2, True)],
)
def test_the_cubic_step_is_the_solution_of_the_secular_equation(lowest: float, rho: float, hard: bool) -> None:
    for seed in range(5):
        B, g = problem(lowest, seed, hard)
        wanted = secular(B, g, rho)
        found = np.asarray(_maximise(jnp.asarray(B), jnp.asarray(g), jnp.asarray(rho), jax.random.key(seed)))
        assert model(B, g, rho, found) == pytest.approx(model(B, g, rho, wanted), rel=1e-7)
        if hard:
            assert np.linalg.norm(found) == pytest.approx(-2 * lowest / rho, rel=1e-6), "ν is the least there is"
            np.testing.assert_allclose(B @ found - lowest * found, g, atol=1e-7)
        else:
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def test_without_a_gradient_there_is_no_step() -> None:
    B, _ = problem(-2.0, 0, False)
    np.testing.assert_array_equal(_maximise(jnp.asarray(B), jnp.zeros(7), jnp.asarray(1.0), jax.random.key(0)), 0)


def test_lanczos_reaches_every_eigenvalue_also_past_a_breakdown() -> None:
    """g lies in a plane that B leaves alone, so the products end after two steps."""
    B, _ = problem(-2.0, 1, False)
    values, vectors = np.linalg.eigh(B)
    start = vectors[:, 3] + vectors[:, 5]
    T, Q = lanczos(lambda v: jnp.asarray(B) @ v, jnp.asarray(start), 7, jax.random.key(0))
    np.testing.assert_allclose(Q @ Q.T, np.eye(7), atol=1e-12)
    whole = np.diag(T.diagonal) + np.diag(T.beside[:-1], 1) + np.diag(T.beside[:-1], -1)
    np.testing.assert_allclose(Q @ B @ Q.T, whole, atol=1e-10)
    np.testing.assert_allclose(np.linalg.eigvalsh(whole), values, atol=1e-10)
    assert float(lowest_eigenvalue(Tridiagonal(T.diagonal, T.beside))) == pytest.approx(-2.0, abs=1e-10)


def test_cubic_newton_maximises_the_model_of_the_batch() -> None:
    """All products: the dense solution; two: the best within their span, which is less."""
    objective = at(random_params(POLICY, 2, scale=1.0))
    B, g = -np.asarray(dense(CausalHessian(), objective)), flat(objective.gradient())
    full, _, _ = run(cubic_newton(regularisation=0.3, lanczos_steps=8), objective)
    assert model(B, g, 0.3, flat(full)) == pytest.approx(model(B, g, 0.3, secular(B, g, 0.3)), rel=1e-7)
    part, _, _ = run(cubic_newton(regularisation=0.3, lanczos_steps=2), objective)
    basis, _ = np.linalg.qr(np.stack([g, B @ g], axis=1))
    wanted = basis @ secular(basis.T @ B @ basis, basis.T @ g, 0.3)
    np.testing.assert_allclose(flat(part), wanted, rtol=1e-5, atol=1e-8)
    assert model(B, g, 0.3, flat(part)) < model(B, g, 0.3, flat(full))


def test_a_cubic_model_needs_the_hessians_sign() -> None:
    with pytest.raises(InputError, match="curvature='gauss-newton': never negative"):
        cubic_newton("gauss-newton")


# --- natural actor-critic ----------------------------------------------------------------------------------------


def test_the_critics_weights_are_the_dense_least_squares() -> None:
    """Row by row over all steps of all trajectories, with uneven weights so that scores and states do not separate."""
    params = random_params(LINEAR)
    objective = at(params, LINEAR)
    uneven = np.random.default_rng(0).uniform(0.1, 1, SHAPE[1]) * (np.asarray(objective.episode_weight) > 0)
    objective = replace(objective, episode_weight=jnp.asarray(uneven))
    table = tables_of(params)
    state, action = np.asarray(objective.rollout.observation), np.asarray(objective.rollout.action)
    length = np.asarray(objective.rollout.length)
    w = weights_by_hand(np.asarray(objective.rollout.reward), length, MDP.discount, "lemma")
    rows, targets, weights = [], [], []
    for n in range(SHAPE[1]):
        for t in range(length[n]):
            rows.append([*table[state[t, n], action[t, n]], 1.0, state[t, n]])
            targets.append(w[t, n])
            weights.append(uneven[n])
    X, y, e = np.asarray(rows), np.asarray(targets), np.asarray(weights) / np.sum(weights)
    wanted = np.linalg.solve(X.T @ (e[:, None] * X) + 0.05 * np.eye(X.shape[1]), X.T @ (e * y))
    rule = natural_actor_critic(damping=0.05, cg_steps=60, tolerance=1e-14)
    x, v = quick_jit(lambda o: rule.critic(o, o.gradient()))(objective)
    np.testing.assert_allclose(np.concatenate([flat(x), v]), wanted, rtol=1e-7, atol=1e-9)


def tables_of(params: Any) -> np.ndarray:
    """∇ ln π [s, a, D] of the pinned linear policy."""

    def log_prob(theta: jax.Array) -> jax.Array:
        unravel = ravel_pytree(params)[1]
        u = jax.vmap(LINEAR.outputs, (None, 0))(unravel(theta), jnp.arange(STATES))
        return jax.nn.log_softmax(u)

    return np.asarray(jax.jacfwd(log_prob)(ravel_pytree(params)[0]))


def test_in_expectation_they_are_the_natural_gradient() -> None:
    params = random_params(LINEAR)
    objective = at(params, LINEAR)
    steps = float(objective.step_weight.sum())
    fisher = np.asarray(dense(Fisher(), objective)) / steps
    seen = np.diag(fisher) > 1e-12  # the MDP has fewer states than the policy knows
    rule = natural_actor_critic(damping=0.0, cg_steps=60, tolerance=1e-14, step_length="rate")
    found, _, _ = run(rule, objective)
    wanted = np.linalg.solve(fisher[np.ix_(seen, seen)], flat(objective.gradient())[seen] / steps)
    np.testing.assert_allclose(flat(found)[seen], wanted, rtol=1e-7)
    scaled, _, _ = run(replace(rule, step_length="kl", kl_radius=0.003), objective)
    assert float(objective.mean_step_curvature(scaled)) == pytest.approx(0.006)
