"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner, as an optax transform."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from pgsom.checks import check_count, check_number
from pgsom.linear_algebra import eigenvectors
from pgsom.updates.averages import average, corrected
from pgsom.updates.axes import Sides, identities, multiplied, no_moments, second_moments
from pgsom.updates.refresh import renewed
from pgsom.updates.shampoo import LONGEST, vectors

Tree = Any


class SoapState(NamedTuple):
    """Adam's two averages, and for an array with n entries along an axis n² numbers twice."""

    updates: Array
    momentum: Tree
    """Of gradients as they come."""
    squares: Tree
    """Of squared gradients in the eigenbasis."""
    moments: tuple[Sides, ...]
    bases: tuple[Sides, ...]
    """Eigenvectors of the moments, as of the latest renewal."""


def scale_by_soap(
    beta1: float | Array = 0.95, beta2: float | Array = 0.95, *, eps: float | Array = 1e-8, refresh: int = 10
) -> optax.GradientTransformation:
    """SOAP; for a matrix.

        L ← β₂ L + (1 − β₂) G Gᵀ,   R ← β₂ R + (1 − β₂) Gᵀ G
        Q_L, Q_R ← eigenvectors of L and R                        (every `refresh` updates, the first among them)
        M ← β₁ M + (1 − β₁) G,   V ← β₂ V + (1 − β₂) (Q_Lᵀ G Q_R)²
        d = Q_L [ (Q_Lᵀ M̄ Q_R) / (√V̄ + ε) ] Q_Rᵀ

    A vector is left to Adam. Axes of more than 512 entries keep their own basis. The eigenvectors are found by Jacobi's
    method from where they were before, so they turn and do not change places, and V stays with its directions.
    """
    check_number("beta1", beta1, at_least=0, below=1)
    check_number("beta2", beta2, at_least=0, below=1)
    check_number("eps", eps, above=0)
    check_count("refresh", refresh)

    def init(params: Tree) -> SoapState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        moments = tuple(no_moments(leaf, _longest(leaf)) for leaf in vectors(params))
        bases = tuple(identities(leaf, _longest(leaf)) for leaf in vectors(params))
        return SoapState(jnp.zeros((), jnp.int32), zeros, zeros, moments, bases)

    def update(gradients: Tree, state: SoapState, params: Tree = None) -> tuple[Tree, SoapState]:
        del params
        count = state.updates + 1
        fresh = tuple(second_moments(leaf, _longest(leaf)) for leaf in vectors(gradients))
        moments = average(beta2, state.moments, fresh)

        def turned() -> tuple[Sides, ...]:
            return jax.tree.map(lambda matrix, basis: eigenvectors(matrix, basis)[0], moments, state.bases)

        bases = renewed(state.updates, refresh, turned, state.bases)
        momentum = average(beta1, state.momentum, gradients)
        squares = average(beta2, state.squares, jax.tree.map(jnp.square, _rotated(gradients, bases, there=True)))
        rotated = _rotated(corrected(momentum, beta1, count), bases, there=True)
        adam = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), rotated, corrected(squares, beta2, count))
        return _rotated(adam, bases, there=False), SoapState(count, momentum, squares, moments, bases)

    return optax.GradientTransformation(init, update)


def descend_by_soap(**options: Any) -> optax.GradientTransformation:
    """`scale_by_soap` as an optimiser with learning rate 1."""
    return optax.chain(scale_by_soap(**options), optax.scale(-1.0))


def _longest(leaf: Array) -> int:
    """The longest axis that gets a basis: none does in a vector."""
    return LONGEST if leaf.ndim > 1 else 0


def _rotated(tree: Tree, bases: tuple[Sides, ...], *, there: bool) -> Tree:
    """Every leaf in its eigenbasis, or back from it."""
    leaves, structure = jax.tree.flatten(tree)
    turned = [
        multiplied(jnp.atleast_1d(leaf), sides, transposed=there).reshape(leaf.shape)
        for leaf, sides in zip(leaves, bases, strict=True)
    ]
    return jax.tree.unflatten(structure, turned)
