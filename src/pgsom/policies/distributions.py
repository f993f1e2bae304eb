"""Action distributions: what a network's outputs mean.

A distribution is a stateless object whose methods take the outputs for one observation. `fisher_factor` and
`log_prob_curvature` are what curvature estimators need to know about it, in the space of the outputs u:

    F(u) = E_a[∇_u ln p(a) ∇_u ln p(a)ᵀ] = S Sᵀ            fisher_factor returns S
    ∇²_u ln p(a) = Σ_c σ_c S_c S_cᵀ                         log_prob_curvature returns (S, σ)
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array


@runtime_checkable
class Distribution(Protocol):
    """What every action distribution offers; `outputs` are the network's, for one observation."""

    def sample(self, key: Array, outputs: Array) -> Array:
        """Draw an action."""
        ...

    def mode(self, outputs: Array) -> Array:
        """The most probable action."""
        ...

    def log_prob(self, outputs: Array, action: Array) -> Array:
        """ln p(action)."""
        ...

    def entropy(self, outputs: Array) -> Array:
        """−E[ln p]."""
        ...

    def kl(self, outputs: Array, other: Array) -> Array:
        """KL(p_outputs ‖ p_other)."""
        ...

    def fisher_factor(self, outputs: Array) -> Array:
        """S [outputs, columns] with F = S Sᵀ."""
        ...

    def log_prob_curvature(self, outputs: Array, action: Array) -> tuple[Array, Array]:
        """S [outputs, columns] and signs σ [columns] with ∇² ln p(action) = S diag(σ) Sᵀ."""
        ...


@dataclass(frozen=True)
class Categorical:
    """A finite choice; the outputs are its logits."""

    def sample(self, key: Array, outputs: Array) -> Array:
        """Invert the cumulative distribution at one uniform number."""
        below = jnp.cumsum(jax.nn.softmax(outputs))[:-1]
        return jnp.sum(jax.random.uniform(key, dtype=outputs.dtype) >= below).astype(jnp.int32)

    def mode(self, outputs: Array) -> Array:
        """The action with the largest logit; the first of equals."""
        return jnp.argmax(outputs).astype(jnp.int32)

    def log_prob(self, outputs: Array, action: Array) -> Array:
        """ln p_a = u_a − ln Σ_b exp u_b."""
        return jnp.sum(jax.nn.log_softmax(outputs) * jax.nn.one_hot(action, outputs.shape[-1], dtype=outputs.dtype))

    def entropy(self, outputs: Array) -> Array:
        """−Σ_a p_a ln p_a."""
        return -jnp.sum(jax.nn.softmax(outputs) * jax.nn.log_softmax(outputs))

    def kl(self, outputs: Array, other: Array) -> Array:
        """Σ_a p_a (ln p_a − ln q_a)."""
        return jnp.sum(jax.nn.softmax(outputs) * (jax.nn.log_softmax(outputs) - jax.nn.log_softmax(other)))

    def fisher_factor(self, outputs: Array) -> Array:
        """F = diag(p) − p pᵀ: columns √p_c (e_c − p), and with two actions the one column √(p₀p₁) (1, −1)."""
        p = jax.nn.softmax(outputs)
        if outputs.shape[-1] == 2:
            return jnp.sqrt(p[0] * p[1]) * jnp.array([[1.0], [-1.0]], outputs.dtype)
        return jnp.sqrt(p) * (jnp.eye(p.shape[-1], dtype=p.dtype) - p[:, None])

    def log_prob_curvature(self, outputs: Array, action: Array) -> tuple[Array, Array]:
        """−F, whatever the action."""
        factor = self.fisher_factor(outputs)
        return factor, -jnp.ones(factor.shape[-1], factor.dtype)
