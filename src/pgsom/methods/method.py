"""What a method is: everything about learning except the environment and the policy.

Numbers in it are leaves: methods that differ only in numbers run in one compiled program (`pgsom.sweep`).
"""

from dataclasses import dataclass, field
from typing import Any

import jax

from pgsom.baselines import Baseline, make_baseline
from pgsom.checks import check_choice, check_count, check_number, wrong
from pgsom.collectors import Plan
from pgsom.objective import REDUCTIONS, Reduction, Weighting
from pgsom.returns import DISCOUNTINGS, Discounting
from pgsom.schemes import STAGE_DATA, Scheme, StageData, make_scheme
from pgsom.updates import Clipping, UpdateRule, roams
from pgsom.updates.update_rule import batches_of

INFINITE = float("inf")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Method:
    """A method, assembled: θ ← θ + η clip(Σ_i b_i d(θ_i)), d the rule's direction, (a, b) the scheme."""

    name: str = field(metadata={"static": True})
    rule: UpdateRule
    learning_rate: Any
    weighting: Weighting
    clipping: Clipping
    freeze_after: Any
    scheme: Scheme = field(metadata={"static": True})
    stage_data: StageData = field(metadata={"static": True})
    plan: Plan = field(metadata={"static": True})

    @property
    def batches_per_update(self) -> int:
        """Batches that one update plays, all stages counted."""
        return (self.scheme.stages if self.stage_data == "fresh" else 1) * batches_of(self.rule)

    @property
    def episodes_per_update(self) -> int:
        """Episodes that one update consumes, all stages counted; of a method that plays whole episodes."""
        return self.plan.environments * self.batches_per_update

    @property
    def steps_per_update(self) -> int:
        """Environment steps that one update takes, all stages counted; 0 for a method that plays whole episodes."""
        return self.plan.steps * self.plan.environments * self.batches_per_update


@dataclass(frozen=True)
class Common:
    """What every method accepts: how much data, how it is weighted, and the stabilisers."""

    batch: int = 4
    """episodes in one batch; a scheme with fresh stages plays one batch a stage"""
    discount: float = 0.99
    """γ"""
    discounting: Discounting = "appendix"
    """how γ enters the weights"""
    reduction: Reduction = "sum"
    """what is done with the steps of an episode"""
    baseline: str | Baseline = "leave-one-out"
    """what is subtracted from the return-to-go"""
    baseline_value: float = 0.0
    """the constant baseline's value"""
    baseline_decay: float = 0.9
    """the moving-average baseline's decay"""
    entropy: float = 0.0
    """coefficient of the entropy bonus"""
    clip_norm: float = INFINITE
    """largest Euclidean norm of the direction"""
    clip_elements: float = INFINITE
    """largest absolute value of an element of the direction"""
    freeze_after: float = 20
    """updates in a row that may fail (something in them not finite) before a seed is frozen"""
    scheme: str | Scheme | None = None
    """Runge-Kutta scheme; the method's own if not given"""
    alpha: float = 0.5
    """weight of the first stage in the paper's scheme"""
    stage_data: StageData = "fresh"
    """where later stages get their episodes"""


DEFAULTS = Common()


def assemble(
    name: str, rule: UpdateRule, learning_rate: float = 1.0, common: Common = DEFAULTS, *, scheme: str = "euler"
) -> Method:
    """A method from any rule; `scheme` is the one used where `common` names none."""
    check_count("batch", common.batch)
    check_choice("discounting", common.discounting, DISCOUNTINGS)
    check_choice("reduction", common.reduction, REDUCTIONS)
    check_choice("stage_data", common.stage_data, STAGE_DATA)
    if common.stage_data == "reweighted" and roams(rule):
        raise wrong("stage_data", common.stage_data, f"{name} plays episodes where it chooses; accepted is fresh")
    baseline = make_baseline(
        common.baseline, value=common.baseline_value, decay=common.baseline_decay, episodes=common.batch
    )
    return Method(
        name=name,
        rule=rule,
        learning_rate=check_number("learning_rate", learning_rate, above=0),
        weighting=Weighting(
            discount=check_number("discount", common.discount, at_least=0, at_most=1),
            baseline=baseline,
            entropy=check_number("entropy", common.entropy, at_least=0),
            discounting=common.discounting,
            reduction=common.reduction,
        ),
        clipping=Clipping(
            norm=check_number("clip_norm", common.clip_norm, above=0, infinite=True),
            elements=check_number("clip_elements", common.clip_elements, above=0, infinite=True),
        ),
        freeze_after=check_number("freeze_after", common.freeze_after, at_least=1, infinite=True),
        scheme=make_scheme(common.scheme or scheme, common.alpha),
        stage_data=common.stage_data,
        plan=Plan(common.batch),
    )
