"""Environments of brax and of MuJoCo Playground, compiled into the training program. Neither is installed with pgsom.

Both have one form: ``reset(rng) -> state`` and ``step(state, action) -> state``, the state carrying `obs`, `reward`
and `done`. Their time limit belongs to their training wrappers, so here it is ours; `done` is a termination.
"""

import importlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray

from pgsom.checks import InputError, check_choice, check_count, wrong
from pgsom.environments.environment import Box, Step

BRAX_STEPS = 1000
"""The episode length of brax's own training."""


class PhysicsState(NamedTuple):
    """The simulator's state and our clock."""

    inner: Any
    time: Int[Array, ""]


@dataclass(frozen=True)
class PhysicsEnvironment:
    """An environment object of brax or Playground; equal if it was made from the same words."""

    name: str
    horizon: int
    options: tuple[tuple[str, Any], ...]
    simulator: Any = field(compare=False, repr=False)

    @property
    def observation(self) -> Box:
        """A vector without bounds."""
        return Box((int(self.simulator.observation_size),))

    @property
    def action(self) -> Box:
        """Both libraries take actions from −1 to 1."""
        return Box((int(self.simulator.action_size),), -1.0, 1.0)

    def reset(self, key: PRNGKeyArray) -> tuple[PhysicsState, Array]:
        """Draw a first state; returns ``(state, observation)``."""
        # The simulators keep the key in their state, where only keys of the older kind are ordinary arrays.
        inner = self.simulator.reset(jax.random.key_data(key))
        inner = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), inner)
        return PhysicsState(inner, jnp.zeros((), jnp.int32)), self._seen(inner)

    def step(self, key: PRNGKeyArray, state: PhysicsState, action: Array) -> Step:
        """Take `action` in `state`; what is random in it comes from the state."""
        del key
        reached = self.simulator.step(state.inner, action)
        reached = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), reached, state.inner)
        time = state.time + 1
        return Step(
            state=PhysicsState(reached, time),
            observation=self._seen(reached),
            reward=jnp.asarray(reached.reward, float),
            terminated=jnp.asarray(reached.done, bool),
            truncated=time >= self.horizon,
        )

    def _seen(self, inner: Any) -> Array:
        return jnp.asarray(inner.obs, float)


def brax_environment(name: str, *, episode_length: int = BRAX_STEPS, **options: Any) -> PhysicsEnvironment:
    """``make("brax:ant")``; `options` go to ``brax.envs.get_environment``."""
    envs = _library("brax.envs", "brax:" + name, "brax")
    check_choice("environment", name, envs._envs)
    simulator = envs.get_environment(name, **options)
    return _wrapped("brax:" + name, check_count("episode_length", episode_length), options, simulator)


def playground_environment(name: str, *, episode_length: int | None = None, **options: Any) -> PhysicsEnvironment:
    """``make("playground:CartpoleBalance")``; `options` override entries of the environment's configuration."""
    registry = _library("mujoco_playground.registry", "playground:" + name, "playground")
    check_choice("environment", name, registry.ALL_ENVS)
    length = registry.get_default_config(name).episode_length if episode_length is None else episode_length
    simulator = registry.load(name, config_overrides=options or None)
    if not isinstance(simulator.observation_size, int):
        raise wrong(
            "environment", f"playground:{name}", "shows several arrays; accepted are those that show one vector"
        )
    return _wrapped("playground:" + name, check_count("episode_length", length), options, simulator)


def _wrapped(name: str, horizon: int, options: dict[str, Any], simulator: Any) -> PhysicsEnvironment:
    return PhysicsEnvironment(name, horizon, tuple(sorted(options.items())), simulator)


def _library(module: str, environment: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"environment={environment!r}: needs a package that is not installed ({error}); pip install {package}"
        ) from None
