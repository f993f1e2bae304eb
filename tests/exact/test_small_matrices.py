"""Eigenvectors and roots without LAPACK, against LAPACK's, in float64."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.linear_algebra import _tournament, eigenvectors, inverse_root
from tests.exact.oracle import quick_jit

pytestmark = pytest.mark.usefixtures("float64")


def symmetric(size: int, seed: int = 0, rank: int | None = None) -> np.ndarray:
    """Positive semi-definite, of full rank unless another is given."""
    factor = np.random.default_rng(seed).normal(size=(size, size if rank is None else rank))
    return factor @ factor.T / size


MATRICES: dict[str, np.ndarray] = {
    "one number": np.asarray([[3.0]]),
    "two, indefinite": np.asarray([[1.0, 2.0], [2.0, -1.0]]),
    "odd": symmetric(5),
    "even, of rank two": symmetric(6, rank=2),
    "diagonal, with equals": np.diag([2.0, 1.0, 2.0, 0.0]),
    "nothing": np.zeros((3, 3)),
}


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
def test_eigenvectors_are_orthonormal_and_rebuild_the_matrix(matrix: np.ndarray) -> None:
    V, values = (np.asarray(x) for x in quick_jit(eigenvectors)(jnp.asarray(matrix)))
    np.testing.assert_allclose(V.T @ V, np.eye(len(matrix)), atol=1e-13)
    np.testing.assert_allclose((V * values) @ V.T, matrix, atol=1e-12)
    np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(matrix), atol=1e-12)


def test_side_by_side_and_one_by_one_in_either_precision() -> None:
    """Matrices of a kind that need different numbers of sweeps; in float32 as near as that allows."""
    batch = np.stack([symmetric(16, 1), symmetric(16, 2, rank=3), np.eye(16)])
    for dtype, near in ((jnp.float64, 1e-12), (jnp.float32, 1e-5)):
        V, values = quick_jit(jax.vmap(eigenvectors))(jnp.asarray(batch, dtype))
        assert V.dtype == values.dtype == dtype
        np.testing.assert_allclose(jnp.einsum("bij,bj,bkj->bik", V, values, V), batch, atol=near)
        for found, matrix in zip(values, batch, strict=True):
            np.testing.assert_allclose(np.sort(found), np.linalg.eigvalsh(matrix), atol=near)


def test_from_where_they_were_eigenvectors_turn_and_keep_their_places() -> None:
    before = symmetric(6, 3)
    after = before + 0.01 * symmetric(6, 4)
    V, _ = quick_jit(eigenvectors)(jnp.asarray(before))
    turned, _ = quick_jit(eigenvectors)(jnp.asarray(after), V)
    assert np.min(np.abs(np.diag(np.asarray(V).T @ np.asarray(turned)))) > 0.9
    np.testing.assert_allclose(turned.T @ turned, np.eye(6), atol=1e-13)


@pytest.mark.parametrize("root", [2, 4])
def test_inverse_roots(root: int) -> None:
    for matrix in (symmetric(5), symmetric(4, rank=2)):
        values, V = np.linalg.eigh(matrix)
        expected = (V * (np.maximum(values, 0) + 0.01 * values.max()) ** (-1 / root)) @ V.T
        found = quick_jit(partial(inverse_root, root=root, damping=0.01))(jnp.asarray(matrix))
        np.testing.assert_allclose(found, expected, atol=1e-10)
    assert not np.any(inverse_root(jnp.zeros((3, 3)), 4, 0.01)), "nothing was seen, nothing is scaled"


@pytest.mark.parametrize("size", [2, 3, 6, 7])
def test_in_a_tournament_everyone_meets_everyone_once_and_nobody_plays_twice_a_round(size: int) -> None:
    rounds: Any = np.asarray(_tournament(size))
    met = [tuple(pair) for games in rounds for pair in games.T]
    assert sorted(met) == [(a, b) for a in range(size) for b in range(a + 1, size)]
    assert all(len(set(games.ravel())) == games.size for games in rounds)
