"""Cubic-regularised policy Newton: the step that is best if the Hessian changes no faster than ρ."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from pgsom.checks import check_count, check_number
from pgsom.curvature import Estimator
from pgsom.objective import LocalObjective
from pgsom.updates.cubic import maximise_cubic
from pgsom.updates.recursion import signed_curvature
from pgsom.updates.update_rule import Info, describe

Tree = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CubicNewton:
    """The best step of a model that never promises too much.

        d = argmax_s  ĝᵀs + ½ sᵀ∇̂²J s − (ρ/6) ‖s‖³

    within the Krylov space of `lanczos_steps` Hessian products. Negative curvature needs no care: the cube bounds the
    step along every direction, and where J bends up it goes further. Gradient and products are of the same episodes.
    """

    regularisation: Any
    curvature: Estimator = field(metadata={"static": True})
    lanczos_steps: int = field(metadata={"static": True})

    def init(self, params: Tree) -> Tree:
        del params
        return ()

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        del params
        gradient = objective.gradient()
        g, unravel = ravel_pytree(gradient)

        def product(v: jax.Array) -> jax.Array:
            return -ravel_pytree(self.curvature.product(objective, unravel(v)))[0]

        key = jax.random.fold_in(objective.key, 12)
        step = maximise_cubic(product, g, jnp.asarray(self.regularisation, g.dtype), self.lanczos_steps, key)
        direction = unravel(step)
        return direction, state, describe(gradient, direction)


def cubic_newton(
    curvature: str | Estimator = "causal", *, regularisation: float = 1000.0, lanczos_steps: int = 5
) -> CubicNewton:
    """Check the options and build the rule."""
    return CubicNewton(
        regularisation=check_number("regularisation", regularisation, above=0),
        curvature=signed_curvature(curvature),
        lanczos_steps=check_count("lanczos_steps", lanczos_steps),
    )
