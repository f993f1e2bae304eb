"""What a run is to do: settings in words, and the parts that they name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from pgsom.checks import check_count, wrong
from pgsom.environments import Environment, HostEnvironment, Task
from pgsom.methods import Method, method_options
from pgsom.policies import Policy
from pgsom.policies.policy import policy_options

DEFAULT_EPISODES = 500
DEFAULT_ENV_STEPS = 100_000
Words = dict[str, Any]
"""Options by name; values that TOML can hold, or None."""


@dataclass(frozen=True)
class Settings:
    """How a run was set up, in words that can be written down and read back."""

    environment: str
    environment_options: Words
    method: str
    options: Words
    """The method's, defaults resolved."""
    policy: str
    policy_options: Words
    """Defaults resolved."""
    seed: int
    seeds: tuple[int, ...]
    updates: int
    """As planned; a run that was stopped has made fewer."""
    rebuildable: bool
    """Whether names and numbers above say everything; not if a part was an object of the caller's."""

    @property
    def hidden(self) -> tuple[int, ...]:
        """Widths of the mlp's hidden layers."""
        return tuple(self.policy_options["hidden"])

    @property
    def activation(self) -> str:
        """Of the mlp's hidden layers."""
        return str(self.policy_options["activation"])


@dataclass(frozen=True)
class Plan:
    """Members of one structure: every method over every seed, method-major, and how many updates each is to make."""

    environment: Environment | HostEnvironment
    policy: Policy
    methods: tuple[Method, ...]
    seeds: tuple[int, ...]
    root: int
    updates: int


def described(
    plan: Plan,
    environment: tuple[Any, Mapping[str, Any]],
    policy: tuple[str | Policy | None, Mapping[str, Any]],
    written: tuple[str, Mapping[str, Any] | None],
) -> Settings:
    """Settings of one of the plan's methods; each of the others is a name or an object, with its options if named."""
    name, options = written
    of_policy = policy_options() | dict(policy[1])
    words = (options, environment[1], of_policy)
    named = isinstance(environment[0], str) and not isinstance(policy[0], Policy)
    return Settings(
        environment=plan.environment.name,
        environment_options=_as_read(environment[1]),
        method=name,
        options=_as_read(options or {}),
        policy=_policy_name(policy[0], plan.environment),
        policy_options=_as_read(of_policy),
        seed=plan.root,
        seeds=plan.seeds,
        updates=plan.updates,
        rebuildable=named and all(part is not None and can_be_written(part) for part in words),
    )


def _as_read(options: Mapping[str, Any]) -> Words:
    """As the options come back from TOML: tuples as lists."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}


def described_method(method: str | Method, options: Mapping[str, Any]) -> tuple[str, Words | None]:
    """The method's name with all its options, defaults resolved, or None for those of an object."""
    if isinstance(method, Method):
        return method.name, None
    defaults = method_options(method)
    resolved = defaults | dict(options)
    # What is None is left out of the file, so it must be what leaving out means.
    if any(value is None and defaults[name] is not None for name, value in resolved.items()):
        return method, None
    return method, resolved if can_be_written(resolved) else None


def can_be_written(value: Any) -> bool:
    """Whether TOML holds it and gives the same back; None is left out."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and can_be_written(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(item is not None and can_be_written(item) for item in value)
    return value is None or type(value) in (str, int, float, bool)


def default_policy(environment: Task) -> str:
    """A table for whole-number states, otherwise an MLP."""
    return "tabular" if environment.observation.shape == () else "mlp"


def same_structure(methods: Sequence[Method]) -> list[list[int]]:
    """Indices of methods that can share a compiled program."""
    groups: dict[Any, list[int]] = {}
    for index, method in enumerate(methods):
        groups.setdefault(jax.tree.structure(method), []).append(index)
    return list(groups.values())


def budget(method: Method, episodes: int | None, updates: int | None, env_steps: int | None = None) -> int:
    """Updates, from any one of them."""
    given = {"updates": updates, "episodes": episodes, "env_steps": env_steps}
    (first, *others) = [name for name, number in given.items() if number is not None] or ["default"]
    if others:
        other = f"{others[0]}={given[others[0]]} is given"
        raise wrong(first, given[first], f"accepted is either {first} or {others[0]}, and {other}")
    if updates is not None:
        return check_count("updates", updates)
    if method.steps_per_update:
        return _updates_of_steps(method, episodes, env_steps)
    if env_steps is not None:
        raise wrong("env_steps", env_steps, f"{method.name} plays whole episodes; accepted with steps > 0, or episodes")
    per_update = method.episodes_per_update
    wanted = check_count("episodes", DEFAULT_EPISODES if episodes is None else episodes)
    if wanted < per_update:
        raise wrong("episodes", wanted, f"one update of {method.name} takes {per_update}; accepted is >= {per_update}")
    return wanted // per_update


def _updates_of_steps(method: Method, episodes: int | None, env_steps: int | None) -> int:
    """For batches of a fixed number of steps, however many episodes that is."""
    if episodes is not None:
        accepted = f"{method.name} plays {method.plan.steps} steps at a time; accepted are env_steps and updates"
        raise wrong("episodes", episodes, accepted)
    per_update = method.steps_per_update
    wanted = check_count("env_steps", DEFAULT_ENV_STEPS if env_steps is None else env_steps)
    if wanted < per_update:
        raise wrong("env_steps", wanted, f"one update of {method.name} takes {per_update}; accepted is >= {per_update}")
    return wanted // per_update


def check_seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Which seeds: 0, 1, … so many, or those listed."""
    if isinstance(seeds, int | np.integer):
        return tuple(range(check_count("seeds", seeds)))
    if not isinstance(seeds, list | tuple | range | np.ndarray):
        raise wrong("seeds", seeds, "accepted are a number of seeds or different seeds")
    chosen = tuple(check_count("seeds", s, at_least=0, at_most=2**31 - 1) for s in seeds)
    if not chosen or len(set(chosen)) != len(chosen):
        raise wrong("seeds", list(seeds), "accepted are a number of seeds or different seeds")
    return chosen


def check_widths(hidden: Sequence[int]) -> tuple[int, ...]:
    """Widths of hidden layers."""
    if not isinstance(hidden, tuple | list):
        raise wrong("hidden", hidden, "accepted is a sequence of widths, such as (64, 64)")
    return tuple(check_count("hidden", width) for width in hidden)


def _policy_name(policy: str | Policy | None, environment: Task) -> str:
    if isinstance(policy, Policy):
        return repr(policy)
    return policy or default_policy(environment)
