"""Two ways to clip, with two names."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from pgsom.updates.update_rule import norm

Tree = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Clipping:
    """Limits on a direction, ∞ for none: first every element to [−elements, elements], then the whole to `norm`."""

    norm: Any
    elements: Any

    def __call__(self, direction: Tree) -> Tree:
        return clip_norm(clip_elements(direction, self.elements), self.norm)


def clip_elements(tree: Tree, limit: Any) -> Tree:
    """min(max(x_i, −limit), limit) for every entry; changes the angle."""
    return jax.tree.map(lambda x: jnp.clip(x, min=-limit, max=limit), tree)


def clip_norm(tree: Tree, limit: Any) -> Tree:
    """x · min(1, limit/‖x‖); keeps the angle."""
    length = norm(tree)
    factor = jnp.where(length > limit, limit / jnp.where(length > 0, length, 1), 1)
    return jax.tree.map(lambda x: jnp.where(length > limit, x * factor, x), tree)
