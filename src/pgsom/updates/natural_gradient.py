"""Natural gradients: the gradient in the metric of a Fisher matrix, by conjugate gradients."""

from dataclasses import dataclass, field
from typing import Any

import jax
from jax import Array

from pgsom.checks import check_choice, check_count, check_number, wrong
from pgsom.curvature import Estimator, make_estimator
from pgsom.objective import LocalObjective
from pgsom.updates.conjugate_gradient import Solution, conjugate_gradient
from pgsom.updates.step_length import STEP_LENGTHS, StepLength, scale_to_kl, with_evidence
from pgsom.updates.update_rule import Info, describe

Tree = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NaturalGradient:
    """The gradient divided by a Fisher matrix that is never formed.

        (F + λ I) x = ĝ                  by conjugate gradients, F averaged over steps
        d = x √(2 δ / xᵀFx)              (step_length = "kl"; "rate": d = x)

    With λ = 0 and enough steps d does not depend on how the policy is parameterised.
    """

    damping: Any
    tolerance: Any
    kl_radius: Any
    metric: Estimator = field(metadata={"static": True})
    cg_steps: int = field(metadata={"static": True})
    step_length: StepLength = field(metadata={"static": True})

    def init(self, params: Tree) -> Tree:
        del params
        return ()

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        del params
        gradient = objective.gradient()
        direction = self.solve(objective, gradient).x
        if self.step_length == "kl":
            direction = with_evidence(gradient, scale_to_kl(objective, direction, self.kl_radius))
        return direction, state, describe(gradient, direction)

    def solve(self, objective: LocalObjective, gradient: Tree) -> Solution:
        """X with (F + λ I) x = ĝ."""
        steps = objective.step_weight.sum()
        return conjugate_gradient(
            lambda v: damped(self.metric.product(objective, v), steps, self.damping, v),
            gradient,
            steps=self.cg_steps,
            tolerance=self.tolerance,
        )


def damped(image: Tree, steps: Array, damping: Any, vector: Tree) -> Tree:
    """(M / steps + λ I) v from M v."""
    return jax.tree.map(lambda m, v: m / steps + damping * v, image, vector)


def natural_gradient(
    metric: str | Estimator = "fisher",
    *,
    damping: float = 0.01,
    cg_steps: int = 10,
    tolerance: float = 1e-5,
    step_length: StepLength = "kl",
    kl_radius: float = 0.01,
) -> NaturalGradient:
    """Check the options and build the rule."""
    made = make_estimator(metric)
    if not made.positive_semi_definite:
        raise wrong("metric", metric, "accepted is an estimator that is positive semi-definite, such as fisher")
    check_choice("step_length", step_length, STEP_LENGTHS)
    return NaturalGradient(
        damping=check_number("damping", damping, at_least=0),
        tolerance=check_number("tolerance", tolerance, at_least=0),
        kl_radius=check_number("kl_radius", kl_radius, above=0),
        metric=made,
        cg_steps=check_count("cg_steps", cg_steps),
        step_length=step_length,
    )
