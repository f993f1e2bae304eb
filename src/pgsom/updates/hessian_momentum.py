"""Momentum corrected by a Hessian product at a random point of the last step: SHARP and (N-)HARPG."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_flag, check_number
from pgsom.curvature import Estimator
from pgsom.objective import LocalObjective
from pgsom.updates.recursion import (
    Recursion,
    advance,
    begin,
    between,
    mix,
    power_of_time,
    scaled,
    share_of_fresh,
    signed_curvature,
    unit,
    way,
)
from pgsom.updates.update_rule import Info, describe

Tree = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HessianMomentum:
    """An average of gradients, each moved to the present parameters by Hessian products.

        b ~ U[0, 1],   θ_b = b θ + (1 − b) θ₋        a batch at θ, another at θ_b
        α_t = min(1, α₀ (t + 1)^−p),   α_0 = 1
        d ← (1 − α_t) (d + ∇̂²J(θ_b) (θ − θ₋)) + α_t ĝ(θ)
        direction = (t + 1)^−q d                     (normalised: of d/‖d‖)

    E_b[∇²J(θ_b) (θ − θ₋)] = ∇J(θ) − ∇J(θ₋) for steps of any length, so that d is unbiased, where plain momentum lags
    behind.
    """

    fresh: Any
    fresh_power: Any
    rate_power: Any
    curvature: Estimator = field(metadata={"static": True})
    normalised: bool = field(metadata={"static": True})

    @property
    def batches(self) -> int:
        return 2

    def points(self, state: Recursion, params: Tree, key: Array) -> tuple[Tree, ...]:
        return params, between(state, params, jax.random.uniform(key))

    def init(self, params: Tree) -> Recursion:
        return begin(params)

    def update(
        self, objective: LocalObjective, state: Recursion, params: Tree, *others: LocalObjective
    ) -> tuple[Tree, Recursion, Info]:
        (on_the_way,) = others
        gradient = objective.gradient()
        change = self.curvature.product(on_the_way, way(state, params))
        alpha = share_of_fresh(state.updates, self.fresh, self.fresh_power)
        estimate = mix(alpha, jax.tree.map(jnp.add, state.estimate, change), gradient)
        length = power_of_time(state.updates, self.rate_power)
        direction = scaled(length, unit(estimate) if self.normalised else estimate)
        return direction, advance(state, params, estimate), describe(gradient, direction)


def hessian_momentum(
    curvature: str | Estimator = "causal",
    *,
    fresh: float = 0.5,
    fresh_power: float = 0.0,
    rate_power: float = 0.0,
    normalised: bool = True,
) -> HessianMomentum:
    """Check the options and build the rule."""
    return HessianMomentum(
        fresh=check_number("fresh", fresh, above=0),
        fresh_power=check_number("fresh_power", fresh_power, at_least=0, at_most=1),
        rate_power=check_number("rate_power", rate_power, at_least=0, at_most=1),
        curvature=signed_curvature(curvature),
        normalised=check_flag("normalised", normalised),
    )
