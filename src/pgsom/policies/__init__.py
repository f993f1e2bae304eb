"""Policies: networks, action distributions, and the derivatives of their log-probabilities."""

from pgsom.policies.distributions import (
    ACTIONS,
    Bernoulli,
    Beta,
    Bounds,
    Categorical,
    Distribution,
    Gaussian,
    MultiCategorical,
    TanhGaussian,
    head_for,
    unbounded,
)
from pgsom.policies.layer_norm import LayerNormMLP
from pgsom.policies.modules import equinox_network, nnx_network
from pgsom.policies.networks import INITIALS, MLP, FunctionNetwork, Layer, Network, linear_logistic, tabular_softmax
from pgsom.policies.policy import (
    LOG_STDS,
    POLICIES,
    Policy,
    make_policy,
    policy_from_functions,
    standardised,
)
from pgsom.policies.standardised import Standardised

__all__ = [
    "ACTIONS",
    "INITIALS",
    "LOG_STDS",
    "MLP",
    "POLICIES",
    "Bernoulli",
    "Beta",
    "Bounds",
    "Categorical",
    "Distribution",
    "FunctionNetwork",
    "Gaussian",
    "Layer",
    "LayerNormMLP",
    "MultiCategorical",
    "Network",
    "Policy",
    "Standardised",
    "TanhGaussian",
    "equinox_network",
    "head_for",
    "linear_logistic",
    "make_policy",
    "nnx_network",
    "policy_from_functions",
    "standardised",
    "tabular_softmax",
    "unbounded",
]
