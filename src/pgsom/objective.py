"""LocalObjective: all that one batch of episodes says about J near θ.

Update rules see this object and nothing else of reinforcement learning. What a rule does not ask for is never
traced. Every quantity is a `Fold` over the steps that were taken (`pgsom.folds`); `evaluate` runs several in one
pass. Notation: episode n has weight e_n (1/N for sums over steps, 1/Σ steps for means), step t of it the score
z_t = ∇ ln π_θ(a_t|s_t) and the weight w_t = d_t (G_t − b_t) of `pgsom.returns`, 0 where no step was taken.

With an entropy coefficient c the gradient is that of J + c·E[Σ_t d_t H(π_θ(·|s_t))], which has two parts: the
entropy of the visited states changes with θ, and so does which states are visited,

    Σ_t d_t ∇H_t + Σ_t z_t Σ_{k>t} d_k H_k.

Curvature is that of J alone.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.baselines import Baseline
from pgsom.collectors import Batch
from pgsom.critic import Critic
from pgsom.environments import Spec
from pgsom.folds import Fold, map_fold, run, sum_fold
from pgsom.policies import Policy, derivatives
from pgsom.policies.derivatives import Chunk, over_steps
from pgsom.returns import Discounting, piece_sums, pieces_of, rate_of, returns_to_go, step_factors, sums_so_far

Tree = Any
Reduction = Literal["sum", "mean"]
REDUCTIONS: dict[str, str] = {
    "sum": "sum over the steps of an episode, mean over episodes",
    "mean": "mean over all steps of the batch",
}


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Weighting:
    """How rewards become weights: discounting, baseline, reduction over steps, entropy coefficient."""

    discount: Any
    baseline: Baseline | Critic
    entropy: Any
    discounting: Discounting = field(metadata={"static": True})
    reduction: Reduction = field(metadata={"static": True})

    @property
    def rate(self) -> Any:
        """γ by which what comes later is summed; 1 if undiscounted."""
        return rate_of(self.discounting, self.discount)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LocalObjective:
    """One batch, bound to the policy and parameters at which it is differentiated."""

    policy: Policy = field(metadata={"static": True})
    params: Tree
    rollout: Batch
    key: Array
    """Randomness for estimators that sample; each folds in a number of its own."""
    outputs: Array
    """[time, env, output]; the distribution at `params`."""
    weight: Array
    """w [time, env]"""
    episode_weight: Array
    """e [env]; [time, env] where a column holds several pieces that count differently"""
    entropy_to_go: Array
    """c Σ_{k>t} d_k H_k [time, env]"""
    entropy_weight: Array
    """c d_t [time, env]"""
    rate: Any
    """γ by which what comes later is summed; 1 if undiscounted."""
    lesson: Any
    """What the baseline may learn of this batch: returns-to-go, or a critic's `Lesson`."""

    @property
    def chunk(self) -> Chunk:
        """What was seen and done, [time, env]."""
        return Chunk(self.rollout.observation, self.rollout.action)

    @property
    def begins(self) -> Array | None:
        """[time, env]; the first step of every piece, if a column holds several."""
        return pieces_of(self.rollout)

    @property
    def step_weight(self) -> Array:
        """e on every step that was taken [time, env]."""
        return self.rollout.mask * self.episode_weight

    @property
    def score_weight(self) -> Array:
        """e w [time, env]."""
        return self.episode_weight * self.weight

    def evaluate(self, *folds: Fold) -> tuple[Tree, ...]:
        """The folds' results, in one pass over the steps taken."""
        return run(folds, self.rollout.filled)

    def sum_over_steps(self, function: Any, *arrays: Array) -> Fold:
        """Σ over chunks of ``function(policy, params, chunk, *arrays)``, arrays being [time, env]."""
        return sum_fold(lambda chunk: function(self.policy, self.params, *chunk), (self.chunk, *arrays))

    def gradient_fold(self) -> Fold:
        """Σ_n e Σ_t (w_t + c Σ_{k>t} d_k H_k) z_t + c d_t ∇H_t."""
        weights = (self.episode_weight * (self.weight + self.entropy_to_go), self.episode_weight * self.entropy_weight)
        return self.sum_over_steps(derivatives.surrogate_gradient, *weights)

    def gradient(self) -> Tree:
        """∇J (+ c times the entropy's), estimated."""
        return self.evaluate(self.gradient_fold())[0]

    def fisher_product(self, vector: Tree) -> Tree:
        """F v with F = Σ_n e Σ_t E_a[z zᵀ], exact over actions."""
        return self.evaluate(self.sum_over_steps(partial(derivatives.fisher_product, vector=vector), self.step_weight))[
            0
        ]

    def kronecker_fold(self) -> Fold:
        """A and G of every layer, averaged over steps: the Fisher matrix of the layer is approximately A ⊗ G."""
        steps = self.step_weight.sum()
        of_chunks = self.sum_over_steps(derivatives.kronecker_factors, self.step_weight)
        return of_chunks._replace(finish=lambda sums: jax.tree.map(lambda total: total / steps, sums))

    def mean_step_curvature(self, vector: Tree) -> Array:
        """vᵀ F v for F averaged over steps: twice the mean KL divergence per step of moving by a small v."""

        def of_chunk(chunk: tuple[Chunk, Array]) -> Array:
            (seen, weight) = chunk
            u, moved = jax.jvp(
                lambda p: derivatives.outputs(self.policy, p, seen.observation), (self.params,), (vector,)
            )
            factor = over_steps(self.policy.distribution.fisher_factor)(u)
            return jnp.sum(weight * jnp.sum(jnp.square(jnp.einsum("teoc,teo->tec", factor, moved)), axis=-1))

        return self.evaluate(sum_fold(of_chunk, (self.chunk, self.step_weight)))[0] / self.step_weight.sum()

    def kl_fold(self, params: Tree) -> Fold:
        """Mean over steps of KL(π_θ(·|s_t) ‖ π_params(·|s_t)), θ being where the objective stands."""

        def of_chunk(chunk: tuple[Array, Array, Array]) -> Array:
            observation, old, weight = chunk
            new = derivatives.outputs(self.policy, params, observation)
            return jnp.sum(weight * over_steps(self.policy.distribution.kl)(old, new))

        arrays = (self.rollout.observation, self.outputs, self.step_weight)
        return sum_fold(of_chunk, arrays, lambda total: total / self.step_weight.sum())

    def kl(self, params: Tree) -> Array:
        """`kl_fold`, evaluated."""
        return self.evaluate(self.kl_fold(params))[0]

    def at(self, params: Tree) -> "LocalObjective":
        """The same episodes as evidence about J at other parameters, by importance weights.

        Episode (or piece) n counts ρ_n = Π_t π_params(a_t|s_t)/π_θ(a_t|s_t) times as much, so that the expectation of
        every estimator is what it would be for episodes played at `params`.
        """
        policy, rollout = self.policy, self.rollout
        (outputs,) = self.evaluate(
            map_fold(lambda seen: derivatives.outputs(policy, params, seen), rollout.observation)
        )
        log_prob = over_steps(policy.distribution.log_prob)
        ratio = (log_prob(outputs, rollout.action) - log_prob(self.outputs, rollout.action)) * rollout.mask
        entropy = over_steps(policy.distribution.entropy)(outputs) * rollout.mask
        return replace(
            self,
            params=params,
            outputs=outputs,
            episode_weight=self.episode_weight * jnp.exp(piece_sums(ratio, self.begins)),
            entropy_to_go=self.entropy_weight * (returns_to_go(entropy, self.rate, self.begins) - entropy),
        )

    def gain_fold(self, params: Tree, *, whole_past: bool = False) -> Fold:
        """What moving to `params` gains by the surrogate, Σ_n e Σ_t (w_t + c Σ_{k>t} d_k H_k) (ρ_t − 1) + c d_t ΔH_t.

        ρ_t = π_params(a_t|s_t)/π_θ(a_t|s_t); its gradient at θ is the estimate of ∇J. With `whole_past` step t counts
        Π_{k<t} ρ_k times as much: the estimate of J(params) − J(θ) by importance weights, whose Hessian at θ is the
        causal one.
        """
        head = self.policy.distribution

        def step(
            carry: tuple[Array, Array], arrays: tuple[Chunk, Array, Array, Array, Array, Any], start: Array
        ) -> Any:
            del start
            seen, old, taken, weight, entropy_weight, begins = arrays
            past, total = carry
            new = derivatives.outputs(self.policy, params, seen.observation)
            log_ratio = over_steps(head.log_prob)(new, seen.action) - over_steps(head.log_prob)(old, seen.action)
            log_ratio = log_ratio * taken
            gained = weight * jnp.expm1(log_ratio)
            if whole_past:
                goes_on = past if begins is None else jnp.where(begins[0], 0, past)
                so_far = sums_so_far(log_ratio.at[0].add(goes_on), begins)
                gained, past = gained * jnp.exp(so_far - log_ratio), so_far[-1]
            entropy = over_steps(head.entropy)(new) - over_steps(head.entropy)(old)
            return past, total + jnp.sum(gained + entropy_weight * entropy)

        weight = self.episode_weight * (self.weight + self.entropy_to_go)
        entropy_weight = self.episode_weight * self.entropy_weight
        arrays = (self.chunk, self.outputs, self.rollout.mask, weight, entropy_weight, self.begins)
        nothing = jnp.zeros((), weight.dtype)
        return Fold((nothing * weight[0], nothing), step, arrays, lambda carry: carry[1])

    def value(self, params: Tree) -> Array:
        """The surrogate Σ_n e Σ_t w_t ρ_t, with the entropy bonus less that at θ."""
        return self.evaluate(self.gain_fold(params))[0] + jnp.sum(self.score_weight)


