"""Curvature estimators, one a file, and their registry."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from pgsom.checks import check_choice, check_count, listed, wrong
from pgsom.curvature.averaged import SpatialAverage
from pgsom.curvature.causal import CausalHessian, DecayedCausal, WithoutCrossTerms
from pgsom.curvature.estimator import Estimator, bends_down, dense, diagonal
from pgsom.curvature.gauss_newton import Fisher, GaussNewton
from pgsom.curvature.hesscale import HesScale
from pgsom.curvature.hutchinson import Hutchinson
from pgsom.curvature.lemma import LemmaHessian
from pgsom.curvature.log_density import LogDensityHessian, MinusLogDensity
from pgsom.curvature.scores import EmpiricalFisher, GaussNewtonBartlett, SampledFisher


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
    "causal-decay": EstimatorEntry(DecayedCausal, lambda probes: DecayedCausal(probes=probes), True),
    "without-cross": EstimatorEntry(WithoutCrossTerms, WithoutCrossTerms, True),
    "minus-log-density": EstimatorEntry(MinusLogDensity, MinusLogDensity, True),
    "hesscale": EstimatorEntry(HesScale, lambda probes: HesScale(), False),
    "fisher-sampled": EstimatorEntry(SampledFisher, lambda probes: SampledFisher(probes or 1), True),
    "empirical-fisher": EstimatorEntry(EmpiricalFisher, lambda probes: EmpiricalFisher(), False),
    "gauss-newton-bartlett": EstimatorEntry(GaussNewtonBartlett, lambda probes: GaussNewtonBartlett(probes or 1), True),
    "hutchinson": EstimatorEntry(Hutchinson, lambda probes: Hutchinson(probes=probes or 1), True),
}
PROBED = tuple(f"hutchinson:{name}" for name in ESTIMATORS if name != "hutchinson")
"""Names of the diagonals of all matrices by random probes."""
NUMBERED = ("causal-decay", "hutchinson:causal-decay")
"""Names behind which λ may stand: causal-decay:0.5."""


def make_estimator(curvature: str | Estimator, probes: int = 0) -> Estimator:
    """The named estimator; `probes` > 0 asks for random probes where it can use them.

    ``hutchinson:fisher`` is the diagonal of another estimator's matrix by random probes, for every name, and
    ``causal-decay:0.5`` the decayed causal form with that λ.
    """
    if not isinstance(curvature, str):
        if not isinstance(curvature, Estimator):
            raise wrong("curvature", curvature, f"accepted are {listed(ESTIMATORS)} and objects like them")
        return curvature
    check_count("probes", probes, at_least=0)
    if (numbered := curvature.rpartition(":"))[0] in NUMBERED:
        made = make_estimator(numbered[0], probes)
        decayed = DecayedCausal(_decay(curvature, numbered[2]), probes)
        return replace(made, of=replace(decayed, probes=0)) if isinstance(made, Hutchinson) else decayed
    check_choice("curvature", curvature, (*ESTIMATORS, *PROBED))
    if curvature in PROBED:
        return Hutchinson(of=make_estimator(curvature.removeprefix("hutchinson:")), probes=probes or 1)
    entry = ESTIMATORS[curvature]
    if probes and not entry.takes_probes:
        raise wrong("probes", probes, f"the curvature {curvature!r} is exact; accepted is 0")
    return entry.make(probes)


def _decay(curvature: str, text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (decay := float(text)) <= 1:
            return decay
    raise wrong("curvature", curvature, "accepted behind the name is λ, a number >= 0 and <= 1")


__all__ = [
    "ESTIMATORS",
    "NUMBERED",
    "PROBED",
    "CausalHessian",
    "DecayedCausal",
    "EmpiricalFisher",
    "Estimator",
    "Fisher",
    "GaussNewton",
    "GaussNewtonBartlett",
    "HesScale",
    "Hutchinson",
    "LemmaHessian",
    "LogDensityHessian",
    "MinusLogDensity",
    "SampledFisher",
    "SpatialAverage",
    "WithoutCrossTerms",
    "bends_down",
    "dense",
    "diagonal",
    "make_estimator",
]
