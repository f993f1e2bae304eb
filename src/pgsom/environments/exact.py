"""The exact return of a policy in a finite MDP, its derivatives and its values.

All functions are differentiable JAX code in the default float dtype. Their accuracy is that dtype's: use
``with jax.enable_x64(True)`` where they serve as the truth.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from pgsom.checks import wrong
from pgsom.environments.finite_mdp import FiniteMDP

Table = Float[Array | np.ndarray, "state action"]
Policy = Callable[[Any], Table]


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
    if mdp.infinite:
        return jnp.asarray(mdp.start, float) @ exact_values(mdp, action_probabilities)
    transition, reward = _under_policy(mdp, action_probabilities)

    def advance(distribution: Array, weight: Array) -> tuple[Array, Array]:
        return distribution @ transition, weight * (distribution @ reward)

    weights = jnp.asarray(mdp.discount ** np.arange(mdp.horizon), float)
    _, earned = jax.lax.scan(advance, jnp.asarray(mdp.start, float), weights)
    return jnp.sum(earned)


def exact_values(mdp: FiniteMDP, action_probabilities: Table) -> Float[Array, "time state"] | Float[Array, " state"]:
    """The expected discounted return from each state on, counted from there.

    ::

        V_t = r_π + γ P_π V_{t+1},  V_H = 0        finite horizon: [time, state]
        V   = (I − γ P_π)⁻¹ r_π                     infinite horizon: [state]

    The value of a terminal state is zero.
    """
    transition, reward = _under_policy(mdp, action_probabilities)
    if mdp.infinite:
        values: Array = jnp.linalg.solve(jnp.eye(mdp.states) - mdp.discount * transition, reward)
        return values

    def back_up(later: Array, _: None) -> tuple[Array, Array]:
        value = reward + mdp.discount * (transition @ later)
        return value, value

    _, by_time = jax.lax.scan(back_up, jnp.zeros(mdp.states), None, length=mdp.horizon, reverse=True)
    return by_time


def exact_gradient(mdp: FiniteMDP, policy: Policy, params: Any) -> Any:
    """∇J at `params`, for any differentiable `policy` from parameters to π[s, a]; same pytree as `params`."""
    return jax.grad(lambda point: exact_return(mdp, policy(point)))(params)


def exact_hessian(mdp: FiniteMDP, policy: Policy, params: Any) -> Any:
    """∇²J at `params`, in the nested pytree of `jax.hessian`: shape [S, A, S, A] for tabular logits."""
    return jax.hessian(lambda point: exact_return(mdp, policy(point)))(params)


def _under_policy(mdp: FiniteMDP, action_probabilities: Table) -> tuple[Array, Array]:
    """P_π and r_π: nothing leads out of a terminal state, and nothing is earned there."""
    expected = (mdp.states, mdp.actions)
    if jnp.shape(action_probabilities) != expected:
        raise wrong(
            "action_probabilities.shape",
            jnp.shape(action_probabilities),
            f"accepted is (states, actions) = {expected}",
        )
    running = ~mdp.terminal
    going_on = jnp.asarray(mdp.transition * running[:, None, None], float)
    earned = jnp.asarray(mdp.reward * running[:, None], float)
    transition = jnp.einsum("sa,sat->st", action_probabilities, going_on)
    return transition, jnp.einsum("sa,sa->s", action_probabilities, earned)
