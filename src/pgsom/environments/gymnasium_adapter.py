"""Environments of Gymnasium, stepped on the host: by id, as an instance, or from a function that makes them."""

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv, VectorEnv

from pgsom.checks import InputError, check_choice, check_count, suggestion, wrong
from pgsom.environments.environment import Spec
from pgsom.environments.gymnasium_copies import (
    AUTORESETS,
    GymnasiumCopies,
    InProcesses,
    InThreads,
    InTurn,
    Located,
    autoreset_of,
)
from pgsom.environments.gymnasium_spaces import action_spec, observation_spec, time_limit
from pgsom.environments.host import Copies
from pgsom.environments.mujoco_warnings import hear_mujoco
from pgsom.environments.registry import names

Env = gymnasium.Env[Any, Any]
VECTORS = {
    "sync": "copies in this process, one after the other; finished ones wait",
    "async": "a process for each copy",
    "entry-point": "the environment's own vector, if it has one; a single seed for all copies",
    "envpool": "EnvPool's threads, if it is installed and has the environment",
}
AUTORESET_OPTIONS = (*AUTORESETS, "disabled")


@dataclass(frozen=True)
class GymnasiumEnvironment:
    """An environment of Gymnasium; its wrappers are kept, and its time limit is a truncation.

    Two are equal if they were made from the same words. `make` makes one copy, `vector` says how several are stepped.
    """

    name: str
    observation: Spec
    action: Spec
    horizon: int
    vector: str
    autoreset: str
    options: tuple[tuple[str, str], ...]
    make: Callable[..., Env] = field(compare=False, repr=False)
    gymnasium_id: str | None = field(default=None, compare=False, repr=False)

    def open(self, labels: Sequence[str]) -> Copies:
        """A copy for each label."""
        if self.vector == "entry-point":
            made = gymnasium.make_vec(str(self.gymnasium_id), len(labels), "vector_entry_point", **self._make_options())
            return GymnasiumCopies(made, self.name, seed_each=False)
        if self.vector == "envpool":
            return GymnasiumCopies(InThreads(_envpool(str(self.gymnasium_id), len(labels))), self.name, seed_each=False)
        makers = [functools.partial(_located, self.make, self.name, label) for label in labels]
        mode = AUTORESETS[self.autoreset]
        if self.vector == "async":
            return GymnasiumCopies(InProcesses(makers, mode), self.name)
        in_turn = InTurn(makers) if self.autoreset == "same-step" else SyncVectorEnv(makers, autoreset_mode=mode)
        return GymnasiumCopies(in_turn, self.name)

    def single(self, *, render_mode: str | None = None) -> Env:
        """One copy by itself, to look at."""
        return self.make(render_mode=render_mode) if render_mode else self.make()

    def _make_options(self) -> dict[str, Any]:
        return {"max_episode_steps": self.horizon} if "max_episode_steps" in dict(self.options) else {}


@dataclass(frozen=True, eq=False)
class GymnasiumVector:
    """A `VectorEnv` that the caller made: as many copies as it has, stepped in whichever autoreset mode it is in."""

    name: str
    observation: Spec
    action: Spec
    horizon: int
    environment: VectorEnv[Any, Any, Any]

    def open(self, labels: Sequence[str]) -> Copies:
        """The vector itself; it stays open."""
        count = self.environment.num_envs
        if len(labels) != count:
            accepted = f"{len(labels)} copies are needed (seeds times batch); the vector has {count}"
            raise wrong("environment", self.name, accepted)
        return _Kept(self.environment, self.name, seed_each=not hasattr(self.environment, "prev_done"))


class _Kept(GymnasiumCopies):
    """Copies that belong to the caller."""

    def close(self) -> None:
        """They stay open."""


def gymnasium_environment(
    source: Any,
    *,
    max_episode_steps: int | None = None,
    vector: str = "sync",
    autoreset: str = "same-step",
    **options: Any,
) -> GymnasiumEnvironment | GymnasiumVector:
    """``make("gymnasium:LunarLander-v3")``, ``make(instance)``, ``gymnasium_environment(lambda: MyEnv())``.

    Args:
        source: an id (``"module:Id-v0"`` imports the module first), an instance, which is copied with its wrappers as
            it is, a function that makes one, or a `VectorEnv`.
        max_episode_steps: the time limit; by default the environment's own, which it must then have.
        vector: how copies are stepped (`VECTORS`).
        autoreset: when a copy begins its next episode: ``"same-step"`` or ``"next-step"``.
        options: further arguments of `gymnasium.make`, with an id only.
    """
    check_choice("vector", vector, VECTORS)
    check_choice("autoreset", autoreset, AUTORESET_OPTIONS)
    if autoreset == "disabled":
        raise wrong(
            "autoreset", autoreset, f"copies must begin their next episodes; accepted are {', '.join(AUTORESETS)}"
        )
    limit = None if max_episode_steps is None else check_count("max_episode_steps", max_episode_steps)
    if isinstance(source, VectorEnv):
        return _of_vector(source, limit)
    make = _maker(source, limit, options)
    name, gymnasium_id = _name(source)
    first = _tried(gymnasium_id, make)
    try:
        found = time_limit(first)
        own = first.spec.id if first.spec is not None else type(first.unwrapped).__name__
        specs = observation_spec(first.observation_space), action_spec(first.action_space)
    finally:
        if first is not source:
            first.close()
    horizon = _limited(name or own, limit or found)
    written = options | {"max_episode_steps": limit, "vector": vector, "autoreset": autoreset}
    environment = GymnasiumEnvironment(
        name or own,
        *specs,
        horizon,
        vector,
        autoreset,
        tuple((k, repr(v)) for k, v in sorted(written.items()) if v is not None),
        make,
        gymnasium_id,
    )
    _check_vector(environment)
    return environment


