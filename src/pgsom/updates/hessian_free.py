"""Hessian-free Newton: conjugate gradients on a damped curvature, whose damping follows how well it predicts."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_count, check_number
from pgsom.curvature import Estimator, make_estimator
from pgsom.objective import LocalObjective
from pgsom.updates.conjugate_gradient import Solution, conjugate_gradient
from pgsom.updates.step_length import scale_to_kl
from pgsom.updates.update_rule import Info, describe, inner

Tree = Any
GROWTH, POOR, GOOD = 1.5, 0.25, 0.75
LEAST, MOST = 1e-6, 1e6


class HessianFreeState(NamedTuple):
    """One number."""

    damping: Array
    """λ"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HessianFree:
    """A truncated Newton step, kept only if the batch says that it gains.

        (M + λ I) x = ĝ       by conjugate gradients, ended before a direction p with pᵀ(M + λ I)p ≤ 0
        x = ĝ                 if that was the first direction
        s = x min(1, √(2 δ / xᵀFx))
        r = (L(θ + s) − L(θ)) / (ĝᵀs − ½ sᵀMs)
        λ ← 3/2 λ if r < 1/4,   ⅔ λ if r > 3/4,   within [10⁻⁶, 10⁶]
        d = s;   d = 0, declined, if L(θ + s) ≤ L(θ)

    M is −∇̂²J, or a positive semi-definite matrix in its place (Gauss-Newton, Fisher). L is the batch's estimate of J by
    importance weights: of whole trajectories for −∇̂²J, whose quadratic model it then has; step by step for the others.
    """

    damping: Any
    tolerance: Any
    kl_radius: Any
    curvature: Estimator = field(metadata={"static": True})
    cg_steps: int = field(metadata={"static": True})

    def init(self, params: Tree) -> HessianFreeState:
        del params
        return HessianFreeState(jnp.asarray(self.damping, float))

    def update(
        self, objective: LocalObjective, state: HessianFreeState, params: Tree
    ) -> tuple[Tree, HessianFreeState, Info]:
        gradient = objective.gradient()
        solution = self.solve(objective, gradient, state.damping)
        # Conjugate gradients that could not take one step have met negative curvature along ĝ, where J rises anyhow.
        start = jax.tree.map(lambda x, g: jnp.where(solution.steps == 0, g, x), solution.x, gradient)
        step = scale_to_kl(objective, start, self.kl_radius, longest=1.0)
        predicted = inner(gradient, step) - 0.5 * inner(step, self.matrix(objective, step))
        gain = self._gain(objective, jax.tree.map(jnp.add, params, step))
        kept = gain > 0
        direction = jax.tree.map(lambda s: jnp.where(kept, 1, 0) * s, step)
        # Where returns differ by rounding only, gain and prediction are rounding too and say nothing about the damping.
        rounding = 10 * jnp.finfo(gain.dtype).eps * jnp.sum(jnp.abs(objective.score_weight))  # type: ignore[no-untyped-call]
        seen = predicted > rounding
        damping = jnp.where(seen, self._adapted(state.damping, gain, predicted), state.damping)
        return direction, HessianFreeState(damping), describe(gradient, direction, declined=seen & ~kept)

    def matrix(self, objective: LocalObjective, vector: Tree) -> Tree:
        """M v."""
        image = self.curvature.product(objective, vector)
        return image if self.curvature.positive_semi_definite else jax.tree.map(jnp.negative, image)

    def solve(self, objective: LocalObjective, gradient: Tree, damping: Array) -> Solution:
        """X with (M + λ I) x = ĝ, as far as curvature is positive."""

        def product(v: Tree) -> Tree:
            return jax.tree.map(lambda m, x: m + jnp.asarray(damping * x, m.dtype), self.matrix(objective, v), v)

        return conjugate_gradient(product, gradient, steps=self.cg_steps, tolerance=self.tolerance)

    def _gain(self, objective: LocalObjective, there: Tree) -> Array:
        whole_past = not self.curvature.positive_semi_definite
        return objective.evaluate(objective.gain_fold(there, whole_past=whole_past))[0]

    def _adapted(self, damping: Array, gain: Array, predicted: Array) -> Array:
        poor, good = ~(gain >= POOR * predicted), gain > GOOD * predicted
        factor = jnp.where(poor, GROWTH, jnp.where(good, 1 / GROWTH, 1.0))
        return jnp.clip(damping * factor, min=LEAST, max=MOST).astype(damping.dtype)


def hessian_free(
    curvature: str | Estimator = "gauss-newton",
    *,
    damping: float = 1.0,
    cg_steps: int = 10,
    tolerance: float = 1e-3,
    kl_radius: float = 0.01,
) -> HessianFree:
    """Check the options and build the rule."""
    return HessianFree(
        damping=check_number("damping", damping, above=0),
        tolerance=check_number("tolerance", tolerance, at_least=0),
        kl_radius=check_number("kl_radius", kl_radius, above=0),
        curvature=make_estimator(curvature),
        cg_steps=check_count("cg_steps", cg_steps),
    )
