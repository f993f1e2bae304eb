"""Second-order momentum whose memory follows the training: long while gradients are noise, short while they move."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_number
from pgsom.objective import LocalObjective
from pgsom.updates.recursion import mix, scaled
from pgsom.updates.refresh import gradient_and_curvature
from pgsom.updates.som import SecondOrderMomentum, SOMState
from pgsom.updates.step_length import scale_to_kl, with_evidence
from pgsom.updates.update_rule import Info, describe, norm

Tree = Any


class AdaptiveSOMState(NamedTuple):
    """Algorithm 1's moments, the gradient's being g, and what says how far it lags."""

    som: SOMState
    drift: Tree
    """E"""
    error: Array
    """M"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AdaptiveSOM:
    """Algorithm 1 with an average of gradients that is as long as it may be.

        e = ĝ − g
        E ← (1 − φ) E + φ e,   M ← (1 − φ) M + φ ‖e‖
        α = max(1 − β₁, ‖E‖/M),   α_0 = 1
        g ← (1 − α) g + α ĝ
        h, h̄, P, d as in Algorithm 1 with g for ḡ

    ‖E‖/M is the tracking signal of Trigg and Leach: errors that point all over cancel in E, errors that point one way
    say that the average lags, up to ‖E‖/M = 1. β₁ is the longest memory.
    """

    som: SecondOrderMomentum
    """Algorithm 1; its β₁ bounds the memory."""
    tracking: Any
    """φ"""

    def init(self, params: Tree) -> AdaptiveSOMState:
        return AdaptiveSOMState(self.som.init(params), jax.tree.map(jnp.zeros_like, params), jnp.zeros(()))

    def update(
        self, objective: LocalObjective, state: AdaptiveSOMState, params: Tree
    ) -> tuple[Tree, AdaptiveSOMState, Info]:
        del params
        before = state.som
        gradient, curvature = gradient_and_curvature(
            objective, self.som.curvature, before.updates, self.som.refresh, before.curvature
        )
        average, drift, error = self.follow(gradient, state)
        # With β₁ = 0 Algorithm 1 takes the average for the gradient's own.
        direction, som = replace(self.som, beta1=0.0).precondition(average, curvature, before)
        if self.som.step_length == "kl":
            direction = with_evidence(gradient, scale_to_kl(objective, direction, self.som.kl_radius))
        info = describe(gradient, direction)._replace(negative_curvature=som.negative)
        return direction, AdaptiveSOMState(som, drift, error), info

    def follow(self, gradient: Tree, state: AdaptiveSOMState) -> tuple[Tree, Tree, Array]:
        """The new g, E and M."""
        g, first = state.som.gradient, state.som.updates == 0
        off = scaled(jnp.where(first, 0.0, 1.0), jax.tree.map(jnp.subtract, gradient, g))
        drift = mix(self.tracking, state.drift, off)
        error = jnp.asarray((1 - self.tracking) * state.error + self.tracking * norm(off), state.error.dtype)
        signal = norm(drift) / jnp.where(error > 0, error, 1)
        alpha = jnp.where(first, 1.0, jnp.clip(signal, min=1 - self.som.beta1, max=1.0))
        return mix(alpha, g, gradient), drift, error


def adaptive_som(rule: SecondOrderMomentum, tracking: float = 0.3) -> AdaptiveSOM:
    """Check the option and build the rule around Algorithm 1's."""
    return AdaptiveSOM(rule, check_number("tracking", tracking, above=0, at_most=1))
