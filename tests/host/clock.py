"""A Gymnasium environment whose every number is known: it counts."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

ENDED, CUT, BETWEEN = 7.0, 3.0, 1.0
"""Rewards of a last step by the environment's own rule, of one at the time limit, and of all others."""


class Clock(gymnasium.Env):
    """Shows (episode, step); episode k since the last seed ends after `lengths[k]` steps, or at the time limit.

    `raises_at`: (episode, step) at which it raises.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    action_space = spaces.Discrete(2, start=5)
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(self, lengths: tuple[int, ...] = (3, 2, 4), limit: int = 3, raises_at: Any = None) -> None:
        self.lengths, self.limit, self.raises_at = lengths, limit, raises_at
        self.render_mode = None
        self.episode = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episode = 0 if seed is not None else self.episode + 1
        self.time = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.time += 1
        if (self.episode, self.time) == self.raises_at:
            raise ValueError("the spring broke")
        terminated = self.time == self.lengths[self.episode % len(self.lengths)]
        reward = ENDED if terminated else CUT if self.time == self.limit else BETWEEN
        return self._seen(), reward, terminated, self.time == self.limit and not terminated, {}

    def render(self) -> Any:
        return np.full((8, 8, 3), self.time, np.uint8)

    def _seen(self) -> Any:
        return np.array([self.episode, self.time], np.float64)


def limited(**options: Any) -> gymnasium.Env:
    """With a time limit that never acts before the clock's own."""
    return gymnasium.wrappers.TimeLimit(Clock(**options), 10)


class Breaking(Clock):
    """Raises in the third step of the fifth episode that is played in any copy."""

    played = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        type(self).played += 1
        self.breaks = self.played == 5
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        if self.breaks and self.time == 2:
            raise ValueError("the spring broke")
        return super().step(action)


# Collecting doctests may import a module a second time.
if "Breaking-v0" not in gymnasium.registry:
    gymnasium.register("Breaking-v0", Breaking, max_episode_steps=10)
