"""GGT: full-matrix AdaGrad over the latest gradients, as an optax transform."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from pgsom.checks import check_count, check_number
from pgsom.linear_algebra import eigenvectors

Tree = Any


class GGTState(NamedTuple):
    """The window: `window` gradients, so r D numbers."""

    window: Tree
    """Leaves [r, …], the latest first, older ones fading."""


def scale_by_ggt(
    decay: float | Array = 0.9, *, damping: float | Array = 1e-4, window: int = 10
) -> optax.GradientTransformation:
    """GGT, with a window of r gradients.

        𝐆 = (g_t, β g_{t−1}, β² g_{t−2}, …)   [D, r]
        d = [ (𝐆 𝐆ᵀ)^½ + ε I ]⁻¹ g_t  =  𝐆 [ (𝐆ᵀ 𝐆)^½ + ε I ]⁻¹ e₁

    The second form is the first, since g_t is a column of 𝐆, and takes a root of an r × r matrix and no division by a
    small singular value. It is an AdaGrad with the full matrix, of low rank; no Gauss-Newton matrix is involved.
    """
    check_number("decay", decay, at_least=0, at_most=1)
    check_number("damping", damping, above=0)
    check_count("window", window)

    def init(params: Tree) -> GGTState:
        return GGTState(jax.tree.map(lambda leaf: jnp.zeros((window, *leaf.shape), leaf.dtype), params))

    def update(gradients: Tree, state: GGTState, params: Tree = None) -> tuple[Tree, GGTState]:
        del params
        kept = jax.tree.map(partial(_shifted, decay), state.window, gradients)
        V, values = eigenvectors(_gram(kept))
        share = V @ (V[0] / (jnp.sqrt(jnp.maximum(values, 0)) + damping))
        return jax.tree.map(lambda leaf: jnp.tensordot(share, leaf, 1), kept), GGTState(kept)

    return optax.GradientTransformation(init, update)


def _shifted(decay: Any, window: Array, gradient: Array) -> Array:
    """The gradient in front, the others one place further back, the last forgotten."""
    return jnp.concatenate([gradient[None], jnp.asarray(decay, window.dtype) * window[:-1]])


def _gram(window: Tree) -> Array:
    """𝐆ᵀ 𝐆 [r, r]."""
    flat = [leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(window)]
    return sum((leaf @ leaf.T for leaf in flat), jnp.zeros((flat[0].shape[0],) * 2, flat[0].dtype))


def descend_by_ggt(**options: Any) -> optax.GradientTransformation:
    """`scale_by_ggt` as an optimiser with learning rate 1."""
    return optax.chain(scale_by_ggt(**options), optax.scale(-1.0))
