"""Acting in NumPy is acting: the same outputs, draws and executed actions as the compiled call, from the same keys."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.acting import AHEAD, act_program, actor_for
from pgsom.environments import Box, Discrete, MultiBinary, MultiDiscrete, Spec
from pgsom.normalisation import Moments
from pgsom.policies import MLP, LayerNormMLP, Policy, head_for, linear_logistic, standardised
from pgsom.policies.in_numpy import ACTIVATIONS, goes_in_numpy
from pgsom.policies.networks import ACTIVATIONS as IN_JAX

MEMBERS, COPIES, SEEN = 2, 3, 5
REAL = Box((2,), (-2.0, 0.0), (2.0, 1.0))
ACTIONS: dict[str, tuple[Spec, str]] = {
    "one of 2": (Discrete(2), "gaussian"),
    "one of 5": (Discrete(5), "gaussian"),
    "several": (MultiDiscrete((2, 3, 4)), "gaussian"),
    "switches": (MultiBinary(3), "gaussian"),
    "gaussian": (REAL, "gaussian"),
    "tanh-gaussian": (REAL, "tanh-gaussian"),
}


def policy_for(action: Spec, actions: str = "gaussian", **of_network: Any) -> Policy:
    head = head_for(action, actions)
    return Policy(MLP(SEEN, head.outputs, (8, 7), last_scale=1.0, free=head.scales, **of_network), head.distribution)


def members(policy: Policy) -> Any:
    params = jax.vmap(policy.init)(jax.random.split(jax.random.key(1), MEMBERS))
    return jax.tree.map(lambda leaf: leaf + 0.3 * jax.random.normal(jax.random.key(leaf.size), leaf.shape), params)


def statistics(number: float = 9.0) -> Moments:
    shape = (MEMBERS, SEEN)
    mean, squares = jax.random.normal(jax.random.key(2), shape), 9 * jnp.linspace(0.01, 4.0, SEEN)
    return Moments(jnp.array([number, 4.0]), mean, jnp.broadcast_to(squares, shape))


def compare(policy: Policy, params: Any, seen: Moments | None, observation: Any, *, deterministic: bool) -> None:
    """Both kinds at times in the first and in the second stretch of random numbers."""
    keys = jax.random.split(jax.random.key(3), MEMBERS)
    assert goes_in_numpy(policy.network, policy.distribution)
    act = actor_for(policy, COPIES, keys, params, seen, deterministic=deterministic)
    program = act_program(policy, COPIES, deterministic)
    draws = []
    for t in (0, 1, AHEAD + 2):
        expected = program(params, jax.random.key_data(keys), np.int32(t), observation, seen)
        for found, compiled in zip(act(t, observation), expected, strict=True):
            assert (found.shape, found.dtype) == (compiled.shape, compiled.dtype)
            np.testing.assert_allclose(found, compiled, rtol=2e-5, atol=2e-6)
        draws.append(np.asarray(expected[0]))
    assert deterministic or not np.array_equal(draws[0], draws[2])


def observations() -> np.ndarray:
    return np.random.default_rng(4).normal(size=(MEMBERS * COPIES, SEEN)).astype(np.float32)


@pytest.mark.parametrize("deterministic", [False, True], ids=["drawn", "most probable"])
@pytest.mark.parametrize("case", ACTIONS)
def test_every_head_draws_what_its_own_sample_draws(case: str, deterministic: bool) -> None:
    policy = policy_for(*ACTIONS[case])
    compare(policy, members(policy), statistics(), observations(), deterministic=deterministic)


def test_statistics_of_nothing_change_nothing_and_outliers_end_at_ten() -> None:
    policy = policy_for(Discrete(4))
    far = 1e4 * observations()
    compare(policy, members(policy), statistics(number=0.0), far, deterministic=True)


def test_a_policy_that_carries_its_statistics_and_ones_of_other_shapes() -> None:
    seen = Box((SEEN,))
    inner = policy_for(REAL)
    compare(standardised(inner, seen), (members(inner), statistics()), None, observations(), deterministic=True)
    for network in (linear_logistic(SEEN, 3), MLP(SEEN, 3, (4,), one_hot=True, last_scale=1.0)):
        policy = Policy(network)
        whole = np.arange(MEMBERS * COPIES, dtype=np.int32) % SEEN
        observation = whole if network.one_hot else observations()
        compare(policy, members(policy), None, observation, deterministic=False)


@pytest.mark.parametrize("name", IN_JAX)
def test_activations_are_those_of_jax(name: str) -> None:
    x = np.linspace(-8, 8, 201, dtype=np.float32)
    found = ACTIVATIONS[name](x)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found, IN_JAX[name](x), rtol=2e-5, atol=2e-6)


def test_what_numpy_does_not_know_acts_by_the_compiled_call() -> None:
    normalised, within = LayerNormMLP(MLP(SEEN, 2, (4,))), head_for(REAL, "beta").distribution
    for policy in (Policy(normalised), Policy(MLP(SEEN, 4), within)):
        assert not goes_in_numpy(policy.network, policy.distribution)
        keys = jax.random.split(jax.random.key(1), 1)
        acted = actor_for(policy, 2, keys, jax.vmap(policy.init)(keys), None)(0, observations()[:2])
        assert all(isinstance(x, np.ndarray) and len(x) == 2 for x in acted)


def test_numbers_that_are_not_finite_pass_through_in_silence() -> None:
    """Training looks for them; a warning, an error here, would end the run instead."""
    policy = policy_for(REAL, "tanh-gaussian", activation="silu")
    params = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.inf), members(policy))
    keys = jax.random.split(jax.random.key(3), MEMBERS)
    action, _, _ = actor_for(policy, COPIES, keys, params, None)(0, observations())
    assert not np.isfinite(action).all()
