"""A policy: a network and the distribution that its outputs parameterise."""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
from jax import Array

from pgsom.checks import check_choice, wrong
from pgsom.environments import Discrete, Environment, Spec
from pgsom.policies.distributions import Categorical, Distribution
from pgsom.policies.networks import MLP, FunctionNetwork, Network, Params, linear_logistic, tabular_softmax

POLICIES = {
    "mlp": "multilayer perceptron with taps, --hidden 64,64 --activation tanh",
    "linear": "the paper's linear logistic policy without bias: CartPole has 4 parameters",
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

    def log_prob(self, params: Params, observation: Array, action: Array) -> Array:
        """ln π_θ(a|s)."""
        return self.distribution.log_prob(self.outputs(params, observation), action)

    def parameter_count(self) -> int:
        """D, without drawing parameters."""
        shapes = jax.eval_shape(self.init, jax.random.key(0))
        return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def policy_from_functions(
    init: Callable[[Array], Params],
    apply: Callable[[Params, Array], Array],
    distribution: Distribution | None = None,
) -> Policy:
    """A policy from any ``init(key) -> params`` and ``apply(params, observation) -> outputs``."""
    return Policy(FunctionNetwork(init, apply), distribution or Categorical())


def make_policy(
    policy: str | Policy,
    environment: Environment,
    *,
    hidden: tuple[int, ...] = (64, 64),
    activation: str = "tanh",
) -> Policy:
    """The named policy (`POLICIES`), sized for the environment; a `Policy` is returned as it is."""
    if isinstance(policy, Policy):
        return _fitting(policy, environment)
    check_choice("policy", policy, POLICIES)
    if not isinstance(environment.action, Discrete):
        raise wrong("environment", environment.name, "accepted is a discrete action space")
    actions, observed = environment.action.n, environment.observation
    if isinstance(observed, Discrete):
        if policy == "linear":
            raise wrong("policy", policy, f"{environment.name} has whole-number states; accepted are tabular, mlp")
        if policy == "tabular":
            return Policy(tabular_softmax(observed.n, actions))
        return Policy(MLP(observed.n, actions, hidden, activation, one_hot=True))
    inputs = _flat_size(environment.name, observed)
    if policy == "tabular":
        raise wrong("policy", policy, f"{environment.name} has real-valued states; accepted are mlp, linear")
    return Policy(linear_logistic(inputs, actions) if policy == "linear" else MLP(inputs, actions, hidden, activation))


def _fitting(policy: Policy, environment: Environment) -> Policy:
    """A ready-made policy must take the environment's observations and have an output for each action."""
    key = jax.random.key(0)
    try:
        seen = jax.eval_shape(environment.reset, key)[1]
        outputs = jax.eval_shape(policy.outputs, jax.eval_shape(policy.init, key), seen)
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise wrong("policy", policy, f"does not take the observations of {environment.name} ({reason})") from None
    if isinstance(environment.action, Discrete) and outputs.shape != (environment.action.n,):
        raise wrong("policy", policy, f"its outputs have shape {outputs.shape}; accepted is ({environment.action.n},)")
    return policy


def _flat_size(name: str, observed: Spec) -> int:
    if len(observed.shape) != 1:
        raise wrong("environment", name, f"accepted are flat observations; its shape is {observed.shape}")
    return observed.shape[0]
