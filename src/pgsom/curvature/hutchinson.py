"""The diagonal of any curvature from its products with random signs."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from pgsom.checks import check_count
from pgsom.curvature.causal import CausalHessian
from pgsom.curvature.causal_probe import probed_diagonal
from pgsom.curvature.estimator import Estimator, rademacher_like
from pgsom.folds import Fold
from pgsom.objective import LocalObjective
from pgsom.policies import MLP

Tree = Any


@dataclass(frozen=True)
class Hutchinson:
    """(1/k) Σ_m v_m ⊙ (H v_m), v_m of independent signs: its expectation is diag H.

    The variance of entry i is (1/k) Σ_{j≠i} H_ij² for symmetric H. One probe of the causal Hessian of an MLP shares
    the gradient's pass, and the signs within a layer are products of signs (`pgsom.policies.tangents`). Bias is that
    of the matrix it probes; a diagonal entry can be negative even where the matrix is positive definite.
    """

    of: Estimator = field(default_factory=CausalHessian)
    probes: int = 1
    name: ClassVar[str] = "hutchinson"
    estimates: ClassVar[str] = "the diagonal of another matrix by random probes: causal, or NAME in hutchinson:NAME"
    positive_semi_definite: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("probes", self.probes)

    @property
    def biased(self) -> bool:
        return self.of.biased

    def diagonal(self, objective: LocalObjective) -> Fold:
        key = jax.random.fold_in(objective.key, 2)
        whole = objective.begins is None
        if whole and isinstance(self.of, CausalHessian) and isinstance(objective.policy.network, MLP):
            return probed_diagonal(objective, key, self.probes)

        def probe(key: Any) -> Tree:
            v = rademacher_like(key, objective.params)
            return jax.tree.map(jnp.multiply, v, self.of.product(objective, v))

        mean = jax.tree.map(lambda leaf: leaf.mean(axis=0), jax.lax.map(probe, jax.random.split(key, self.probes)))
        return _already(mean, objective)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        """The probed matrix itself."""
        return self.of.product(objective, vector)


def _already(result: Tree, objective: LocalObjective) -> Fold:
    """A fold that has nothing left to do."""
    return Fold((), lambda carry, chunk, start: carry, objective.weight, lambda carry: result)
