"""Collectors: where training gets its batches from.

A collector plays, and nothing else in training does. It is asked for a batch at some parameters and carries what must
travel from batch to batch (statistics, environments in mid-episode) in an *experience* state, a pytree of arrays, with
its `Statistics` under that name. A collector for a simulator that cannot be traced keeps that simulator to itself and
steps it on the host.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import wrong
from pgsom.environments import Discrete, Environment, Spec
from pgsom.normalisation import Statistics, no_statistics, scale_of, standardise
from pgsom.policies import Policy
from pgsom.rollout import Rollout, collect
from pgsom.segments import Segments, Standing, fresh, play_segments

Tree = Any
Batch = Rollout | Segments
"""Whole episodes, or segments of a fixed number of steps."""


@dataclass(frozen=True)
class BatchPlan:
    """What a method wants played for one batch; a static part of a program."""

    environments: int
    """played side by side"""
    steps: int = 0
    """of each environment; 0: one episode each, from start to end"""
    normalise_observations: bool = False
    """whether the policy is shown standardised observations"""
    normalise_rewards: bool = False
    """whether learning is given rewards divided by the standard deviation of the discounted return"""

    def statistics(self, observation: Spec) -> Statistics:
        """Before the first batch."""
        if self.normalise_observations and isinstance(observation, Discrete):
            raise wrong("normalise_observations", True, "states are whole numbers; accepted is False")
        return no_statistics(
            observation.shape, observations=self.normalise_observations, rewards=self.normalise_rewards
        )


@runtime_checkable
class Collector(Protocol):
    """What every collector offers."""

    @property
    def observation(self) -> Spec:
        """What the policy sees."""
        ...

    def init(self, key: Array) -> Tree:
        """The experience state before the first batch."""
        ...

    def collect(self, key: Array, params: Tree, experience: Tree) -> tuple[Batch, Tree]:
        """A batch played at `params`, and the experience state after it."""
        ...


@dataclass(frozen=True)
class EpisodeCollector:
    """Whole episodes of an environment in JAX, compiled into the training program; only statistics are carried."""

    environment: Environment
    policy: Policy
    plan: BatchPlan
    discount: Any
    """γ of the sums by whose size rewards are scaled."""

    @property
    def observation(self) -> Spec:
        return self.environment.observation

    def init(self, key: Array) -> Statistics:
        del key
        return self.plan.statistics(self.observation)

    def collect(self, key: Array, params: Tree, experience: Statistics) -> tuple[Rollout, Statistics]:
        seen, episodes = experience.observations, self.plan.environments
        raw = collect(self.environment, self.policy, params, key, episodes, seen=seen)
        return normalised_episodes(raw, experience, self.discount)


@dataclass(frozen=True)
class SegmentCollector:
    """A fixed number of steps of each environment, in JAX; episodes go on from batch to batch."""

    environment: Environment
    policy: Policy
    plan: BatchPlan
    discount: Any
    """γ of the sums by whose size rewards are scaled."""

    @property
    def observation(self) -> Spec:
        return self.environment.observation

    def init(self, key: Array) -> Standing:
        return fresh(self.environment, key, self.plan.environments, self.plan.statistics(self.observation))

    def collect(self, key: Array, params: Tree, experience: Standing) -> tuple[Segments, Standing]:
        return play_segments(self.environment, self.policy, params, key, experience, self.plan.steps, self.discount)


def statistics_of(experience: Tree) -> Statistics:
    """What an experience state knows of everything that was seen: it is a `Statistics`, or has one as an attribute."""
    known = getattr(experience, "statistics", experience)
    return known if isinstance(known, Statistics) else Statistics(None, None)


def collector_of(environment: Environment, policy: Policy, plan: BatchPlan, discount: Any) -> Collector:
    """What plays this plan in an environment in JAX."""
    kind = SegmentCollector if plan.steps else EpisodeCollector
    return kind(environment, policy, plan, discount)


def normalised_episodes(raw: Rollout, known: Statistics, discount: Any) -> tuple[Rollout, Statistics]:
    """Episodes as the environment gave them, played with what is `known`: as learning is given them; then known."""
    rollout = raw._replace(
        observation=standardise(known.observations, raw.observation),
        final_observation=standardise(known.observations, raw.final_observation),
        reward_scale=scale_of(known.returns),
    )
    earned = raw.reward if known.returns is None else _discounted_so_far(raw.reward, discount)
    return rollout, known.with_more(raw.observation, earned, raw.mask)


def _discounted_so_far(reward: Array, discount: Any) -> Array:
    """Σ_k γ^k r_{t−k} along the first axis."""

    def add(before: Array, now: Array) -> tuple[Array, Array]:
        return discount * before + now, discount * before + now

    return jax.lax.scan(add, jnp.zeros_like(reward[0]), reward)[1]
