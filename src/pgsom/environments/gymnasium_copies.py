"""Copies of a Gymnasium environment, stepped by Gymnasium's vector API in any of its autoreset modes."""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from pgsom.checks import wrong
from pgsom.environments.gymnasium_spaces import action_conversion, flattening
from pgsom.environments.host import EpisodeError, HostStep

AUTORESETS = {"same-step": AutoresetMode.SAME_STEP, "next-step": AutoresetMode.NEXT_STEP}


class Located(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Says where it was when the environment raises."""

    def __init__(self, env: gymnasium.Env[Any, Any], name: str, label: str) -> None:
        super().__init__(env)
        self._name, self._label = name, label
        self._steps, self._episodes = 0, 0
        self._seed: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps, self._episodes = 0, self._episodes + 1
        if seed is not None:
            self._seed, self._episodes = seed, 1
        try:
            return self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise self._failure("reset", error) from error

    def step(self, action: Any) -> Any:
        self._steps += 1
        try:
            return self.env.step(action)
        except Exception as error:
            raise self._failure(f"step {self._steps}", error) from error

    def _failure(self, where: str, error: Exception) -> EpisodeError:
        episode = f"episode {self._episodes} after reset(seed={self._seed})"
        return EpisodeError(f"{self._name}, {self._label}, {where} of {episode}: {_said(error)}")


class InTurn(SyncVectorEnv):
    """Gymnasium's vector of copies in this process, without its copying of what nobody keeps; some may be left out.

    Always in the mode SAME_STEP. `infos` holds the last observations of ended episodes and nothing else.
    """

    def __init__(self, makers: Sequence[Callable[[], gymnasium.Env[Any, Any]]]) -> None:
        super().__init__(makers, copy=False, autoreset_mode=AutoresetMode.SAME_STEP)
        self.idle = np.zeros(self.num_envs, bool)
        self.goes_on = True
        """Whether ended episodes are followed by the next; not while whole ones are played."""

    def step(self, actions: Any) -> Any:
        ended: dict[int, Any] = {}
        for i, (env, action) in enumerate(zip(self.envs, _rows(self.single_action_space, actions), strict=True)):
            if self.idle[i]:
                continue
            seen, self._rewards[i], terminated, truncated, _ = env.step(action)
            self._terminations[i], self._truncations[i] = terminated, truncated
            if terminated or truncated:
                ended[i] = seen
                seen = env.reset()[0] if self.goes_on else seen
            self._env_obs[i] = seen
        return self._env_obs, self._rewards, self._terminations, self._truncations, {"final_obs": ended}


class InProcesses(AsyncVectorEnv):
    """Gymnasium's vector of copies in processes, not forked, for JAX has threads by now; quiet when one raises."""

    def __init__(self, makers: Sequence[Callable[[], gymnasium.Env[Any, Any]]], mode: AutoresetMode) -> None:
        super().__init__(makers, autoreset_mode=mode, context="forkserver")

    def _raise_if_errors(self, successes: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            super()._raise_if_errors(successes)


class InThreads(VectorEnv[Any, Any, Any]):
    """A vector whose seed is fixed when it is made, as EnvPool's is: `reset` with a seed makes it anew."""

    def __init__(self, make: Callable[[int], VectorEnv[Any, Any, Any]]) -> None:
        self._make, self._made = make, make(0)
        self.num_envs, self.metadata = self._made.num_envs, self._made.metadata
        self.single_observation_space = self._made.single_observation_space
        self.single_action_space = self._made.single_action_space

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        del options
        if seed is not None:
            self._made.close()
            self._made = self._make(int(seed))
        return self._made.reset()

    def step(self, actions: Any) -> Any:
        return self._made.step(actions)

    def close_extras(self, **arguments: Any) -> None:
        del arguments
        self._made.close()


class GymnasiumCopies:
    """`vector` as `Copies`: observations as the spec has them, actions as the space wants them, resets told apart."""

    def __init__(self, vector: VectorEnv[Any, Any, Any], name: str, *, seed_each: bool = True) -> None:
        self._vector, self._name, self._seed_each = vector, name, seed_each
        self._next_step = autoreset_of(vector, name) is AutoresetMode.NEXT_STEP
        space = vector.single_observation_space
        self._plain = isinstance(space, spaces.Box | spaces.Discrete)
        self._size, self._flat = math.prod(space.shape or ()), len(space.shape or ()) == 1
        self._start = int(space.start) if isinstance(space, spaces.Discrete) else None
        self._flatten = flattening(space)
        self._to_space = action_conversion(vector.single_action_space)
        self._ended = np.zeros(vector.num_envs, bool)
        self._everybody, self._nobody = np.ones(vector.num_envs, bool), np.zeros(vector.num_envs, bool)
        self._steps = 0

    @property
    def count(self) -> int:
        """How many copies."""
        return int(self._vector.num_envs)

    @property
    def dtype(self) -> Any:
        """Of observations."""
        return np.float32 if self._start is None else np.int32

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Begin an episode in every copy; a vector with one generator for all takes the first seed."""
        self._ended, self._steps = np.zeros(self.count, bool), 0
        seen, _ = self._guarded(self._vector.reset, seed=list(seeds) if self._seed_each else seeds[0])
        return self._batch(self._vector._env_obs if isinstance(self._vector, InTurn) else seen)

    def step(self, actions: NDArray[Any], idle: NDArray[Any] | None = None) -> HostStep:
        """One step of Gymnasium's vector."""
        self._steps += 1
        if isinstance(self._vector, InTurn):
            self._vector.goes_on = idle is None
            self._vector.idle = self._nobody if idle is None else idle
        result = self._guarded(self._vector.step, self._to_space(actions))
        seen, reward, terminated, truncated, infos = result
        observation = self._batch(seen)
        reward = np.array(reward, np.float64)
        terminated, truncated = np.array(terminated, bool), np.array(truncated, bool)
        ended = terminated | truncated
        taken = ~self._ended if self._next_step else self._everybody
        final = observation
        if self._next_step:
            self._ended = ended
        elif ended.any():
            final = observation.copy()
            for i in np.flatnonzero(ended if idle is None else ended & ~idle):
                final[i] = self._flatten(_entry(infos["final_obs"], int(i)))
        return HostStep(observation, reward, terminated, truncated, final, taken if idle is None else taken & ~idle)

    def close(self) -> None:
        """Close the vector; after a failure Gymnasium would warn that it was in the middle of something."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._vector.close()

    def _guarded(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            return call(*arguments, **named)
        except EpisodeError:
            raise
        except Exception as error:
            where = f"step {self._steps}" if self._steps else "reset"
            raise EpisodeError(f"{self._name}, {where} of its copies: {_said(error)}") from error

    def _batch(self, seen: Any) -> NDArray[Any]:
        """[copy, …] in an array of its own."""
        if not self._plain:
            listed = seen if isinstance(self._vector, InTurn) else iterate(self._vector.observation_space, seen)
            return np.stack([self._flatten(one) for one in listed])
        if self._start is not None:
            return np.array(seen, np.int32) - np.int32(self._start)
        rows = np.empty((self.count, self._size), np.float32)
        for row, one in zip(rows, seen, strict=True):
            row[:] = one if self._flat else np.reshape(one, -1)
        return rows


def autoreset_of(vector: VectorEnv[Any, Any, Any], name: str) -> AutoresetMode:
    """The mode a vector says it is in; it must be one that begins the next episode of itself."""
    mode: Any = vector.metadata.get("autoreset_mode")
    if mode not in AUTORESETS.values():
        said = f"{mode.name}" if isinstance(mode, AutoresetMode) else f"{mode!r}"
        accepted = "NEXT_STEP and SAME_STEP, as copies play on by themselves"
        raise wrong("autoreset_mode", said, f"{name} does not begin its next episodes; accepted are {accepted}")
    return AutoresetMode(mode)


def _rows(space: spaces.Space[Any], actions: NDArray[Any]) -> Any:
    """One action a copy, of the type that the environment would be given by Gymnasium's own vector."""
    return actions if isinstance(space, spaces.Box | spaces.Discrete) else iter(actions)


def _entry(final: Any, i: int) -> Any:
    """Copy i's own of the last observations. Gymnasium keeps those of a Dict space as a dict of arrays."""
    if isinstance(final, dict) and i not in final:
        return {key: _entry(value, i) for key, value in final.items() if not key.startswith("_")}
    return final[i]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no more is known'}"
