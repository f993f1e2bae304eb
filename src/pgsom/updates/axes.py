"""A matrix for every axis of an array: what Shampoo and SOAP divide by, for arrays of any order."""

from typing import Any

import jax.numpy as jnp
from jax import Array

Tree = Any
Sides = tuple[Array | None, ...]
"""One matrix an axis; none for an axis that is left alone."""


def no_moments(leaf: Array, longest: int) -> Sides:
    """Zeros in the shape of `second_moments`."""
    return tuple(jnp.zeros((n, n), leaf.dtype) if n <= longest else None for n in leaf.shape)


def identities(leaf: Array, longest: int) -> Sides:
    """Unit matrices in the shape of `second_moments`."""
    return tuple(jnp.eye(n, dtype=leaf.dtype) if n <= longest else None for n in leaf.shape)


def second_moments(leaf: Array, longest: int) -> Sides:
    """For each axis M_ij = Σ of x_i x_j over all other axes: X Xᵀ and Xᵀ X for a matrix."""
    axes = range(leaf.ndim)
    return tuple(
        jnp.tensordot(leaf, leaf, (others, others)) if leaf.shape[axis] <= longest else None
        for axis in axes
        for others in [tuple(other for other in axes if other != axis)]
    )


def multiplied(leaf: Array, sides: Sides, *, transposed: bool = False) -> Array:
    """Every axis multiplied by its matrix, or by its transpose: L X Rᵀ (Lᵀ X R) for a matrix."""
    for axis, matrix in enumerate(sides):
        if matrix is not None:
            leaf = jnp.moveaxis(jnp.tensordot(matrix.T if transposed else matrix, leaf, (1, axis)), 0, axis)
    return leaf
