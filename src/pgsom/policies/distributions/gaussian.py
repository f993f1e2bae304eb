"""Diagonal Gaussians, as they are and squashed into bounds."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pgsom.policies.distributions.bounds import Bounds


@dataclass(frozen=True)
class Gaussian:
    """x_i ~ N(μ_i, σ_i²), independent; the outputs are (μ, ln σ).

    x is drawn and recorded. The environment is given centre + half x, clipped into its bounds, where half is half the
    width of an entry's bounds (1, with centre 0, if it has none): outputs of one size suit bounds of any size.
    Log-probabilities are those of the number before clipping.
    """

    bounds: Bounds

    def noise(self, key: Array, outputs: Array) -> Array:
        """One standard normal number an entry."""
        return jax.random.normal(key, (self.bounds.size,), outputs.dtype)

    def sample(self, key: Array, outputs: Array) -> Array:
        mean, log_std = jnp.split(outputs, 2)
        return mean + jnp.exp(log_std) * self.noise(key, outputs)

    def mode(self, outputs: Array) -> Array:
        return jnp.split(outputs, 2)[0]

    def executed(self, action: Array) -> Array:
        return self.bounds.clip(self.bounds.from_unit(action))

    def log_prob(self, outputs: Array, action: Array) -> Array:
        """Σ_i −½ e_i² − ln σ_i − ½ ln 2π − ln half_i,  e = (x − μ)/σ."""
        mean, log_std = jnp.split(outputs, 2)
        e = (action - mean) * jnp.exp(-log_std)
        return jnp.sum(-0.5 * jnp.square(e) - log_std - 0.5 * math.log(2 * math.pi)) - self.bounds.log_volume

    def entropy(self, outputs: Array) -> Array:
        """Σ_i ln σ_i + ½ ln 2πe + ln half_i."""
        log_std = jnp.split(outputs, 2)[1]
        return jnp.sum(log_std + 0.5 * math.log(2 * math.pi * math.e)) + self.bounds.log_volume

    def kl(self, outputs: Array, other: Array) -> Array:
        """Σ_i ln σ'_i − ln σ_i + (σ_i² + (μ_i − μ'_i)²) / 2σ'_i² − ½."""
        (mean, log_std), (there, log_there) = jnp.split(outputs, 2), jnp.split(other, 2)
        spread = jnp.exp(2 * (log_std - log_there)) + jnp.square((mean - there) * jnp.exp(-log_there))
        return jnp.sum(log_there - log_std + 0.5 * spread - 0.5)

    def fisher_factor(self, outputs: Array) -> Array:
        """F = diag(1/σ², 2)."""
        log_std = jnp.split(outputs, 2)[1]
        return jnp.diag(jnp.concatenate([jnp.exp(-log_std), jnp.full_like(log_std, math.sqrt(2))]))

    def log_prob_curvature(self, outputs: Array, action: Array) -> tuple[Array, Array]:
        """For each entry −[1/σ², 2e/σ; 2e/σ, 2e²] = −v vᵀ + [0, 0; 0, 2e²],  v = (1/σ, 2e)."""
        mean, log_std = jnp.split(outputs, 2)
        e = (action - mean) * jnp.exp(-log_std)
        v = jnp.concatenate([jnp.diag(jnp.exp(-log_std)), jnp.diag(2 * e)])
        rest = jnp.concatenate([jnp.zeros_like(jnp.diag(e)), jnp.diag(math.sqrt(2) * jnp.abs(e))])
        ones = jnp.ones_like(e)
        return jnp.concatenate([v, rest], axis=1), jnp.concatenate([-ones, ones])


REACH, SPACING = 7.0, 0.25
NODES = np.arange(-REACH, REACH + SPACING / 2, SPACING)


@dataclass(frozen=True)
class TanhGaussian:
    """a = centre + half tanh(x), x ~ N(μ, σ²) in each entry; the outputs are (μ, ln σ).

    x is drawn and recorded, so that the action really taken has its exact log-probability also where tanh has rounded
    it onto a bound:

        ln p(a) = ln N(x; μ, σ²) − ln half − ln(1 − tanh² x),   ln(1 − tanh² x) = 2 (ln 2 − x − softplus(−2x)).

    The map does not depend on the outputs, so scores, Fisher matrix, curvature and KL divergence are those of the
    Gaussian, exactly. The entropy has no closed form: it is the Gaussian's plus E[ln da/dx], one integral an entry,
    by the trapezoidal rule, which converges exponentially here (in float64 to 1e-8 for σ ≤ 2, to 1e-4 for σ ≤ 4).
    `mode` is the image of μ, the median, as is customary; the density of a may be largest elsewhere.
    """

    bounds: Bounds

    @property
    def base(self) -> Gaussian:
        """The Gaussian of x."""
        return Gaussian(self.bounds)

    def noise(self, key: Array, outputs: Array) -> Array:
        return self.base.noise(key, outputs)

    def sample(self, key: Array, outputs: Array) -> Array:
        return self.base.sample(key, outputs)

    def mode(self, outputs: Array) -> Array:
        return self.base.mode(outputs)

    def executed(self, action: Array) -> Array:
        # Clipped as well, for in floating point centre + half may lie an ulp outside.
        return self.bounds.clip(self.bounds.from_unit(jnp.tanh(action)))

    def log_prob(self, outputs: Array, action: Array) -> Array:
        return self.base.log_prob(outputs, action) - jnp.sum(log_tanh_slope(action))

    def entropy(self, outputs: Array) -> Array:
        mean, log_std = jnp.split(outputs, 2)
        nodes = jnp.asarray(NODES, mean.dtype)[:, None]
        weights = SPACING / math.sqrt(2 * math.pi) * jnp.exp(-0.5 * jnp.square(nodes))
        stretched = jnp.sum(weights * log_tanh_slope(mean + jnp.exp(log_std) * nodes))
        return self.base.entropy(outputs) + stretched

    def kl(self, outputs: Array, other: Array) -> Array:
        return self.base.kl(outputs, other)

    def fisher_factor(self, outputs: Array) -> Array:
        return self.base.fisher_factor(outputs)

    def log_prob_curvature(self, outputs: Array, action: Array) -> tuple[Array, Array]:
        return self.base.log_prob_curvature(outputs, action)


def log_tanh_slope(x: Array) -> Array:
    """ln(1 − tanh² x), without the cancellation."""
    return 2 * (math.log(2) - x - jax.nn.softplus(-2 * x))
