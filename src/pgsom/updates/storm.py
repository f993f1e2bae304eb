"""Recursive momentum by importance weights, without second derivatives: STORM-PG and PAGE-PG."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_flag, check_number
from pgsom.objective import LocalObjective
from pgsom.updates.recursion import Recursion, advance, begin, gradient_there, share_of_fresh, unit
from pgsom.updates.update_rule import Info, describe

Tree = Any
INFINITE = float("inf")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Storm:
    """An average of gradients that is corrected by what the same episodes say of θ and of θ₋.

        α_t = α,   or, at random, 1 with probability α and else 0;   α_0 = 1
        ĝ₋ = ĝ(θ₋) of the episodes played at θ, each counting min(ρ, ρ_max) times, ρ = Π_t π_θ₋/π_θ
        d ← ĝ + (1 − α_t) (d − ĝ₋)
        direction = d                                (normalised: d/‖d‖)

    α fixed is STORM-PG, at random PAGE-PG. E[ĝ₋] = ∇J(θ₋) where no ratio meets its limit, so that d is unbiased; its
    variance is that of the ratios, which grows with the length of the step and of the episodes.
    """

    fresh: Any
    largest_ratio: Any
    at_random: bool = field(metadata={"static": True})
    normalised: bool = field(metadata={"static": True})

    def init(self, params: Tree) -> Recursion:
        return begin(params)

    def update(self, objective: LocalObjective, state: Recursion, params: Tree) -> tuple[Tree, Recursion, Info]:
        gradient = objective.gradient()
        before = gradient_there(objective, state.previous, self.largest_ratio)
        kept = 1 - self._share(objective, state)
        estimate = corrected_average(kept, gradient, state.estimate, before)
        direction = unit(estimate) if self.normalised else estimate
        return direction, advance(state, params, estimate), describe(gradient, direction)

    def _share(self, objective: LocalObjective, state: Recursion) -> Array:
        if not self.at_random:
            return share_of_fresh(state.updates, self.fresh, 0.0)
        drawn = jax.random.bernoulli(jax.random.fold_in(objective.key, 11), self.fresh)
        return jnp.where((state.updates == 0) | drawn, 1.0, 0.0)


def corrected_average(kept: Array, gradient: Tree, estimate: Tree, before: Tree) -> Tree:
    """ĝ + kept · (d − ĝ₋); ĝ where nothing is kept, whatever the rest is."""

    def corrected(g: Array, d: Array, b: Array) -> Array:
        return jnp.where(kept == 0, g, jnp.asarray(g + kept * (d - b), g.dtype))

    return jax.tree.map(corrected, gradient, estimate, before)


def storm(
    *, fresh: float = 0.5, largest_ratio: float = INFINITE, at_random: bool = False, normalised: bool = False
) -> Storm:
    """Check the options and build the rule."""
    return Storm(
        fresh=check_number("fresh", fresh, above=0, at_most=1),
        largest_ratio=check_number("largest_ratio", largest_ratio, above=0, infinite=True),
        at_random=check_flag("at_random", at_random),
        normalised=check_flag("normalised", normalised),
    )
