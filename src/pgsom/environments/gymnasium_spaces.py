"""Gymnasium's spaces as specs, and the way back for actions."""

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pgsom.checks import wrong
from pgsom.environments.environment import Box, Discrete, MultiBinary, MultiDiscrete, Spec

Convert = Callable[[NDArray[Any]], Any]


def observation_spec(space: spaces.Space[Any]) -> Spec:
    """What a policy sees: a whole number, or everything else as one vector, as Gymnasium's `flatten` lays it out."""
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if not isinstance(space, spaces.Box) and not _flattens(space):
        accepted = "accepted are Box, Discrete, MultiDiscrete, MultiBinary, and Dict or Tuple of these"
        raise wrong("observation_space", space, accepted)
    flat: Any = spaces.flatten_space(space)
    return Box(flat.shape, _bounds(flat.low), _bounds(flat.high))


def flattening(space: spaces.Space[Any]) -> Callable[[Any], NDArray[Any]]:
    """One observation as the policy's spec has it."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return lambda seen: np.asarray(int(seen) - start, np.int32)
    if isinstance(space, spaces.Box):
        return lambda seen: np.asarray(seen, np.float32).reshape(-1)
    return lambda seen: np.asarray(spaces.flatten(space, seen), np.float32)


def action_spec(space: spaces.Space[Any]) -> Spec:
    """What a policy chooses; choices count from 0 whatever the space's `start`, several of them in one row."""
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscrete(tuple(int(n) for n in np.ravel(space.nvec)))
    if isinstance(space, spaces.MultiBinary):
        return MultiBinary(math.prod(space.shape))
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        return Box(space.shape, _bounds(space.low), _bounds(space.high))
    raise wrong("action_space", space, "accepted are Box of real numbers, Discrete, MultiDiscrete and MultiBinary")


def action_conversion(space: spaces.Space[Any]) -> Convert:
    """From a policy's actions [copy, …] to what `VectorEnv.step` takes."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        start, shape = np.asarray(space.start), np.shape(space.start)
        return lambda chosen: (chosen.reshape(-1, *shape) + start).astype(space.dtype, copy=False)
    return lambda chosen: chosen.reshape(-1, *(space.shape or ())).astype(space.dtype, copy=False)


def time_limit(environment: gymnasium.Env[Any, Any]) -> int | None:
    """Of the first time limit among the wrappers."""
    layer: Any = environment
    while layer is not None:
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            return int(layer._max_episode_steps)
        layer = getattr(layer, "env", None)
    return None


def _flattens(space: spaces.Space[Any]) -> bool:
    if isinstance(space, spaces.Dict):
        return all(map(_flattens, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return all(map(_flattens, space.spaces))
    return isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)


def _bounds(bound: NDArray[Any]) -> float | tuple[float, ...]:
    """One number if all entries agree; the largest float32 stands for infinity in some environments."""
    entries = np.asarray(bound, np.float64).ravel()
    entries = np.where(np.abs(entries) >= np.finfo(np.float32).max, np.copysign(math.inf, entries), entries)
    numbers = tuple(float(entry) for entry in entries)
    return numbers[0] if len(set(numbers)) == 1 else numbers
