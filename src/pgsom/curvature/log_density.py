"""∇²Ψ: the Hessian of the usual surrogate, exactly or by Hutchinson probes."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from pgsom.curvature.estimator import rademacher_like
from pgsom.folds import Fold
from pgsom.objective import LocalObjective
from pgsom.policies import derivatives
from pgsom.policies.derivatives import Chunk

Tree = Any


@dataclass(frozen=True)
class LogDensityHessian:
    """Σ_n e Σ_t w_t ∇²ℓ_t, what differentiating the REINFORCE surrogate twice gives.

    Biased for ∇²J: the products of scores are missing. Negative semi-definite for log-concave policies and w ≥ 0
    (Furmston and Barber's second Gauss-Newton matrix). With `probes` = 0 the diagonal is exact; with k probes it is
    (1/k) Σ_m v_m ⊙ (∇²Ψ v_m), v_m of independent signs: unbiased for the exact diagonal, entry i having the
    variance (1/k) Σ_{j≠i} (∇²Ψ)_ij².
    """

    probes: int = 0
    name: ClassVar[str] = "log-density"
    estimates: ClassVar[str] = "E[Σ w ∇² ln π]: ∇²J without the products of scores"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = False

    def diagonal(self, objective: LocalObjective) -> Fold:
        return objective.sum_over_steps(log_density_diagonal(objective, self.probes), objective.score_weight)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return objective.evaluate(
            objective.sum_over_steps(partial(derivatives.hessian_product, vector=vector), objective.score_weight)
        )[0]


def log_density_diagonal(objective: LocalObjective, probes: int) -> Callable[[Any, Tree, Chunk, Any], Tree]:
    """``(policy, params, chunk, weights) -> Σ w diag ∇²ℓ``, exact for 0 probes."""
    if probes == 0:
        return derivatives.hessian_diagonal
    keys = jax.random.split(jax.random.fold_in(objective.key, 1), probes)
    signs = jax.vmap(lambda key: rademacher_like(key, objective.params))(keys)

    def estimate(policy: Any, params: Tree, chunk: Chunk, weights: Any) -> Tree:
        def probe(v: Tree) -> Tree:
            return jax.tree.map(jnp.multiply, v, derivatives.hessian_product(policy, params, chunk, weights, v))

        if probes == 1:
            return probe(jax.tree.map(lambda leaf: leaf[0], signs))
        return jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.lax.map(probe, signs))

    return estimate
