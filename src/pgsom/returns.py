"""From rewards to what multiplies the score.

Three named ways to discount, for rewards r_t and discount γ:

    lemma         w_t = Σ_{k≥t} γ^k r_k       = γ^t G_t    the exact gradient of the discounted return
    appendix      w_t = Σ_{k≥t} γ^{k−t} r_k   = G_t        customary, and biased: it forgets the γ^t in front
    undiscounted  w_t = Σ_{k≥t} r_k                        γ plays no part

A baseline b_t is subtracted from G_t, so that under the lemma's discounting w_t = γ^t (G_t − b_t).

Sums run within *pieces*: a column of whole episodes is one piece, a column of `Segments` holds several, one behind the
other, which `begins` [time, env] tells apart (None: one piece a column, zeros behind its end).
"""

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.collectors import Batch
from pgsom.folds import chunk_length
from pgsom.segments import Segments

Discounting = Literal["lemma", "appendix", "undiscounted"]
DISCOUNTINGS: dict[str, str] = {
    "lemma": "w_t = Σ_{k≥t} γ^k r_k, the exact gradient of the discounted return",
    "appendix": "w_t = Σ_{k≥t} γ^(k−t) r_k, customary and biased",
    "undiscounted": "w_t = Σ_{k≥t} r_k",
}


def pieces_of(batch: Batch) -> Array | None:
    """`begins` where a column holds several pieces."""
    return batch.begins if isinstance(batch, Segments) else None


def ends_of(begins: Array) -> Array:
    """The last row of every piece."""
    return jnp.concatenate([begins[1:], jnp.ones_like(begins[:1])])


def returns_to_go(reward: Array, discount: Array | float, begins: Array | None = None) -> Array:
    """G_t = r_t + γ G_{t+1} along the first axis, 0 behind a piece's end.

    Of one piece by chunks of time: inside a chunk one product with the triangle γ^{k−t}, from chunk to chunk a
    recursion, which is many times shorter than one over steps.
    """
    if begins is not None:
        rates = jnp.where(ends_of(begins), 0, jnp.asarray(discount, reward.dtype))
        return recur(reward, rates, reverse=True)
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


def sums_so_far(values: Array, begins: Array | None = None, decay: float = 1.0) -> Array:
    """Σ_{k≤t} λ^{t−k} x_k within the piece, λ being `decay`."""
    if begins is None:
        return jnp.flip(returns_to_go(jnp.flip(values, axis=0), decay), axis=0)
    return recur(values, jnp.where(begins, 0, jnp.asarray(decay, values.dtype)))


def piece_sums(values: Array, begins: Array | None = None) -> Array:
    """Σ_k x_k over the piece that a step is in: [env] if a column is one piece, else [time, env]."""
    if begins is None:
        return values.sum(axis=0)
    return sums_so_far(values, begins) + returns_to_go(values, 1.0, begins) - values


def recur(terms: Array, rates: Array, *, reverse: bool = False) -> Array:
    """X_t = x_t + ρ_t X_{t−1} along the first axis; in reverse X_t = x_t + ρ_t X_{t+1}."""

    def add(before: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        term, rate = now
        total = term + rate * before
        return total, total

    return jax.lax.scan(add, jnp.zeros_like(terms[0]), (terms, rates), reverse=reverse, unroll=8)[1]


def rate_of(discounting: Discounting, discount: Array | float) -> Array | float:
    """The γ by which returns-to-go are summed."""
    return 1.0 if discounting == "undiscounted" else discount


def step_factors(discounting: Discounting, discount: Array | float, time: Array) -> Array:
    """What stands in front of G_t: γ^t under the lemma's discounting, else 1; `time` is t."""
    if discounting != "lemma":
        return jnp.ones(time.shape)
    return jnp.asarray(discount) ** time
