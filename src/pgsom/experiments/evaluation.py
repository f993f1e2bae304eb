"""Many episodes of many policies, without waiting for the longest.

`rollout.score` steps all its episodes until the last one ends, so policies that fall after 12 steps cost as much as
those that stand for 500. Here a fixed number of lanes works through the list of all (policy, episode): a lane whose
episode is over takes the next one, so the work is the steps that are taken. Every episode has the key that `score`
gives it, and the outcome is the same.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.environments import Environment
from pgsom.policies import Policy
from pgsom.rollout import Score

Tree = Any
LANES = 1024
"""Enough for vector instructions; with more, XLA splits each small operation between the cores, at twice the cost."""
STRIDE = 16
"""Steps from one look at who is done to the next."""


class _Lanes(NamedTuple):
    """Where every lane stands; `member` and `episode` say what it plays, `alive` whether it does."""

    member: Array
    episode: Array
    key: Array
    params: Tree
    t: Array
    state: Tree
    observation: Array
    alive: Array
    total: Array


class Starts(NamedTuple):
    """Where every episode begins, and the key of its steps [member, episode]."""

    state: Tree
    observation: Array
    key: Array


@partial(jax.jit, static_argnames=("environment", "capacity"))
def starts(environment: Environment, keys: Array, *, capacity: int) -> Starts:
    """Those that `rollout.score` would have for up to `capacity` episodes with each of these keys."""

    def of_member(key: Array) -> Starts:
        reset_key, play_key = jax.random.split(key)
        state, observation = jax.vmap(environment.reset)(jax.random.split(reset_key, capacity))
        return Starts(state, observation, jax.random.split(play_key, capacity))

    return jax.vmap(of_member)(keys)


@partial(jax.jit, static_argnames=("environment", "policy"))
def play_all(
    environment: Environment,
    policy: Policy,
    params: Tree,
    first: Starts,
    episodes: Array | int,
    members: Array | int,
) -> Score:
    """`score` of `episodes` episodes for the first `members` policies of the leading axis of `params`.

    Both numbers are data, so evaluations of any length share one program; what is not played stays 0.
    """
    shape = first.key.shape
    lanes = min(LANES, shape[0] * shape[1])
    tasks = jnp.asarray(episodes) * members

    def begin(task: Array) -> _Lanes:
        """Tasks are numbered along the episodes of the first policy, of the second, …; those behind the end idle."""
        number = jnp.minimum(task, tasks - 1)
        member, episode = number // episodes, number % episodes
        start: Starts = jax.tree.map(lambda leaf: leaf[member, episode], first)
        own = jax.tree.map(lambda leaf: leaf[member], params)
        zero = jnp.zeros(lanes, jnp.int32)
        return _Lanes(
            member, episode, start.key, own, zero, start.state, start.observation, task < tasks, jnp.zeros(lanes)
        )

    def turn(carry: tuple[_Lanes, Array, Score]) -> tuple[_Lanes, Array, Score]:
        now, given, score = carry
        playing = now.alive
        now = jax.lax.fori_loop(0, STRIDE, lambda _, lanes: _step(environment, policy, lanes), now)
        over = playing & ~now.alive
        place = (jnp.where(over, now.member, shape[0]), now.episode)
        score = Score(
            score.episode_return.at[place].set(now.total, mode="drop"),
            score.length.at[place].set(now.t, mode="drop"),
        )
        free = ~now.alive
        fresh = begin(jnp.where(free, given + jnp.cumsum(free) - 1, tasks))
        return _where(free, fresh, now), given + free.sum(), score

    nothing = Score(jnp.zeros(shape), jnp.zeros(shape, jnp.int32))
    opening = (begin(jnp.arange(lanes)), jnp.asarray(lanes), nothing)
    score: Score = jax.lax.while_loop(lambda carry: carry[0].alive.any(), turn, opening)[2]
    return score


def _step(environment: Environment, policy: Policy, now: _Lanes) -> _Lanes:
    """One step of every lane that plays."""

    def move(key: Array, params: Tree, t: Array, state: Tree, observation: Array) -> Any:
        outputs = policy.outputs(params, observation)
        action = policy.distribution.sample(jax.random.fold_in(key, 2 * t), outputs)
        return environment.step(jax.random.fold_in(key, 2 * t + 1), state, policy.distribution.executed(action))

    moved = jax.vmap(move)(now.key, now.params, now.t, now.state, now.observation)
    return now._replace(
        t=now.t + now.alive,
        state=_where(now.alive, moved.state, now.state),
        observation=_where(now.alive, moved.observation, now.observation),
        alive=now.alive & ~(moved.terminated | moved.truncated),
        total=now.total + jnp.where(now.alive, moved.reward, 0),
    )


def _where(chosen: Array, new: Tree, old: Tree) -> Tree:
    return jax.tree.map(lambda a, b: jnp.where(chosen.reshape(-1, *([1] * (a.ndim - 1))), a, b), new, old)
