"""Momentum whose weight and step length follow the gradients seen: IS-MBPG and HA-MBPG."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_number
from pgsom.curvature import Estimator
from pgsom.objective import LocalObjective
from pgsom.updates.recursion import (
    Recursion,
    advance,
    begin,
    between,
    gradient_there,
    mix,
    scaled,
    signed_curvature,
    way,
)
from pgsom.updates.storm import corrected_average
from pgsom.updates.update_rule import Info, describe, inner

Tree = Any
INFINITE = float("inf")


class AdaptiveState(NamedTuple):
    """The recursion, and what sets its numbers."""

    recursion: Recursion
    squares: Array
    """Σ G², G = ‖ĝ‖"""
    fresh: Array
    """α of the next update; 1 for the first"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AdaptiveMomentum:
    """The cube-root rule: the larger the gradients seen, the shorter the steps and the longer the memory.

        Σ ← Σ + ‖ĝ‖²
        η_t = (offset + Σ)^−1/3
        direction = η_t d
        α_{t+1} = min(1, c η_t²)

    The method's learning rate is the factor k of the papers' η_t; their c is this c / k².
    """

    offset: Any
    fresh_factor: Any

    def init(self, params: Tree) -> AdaptiveState:
        return AdaptiveState(begin(params), jnp.zeros(()), jnp.ones(()))

    def finish(
        self, gradient: Tree, estimate: Tree, state: AdaptiveState, params: Tree
    ) -> tuple[Tree, AdaptiveState, Info]:
        """From ĝ and d to the direction and the next state."""
        squares = state.squares + jnp.asarray(inner(gradient, gradient), state.squares.dtype)
        rate = (self.offset + squares) ** (-1 / 3)
        direction = scaled(rate, estimate)
        fresh = jnp.asarray(jnp.minimum(1, self.fresh_factor * jnp.square(rate)), state.fresh.dtype)
        after = AdaptiveState(advance(state.recursion, params, estimate), squares, fresh)
        return direction, after, describe(gradient, direction)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WeightedMBPG:
    """IS-MBPG: STORM-PG with the cube-root rule.

    ĝ₋ = ĝ(θ₋) of the episodes played at θ, each counting min(ρ, ρ_max) times, ρ = Π_t π_θ₋/π_θ
    d ← ĝ + (1 − α_t) (d − ĝ₋)
    direction and α_{t+1} by `AdaptiveMomentum`
    """

    adaptive: AdaptiveMomentum
    largest_ratio: Any

    def init(self, params: Tree) -> AdaptiveState:
        return self.adaptive.init(params)

    def update(self, objective: LocalObjective, state: AdaptiveState, params: Tree) -> tuple[Tree, AdaptiveState, Info]:
        gradient = objective.gradient()
        before = gradient_there(objective, state.recursion.previous, self.largest_ratio)
        estimate = corrected_average(1 - state.fresh, gradient, state.recursion.estimate, before)
        return self.adaptive.finish(gradient, estimate, state, params)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class HessianMBPG:
    """HA-MBPG: one batch, on the way from θ₋ to θ, for the Hessian product and for the gradient at θ.

    b ~ U[0, 1],   θ_b = b θ + (1 − b) θ₋       the only batch is played here
    ĝ = ĝ(θ) of these episodes, each counting min(ρ, ρ_max) times, ρ = Π_t π_θ/π_θ_b
    d ← (1 − α_t) (d + ∇̂²J(θ_b) (θ − θ₋)) + α_t ĝ
    direction and α_{t+1} by `AdaptiveMomentum`
    """

    adaptive: AdaptiveMomentum
    largest_ratio: Any
    curvature: Estimator = field(metadata={"static": True})

    @property
    def batches(self) -> int:
        return 1

    def points(self, state: AdaptiveState, params: Tree, key: Array) -> tuple[Tree, ...]:
        return (between(state.recursion, params, jax.random.uniform(key)),)

    def init(self, params: Tree) -> AdaptiveState:
        return self.adaptive.init(params)

    def update(
        self, objective: LocalObjective, state: AdaptiveState, params: Tree, *others: LocalObjective
    ) -> tuple[Tree, AdaptiveState, Info]:
        del others
        gradient = gradient_there(objective, params, self.largest_ratio)
        change = self.curvature.product(objective, way(state.recursion, params))
        moved = jax.tree.map(jnp.add, state.recursion.estimate, change)
        return self.adaptive.finish(gradient, mix(state.fresh, moved, gradient), state, params)


def adaptive_momentum(*, offset: float, fresh_factor: float) -> AdaptiveMomentum:
    """Check the options and build the cube-root rule."""
    return AdaptiveMomentum(
        offset=check_number("offset", offset, above=0),
        fresh_factor=check_number("fresh_factor", fresh_factor, above=0),
    )


def weighted_mbpg(*, offset: float = 1.0, fresh_factor: float = 10.0, largest_ratio: float = INFINITE) -> WeightedMBPG:
    """Check the options and build IS-MBPG."""
    adaptive = adaptive_momentum(offset=offset, fresh_factor=fresh_factor)
    return WeightedMBPG(adaptive, check_number("largest_ratio", largest_ratio, above=0, infinite=True))


def hessian_mbpg(
    curvature: str | Estimator = "causal",
    *,
    offset: float = 1.0,
    fresh_factor: float = 10.0,
    largest_ratio: float = INFINITE,
) -> HessianMBPG:
    """Check the options and build HA-MBPG."""
    adaptive = adaptive_momentum(offset=offset, fresh_factor=fresh_factor)
    limit = check_number("largest_ratio", largest_ratio, above=0, infinite=True)
    return HessianMBPG(adaptive, limit, signed_curvature(curvature))
