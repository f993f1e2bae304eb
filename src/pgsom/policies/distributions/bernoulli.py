"""Switches."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True)
class Bernoulli:
    """Independent switches; output i is the logit of switch i being on, p_i = σ(u_i)."""

    def noise(self, key: Array, outputs: Array) -> Array:
        """One uniform number a switch."""
        return jax.random.uniform(key, outputs.shape, outputs.dtype)

    def sample(self, key: Array, outputs: Array) -> Array:
        return (self.noise(key, outputs) < jax.nn.sigmoid(outputs)).astype(jnp.int32)

    def mode(self, outputs: Array) -> Array:
        return (outputs > 0).astype(jnp.int32)

    def executed(self, action: Array) -> Array:
        return action

    def log_prob(self, outputs: Array, action: Array) -> Array:
        """Σ_i a_i u_i − ln(1 + exp u_i)."""
        return jnp.sum(action * outputs - jax.nn.softplus(outputs))

    def entropy(self, outputs: Array) -> Array:
        """Σ_i ln(1 + exp u_i) − p_i u_i."""
        return jnp.sum(jax.nn.softplus(outputs) - jax.nn.sigmoid(outputs) * outputs)

    def kl(self, outputs: Array, other: Array) -> Array:
        """Σ_i p_i (u_i − v_i) − ln(1 + exp u_i) + ln(1 + exp v_i)."""
        normalisers = jax.nn.softplus(other) - jax.nn.softplus(outputs)
        return jnp.sum(jax.nn.sigmoid(outputs) * (outputs - other) + normalisers)

    def fisher_factor(self, outputs: Array) -> Array:
        """F = diag(p (1 − p))."""
        return jnp.diag(jnp.sqrt(jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)))

    def log_prob_curvature(self, outputs: Array, action: Array) -> tuple[Array, Array]:
        """−F, whatever the action."""
        return self.fisher_factor(outputs), -jnp.ones_like(outputs)