def _maker(source: Any, limit: int | None, options: dict[str, Any]) -> Callable[..., Env]:
    if isinstance(source, str):
        return functools.partial(_by_id, source, limit, options)
    if options:
        raise wrong("options", tuple(options), "accepted only with the id of an environment")
    if isinstance(source, gymnasium.Env):
        return functools.partial(_again, source, limit)
    return functools.partial(_called, source, limit)


def _by_id(gymnasium_id: str, limit: int | None, options: dict[str, Any], **rendering: Any) -> Env:
    """Gymnasium's own checker, which looks at every step, is left out; `check_environment` looks once."""
    if limit is not None:
        options = options | {"max_episode_steps": limit}
    if "mujoco" in str(getattr(gymnasium.registry.get(gymnasium_id), "entry_point", "")):
        hear_mujoco()
    return gymnasium.make(gymnasium_id, disable_env_checker=True, **options, **rendering)


def _again(instance: Env, limit: int | None, *, render_mode: str | None = None) -> Env:
    """A copy of the instance, or of what it was made from where it cannot be copied."""
    try:
        copied = copy.deepcopy(instance)
    except Exception as error:
        if instance.spec is None:
            accepted = f"cannot be copied ({error}); accepted is a function that makes one"
            raise wrong("environment", instance, accepted) from None
        copied = gymnasium.make(instance.spec)
        if str(copied) != str(instance):
            accepted = "cannot be copied with its wrappers; accepted is a function that makes one"
            raise wrong("environment", instance, accepted) from None
    if render_mode is not None:
        copied.unwrapped.render_mode = render_mode
    return _with_limit(copied, limit)


def _called(function: Callable[[], Env], limit: int | None, *, render_mode: str | None = None) -> Env:
    made = function()
    if not isinstance(made, gymnasium.Env):
        raise wrong("environment", function, f"returned {type(made).__name__}; accepted is a gymnasium.Env")
    if render_mode is not None:
        made.unwrapped.render_mode = render_mode
    return _with_limit(made, limit)


def _with_limit(environment: Env, limit: int | None) -> Env:
    return environment if limit is None else gymnasium.wrappers.TimeLimit(environment, limit)


def _located(make: Callable[..., Env], name: str, label: str) -> Env:
    return Located(make(), name, label)


def _name(source: Any) -> tuple[str, str | None]:
    """The name results are filed under, empty if the environment itself must be asked; and the id."""
    if not isinstance(source, str):
        return "", None
    return (f"gymnasium:{source}" if source in names() or ":" in source else source), source


def _tried(gymnasium_id: str | None, make: Callable[..., Env]) -> Env:
    """The first copy. What Gymnasium says about an id it cannot make is said in our form."""
    if gymnasium_id is None:
        return make()
    name = f"gymnasium:{gymnasium_id}"
    try:
        return make()
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.NamespaceNotFound) as error:
        near = suggestion(gymnasium_id, gymnasium.registry)
        raise wrong("environment", name, f"unknown to Gymnasium{near}") from error
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise InputError(f"environment={name!r}: Gymnasium cannot make it: {' '.join(str(error).split())}") from error


def _limited(name: str, limit: int | None) -> int:
    if limit is None:
        accepted = "it has no time limit, so an episode might never end; accepted with one (max_episode_steps=1000)"
        raise wrong("environment", name, accepted)
    return limit


def _check_vector(environment: GymnasiumEnvironment) -> None:
    """That copies can be stepped in the way that was asked for."""
    if environment.vector not in ("entry-point", "envpool"):
        return
    if environment.gymnasium_id is None:
        raise wrong("vector", environment.vector, "accepted only with the id of an environment")
    if environment.vector == "entry-point":
        spec = gymnasium.spec(environment.gymnasium_id)
        if spec.vector_entry_point is None:
            raise wrong("vector", environment.vector, f"{spec.id} has no vector of its own; accepted are sync, async")
    environment.open(["probe"]).close()


def _of_vector(source: VectorEnv[Any, Any, Any], limit: int | None) -> GymnasiumVector:
    first: Env | None = source.envs[0] if isinstance(source, SyncVectorEnv) else None
    spec = source.spec or (first.spec if first is not None else None)
    name = spec.id if spec is not None else type((first or source).unwrapped).__name__
    autoreset_of(source, name)
    found = limit or (time_limit(first) if first is not None else getattr(spec, "max_episode_steps", None))
    specs = observation_spec(source.single_observation_space), action_spec(source.single_action_space)
    return GymnasiumVector(name, *specs, _limited(name, found), source)


def _envpool(gymnasium_id: str, copies: int) -> Callable[[int], Any]:
    """What makes EnvPool's vector for a seed."""
    try:
        import envpool
    except ImportError as error:
        raise InputError(
            f"vector='envpool': needs a package that is not installed ({error}); pip install 'pgsom[envpool]'"
        ) from None
    if gymnasium_id not in envpool.list_all_envs():
        raise wrong("vector", "envpool", f"EnvPool has no {gymnasium_id}; accepted are sync and async")
    return lambda seed: envpool.make_gymnasium(gymnasium_id, num_envs=copies, seed=seed)
