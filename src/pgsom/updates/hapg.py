"""Hessian-aided policy gradient: a fresh gradient now and then, and Hessian products in between."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_count, check_flag
from pgsom.curvature import Estimator
from pgsom.objective import LocalObjective
from pgsom.updates.recursion import Recursion, advance, begin, between, signed_curvature, unit, way
from pgsom.updates.update_rule import Info, describe

Tree = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HessianAided:
    """Gradients renewed every `period` updates, and moved along with the parameters until then.

        t a multiple of `period`:   θ_k = θ,   d ← mean_k ĝ(θ_k)
        otherwise:   b_k ~ U[0, 1],   θ_k = b_k θ + (1 − b_k) θ₋,   d ← d + mean_k ∇̂²J(θ_k) (θ − θ₋)
        direction = d                                (normalised: d/‖d‖)

    A batch at each of `spread` points θ_k. d stays unbiased; its variance grows with the way since it was renewed.
    """

    curvature: Estimator = field(metadata={"static": True})
    period: int = field(metadata={"static": True})
    spread: int = field(metadata={"static": True})
    normalised: bool = field(metadata={"static": True})

    @property
    def batches(self) -> int:
        return self.spread

    def points(self, state: Recursion, params: Tree, key: Array) -> tuple[Tree, ...]:
        shares = jnp.where(self._renews(state), 1.0, jax.random.uniform(key, (self.spread,)))
        return tuple(between(state, params, shares[k]) for k in range(self.spread))

    def init(self, params: Tree) -> Recursion:
        return begin(params)

    def update(
        self, objective: LocalObjective, state: Recursion, params: Tree, *others: LocalObjective
    ) -> tuple[Tree, Recursion, Info]:
        everywhere, step = (objective, *others), way(state, params)
        gradient = _mean([there.gradient() for there in everywhere])
        change = _mean([self.curvature.product(there, step) for there in everywhere])
        moved = jax.tree.map(jnp.add, state.estimate, change)
        estimate = jax.tree.map(lambda g, d: jnp.where(self._renews(state), g, d), gradient, moved)
        direction = unit(estimate) if self.normalised else estimate
        return direction, advance(state, params, estimate), describe(gradient, direction)

    def _renews(self, state: Recursion) -> Array:
        return state.updates % self.period == 0


def hessian_aided(
    curvature: str | Estimator = "causal", *, period: int = 5, spread: int = 2, normalised: bool = False
) -> HessianAided:
    """Check the options and build the rule."""
    return HessianAided(
        curvature=signed_curvature(curvature),
        period=check_count("period", period),
        spread=check_count("spread", spread),
        normalised=check_flag("normalised", normalised),
    )


def _mean(trees: list[Tree]) -> Tree:
    return jax.tree.map(lambda *leaves: sum(leaves) / len(trees), *trees)
