"""Beta: a distribution that lives within its bounds."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import betaln, digamma, polygamma

from pgsom.policies.distributions.bounds import Bounds


@dataclass(frozen=True)
class Beta:
    """a = low + (high − low) y, y ~ Beta(α, β) in each entry, α = 1 + softplus(u), β = 1 + softplus(v).

    y is drawn and recorded; the outputs are (u, v). α, β > 1 make every density unimodal and 0 at the bounds, where
    draws that float arithmetic has rounded onto a bound are moved inside by one part in 10⁷ (float32).
    """

    bounds: Bounds

    def sample(self, key: Array, outputs: Array) -> Array:
        tiny = float(np.finfo(outputs.dtype).eps)
        return jnp.clip(jax.random.beta(key, *_shapes(outputs), dtype=outputs.dtype), tiny, 1 - tiny)

    def mode(self, outputs: Array) -> Array:
        """(α − 1) / (α + β − 2)."""
        alpha, beta = _shapes(outputs)
        return (alpha - 1) / (alpha + beta - 2)

    def executed(self, action: Array) -> Array:
        return self.bounds.clip(self.bounds.from_unit(2 * action - 1))

    def log_prob(self, outputs: Array, action: Array) -> Array:
        """Σ_i (α−1) ln y + (β−1) ln(1−y) − ln B(α, β) − ln(high − low)."""
        alpha, beta = _shapes(outputs)
        of_unit = (alpha - 1) * jnp.log(action) + (beta - 1) * jnp.log1p(-action) - betaln(alpha, beta)
        return jnp.sum(of_unit) - self._log_width()

    def entropy(self, outputs: Array) -> Array:
        """Σ_i ln B(α, β) − (α−1) ψ(α) − (β−1) ψ(β) + (α+β−2) ψ(α+β) + ln(high − low)."""
        alpha, beta = _shapes(outputs)
        expected = (alpha - 1) * digamma(alpha) + (beta - 1) * digamma(beta)
        return jnp.sum(betaln(alpha, beta) - expected + (alpha + beta - 2) * digamma(alpha + beta)) + self._log_width()

    def kl(self, outputs: Array, other: Array) -> Array:
        """Σ_i ln B(α', β') − ln B(α, β) + (α−α') ψ(α) + (β−β') ψ(β) + (α'−α+β'−β) ψ(α+β)."""
        (alpha, beta), (a, b) = _shapes(outputs), _shapes(other)
        moved = (alpha - a) * digamma(alpha) + (beta - b) * digamma(beta)
        total = (a - alpha + b - beta) * digamma(alpha + beta)
        return jnp.sum(betaln(a, b) - betaln(alpha, beta) + moved + total)

    def fisher_factor(self, outputs: Array) -> Array:
        """For each entry D T D, T = [ψ′(α) − ψ′(α+β), −ψ′(α+β); …, ψ′(β) − ψ′(α+β)] and D = diag(σ(u), σ(v)).

        The factor is D times the Cholesky factor of T, which for two rows is three numbers.
        """
        alpha, beta = _shapes(outputs)
        shared = polygamma(1, alpha + beta)
        first = jnp.sqrt(polygamma(1, alpha) - shared)
        cross = -shared / first
        second = jnp.sqrt(polygamma(1, beta) - shared - jnp.square(cross))
        zero = jnp.diag(jnp.zeros_like(first))
        triangle = jnp.block([[jnp.diag(first), zero], [jnp.diag(cross), jnp.diag(second)]])
        return jax.nn.sigmoid(outputs)[:, None] * triangle

    def log_prob_curvature(self, outputs: Array, action: Array) -> tuple[Array, Array]:
        """−F, and on the diagonal softplus″ times ∂ ln p/∂(α, β)."""
        alpha, beta = _shapes(outputs)
        total = digamma(alpha + beta)
        by_shape = jnp.concatenate(
            [jnp.log(action) - digamma(alpha) + total, jnp.log1p(-action) - digamma(beta) + total]
        )
        bend = jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs) * by_shape
        factor = self.fisher_factor(outputs)
        columns = jnp.concatenate([factor, jnp.diag(jnp.sqrt(jnp.abs(bend)))], axis=1)
        return columns, jnp.concatenate([-jnp.ones(factor.shape[1], factor.dtype), jnp.sign(bend)])

    def _log_width(self) -> Array:
        """Σ ln(high − low)."""
        return jnp.sum(jnp.log(2 * jnp.asarray(self.bounds.half, float)))


def _shapes(outputs: Array) -> tuple[Array, Array]:
    """(α, β)."""
    alpha, beta = jnp.split(1 + jax.nn.softplus(outputs), 2)
    return alpha, beta
