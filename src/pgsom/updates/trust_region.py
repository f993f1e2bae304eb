"""TRPO: the natural gradient step, shortened until the batch itself answers for it."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_count, check_number
from pgsom.folds import largest_of_batch
from pgsom.objective import LocalObjective
from pgsom.updates.natural_gradient import NaturalGradient, natural_gradient
from pgsom.updates.step_length import scale_to_kl
from pgsom.updates.update_rule import Info, describe, inner, norm

Tree = Any


class _Search(NamedTuple):
    tries: Array
    factor: Array
    found: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TrustRegion:
    """The natural gradient at full length, then a backtracking line search.

        (F + λ I) x = ĝ,   s = x √(2 δ / xᵀFx)
        d = βʲ s for the first j = 0, 1, … with
            mean KL(π_θ ‖ π_{θ+d}) ≤ δ   and   L(θ + d) − L(θ) > κ ĝᵀd,
        d = 0, declined, if there is none among the `tries` first

    L is the importance-weighted surrogate and the divergence the batch's own, both computed, not predicted.
    """

    natural: NaturalGradient
    backtrack: Any
    accept: Any
    tries: int = field(metadata={"static": True})

    def init(self, params: Tree) -> Tree:
        return self.natural.init(params)

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        gradient = objective.gradient()
        radius = self.natural.kl_radius
        full = scale_to_kl(objective, self.natural.solve(objective, gradient).x, radius)
        factor = line_search(
            partial(self._acceptable, objective, params, full, inner(gradient, full)), self.backtrack, self.tries
        )
        # A product, so that what is not finite stays so for training to see.
        direction = jax.tree.map(lambda s: factor * s, full)
        declined = (factor == 0) & (norm(gradient) > 0)
        return direction, state, describe(gradient, direction, declined=declined)

    def _acceptable(self, objective: LocalObjective, params: Tree, full: Tree, slope: Array, factor: Array) -> Array:
        """Whether θ + factor · s lies inside the radius and gains enough."""
        there = jax.tree.map(lambda p, s: p + jnp.asarray(factor * s, p.dtype), params, full)
        kl, gain = objective.evaluate(objective.kl_fold(there), objective.gain_fold(there))
        return (kl <= self.natural.kl_radius) & (gain > 0) & (gain >= self.accept * factor * slope)


def line_search(acceptable: Any, backtrack: Any, tries: int) -> Array:
    """The first of 1, β, β², … that is acceptable, 0 if none of the `tries` first is.

    Under `vmap` the search goes on until the last member has found its own.
    """

    def try_next(search: _Search) -> _Search:
        found = search.found | acceptable(search.factor)
        factor = jnp.where(found, search.factor, search.factor * backtrack)
        return _Search(search.tries + 1, factor, found)

    def going(search: _Search) -> Array:
        return (search.tries < tries) & (largest_of_batch((~search.found).astype(jnp.int32)) > 0)

    start = _Search(jnp.zeros((), int), jnp.ones(()), jnp.zeros((), bool))
    end = jax.lax.while_loop(going, try_next, start)
    return jnp.where(end.found, end.factor, 0)


def trust_region(
    *,
    damping: float = 0.01,
    cg_steps: int = 10,
    tolerance: float = 1e-5,
    kl_radius: float = 0.01,
    backtrack: float = 0.5,
    accept: float = 0.0,
    tries: int = 10,
) -> TrustRegion:
    """Check the options and build the rule."""
    return TrustRegion(
        natural=natural_gradient(damping=damping, cg_steps=cg_steps, tolerance=tolerance, kl_radius=kl_radius),
        backtrack=check_number("backtrack", backtrack, above=0, below=1),
        accept=check_number("accept", accept, at_least=0, below=1),
        tries=check_count("tries", tries),
    )
