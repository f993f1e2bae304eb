"""Random probes of the causal Hessian of an MLP, in the same pass as the gradient."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.folds import Fold
from pgsom.objective import LocalObjective
from pgsom.policies import Layer, derivatives
from pgsom.policies.derivatives import Chunk
from pgsom.policies.layers import outer_sum, outer_sums_by_episode
from pgsom.policies.tangents import Moved, SignPair, moved, sign_pairs, times_signs

Tree = Any


def probed_diagonal(objective: LocalObjective, key: Array, probes: int) -> Fold:
    """The mean over probes of v ⊙ (H v), v of signs.

    With s_t = z_t·v the score terms of H v are Σ_t (w_t Σ_{k≤t} s_k + Σ_{k>t} w_k s_k) z_t. What is still to come is
    all that there will be less what has been, so one pass does. With S the sum of w s over the whole episode:

        Σ_t (w_t Σ_{k≤t} s_k − Σ_{k≤t} w_k s_k) z_t + S Σ_t z_t.
    """
    params, e_w = objective.params, objective.score_weight
    pairs: Tree = sign_pairs(key, params, probes)
    zeros = jax.tree.map(lambda leaf: jnp.zeros((probes, *leaf.shape), leaf.dtype), params)
    nothing = jnp.zeros((probes, 2, e_w.shape[1]), e_w.dtype)

    def step(carry: Tree, arrays: tuple[Chunk, Array, Array], start: Array) -> Tree:
        del start
        scores, so_far, total = carry
        added, so_far, product = _over_probes(lambda v, s: _of_chunk(objective, v, *arrays, s), pairs, so_far)
        return jax.tree.map(jnp.add, scores, added), so_far, jax.tree.map(jnp.add, total, product)

    def finish(carry: Tree) -> Tree:
        scores, so_far, total = carry
        # [probe, env] times [env, …]
        whole = jax.tree.map(lambda t, c: t + jnp.tensordot(so_far[:, 1], c, 1), total, scores)
        return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.vmap(times_signs)(pairs, whole))

    initial = (derivatives.zero_scores(params, e_w.shape[1]), nothing, zeros)
    return Fold(initial, step, (objective.chunk, e_w, objective.rollout.mask), finish)


def _over_probes(function: Callable[..., Any], probes: Tree, so_far: Array) -> Any:
    """`function` for each probe, its first result being the same for all; a single one without a batch axis, faster."""
    if so_far.shape[0] > 1:
        return jax.vmap(function, out_axes=(None, 0, 0))(probes, so_far)
    same, *own = function(*jax.tree.map(lambda leaf: leaf[0], (probes, so_far)))
    return same, *jax.tree.map(lambda leaf: leaf[None], own)


def _of_chunk(
    objective: LocalObjective, v: tuple[SignPair, ...], chunk: Chunk, w: Array, taken: Array, so_far: Array
) -> tuple[Tree, Array, Tree]:
    """This chunk's Σ z by episode, the next Σ s and Σ w s, and what is added to H v but for S Σ z."""
    flat = derivatives.flatten(chunk)
    passed = derivatives.traced(objective.policy, objective.params, flat)
    there = moved(passed, objective.policy.distribution, v, flat.action)
    s = there.log_prob_dot.reshape(w.shape) * taken
    sums = so_far[:, None] + running_sums(jnp.stack([s, w * s]))
    q = w * sums[0] - taken * sums[1]
    product = _products(objective.params, there, w.reshape(-1), q.reshape(-1))
    return _score_sums(objective.params, there, taken), sums[:, -1], product


def running_sums(x: Array) -> Array:
    """Σ_{k≤t} over the time axis of [2, time, env], by a matrix product: a chunk is short."""
    upto = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), x.dtype))
    return jnp.einsum("tk,ake->ate", upto, x)


def _products(params: tuple[Layer, ...], there: Moved, w: Array, q: Array) -> tuple[Layer, ...]:
    """Σ w ∇²ℓ v + q z: a ⊗ (w δ̇ + q δ) + w ȧ ⊗ δ."""
    made = []
    for index, layer in enumerate(params):
        delta, a_dot = there.signals[index], there.inputs_dot[index]
        straight = w[:, None] * there.signals_dot[index] + q[:, None] * delta
        weight = there.inputs[index].T @ straight
        weight = weight if a_dot is None else weight + (w[:, None] * a_dot).T @ delta
        made.append(Layer(weight, None if layer.bias is None else straight.sum(axis=0)))
    return tuple(made)


def _score_sums(params: tuple[Layer, ...], there: Moved, taken: Array) -> tuple[Layer, ...]:
    """Σ z for each episode; of a single one without a batch axis, faster."""
    deltas = tuple(taken.reshape(-1)[:, None] * delta for delta in there.signals)
    if taken.shape[1] == 1:
        return jax.tree.map(lambda leaf: leaf[None], outer_sum(params, there.inputs, deltas))
    by_episode = ([x.reshape(*taken.shape, -1) for x in parts] for parts in (there.inputs, deltas))
    return outer_sums_by_episode(params, *map(tuple, by_episode))
