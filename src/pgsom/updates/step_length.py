"""How long a step is: the learning rate alone, or as far as a KL divergence allows."""

from typing import Any, Literal

import jax
import jax.numpy as jnp

from pgsom.objective import LocalObjective
from pgsom.updates.update_rule import norm

Tree = Any
StepLength = Literal["rate", "kl"]

STEP_LENGTHS: dict[str, str] = {
    "rate": "learning rate × direction",
    "kl": "the direction scaled so that its predicted mean KL divergence per step is the radius",
}


def scale_to_kl(objective: LocalObjective, direction: Tree, radius: Any, longest: Any = float("inf")) -> Tree:
    """d · min(longest, √(2δ / dᵀFd)): ½dᵀFd is the KL divergence per step, to second order, of a step d.

    0 if dᵀFd is 0. A direction that is not finite stays so, for training to see. One Jacobian product.
    """
    bend = objective.mean_step_curvature(direction)
    factor = jnp.minimum(longest, jnp.sqrt(2 * radius / jnp.where(bend == 0, 1, bend)))
    factor = jnp.where(bend == 0, 0, factor)
    return jax.tree.map(lambda d: d * factor, direction)


def with_evidence(gradient: Tree, direction: Tree) -> Tree:
    """The direction; 0 where ĝ = 0.

    Without evidence no step: a direction of set length would otherwise be what momentum is left, for ever.
    """
    seen = norm(gradient) > 0
    return jax.tree.map(lambda d: jnp.where(seen, d, jnp.zeros_like(d)), direction)
