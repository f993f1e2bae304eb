"""Environments by name. Listing the names imports neither JAX nor gymnax; making one does."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pgsom.checks import check_choice, check_known, wrong

if TYPE_CHECKING:
    from pgsom.environments.environment import Environment

Factory = Callable[..., "Environment"]


class _Entry(NamedTuple):
    factory: Factory
    summary: str


_entries: dict[str, _Entry] = {}


def register(name: str, factory: Factory, summary: str, *, replace: bool = False) -> None:
    """Let `make(name, **options)` return `factory(**options)`. Import what is heavy inside the factory."""
    if not isinstance(name, str) or not name:
        raise wrong("name", name, "accepted is a non-empty string")
    if name in _entries and not replace:
        raise wrong("name", name, "already registered; pass replace=True to replace it")
    if not callable(factory):
        raise wrong("factory", factory, "accepted is a function that returns an environment")
    _entries[name] = _Entry(factory, summary)


def make(environment: "str | Environment", **options: Any) -> "Environment":
    """The environment of that name; an environment itself is checked and passed through.

    `options` go to the factory: ``make("CartPole-v1", masspole=0.2)``, ``make("chain", length=5)``.
    """
    if isinstance(environment, str):
        entry = _entries[check_choice("environment", environment, _entries)]
        _check_options(entry.factory, options)
        return _checked(entry.factory(**options))
    if options:
        raise wrong("options", tuple(options), "accepted only together with the name of an environment")
    return _checked(environment)


def names() -> tuple[str, ...]:
    """The registered names, in the order of their registration."""
    return tuple(_entries)


def available() -> tuple[tuple[str, str], ...]:
    """All registered names, each with its one-line summary."""
    return tuple((name, entry.summary) for name, entry in _entries.items())


def _check_options(factory: Factory, options: Mapping[str, Any]) -> None:
    parameters = inspect.signature(factory).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    if options and not parameters:
        raise wrong("options", tuple(options), "this environment has none")
    check_known("option", options, parameters)


def _checked(environment: Any) -> "Environment":
    from pgsom.environments.environment import Environment

    if not isinstance(environment, Environment):
        offered = "name, observation, action, horizon, reset and step"
        raise wrong("environment", environment, f"accepted is a registered name or an object with {offered}")
    try:
        hash(environment)
    except TypeError:
        raise wrong("environment", environment, "must be hashable, such as a frozen dataclass") from None
    return environment


def _finite(function: str) -> Factory:
    def build(**options: Any) -> "Environment":
        from pgsom.environments import examples

        factory: Factory = getattr(examples, function)
        _check_options(factory, options)
        return factory(**options)

    return build


def _gymnax(gymnax_id: str) -> Factory:
    def build(**parameters: Any) -> "Environment":
        from pgsom.environments.gymnax_adapter import GymnaxEnvironment

        return GymnaxEnvironment(gymnax_id, tuple(parameters.items()))

    return build


register("CartPole-v1", _gymnax("CartPole-v1"), "balance a pole on a cart; 4 numbers, 2 actions, 500 steps")
register("Acrobot-v1", _gymnax("Acrobot-v1"), "swing a two-link arm up; 6 numbers, 3 actions, 500 steps")
register("MountainCar-v0", _gymnax("MountainCar-v0"), "rock a car uphill; 2 numbers, 3 actions, 200 steps")
register("Pendulum-v1", _gymnax("Pendulum-v1"), "swing up and hold; 3 numbers, torque in [-2, 2], 200 steps")
register(
    "MountainCarContinuous-v0",
    _gymnax("MountainCarContinuous-v0"),
    "rock a car uphill by a force; 2 numbers, 999 steps",
)
register("two-armed-bandit", _finite("two_armed_bandit"), "one choice; J = σ(θ), J″ changes sign")
register("three-state", _finite("three_state"), "exact: 3 states, 2 actions, 4 steps, fixed numbers")
register("chain", _finite("chain"), "exact: a corridor to a goal, episodes of different lengths")
register("probe-delayed", _finite("probe_delayed"), "exact: the first action is paid at the last step")
