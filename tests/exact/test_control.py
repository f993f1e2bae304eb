"""Linear-quadratic systems: the closed forms against differentiation, against sampling and against brute force."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.checks import InputError
from pgsom.environments import (
    LinearGaussian,
    LinearQuadratic,
    best_gain,
    control_fisher,
    control_gradient,
    control_hessian,
    control_natural_gradient,
    control_return,
    double_integrator,
    riccati_gains,
)

pytestmark = pytest.mark.usefixtures("float64")


def some_system(horizon: int | None, seed: int = 0, states: int = 3, actions: int = 2) -> LinearQuadratic:
    """Nothing in it is zero, symmetric where it need not be, or the identity."""
    draw = np.random.default_rng(seed)
    root = [draw.normal(size=(n, n)) for n in (states, states, states, actions)]
    noise, start, state_cost, action_cost = (r @ r.T / len(r) for r in root)
    return LinearQuadratic(
        0.4 * draw.normal(size=(states, states)),
        draw.normal(size=(states, actions)),
        state_cost,
        action_cost + np.eye(actions),
        0.9,
        horizon,
        noise=0.1 * noise,
        start_mean=draw.normal(size=states),
        start_covariance=start,
        sampling_horizon=120 if horizon is None else None,
    )


def some_policy(system: LinearQuadratic, seed: int = 1) -> LinearGaussian:
    draw = np.random.default_rng(seed)
    gain = 0.1 * draw.normal(size=(system.actions, system.states))
    return LinearGaussian(jnp.asarray(gain), jnp.asarray(draw.uniform(-1, 0, system.actions)))


@pytest.fixture(params=[4, None], ids=["finite", "infinite"], name="system")
def _system(request: pytest.FixtureRequest) -> LinearQuadratic:
    return some_system(request.param)


def sampled_returns(system: LinearQuadratic, policy: LinearGaussian, episodes: int) -> np.ndarray:
    """Discounted returns of the environment itself under the policy."""

    @jax.jit
    @jax.vmap
    def play(key: Any) -> Any:
        first, rest = jax.random.split(key)

        def move(carry: Any, key: Any) -> Any:
            state, seen, weight = carry
            draw, step_key = jax.random.split(key)
            noise = jnp.exp(policy.log_std) * jax.random.normal(draw, policy.log_std.shape)
            step = system.step(step_key, state, policy.gain @ seen + noise)
            return (step.state, step.observation, weight * system.discount), weight * step.reward

        keys = jax.random.split(rest, system.horizon)
        return jax.lax.scan(move, (*system.reset(first), jnp.asarray(1.0)), keys)[1].sum()

    return np.asarray(play(jax.random.split(jax.random.key(0), episodes)))


def test_the_return_is_the_mean_of_sampled_returns(system: LinearQuadratic) -> None:
    policy = some_policy(system)
    returns = sampled_returns(system, policy, 20_000)
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - float(control_return(system, policy))) < 4 * error
    assert error < 0.02 * abs(returns.mean())


def test_the_gradient_is_the_derivative_of_the_return(system: LinearQuadratic) -> None:
    policy = some_policy(system)
    expected = jax.grad(lambda p: control_return(system, p))(policy)
    for ours, theirs in zip(control_gradient(system, policy), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_the_gradient_is_a_finite_difference(system: LinearQuadratic) -> None:
    """Of the return's own values, without automatic differentiation."""
    flat, unravel = ravel_pytree(some_policy(system))
    gradient = ravel_pytree(control_gradient(system, unravel(flat)))[0]
    for index in range(flat.size):
        step = 1e-5 * jnp.eye(flat.size)[index]
        ends = [float(control_return(system, unravel(flat + sign * step))) for sign in (1, -1)]
        assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(gradient[index]), rel=1e-6)


def test_the_hessian_is_the_second_derivative(system: LinearQuadratic) -> None:
    flat, unravel = ravel_pytree(some_policy(system))
    expected = jax.hessian(lambda x: control_return(system, unravel(x)))(flat)
    np.testing.assert_allclose(control_hessian(system, unravel(flat)), expected, rtol=1e-8, atol=1e-9)


