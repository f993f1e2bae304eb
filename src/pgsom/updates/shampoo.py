"""Shampoo: a preconditioner for every axis of every array, as an optax transform."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from pgsom.checks import check_count, check_number, wrong
from pgsom.linear_algebra import inverse_root
from pgsom.updates.averages import average, corrected
from pgsom.updates.axes import Sides, multiplied, no_moments, second_moments
from pgsom.updates.refresh import renewed

Tree = Any
LONGEST = 512
"""Axes with more entries than this are left alone."""


class ShampooState(NamedTuple):
    """For an array with n entries along an axis n² numbers twice, and the average gradient."""

    updates: Array
    momentum: Tree
    moments: tuple[Sides, ...]
    """Second moments along every axis of every leaf."""
    roots: tuple[Sides, ...]
    """Their inverse roots, as of the latest renewal."""


def scale_by_shampoo(
    beta1: float | Array = 0.9,
    beta2: float | Array = 0.99,
    *,
    damping: float | Array = 1e-4,
    sums: bool = False,
    refresh: int = 1,
) -> optax.GradientTransformation:
    """Shampoo for arrays of any order k; for a matrix, k = 2.

        L ← β₂ L + (1 − β₂) G Gᵀ,   R ← β₂ R + (1 − β₂) Gᵀ G       (sums: L ← L + G Gᵀ, R likewise)
        m ← β₁ m + (1 − β₁) G
        d = (L̄ + ε λ_L I)^(−1/4) m̄ (R̄ + ε λ_R I)^(−1/4)            (in general the power −1/2k for each axis)

    Bars are averages corrected for their start at zero, λ_L and λ_R the largest eigenvalues. The powers are renewed
    every `refresh` updates. An axis of more than 512 entries is left alone, and is counted in k none the less; a
    number is a vector with one entry. Eigenvectors are found by Jacobi's method, without LAPACK: seeds may be vmapped.
    """
    check_shampoo(beta1, beta2, damping, sums, refresh)

    def init(params: Tree) -> ShampooState:
        zeros = tuple(no_moments(leaf, LONGEST) for leaf in vectors(params))
        return ShampooState(jnp.zeros((), jnp.int32), jax.tree.map(jnp.zeros_like, params), zeros, zeros)

    def update(gradients: Tree, state: ShampooState, params: Tree = None) -> tuple[Tree, ShampooState]:
        del params
        count = state.updates + 1
        fresh = tuple(second_moments(leaf, LONGEST) for leaf in vectors(gradients))
        momentum = average(beta1, state.momentum, gradients)
        if sums:
            moments = ready = jax.tree.map(jnp.add, state.moments, fresh)
        else:
            moments = average(beta2, state.moments, fresh)
            ready = corrected(moments, beta2, count)
        roots = renewed(state.updates, refresh, lambda: tuple(_roots(sides, damping) for sides in ready), state.roots)
        leaves, structure = jax.tree.flatten(corrected(momentum, beta1, count))
        directions = [
            multiplied(jnp.atleast_1d(m), sides).reshape(m.shape) for m, sides in zip(leaves, roots, strict=True)
        ]
        return jax.tree.unflatten(structure, directions), ShampooState(count, momentum, moments, roots)

    return optax.GradientTransformation(init, update)


def descend_by_shampoo(**options: Any) -> optax.GradientTransformation:
    """`scale_by_shampoo` as an optimiser with learning rate 1."""
    return optax.chain(scale_by_shampoo(**options), optax.scale(-1.0))


def check_shampoo(beta1: float | Array, beta2: float | Array, damping: float | Array, sums: bool, refresh: int) -> None:
    """Numbers in range, structure of its type."""
    check_number("beta1", beta1, at_least=0, below=1)
    check_number("beta2", beta2, at_least=0, below=1)
    check_number("damping", damping, above=0)
    check_count("refresh", refresh)
    if not isinstance(sums, bool):
        raise wrong("sums", sums, "accepted are True and False")


def vectors(tree: Tree) -> list[Array]:
    """The leaves, numbers as vectors with one entry."""
    return [jnp.atleast_1d(leaf) for leaf in jax.tree.leaves(tree)]


def _roots(sides: Sides, damping: Any) -> Sides:
    return tuple(None if matrix is None else inverse_root(matrix, 2 * len(sides), damping) for matrix in sides)
