"""Curvature that is renewed every k updates and costs nothing in between.

A rule with t updates behind it renews its curvature at t = 0, k, 2k, …. Under `vmap` a batched condition would compute
both sides for everybody, so what decides is whether *any* member of the batch is due, one unbatched scalar; each
member then keeps what it had unless it is due itself. Seeds count the same updates, so in general all are due or
none; a seed that left an update out falls out of step and still gets what it would get alone.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.curvature import Estimator
from pgsom.folds import largest_of_batch
from pgsom.objective import LocalObjective

Tree = Any


def is_due(updates: Array, every: int) -> Array:
    """Whether an update with `updates` behind it renews the curvature."""
    return updates % every == 0


def renewals(updates: Array, every: int) -> Array:
    """How often the curvature has been renewed by the end of an update with `updates` behind it."""
    return updates // every + 1


def renewed(updates: Array, every: int, fresh: Callable[[], Tree], kept: Tree) -> Tree:
    """``fresh()`` where due, elsewhere `kept`, of the same structure. With k = 1 there is nothing to decide."""
    if every == 1:
        return fresh()
    return where_due(updates, every, jax.lax.cond(_anyone_due(updates, every), fresh, lambda: kept), kept)


def gradient_and_curvature(
    objective: LocalObjective, estimator: Estimator, updates: Array, every: int, kept: Tree
) -> tuple[Tree, Tree]:
    """ĝ, and where due ĥ, in one pass with ĝ; elsewhere `kept` in its place."""

    def both() -> tuple[Tree, Tree]:
        gradient, curvature = objective.evaluate(objective.gradient_fold(), estimator.diagonal(objective))
        return gradient, curvature

    if every == 1:
        return both()
    gradient, curvature = jax.lax.cond(_anyone_due(updates, every), both, lambda: (objective.gradient(), kept))
    return gradient, where_due(updates, every, curvature, kept)


def where_due(updates: Array, every: int, new: Tree, old: Tree) -> Tree:
    """`new` where due, elsewhere `old`."""
    if every == 1:
        return new
    due = is_due(updates, every)
    return jax.tree.map(lambda n, o: jnp.where(due, n, o), new, old)


def _anyone_due(updates: Array, every: int) -> Array:
    """Unbatched, whatever `updates` is."""
    return largest_of_batch(is_due(updates, every).astype(jnp.int32)) > 0
