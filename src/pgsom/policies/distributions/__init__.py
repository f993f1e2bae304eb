"""Action distributions, one family a file, and which of them suits an action space."""

from typing import Literal, NamedTuple

from pgsom.checks import check_choice, wrong
from pgsom.environments import Discrete, MultiBinary, MultiDiscrete, Spec
from pgsom.policies.distributions.bernoulli import Bernoulli
from pgsom.policies.distributions.beta import Beta
from pgsom.policies.distributions.bounds import Bounds, bounds_of, unbounded
from pgsom.policies.distributions.categorical import Categorical, MultiCategorical
from pgsom.policies.distributions.distribution import Distribution
from pgsom.policies.distributions.gaussian import Gaussian, TanhGaussian

Actions = Literal["gaussian", "tanh-gaussian", "beta"]
ACTIONS: dict[str, str] = {
    "gaussian": "Gaussian, clipped by the environment",
    "tanh-gaussian": "Gaussian squashed into the bounds by tanh",
    "beta": "Beta between the bounds",
}
"""The distributions of continuous actions."""


class Head(NamedTuple):
    """A distribution and what it asks of a network."""

    distribution: Distribution
    outputs: int
    scales: int
    """How many of the outputs, the last ones, are logarithms of scales, which may be the same in every state."""


def head_for(action: Spec, actions: str = "gaussian") -> Head:
    """The distribution for an action space; `actions` chooses among those of continuous actions."""
    check_choice("actions", actions, ACTIONS)
    if isinstance(action, Discrete):
        return Head(Categorical(), action.n, 0)
    if isinstance(action, MultiDiscrete):
        return Head(MultiCategorical(action.n), sum(action.n), 0)
    if isinstance(action, MultiBinary):
        return Head(Bernoulli(), action.n, 0)
    bounds = bounds_of(action)
    if actions == "gaussian":
        return Head(Gaussian(bounds), 2 * bounds.size, bounds.size)
    if not bounds.finite:
        raise wrong("actions", actions, "not every action is bounded on both sides; accepted is gaussian")
    if actions == "tanh-gaussian":
        return Head(TanhGaussian(bounds), 2 * bounds.size, bounds.size)
    return Head(Beta(bounds), 2 * bounds.size, 0)


__all__ = [
    "ACTIONS",
    "Actions",
    "Bernoulli",
    "Beta",
    "Bounds",
    "Categorical",
    "Distribution",
    "Gaussian",
    "Head",
    "MultiCategorical",
    "TanhGaussian",
    "bounds_of",
    "head_for",
    "unbounded",
]
