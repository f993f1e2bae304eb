"""The claims about the mathematics, C1 to C5: exact on finite MDPs, and where it can be seen, while training."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pgsom.experiments.blocks import Trained
from pgsom.experiments.moments import TOLERANCE
from pgsom.experiments.printed import Variant
from pgsom.experiments.problems import built_in_problems, random_problems
from pgsom.experiments.study import Study
from pgsom.experiments.theory import study
from pgsom.experiments.verdicts import Claim, Finding, Number, at_least, at_most, conclude, exactly
from pgsom.statistics import bootstrap_mean

RANDOM = 16
EPISODES = 400
"""Really played on every MDP, for the z-scores."""
LARGEST_Z = 5.0
SETTINGS: dict[str, Any] = {"random": RANDOM, "episodes": EPISODES}
SHAPES_SAID = {
    "raw": "P = h as printed",
    "absolute": "P = |h|",
    "negative_part": "P = max(−h, 0)",
    "rms": "P = √E h²",
}


class Exact(NamedTuple):
    """What was found on all MDPs; plain numbers."""

    problems: int
    lemma: float
    """Largest |∇²J − E[…]| of Lemma 1 as it stands there."""
    appendix: float
    """The same with the appendix's discounting."""
    score: float
    bias: float
    z: float
    negative: float
    """Share of negative entries of the exact diag ∇²J."""
    ascending: dict[str, float]
    """By shape: on which share of the MDPs gᵀP⁻¹g > 0."""


def measure_exactly() -> dict[str, Any]:
    """Lemmas, bias, signs and ascent on the two-armed bandit and random MDPs, in float64 by enumeration."""
    found = [
        study(problem, episodes=EPISODES, estimators=("lemma",))
        for problem in (*built_in_problems()[:1], *random_problems(RANDOM))
    ]
    diagonals = np.concatenate([one.truth.hessian_diagonal[one.listing.matters] for one in found])
    signs: dict[str, list[bool]] = {}
    for one in found:
        for ascent in one.ascents:
            signs.setdefault(ascent.shape, []).append(ascent.inner > 0)
    exact = Exact(
        problems=len(found),
        lemma=max(one.lemma_errors["lemma"] for one in found),
        appendix=max(one.lemma_errors["appendix"] for one in found),
        score=max(one.score_error for one in found),
        bias=max(one.finding("lemma").largest_bias for one in found),
        z=max(one.finding("lemma").largest_z or 0.0 for one in found),
        negative=float((diagonals < 0).mean()),
        ascending={shape: float(np.mean(each)) for shape, each in signs.items()},
    )
    return exact._asdict()


def theory_claims(exact: Exact, studies: Mapping[str, Study]) -> list[Claim]:
    """C1 to C5."""
    where = f"exact, {exact.problems} MDPs"
    return [
        _lemma_1(exact, where),
        _lemma_2(exact, where),
        _unbiased(exact, where),
        _positive(exact, where, studies),
        _ascent(exact, where, studies),
    ]


def _vanishes(where: str, what: str, error: float, why: str) -> Finding:
    number = exactly(error)
    return Finding(where, what, number, f"at most {TOLERANCE:g}", at_most(number, TOLERANCE), why)


def _lemma_1(exact: Exact, where: str) -> Claim:
    findings = [
        _vanishes(
            where,
            "largest error of Lemma 1, weights Σ γ^t r_t",
            exact.lemma,
            "All trajectories listed, in float64, against the Hessian of the exact return.",
        ),
        _vanishes(where, "the same with the appendix's weights Σ γ^(k−t) r_k", exact.appendix, ""),
    ]
    why = f"With the appendix's weights it is off by up to {exact.appendix:.2g}: those give no derivative of J."
    return conclude("C1", "Lemma 1: ∇²J = E[∇²Ψ + ∇ln p ∇Ψᵀ]", findings, findings[:1], why)


def _lemma_2(exact: Exact, where: str) -> Claim:
    why = "The derivative of the whole trajectory's log-probability is the sum of the policy's scores, for two kernels."
    found = _vanishes(where, "largest error of Lemma 2", exact.score, why)
    return conclude("C2", "Lemma 2: no transition kernel in the score", [found], [found])


def _unbiased(exact: Exact, where: str) -> Claim:
    z = exactly(exact.z)
    findings = [
        _vanishes(where, "largest bias of the diagonal", exact.bias, "Its expectation is diag ∇²J."),
        Finding(
            f"{EPISODES} sampled episodes on each",
            "largest z-score of an entry",
            z,
            f"at most {LARGEST_Z:g}",
            at_most(z, LARGEST_Z),
        ),
    ]
    return conclude("C3", "the diagonal estimator is unbiased", findings, findings)


def _positive(exact: Exact, where: str, studies: Mapping[str, Study]) -> Claim:
    share = exactly(exact.negative)
    why = (
        f"{exact.negative:.0%} of the exact diagonal's entries are negative; for a two-armed softmax bandit "
        "J″ = σ(1−σ)(1−2σ) changes its sign at 0."
    )
    what = "share of negative entries in diag ∇²J"
    findings = [Finding(where, what, share, "at most 0", at_most(share, 0), why)]
    for name, trained in _hessian_runs(studies):
        number = over_seeds(trained.negative[:, 1:].mean(axis=1))
        what = "share of negative entries in the estimated diagonal, in training"
        findings.append(Finding(name, what, number, "at most 0", at_most(number, 0)))
    return conclude("C4", "the diagonal is positive", findings, findings[:1])


def _ascent(exact: Exact, where: str, studies: Mapping[str, Study]) -> Claim:
    findings = []
    for shape, share in exact.ascending.items():
        number, what = exactly(share), f"share of MDPs with gᵀP⁻¹g > 0, {SHAPES_SAID[shape]}"
        why = f"As printed it climbs on {share:.0%} of them; a positive P climbs on all." if shape == "raw" else ""
        findings.append(Finding(where, what, number, "at least 1", at_least(number, 1), why))
    decisive = [finding for finding in findings if "as printed" in finding.what]
    for name, trained in _hessian_runs(studies):
        number = over_seeds(trained.alignment[:, 1:].mean(axis=1))
        what = "cosine between update and sampled gradient, in training"
        findings.append(Finding(name, what, number, "at least 0", at_least(number, 0)))
    return conclude("C5", "the update is an ascent direction in expectation", findings, decisive)


def _hessian_runs(studies: Mapping[str, Study]) -> Sequence[tuple[str, Trained]]:
    """The Hessian method of the protocols that divide by a curvature."""
    cell = Variant("hessian", "none")
    return [(name, studies[name].trained[cell]) for name in ("as-printed", "corrected") if name in studies]


def over_seeds(values: Any) -> Number:
    """Mean and interval over seeds."""
    interval = bootstrap_mean(values)
    return Number(float(interval.mean), float(interval.low), float(interval.high))
