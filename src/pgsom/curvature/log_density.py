"""∇²Ψ: the Hessian of the usual surrogate, exactly or by Hutchinson probes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class MinusLogDensity:
    """−Σ_n e Σ_t w_t ∇²ℓ_t: Furmston and Barber's second Gauss-Newton matrix with the sign of −∇²J.

    Positive semi-definite if ln π is concave in θ (linear logistic policies, for one) and no weight is negative, which
    leaves neither networks nor baselines; not by construction. A positive entry says that J bends down there.
    """

    probes: int = 0
    name: ClassVar[str] = "minus-log-density"
    estimates: ClassVar[str] = "−E[Σ w ∇² ln π]: Furmston's second, with the sign of −∇²J"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = False
    bends_down: ClassVar[bool] = True

    def diagonal(self, objective: LocalObjective) -> Fold:
        return LogDensityHessian(self.probes).diagonal(_with_opposite_weights(objective))

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return LogDensityHessian(self.probes).product(_with_opposite_weights(objective), vector)


def _with_opposite_weights(objective: LocalObjective) -> LocalObjective:
    return replace(objective, weight=-objective.weight)


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
