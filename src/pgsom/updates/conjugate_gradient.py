"""Conjugate gradients: A x = b for a symmetric A that is known by its products alone."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.folds import largest_of_batch
from pgsom.updates.update_rule import inner

Tree = Any


class Solution(NamedTuple):
    """Where conjugate gradients ended."""

    x: Tree
    residual: Array
    """‖b − A x‖ / ‖b‖, by the recursion; 0 if b is 0."""
    steps: Array
    """How many were taken."""
    negative: Array
    """Whether the iteration ended because it met a direction p with pᵀAp ≤ 0."""


class _Iterate(NamedTuple):
    x: Tree
    r: Tree
    p: Tree
    rr: Array
    steps: Array
    going: Array
    negative: Array


def conjugate_gradient(
    product: Callable[[Tree], Tree], b: Tree, *, steps: int, tolerance: Any = 1e-6, start: Tree | None = None
) -> Solution:
    """At most `steps` products, fewer once ‖b − A x‖ ≤ tolerance · ‖b‖.

    From x = `start` (0 if none is given), r = b − A x, p = r:

        α = rᵀr / pᵀAp,   x ← x + α p,   r ← r − α Ap,   p ← r + (r₊ᵀr₊ / rᵀr) p.

    A direction with pᵀAp ≤ 0 ends it before the step along it, so that for an indefinite A the x found lies where A
    is positive. Under `vmap` all members go on until the last has ended, each standing still once it has.
    """
    target = jnp.square(tolerance) * inner(b, b)

    def advance(old: _Iterate) -> _Iterate:
        image = product(old.p)
        bend = inner(old.p, image)
        negative = bend <= 0
        alpha = jnp.where(negative, 0, old.rr / jnp.where(negative, 1, bend))
        x, r = _plus(old.x, alpha, old.p), _plus(old.r, -alpha, image)
        rr = inner(r, r)
        new = _Iterate(x, r, _plus(r, rr / old.rr, old.p), rr, old.steps + 1, ~negative & (rr > target), negative)
        new = new._replace(steps=old.steps + ~negative)
        return jax.tree.map(partial(jnp.where, old.going), new, old)

    def going(carry: tuple[_Iterate, Array]) -> Array:
        iterate, count = carry
        return (count < steps) & (largest_of_batch(iterate.going.astype(jnp.int32)) > 0)

    x = jax.tree.map(jnp.zeros_like, b) if start is None else start
    r = b if start is None else _plus(b, -1, product(start))
    rr = inner(r, r)
    first = _Iterate(x, r, r, rr, jnp.zeros((), jnp.int32), rr > target, jnp.zeros((), bool))
    end, _ = jax.lax.while_loop(going, lambda carry: (advance(carry[0]), carry[1] + 1), (first, jnp.zeros((), int)))
    length = inner(b, b)
    return Solution(end.x, jnp.sqrt(end.rr / jnp.where(length > 0, length, 1)), end.steps, end.negative)


def _plus(a: Tree, factor: Any, b: Tree) -> Tree:
    """A + factor · b."""
    return jax.tree.map(lambda x, y: x + factor * y, a, b)
