"""AdaHessian's spatial averaging: neighbouring entries of a diagonal share their mean."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_count
from pgsom.curvature.estimator import Estimator
from pgsom.folds import Fold
from pgsom.objective import LocalObjective

Tree = Any


@dataclass(frozen=True)
class SpatialAverage:
    """Blocks of `block` consecutive entries of each array of `of`'s diagonal, replaced by their mean; 1: none.

    Less noise and, unless the entries of a block are equal, bias. Entries follow each other along the last axis first:
    in a weight [input, unit], a block holds units with the same input. A last, shorter block has the mean of its own
    entries. The matrix itself, `product`, stays as it is.
    """

    of: Estimator
    block: int = 1
    name: ClassVar[str] = "spatial-average"
    estimates: ClassVar[str] = "block means of another estimator's diagonal"

    def __post_init__(self) -> None:
        check_count("block", self.block)

    @property
    def biased(self) -> bool:
        return self.of.biased or self.block > 1

    @property
    def positive_semi_definite(self) -> bool:
        return self.of.positive_semi_definite

    def diagonal(self, objective: LocalObjective) -> Fold:
        inner = self.of.diagonal(objective)
        return inner._replace(finish=lambda carry: average_blocks(inner.finish(carry), self.block))

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return self.of.product(objective, vector)


def average_blocks(tree: Tree, block: int) -> Tree:
    """Each block of consecutive entries replaced by its mean."""
    return tree if block == 1 else jax.tree.map(lambda leaf: _average_blocks(leaf, block), tree)


def _average_blocks(leaf: Array, block: int) -> Array:
    padded = jnp.pad(leaf.ravel(), (0, -leaf.size % block)).reshape(-1, block)
    inside = jnp.minimum(leaf.size - block * jnp.arange(padded.shape[0]), block)
    means = padded.sum(axis=1) / inside.astype(leaf.dtype)
    return jnp.repeat(means, block)[: leaf.size].reshape(leaf.shape)
