"""Environments of gymnax, compiled into the training program.

The adapter calls gymnax's `reset_env` and `step_env`. Its `step` would reset finished episodes on its own and
compute a fresh start at every step.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnax
import jax
import jax.numpy as jnp
import numpy as np
from gymnax.environments import spaces
from jaxtyping import Array, PRNGKeyArray

from pgsom.checks import check_choice, check_count, check_known, check_number, wrong
from pgsom.environments.environment import Box, Discrete, Spec, Step

Parameter = bool | int | float | tuple[float, ...]

# gymnax stores these beside the quantities they follow from, where one can be changed without the other.
_DERIVED: dict[str, dict[str, Callable[[Any], float]]] = {
    "CartPole-v1": {
        "total_mass": lambda parameters: parameters.masscart + parameters.masspole,
        "polemass_length": lambda parameters: parameters.masspole * parameters.length,
    },
    "BernoulliBandit-misc": {"t_max": lambda parameters: parameters.max_steps_in_episode},
}

# Their own code mixes precisions when 64 bits are on, so it always runs in 32.
_SINGLE_PRECISION = (
    "DiscountingChain-bsuite",
    "Freeway-MinAtar",
    "GaussianBandit-misc",
    "Seaquest-MinAtar",
    "UmbrellaChain-bsuite",
)

# Their observations leave the bounds that gymnax gives.
_WRONG_BOUNDS = ("GaussianBandit-misc", "MemoryChain-bsuite", "MetaMaze-misc")


@dataclass(frozen=True)
class GymnaxEnvironment:
    """The environment `gymnax_id` with some of its `parameters` changed, given as pairs (name, value).

    ``GymnaxEnvironment("CartPole-v1", (("masspole", 0.2),))`` is ``make("CartPole-v1", masspole=0.2)``.
    Parameters that follow from others are recomputed, never set; `max_steps_in_episode` is the horizon.
    """

    gymnax_id: str
    parameters: tuple[tuple[str, Parameter], ...] = ()

    def __post_init__(self) -> None:
        check_choice("gymnax_id", self.gymnax_id, gymnax.registered_envs)
        defaults = _defaults(self.gymnax_id)
        given = dict(self.parameters)
        check_known("parameter", given, defaults)
        changed = ((name, _checked_parameter(name, given[name], defaults[name])) for name in sorted(given))
        # A parameter set to its default is left out, so that equal environments compare equal.
        kept = tuple((name, value) for name, value in changed if value != defaults[name])
        object.__setattr__(self, "parameters", kept)
        _specs(self)

    @property
    def name(self) -> str:
        """The name in gymnax, which is Gymnasium's where Gymnasium has the environment."""
        return self.gymnax_id

    @property
    def observation(self) -> Spec:
        """What a policy sees."""
        return _specs(self).observation

    @property
    def action(self) -> Spec:
        """What a policy chooses."""
        return _specs(self).action

    @property
    def horizon(self) -> int:
        """The number of steps after which an episode is truncated."""
        return _specs(self).horizon

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Array]:
        """Draw a first state; returns ``(state, observation)``."""
        with _precision(self.gymnax_id):
            observation, state = _base(self.gymnax_id).reset_env(key, _parameters(self))
            state = jax.tree.map(_strongly_typed, state)
        return state, self._cast(observation)

    def step(self, key: PRNGKeyArray, state: Any, action: Array) -> Step:
        """Take `action` in `state`, without any reset."""
        with _precision(self.gymnax_id):
            observation, reached, reward, terminated, truncated = self._move(key, state, action)
        return Step(
            state=jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), reached, state),
            observation=self._cast(observation),
            reward=jnp.asarray(reward, float),
            terminated=jnp.asarray(terminated, bool),
            truncated=jnp.asarray(truncated, bool),
        )

    def _move(self, key: PRNGKeyArray, state: Any, action: Array) -> tuple[Any, Any, Any, Any, Any]:
        """Observation, state, reward, terminated and truncated as gymnax has them, its faults put right."""
        base, parameters = _base(self.gymnax_id), _parameters(self)
        if getattr(parameters, "torque_noise_max", None) == 0.0:
            # gymnax draws the torque noise also when its size is zero; with a constant key the draw is made
            # once for all environments of a batch, and the keys of the rollout are not needed at all.
            key = jax.random.key(0)
        observation, reached, reward, terminated, _ = base.step_env(key, state, action, parameters)
        if self.gymnax_id == "MountainCarContinuous-v0":
            reached = _stopped_by_the_wall(reached, parameters)
            observation = base.get_obs(reached)
        return observation, reached, reward, terminated, base.is_truncated(reached, parameters)

    def _cast(self, observation: Array) -> Array:
        return jnp.asarray(observation, self.observation.dtype)


