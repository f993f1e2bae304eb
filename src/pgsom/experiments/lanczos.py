"""The ends of a symmetric matrix's spectrum, from its products with vectors alone."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Spectrum(NamedTuple):
    """Ritz values, the largest first, and for each how far an eigenvalue is at most."""

    values: Vector
    bounds: Vector

    def top(self, count: int) -> Vector:
        """The largest."""
        return self.values[:count]

    def bottom(self, count: int) -> Vector:
        """The smallest, the smallest of all first."""
        return self.values[::-1][:count]


def lanczos(product: Callable[[Vector], Vector], size: int, steps: int, *, seed: int = 0) -> Spectrum:
    """Lanczos with every vector made orthogonal to all before it, twice.

    ::

        w = H q_j − β_{j−1} q_{j−1},  α_j = q_jᵀ w,  w ← w − α_j q_j,  β_j = ‖w‖,  q_{j+1} = w / β_j
        T = tridiagonal(β, α, β),  T = S diag(values) Sᵀ,  bounds = |β_last S_last|

    It ends early where the vectors so far span an invariant space; their Ritz values are then eigenvalues.
    """
    steps = min(steps, size)
    basis = np.zeros((steps, size))
    alphas: list[float] = []
    betas: list[float] = []
    q = np.random.default_rng(seed).standard_normal(size)
    q /= np.linalg.norm(q)
    for step in range(steps):
        basis[step] = q
        w = np.asarray(product(q), np.float64)
        alphas.append(float(q @ w))
        for _ in range(2):
            w = w - basis[: step + 1].T @ (basis[: step + 1] @ w)
        betas.append(float(np.linalg.norm(w)))
        if betas[-1] <= 1e-10 * max(1e-300, np.abs(alphas).max(), *betas[:-1]):
            break
        q = w / betas[-1]
    values, vectors = scipy.linalg.eigh_tridiagonal(np.asarray(alphas), np.asarray(betas[:-1]))
    order = np.argsort(values)[::-1]
    return Spectrum(values[order], np.abs(betas[-1] * vectors[-1, order]))
