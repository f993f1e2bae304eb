"""The cubic model of J, maximised over all that a few Hessian products reach. No LAPACK: it runs under `vmap`.

    max_s  gᵀs + ½ sᵀHs − (ρ/6) ‖s‖³

With B = −H, the maximum is where (B + ν I) s = g, ν = (ρ/2) ‖s‖ and B + ν I is positive semi-definite. Lanczos gives
orthonormal rows Q, the first along g, and a tridiagonal T = Q B Qᵀ, within which ν is found by bisection. The hard
case, g orthogonal to where B is lowest and ‖s‖ too short at the least ν, is completed along that eigenvector.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Tridiagonal(NamedTuple):
    """Symmetric: `diagonal` [k], and `beside` [k], whose entry i couples i and i + 1; the last is 0."""

    diagonal: Array
    beside: Array


def maximise_cubic(product: Callable[[Array], Array], g: Array, rho: Array, steps: int, key: Array) -> Array:
    """The step s [D] for B's `product`, exactly if `steps` ≥ D; 0 if g is 0."""
    size = jnp.linalg.norm(g)
    T, Q = lanczos(product, g, min(steps, g.size), key)
    return jnp.where(size > 0, minimise_tridiagonal(T, size, rho) @ Q, 0)


def lanczos(product: Callable[[Array], Array], start: Array, steps: int, key: Array) -> tuple[Tridiagonal, Array]:
    """T [k] and orthonormal rows Q [k, D], each made orthogonal to all before it, twice.

    Where the products lead no further, a random direction is taken that they have not seen: in exact arithmetic T then
    falls into blocks, and with k = D its eigenvalues are all of B's.
    """
    tiny = _precision(start).eps

    def orthogonal(w: Array, Q: Array) -> Array:
        for _ in range(2):
            w = w - (Q @ w) @ Q
        return w

    def advance(index: Array, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        Q, row, diagonal, beside = carry
        Q = Q.at[index].set(row)
        image = product(row)
        left = orthogonal(image, Q)
        coupling = jnp.linalg.norm(left)
        ended = coupling <= 10 * tiny * jnp.linalg.norm(image)
        unseen = orthogonal(jax.random.normal(jax.random.fold_in(key, index), row.shape, row.dtype), Q)
        following = jnp.where(ended, _unit(orthogonal(_unit(unseen), Q)), _unit(left))
        return Q, following, diagonal.at[index].set(row @ image), beside.at[index].set(jnp.where(ended, 0, coupling))

    zeros = jnp.zeros(steps, start.dtype)
    empty = jnp.zeros((steps, start.size), start.dtype)
    Q, _, diagonal, beside = jax.lax.fori_loop(0, steps, advance, (empty, _unit(start), zeros, zeros))
    return Tridiagonal(diagonal, beside.at[-1].set(0)), Q


def minimise_tridiagonal(T: Tridiagonal, size: Array, rho: Array) -> Array:
    """The y [k] that minimises −size · y₁ + ½ yᵀTy + (ρ/6) ‖y‖³."""
    right = jnp.zeros_like(T.diagonal).at[0].set(size)
    lowest = lowest_eigenvalue(T)
    least = jnp.maximum(0, -lowest)

    def too_low(nu: Array) -> Array:
        y, pivots = solve(T, nu, right)
        return (pivots.min() <= 0) | (jnp.linalg.norm(y) > 2 * nu / rho)

    nu = bisect(too_low, least, least + jnp.sqrt(rho * size / 2) + _precision(size).tiny)
    y, _ = solve(T, nu, right)
    length = 2 * nu / rho
    missing = jnp.square(length) - y @ y
    u = eigenvector(T, nu)
    along = y @ u
    # The nearer of the two points y + τ u of that length.
    root = jnp.sqrt(jnp.square(along) + jnp.maximum(missing, 0))
    hard = missing > jnp.sqrt(_precision(size).eps) * jnp.square(length)
    tau = missing / jnp.where(hard, along + jnp.where(along < 0, -root, root), 1)
    return y + jnp.where(hard, tau, 0) * u


def solve(T: Tridiagonal, shift: Array, right: Array) -> tuple[Array, Array]:
    """(T + shift I)⁻¹ right by elimination, and the pivots, all positive where T + shift I is positive definite."""
    diagonal = T.diagonal + shift
    before = jnp.concatenate([jnp.zeros(1, right.dtype), T.beside[:-1]])

    def eliminate(carry: tuple[Array, Array], row: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], Array]:
        pivot, reduced = carry
        own, coupling, b = row
        factor = coupling / pivot
        pivot = _away_from_zero(own - factor * coupling, jnp.abs(own) + jnp.abs(factor * coupling))
        reduced = b - factor * reduced
        return (pivot, reduced), jnp.stack([pivot, reduced])

    one, zero = jnp.ones((), right.dtype), jnp.zeros((), right.dtype)
    _, found = jax.lax.scan(eliminate, (one, zero), (diagonal, before, right))

    def substitute(after: Array, row: tuple[Array, Array]) -> tuple[Array, Array]:
        (pivot, reduced), coupling = row
        x = (reduced - coupling * after) / pivot
        return x, x

    _, x = jax.lax.scan(substitute, zero, (found, T.beside), reverse=True)
    return x, found[:, 0]


def lowest_eigenvalue(T: Tridiagonal) -> Array:
    """By bisection between Gershgorin's bounds: T − μ I is positive definite exactly for μ below it."""
    before = jnp.concatenate([jnp.zeros(1, T.beside.dtype), T.beside[:-1]])
    radius = jnp.abs(T.beside) + jnp.abs(before)
    low, high = jnp.min(T.diagonal - radius), jnp.min(T.diagonal)
    right = jnp.ones_like(T.diagonal)
    return bisect(lambda mu: solve(T, -mu, right)[1].min() > 0, low, high)


def eigenvector(T: Tridiagonal, nu: Array) -> Array:
    """Of the lowest eigenvalue, which is near −ν: three inverse iterations from a start with every component."""
    start = jnp.cos(1.0 + jnp.arange(T.diagonal.size, dtype=T.diagonal.dtype))
    x = _unit(start)
    for _ in range(3):
        x = _unit(solve(T, nu, x)[0])
    return x


def bisect(goes_up: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where `goes_up` turns from true to false, from above."""

    def halve(_: Any, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        up = goes_up(middle)
        return jnp.where(up, middle, low), jnp.where(up, high, middle)

    digits = _precision(low).nmant + 8
    return jax.lax.fori_loop(0, digits, halve, (low, high))[1]


def _precision(x: Array) -> Any:
    return jnp.finfo(x.dtype)  # type: ignore[no-untyped-call]


def _unit(x: Array) -> Array:
    """x/‖x‖, 0 for 0, also where the squares would overflow."""
    largest = jnp.max(jnp.abs(x))
    x = x / jnp.where(largest > 0, largest, 1)
    length = jnp.linalg.norm(x)
    return x / jnp.where(length > 0, length, 1)


def _away_from_zero(pivot: Array, scale: Array) -> Array:
    """A pivot that is rounding, or 0, as small as it may be without overflow in what is divided by it."""
    least = _precision(pivot).eps * scale + jnp.sqrt(_precision(pivot).tiny)
    return jnp.where(jnp.abs(pivot) < least, jnp.where(pivot < 0, -least, least), pivot)
