"""One pass over the steps that were really taken.

Everything a batch of episodes can say is a fold over time: gradients and curvatures are sums over steps, the
causal Hessian carries the sum of earlier scores. A rollout's arrays are [time, env] and padded to the longest
possible episode, so folds run in chunks of time inside a loop that stops after the last filled chunk: a batch
whose episodes last 20 of 500 steps costs a small fraction of a full one. Several folds given to `run` share one
pass, and with it (after compilation) their forward passes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap

from pgsom.checks import wrong

Tree = Any
CHUNK = 32


class Fold(NamedTuple):
    """``finish(step(… step(initial, chunk₀, 0) …, chunk_k, start_k))`` over the chunks of `arrays` [time, …]."""

    initial: Tree
    step: Callable[[Tree, Tree, Array], Tree]
    arrays: Tree
    finish: Callable[[Tree], Tree] = lambda carry: carry


def sum_fold(term: Callable[[Tree], Tree], arrays: Tree, finish: Callable[[Tree], Tree] | None = None) -> Fold:
    """Σ over chunks of ``term(chunk)``, a tree of arrays whose shapes do not depend on the chunk's length."""
    initial = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(term, arrays))

    def step(carry: Tree, chunk: Tree, start: Array) -> Tree:
        del start
        return jax.tree.map(jnp.add, carry, term(chunk))

    return Fold(initial, step, arrays, finish or (lambda carry: carry))


def map_fold(function: Callable[[Tree], Tree], arrays: Tree) -> Fold:
    """``function(chunk)``, one result a time step, written side by side; zero behind the last filled chunk."""
    initial = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, arrays))

    def step(carry: Tree, chunk: Tree, start: Array) -> Tree:
        return jax.tree.map(
            lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, start, axis=0),
            carry,
            function(chunk),
        )

    return Fold(initial, step, arrays)


def run(folds: tuple[Fold, ...], filled: Array) -> tuple[Tree, ...]:
    """The results of all folds in one pass over the first `filled` time steps, rounded up to a chunk."""
    length = jax.tree.leaves(folds[0].arrays)[0].shape[0]
    chunk = chunk_length(length)
    if length % chunk:
        raise wrong("rows", length, f"accepted are up to {CHUNK} and whole multiples of it (`padded_length`)")
    initial = tuple(fold.initial for fold in folds)

    def body(index: Array, carries: tuple[Tree, ...]) -> tuple[Tree, ...]:
        start = index * chunk
        return tuple(
            fold.step(carry, jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, start, chunk), fold.arrays), start)
            for fold, carry in zip(folds, carries, strict=True)
        )

    if length == chunk:
        carries = tuple(fold.step(fold.initial, fold.arrays, jnp.asarray(0)) for fold in folds)
    else:
        chunks = (largest_of_batch(filled) + chunk - 1) // chunk
        carries = jax.lax.fori_loop(0, chunks, body, initial)
    return tuple(fold.finish(carry) for fold, carry in zip(folds, carries, strict=True))


def chunk_length(steps: int) -> int:
    """The chunk for arrays of `steps` steps; short arrays are one chunk."""
    return min(steps, CHUNK)


def padded_length(horizon: int) -> int:
    """The smallest whole number of chunks that holds `horizon` steps."""
    chunk = chunk_length(horizon)
    return -(-horizon // chunk) * chunk


@custom_vmap
def largest_of_batch(value: Array) -> Array:
    """`value`; under `vmap` the largest of the batch, unbatched.

    A loop whose length depends on it then keeps one scalar condition for all members of a batch, where a
    batched condition would select over every array that the loop carries.
    """
    return value


@largest_of_batch.def_vmap
def _largest_of_batch_vmap(axis_size: int, in_batched: list[bool], value: Array) -> tuple[Array, bool]:
    del axis_size
    return (largest_of_batch(jnp.max(value, axis=0)) if in_batched[0] else value), False
