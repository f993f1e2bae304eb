"""Finite choices: one, or several at once."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array


@dataclass(frozen=True)
class Categorical:
    """A finite choice; the outputs are its logits."""

    def noise(self, key: Array, outputs: Array) -> Array:
        """One uniform number."""
        return jax.random.uniform(key, dtype=outputs.dtype)

    def sample(self, key: Array, outputs: Array) -> Array:
        """Invert the cumulative distribution at one uniform number."""
        below = jnp.cumsum(jax.nn.softmax(outputs))[:-1]
        return jnp.sum(self.noise(key, outputs) >= below).astype(jnp.int32)

    def mode(self, outputs: Array) -> Array:
        """The action with the largest logit; the first of equals."""
        return jnp.argmax(outputs).astype(jnp.int32)

    def executed(self, action: Array) -> Array:
        return action

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


@dataclass(frozen=True)
class MultiCategorical:
    """Independent finite choices, the i-th among `choices[i]`; the outputs are their logits, one after the other."""

    choices: tuple[int, ...]

    def noise(self, key: Array, outputs: Array) -> Array:
        """One uniform number a choice."""
        keys = jax.random.split(key, len(self.choices))
        return jnp.stack([ONE.noise(k, u) for k, u in zip(keys, self._split(outputs), strict=True)])

    def sample(self, key: Array, outputs: Array) -> Array:
        keys = jax.random.split(key, len(self.choices))
        return jnp.stack([ONE.sample(k, u) for k, u in zip(keys, self._split(outputs), strict=True)])

    def mode(self, outputs: Array) -> Array:
        return jnp.stack([ONE.mode(u) for u in self._split(outputs)])

    def executed(self, action: Array) -> Array:
        return action

    def log_prob(self, outputs: Array, action: Array) -> Array:
        """Σ_i ln p_i(a_i)."""
        return sum_of(ONE.log_prob(u, action[i]) for i, u in enumerate(self._split(outputs)))

    def entropy(self, outputs: Array) -> Array:
        """Σ_i H_i."""
        return sum_of(ONE.entropy(u) for u in self._split(outputs))

    def kl(self, outputs: Array, other: Array) -> Array:
        """Σ_i KL_i."""
        return sum_of(ONE.kl(u, v) for u, v in zip(self._split(outputs), self._split(other), strict=True))

    def fisher_factor(self, outputs: Array) -> Array:
        """One block a choice."""
        return jax.scipy.linalg.block_diag(*map(ONE.fisher_factor, self._split(outputs)))

    def log_prob_curvature(self, outputs: Array, action: Array) -> tuple[Array, Array]:
        """−F, whatever the actions."""
        factor = self.fisher_factor(outputs)
        return factor, -jnp.ones(factor.shape[-1], factor.dtype)

    def _split(self, outputs: Array) -> list[Array]:
        return jnp.split(outputs, list(itertools.accumulate(self.choices))[:-1])


ONE = Categorical()


def sum_of(terms: Iterable[Array]) -> Array:
    """Their sum, an array also for one term."""
    return jnp.sum(jnp.stack(list(terms)))
