"""Conjugate gradients against numpy.linalg.solve."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.updates import conjugate_gradient
from pgsom.updates.conjugate_gradient import Solution
from tests.exact.oracle import flat, quick_jit

pytestmark = pytest.mark.usefixtures("float64")
SIZE = 7


def tree_of(vector: np.ndarray) -> dict[str, Any]:
    return {"a": jnp.asarray(vector[:6].reshape(2, 3)), "b": (jnp.asarray(vector[6]),)}


def positive(seed: int, lowest: float = 0.3) -> np.ndarray:
    """A symmetric matrix with eigenvalues between `lowest` and 4."""
    generator = np.random.default_rng(seed)
    basis = np.linalg.qr(generator.normal(size=(SIZE, SIZE)))[0]
    return (basis * np.linspace(lowest, 4, SIZE)) @ basis.T


@partial(quick_jit, static_argnames=("steps",))
def solve(matrix: Any, b: Any, steps: int = SIZE, tolerance: float = 1e-12, start: Any = None) -> Solution:
    unravel = ravel_pytree(b)[1]
    return conjugate_gradient(
        lambda v: unravel(matrix @ ravel_pytree(v)[0]), b, steps=steps, tolerance=tolerance, start=start
    )


@pytest.mark.parametrize("started", [False, True])
def test_as_many_steps_as_unknowns_solve_a_system_in_any_pytree(started: bool) -> None:
    matrix, b = positive(0), np.random.default_rng(1).normal(size=SIZE)
    start = tree_of(np.random.default_rng(2).normal(size=SIZE)) if started else None
    found = solve(matrix, tree_of(b), start=start)
    np.testing.assert_allclose(flat(found.x), np.linalg.solve(matrix, b), rtol=1e-9)
    assert jax.tree.structure(found.x) == jax.tree.structure(tree_of(b))
    assert found.residual < 1e-9 and not found.negative


def test_the_residual_is_that_of_the_solution() -> None:
    matrix, b = positive(0), np.random.default_rng(1).normal(size=SIZE)
    for steps in (1, 3):
        found = solve(matrix, tree_of(b), steps=steps)
        expected = np.linalg.norm(b - matrix @ flat(found.x)) / np.linalg.norm(b)
        assert float(found.residual) == pytest.approx(expected, rel=1e-9) and found.steps == steps


def test_it_stops_at_the_tolerance_and_no_later() -> None:
    matrix, b = positive(0), tree_of(np.random.default_rng(1).normal(size=SIZE))
    residuals = [float(solve(matrix, b, steps=k).residual) for k in range(1, SIZE)]
    found = solve(matrix, b, tolerance=0.05)
    assert found.steps == 1 + next(i for i, r in enumerate(residuals) if r <= 0.05) < SIZE
    assert solve(matrix, jax.tree.map(jnp.zeros_like, b)).steps == 0


def test_a_direction_of_negative_curvature_ends_it_where_the_matrix_is_positive() -> None:
    """Eigenvalues −1 and 2 with b between their vectors: the first direction bends up, the second down."""
    matrix = np.eye(SIZE)
    matrix[0, 0], b = -1.0, np.zeros(SIZE)
    b[0], b[1] = 0.5, 1.0
    found = solve(matrix, tree_of(b))
    bend = (b[1] ** 2 - b[0] ** 2) / (b @ b)
    np.testing.assert_allclose(flat(found.x), b / bend)
    assert found.negative and found.steps == 1
    first = solve(-np.eye(SIZE), tree_of(b))
    assert first.negative and first.steps == 0 and not np.any(flat(first.x))


def test_a_product_that_is_not_finite_shows_in_the_solution() -> None:
    b = tree_of(np.ones(SIZE))
    assert np.isnan(flat(solve(np.full((SIZE, SIZE), np.nan), b).x)).all()


def test_side_by_side_each_ends_where_it_would_alone() -> None:
    matrices = np.stack([positive(s, lowest) for s, lowest in enumerate((0.3, 4.0, 0.01))])
    b = np.random.default_rng(1).normal(size=(3, SIZE))
    together = jax.vmap(lambda m, v: solve(m, tree_of(v), tolerance=1e-3))(matrices, b)
    assert len(set(np.asarray(together.steps).tolist())) > 1
    for index in range(3):
        alone = solve(matrices[index], tree_of(b[index]), tolerance=1e-3)
        assert together.steps[index] == alone.steps
        np.testing.assert_allclose(
            flat(jax.tree.map(lambda leaf, i=index: leaf[i], together.x)), flat(alone.x), rtol=1e-8
        )
