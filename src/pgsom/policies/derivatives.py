"""Weighted sums, over one chunk of steps, of derivatives of ln π_θ(a_t|s_t).

With ℓ_t = ln π_θ(a_t|s_t), score z_t = ∇ℓ_t, network outputs u_t, their Jacobian K_t = ∂u_t/∂θ and Fisher
F_t = F(u_t), the functions here return, for a chunk of [time, env] observations and actions:

    score_sum                 Σ w z
    surrogate_gradient        Σ w z + v ∇H(π(·|s))
    directional_scores        z·v, one number a step
    hessian_product           Σ w ∇²ℓ v
    hessian_diagonal          Σ w diag ∇²ℓ
    fisher_product            Σ w Kᵀ F K v
    fisher_diagonal           Σ w diag(Kᵀ F K)
    squared_score_sum         Σ w z ⊙ z
    kronecker_factors         Σ w ā āᵀ and Σ w δ δᵀ of every layer
    causal_square_sum         Σ w (z_t ⊙ z_t + 2 λ z_t ⊙ c_{t−1}),  c_t = z_t + λ c_{t−1}, carried from chunk to chunk
    propagated_diagonal       Σ w diag ∇²ℓ as diagonals alone propagate it (HesScale); of an MLP only
    piece_product_sum         Σ e (Σ z) ⊙ (Σ w z) over pieces of episodes that lie one behind the other

An `MLP` goes the layer way (`pgsom.policies.layers`); any other network is differentiated sample by sample, which
gives the same numbers more slowly.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from pgsom.checks import wrong
from pgsom.folds import largest_of_batch
from pgsom.policies import layers
from pgsom.policies.distributions import Categorical
from pgsom.policies.layers import KroneckerFactors
from pgsom.policies.networks import MLP, Layer
from pgsom.policies.policy import Policy

Tree = Any


class Chunk(NamedTuple):
    """Some consecutive steps of some episodes, [time, env]."""

    observation: Array
    action: Array


def outputs(policy: Policy, params: Tree, observation: Array) -> Array:
    """u [time, env, output]."""
    return jax.vmap(jax.vmap(policy.outputs, in_axes=(None, 0)), in_axes=(None, 0))(params, observation)


def log_probs(policy: Policy, params: Tree, chunk: Chunk) -> Array:
    """ℓ [time, env]."""
    return over_steps(policy.distribution.log_prob)(outputs(policy, params, chunk.observation), chunk.action)


def over_steps(function: Any) -> Any:
    """Map a function of one step over [time, env]."""
    return jax.vmap(jax.vmap(function))


def score_sum(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Tree:
    """Σ w z."""
    return jax.grad(lambda p: jnp.sum(weights * log_probs(policy, p, chunk)))(params)


def surrogate_gradient(policy: Policy, params: Tree, chunk: Chunk, weights: Array, entropy_weights: Array) -> Tree:
    """Σ w z + v ∇H, H the entropy of π(·|s_t) and v its weights."""
    head = policy.distribution

    def of_outputs(u: Array, action: Array, w: Array, v: Array) -> Array:
        return w * head.log_prob(u, action) + v * head.entropy(u)

    if isinstance(policy.network, MLP):
        # The score's signals are written as the curvatures write them: in the same pass they share one way back.
        passed, flat, w = _backward(policy, params, chunk, weights)
        if passed.along is not None:  # both sent back at the price of one
            by_outputs = jax.vmap(jax.grad(of_outputs))(passed.outputs, flat.action, w, entropy_weights.reshape(-1))
            return layers.outer_sum(params, passed.inputs, passed.signals(by_outputs))
        v = entropy_weights.reshape(-1, 1)

        def with_entropy(deltas: tuple[Array, ...]) -> tuple[Array, ...]:
            return jax.tree.map(jnp.add, deltas, passed.signals(v * jax.vmap(jax.grad(head.entropy))(passed.outputs)))

        some = largest_of_batch(jnp.max(jnp.abs(jax.lax.stop_gradient(v)))) > 0
        deltas = jax.lax.cond(some, with_entropy, lambda deltas: deltas, _score_signals(policy, passed, flat, w))
        return layers.outer_sum(params, passed.inputs, deltas)

    def surrogate(p: Tree) -> Array:
        return jnp.sum(
            over_steps(of_outputs)(outputs(policy, p, chunk.observation), chunk.action, weights, entropy_weights)
        )

    return jax.grad(surrogate)(params)


def score_sums_by_episode(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Tree:
    """Σ_t w z for each episode; leaves have a leading env axis."""
    if isinstance(policy.network, MLP):
        passed, flat, w = _backward(policy, params, chunk, weights)
        deltas = _score_signals(policy, passed, flat, w)
        by_episode = ([x.reshape(*weights.shape, -1) for x in parts] for parts in (passed.inputs, deltas))
        return layers.outer_sums_by_episode(params, *map(tuple, by_episode))

    def of_one(observation: Array, action: Array, w: Array) -> Tree:
        one = Chunk(observation[:, None], action[:, None])
        return score_sum(policy, params, one, w[:, None])

    return jax.vmap(of_one, in_axes=1)(chunk.observation, chunk.action, weights)


def directional_scores(policy: Policy, params: Tree, chunk: Chunk, vector: Tree) -> Array:
    """z·v [time, env]."""
    return jax.jvp(lambda p: log_probs(policy, p, chunk), (params,), (vector,))[1]


def hessian_product(policy: Policy, params: Tree, chunk: Chunk, weights: Array, vector: Tree) -> Tree:
    """Σ w ∇²ℓ v, by differentiating the gradient forwards."""
    return jax.jvp(lambda p: score_sum(policy, p, chunk, weights), (params,), (vector,))[1]


def fisher_product(policy: Policy, params: Tree, chunk: Chunk, weights: Array, vector: Tree) -> Tree:
    """Σ w Kᵀ F K v."""
    u, moved = jax.jvp(lambda p: outputs(policy, p, chunk.observation), (params,), (vector,))
    factor = over_steps(policy.distribution.fisher_factor)(u)
    pulled = jnp.einsum("...oc,...pc,...p->...o", factor, factor, moved) * weights[..., None]
    return jax.vjp(lambda p: outputs(policy, p, chunk.observation), params)[1](pulled)[0]


def hessian_diagonal(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Tree:
    """Σ w diag ∇²ℓ: propagated through an MLP; by D Hessian-vector products for any other network."""
    if not isinstance(policy.network, MLP):
        return _diagonal_by_products(lambda v: hessian_product(policy, params, chunk, weights, v), params)
    passed, flat, w = _backward(policy, params, chunk, weights)
    columns, signs = jax.vmap(policy.distribution.log_prob_curvature)(passed.outputs, flat.action)
    hessians = layers.pre_activation_hessian_diagonals(
        policy.network, params, passed, _score_signals(policy, passed, flat, w), columns, signs * w[:, None]
    )
    return layers.squared_outer_sum(params, passed.inputs, tuple(hessians))


def propagated_diagonal(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Tree:
    """Σ w diag ∇²ℓ by HesScale's recursion, which carries diagonals and nothing else; of an MLP only."""
    if not isinstance(policy.network, MLP):
        raise wrong("policy", "a network of one's own", "HesScale needs the layers; accepted are mlp, linear, tabular")
    passed, flat, w = _backward(policy, params, chunk, weights)
    columns, signs = jax.vmap(policy.distribution.log_prob_curvature)(passed.outputs, flat.action)
    hessians = layers.propagated_diagonals(
        policy.network, params, passed, _score_signals(policy, passed, flat, w), columns, signs * w[:, None]
    )
    return layers.squared_outer_sum(params, passed.inputs, tuple(hessians))


