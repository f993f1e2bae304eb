"""CartPole's dynamics in episodes of a length that is chosen, so that costs can be compared at equal work."""

from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
from jax import Array

from pgsom.environments import Box, Discrete, Step, make


@dataclass(frozen=True)
class FixedLength:
    """Episodes last `length` of at most `horizon` steps, whatever the policy does."""

    length: int
    horizon: int = 500
    name: str = "fixed-length"
    observation: Box = field(default_factory=lambda: Box((4,)))
    action: Discrete = field(default_factory=lambda: Discrete(2))

    def reset(self, key: Array) -> tuple[Any, Array]:
        state, observation = make("CartPole-v1").reset(key)
        return (state, jnp.asarray(0)), observation

    def step(self, key: Array, state: Any, action: Array) -> Step:
        inner, taken = state
        step = make("CartPole-v1").step(key, inner, action)
        taken = taken + 1
        return Step((step.state, taken), step.observation, jnp.ones(()), taken >= self.length, taken >= self.horizon)
