"""Whole episodes: (environment, policy, parameters, key) → Rollout, arrays [time, env].

Each of `episodes` environments plays one episode. The loop over time ends with the last unfinished episode, so
the work follows the steps really taken; arrays are padded to the environment's horizon.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.environments import Environment, Step
from pgsom.folds import largest_of_batch, padded_length
from pgsom.normalisation import Moments, standardise
from pgsom.policies import Policy

Tree = Any


class Rollout(NamedTuple):
    """What happened in a batch of episodes.

    Rows at and behind an episode's `length` are padding: rewards are 0 there, observations and actions are
    whatever they last were. `final_observation` is the one that the last step led to, never a reset one.
    """

    observation: Array
    """[time, env, …]; what the policy saw."""
    action: Array
    """[time, env, …]; what was drawn. The environment was given the distribution's `executed(action)`."""
    outputs: Array
    """[time, env, output]; the distribution parameters that the action was drawn from."""
    reward: Array
    """[time, env]"""
    length: Array
    """[env]; steps taken."""
    terminated: Array
    """[env]; the last step ended the episode by the environment's own rule."""
    truncated: Array
    """[env]; the last step hit the time limit."""
    final_observation: Array
    """[env, …]"""
    reward_scale: Array | float = 1.0
    """What learning multiplies rewards by."""

    @property
    def mask(self) -> Array:
        """[time, env]; 1 for steps that were taken, else 0."""
        steps = jnp.arange(self.reward.shape[0])[:, None]
        return (steps < self.length).astype(self.reward.dtype)

    @property
    def filled(self) -> Array:
        """The length of the longest episode."""
        return jnp.max(self.length)

    @property
    def begins(self) -> Array:
        """[time, env]; the first step of an episode."""
        return jnp.zeros(self.reward.shape, bool).at[0].set(True)

    @property
    def time(self) -> Array:
        """[time, 1]; a step's number in its episode."""
        return jnp.arange(self.reward.shape[0])[:, None]

    @property
    def steps(self) -> Array:
        """How many steps were taken."""
        return self.length.sum(dtype=jnp.int32)

    @property
    def ended(self) -> Array:
        """How many episodes ended: all."""
        return jnp.asarray(self.length.shape[0], jnp.int32)

    @property
    def episode_return(self) -> Array:
        """[env]; the undiscounted sum of rewards."""
        return self.reward.sum(axis=0)

    @property
    def mean_return(self) -> Array:
        """Over the episodes."""
        return self.episode_return.mean()

    @property
    def mean_length(self) -> Array:
        """Over the episodes."""
        return self.length.mean(dtype=self.reward.dtype)


class _Play(NamedTuple):
    """Where a batch of episodes stands at time t."""

    t: Array
    state: Tree
    observation: Array
    alive: Array
    length: Array
    terminated: Array
    truncated: Array
    recorded: Tree


def collect(
    environment: Environment,
    policy: Policy,
    params: Tree,
    key: Array,
    episodes: int,
    *,
    seen: Moments | None = None,
) -> Rollout:
    """Play `episodes` episodes, actions drawn from the policy.

    With `seen` it is shown standardised observations; recorded are those that the environment gave.
    """
    rows = padded_length(environment.horizon)

    def record(recorded: Tree, t: Array, seen: Tree) -> Tree:
        return jax.tree.map(lambda rows, row: jax.lax.dynamic_update_index_in_dim(rows, row, t, 0), recorded, seen)

    def empty(seen: Tree) -> Tree:
        return jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), seen)

    end = _play(environment, policy, params, key, episodes, empty, record, seen=seen)
    observation, action, outputs, reward = end.recorded
    return Rollout(observation, action, outputs, reward, end.length, end.terminated, end.truncated, end.observation)


class Score(NamedTuple):
    """The outcome of episodes whose steps were not kept."""

    episode_return: Array
    length: Array


def score(
    environment: Environment,
    policy: Policy,
    params: Tree,
    key: Array,
    episodes: int,
    *,
    deterministic: bool = False,
) -> Score:
    """Returns and lengths of `episodes` episodes; `deterministic` takes the most probable action each time."""

    def add(total: Array, t: Array, seen: Tree) -> Array:
        del t
        reward: Array = seen[3]
        return total + reward

    def zero(seen: Tree) -> Array:
        return jnp.zeros(seen[3].shape, seen[3].dtype)

    end = _play(environment, policy, params, key, episodes, zero, add, deterministic)
    return Score(end.recorded, end.length)


def _play(
    environment: Environment,
    policy: Policy,
    params: Tree,
    key: Array,
    episodes: int,
    empty: Any,
    record: Any,
    deterministic: bool = False,
    seen: Moments | None = None,
) -> _Play:
    """Step all episodes until the last has ended; `record` folds (observation, action, outputs, reward) over time."""
    reset_key, play_key = jax.random.split(key)
    env_keys = jax.random.split(play_key, episodes)
    state, observation = jax.vmap(environment.reset)(jax.random.split(reset_key, episodes))

    def act(observation: Array, env_key: Array, t: Array) -> tuple[Array, Array]:
        outputs = policy.outputs(params, observation)
        draw = policy.distribution
        action = draw.mode(outputs) if deterministic else draw.sample(jax.random.fold_in(env_key, 2 * t), outputs)
        return action, outputs

    def move(play: _Play) -> tuple[Tree, Step]:
        shown = standardise(seen, play.observation)
        action, outputs = jax.vmap(act, in_axes=(0, 0, None))(shown, env_keys, play.t)
        step_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(env_keys, 2 * play.t + 1)
        step = jax.vmap(environment.step)(step_keys, play.state, jax.vmap(policy.distribution.executed)(action))
        reward = jnp.where(play.alive, jnp.asarray(step.reward, float), 0)
        return (play.observation, action, outputs, reward), step

    def advance(play: _Play) -> _Play:
        happened, step = move(play)
        alive = play.alive
        return _Play(
            play.t + 1,
            _where(alive, step.state, play.state),
            _where(alive, step.observation, play.observation),
            alive & ~(step.terminated | step.truncated),
            play.length + alive,
            play.terminated | (alive & step.terminated),
            play.truncated | (alive & step.truncated),
            record(play.recorded, play.t, happened),
        )

    nobody = jnp.zeros(episodes, bool)
    start = _Play(jnp.asarray(0), state, observation, ~nobody, jnp.zeros(episodes, jnp.int32), nobody, nobody, None)
    start = start._replace(recorded=empty(jax.eval_shape(move, start)[0]))
    return jax.lax.while_loop(
        lambda play: (play.t < environment.horizon) & (largest_of_batch(play.alive.any().astype(jnp.int32)) > 0),
        advance,
        start,
    )


def _where(alive: Array, new: Tree, old: Tree) -> Tree:
    """`new` for living episodes, `old` for finished ones: nothing runs away behind an episode's end."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(alive.reshape(-1, *([1] * (a.ndim - 1))), a, b)

    return jax.tree.map(choose, new, old)
