"""Observations as vectors: what an environment shows as an image, a table or a whole number."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from pgsom.environments.environment import Box, Discrete, Environment, MultiBinary, MultiDiscrete, Spec, Step


@dataclass(frozen=True)
class Flattened:
    """`environment`, its observation laid out as one vector.

    An array is read row by row, a whole number becomes a one-hot vector, several become their one-hot vectors side
    by side, and switches the numbers 0 and 1. Everything else stays as it is.
    """

    environment: Environment

    @property
    def name(self) -> str:
        """The environment's own."""
        return self.environment.name

    @property
    def observation(self) -> Box:
        """A vector with the bounds of what is laid out."""
        return _vector_of(self.environment.observation)

    @property
    def action(self) -> Spec:
        """The environment's own."""
        return self.environment.action

    @property
    def horizon(self) -> int:
        """The environment's own."""
        return self.environment.horizon

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Array]:
        """Draw a first state; returns ``(state, observation)``."""
        state, observation = self.environment.reset(key)
        return state, self._flat(observation)

    def step(self, key: PRNGKeyArray, state: Any, action: Array) -> Step:
        """Take `action` in `state`."""
        step = self.environment.step(key, state, action)
        return step._replace(observation=self._flat(step.observation))

    def _flat(self, observation: Array) -> Array:
        spec = self.environment.observation
        if isinstance(spec, Discrete):
            observation = jax.nn.one_hot(observation, spec.n)
        if isinstance(spec, MultiDiscrete):
            parts = [jax.nn.one_hot(observation[i], choices) for i, choices in enumerate(spec.n)]
            observation = jnp.concatenate(parts)
        return jnp.asarray(observation, self.observation.dtype).reshape(-1)


def flattened(environment: Environment) -> Environment:
    """`environment` itself if it shows vectors or single whole numbers, else with its arrays laid out."""
    spec = environment.observation
    as_it_is = isinstance(spec, Discrete) or (isinstance(spec, Box) and len(spec.shape) == 1)
    return environment if as_it_is else Flattened(environment)


def _vector_of(spec: Spec) -> Box:
    if isinstance(spec, Box):
        return Box((spec.size,), spec.low, spec.high, spec.dtype)
    choices = (spec.n,) if isinstance(spec, Discrete | MultiBinary) else spec.n
    return Box((sum(choices),), 0.0, 1.0)
