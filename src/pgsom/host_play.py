"""Playing on the host: the copies of all members (seeds, methods) are stepped together.

The policy acts once a step, for every copy of every member. What comes out is what `rollout.collect` and
`segments.play_segments` would give, a leading axis for the members in front, observations as the environment gave
them, and all of it in NumPy: [member, time, env, …].

A batch of whole episodes begins them anew, from seeds that follow from the batch's key. So it is a function of key and
parameters, as in JAX, provided that the environment is one of its seed: seed i does not depend on the others, and a
resumed run plays what an uninterrupted one would have played. Of segments this holds for the first; later ones go on in
the episodes that they find.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pgsom.acting import Actor, actor_for
from pgsom.environments import Copies, HostEnvironment
from pgsom.folds import padded_length
from pgsom.normalisation import Moments
from pgsom.policies import Policy
from pgsom.rollout import Rollout, Score
from pgsom.segments import Segments

Tree = Any
RESETS = 0x7265
"""Folded into a batch's key for the seeds of its episodes; steps fold in their number."""
COPIES_OF_SCORE = 8
"""Episodes of a member that are scored side by side."""


@partial(jax.jit, static_argnames="copies")
def reset_seeds(keys: Array, copies: int) -> Array:
    """31 bits for every copy [member · copy], from keys or their data."""
    keys = keys if jnp.issubdtype(keys.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(keys)
    drawn = jax.vmap(lambda key: jax.random.bits(jax.random.fold_in(key, RESETS), (copies,), jnp.uint32))(keys)
    return (drawn >> 1).reshape(-1)


class _Record:
    """What is written down on the way, [time, member · copy, …]."""

    def __init__(self, rows: int, members: int) -> None:
        self.rows, self.members = rows, members
        self.arrays: dict[str, NDArray[Any]] = {}

    def write(self, t: int, **seen: NDArray[Any]) -> None:
        for name, row in seen.items():
            if name not in self.arrays:
                self.arrays[name] = np.zeros((self.rows, *row.shape), row.dtype)
            self.arrays[name][t] = row

    def of(self, name: str, dtype: Any = None) -> Any:
        """[member, time, env, …], in NumPy: a compiled program takes it in faster than `jnp.asarray` would."""
        whole = self.arrays[name]
        split = whole.reshape(self.rows, self.members, -1, *whole.shape[2:]).swapaxes(0, 1)
        return split if dtype is None else split.astype(dtype)


class _Episodes(NamedTuple):
    """One episode in every copy, filled in while they go on."""

    length: NDArray[Any]
    terminated: NDArray[Any]
    truncated: NDArray[Any]
    final: NDArray[Any]
    total: NDArray[Any]


class _Standing(NamedTuple):
    """Where segments go on, [member · copy, …]."""

    observation: NDArray[Any]
    time: NDArray[Any]
    total: NDArray[Any]


class HostPlayer:
    """Opened copies, `copies` for each member, and the policy that plays in them."""

    def __init__(self, environment: HostEnvironment, policy: Policy, labels: Sequence[str], copies: int) -> None:
        self.environment, self.policy = environment, policy
        self.members, self.copies = len(labels), copies
        self._open: Copies = environment.open([f"{label}, copy {i}" for label in labels for i in range(copies)])
        self._standing: _Standing | None = None

    def episodes(
        self, keys: Array, params: Tree, seen: Moments | None = None, *, noise: Array | None = None
    ) -> Rollout:
        """An episode in each copy; keys (or their data) [member], params, seen and noise [member, …]."""
        record = _Record(padded_length(self.environment.horizon), self.members)
        ended = self._play(keys, params, seen, record, noise=noise)
        dtype = jnp.zeros((), float).dtype
        return Rollout(
            observation=record.of("observation"),
            action=record.of("action"),
            outputs=record.of("outputs"),
            reward=record.of("reward", dtype),
            length=self._by_member(ended.length),
            terminated=self._by_member(ended.terminated),
            truncated=self._by_member(ended.truncated),
            final_observation=self._by_member(ended.final),
            reward_scale=self._ones(dtype),
        )

    def segments(
        self, keys: Array, params: Tree, seen: Moments | None, steps: int, *, noise: Array | None = None
    ) -> Segments:
        """`steps` calls of each copy; in the autoreset mode NEXT_STEP some only begin an episode."""
        record, act = _Record(steps, self.members), self._actor(keys, params, seen, noise=noise)
        observation, time, total = self._standing or self._begun(keys)
        for t in range(steps):
            action, outputs, executed = act(t, observation)
            step = self._open.step(executed)
            total = total + step.reward
            row = {"observation": observation, "action": action, "outputs": outputs}
            ends = {"terminated": step.terminated, "truncated": step.truncated, "taken": step.taken}
            record.write(t, **row, **ends, reward=step.reward, next=step.final, time=time, total=total)
            going_on = step.taken & ~(step.terminated | step.truncated)
            observation, time, total = step.observation, np.where(going_on, time + 1, 0), np.where(going_on, total, 0.0)
        self._standing = _Standing(observation, time, total)
        dtype = jnp.zeros((), float).dtype
        return Segments(
            observation=record.of("observation"),
            action=record.of("action"),
            outputs=record.of("outputs"),
            reward=record.of("reward", dtype),
            taken=record.of("taken"),
            terminated=record.of("terminated"),
            truncated=record.of("truncated"),
            next_observation=record.of("next"),
            time=record.of("time"),
            episode_return=record.of("total", dtype),
            reward_scale=self._ones(dtype),
        )

    def blank(self, keys: Array, params: Tree, seen: Moments | None, steps: int) -> Rollout | Segments:
        """A batch of the right shapes in which nothing happened; `steps` 0 for whole episodes."""
        observation = np.zeros((self._open.count, *self.environment.observation.shape), self._open.dtype)
        action, outputs, _ = self._actor(keys, params, seen)(0, observation)
        rows = steps or padded_length(self.environment.horizon)
        count, dtype = np.ones(self._open.count), jnp.zeros((), float).dtype

        def recorded(row: NDArray[Any]) -> Any:
            return np.zeros((self.members, rows, self.copies, *row.shape[1:]), row.dtype)

        seen_and_done = (recorded(observation), recorded(action), recorded(outputs), recorded(np.zeros(1, dtype)))
        flag, scale = recorded(np.zeros(1, bool)), self._ones(dtype)
        if steps:
            time, total = recorded(np.zeros(1, np.int32)), recorded(np.zeros(1, dtype))
            return Segments(*seen_and_done, flag, flag, flag, recorded(observation), time, total, scale)
        length, ended, last = (self._by_member(row) for row in (count.astype(np.int32), count > 1, observation))
        return Rollout(*seen_and_done, length, ended, ended, last, scale)

    def score(
        self, keys: Array, params: Tree, seen: Moments | None, episodes: int, *, deterministic: bool = False
    ) -> Score:
        """Returns and lengths [member, episode] of `episodes` episodes for each member.

        Each copy plays as many as the others, one after the other, so that short ones do not count more.
        """
        waves = range(-(-episodes // self.copies))
        played = [self._play(_folded(keys, wave), params, seen, None, deterministic=deterministic) for wave in waves]

        def joined(*parts: NDArray[Any]) -> Array:
            return jnp.asarray(np.concatenate([self._by_member(part) for part in parts], axis=1)[:, :episodes])

        return Score(joined(*(wave.total for wave in played)), joined(*(wave.length for wave in played)))

    def _actor(self, keys: Array, params: Tree, seen: Moments | None, **how: Any) -> Actor:
        return actor_for(self.policy, self.copies, keys, params, seen, **how)

    def close(self) -> None:
        """Close the copies."""
        self._open.close()

    def _ones(self, dtype: Any) -> Any:
        return np.ones(self.members, dtype)

    def _by_member(self, x: NDArray[Any]) -> Any:
        return x.reshape(self.members, self.copies, *x.shape[1:])

    def _reset(self, keys: Array) -> NDArray[Any]:
        return self._open.reset([int(seed) for seed in np.asarray(reset_seeds(keys, self.copies))])

    def _begun(self, keys: Array) -> _Standing:
        count = self._open.count
        return _Standing(self._reset(keys), np.zeros(count, np.int32), np.zeros(count))

    def _play(
        self,
        keys: Array,
        params: Tree,
        seen: Moments | None,
        record: _Record | None,
        *,
        deterministic: bool = False,
        noise: Array | None = None,
    ) -> _Episodes:
        """Step all copies until the last has ended its episode."""
        act = self._actor(keys, params, seen, deterministic=deterministic, noise=noise)
        observation = self._reset(keys)
        count, horizon = self._open.count, self.environment.horizon
        length, (terminated, truncated) = np.zeros(count, np.int32), np.zeros((2, count), bool)
        ended = _Episodes(length, terminated, truncated, observation.copy(), np.zeros(count))
        steps, alive = 0, np.ones(count, bool)
        while alive.any() and steps < horizon:
            action, outputs, executed = act(steps, observation)
            step = self._open.step(executed, ~alive)
            reward = np.where(alive, step.reward, 0.0)
            if record is not None:
                record.write(steps, observation=observation, action=action, outputs=outputs, reward=reward)
            steps += 1
            ended.length[alive] = steps
            ended.total[:] += reward
            over = alive & (step.terminated | step.truncated | (steps >= horizon))
            if over.any():
                # An environment whose own limit is longer than the horizon is cut here.
                ended.terminated[over] = step.terminated[over]
                ended.truncated[over] = step.truncated[over] | ((steps >= horizon) & ~step.terminated[over])
                ended.final[over] = step.final[over]
                alive = alive & ~over
            observation = step.observation
        return ended


@jax.jit
def _folded(keys: Array, number: Any) -> Array:
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
    seen: Moments | None = None,
) -> Score:
    """`rollout.score` on the host for every member, [member, episode]."""
    player = HostPlayer(environment, policy, labels, min(episodes, COPIES_OF_SCORE))
    try:
        return player.score(keys, params, seen, episodes, deterministic=deterministic)
    finally:
        player.close()