def observe(
    weighting: Weighting, baseline_state: Tree, policy: Policy, params: Tree, rollout: Batch, key: Array
) -> LocalObjective:
    """What episodes collected at `params` say about J there."""
    mask, rate = rollout.mask, weighting.rate
    advantage, lesson = _judge(weighting, baseline_state, rollout)
    factors = step_factors(weighting.discounting, weighting.discount, rollout.time)
    entropy = over_steps(policy.distribution.entropy)(rollout.outputs) * mask
    later = returns_to_go(entropy, rate, pieces_of(rollout)) - entropy
    return LocalObjective(
        policy=policy,
        params=params,
        rollout=rollout,
        key=key,
        outputs=rollout.outputs,
        weight=mask * factors * advantage,
        episode_weight=_episode_weight(weighting.reduction, rollout),
        entropy_to_go=weighting.entropy * mask * factors * later,
        entropy_weight=weighting.entropy * mask * factors,
        rate=rate,
        lesson=lesson,
    )


def start_baseline(weighting: Weighting, observation: Spec, key: Array) -> Tree:
    """The baseline's state before any batch, for a policy that sees observations like these."""
    baseline = weighting.baseline
    return baseline.init(observation, key) if isinstance(baseline, Critic) else baseline.init()


def update_baseline(weighting: Weighting, baseline_state: Tree, objective: LocalObjective, key: Array) -> Tree:
    """The baseline's state after the batch that the objective was observed in."""
    baseline = weighting.baseline
    if isinstance(baseline, Critic):
        return baseline.learn(baseline_state, objective.rollout, objective.lesson, key)
    return baseline.update(baseline_state, objective.lesson)


def _judge(weighting: Weighting, baseline_state: Tree, rollout: Batch) -> tuple[Array, Any]:
    """G − b, or what a critic says instead of it; and what the baseline may learn of the batch."""
    baseline = weighting.baseline
    if isinstance(baseline, Critic):
        return baseline.judge(baseline_state, rollout, weighting.rate)
    returns = returns_to_go(rollout.reward * rollout.reward_scale, weighting.rate, pieces_of(rollout))
    return returns - baseline.values(baseline_state, returns, rollout.mask), returns


def _episode_weight(reduction: Reduction, rollout: Batch) -> Array:
    columns = rollout.reward.shape[1]
    share = 1 / columns if reduction == "sum" else 1 / rollout.steps
    return jnp.full(columns, share, rollout.reward.dtype)
