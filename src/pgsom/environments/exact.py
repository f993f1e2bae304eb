"""The exact return of a policy in a finite MDP, its derivatives and its values.

All functions are differentiable JAX code in the default float dtype. Their accuracy is that dtype's: use
``with jax.enable_x64(True)`` where they serve as the truth.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pgsom.checks import wrong
from pgsom.environments.finite_mdp import FiniteMDP

Table = Float[Array | np.ndarray, "state action"]
Policy = Callable[[Any], Table]


class Dynamics(NamedTuple):
    """What of a finite MDP its exact quantities are made of, as arrays: one compiled program serves all of a shape.

    Nothing leads out of a terminal state, and nothing is earned there.
    """

    transition: Array
    """P[s, a, s'], zero where s is terminal"""
    reward: Array
    """R[s, a], zero where s is terminal"""
    start: Array
    """ρ[s]"""
    discount: Array
    """γ"""


def dynamics_of(mdp: FiniteMDP) -> Dynamics:
    """The MDP as arrays of the default float dtype."""
    running = ~mdp.terminal
    arrays = (mdp.transition * running[:, None, None], mdp.reward * running[:, None], mdp.start, mdp.discount)
    return Dynamics(*(jnp.asarray(array, float) for array in arrays))


def softmax_policy(theta: Table) -> Float[Array, "state action"]:
    """The tabular policy π(a|s) = exp θ[s, a] / Σ_b exp θ[s, b]."""
    return jax.nn.softmax(theta, axis=-1)


def exact_return(mdp: FiniteMDP, action_probabilities: Table) -> Float[Array, ""]:
    """The expected discounted return J of the policy π[s, a].

    ::

        P_π[s, s'] = Σ_a π[s, a] P[s, a, s'],  zero where s is terminal
        r_π[s]     = Σ_a π[s, a] R[s, a],      zero where s is terminal
        J          = Σ_{t<H} γ^t ρᵀ P_π^t r_π        finite horizon
        J          = ρᵀ (I − γ P_π)⁻¹ r_π             infinite horizon
    """
    dynamics = _fitting(mdp, action_probabilities)
    if mdp.infinite:
        return dynamics.start @ exact_values(mdp, action_probabilities)
    return finite_return(dynamics, action_probabilities, mdp.horizon)


def finite_return(dynamics: Dynamics, action_probabilities: Table, horizon: int) -> Float[Array, ""]:
    """J = Σ_{t<H} γ^t ρᵀ P_π^t r_π."""
    transition, reward = _under_policy(dynamics, action_probabilities)

    def advance(distribution: Array, weight: Array) -> tuple[Array, Array]:
        return distribution @ transition, weight * (distribution @ reward)

    weights = dynamics.discount ** jnp.arange(horizon)
    _, earned = jax.lax.scan(advance, dynamics.start, weights)
    return jnp.sum(earned)


def exact_values(mdp: FiniteMDP, action_probabilities: Table) -> Float[Array, "time state"] | Float[Array, " state"]:
    """The expected discounted return from each state on, counted from there.

    ::

        V_t = r_π + γ P_π V_{t+1},  V_H = 0        finite horizon: [time, state]
        V   = (I − γ P_π)⁻¹ r_π                     infinite horizon: [state]

    The value of a terminal state is zero.
    """
    dynamics = _fitting(mdp, action_probabilities)
    if mdp.infinite:
        transition, reward = _under_policy(dynamics, action_probabilities)
        values: Array = jnp.linalg.solve(jnp.eye(mdp.states) - mdp.discount * transition, reward)
        return values
    return finite_values(dynamics, action_probabilities, mdp.horizon)


def finite_values(dynamics: Dynamics, action_probabilities: Table, horizon: int) -> Float[Array, "time state"]:
    """V_t = r_π + γ P_π V_{t+1}, V_H = 0."""
    transition, reward = _under_policy(dynamics, action_probabilities)

    def back_up(later: Array, _: None) -> tuple[Array, Array]:
        value = reward + dynamics.discount * (transition @ later)
        return value, value

    _, by_time = jax.lax.scan(back_up, jnp.zeros_like(reward), None, length=horizon, reverse=True)
    return by_time


def exact_gradient(mdp: FiniteMDP, policy: Policy, params: Any) -> Any:
    """∇J at `params`, for any differentiable `policy` from parameters to π[s, a]; same pytree as `params`."""
    return jax.grad(lambda point: exact_return(mdp, policy(point)))(params)


def exact_hessian(mdp: FiniteMDP, policy: Policy, params: Any) -> Any:
    """∇²J at `params`, in the nested pytree of `jax.hessian`: shape [S, A, S, A] for tabular logits."""
    return jax.hessian(lambda point: exact_return(mdp, policy(point)))(params)


def _fitting(mdp: FiniteMDP, action_probabilities: Table) -> Dynamics:
    """The MDP's arrays, if π[s, a] has their shape."""
    expected = (mdp.states, mdp.actions)
    if jnp.shape(action_probabilities) != expected:
        raise wrong(
            "action_probabilities.shape",
            jnp.shape(action_probabilities),
            f"accepted is (states, actions) = {expected}",
        )
    return dynamics_of(mdp)


def _under_policy(dynamics: Dynamics, action_probabilities: Table) -> tuple[Array, Array]:
    """P_π and r_π."""
    transition = jnp.einsum("sa,sat->st", action_probabilities, dynamics.transition)
    return transition, jnp.einsum("sa,sa->s", action_probabilities, dynamics.reward)