class _Specs(NamedTuple):
    observation: Spec
    action: Spec
    horizon: int


@functools.cache
def _base(gymnax_id: str) -> Any:
    return gymnax.make(gymnax_id)[0]


@functools.cache
def _defaults(gymnax_id: str) -> dict[str, Parameter]:
    """The parameters that may be set, with their defaults as hashable Python values."""
    with jax.ensure_compile_time_eval():
        default = _base(gymnax_id).default_params
        fields = (field.name for field in dataclasses.fields(default))
        settable = [name for name in fields if name not in _DERIVED.get(gymnax_id, {})]
        return {name: _as_python(getattr(default, name)) for name in settable}


@functools.lru_cache(maxsize=256)
def _specs(environment: GymnaxEnvironment) -> _Specs:
    base = _base(environment.gymnax_id)
    with jax.ensure_compile_time_eval():
        parameters = _parameters(environment)
        return _Specs(
            observation=_observation(environment.gymnax_id, _spec(base.observation_space(parameters))),
            action=_spec(base.action_space(parameters)),
            horizon=int(parameters.max_steps_in_episode),
        )


def _parameters(environment: GymnaxEnvironment) -> Any:
    """The parameters in gymnax's own class. Not cached: inside a trace its arrays belong to that trace."""
    default = _base(environment.gymnax_id).default_params
    changed = {
        name: jnp.asarray(value) if isinstance(value, tuple) else value for name, value in environment.parameters
    }
    parameters = dataclasses.replace(default, **changed)
    derived = _DERIVED.get(environment.gymnax_id, {})
    return dataclasses.replace(parameters, **{name: rule(parameters) for name, rule in derived.items()})


def _checked_parameter(name: str, value: Any, default: Parameter) -> Parameter:
    value = _as_python(value)
    if isinstance(default, bool):
        return check_choice(name, str(value), ("True", "False")) == "True"
    if isinstance(default, int):
        return check_count(name, value, at_least=1 if name == "max_steps_in_episode" else 0)
    if isinstance(default, tuple):
        if not isinstance(value, tuple) or len(value) != len(default):
            raise wrong(name, value, f"accepted are {len(default)} numbers, such as {default}")
        return tuple(float(check_number(name, entry)) for entry in value)
    return float(check_number(name, value))


def _as_python(value: Any) -> Any:
    """Arrays and lists become tuples, array scalars become numbers; both can be hashed."""
    if hasattr(value, "dtype"):
        value = np.asarray(value).tolist()
    return tuple(value) if isinstance(value, list) else value


def _strongly_typed(leaf: Any) -> Array:
    """gymnax starts its clock with a Python 0, whose weak type would change along a scan."""
    return jnp.asarray(leaf, jnp.asarray(leaf).dtype)


def _spec(space: Any) -> Spec:
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n))
    if isinstance(space, spaces.Box):
        shape = tuple(int(side) for side in space.shape)
        dtype = np.dtype(space.dtype)
        cast = float if np.issubdtype(dtype, np.floating) else dtype.name
        return Box(shape, _bound(space.low, shape), _bound(space.high, shape), cast)
    raise wrong("space", space, "accepted are arrays (Box) and integers (Discrete)")


def _precision(gymnax_id: str) -> AbstractContextManager[None]:
    return jax.enable_x64(False) if gymnax_id in _SINGLE_PRECISION else nullcontext()


def _observation(gymnax_id: str, spec: Spec) -> Spec:
    return Box(spec.shape, dtype=spec.dtype) if gymnax_id in _WRONG_BOUNDS else spec


def _stopped_by_the_wall(state: Any, parameters: Any) -> Any:
    """Gymnasium's car loses its speed at the left wall; gymnax's keeps it, and takes it away at the goal."""
    at_the_wall = (state.position == parameters.min_position) & (state.velocity < 0)
    return state.replace(velocity=jnp.where(at_the_wall, jnp.zeros_like(state.velocity), state.velocity))


def _bound(bound: Any, shape: tuple[int, ...]) -> float | tuple[float, ...]:
    """gymnax writes the largest float32 where Gymnasium writes infinity."""
    entries = np.broadcast_to(np.asarray(bound, np.float64), shape).ravel()
    entries = np.where(np.abs(entries) >= np.finfo(np.float32).max, np.copysign(math.inf, entries), entries)
    numbers = tuple(float(entry) for entry in entries)
    return numbers[0] if len(set(numbers)) == 1 else numbers
