"""Running mean and variance, for observations and rewards of unknown size.

Statistics are renewed between batches, never within one: for as long as a batch lasts the policy is one function of
what it sees. A trained policy carries its statistics with it, and they stay as they are.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

LARGEST = 10.0
"""Standardised numbers end here, as they do in most implementations."""
SMALLEST_VARIANCE = 1e-8


class Moments(NamedTuple):
    """Of all numbers seen so far, entry by entry."""

    number: Array
    mean: Array
    squares: Array
    """Σ (x − mean)²"""

    @property
    def variance(self) -> Array:
        """1 as long as nothing was seen."""
        seen = self.squares / jnp.maximum(self.number, 1)
        return jnp.where(self.number > 0, jnp.maximum(seen, SMALLEST_VARIANCE), 1)


def no_moments(shape: tuple[int, ...] = ()) -> Moments:
    """Nothing seen."""
    return Moments(jnp.zeros(()), jnp.zeros(shape), jnp.zeros(shape))


def with_more(moments: Moments, values: Array, mask: Array) -> Moments:
    """With `values` [time, env, …] where `mask` [time, env] is 1.

    n = n_a + n_b,  m = m_a + Δ n_b/n,  S = S_a + S_b + Δ² n_a n_b/n,  Δ = m_b − m_a, after Chan, Golub and LeVeque.
    """
    counted = mask.reshape(*mask.shape, *[1] * (values.ndim - mask.ndim)).astype(moments.mean.dtype)
    n_a, n_b = moments.number, mask.sum(dtype=moments.number.dtype)
    n = jnp.maximum(n_a + n_b, 1)
    mean_b = jnp.sum(counted * values, axis=(0, 1)) / jnp.maximum(n_b, 1)
    squares_b = jnp.sum(counted * jnp.square(values - mean_b), axis=(0, 1))
    apart = mean_b - moments.mean
    return Moments(
        n_a + n_b,
        moments.mean + apart * (n_b / n),
        moments.squares + squares_b + jnp.square(apart) * (n_a * n_b / n),
    )


def standardise(moments: Moments | None, values: Any) -> Any:
    """(x − mean)/√variance, no further from 0 than 10; without moments, or before anything was seen, x."""
    if moments is None:
        return values
    standard = jnp.clip((values - moments.mean) / jnp.sqrt(moments.variance), -LARGEST, LARGEST)
    return jnp.where(moments.number > 0, standard, values)


def scale_of(moments: Moments | None) -> Array:
    """1/√variance, what rewards are multiplied by; without moments, 1."""
    return jnp.ones(()) if moments is None else 1 / jnp.sqrt(moments.variance)


class Statistics(NamedTuple):
    """What a collector knows of everything it has seen; None: not kept, and nothing is changed by it."""

    observations: Moments | None
    """Of observations, as the environment gives them."""
    returns: Moments | None
    """Of Σ_k γ^k r_{t−k}, the discounted rewards of the episode so far."""

    def with_more(self, observation: Array, discounted: Array, mask: Array) -> "Statistics":
        """After these [time, env] too."""
        seen, earned = self
        return Statistics(
            None if seen is None else with_more(seen, observation, mask),
            None if earned is None else with_more(earned, discounted, mask),
        )


def no_statistics(shape: tuple[int, ...], *, observations: bool, rewards: bool) -> Statistics:
    """Nothing seen yet; `shape` is an observation's."""
    return Statistics(no_moments(shape) if observations else None, no_moments() if rewards else None)
