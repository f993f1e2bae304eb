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
    noise: Array | None = None,
) -> Actor:
    """Of `copies` copies of each member; keys or their data [member], params and seen [member, …].

    `noise` is what `first_noise` gave for these keys, if that is known.
    """
    data = jax.random.key_data(keys) if jnp.issubdtype(keys.dtype, jax.dtypes.prng_key) else keys
    if not goes_in_numpy(policy.network, policy.distribution):
        return _compiled(policy, copies, data, params, seen, deterministic=deterministic)
    return _in_numpy(policy, copies, data, params, seen, deterministic=deterministic, first=noise)


def first_noise(policy: Policy, copies: int, key: Array, params: Tree, steps: int = 0) -> Array | None:
    """For one member, inside a program: what its draws are made from in a batch's first `steps` steps, or `AHEAD`."""
    if not goes_in_numpy(policy.network, policy.distribution):
        return None
    size, dtype = kind_of_outputs(policy.network, params)
    return _noise(policy.distribution, copies, min(steps or AHEAD, AHEAD), jnp.zeros(size, dtype), key, 0)


def _compiled(
    policy: Policy, copies: int, data: Array, params: Tree, seen: Moments | None, *, deterministic: bool
) -> Actor:
    program = act_program(policy, copies, deterministic)

    def act(t: int, observation: NDArray[Any]) -> Acted:
        action, outputs, given = program(params, data, np.int32(t), observation, seen)
        return np.asarray(action), np.asarray(outputs), np.asarray(given)

    return act


def _in_numpy(
    policy: Policy,
    copies: int,
    data: Array,
    params: Tree,
    seen: Moments | None,
    *,
    deterministic: bool,
    first: Array | None,
) -> Actor:
    head, members, network = policy.distribution, data.shape[0], forward(policy.network, params, seen)
    size, dtype = kind_of_outputs(policy.network, params)
    given_for = executed(head, dtype)
    begins, noise = (0, np.asarray(first)) if first is not None else (0, np.zeros((members, 0)))

    def noise_at(t: int) -> NDArray[Any]:
        nonlocal begins, noise
        if not begins <= t < begins + noise.shape[1]:
            program = noise_program(policy, copies, size, dtype)
            begins, noise = t, np.asarray(program(data, np.int32(t)))
        return noise[:, t - begins]

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
            keys = _keys(jax.random.wrap_key_data(data), t, copies)
            return jax.vmap(partial(of_copy, params))(keys, standardise(seen, observation))

        members = key_data.shape[0]
        by_member = observation.reshape(members, copies, *observation.shape[1:])
        acted = jax.vmap(of_member)(params, key_data, by_member, seen)
        return jax.tree.map(lambda x: x.reshape(members * copies, *x.shape[2:]), acted)

    return jax.jit(act)


@functools.lru_cache(maxsize=64)
def noise_program(policy: Policy, copies: int, outputs: int, dtype: Any) -> Callable[..., Array]:
    """(key data [member], t) → what the draws of the next `AHEAD` steps are made from [member, row, copy, …]."""
    blank = jnp.zeros(outputs, dtype)

    def of_member(data: Array, first: Array) -> Array:
        return _noise(policy.distribution, copies, AHEAD, blank, jax.random.wrap_key_data(data), first)

    return jax.jit(jax.vmap(of_member, (0, None)))


def _noise(head: Any, copies: int, rows: int, blank: Array, key: Array, first: Any) -> Array:
    """[row, copy, …]."""

    def at(t: Array) -> Array:
        return jax.vmap(lambda own: head.noise(own, blank))(_keys(key, t, copies))

    return jax.vmap(at)(first + jnp.arange(rows))


def _keys(key: Array, t: Any, copies: int) -> Array:
    return jax.random.split(jax.random.fold_in(key, t), copies)
