"""Curvature that is positive semi-definite by construction: Gauss-Newton and Fisher."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import jax.numpy as jnp
from jax import Array

from pgsom.folds import Fold
from pgsom.objective import LocalObjective
from pgsom.policies import derivatives

Tree = Any


@dataclass(frozen=True)
class GaussNewton:
    """Σ_n e Σ_t |w_t| K_tᵀ F_t K_t, K_t the Jacobian of the network's outputs and F_t their Fisher matrix.

    −∇²Ψ with the network linearised and the weights' signs dropped, so never negative. Its diagonal costs about one
    more backward pass, by the layer trick.
    """

    name: ClassVar[str] = "gauss-newton"
    estimates: ClassVar[str] = "E[Σ |w| Kᵀ F K]: −∇² of the surrogate, linearised, signs dropped"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = True

    def diagonal(self, objective: LocalObjective) -> Fold:
        return objective.sum_over_steps(derivatives.fisher_diagonal, _absolute_weight(objective))

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return objective.evaluate(
            objective.sum_over_steps(partial(derivatives.fisher_product, vector=vector), _absolute_weight(objective))
        )[0]


@dataclass(frozen=True)
class Fisher:
    """F = Σ_n e Σ_t E_{a∼π}[z zᵀ] = Σ_n e Σ_t K_tᵀ F_t K_t: exact over actions, rewards play no part."""

    name: ClassVar[str] = "fisher"
    estimates: ClassVar[str] = "E[Σ z zᵀ], exact over actions: the metric of the natural gradient"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = True

    def diagonal(self, objective: LocalObjective) -> Fold:
        return objective.sum_over_steps(derivatives.fisher_diagonal, objective.step_weight)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return objective.fisher_product(vector)


def _absolute_weight(objective: LocalObjective) -> Array:
    return objective.episode_weight * jnp.abs(objective.weight)
