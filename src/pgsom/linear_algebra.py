"""Small dense matrices without LAPACK: orthonormal bases, inverses, eigenvectors.

Whatever is vmapped over seeds must not call batched LAPACK (Cholesky, QR, SVD, eigh): such calls wait for a thread of
the pool they occupy, for ever if there are too few of them. Everything here is made of matrix products and rotations
in loops, and so may be vmapped and differs between one matrix and a batch by rounding only.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

SMALL = 16
"""Up to this size an inverse is found by elimination, above it from those of its quarters."""
MOST_SWEEPS = 15
"""Jacobi's method needs about 6 to 10 from nowhere, 1 or 2 from the eigenvectors of a matrix much alike."""


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


def eigenvectors(matrix: Array, start: Array | None = None) -> tuple[Array, Array]:
    """(V, λ) with M = V diag(λ) Vᵀ of a symmetric matrix; λ in no particular order.

    Jacobi's method: every pair of rows and columns is turned until its entry is 0, n/2 disjoint pairs at once, in the
    n − 1 rounds of a tournament. `start`, an orthogonal matrix, is where V begins: eigenvectors of a matrix that has
    changed a little then keep their places, since each turn is by at most 45°.
    """
    size = matrix.shape[0]
    V = jnp.eye(size, dtype=matrix.dtype) if start is None else start
    if size < 2:
        return V, jnp.diag(V.T @ matrix @ V)
    pairs = _tournament(size)
    small = (4 + size) * float(np.finfo(matrix.dtype).eps) * jnp.linalg.norm(matrix)

    def turn(index: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        A, V = state
        p, q = pairs[index]
        cosine, sine = _turns(A, p, q)
        A = _turned(_turned(A, p, q, cosine, sine).T, p, q, cosine, sine)
        return A, _turned(V.T, p, q, cosine, sine).T

    def sweep(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        A, V, sweeps = state
        A, V = jax.lax.fori_loop(0, pairs.shape[0], turn, (A, V))
        return A, V, sweeps + 1

    def going(state: tuple[Array, Array, Array]) -> Array:
        A, _, sweeps = state
        return (sweeps < MOST_SWEEPS) & (jnp.linalg.norm(A - jnp.diag(jnp.diag(A))) > small)

    A, V, _ = jax.lax.while_loop(going, sweep, (V.T @ matrix @ V, V, jnp.zeros((), jnp.int32)))
    return V, jnp.diag(A)


def inverse_root(matrix: Array, root: int, damping: Array | float, start: Array | None = None) -> Array:
    """(M + ε max λ · I)^(−1/root) of a symmetric positive semi-definite matrix, by its eigenvectors; 0 for M = 0."""
    V, values = eigenvectors(matrix, start)
    top = jnp.max(values, initial=0)
    values = jnp.maximum(values, 0) + damping * top
    return (V * jnp.where(top > 0, jnp.where(top > 0, values, 1) ** (-1 / root), 0)) @ V.T


def _tournament(size: int) -> Array:
    """Rounds [round, 2, pair] in which every index meets every other once; with an odd number one sits out."""
    seats = list(range(size + size % 2))
    rounds = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        met = zip(seats[:half], reversed(seats[half:]), strict=True)
        rounds.append([sorted(pair) for pair in met if max(pair) < size])
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return jnp.asarray(rounds).transpose(0, 2, 1)


def _turns(A: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """Cosine and sine of the angle, at most 45°, that makes A_pq zero, for every pair."""
    beside, difference = A[p, q], A[q, q] - A[p, p]
    turned = beside != 0
    ratio = difference / jnp.where(turned, 2 * beside, 1)
    tangent = jnp.where(ratio < 0, -1, 1) / (jnp.abs(ratio) + jnp.sqrt(1 + jnp.square(ratio)))
    tangent = jnp.where(turned, tangent, 0)
    cosine = jax.lax.rsqrt(1 + jnp.square(tangent))
    return cosine, tangent * cosine


def _turned(A: Array, p: Array, q: Array, cosine: Array, sine: Array) -> Array:
    """A with rows p and q replaced by c A_p − s A_q and s A_p + c A_q."""
    above, below, c, s = A[p], A[q], cosine[:, None], sine[:, None]
    return A.at[p].set(c * above - s * below).at[q].set(s * above + c * below)
