"""What a method is: everything about learning except the environment and the policy.

Numbers in it are leaves: methods that differ only in numbers run in one compiled program (`pgsom.sweep`).
"""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp

from pgsom.advantages import Advantage
from pgsom.baselines import Baseline, make_baseline
from pgsom.checks import check_choice, check_count, check_flag, check_number, wrong
from pgsom.collectors import BatchPlan
from pgsom.critic import Critic, Optimiser, make_critic
from pgsom.objective import REDUCTIONS, Reduction, Weighting
from pgsom.returns import DISCOUNTINGS, Discounting
from pgsom.schemes import STAGE_DATA, Scheme, StageData, make_scheme
from pgsom.updates import Clipping, UpdateRule, roams
from pgsom.updates.update_rule import PacedRule, batches_of

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
    plan: BatchPlan = field(metadata={"static": True})
    rate_decay: Any = 0.0
    """share of all learning rates that is gone by the end of the run"""
    planned: Any = INFINITE
    """updates that the run is to make, over which learning rates fall linearly"""

    def at(self, updates: Any) -> "Method":
        """With the learning rates of the update behind `updates` others: all × (1 − decay · updates/planned)."""
        factor = 1 - self.rate_decay * jnp.minimum(updates / self.planned, 1)
        baseline = self.weighting.baseline
        if isinstance(baseline, Critic):
            baseline = replace(baseline, learning_rate=baseline.learning_rate * factor)
        method = replace(self, weighting=replace(self.weighting, baseline=baseline))
        if isinstance(self.rule, PacedRule):
            return replace(method, rule=self.rule.slowed(factor))
        return replace(method, learning_rate=self.learning_rate * factor)

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
    steps: int = 0
    """of each environment in a batch, `batch` being environments; 0: whole episodes"""
    baseline: str | Baseline | Critic = "leave-one-out"
    """what is subtracted from the return-to-go"""
    baseline_value: float = 0.0
    """the constant baseline's value"""
    baseline_decay: float = 0.9
    """the moving-average baseline's decay"""
    advantage: Advantage = "gae"
    """how a critic judges"""
    gae_lambda: float = 1.0
    """λ of the advantages"""
    n_step: int = 5
    """rewards in an n-step advantage"""
    td_lambda: float = 1.0
    """λ of the critic's targets"""
    bootstrap: bool = True
    """whether an episode cut off by its time limit is worth what the critic says"""
    critic_rate: float = 0.003
    """the critic's learning rate"""
    critic_epochs: int = 10
    """the critic's passes over a batch"""
    critic_minibatches: int = 1
    """into which each pass is cut"""
    critic_clip: float = INFINITE
    """how far V may move from its old value to lower its loss"""
    critic_clip_norm: float = INFINITE
    """largest norm of the critic's gradient"""
    critic_optimiser: Optimiser = "adam"
    """what fits the critic"""
    critic_hidden: tuple[int, ...] = (64, 64)
    """widths of the critic's hidden layers"""
    critic_activation: str = "tanh"
    """of the critic's hidden layers"""
    normalise_observations: bool = False
    """whether the policy sees observations less their running mean, by their standard deviation"""
    normalise_rewards: bool = False
    """whether rewards are divided by the running standard deviation of the return"""
    rate_decay: float = 0.0
    """share of the learning rates that is gone by the end of the run, linearly"""
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
    check_count("steps", common.steps, at_least=0)
    check_choice("discounting", common.discounting, DISCOUNTINGS)
    check_choice("reduction", common.reduction, REDUCTIONS)
    check_choice("stage_data", common.stage_data, STAGE_DATA)
    if common.stage_data == "reweighted" and roams(rule):
        raise wrong("stage_data", common.stage_data, f"{name} plays episodes where it chooses; accepted is fresh")
    return Method(
        name=name,
        rule=rule,
        learning_rate=check_number("learning_rate", learning_rate, above=0),
        weighting=Weighting(
            discount=check_number("discount", common.discount, at_least=0, at_most=1),
            baseline=_baseline(common),
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
        plan=BatchPlan(
            common.batch,
            common.steps,
            check_flag("normalise_observations", common.normalise_observations),
            check_flag("normalise_rewards", common.normalise_rewards),
        ),
        rate_decay=check_number("rate_decay", common.rate_decay, at_least=0, at_most=1),
    )


def _baseline(common: Common) -> Baseline | Critic:
    """The baseline that these options describe, fit for the batches that they describe."""
    if isinstance(common.baseline, Critic):
        return common.baseline
    if common.baseline == "critic":
        return make_critic(
            learning_rate=common.critic_rate,
            gae_lambda=common.gae_lambda,
            td_lambda=common.td_lambda,
            n_step=common.n_step,
            clip=common.critic_clip,
            clip_norm=common.critic_clip_norm,
            advantage=common.advantage,
            bootstrap=common.bootstrap,
            epochs=common.critic_epochs,
            minibatches=common.critic_minibatches,
            optimiser=common.critic_optimiser,
            hidden=common.critic_hidden,
            activation=common.critic_activation,
        )
    if common.steps:
        accepted = "a segment's end is worth what a critic says; accepted is critic, or steps=0 for whole episodes"
        raise wrong("baseline", common.baseline, accepted)
    return make_baseline(
        common.baseline, value=common.baseline_value, decay=common.baseline_decay, episodes=common.batch
    )
