"""Collectors: where training gets its batches from.

A collector plays, and nothing else in training does. It is asked for a batch at some parameters and carries what must
travel from batch to batch (statistics, environments in mid-episode) in an *experience* state, a pytree of arrays. A
collector for a simulator that cannot be traced keeps that simulator to itself and steps it on the host.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jax import Array

from pgsom.environments import Environment, Spec
from pgsom.policies import Policy
from pgsom.rollout import Rollout, collect

Tree = Any


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

    def collect(self, key: Array, params: Tree, experience: Tree) -> tuple[Rollout, Tree]:
        """A batch played at `params`, and the experience state after it."""
        ...


@dataclass(frozen=True)
class EpisodeCollector:
    """Whole episodes of an environment in JAX, compiled into the training program; nothing is carried."""

    environment: Environment
    policy: Policy
    episodes: int

    @property
    def observation(self) -> Spec:
        return self.environment.observation

    def init(self, key: Array) -> Tree:
        del key
        return ()

    def collect(self, key: Array, params: Tree, experience: Tree) -> tuple[Rollout, Tree]:
        return collect(self.environment, self.policy, params, key, self.episodes), experience
