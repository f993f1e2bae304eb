"""Passes over a batch in random order, a part at a time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

Tree = Any


class Dealt(NamedTuple):
    """Which steps are in which minibatch, [minibatch, place]."""

    row: Array
    """its number in the flat list of all [time, env] rows"""
    weight: Array
    """1 where the place holds a step, 0 where it is left over"""


def deal(key: Array, mask: Array, minibatches: int) -> Dealt:
    """Every step that was taken into exactly one of `minibatches`, at random; their sizes differ by one at most."""
    taken = mask.reshape(-1) > 0
    rows, count = taken.size, taken.sum(dtype=jnp.int32)
    order = jnp.argsort(jnp.where(taken, jax.random.uniform(key, (rows,)), 2.0))
    first = jnp.arange(minibatches + 1) * count // minibatches
    place = first[:-1, None] + jnp.arange(-(-rows // minibatches))
    return Dealt(order[jnp.minimum(place, rows - 1)], (place < first[1:, None]).astype(float))


def take(arrays: Tree, row: Array) -> Tree:
    """These rows of arrays [time, env, …]."""
    return jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:])[row], arrays)
