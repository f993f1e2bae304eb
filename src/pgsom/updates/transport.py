"""N-PG-IGT: momentum that is corrected by where the episodes are played."""

from dataclasses import dataclass
from typing import Any

import jax
from jax import Array

from pgsom.checks import check_number
from pgsom.objective import LocalObjective
from pgsom.updates.recursion import Recursion, advance, begin, mix, power_of_time, scaled, share_of_fresh, unit, way
from pgsom.updates.update_rule import Info, describe

Tree = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GradientTransport:
    """Normalised steps along an average of gradients that were asked beyond θ.

        α_t = min(1, α₀ (t + 1)^−p),   α_0 = 1
        θ̃ = θ + (1 − α_t)/α_t (θ − θ₋)              the only batch is played here
        d ← (1 − α_t) d + α_t ĝ(θ̃)
        direction = (t + 1)^−q d/‖d‖

    If J were quadratic, ∇J(θ̃) would lie so far beyond ∇J(θ) that the average is that at θ: (1 − α) ∇J(θ₋) +
    α ∇J(θ̃) = ∇J(θ). Neither Hessians nor importance weights; the points asked lie the further off the smaller α.
    """

    fresh: Any
    fresh_power: Any
    rate_power: Any

    @property
    def batches(self) -> int:
        return 1

    def points(self, state: Recursion, params: Tree, key: Array) -> tuple[Tree, ...]:
        del key
        alpha = self._share(state)
        further = scaled((1 - alpha) / alpha, way(state, params))
        return (jax.tree.map(lambda p, f: p + f, params, further),)

    def init(self, params: Tree) -> Recursion:
        return begin(params)

    def update(
        self, objective: LocalObjective, state: Recursion, params: Tree, *others: LocalObjective
    ) -> tuple[Tree, Recursion, Info]:
        del others
        gradient = objective.gradient()
        estimate = mix(self._share(state), state.estimate, gradient)
        direction = scaled(power_of_time(state.updates, self.rate_power), unit(estimate))
        return direction, advance(state, params, estimate), describe(gradient, direction)

    def _share(self, state: Recursion) -> Array:
        return share_of_fresh(state.updates, self.fresh, self.fresh_power)


def gradient_transport(*, fresh: float = 0.5, fresh_power: float = 0.0, rate_power: float = 0.0) -> GradientTransport:
    """Check the options and build the rule."""
    return GradientTransport(
        fresh=check_number("fresh", fresh, above=0),
        fresh_power=check_number("fresh_power", fresh_power, at_least=0, at_most=1),
        rate_power=check_number("rate_power", rate_power, at_least=0, at_most=1),
    )
