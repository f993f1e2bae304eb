"""The causal policy Hessian: per step, only what can matter."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from pgsom.curvature.log_density import log_density_diagonal
from pgsom.folds import Fold, map_fold
from pgsom.objective import LocalObjective
from pgsom.policies import derivatives
from pgsom.policies.derivatives import Chunk
from pgsom.returns import piece_sums, sums_so_far

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
        policy, params, e_w = objective.policy, objective.params, objective.score_weight
        log_density = log_density_diagonal(objective, self.probes)

        def step(carry: tuple[Tree, Tree], arrays: tuple[Chunk, Any, Any], start: Any) -> tuple[Tree, Tree]:
            del start
            c, total = carry
            chunk, weights, begins = arrays
            squares, c = derivatives.causal_square_sum(policy, params, chunk, weights, c, begins)
            return c, jax.tree.map(
                lambda *parts: sum(parts), total, squares, log_density(policy, params, chunk, weights)
            )

        zeros = derivatives.zero_scores(params, e_w.shape[1])
        arrays = (objective.chunk, e_w, objective.begins)
        return Fold((zeros, jax.tree.map(jnp.zeros_like, params)), step, arrays, lambda carry: carry[1])

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        """Two passes: with s_t = z_t·v the score terms are Σ_t (w_t Σ_{k≤t} s_k + Σ_{k>t} w_k s_k) z_t."""
        policy, params, e_w = objective.policy, objective.params, objective.score_weight
        (s,) = objective.evaluate(
            map_fold(lambda chunk: derivatives.directional_scores(policy, params, chunk, vector), objective.chunk)
        )
        w_s = e_w * s
        begins, mask = objective.begins, objective.rollout.mask
        behind = piece_sums(w_s, begins) - sums_so_far(w_s, begins)
        score_weight = e_w * sums_so_far(s * mask, begins) + behind * mask

        def of_chunk(policy: Any, params: Tree, chunk: Chunk, outer: Any, weights: Any) -> Tree:
            return jax.tree.map(
                jnp.add,
                derivatives.score_sum(policy, params, chunk, outer),
                derivatives.hessian_product(policy, params, chunk, weights, vector),
            )

        return objective.evaluate(objective.sum_over_steps(of_chunk, score_weight, e_w))[0]
