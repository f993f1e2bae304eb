"""Lemma 1 of the paper, as printed."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from pgsom.curvature.log_density import LogDensityHessian, log_density_diagonal
from pgsom.folds import Fold, map_fold, sum_fold
from pgsom.objective import LocalObjective
from pgsom.policies import derivatives
from pgsom.policies.derivatives import Chunk
from pgsom.returns import piece_sums

Tree = Any


@dataclass(frozen=True)
class LemmaHessian:
    """∇²Ψ + (∇ ln p)(∇Ψ)ᵀ,  ∇ ln p = Σ_t z_t,  ∇Ψ = Σ_t w_t z_t, averaged over episodes.

    Unbiased under the lemma's discounting. Every score meets every reward, also those that came before it; such
    pairs have mean zero and are pure noise (the causal form leaves them out). `product` uses the symmetric half
    ½(abᵀ + baᵀ) of the outer product, which has the same diagonal. `probes` as in `LogDensityHessian`.
    """

    probes: int = 0
    name: ClassVar[str] = "lemma"
    estimates: ClassVar[str] = "∇²J by Lemma 1: every score with every reward"
    biased: ClassVar[bool] = False
    positive_semi_definite: ClassVar[bool] = False

    def diagonal(self, objective: LocalObjective) -> Fold:
        if objective.begins is not None:
            return self._diagonal_of_pieces(objective)
        log_density = log_density_diagonal(objective, self.probes)

        def of_chunk(arrays: tuple[Chunk, Any, Any, Any]) -> Tree:
            chunk, taken, w, e_w = arrays
            policy, params = objective.policy, objective.params
            return (
                derivatives.score_sums_by_episode(policy, params, chunk, taken),
                derivatives.score_sums_by_episode(policy, params, chunk, w),
                log_density(policy, params, chunk, e_w),
            )

        def finish(sums: tuple[Tree, Tree, Tree]) -> Tree:
            trajectory, weighted, log_density_part = sums
            return jax.tree.map(
                lambda a, b, c: jnp.tensordot(objective.episode_weight, a * b, 1) + c,
                trajectory,
                weighted,
                log_density_part,
            )

        arrays = (objective.chunk, objective.rollout.mask, objective.weight, objective.score_weight)
        return sum_fold(of_chunk, arrays, finish)

    def _diagonal_of_pieces(self, objective: LocalObjective) -> Fold:
        """A column holds several pieces: their sums are built up step by step."""
        policy, params, mask = objective.policy, objective.params, objective.rollout.mask
        log_density = log_density_diagonal(objective, self.probes)

        def step(carry: tuple[Any, Tree], arrays: tuple[Chunk, Any, Any, Any], start: Any) -> tuple[Any, Tree]:
            del start
            chunk, weights, begins, e_w = arrays
            outer, sums = derivatives.piece_product_sum(policy, params, chunk, weights, begins, carry[0])
            parts = (carry[1], outer, log_density(policy, params, chunk, e_w))
            return sums, jax.tree.map(lambda *leaves: sum(leaves), *parts)

        weights = (jnp.broadcast_to(objective.episode_weight, mask.shape), objective.weight, mask)
        zeros = derivatives.zero_scores(params, mask.shape[1])
        arrays = (objective.chunk, weights, objective.begins, objective.score_weight)
        return Fold(((zeros, zeros), jax.tree.map(jnp.zeros_like, params)), step, arrays, lambda carry: carry[1])

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        policy, params = objective.policy, objective.params
        mask, w, e = objective.rollout.mask, objective.weight, objective.episode_weight
        (along,) = objective.evaluate(
            map_fold(lambda chunk: derivatives.directional_scores(policy, params, chunk, vector), objective.chunk)
        )
        of_trajectory = piece_sums(mask * along, objective.begins)
        of_surrogate = piece_sums(w * along, objective.begins)
        score_weight = 0.5 * e * (mask * of_surrogate + w * of_trajectory)
        (outer,) = objective.evaluate(objective.sum_over_steps(derivatives.score_sum, score_weight))
        return jax.tree.map(jnp.add, outer, LogDensityHessian().product(objective, vector))
