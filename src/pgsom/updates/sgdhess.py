"""SGDHess: momentum corrected by a Hessian product of the batch at hand, and clipped."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from pgsom.checks import check_flag, check_number
from pgsom.curvature import Estimator
from pgsom.objective import LocalObjective
from pgsom.updates.clipping import clip_norm
from pgsom.updates.recursion import Recursion, advance, begin, mix, share_of_fresh, signed_curvature, unit, way
from pgsom.updates.update_rule import Info, describe

Tree = Any
INFINITE = float("inf")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SGDHess:
    """An average of gradients, moved to θ by the Hessian at θ, and clipped where it is kept.

        d ← (1 − α_t) (d + ∇̂²J(θ) (θ − θ₋)) + α_t ĝ,   α_0 = 1
        d ← d min(1, G/‖d‖)
        direction = d                                (normalised: d/‖d‖)

    Gradient and product come from the same episodes: one batch. The product misses the third derivative of J along
    the step, so the estimate lags by O(‖θ − θ₋‖²), where plain momentum lags by O(‖θ − θ₋‖).
    """

    fresh: Any
    largest_estimate: Any
    curvature: Estimator = field(metadata={"static": True})
    normalised: bool = field(metadata={"static": True})

    def init(self, params: Tree) -> Recursion:
        return begin(params)

    def update(self, objective: LocalObjective, state: Recursion, params: Tree) -> tuple[Tree, Recursion, Info]:
        gradient = objective.gradient()
        change = self.curvature.product(objective, way(state, params))
        alpha = share_of_fresh(state.updates, self.fresh, 0.0)
        estimate = mix(alpha, jax.tree.map(jnp.add, state.estimate, change), gradient)
        estimate = clip_norm(estimate, self.largest_estimate)
        direction = unit(estimate) if self.normalised else estimate
        return direction, advance(state, params, estimate), describe(gradient, direction)


def sgdhess(
    curvature: str | Estimator = "causal",
    *,
    fresh: float = 0.5,
    largest_estimate: float = INFINITE,
    normalised: bool = False,
) -> SGDHess:
    """Check the options and build the rule."""
    return SGDHess(
        fresh=check_number("fresh", fresh, above=0, at_most=1),
        largest_estimate=check_number("largest_estimate", largest_estimate, above=0, infinite=True),
        curvature=signed_curvature(curvature),
        normalised=check_flag("normalised", normalised),
    )
