"""A policy: a network and the distribution that its outputs parameterise."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_choice, wrong
from pgsom.environments import Discrete, Spec, Task
from pgsom.policies.distributions import Actions, Categorical, Distribution, Head, head_for
from pgsom.policies.layer_norm import LayerNormMLP
from pgsom.policies.networks import MLP, FunctionNetwork, Initial, Network, Params, linear_logistic, tabular_softmax
from pgsom.policies.standardised import Standardised

POLICIES = {
    "mlp": "multilayer perceptron with taps, --hidden 64,64 --activation tanh",
    "linear": "no hidden layer, no bias; the paper's for two actions: CartPole has 4 parameters",
    "tabular": "one logit for each state and action (finite MDPs)",
}


@dataclass(frozen=True)
class Policy:
    """π_θ(a|s), as functions of explicit parameters for one observation; hashable, so a static part of a program."""

    network: Network
    distribution: Distribution = field(default_factory=Categorical)

    def init(self, key: Array) -> Params:
        """Draw the initial parameters."""
        return self.network.init(key)

    def outputs(self, params: Params, observation: Array) -> Array:
        """The distribution's parameters, for instance logits."""
        return self.network.apply(params, observation)

    def sample(self, params: Params, observation: Array, key: Array) -> Array:
        """a ~ π_θ(·|s)."""
        return self.distribution.sample(key, self.outputs(params, observation))

    def mode(self, params: Params, observation: Array) -> Array:
        """The most probable action."""
        return self.distribution.mode(self.outputs(params, observation))

    def act(self, params: Params, observation: Array, key: Array | None = None) -> Array:
        """What to give the environment: for the most probable action, or with a key for a drawn one."""
        action = self.mode(params, observation) if key is None else self.sample(params, observation, key)
        return self.distribution.executed(action)

    def log_prob(self, params: Params, observation: Array, action: Array) -> Array:
        """ln π_θ(a|s)."""
        return self.distribution.log_prob(self.outputs(params, observation), action)

    def parameter_count(self) -> int:
        """D, without drawing parameters."""
        shapes = jax.eval_shape(self.init, jax.random.key(0))
        if isinstance(self.network, Standardised):
            shapes, _ = shapes
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def standardised(policy: Policy, observation: Spec) -> Policy:
    """The same policy for observations as the environment gives them; its parameters are (params, moments)."""
    return replace(policy, network=Standardised(policy.network, observation.shape))


def policy_from_functions(
    init: Callable[[Array], Params],
    apply: Callable[[Params, Array], Array],
    distribution: Distribution | None = None,
) -> Policy:
    """A policy from any ``init(key) -> params`` and ``apply(params, observation) -> outputs``."""
    return Policy(FunctionNetwork(init, apply), distribution or Categorical())


LogStd = Literal["free", "network"]
LOG_STDS: dict[str, str] = {
    "free": "parameters of their own, the same in every state",
    "network": "further outputs of the network",
}
"""Where the logarithms of a Gaussian's standard deviations come from."""


def make_policy(
    policy: str | Policy,
    environment: Task,
    *,
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
    initial: Initial = "orthogonal",
    layer_norm: bool = False,
    actions: Actions = "gaussian",
    log_std: LogStd = "free",
) -> Policy:
    """The named policy (`POLICIES`), sized for the environment; a `Policy` is returned as it is.

    Args:
        policy: what kind, or a ready-made one.
        environment: whose observations it takes and whose actions it chooses.
        hidden: widths of the mlp's hidden layers.
        activation: of the mlp's hidden layers.
        initial: how the mlp's weights are drawn (`INITIALS`).
        layer_norm: whether the mlp normalises its hidden layers; curvature is then computed sample by sample.
        actions: the distribution of continuous actions (`ACTIONS`).
        log_std: where a Gaussian's ln σ comes from (`LOG_STDS`).
    """
    if isinstance(policy, Policy):
        return _fitting(policy, environment)
    check_choice("policy", policy, POLICIES)
    check_choice("log_std", log_std, LOG_STDS)
    head = head_for(environment.action, actions)
    free = head.scales if log_std == "free" else 0
    observed = environment.observation
    if policy == "mlp":
        inputs = observed.n if isinstance(observed, Discrete) else _flat_size(environment.name, observed)
        one_hot = isinstance(observed, Discrete)
        mlp = MLP(inputs, head.outputs, hidden, activation, one_hot=one_hot, initial=initial, free=free)
        return Policy(LayerNormMLP(mlp) if layer_norm else mlp, head.distribution)
    if isinstance(observed, Discrete) and policy == "linear":
        raise wrong("policy", policy, f"{environment.name} has whole-number states; accepted are tabular, mlp")
    if not isinstance(observed, Discrete) and policy == "tabular":
        raise wrong("policy", policy, f"{environment.name} has real-valued states; accepted are mlp, linear")
    return Policy(_without_hidden_layer(environment, head, free), head.distribution)


def policy_options() -> dict[str, Any]:
    """Every option of `make_policy`, with its default."""
    parameters = inspect.signature(make_policy).parameters.values()
    return {parameter.name: parameter.default for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}


def _without_hidden_layer(environment: Task, head: Head, free: int) -> MLP:
    """A row of outputs for each whole-number state, or a linear map of a real-valued one."""
    observed = environment.observation
    one_hot = isinstance(observed, Discrete)
    inputs = observed.n if isinstance(observed, Discrete) else _flat_size(environment.name, observed)
    if isinstance(environment.action, Discrete):
        return tabular_softmax(inputs, head.outputs) if one_hot else linear_logistic(inputs, head.outputs)
    return MLP(inputs, head.outputs, (), bias=False, one_hot=one_hot, initial="zeros", free=free)


def _fitting(policy: Policy, environment: Task) -> Policy:
    """A ready-made policy must take the environment's observations and have an output for each action."""
    key, observed = jax.random.key(0), environment.observation
    seen = jax.ShapeDtypeStruct(observed.shape, jnp.zeros((), observed.dtype).dtype)
    try:
        outputs = jax.eval_shape(policy.outputs, jax.eval_shape(policy.init, key), seen)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise wrong("policy", policy, f"does not take the observations of {environment.name} ({reason})") from None
    accepted = head_for(environment.action).outputs
    if isinstance(environment.action, Discrete) and outputs.shape != (accepted,):
        raise wrong("policy", policy, f"its outputs have shape {outputs.shape}; accepted is ({accepted},)")
    return policy


def _flat_size(name: str, observed: Spec) -> int:
    if len(observed.shape) != 1:
        raise wrong("environment", name, f"accepted are flat observations; its shape is {observed.shape}")
    return observed.shape[0]
