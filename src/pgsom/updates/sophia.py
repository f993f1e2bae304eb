"""Sophia: the average gradient over the average curvature, entry by entry, clipped; curvature every k updates."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_count, check_number
from pgsom.curvature import Estimator, bends_down, make_estimator
from pgsom.objective import LocalObjective
from pgsom.updates.averages import average
from pgsom.updates.refresh import gradient_and_curvature, where_due
from pgsom.updates.update_rule import Info, describe, share_negative

Tree = Any


class SophiaState(NamedTuple):
    """The two moving averages, each the size of the parameters."""

    updates: Array
    momentum: Tree
    curvature: Tree
    """Of how strongly J bends down."""
    negative: Array
    """Share of negative entries in the latest ĥ, with the estimator's own sign."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sophia:
    """Sophia, with any estimator of curvature.

        m ← β₁ m + (1 − β₁) ĝ
        h ← β₂ h + (1 − β₂) ĥ              every `refresh` updates, the first among them; ĥ with the sign of −∇²J
        d = clip(m / max(γ h, ε), ± ρ)

    Neither average is corrected for its start at zero. Where J bends up (h < 0) the divisor is ε, and d the sign of m
    times ρ: clipping is what makes that harmless.
    """

    beta1: Any
    beta2: Any
    gamma: Any
    eps: Any
    trust_cap: Any
    curvature: Estimator = field(metadata={"static": True})
    refresh: int = field(metadata={"static": True})

    def init(self, params: Tree) -> SophiaState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return SophiaState(jnp.zeros((), jnp.int32), zeros, zeros, share_negative(zeros))

    def update(self, objective: LocalObjective, state: SophiaState, params: Tree) -> tuple[Tree, SophiaState, Info]:
        del params
        gradient, curvature = gradient_and_curvature(
            objective, self.curvature, state.updates, self.refresh, state.curvature
        )
        direction, state = self.precondition(gradient, curvature, state)
        return direction, state, describe(gradient, direction)._replace(negative_curvature=state.negative)

    def precondition(self, gradient: Tree, curvature: Tree, state: SophiaState) -> tuple[Tree, SophiaState]:
        """All but the estimates: ĝ, ĥ (unused unless due, with the estimator's own sign), old averages to d and new."""
        down = curvature if bends_down(self.curvature) else jax.tree.map(jnp.negative, curvature)
        m = average(self.beta1, state.momentum, gradient)
        fresh = (average(self.beta2, state.curvature, down), share_negative(curvature))
        h, negative = where_due(state.updates, self.refresh, fresh, (state.curvature, state.negative))
        direction = jax.tree.map(
            lambda mi, hi: jnp.clip(
                mi / jnp.maximum(self.gamma * hi, self.eps), min=-self.trust_cap, max=self.trust_cap
            ),
            m,
            h,
        )
        return direction, SophiaState(state.updates + 1, m, h, negative)


def sophia(
    curvature: str | Estimator = "gauss-newton-bartlett",
    *,
    probes: int = 0,
    gamma: float = 0.05,
    eps: float = 1e-12,
    trust_cap: float = 1.0,
    beta1: float = 0.965,
    beta2: float = 0.99,
    refresh: int = 10,
) -> Sophia:
    """Check the options and build the rule."""
    return Sophia(
        beta1=check_number("beta1", beta1, at_least=0, below=1),
        beta2=check_number("beta2", beta2, at_least=0, below=1),
        gamma=check_number("gamma", gamma, above=0),
        eps=check_number("eps", eps, above=0),
        trust_cap=check_number("trust_cap", trust_cap, above=0, infinite=True),
        curvature=make_estimator(curvature, probes),
        refresh=check_count("refresh", refresh),
    )
