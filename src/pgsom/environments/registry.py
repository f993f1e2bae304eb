"""Environments by name. Listing the names imports neither JAX nor gymnax nor Gymnasium; making one does.

A name that no environment in JAX has is one of Gymnasium's.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from pgsom.checks import check_known, listed, suggestion, wrong
from pgsom.environments.gymnax_catalogue import GYMNAX

if TYPE_CHECKING:
    from pgsom.environments.environment import Environment
    from pgsom.environments.host import HostEnvironment

Factory = Callable[..., "Environment | HostEnvironment"]


class _Entry(NamedTuple):
    factory: Factory
    summary: str


_entries: dict[str, _Entry] = {}

# What stands before the colon of a name: the module and function that make the environment of the rest.
_SOURCES: dict[str, tuple[str, str, str]] = {
    "gymnasium": ("gymnasium_adapter", "gymnasium_environment", "any environment of Gymnasium, stepped on the host"),
    "brax": ("physics_adapter", "brax_environment", "any environment of brax, such as brax:ant"),
    "playground": (
        "physics_adapter",
        "playground_environment",
        "any of MuJoCo Playground, such as playground:CartpoleBalance",
    ),
}


def register(name: str, factory: Factory, summary: str, *, replace: bool = False) -> None:
    """Let `make(name, **options)` return `factory(**options)`. Import what is heavy inside the factory."""
    if not isinstance(name, str) or not name:
        raise wrong("name", name, "accepted is a non-empty string")
    if name in _entries and not replace:
        raise wrong("name", name, "already registered; pass replace=True to replace it")
    if not callable(factory):
        raise wrong("factory", factory, "accepted is a function that returns an environment")
    _entries[name] = _Entry(factory, summary)


@overload
def make(environment: "Environment") -> "Environment": ...
@overload
def make(environment: Any, **options: Any) -> Any: ...
def make(environment: Any, **options: Any) -> Any:
    """The environment of that name; an environment itself is checked and passed through.

    `options` go to the factory: ``make("CartPole-v1", masspole=0.2)``, ``make("chain", length=5)``. A name with a colon
    is looked up elsewhere, ``make("brax:ant")``; `sources` lists what may stand before it. A name that is not
    registered is one of Gymnasium's. An instance of a Gymnasium environment, a function that makes one, or a vector of
    them is wrapped (`gymnasium_environment`).
    """
    if isinstance(environment, str):
        name = check_name(environment)
        source, colon, rest = name.partition(":")
        if name in _entries:
            _check_options(_entries[name].factory, options)
            return _checked(_entries[name].factory(**options))
        return _checked(_from_source(source if colon else "gymnasium")(rest if colon else name, **options))
    if _is_gymnasium(environment):
        return _from_source("gymnasium")(environment, **options)
    if options:
        raise wrong("options", tuple(options), "accepted only together with the name of an environment")
    return _checked(environment)


def names() -> tuple[str, ...]:
    """The registered names, in the order of their registration."""
    return tuple(_entries)


def available() -> tuple[tuple[str, str], ...]:
    """All registered names, each with its one-line summary."""
    return tuple((name, entry.summary) for name, entry in _entries.items())


def sources() -> tuple[tuple[str, str], ...]:
    """What may stand before the colon of a name, and a line on each."""
    return tuple((f"{source}:NAME", summary) for source, (_, _, summary) in _SOURCES.items())


def check_name(environment: str) -> str:
    """`environment` must be a registered name or one of another source; whether that has it, `make` finds out."""
    source, colon, rest = environment.partition(":")
    if environment in _entries or (colon and source in _SOURCES and rest):
        return environment
    if colon and source not in _SOURCES:
        accepted = f"accepted before the colon are {', '.join(_SOURCES)}{suggestion(source, _SOURCES)}"
        raise wrong("environment", environment, accepted)
    if colon:
        raise wrong("environment", environment, f"the name after {source}: is missing")
    theirs = _gymnasium_ids()
    if environment in theirs:
        return environment
    near = suggestion(environment, (*_entries, *theirs))
    raise wrong("environment", environment, f"accepted are {listed(_entries)}, and the ids of Gymnasium{near}")


def _gymnasium_ids() -> tuple[str, ...]:
    return tuple(importlib.import_module("gymnasium").registry)


def _is_gymnasium(environment: Any) -> bool:
    """Whether it is one of Gymnasium's, or makes one; nobody has one who has not imported Gymnasium."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is None:
        return False
    if isinstance(environment, type):
        return issubclass(environment, gymnasium.Env)
    return inspect.isfunction(environment) or isinstance(environment, gymnasium.Env | gymnasium.vector.VectorEnv)


def _from_source(source: str) -> Factory:
    module, function, _ = _SOURCES[source]
    factory: Factory = getattr(importlib.import_module(f"pgsom.environments.{module}"), function)
    return factory


def _check_options(factory: Factory, options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(factory).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    if options and not parameters:
        raise wrong("options", tuple(options), "this environment has none")
    check_known("option", options, parameters)


def _checked(environment: Any) -> Any:
    from pgsom.environments.environment import Environment
    from pgsom.environments.host import HostEnvironment

    if not isinstance(environment, Environment | HostEnvironment):
        offered = "name, observation, action, horizon, reset and step"
        raise wrong("environment", environment, f"accepted is a registered name or an object with {offered}")
    try:
        hash(environment)
    except TypeError:
        raise wrong("environment", environment, "must be hashable, such as a frozen dataclass") from None
    return environment


def _exact(function: str, module: str = "examples") -> Factory:
    def build(**options: Any) -> "Environment":
        factory: Callable[..., Environment] = getattr(importlib.import_module(f"pgsom.environments.{module}"), function)
        _check_options(factory, options)
        return factory(**options)

    return build


def _gymnax(gymnax_id: str) -> Factory:
    def build(**parameters: Any) -> "Environment":
        from pgsom.environments.flattening import flattened
        from pgsom.environments.gymnax_adapter import GymnaxEnvironment

        return flattened(GymnaxEnvironment(gymnax_id, tuple(parameters.items())))

    return build


for _name, _summary in GYMNAX.items():
    register(_name, _gymnax(_name), _summary)
register("two-armed-bandit", _exact("two_armed_bandit"), "one choice; J = σ(θ), J″ changes sign")
register("three-state", _exact("three_state"), "exact: 3 states, 2 actions, 4 steps, fixed numbers")
register("chain", _exact("chain"), "exact: a corridor to a goal, episodes of different lengths")
register("probe-delayed", _exact("probe_delayed"), "exact: the first action is paid at the last step")
register(
    "double-integrator",
    _exact("double_integrator", "linear_quadratic"),
    "exact: push a mass to rest; linear, quadratic costs, 1 continuous action, 20 steps",
)
