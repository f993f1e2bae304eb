"""Where experience comes from. Names that need JAX or gymnax are imported when first asked for."""

import importlib
from typing import TYPE_CHECKING, Any

from pgsom.environments.registry import available, make, names, register

if TYPE_CHECKING:
    from pgsom.environments.enumeration import (
        Enumeration,
        count_trajectories,
        enumerate_trajectories,
        trajectory_probabilities,
    )
    from pgsom.environments.environment import Box, Discrete, Environment, MultiBinary, MultiDiscrete, Spec, Step
    from pgsom.environments.exact import (
        exact_gradient,
        exact_hessian,
        exact_return,
        exact_values,
        softmax_policy,
    )
    from pgsom.environments.examples import (
        chain,
        probe_delayed,
        random_mdp,
        three_state,
        two_armed_bandit,
    )
    from pgsom.environments.finite_mdp import FiniteMDP, FiniteState
    from pgsom.environments.gymnax_adapter import GymnaxEnvironment

__all__ = [
    "Box",
    "Discrete",
    "Enumeration",
    "Environment",
    "FiniteMDP",
    "FiniteState",
    "GymnaxEnvironment",
    "MultiBinary",
    "MultiDiscrete",
    "Spec",
    "Step",
    "available",
    "chain",
    "count_trajectories",
    "enumerate_trajectories",
    "exact_gradient",
    "exact_hessian",
    "exact_return",
    "exact_values",
    "make",
    "names",
    "probe_delayed",
    "random_mdp",
    "register",
    "softmax_policy",
    "three_state",
    "trajectory_probabilities",
    "two_armed_bandit",
]

_MODULES = {
    "environment": ("Box", "Discrete", "Environment", "MultiBinary", "MultiDiscrete", "Spec", "Step"),
    "finite_mdp": ("FiniteMDP", "FiniteState"),
    "exact": ("exact_gradient", "exact_hessian", "exact_return", "exact_values", "softmax_policy"),
    "enumeration": (
        "Enumeration",
        "count_trajectories",
        "enumerate_trajectories",
        "trajectory_probabilities",
    ),
    "examples": ("chain", "probe_delayed", "random_mdp", "three_state", "two_armed_bandit"),
    "gymnax_adapter": ("GymnaxEnvironment",),
}
_MODULE_OF = {name: module for module, listed in _MODULES.items() for name in listed}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
