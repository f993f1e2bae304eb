"""Advantages and targets from a value function V.

With rewards r_t, V_t = V(s_t) and V′_t the value of what step t led to, 0 where the episode terminated there,

    δ_t = r_t + γ V′_t − V_t

    GAE(λ)     Â_t = Σ_{k≥t} (γλ)^{k−t} δ_k                                       λ = 1: G_t − V_t
    n-step     Â_t = Σ_{k=t}^{t+m−1} γ^{k−t} r_k + γ^m V′_{t+m−1} − V_t           m = n, or up to the piece's end
    TD(λ)      R_t = V_t + Â_t^{GAE(λ)}                                           what V is to learn

Sums stop at a piece's end. An end that is no termination (a time limit, or a segment that is over) is worth V of the
observation that would have come next, the one before any reset.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.returns import returns_to_go

Advantage = Literal["gae", "n-step"]
ADVANTAGES: dict[str, str] = {
    "gae": "Σ (γλ)^k δ_{t+k} with --gae-lambda",
    "n-step": "--n-step rewards, then the critic",
}


class Valued(NamedTuple):
    """Steps with their values, all [time, env]; everything is 0 in rows that are no steps."""

    reward: Array
    value: Array
    """V_t"""
    next_value: Array
    """V′_t"""
    last: Array
    """The step is the last of its piece."""
    begins: Array | None
    """As in `pgsom.returns`."""

    def differences(self, discount: Array | float) -> Array:
        """δ_t."""
        return self.reward + discount * self.next_value - self.value


def gae(steps: Valued, discount: Array | float, decay: Array | float) -> Array:
    """Â_t of GAE(λ), λ being `decay`."""
    return returns_to_go(steps.differences(discount), jnp.asarray(discount) * decay, steps.begins)


def n_step(steps: Valued, discount: Array | float, n: Array | int) -> Array:
    """Â_t from n rewards: R¹_t = r_t + γ V′_t,  R^{m+1}_t = r_t + γ R^m_{t+1}, but R¹_t at a piece's end."""
    first = steps.reward + discount * steps.next_value

    def longer(_: Any, returns: Array) -> Array:
        later = jnp.concatenate([returns[1:], jnp.zeros_like(returns[:1])])
        return jnp.where(steps.last, first, steps.reward + discount * later)

    return jax.lax.fori_loop(1, jnp.asarray(n, jnp.int32), longer, first) - steps.value