def fisher_diagonal(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Tree:
    """Σ w diag(Kᵀ F K)."""
    if not isinstance(policy.network, MLP):
        return _fisher_diagonal_by_sample(policy, params, chunk, weights)
    passed, _, w = _backward(policy, params, chunk, weights)
    columns = jax.vmap(policy.distribution.fisher_factor)(passed.outputs)
    squared = (jnp.einsum("n,ncu->nu", w, jnp.square(delta)) for delta in layers.column_signals(passed, columns))
    return layers.squared_outer_sum(params, passed.inputs, tuple(squared))


def squared_score_sum(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Tree:
    """Σ w z ⊙ z."""
    if not isinstance(policy.network, MLP):
        flat, w = flatten(chunk), weights.reshape(-1)
        scores = _scores_by_sample(policy, params, flat)
        return jax.tree.map(lambda z: jnp.tensordot(w, jnp.square(z), 1), scores)
    passed, flat, w = _backward(policy, params, chunk, weights)
    deltas = _score_signals(policy, passed, flat, jnp.ones_like(w))
    return layers.squared_outer_sum(params, passed.inputs, tuple(w[:, None] * jnp.square(d) for d in deltas))


def kronecker_factors(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> tuple[KroneckerFactors, ...]:
    """Σ w ā āᵀ and Σ w δ δᵀ of every layer, δ the signals of the Fisher factor's columns; of an MLP only."""
    passed, _, w = _backward(policy, params, chunk, weights)
    return layers.kronecker_sums(params, passed, jax.vmap(policy.distribution.fisher_factor)(passed.outputs), w)


def causal_square_sum(
    policy: Policy,
    params: Tree,
    chunk: Chunk,
    weights: Array,
    carried: Tree,
    decay: float = 1.0,
    begins: Array | None = None,
) -> tuple[Tree, Tree]:
    """Σ_t w_t (c_t ⊙ c_t − λ² c_{t−1} ⊙ c_{t−1}) summed over episodes, and the last c [env, …]; c₋₁ is `carried`.

    With c_t = z_t + λ c_{t−1} the bracket equals z_t ⊙ z_t + 2 λ z_t ⊙ c_{t−1}. Where a piece `begins`, c starts at 0.
    """

    def advance(state: tuple[Tree, Tree], step: tuple[Tree, Array, Any]) -> tuple[tuple[Tree, Tree], None]:
        scores_at, w, begin = step
        c, total = _afresh(state[0], begin), state[1]
        z = _scores_from(scores_at)
        c = c if decay == 1 else jax.tree.map(lambda ci: decay * ci, c)
        total = jax.tree.map(lambda acc, zi, ci: acc + jnp.tensordot(w, zi * (zi + 2 * ci), 1), total, z, c)
        return (jax.tree.map(jnp.add, c, z), total), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    (c, total), _ = jax.lax.scan(advance, (carried, zeros), (_score_parts(policy, params, chunk), weights, begins))
    return total, c


def piece_product_sum(
    policy: Policy, params: Tree, chunk: Chunk, weights: tuple[Array, ...], begins: Array, carried: tuple[Tree, Tree]
) -> tuple[Tree, tuple[Tree, Tree]]:
    """Σ e (Σ z) ⊙ (Σ w z) over pieces, and the last (c, s) [env, …]; `weights` are e, w and 1 where a step was taken.

    Step by step, with c_t = Σ_{k≤t} z_k and s_t = Σ_{k≤t} w_k z_k of the piece: c_t ⊙ s_t − c_{t−1} ⊙ s_{t−1}.
    """

    def advance(state: tuple[Tree, Tree, Tree], step: tuple[Tree, Any, Array]) -> tuple[tuple[Tree, Tree, Tree], None]:
        scores_at, (e, w, taken), begin = step
        c, s = _afresh(state[0], begin), _afresh(state[1], begin)
        z = _scores_from(scores_at)
        c_next = jax.tree.map(lambda ci, zi: ci + jnp.einsum("n,n...->n...", taken, zi), c, z)
        s_next = jax.tree.map(lambda si, zi: si + jnp.einsum("n,n...->n...", w, zi), s, z)
        grown = jax.tree.map(lambda a, b, a0, b0: jnp.tensordot(e, a * b - a0 * b0, 1), c_next, s_next, c, s)
        return (c_next, s_next, jax.tree.map(jnp.add, state[2], grown)), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    steps = (_score_parts(policy, params, chunk), weights, begins)
    (c, s, total), _ = jax.lax.scan(advance, (*carried, zeros), steps)
    return total, (c, s)


def _afresh(sums: Tree, begin: Array | None) -> Tree:
    """0 for environments whose piece begins."""
    if begin is None:
        return sums
    return jax.tree.map(lambda x: jnp.where(begin.reshape(-1, *[1] * (x.ndim - 1)), 0, x), sums)


def zero_scores(params: Tree, episodes: int) -> Tree:
    """c₋₁ = 0 for every episode."""
    return jax.tree.map(lambda leaf: jnp.zeros((episodes, *leaf.shape), leaf.dtype), params)


class _LayerParts(NamedTuple):
    """The scores of an MLP, layer by layer and not yet multiplied out."""

    inputs: Array
    delta: Array
    bias: Array | None


def _score_parts(policy: Policy, params: Tree, chunk: Chunk) -> Tree:
    """What `_scores_from` needs to make the scores of one time step, with leading axes [time, env]."""
    shape = chunk.action.shape[:2]
    if not isinstance(policy.network, MLP):
        scores = _scores_by_sample(policy, params, flatten(chunk))
        return jax.tree.map(lambda z: z.reshape(*shape, *z.shape[1:]), scores)
    passed, flat, w = _backward(policy, params, chunk, jnp.ones(shape))
    deltas = _score_signals(policy, passed, flat, w)
    return tuple(
        _LayerParts(a.reshape(*shape, -1), d.reshape(*shape, -1), None if layer.bias is None else d.reshape(*shape, -1))
        for layer, a, d in zip(params, passed.inputs, deltas, strict=True)
    )


def _scores_from(parts: Tree) -> Tree:
    """z [env, …] in the structure of the parameters."""
    if isinstance(parts, tuple) and parts and isinstance(parts[0], _LayerParts):
        return tuple(Layer(p.inputs[:, :, None] * p.delta[:, None, :], p.bias) for p in parts)
    return parts


def flatten(chunk: Chunk) -> Chunk:
    """All steps of all episodes as one list of samples."""
    return Chunk(*(x.reshape(-1, *x.shape[2:]) for x in chunk))


def _backward(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> tuple[layers.Backward, Chunk, Array]:
    """Trace an MLP over all steps of a chunk as one list of samples."""
    flat = flatten(chunk)
    return traced(policy, params, flat), flat, weights.reshape(-1)


def traced(policy: Policy, params: Tree, flat: Chunk) -> layers.Backward:
    """The pass of an MLP over a list of samples, from which derivatives of ln π are sent back."""
    assert isinstance(policy.network, MLP)
    passed = layers.backward(policy.network, params, flat.observation)
    if isinstance(policy.distribution, Categorical) and passed.outputs.shape[-1] == 2:
        # A shift of both logits changes nothing, so every derivative by them is a multiple of (1, −1).
        passed = layers.along(jnp.array([1.0, -1.0], passed.outputs.dtype), passed)
    return passed


def _score_signals(policy: Policy, passed: layers.Backward, flat: Chunk, weights: Array) -> tuple[Array, ...]:
    """δ of w ℓ at every layer: w times those of ℓ, so that several weights share one way back."""
    by_outputs = jax.vmap(jax.grad(policy.distribution.log_prob))(passed.outputs, flat.action)
    return tuple(weights[:, None] * delta for delta in passed.signals(by_outputs))


def _scores_by_sample(policy: Policy, params: Tree, flat: Chunk) -> Tree:
    return jax.vmap(jax.grad(policy.log_prob), in_axes=(None, 0, 0))(params, flat.observation, flat.action)


def _fisher_diagonal_by_sample(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Tree:
    """Σ_n w Σ_c (Kᵀ S_c)²: one backward pass for each sample and column."""
    flat, w = flatten(chunk), weights.reshape(-1)

    def of_one(observation: Array) -> Tree:
        u, pull = jax.vjp(lambda p: policy.outputs(p, observation), params)
        columns = jax.vmap(pull, in_axes=1)(policy.distribution.fisher_factor(u))[0]
        return jax.tree.map(lambda column: jnp.sum(jnp.square(column), axis=0), columns)

    return jax.tree.map(lambda squares: jnp.tensordot(w, squares, 1), jax.vmap(of_one)(flat.observation))


def _diagonal_by_products(product: Any, params: Tree) -> Tree:
    """diag M from D products M e_i, a loop rather than a batch so that memory stays O(D)."""
    flat, unravel = ravel_pytree(params)

    def entry(index: Array) -> Array:
        basis = jnp.zeros_like(flat).at[index].set(1)
        return ravel_pytree(product(unravel(basis)))[0][index]

    return unravel(jax.lax.map(entry, jnp.arange(flat.size)))
