"""What copies on the host do, step after step: an `Actor` for one batch of theirs.

Two kinds, which draw the same actions from the same keys, to the rounding of the dtype. Networks of the package's own
act in NumPy (`policies.in_numpy`), their random numbers drawn by JAX for many steps ahead; any other policy through one
compiled call a step. The key of a copy at time t is ``split(fold_in(key, t), copies)[copy]``.
"""

import functools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pgsom.normalisation import Moments, standardise
from pgsom.policies import Policy
from pgsom.policies.in_numpy import drawn, executed, forward, goes_in_numpy, kind_of_outputs, mode

Tree = Any
AHEAD = 64
"""Steps for which random numbers are drawn at once."""

Acted = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""For each copy [member · copy]: what is drawn, the outputs it is drawn from, and what the environment is given."""
Actor = Callable[[int, NDArray[Any]], Acted]
"""(t, observations [member · copy, …]) → what every copy does at time t."""


def actor_for(
    policy: Policy,
    copies: int,
    keys: Array,
    params: Tree,
    seen: Moments | None,
    *,
    deterministic: bool = False,
    steps: int = AHEAD,
) -> Actor:
    """Of `copies` copies of each member in about `steps` steps; keys [member], params and seen [member, …]."""
    data = jax.random.key_data(keys)
    if not goes_in_numpy(policy.network, policy.distribution):
        return _compiled(policy, copies, data, params, seen, deterministic=deterministic)
    return _in_numpy(policy, copies, data, params, seen, deterministic=deterministic, ahead=min(steps, AHEAD))


def _compiled(
    policy: Policy, copies: int, data: Array, params: Tree, seen: Moments | None, *, deterministic: bool
) -> Actor:
    program = act_program(policy, copies, deterministic)

    def act(t: int, observation: NDArray[Any]) -> Acted:
        action, outputs, given = program(params, data, np.int32(t), observation, seen)
        return np.asarray(action), np.asarray(outputs), np.asarray(given)

    return act


def _in_numpy(
    policy: Policy, copies: int, data: Array, params: Tree, seen: Moments | None, *, deterministic: bool, ahead: int
) -> Actor:
    head, members, network = policy.distribution, data.shape[0], forward(policy.network, params, seen)
    size, dtype = kind_of_outputs(policy.network, params)
    program = noise_program(policy, copies, ahead, size, dtype)
    given_for = executed(head, dtype)
    noise: dict[int, NDArray[Any]] = {}

    def noise_at(t: int) -> NDArray[Any]:
        chunk, row = divmod(t, ahead)
        if chunk not in noise:
            noise.clear()
            noise[chunk] = np.asarray(program(data, np.int32(chunk * ahead)))
        return noise[chunk][row]

    def act(t: int, observation: NDArray[Any]) -> Acted:
        with np.errstate(all="ignore"):
            outputs = network(observation.reshape(members, copies, *observation.shape[1:]))
            action = mode(head, outputs) if deterministic else drawn(head, outputs, noise_at(t))
            given = given_for(action)
        return _flat(action), _flat(outputs), _flat(given)

    return act


def _flat(x: NDArray[Any]) -> NDArray[Any]:
    """[member · copy, …]."""
    return x.reshape(-1, *x.shape[2:])


@functools.lru_cache(maxsize=64)
def act_program(policy: Policy, copies: int, deterministic: bool = False) -> Callable[..., tuple[Array, Array, Array]]:
    """(parameters, key data, t, observation, statistics) → three arrays, as `Acted` has them.

    It is called for every step, so what never changes is bound and not looked at again.
    """

    def of_copy(params: Tree, key: Array, observation: Array) -> tuple[Array, Array, Array]:
        outputs = policy.outputs(params, observation)
        head = policy.distribution
        action = head.mode(outputs) if deterministic else head.sample(key, outputs)
        return action, outputs, head.executed(action)

    def act(params: Tree, key_data: Array, t: Any, observation: Any, seen: Moments | None) -> Any:
        def of_member(params: Tree, data: Array, observation: Array, seen: Moments | None) -> Any:
            return jax.vmap(partial(of_copy, params))(_keys(data, t, copies), standardise(seen, observation))

        members = key_data.shape[0]
        by_member = observation.reshape(members, copies, *observation.shape[1:])
        acted = jax.vmap(of_member)(params, key_data, by_member, seen)
        return jax.tree.map(lambda x: x.reshape(members * copies, *x.shape[2:]), acted)

    return jax.jit(act)


@functools.lru_cache(maxsize=64)
def noise_program(policy: Policy, copies: int, rows: int, outputs: int, dtype: Any) -> Callable[..., Array]:
    """(key data [member], t) → what the draws of the steps t, …, t + rows − 1 are made from [row, member, copy, …]."""
    head: Any = policy.distribution
    blank = jnp.zeros(outputs, dtype)

    def noise(key_data: Array, first: Any) -> Array:
        def at(t: Array) -> Array:
            keys = jax.vmap(lambda data: _keys(data, t, copies))(key_data)
            return jax.vmap(jax.vmap(lambda key: head.noise(key, blank)))(keys)

        return jax.vmap(at)(first + np.arange(rows))

    return jax.jit(noise)


def _keys(data: Array, t: Any, copies: int) -> Array:
    return jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(data), t), copies)
