"""pgsom: curvature-aware policy-gradient reinforcement learning in JAX.

Public names stand in the order in which data flows: environment, policy, rollout, objective, curvature, updates,
schemes, methods, training, results. They are imported when first used, so that ``import pgsom`` is quick.
"""

import importlib
from typing import TYPE_CHECKING, Any

from pgsom.jax_version import warn_if_jax_can_hang

if TYPE_CHECKING:
    from pgsom.baselines import (
        ConstantBaseline,
        LeaveOneOutBaseline,
        MovingAverageBaseline,
        NoBaseline,
        TimeStepBaseline,
    )
    from pgsom.checks import InputError
    from pgsom.critic import Critic, make_critic
    from pgsom.curvature import (
        CausalHessian,
        DecayedCausal,
        EmpiricalFisher,
        Fisher,
        GaussNewton,
        GaussNewtonBartlett,
        HesScale,
        Hutchinson,
        LemmaHessian,
        LogDensityHessian,
        MinusLogDensity,
        SampledFisher,
        SpatialAverage,
        WithoutCrossTerms,
        dense,
        diagonal,
    )
    from pgsom.environments import (
        Box,
        Discrete,
        Environment,
        FiniteMDP,
        MultiBinary,
        MultiDiscrete,
        Step,
        check_environment,
        enumerate_trajectories,
        random_mdp,
    )
    from pgsom.environments import make as make_environment
    from pgsom.environments import register as register_environment
    from pgsom.experiments.diagnosing import Diagnosing, diagnose
    from pgsom.methods import Common, Method, adam, assemble, hessian_pg, make_method, pg_som, reinforce, runge_kutta_pg
    from pgsom.objective import LocalObjective, Weighting, observe
    from pgsom.policies import (
        MLP,
        Bernoulli,
        Beta,
        Categorical,
        Gaussian,
        LayerNormMLP,
        MultiCategorical,
        Policy,
        TanhGaussian,
        equinox_network,
        linear_logistic,
        make_policy,
        nnx_network,
        policy_from_functions,
        tabular_softmax,
    )
    from pgsom.presets import preset
    from pgsom.rollout import Rollout, collect, score
    from pgsom.runs import Progress, Result, load, resume, sweep, train
    from pgsom.schemes import EULER, HEUN, MIDPOINT, RALSTON, RK4, Scheme, make_scheme, paper_alpha
    from pgsom.training import TrainState, init, seed_keys, step
    from pgsom.updates import (
        Ascent,
        Clipping,
        clip_elements,
        clip_norm,
        followed_by,
        from_optax,
        scale_by_ggt,
        scale_by_shampoo,
        scale_by_soap,
        scale_by_som,
        som,
    )

__version__ = "0.1.0"

_MODULES = {
    "pgsom.checks": ("InputError",),
    "pgsom.environments": (
        "Box",
        "Discrete",
        "Environment",
        "FiniteMDP",
        "MultiBinary",
        "MultiDiscrete",
        "Step",
        "check_environment",
        "enumerate_trajectories",
        "random_mdp",
    ),
    "pgsom.policies": (
        "MLP",
        "Bernoulli",
        "Beta",
        "Categorical",
        "Gaussian",
        "LayerNormMLP",
        "MultiCategorical",
        "Policy",
        "TanhGaussian",
        "linear_logistic",
        "make_policy",
        "equinox_network",
        "nnx_network",
        "policy_from_functions",
        "tabular_softmax",
    ),
    "pgsom.rollout": ("Rollout", "collect", "score"),
    "pgsom.baselines": (
        "ConstantBaseline",
        "LeaveOneOutBaseline",
        "MovingAverageBaseline",
        "NoBaseline",
        "TimeStepBaseline",
    ),
    "pgsom.critic": ("Critic", "make_critic"),
    "pgsom.objective": ("LocalObjective", "Weighting", "observe"),
    "pgsom.curvature": (
        "CausalHessian",
        "DecayedCausal",
        "EmpiricalFisher",
        "Fisher",
        "GaussNewton",
        "GaussNewtonBartlett",
        "HesScale",
        "Hutchinson",
        "LemmaHessian",
        "LogDensityHessian",
        "MinusLogDensity",
        "SampledFisher",
        "SpatialAverage",
        "WithoutCrossTerms",
        "dense",
        "diagonal",
    ),
    "pgsom.updates": (
        "Ascent",
        "Clipping",
        "clip_elements",
        "clip_norm",
        "followed_by",
        "from_optax",
        "scale_by_ggt",
        "scale_by_shampoo",
        "scale_by_soap",
        "scale_by_som",
        "som",
    ),
    "pgsom.schemes": ("EULER", "HEUN", "MIDPOINT", "RALSTON", "RK4", "Scheme", "make_scheme", "paper_alpha"),
    "pgsom.methods": (
        "Common",
        "Method",
        "adam",
        "assemble",
        "hessian_pg",
        "make_method",
        "pg_som",
        "reinforce",
        "runge_kutta_pg",
    ),
    "pgsom.presets": ("preset",),
    "pgsom.training": ("TrainState", "init", "seed_keys", "step"),
    "pgsom.runs": ("Progress", "Result", "load", "resume", "sweep", "train"),
    "pgsom.experiments.diagnosing": ("Diagnosing", "diagnose"),
}
_RENAMED = {
    "make_environment": ("pgsom.environments", "make"),
    "register_environment": ("pgsom.environments", "register"),
}
_HOME = {name: (module, name) for module, names in _MODULES.items() for name in names} | _RENAMED

__all__ = [*_HOME]

warn_if_jax_can_hang()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOME[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