def test_a_long_horizon_is_an_infinite_one() -> None:
    long, infinite = some_system(400), some_system(None)
    policy = some_policy(long)
    for function in (control_return, control_gradient, control_hessian, control_natural_gradient):
        pairs = zip(*(jax.tree.leaves(function(s, policy)) for s in (long, infinite)), strict=True)
        assert all(np.allclose(one, other, rtol=1e-8) for one, other in pairs), function


@pytest.mark.parametrize("discounted", [True, False])
def test_the_natural_gradient_solves_the_fisher_system(system: LinearQuadratic, discounted: bool) -> None:
    if system.infinite and not discounted:
        return
    policy = some_policy(system)
    natural = ravel_pytree(control_natural_gradient(system, policy, discounted=discounted))[0]
    gradient = ravel_pytree(control_gradient(system, policy))[0]
    fisher = control_fisher(system, policy, discounted=discounted)
    np.testing.assert_allclose(fisher @ natural, gradient, rtol=1e-9)


def test_the_natural_gradient_of_an_infinite_horizon_is_kakades() -> None:
    """−2 Σ L, whatever the states visited: with P by iteration of its own recursion."""
    system = some_system(None)
    policy = some_policy(system)
    K, gamma = np.asarray(policy.gain), system.discount
    closed, P = system.dynamics + system.control @ K, np.zeros((3, 3))
    for _ in range(2000):
        P = system.state_cost + K.T @ system.action_cost @ K + gamma * closed.T @ P @ closed
    L = system.action_cost @ K + gamma * system.control.T @ P @ closed
    expected = -2 * np.exp(2 * np.asarray(policy.log_std))[:, None] * L
    np.testing.assert_allclose(control_natural_gradient(system, policy).gain, expected, rtol=1e-8)


@pytest.mark.parametrize("discounted", [True, False])
def test_the_fisher_matrix_is_that_of_sampled_scores(discounted: bool) -> None:
    """E[∇ ln π ∇ ln πᵀ] over states drawn from the exact moments, by differentiating ln π."""
    system = some_system(3)
    policy = some_policy(system)
    flat, unravel = ravel_pytree(policy)

    def log_density(x: Any, state: Any, action: Any) -> Any:
        K, std = unravel(x)
        return jnp.sum(-0.5 * jnp.square((action - K @ state) / jnp.exp(std)) - std)

    draw, total = np.random.default_rng(0), np.zeros((flat.size, flat.size))
    state = draw.multivariate_normal(system.start_mean, system.start_covariance, 60_000)
    scores_of = jax.jit(jax.vmap(jax.grad(log_density), in_axes=(None, 0, 0)))
    for t in range(3):
        action = state @ np.asarray(policy.gain).T + np.exp(policy.log_std) * draw.normal(size=(60_000, 2))
        scores = np.asarray(scores_of(flat, state, action))
        total += (system.discount**t if discounted else 1) * scores.T @ scores / len(scores)
        noise = draw.multivariate_normal(np.zeros(3), system.noise, 60_000)
        state = state @ system.dynamics.T + action @ system.control.T + noise
    expected = control_fisher(system, policy, discounted=discounted)
    np.testing.assert_allclose(total, expected, rtol=0.05, atol=0.03 * float(jnp.max(expected)))


def test_riccatis_gain_is_stationary_and_best() -> None:
    system = some_system(None)
    policy = LinearGaussian(best_gain(system), jnp.full(2, -20.0))
    assert np.allclose(control_gradient(system, policy).gain, 0, atol=1e-9)
    assert np.all(np.linalg.eigvalsh(control_hessian(system, policy)[:6, :6]) < 0)
    draw = np.random.default_rng(0)
    for _ in range(20):
        other = policy.gain + 0.1 * draw.normal(size=(2, 3))
        assert control_return(system, policy._replace(gain=other)) < control_return(system, policy)


