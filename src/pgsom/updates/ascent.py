"""First-order rules: the plain gradient, and any optax transform."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import optax
from jax import Array

from pgsom.objective import LocalObjective
from pgsom.updates.update_rule import Info, RoamingRule, UpdateRule, batches_of, describe, points_of, update_from

Tree = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ascent:
    """direction = ĝ."""

    def init(self, params: Tree) -> Tree:
        del params
        return ()

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        del params
        gradient = objective.gradient()
        return gradient, state, describe(gradient, gradient)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lifted:
    """An optax transform as a rule, see `from_optax`."""

    make: Callable[..., optax.GradientTransformation] = field(metadata={"static": True})
    numbers: dict[str, Any]
    structure: tuple[tuple[str, Any], ...] = field(metadata={"static": True})

    def transform(self) -> optax.GradientTransformation:
        """The optax transform, with the present numbers."""
        return self.make(**self.numbers, **dict(self.structure))

    def init(self, params: Tree) -> Tree:
        return self.transform().init(params)

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        """optax descends: it is given −ĝ, the gradient of −J, and what it returns is added to the parameters."""
        gradient = objective.gradient()
        direction, state = self.transform().update(jax.tree.map(lambda g: -g, gradient), state, params)
        return direction, state, describe(gradient, direction)


def from_optax(make: Callable[..., optax.GradientTransformation], **options: Any) -> Lifted:
    """Lift an optax optimiser: ``from_optax(optax.adam, learning_rate=1e-3)``.

    Floats among the options are leaves that can be vmapped; everything else is structure. The optimiser has its
    own learning rate, so the method's is 1. A transform that is already built is lifted by
    ``from_optax(lambda: transform)``, its numbers then being constants.
    """
    numbers = {name: value for name, value in options.items() if _is_number(value)}
    structure = tuple(sorted((name, value) for name, value in options.items() if not _is_number(value)))
    return Lifted(make, numbers, structure)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Followed:
    """A rule whose direction then passes through optax transforms, in order."""

    rule: UpdateRule
    transforms: tuple[Lifted, ...]

    @property
    def batches(self) -> int:
        """Those of the rule itself."""
        return batches_of(self.rule)

    def points(self, state: Tree, params: Tree, key: Array) -> tuple[Tree, ...]:
        """Those of the rule itself."""
        return points_of(self.rule, state[0], params, key)

    def init(self, params: Tree) -> Tree:
        return (self.rule.init(params), tuple(t.transform().init(params) for t in self.transforms))

    def update(
        self, objective: LocalObjective, state: Tree, params: Tree, *others: LocalObjective
    ) -> tuple[Tree, Tree, Info]:
        rule_state, transform_states = state
        direction, rule_state, info = update_from(self.rule, (objective, *others), rule_state, params)
        after = []
        for lifted, transform_state in zip(self.transforms, transform_states, strict=True):
            direction, transform_state = lifted.transform().update(direction, transform_state, params)
            after.append(transform_state)
        return direction, (rule_state, tuple(after)), info


def followed_by(rule: UpdateRule, *transforms: Lifted) -> Followed:
    """``followed_by(som(…), from_optax(optax.clip_by_global_norm, max_norm=1.0))``: the order is as written.

    The transforms act on a direction that climbs, so those that scale by −learning_rate do not belong here.
    """
    return Followed(rule, transforms)


def roams(rule: UpdateRule) -> bool:
    """Whether the rule, or the one that is followed, plays episodes elsewhere than at θ."""
    return roams(rule.rule) if isinstance(rule, Followed) else isinstance(rule, RoamingRule)


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (hasattr(value, "dtype") and hasattr(value, "shape"))
