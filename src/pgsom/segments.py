"""Segments: play of a fixed number of steps, cut out of episodes that go on from batch to batch.

A *piece* is the part of one episode that lies within a segment: it begins with the segment or behind an episode's end,
and ends with the episode or with the segment. Whoever plays, a compiled loop (`play_segments`) or a simulator on the
host, hands over the same arrays [time, env].
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.environments import Environment
from pgsom.folds import padded_length
from pgsom.normalisation import Statistics, scale_of, standardise
from pgsom.policies import Policy

Tree = Any


class Segments(NamedTuple):
    """What happened in a segment of each environment.

    Rows that were not `taken` are no steps: padding to a whole number of chunks, or the call by which a host
    environment only resets itself. Their reward is 0 and everything else in them is of no consequence.
    """

    observation: Array
    """[time, env, …]; what the policy saw, standardised if the collector does that."""
    action: Array
    """[time, env, …]; what was drawn. The environment was given the distribution's `executed(action)`."""
    outputs: Array
    """[time, env, output]; the distribution parameters that the action was drawn from."""
    reward: Array
    """[time, env]; as the environment gave it."""
    taken: Array
    """[time, env]; whether the row is a step."""
    terminated: Array
    """[time, env]; the step ended the episode by the environment's own rule."""
    truncated: Array
    """[time, env]; the step hit the time limit."""
    next_observation: Array
    """[time, env, …]; what the step led to, before any reset, seen as `observation` is."""
    time: Array
    """[time, env]; the step's number in its episode, from 0."""
    episode_return: Array
    """[time, env]; the undiscounted return of the episode up to and with the step, from its very beginning."""
    reward_scale: Array
    """What learning multiplies rewards by."""

    @property
    def mask(self) -> Array:
        """[time, env]; 1 for steps that were taken, else 0."""
        return self.taken.astype(self.reward.dtype)

    @property
    def over(self) -> Array:
        """[time, env]; the step ended an episode."""
        return self.taken & (self.terminated | self.truncated)

    @property
    def begins(self) -> Array:
        """[time, env]; the row is the first of a piece (or not taken): nothing before it belongs to it."""
        no_more = self.over | ~self.taken
        return jnp.concatenate([jnp.ones_like(no_more[:1]), no_more[:-1]])

    @property
    def filled(self) -> Array:
        """How many rows there are to look at."""
        return jnp.max(jnp.where(self.taken.any(axis=1), jnp.arange(1, self.taken.shape[0] + 1), 0))

    @property
    def steps(self) -> Array:
        """How many steps were taken."""
        return self.taken.sum(dtype=jnp.int32)

    @property
    def ended(self) -> Array:
        """How many episodes ended."""
        return self.over.sum(dtype=jnp.int32)

    @property
    def mean_return(self) -> Array:
        """Of the episodes that ended, from their beginning; NaN if none did."""
        return jnp.sum(self.episode_return * self.over) / jnp.where(self.ended > 0, self.ended, jnp.nan)

    @property
    def mean_length(self) -> Array:
        """Of the episodes that ended, from their beginning; NaN if none did."""
        return jnp.sum((self.time + 1) * self.over) / jnp.where(self.ended > 0, self.ended, jnp.nan)


def padded(segments: Segments) -> Segments:
    """With rows behind the last, not taken, so that their number is one that `pgsom.folds` can run over."""
    rows = segments.taken.shape[0]
    behind = padded_length(rows) - rows

    def pad(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, behind)] + [(0, 0)] * (leaf.ndim - 1)) if leaf.ndim else leaf

    return jax.tree.map(pad, segments) if behind else segments


class Standing(NamedTuple):
    """Where play stands between two segments, [env, …]."""

    state: Tree
    observation: Array
    """As the environment gave it."""
    time: Array
    episode_return: Array
    discounted: Array
    """Σ_k γ^k r_{t−k} of the episode so far, whose variance scales rewards."""
    statistics: Statistics
    """Of all that was seen before."""


def fresh(environment: Environment, key: Array, environments: int, statistics: Statistics) -> Standing:
    """Every environment at the start of an episode."""
    state, observation = jax.vmap(environment.reset)(jax.random.split(key, environments))
    nothing = jnp.zeros(environments)
    return Standing(state, observation, jnp.zeros(environments, jnp.int32), nothing, nothing, statistics)


def play_segments(
    environment: Environment, policy: Policy, params: Tree, key: Array, standing: Standing, steps: int, discount: Any
) -> tuple[Segments, Standing]:
    """`steps` steps of every environment, each reset as soon as its episode is over."""
    envs, known = standing.time.shape[0], standing.statistics
    scale = scale_of(known.returns)

    def advance(play: Standing, step_key: Array) -> tuple[Standing, tuple[Segments, Array, Array]]:
        act_keys, move_keys, reset_keys = jax.random.split(step_key, (3, envs))
        seen = standardise(known.observations, play.observation)
        outputs = jax.vmap(policy.outputs, (None, 0))(params, seen)
        action = jax.vmap(policy.distribution.sample)(act_keys, outputs)
        step = jax.vmap(environment.step)(move_keys, play.state, jax.vmap(policy.distribution.executed)(action))
        reward = jnp.asarray(step.reward, float)
        over = step.terminated | step.truncated
        episode_return, discounted = play.episode_return + reward, discount * play.discounted + reward
        row = Segments(
            seen,
            action,
            outputs,
            reward,
            jnp.ones(envs, bool),
            step.terminated,
            step.truncated,
            standardise(known.observations, step.observation),
            play.time,
            episode_return,
            scale,
        )
        state, observation = _where(over, jax.vmap(environment.reset)(reset_keys), (step.state, step.observation))
        after = play._replace(
            state=state,
            observation=observation,
            time=jnp.where(over, 0, play.time + 1),
            episode_return=jnp.where(over, 0, episode_return),
            discounted=jnp.where(over, 0, discounted),
        )
        return after, (row, play.observation, discounted)

    end, (rows, raw, discounted) = jax.lax.scan(advance, standing, jax.random.split(key, steps))
    segments = rows._replace(reward_scale=scale)
    return padded(segments), end._replace(statistics=known.with_more(raw, discounted, segments.taken))


def _where(over: Array, new: Tree, old: Tree) -> Tree:
    """`new` for environments whose episode is over, `old` for the others."""

    def choose(a: Array, b: Array) -> Array:
        return jnp.where(over.reshape(-1, *([1] * (a.ndim - 1))), a, b)

    return jax.tree.map(choose, new, old)
