"""Exponential moving averages of pytrees, and their correction for having started at zero."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

Tree = Any


def average(beta: Any, old: Tree, fresh: Tree) -> Tree:
    """β · old + (1 − β) · fresh, in float32 at least: in less, 1 − β may be 0."""

    def mixed(before: Array, new: Array) -> Array:
        exact = jnp.promote_types(before.dtype, jnp.float32)
        return (beta * before.astype(exact) + (1 - beta) * new.astype(exact)).astype(before.dtype)

    return jax.tree.map(mixed, old, fresh)


def corrected(averaged: Tree, beta: Any, count: Array) -> Tree:
    """The average after `count` updates from zero, divided by 1 − β^count."""

    def divided(leaf: Array) -> Array:
        exact = jnp.promote_types(leaf.dtype, jnp.float32)
        return (leaf / (1 - jnp.asarray(beta, exact) ** count)).astype(leaf.dtype)

    return jax.tree.map(divided, averaged)
