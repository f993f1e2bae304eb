"""What recursive gradient estimates share: the last iterate, the way from it, and how weights fall with t.

Each of these rules carries an estimate d of ∇J from one iterate to the next. What ∇J changed by on the way from θ₋ to
θ is what they estimate in different ways: by a Hessian product, by importance weights, or by where they play.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import wrong
from pgsom.curvature import Estimator, make_estimator
from pgsom.objective import LocalObjective
from pgsom.updates.update_rule import norm

Tree = Any


class Recursion(NamedTuple):
    """Twice the size of the parameters, and a counter."""

    updates: Array
    previous: Tree
    """θ₋, where the last update stood; before the first the initial parameters"""
    estimate: Tree
    """d"""


def begin(params: Tree) -> Recursion:
    """Before the first update."""
    return Recursion(jnp.zeros((), jnp.int32), params, jax.tree.map(jnp.zeros_like, params))


def advance(state: Recursion, params: Tree, estimate: Tree) -> Recursion:
    """After an update at `params`."""
    return Recursion(state.updates + 1, params, estimate)


def way(state: Recursion, params: Tree) -> Tree:
    """Θ − θ₋."""
    return jax.tree.map(jnp.subtract, params, state.previous)


def between(state: Recursion, params: Tree, share: Array) -> Tree:
    """share · θ + (1 − share) · θ₋."""
    return jax.tree.map(lambda new, old: old + jnp.asarray(share, new.dtype) * (new - old), params, state.previous)


def power_of_time(updates: Array, power: Any) -> Array:
    """(t + 1)^−power after t updates."""
    return (1.0 + updates) ** -jnp.asarray(power, float)


def share_of_fresh(updates: Array, fresh: Any, power: Any) -> Array:
    """α_t = min(1, α₀ (t + 1)^−power), and 1 in the first update, which has nothing else."""
    return jnp.where(updates == 0, 1.0, jnp.minimum(1.0, fresh * power_of_time(updates, power)))


def mix(alpha: Any, carried: Tree, fresh: Tree) -> Tree:
    """(1 − α) · carried + α · fresh."""
    return jax.tree.map(lambda c, f: jnp.asarray((1 - alpha) * c + alpha * f, f.dtype), carried, fresh)


def scaled(factor: Any, tree: Tree) -> Tree:
    """factor · tree."""
    return jax.tree.map(lambda x: jnp.asarray(factor * x, x.dtype), tree)


def unit(tree: Tree) -> Tree:
    """d/‖d‖, 0 where d = 0."""
    length = norm(tree)
    return scaled(1 / jnp.where(length == 0, 1, length), tree)


def gradient_there(objective: LocalObjective, params: Tree, largest_ratio: Any) -> Tree:
    """ĝ at other parameters from the same episodes, each counting min(ρ, largest_ratio) times, ρ = Π_t π′/π."""
    there = objective.at(params)
    weight = objective.episode_weight
    limit = jnp.where(weight > 0, largest_ratio * weight, 0)
    return replace(there, episode_weight=jnp.minimum(there.episode_weight, limit)).gradient()


def signed_curvature(curvature: str | Estimator) -> Estimator:
    """An estimator of ∇²J, of its sign: what a positive semi-definite one stands for is −∇²J."""
    made = make_estimator(curvature)
    if made.positive_semi_definite:
        raise wrong(
            "curvature", made.name, "never negative, so no estimate of ∇²J; accepted are causal, lemma and alike"
        )
    return made
