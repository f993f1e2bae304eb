"""Where experience comes from. Names that need JAX or gymnax are imported when first asked for."""

import importlib
from typing import TYPE_CHECKING, Any

from pgsom.environments.registry import available, check_name, make, names, register, sources

if TYPE_CHECKING:
    from pgsom.environments.checking import check_environment
    from pgsom.environments.enumeration import (
        Enumeration,
        count_trajectories,
        enumerate_trajectories,
        trajectory_probabilities,
    )
    from pgsom.environments.environment import Box, Discrete, Environment, MultiBinary, MultiDiscrete, Spec, Step, Task
    from pgsom.environments.exact import (
        exact_gradient,
        exact_hessian,
        exact_return,
        exact_values,
        softmax_policy,
    )
    from pgsom.environments.exact_control import (
        LinearGaussian,
        best_gain,
        control_fisher,
        control_gradient,
        control_hessian,
        control_hessian_product,
        control_natural_gradient,
        control_return,
        riccati_gains,
    )
    from pgsom.environments.examples import (
        chain,
        probe_delayed,
        random_mdp,
        three_state,
        two_armed_bandit,
    )
    from pgsom.environments.finite_mdp import FiniteMDP, FiniteState
    from pgsom.environments.flattening import Flattened, flattened
    from pgsom.environments.gymnasium_adapter import GymnasiumEnvironment, GymnasiumVector, gymnasium_environment
    from pgsom.environments.gymnax_adapter import GymnaxEnvironment
    from pgsom.environments.host import Copies, EpisodeError, HostEnvironment, HostStep
    from pgsom.environments.linear_quadratic import LinearQuadratic, double_integrator

__all__ = [
    "Box",
    "Copies",
    "Discrete",
    "Enumeration",
    "Environment",
    "EpisodeError",
    "FiniteMDP",
    "FiniteState",
    "Flattened",
    "GymnasiumEnvironment",
    "GymnasiumVector",
    "GymnaxEnvironment",
    "HostEnvironment",
    "HostStep",
    "LinearGaussian",
    "LinearQuadratic",
    "MultiBinary",
    "MultiDiscrete",
    "Spec",
    "Step",
    "Task",
    "available",
    "best_gain",
    "chain",
    "check_environment",
    "check_name",
    "control_fisher",
    "control_gradient",
    "control_hessian",
    "control_hessian_product",
    "control_natural_gradient",
    "control_return",
    "count_trajectories",
    "double_integrator",
    "enumerate_trajectories",
    "exact_gradient",
    "exact_hessian",
    "exact_return",
    "exact_values",
    "flattened",
    "gymnasium_environment",
    "make",
    "names",
    "probe_delayed",
    "random_mdp",
    "register",
    "riccati_gains",
    "softmax_policy",
    "sources",
    "three_state",
    "trajectory_probabilities",
    "two_armed_bandit",
]

_MODULES = {
    "checking": ("check_environment",),
    "environment": ("Box", "Discrete", "Environment", "MultiBinary", "MultiDiscrete", "Spec", "Step", "Task"),
    "finite_mdp": ("FiniteMDP", "FiniteState"),
    "exact": ("exact_gradient", "exact_hessian", "exact_return", "exact_values", "softmax_policy"),
    "exact_control": (
        "LinearGaussian",
        "best_gain",
        "control_fisher",
        "control_gradient",
        "control_hessian",
        "control_hessian_product",
        "control_natural_gradient",
        "control_return",
        "riccati_gains",
    ),
    "linear_quadratic": ("LinearQuadratic", "double_integrator"),
    "enumeration": (
        "Enumeration",
        "count_trajectories",
        "enumerate_trajectories",
        "trajectory_probabilities",
    ),
    "examples": ("chain", "probe_delayed", "random_mdp", "three_state", "two_armed_bandit"),
    "flattening": ("Flattened", "flattened"),
    "gymnasium_adapter": ("GymnasiumEnvironment", "GymnasiumVector", "gymnasium_environment"),
    "gymnax_adapter": ("GymnaxEnvironment",),
    "host": ("Copies", "EpisodeError", "HostEnvironment", "HostStep"),
}
_MODULE_OF = {name: module for module, listed in _MODULES.items() for name in listed}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
