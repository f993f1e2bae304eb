"""Small dense matrices without LAPACK: orthonormal bases and inverses.

Whatever is vmapped over seeds must not call batched LAPACK (Cholesky, QR, SVD, eigh): such calls wait for a thread of
the pool they occupy, for ever if there are too few of them. Everything here is made of matrix products in loops of
fixed structure, and so may be vmapped and differs between one matrix and a batch by rounding only.
"""

import jax
import jax.numpy as jnp
from jax import Array

SMALL = 16
"""Up to this size an inverse is found by elimination, above it from those of its quarters."""


def orthonormal(matrix: Array) -> Array:
    """Orthonormal columns (rows, if there are fewer) spanning what the matrix spans; uniform for normal entries.

    Gram and Schmidt, each column projected twice. A column that the earlier ones span becomes zero.
    """
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T

    def add_column(index: Array, basis: Array) -> Array:
        column = tall[:, index]
        for _ in range(2):
            column = column - basis @ (basis.T @ column)
        length = jnp.linalg.norm(column)
        return basis.at[:, index].set(column / jnp.where(length > 0, length, 1))

    basis = jax.lax.fori_loop(0, tall.shape[1], add_column, jnp.zeros_like(tall))
    return basis if tall is matrix else basis.T


def inverse(matrix: Array) -> Array:
    """M⁻¹ of a symmetric positive definite matrix, from its quarters P, Q, S and the Schur complement of P.

    M = [[P, Q], [Qᵀ, S]],  C = S − QᵀP⁻¹Q,  M⁻¹ = [[P⁻¹ + P⁻¹Q C⁻¹ QᵀP⁻¹, −P⁻¹Q C⁻¹], [·, C⁻¹]].
    """
    size = matrix.shape[0]
    if size <= SMALL:
        return _inverse_by_elimination(matrix)
    half = size // 2
    first = inverse(matrix[:half, :half])
    image = first @ matrix[:half, half:]
    last = inverse(matrix[half:, half:] - matrix[half:, :half] @ image)
    beside = -image @ last
    return jnp.block([[first - beside @ image.T, beside], [beside.T, last]])


def _inverse_by_elimination(matrix: Array) -> Array:
    """Gauss and Jordan in place, without a search for pivots: those of a positive definite matrix are positive."""

    def eliminate(index: Array, m: Array) -> Array:
        row = m[index].at[index].set(1) / m[index, index]
        column = m[:, index].at[index].set(0)
        return (m.at[:, index].set(0) - jnp.outer(column, row)).at[index].set(row)

    return jax.lax.fori_loop(0, matrix.shape[0], eliminate, matrix)
