"""Policies: networks, action distributions, and the derivatives of their log-probabilities."""

from pgsom.policies.distributions import Categorical, Distribution
from pgsom.policies.networks import MLP, FunctionNetwork, Layer, Network, linear_logistic, tabular_softmax
from pgsom.policies.policy import POLICIES, Policy, make_policy, policy_from_functions

__all__ = [
    "MLP",
    "POLICIES",
    "Categorical",
    "Distribution",
    "FunctionNetwork",
    "Layer",
    "Network",
    "Policy",
    "linear_logistic",
    "make_policy",
    "policy_from_functions",
    "tabular_softmax",
]
