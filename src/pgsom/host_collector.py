"""Whole episodes on the host: the copies of all members (seeds, methods) are stepped together.

The policy's forward pass is compiled once and called once a step, for every copy of every member. What comes out is the
`Rollout` that `rollout.collect` would give, a leading axis for the members in front: [member, time, env, …].

Every batch begins its episodes anew, from seeds that follow from the batch's key. So a batch is a function of key and
parameters, as in JAX, provided that the environment is one of its seed: seed i does not depend on the others, and a
resumed run plays what an uninterrupted one would have played.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pgsom.environments import Copies, HostEnvironment, HostStep
from pgsom.folds import padded_length
from pgsom.policies import Policy
from pgsom.rollout import Rollout, Score

Tree = Any
RESETS = 0x7265
"""Folded into a batch's key for the seeds of its episodes; steps fold in their number."""
COPIES_OF_SCORE = 8
"""Episodes of a member that are scored side by side."""


@partial(jax.jit, static_argnames=("policy", "copies", "deterministic"))
def act_program(
    policy: Policy, params: Tree, key_data: Array, t: Array, observation: Array, *, copies: int, deterministic: bool
) -> tuple[Array, Array, Array]:
    """For each copy [member · copy] what is drawn, the outputs it is drawn from, and what the environment is given."""

    def of_copy(params: Tree, key: Array, seen: Array) -> tuple[Array, Array, Array]:
        outputs = policy.outputs(params, seen)
        head = policy.distribution
        action = head.mode(outputs) if deterministic else head.sample(key, outputs)
        return action, outputs, head.executed(action)

    def of_member(params: Tree, data: Array, seen: Array) -> tuple[Array, Array, Array]:
        keys = jax.random.split(jax.random.fold_in(jax.random.wrap_key_data(data), t), copies)
        return jax.vmap(partial(of_copy, params))(keys, seen)

    members = key_data.shape[0]
    acted = jax.vmap(of_member)(params, key_data, observation.reshape(members, copies, *observation.shape[1:]))
    return jax.tree.map(lambda x: x.reshape(members * copies, *x.shape[2:]), acted)


@partial(jax.jit, static_argnames="copies")
def _reset_seeds(keys: Array, copies: int) -> Array:
    """31 bits for every copy [member · copy]."""
    drawn = jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, RESETS), (copies,), jnp.uint32))(keys)
    return (drawn >> 1).reshape(-1)


@dataclass
class _Record:
    """What is written down on the way, [time, member · copy, …]."""

    rows: int
    members: int
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def write(self, t: int, **seen: NDArray[Any]) -> None:
        for name, row in seen.items():
            if name not in self.arrays:
                self.arrays[name] = np.zeros((self.rows, *row.shape), row.dtype)
            self.arrays[name][t] = row

    def of(self, name: str) -> Array:
        """[member, time, env, …]."""
        whole = self.arrays[name]
        split = whole.reshape(self.rows, self.members, -1, *whole.shape[2:])
        return jnp.asarray(np.moveaxis(split, 1, 0))


@dataclass
class _Episodes:
    """One episode in every copy."""

    steps: int
    length: NDArray[Any]
    terminated: NDArray[Any]
    truncated: NDArray[Any]
    final: NDArray[Any]
    total: NDArray[Any]


class HostCollector:
    """Plays whole episodes in `copies` copies for each member; opened once, closed when training ends."""

    def __init__(self, environment: HostEnvironment, policy: Policy, labels: Sequence[str], copies: int) -> None:
        self.environment, self.policy = environment, policy
        self.members, self.copies = len(labels), copies
        self._open: Copies = environment.open([f"{label}, copy {i}" for label in labels for i in range(copies)])

    def collect(self, keys: Array, params: Tree) -> Rollout:
        """A batch for each member, [member, time, env]; keys [member], params [member, …]."""
        record = _Record(padded_length(self.environment.horizon), self.members)
        ended = self._play(keys, params, record, deterministic=False)
        dtype = jnp.zeros((), float).dtype

        def by_member(x: NDArray[Any]) -> Array:
            return jnp.asarray(x.reshape(self.members, self.copies, *x.shape[1:]))

        return Rollout(
            observation=record.of("observation"),
            action=record.of("action"),
            outputs=record.of("outputs"),
            reward=record.of("reward").astype(dtype),
            length=by_member(ended.length),
            terminated=by_member(ended.terminated),
            truncated=by_member(ended.truncated),
            final_observation=by_member(ended.final),
        )

    def score(self, keys: Array, params: Tree, episodes: int, *, deterministic: bool) -> Score:
        """Returns and lengths [member, episode] of `episodes` episodes for each member.

        Each copy plays as many as the others, one after the other, so that short ones do not count more.
        """
        waves = -(-episodes // self.copies)
        played = [self._play(_folded(keys, wave), params, None, deterministic=deterministic) for wave in range(waves)]

        def joined(name: str) -> Array:
            parts = [getattr(wave, name).reshape(self.members, self.copies) for wave in played]
            return jnp.asarray(np.concatenate(parts, axis=1)[:, :episodes])

        return Score(joined("total"), joined("length"))

    def close(self) -> None:
        """Close the copies."""
        self._open.close()

    def _play(self, keys: Array, params: Tree, record: _Record | None, *, deterministic: bool) -> _Episodes:
        """Step all copies until the last has ended its episode."""
        key_data = jax.random.key_data(keys)
        act = partial(act_program, self.policy, copies=self.copies, deterministic=deterministic)
        observation = self._open.reset([int(seed) for seed in np.asarray(_reset_seeds(keys, self.copies))])
        count = self._open.count
        nobody = np.zeros(count, bool)
        ended = _Episodes(0, np.zeros(count, np.int32), nobody, nobody, observation, np.zeros(count))
        alive = ~nobody
        while alive.any() and ended.steps < self.environment.horizon:
            action, outputs, executed = act(params, key_data, np.int32(ended.steps), observation)
            step = self._open.step(np.asarray(executed), ~alive)
            if record is not None:
                seen = {"observation": observation, "action": np.asarray(action), "outputs": np.asarray(outputs)}
                record.write(ended.steps, **seen, reward=np.where(alive, step.reward, 0.0))
            ended = _after(ended, step, alive, self.environment.horizon)
            observation, alive = step.observation, alive & ~(ended.terminated | ended.truncated)
        return ended


def _after(ended: _Episodes, step: HostStep, alive: NDArray[Any], horizon: int) -> _Episodes:
    steps = ended.steps + 1
    terminated = ended.terminated | (alive & step.terminated)
    # An environment whose own limit is longer than the horizon is cut here.
    truncated = ended.truncated | (alive & (step.truncated | (steps >= horizon) & ~step.terminated))
    final = np.where(alive.reshape(-1, *[1] * (step.final.ndim - 1)), step.final, ended.final)
    total = ended.total + np.where(alive, step.reward, 0.0)
    return _Episodes(steps, ended.length + alive.astype(np.int32), terminated, truncated, final, total)


@jax.jit
def _folded(keys: Array, number: int) -> Array:
    return jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)


def host_score(
    environment: HostEnvironment,
    policy: Policy,
    params: Tree,
    keys: Array,
    labels: Sequence[str],
    episodes: int,
    *,
    deterministic: bool = False,
) -> Score:
    """`rollout.score` on the host for every member, [member, episode]."""
    collector = HostCollector(environment, policy, labels, min(episodes, COPIES_OF_SCORE))
    try:
        return collector.score(keys, params, episodes, deterministic=deterministic)
    finally:
        collector.close()
