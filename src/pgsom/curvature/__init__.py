"""Curvature estimators, one a file, and their registry."""

from collections.abc import Callable
from typing import NamedTuple

from pgsom.checks import check_choice, check_count, listed, wrong
from pgsom.curvature.causal import CausalHessian
from pgsom.curvature.estimator import Estimator, dense, diagonal
from pgsom.curvature.gauss_newton import Fisher, GaussNewton
from pgsom.curvature.hutchinson import Hutchinson
from pgsom.curvature.lemma import LemmaHessian
from pgsom.curvature.log_density import LogDensityHessian


class EstimatorEntry(NamedTuple):
    """A row of `ESTIMATORS`: the class, which declares what it estimates, and how to make one with k probes."""

    kind: type[Estimator]
    make: Callable[[int], Estimator]
    takes_probes: bool


ESTIMATORS: dict[str, EstimatorEntry] = {
    "gauss-newton": EstimatorEntry(GaussNewton, lambda probes: GaussNewton(), False),
    "fisher": EstimatorEntry(Fisher, lambda probes: Fisher(), False),
    "causal": EstimatorEntry(CausalHessian, CausalHessian, True),
    "lemma": EstimatorEntry(LemmaHessian, LemmaHessian, True),
    "log-density": EstimatorEntry(LogDensityHessian, LogDensityHessian, True),
    "hutchinson": EstimatorEntry(Hutchinson, lambda probes: Hutchinson(probes=probes or 1), True),
}


def make_estimator(curvature: str | Estimator, probes: int = 0) -> Estimator:
    """The named estimator; `probes` > 0 asks for random probes where it can use them."""
    if not isinstance(curvature, str):
        if not isinstance(curvature, Estimator):
            raise wrong("curvature", curvature, f"accepted are {listed(ESTIMATORS)} and objects like them")
        return curvature
    check_choice("curvature", curvature, ESTIMATORS)
    check_count("probes", probes, at_least=0)
    entry = ESTIMATORS[curvature]
    if probes and not entry.takes_probes:
        raise wrong("probes", probes, f"the curvature {curvature!r} is exact; accepted is 0")
    return entry.make(probes)


__all__ = [
    "ESTIMATORS",
    "CausalHessian",
    "Estimator",
    "Fisher",
    "GaussNewton",
    "Hutchinson",
    "LemmaHessian",
    "LogDensityHessian",
    "dense",
    "diagonal",
    "make_estimator",
]
