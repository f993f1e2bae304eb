"""What an update rule is: ``init(params) -> state``, ``update(objective, state, params) -> (direction, state, info)``.

A direction climbs: the method adds learning_rate × direction to the parameters. A rule that sets its own step
length is used with learning rate 1. Rules are pytrees whose numbers are leaves, so they can be vmapped.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.objective import LocalObjective

Tree = Any


class Info(NamedTuple):
    """What every rule reports of an update; scalars."""

    gradient_norm: Array
    direction_norm: Array
    alignment: Array
    """Cosine of the angle between direction and gradient."""
    negative_curvature: Array
    """Share of the entries of the curvature in use that are negative; 0 for rules without curvature, NaN if one of
    the entries is not finite."""
    declined: Array
    """1 if the rule found no step that it could answer for and stayed where it was, else 0."""


@runtime_checkable
class UpdateRule(Protocol):
    """What every rule offers."""

    def init(self, params: Tree) -> Tree:
        """The state before the first update."""
        ...

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        """The direction to climb, the next state, and what to report."""
        ...


@runtime_checkable
class RoamingRule(UpdateRule, Protocol):
    """A rule that says where its episodes are played: elsewhere than at θ, or at several points.

    Each point costs a batch. The objectives of the points behind the first are further arguments of `update`.
    """

    @property
    def batches(self) -> int:
        """The number of points."""
        ...

    def points(self, state: Tree, params: Tree, key: Array) -> tuple[Tree, ...]:
        """The parameters at which to play a batch each."""
        ...

    def update(
        self, objective: LocalObjective, state: Tree, params: Tree, *others: LocalObjective
    ) -> tuple[Tree, Tree, Info]:
        """As every rule's, with what the batches at the other points say."""
        ...


@runtime_checkable
class PacedRule(UpdateRule, Protocol):
    """A rule that takes several steps in an update, at a rate of its own."""

    def slowed(self, factor: Any) -> UpdateRule:
        """The rule with its rate times `factor`."""
        ...


def batches_of(rule: UpdateRule) -> int:
    """How many batches one update of the rule plays."""
    return rule.batches if isinstance(rule, RoamingRule) else 1


def points_of(rule: UpdateRule, state: Tree, params: Tree, key: Array) -> tuple[Tree, ...]:
    """Where the rule's batches are played: at θ, unless it says otherwise."""
    return rule.points(state, params, key) if isinstance(rule, RoamingRule) else (params,)


def update_from(
    rule: UpdateRule, objectives: Sequence[LocalObjective], state: Tree, params: Tree
) -> tuple[Tree, Tree, Info]:
    """The rule's update from one objective for each of its points."""
    first, *others = objectives
    if isinstance(rule, RoamingRule):
        return rule.update(first, state, params, *others)
    return rule.update(first, state, params)


def describe(gradient: Tree, direction: Tree, curvature: Tree | None = None, *, declined: Any = 0) -> Info:
    """`Info` for this gradient, direction and curvature diagonal."""
    gradient_norm, direction_norm = norm(gradient), norm(direction)
    alignment = inner(gradient, direction) / jnp.maximum(gradient_norm * direction_norm, 1e-30)
    stayed = jnp.asarray(declined, jnp.int32)
    return Info(gradient_norm, direction_norm, alignment, share_negative(curvature), stayed)


def inner(a: Tree, b: Tree) -> Array:
    """Σ_i a_i b_i over all leaves."""
    return sum(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.sum(x * y), a, b)), jnp.zeros(()))


def norm(tree: Tree) -> Array:
    """Euclidean norm over all leaves."""
    return jnp.sqrt(inner(tree, tree))


def share_negative(tree: Tree | None) -> Array:
    """The share of entries below 0; NaN if one of them is not finite."""
    leaves = jax.tree.leaves(tree)
    if not leaves:
        return jnp.zeros(())
    negative = sum(jnp.sum(leaf < 0) for leaf in leaves)
    share = jnp.asarray(negative / sum(leaf.size for leaf in leaves), leaves[0].dtype)
    return jnp.where(all_finite(tree), share, jnp.nan)


def all_finite(tree: Tree) -> Array:
    """Whether no floating-point entry is NaN or infinite."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.all(jnp.asarray([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
