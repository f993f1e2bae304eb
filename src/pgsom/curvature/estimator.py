"""What a curvature estimator is.

An estimator says which mathematical object it estimates, whether it is biased for ∇²J, and whether it is positive
semi-definite; it gives the object's diagonal and its product with a vector. Signs: an estimator of a Hessian has
the Hessian's sign (negative at a maximum of J); one that is positive semi-definite by construction, or says so by a
`bends_down` of its own, stands for how strongly J is curved, like −∇²J at a maximum.
"""

from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from pgsom.folds import Fold
from pgsom.objective import LocalObjective

Tree = Any


@runtime_checkable
class Estimator(Protocol):
    """What every estimator offers; instances are hashable and a static part of a compiled program."""

    name: ClassVar[str]
    estimates: ClassVar[str]
    """The mathematical object, in a few words."""

    @property
    def biased(self) -> bool:
        """Whether its expectation differs from ∇²J under the lemma's discounting (or from its diagonal)."""
        ...

    @property
    def positive_semi_definite(self) -> bool:
        """Whether no eigenvalue (no diagonal entry) is ever negative."""
        ...

    def diagonal(self, objective: LocalObjective) -> Fold:
        """The diagonal, as a fold so that it can share a pass with the gradient."""
        ...

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        """The matrix times a vector."""
        ...


def bends_down(estimator: Estimator) -> bool:
    """Whether a positive entry says that J bends down: the estimator has the sign of −∇²J."""
    if estimator.positive_semi_definite:
        return True
    if isinstance(probed := getattr(estimator, "of", None), Estimator):
        return bends_down(probed)
    return bool(getattr(estimator, "bends_down", False))


def diagonal(estimator: Estimator, objective: LocalObjective) -> Tree:
    """The diagonal alone."""
    return objective.evaluate(estimator.diagonal(objective))[0]


def dense(estimator: Estimator, objective: LocalObjective) -> Array:
    """The whole matrix [D, D], one product for each column: for tests and small policies."""
    flat, unravel = ravel_pytree(objective.params)

    def column(basis: Array) -> Array:
        return ravel_pytree(estimator.product(objective, unravel(basis)))[0]

    return jax.lax.map(column, jnp.eye(flat.size, dtype=flat.dtype)).T


def rademacher_like(key: Array, tree: Tree) -> Tree:
    """Independent signs ±1 in the shape of `tree`."""
    flat, unravel = ravel_pytree(tree)
    return unravel(jax.random.rademacher(key, flat.shape, flat.dtype))