def test_riccatis_gains_beat_every_change_of_one_of_them() -> None:
    """Finite horizon: one gain a step, the return by its own recursion in NumPy."""
    system = some_system(4)

    def of_gains(gains: np.ndarray) -> float:
        moment = system.start_covariance + np.outer(system.start_mean, system.start_mean)
        total = 0.0
        for t, K in enumerate(gains):
            total -= system.discount**t * np.sum((system.state_cost + K.T @ system.action_cost @ K) * moment)
            closed = system.dynamics + system.control @ K
            moment = closed @ moment @ closed.T + system.noise
        return float(total)

    gains = np.asarray(riccati_gains(system))
    assert gains.shape == (4, 2, 3) and np.all(gains[-1] == 0)
    draw = np.random.default_rng(0)
    for t in range(4):
        changed = gains.copy()
        changed[t] += 0.05 * draw.normal(size=(2, 3))
        assert of_gains(changed) < of_gains(gains)
    fixed = np.asarray(best_gain(system))
    still = np.broadcast_to(fixed, gains.shape)
    exact = float(control_return(system, LinearGaussian(jnp.asarray(fixed), jnp.full(2, -jnp.inf))))
    assert of_gains(still) == pytest.approx(exact) and exact < of_gains(gains)


def test_the_best_constant_gain_of_a_finite_horizon_is_stationary() -> None:
    for system in (some_system(4), double_integrator()):
        gain = best_gain(system)
        policy = LinearGaussian(gain, jnp.full(system.actions, -jnp.inf))
        assert np.allclose(control_gradient(system, policy).gain, 0, atol=1e-6)
        first = LinearGaussian(riccati_gains(system)[0], policy.log_std)
        assert control_return(system, policy) > control_return(system, first)


def test_an_unstable_loop_has_no_finite_return() -> None:
    system = LinearQuadratic([[1.2]], [[1.0]], [[1.0]], [[1.0]], 0.9, None)
    assert control_return(system, LinearGaussian(jnp.zeros((1, 1)), jnp.zeros(1))) == -jnp.inf
    assert np.isfinite(control_return(system, LinearGaussian(-jnp.ones((1, 1)), jnp.zeros(1))))


ONE = [[1.0]]


@pytest.mark.parametrize(
    ("wrong_call", "message"),
    [
        (lambda: LinearQuadratic([1.0], ONE, ONE, ONE, 0.9, 3), "dynamics.shape=(1,): accepted is a matrix"),
        (lambda: LinearQuadratic(np.ones((2, 3)), ONE, ONE, ONE, 0.9, 3), "control.shape=(1, 1): accepted is a matrix"),
        (lambda: LinearQuadratic(ONE, ONE, np.eye(2), ONE, 0.9, 3), "state_cost.shape=(2, 2): accepted is a matrix wi"),
        (lambda: LinearQuadratic(ONE, ONE, [[-1.0]], ONE, 0.9, 3), "state_cost=[[-1.0]]: its smallest eigenvalue is"),
        (lambda: LinearQuadratic(ONE, ONE, ONE, [[0.0]], 0.9, 3), "accepted is a positive definite matrix"),
        (lambda: LinearQuadratic(ONE, ONE, ONE, ONE, 1.0, None), "horizon=None: accepted with discount < 1 only"),
        (lambda: LinearQuadratic(ONE, ONE, ONE, ONE, 0.9, 3, start_mean=[0, 0]), "start_mean.shape=(2,): accepted is"),
        (lambda: LinearQuadratic("x", ONE, ONE, ONE, 0.9, 3), "dynamics='x': accepted is an array of numbers"),
        (lambda: LinearQuadratic([[np.nan]], ONE, ONE, ONE, 0.9, 3), "dynamics=[[nan]]: accepted are finite numbers"),
        (
            lambda: LinearQuadratic(np.eye(2), np.ones((2, 1)), [[1, 1], [0, 1]], ONE, 0.9, 3),
            "accepted is a symmetric matrix",
        ),
        (
            lambda: control_return(double_integrator(), LinearGaussian(jnp.zeros((2, 1)), jnp.zeros(1))),
            "gain.shape=(2, 1): accepted is (1, 2)",
        ),
        (
            lambda: control_fisher(some_system(None), some_policy(some_system(None)), discounted=False),
            "discounted=False: accepted is True for an infinite horizon",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_systems_are_answered(wrong_call: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        wrong_call()
    assert message in str(error.value)


def test_systems_are_equal_by_their_contents() -> None:
    assert some_system(4) == some_system(4) and hash(some_system(4)) == hash(some_system(4))
    assert len({some_system(4), some_system(5), some_system(None), double_integrator()}) == 4
    assert "states=3, actions=2, discount=0.9, horizon=infinite" in repr(some_system(None))
