"""The causal policy Hessian: per step, only what can matter, all of it or less and less of what lies further back."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_count, check_number
from pgsom.curvature.log_density import log_density_diagonal
from pgsom.folds import Fold, map_fold
from pgsom.objective import LocalObjective
from pgsom.policies import derivatives
from pgsom.policies.derivatives import Chunk
from pgsom.returns import returns_to_go, sums_so_far

Tree = Any


@dataclass(frozen=True)
class CausalHessian:
    """Σ_t w_t [∇²ℓ_t + z_t z_tᵀ + z_t c_{t−1}ᵀ + c_{t−1} z_tᵀ],  c_t = Σ_{k≤t} z_k, averaged over episodes.

    Unbiased under the lemma's discounting, and with a baseline, since w_t multiplies all terms (subtracted in one
    of them only, it is biased). With a state-value baseline it equals Loaded DiCE at λ = 1. The diagonal is
    Σ_t w_t [diag ∇²ℓ_t + z_t² + 2 z_t ⊙ c_{t−1}]. `probes` as in `LogDensityHessian`.
    """

    probes: int = 0
    name: ClassVar[str] = "causal"
    estimates: ClassVar[str] = "∇²J by the causal form: a score only with later rewards"
    biased: ClassVar[bool] = False
    positive_semi_definite: ClassVar[bool] = False

    def diagonal(self, objective: LocalObjective) -> Fold:
        return causal_diagonal(objective, self.probes, 1.0)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return causal_product(objective, vector, 1.0)


@dataclass(frozen=True)
class DecayedCausal:
    """The causal form with what lies k steps back counted λᵏ times: Loaded DiCE with its λ.

        Σ_t w_t [∇²ℓ_t + z_t z_tᵀ + λ (z_t c_{t−1}ᵀ + c_{t−1} z_tᵀ)],   c_t = z_t + λ c_{t−1}

    λ = 1 is the causal form, unbiased; λ = 0 the one without cross terms, quiet; in between, bias is traded for
    variance. λ is structure: another value compiles anew.
    """

    decay: float = 0.9
    probes: int = 0
    name: ClassVar[str] = "causal-decay"
    estimates: ClassVar[str] = (
        "E[Σ w (∇² ln π + z zᵀ + cross terms, less by λ a step)]: Loaded DiCE, 0.9 or causal-decay:λ"
    )
    positive_semi_definite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_number("decay", self.decay, at_least=0, at_most=1)
        check_count("probes", self.probes, at_least=0)

    @property
    def biased(self) -> bool:
        return self.decay < 1

    def diagonal(self, objective: LocalObjective) -> Fold:
        return causal_diagonal(objective, self.probes, self.decay)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return causal_product(objective, vector, self.decay)


@dataclass(frozen=True)
class WithoutCrossTerms:
    """Σ_n e Σ_t w_t (∇²ℓ_t + z_t z_tᵀ): every step for itself.

    Furmston and Barber's first Gauss-Newton matrix, the low-variance curvature of ProMP, Loaded DiCE at λ = 0. Biased
    for ∇²J by the cross terms, which carry most of the noise.
    """

    probes: int = 0
    name: ClassVar[str] = "without-cross"
    estimates: ClassVar[str] = "E[Σ w (∇² ln π + z zᵀ)]: Furmston's first, ∇²J without the cross terms"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = False

    def diagonal(self, objective: LocalObjective) -> Fold:
        log_density = log_density_diagonal(objective, self.probes)

        def of_chunk(policy: Any, params: Tree, chunk: Chunk, weights: Array) -> Tree:
            squares = derivatives.squared_score_sum(policy, params, chunk, weights)
            return jax.tree.map(jnp.add, squares, log_density(policy, params, chunk, weights))

        return objective.sum_over_steps(of_chunk, objective.score_weight)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        def of_chunk(policy: Any, params: Tree, chunk: Chunk, weights: Array) -> Tree:
            s = derivatives.directional_scores(policy, params, chunk, vector)
            outer = derivatives.score_sum(policy, params, chunk, weights * s)
            return jax.tree.map(jnp.add, outer, derivatives.hessian_product(policy, params, chunk, weights, vector))

        return objective.evaluate(objective.sum_over_steps(of_chunk, objective.score_weight))[0]


def causal_diagonal(objective: LocalObjective, probes: int, decay: float) -> Fold:
    """Σ_t w_t [diag ∇²ℓ_t + z_t² + 2 λ z_t ⊙ c_{t−1}], c carried from chunk to chunk."""
    policy, params, e_w = objective.policy, objective.params, objective.score_weight
    log_density = log_density_diagonal(objective, probes)

    def step(carry: tuple[Tree, Tree], arrays: tuple[Chunk, Any, Any], start: Any) -> tuple[Tree, Tree]:
        del start
        c, total = carry
        seen, weights, begins = arrays
        squares, c = derivatives.causal_square_sum(policy, params, seen, weights, c, decay, begins)
        return c, jax.tree.map(lambda *parts: sum(parts), total, squares, log_density(policy, params, seen, weights))

    zeros = derivatives.zero_scores(params, e_w.shape[1])
    arrays = (objective.chunk, e_w, objective.begins)
    return Fold((zeros, jax.tree.map(jnp.zeros_like, params)), step, arrays, lambda carry: carry[1])


def causal_product(objective: LocalObjective, vector: Tree, decay: float) -> Tree:
    """Two passes: with s_t = z_t·v the score terms are Σ_t (w_t Σ_{k≤t} λ^{t−k} s_k + Σ_{k>t} λ^{k−t} w_k s_k) z_t."""
    policy, params, e_w = objective.policy, objective.params, objective.score_weight
    (s,) = objective.evaluate(
        map_fold(lambda chunk: derivatives.directional_scores(policy, params, chunk, vector), objective.chunk)
    )
    mask, w_s, begins = objective.rollout.mask, e_w * s, objective.begins
    so_far = sums_so_far(s * mask, begins, decay)
    behind = returns_to_go(w_s, decay, begins) - w_s
    score_weight = e_w * so_far + behind * mask

    def of_chunk(policy: Any, params: Tree, chunk: Chunk, outer: Any, weights: Any) -> Tree:
        return jax.tree.map(
            jnp.add,
            derivatives.score_sum(policy, params, chunk, outer),
            derivatives.hessian_product(policy, params, chunk, weights, vector),
        )

    return objective.evaluate(objective.sum_over_steps(of_chunk, score_weight, e_w))[0]
