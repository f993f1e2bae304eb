"""HesScale: a Hessian diagonal that is carried backwards as a diagonal, at about the cost of a backward pass."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from pgsom.curvature.estimator import diagonal
from pgsom.folds import Fold
from pgsom.objective import LocalObjective
from pgsom.policies import derivatives

Tree = Any


@dataclass(frozen=True)
class HesScale:
    """Σ_n e Σ_t w_t diag ∇²ℓ_t by Becker and LeCun's recursion, with the exact diagonal at the outputs.

    Layer by layer h ← φ′² ⊙ (W² h) + φ″ ⊙ (W ∂ℓ/∂z): what two units of a layer share is forgotten. So it is exact for
    the last layer and biased below it, also for `LogDensityHessian`, of which it is an approximation; with an MLP
    `LogDensityHessian` itself costs hardly more. There is no matrix beyond the diagonal: `product` multiplies by that.
    """

    name: ClassVar[str] = "hesscale"
    estimates: ClassVar[str] = "E[Σ w diag ∇² ln π], by propagating diagonals alone; of an MLP only"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = False

    def diagonal(self, objective: LocalObjective) -> Fold:
        return objective.sum_over_steps(derivatives.propagated_diagonal, objective.score_weight)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return jax.tree.map(jnp.multiply, diagonal(self, objective), vector)
