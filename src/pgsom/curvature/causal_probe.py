"""Random probes of the causal Hessian of an MLP, in the same pass as the gradient."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.folds import Fold
from pgsom.objective import LocalObjective
from pgsom.policies import MLP, Layer, derivatives
from pgsom.policies.derivatives import Chunk
from pgsom.policies.layers import outer_sums_by_episode
from pgsom.policies.tangents import Moved, SignPair, moved, sign_pairs, times_signs

Tree = Any


def probed_diagonal(objective: LocalObjective, keys: Array) -> Fold:
    """The mean over probes of v ⊙ (H v), v of signs, one probe for each key.

    With s_t = z_t·v the score terms of H v are Σ_t q_t z_t with q_t = w_t Σ_{k≤t} s_k + Σ_{k>t} w_k s_k. What lies in
    later chunks is not known yet, so it is added when it is met: a chunk carries c, the sum of earlier scores, and adds
    (Σ w s) c.
    """
    params, e_w = objective.params, objective.score_weight
    episodes = e_w.shape[1]
    probes: Tree = jax.vmap(partial(sign_pairs, params=params))(keys)
    zeros = jax.tree.map(lambda leaf: jnp.zeros((keys.shape[0], *leaf.shape), leaf.dtype), params)
    nothing = jnp.zeros((keys.shape[0], episodes), e_w.dtype)

    def step(carry: Tree, arrays: tuple[Chunk, Array, Array], start: Array) -> Tree:
        del start
        c, so_far, total = carry
        c, so_far, added = _over_probes(lambda v, s: _of_chunk(objective, v, *arrays, c, s), probes, so_far)
        return c, so_far, jax.tree.map(jnp.add, total, added)

    def finish(carry: Tree) -> Tree:
        diagonals = jax.vmap(times_signs)(probes, carry[2])
        return jax.tree.map(lambda leaf: leaf.mean(axis=0), diagonals)

    initial = (derivatives.zero_scores(params, episodes), nothing, zeros)
    return Fold(initial, step, (objective.chunk, e_w, objective.rollout.mask), finish)


def _over_probes(function: Callable[..., Any], probes: Tree, so_far: Array) -> Any:
    """`function` for each probe, its first result being the same for all; a single one without a batch axis, faster."""
    if so_far.shape[0] > 1:
        return jax.vmap(function, out_axes=(None, 0, 0))(probes, so_far)
    same, *own = function(*jax.tree.map(lambda leaf: leaf[0], (probes, so_far)))
    return same, *jax.tree.map(lambda leaf: leaf[None], own)


def _of_chunk(
    objective: LocalObjective, v: tuple[SignPair, ...], chunk: Chunk, w: Array, taken: Array, c: Tree, so_far: Array
) -> tuple[Tree, Array, Tree]:
    """The next c and Σ s, and this chunk's share of H v."""
    network, head = objective.policy.network, objective.policy.distribution
    assert isinstance(network, MLP)
    flat = derivatives.flatten(chunk)
    there = moved(network, head, objective.params, v, flat.observation, flat.action)
    s = there.log_prob_dot.reshape(w.shape) * taken
    w_s = w * s
    later = jnp.sum(w_s, axis=0) - jnp.cumsum(w_s, axis=0)
    q = w * (so_far + jnp.cumsum(s, axis=0)) + later * taken
    product = _products(objective.params, there, w.reshape(-1), q.reshape(-1))
    across = jax.tree.map(lambda leaf: jnp.tensordot(w_s.sum(axis=0), leaf, 1), c)
    by_episode = ([x.reshape(*w.shape, -1) for x in parts] for parts in (there.inputs, _masked(there, taken)))
    c = jax.tree.map(jnp.add, c, outer_sums_by_episode(objective.params, *map(tuple, by_episode)))
    return c, so_far + s.sum(axis=0), jax.tree.map(jnp.add, product, across)


def _products(params: tuple[Layer, ...], there: Moved, w: Array, q: Array) -> tuple[Layer, ...]:
    """Σ w ∇²ℓ v + q z: a ⊗ (w δ̇ + q δ) + ȧ ⊗ w δ, both in one matrix product."""
    made = []
    for index, layer in enumerate(params):
        delta = there.signals[index]
        straight, moving = w[:, None] * there.signals_dot[index] + q[:, None] * delta, w[:, None] * delta
        left = jnp.concatenate([there.inputs[index], there.inputs_dot[index]])
        weight = left.T @ jnp.concatenate([straight, moving])
        made.append(Layer(weight, None if layer.bias is None else straight.sum(axis=0)))
    return tuple(made)


def _masked(there: Moved, taken: Array) -> tuple[Array, ...]:
    return tuple(taken.reshape(-1)[:, None] * delta for delta in there.signals)
