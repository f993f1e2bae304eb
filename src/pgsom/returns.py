"""From rewards to what multiplies the score.

Three named ways to discount, for rewards r_t and discount γ:

    lemma         w_t = Σ_{k≥t} γ^k r_k       = γ^t G_t    the exact gradient of the discounted return
    appendix      w_t = Σ_{k≥t} γ^{k−t} r_k   = G_t        customary, and biased: it forgets the γ^t in front
    undiscounted  w_t = Σ_{k≥t} r_k                        γ plays no part

A baseline b_t is subtracted from G_t, so that under the lemma's discounting w_t = γ^t (G_t − b_t).
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.folds import chunk_length

Discounting = Literal["lemma", "appendix", "undiscounted"]
DISCOUNTINGS: dict[str, str] = {
    "lemma": "w_t = Σ_{k≥t} γ^k r_k, the exact gradient of the discounted return",
    "appendix": "w_t = Σ_{k≥t} γ^(k−t) r_k, customary and biased",
    "undiscounted": "w_t = Σ_{k≥t} r_k",
}


def returns_to_go(reward: Array, discount: Array | float) -> Array:
    """G_t = r_t + γ G_{t+1} along the first axis.

    By chunks of time: inside a chunk one product with the triangle γ^{k−t}, from chunk to chunk a recursion, which
    is many times shorter than one over steps.
    """
    steps = reward.shape[0]
    chunk = chunk_length(steps)
    padded = jnp.pad(reward, [(0, -steps % chunk)] + [(0, 0)] * (reward.ndim - 1))
    gamma = jnp.asarray(discount, reward.dtype)
    ahead = jnp.arange(chunk) - jnp.arange(chunk)[:, None]
    triangle = jnp.where(ahead >= 0, gamma ** jnp.maximum(ahead, 0), 0)
    to_end = gamma ** jnp.arange(chunk, 0, -1)

    def add(behind: Array, rewards: Array) -> tuple[Array, Array]:
        returns = jnp.tensordot(triangle, rewards, 1) + jnp.multiply.outer(to_end, behind)
        return returns[0], returns

    chunks = padded.reshape(-1, chunk, *reward.shape[1:])
    returns = jax.lax.scan(add, jnp.zeros_like(reward[0]), chunks, reverse=True)[1]
    return returns.reshape(padded.shape)[:steps]


def rate_of(discounting: Discounting, discount: Array | float) -> Array | float:
    """The γ by which returns-to-go are summed."""
    return 1.0 if discounting == "undiscounted" else discount


def step_factors(discounting: Discounting, discount: Array | float, steps: int) -> Array:
    """What stands in front of G_t [time]: γ^t under the lemma's discounting, else 1."""
    if discounting != "lemma":
        return jnp.ones(steps)
    return jnp.asarray(discount) ** jnp.arange(steps)
