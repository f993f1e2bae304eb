"""What `pgsom.experiments.theory` found, as plain data and as rows of text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pgsom.curvature import make_estimator
from pgsom.experiments.listing import BASELINES
from pgsom.experiments.moments import TOLERANCE
from pgsom.experiments.theory import GRADIENT, Finding, Study
from pgsom.returns import Discounting
from pgsom.updates.som import SHAPES

Row = tuple[str, ...]
CONVENTIONS = {
    "policy": "π(a|s) = softmax of theta[s, a]; all quantities are derivatives with respect to theta, as [S][A]",
    "return": "J = E Σ_{t<H} γ^t r_t; gradient and hessian_diagonal are exact and of this J (the lemma's discounting)",
    "estimators": "made from one trajectory with w_t = Σ_{k>=t} γ^k r_k - γ^t b_t; expectation over all trajectories",
    "appendix": "the same with w_t = Σ_{k>=t} γ^(k-t) r_k - b_t; bias is still against J above",
    "signs": "gauss-newton, fisher and others that are positive semi-definite stand for -∇²J and keep their own sign",
    "trajectories_needed": "n with |expectation|² = Σ variance / n, over all entries; null where there is no signal",
    "ascent": "gᵀP⁻¹g with the exact gradient and P of the curvature's expectation, damping 1e-8",
}


def plain(study: Study) -> dict[str, Any]:
    """JSON-ready; numbers that are not finite are left to the writer."""
    mdp, problem = study.problem.mdp, study.problem
    return {
        "name": problem.name,
        "conventions": CONVENTIONS,
        "states": mdp.states,
        "actions": mdp.actions,
        "gamma": mdp.discount,
        "horizon": mdp.horizon,
        "theta": problem.theta.tolist(),
        "trajectories": study.trajectories,
        "return": study.truth.value,
        "gradient": study.truth.gradient.tolist(),
        "hessian_diagonal": study.truth.hessian_diagonal.tolist(),
        "negative_share": study.negative_share,
        "lemmas": lemmas(study),
        "gradient_estimator": _plain_estimator(study, GRADIENT, "lemma"),
        "estimators": {name: _plain_estimator(study, name, "lemma") for name in study.estimators},
        "estimators_appendix": {name: _plain_estimator(study, name, "appendix") for name in study.estimators},
        "ascent": [ascent._asdict() for ascent in study.ascents],
        "contradictions": study.broken(),
    }


def lemmas(study: Study) -> dict[str, Any]:
    """C1, C2 and C3, each with the number it rests on."""
    unbiased = [study.finding(name) for name in study.estimators if not make_estimator(name).biased]
    bias = max(finding.largest_bias for finding in unbiased)
    played = [finding.largest_z for finding in unbiased if finding.largest_z is not None]
    errors = study.lemma_errors
    return {
        "C1": {"holds": max(errors["lemma"], errors["undiscounted"]) <= study.tolerance, "largest_error": errors},
        "C2": {"holds": study.score_error <= TOLERANCE, "largest_error": study.score_error},
        "C3": {"holds": not study.broken(), "largest_bias": bias, "largest_z": max(played) if played else None},
    }


def _plain_estimator(study: Study, name: str, discounting: Discounting) -> dict[str, Any]:
    estimator = None if name == GRADIENT else make_estimator(name)
    by_baseline = {baseline: _plain(study.finding(name, baseline, discounting)) for baseline in BASELINES}
    declared = {} if estimator is None else {"declared_biased": estimator.biased}
    declared |= {} if estimator is None else {"declared_positive_semi_definite": estimator.positive_semi_definite}
    others = {name: found for name, found in by_baseline.items() if name != "none"}
    return declared | by_baseline["none"] | {"with_baseline": others}


def _plain(finding: Finding) -> dict[str, Any]:
    moments = finding.moments
    return {
        "expectation": moments.expectation.tolist(),
        "bias": finding.bias.tolist(),
        "variance": moments.variance.tolist(),
        "total_variance": moments.total_variance,
        "trajectories_needed": moments.trajectories_needed,
        "trajectories_needed_by_entry": moments.trajectories_needed_by_entry.tolist(),
        "negative_share": moments.negative,
        "exact": moments.exact,
        "z": None if finding.z is None else finding.z.tolist(),
    }


def check_lines(study: Study) -> list[str]:
    """The lemmas, a line each, for people."""
    errors, found = study.lemma_errors, lemmas(study)
    z = found["C3"]["largest_z"]
    played = "" if z is None else f"; largest |z| over {study.episodes:,} played episodes {z:.1f}"
    return [
        f"{_mark(found['C1'])} C1  Lemma 1 = ∇²J: largest difference {errors['lemma']:.1e} by the lemma's discounting, "
        f"{errors['undiscounted']:.1e} undiscounted, {errors['appendix']:.1e} by the appendix's",
        f"{_mark(found['C2'])} C2  ∇ ln p(τ) = Σ z, whatever the transition kernel: largest difference "
        f"{study.score_error:.1e}",
        f"{_mark(found['C3'])} C3  unbiased diagonals: largest bias {found['C3']['largest_bias']:.1e}{played}",
    ]


def _mark(found: dict[str, Any]) -> str:
    return "✓" if found["holds"] else "✗"


def headline(study: Study) -> str:
    """Sizes, J, and the share of negative entries."""
    mdp = study.problem.mdp
    sizes = f"{mdp.states} states, {mdp.actions} actions, {mdp.horizon} steps, γ = {mdp.discount:g}"
    negative = f"{study.negative_share:.0%} of diag ∇²J negative"
    return (
        f"{study.problem.name}: {sizes}, {study.trajectories:,} trajectories, J = {study.truth.value:.4g}, {negative}"
    )


ESTIMATOR_HEADER: Row = (
    "estimate",
    "baseline",
    "bias",
    "bias, appendix",
    "variance",
    "less than Lemma 1",
    "trajectories for S/N 1",
    "largest |z|",
    "negative",
)


def estimator_rows(study: Study) -> list[Row]:
    """Gradient and estimators, each with each baseline; variance is the sum over entries, from one trajectory."""
    printed = study.finding("lemma").moments.total_variance
    return [
        _estimator_row(study.finding(name, baseline), study.finding(name, baseline, "appendix"), printed)
        for name in (GRADIENT, *study.estimators)
        for baseline in BASELINES
    ]


def _estimator_row(finding: Finding, appendix: Finding, printed: float) -> Row:
    moments = finding.moments
    ratio = printed / moments.total_variance if moments.total_variance > 0 else float("inf")
    return (
        finding.estimator if finding.baseline == "none" else "",
        finding.baseline,
        _small(finding.largest_bias),
        _small(appendix.largest_bias),
        f"{moments.total_variance:.3g}",
        "" if finding.estimator == GRADIENT else "∞" if np.isinf(ratio) else f"{ratio:.3g}×",
        _count(moments.trajectories_needed),
        "" if finding.largest_z is None else f"{finding.largest_z:.1f}",
        f"{moments.negative:.0%}",
    )


ASCENT_HEADER: Row = ("curvature", "shape", "gᵀP⁻¹g", "cosine of P⁻¹g and g", "of one trajectory's ĝ/P̂")


def ascent_rows(study: Study) -> list[Row]:
    """Estimators and shapes."""
    return [
        (a.estimator, a.shape, f"{a.inner:.3g}", f"{a.alignment:+.3f}", f"{a.of_one_trajectory:+.3f}")
        for a in study.ascents
    ]


SUMMARY_HEADER: Row = (
    "estimate",
    "declared",
    "holds in",
    "largest bias",
    "variance against Lemma 1's",
    "with the state value",
    "trajectories for S/N 1",
    "negative",
)


def summary_rows(studies: Sequence[Study]) -> list[Row]:
    """Over many MDPs: medians, but for the bias."""
    return [_summary_row(studies, name) for name in studies[0].estimators]


def _summary_row(studies: Sequence[Study], name: str) -> Row:
    estimator = make_estimator(name)
    plain_ones = [study.finding(name) for study in studies]
    printed = np.asarray([study.finding("lemma").moments.total_variance for study in studies])
    ratios = [
        np.median(np.asarray([study.finding(name, baseline).moments.total_variance for study in studies]) / printed)
        for baseline in ("none", "state value")
    ]
    holds = sum(not any(said.startswith(f"{name},") for said in study.broken()) for study in studies)
    declared = [
        "biased" if estimator.biased else "unbiased",
        *(["never negative"] if estimator.positive_semi_definite else []),
    ]
    return (
        name,
        ", ".join(declared),
        f"{holds} of {len(studies)}",
        _small(max(finding.largest_bias for finding in plain_ones)),
        *(f"{ratio:.3g}" for ratio in ratios),
        _count(float(np.median([finding.moments.trajectories_needed for finding in plain_ones]))),
        f"{np.mean([finding.moments.negative for finding in plain_ones]):.0%}",
    )


def climbing_rows(studies: Sequence[Study]) -> list[Row]:
    """In how many of the MDPs gᵀP⁻¹g is positive, with the worst cosine, by estimator and shape."""
    rows: list[Row] = []
    for name in studies[0].estimators:
        for shape in SHAPES:
            found = [a for study in studies for a in study.ascents if (a.estimator, a.shape) == (name, shape)]
            if found:
                up = sum(a.inner > 0 for a in found)
                worst = min(a.alignment for a in found)
                rows.append((name, shape, f"{up} of {len(found)}", f"{worst:+.3f}"))
    return rows


CLIMBING_HEADER: Row = ("curvature", "shape", "gᵀP⁻¹g > 0 in", "worst cosine")


def plain_summary(studies: Sequence[Study]) -> dict[str, Any]:
    """What holds over all."""
    found = [lemmas(study) for study in studies]
    return {
        "mdps": len(studies),
        **{claim: sum(one[claim]["holds"] for one in found) for claim in ("C1", "C2", "C3")},
        "negative_share": float(np.mean([study.negative_share for study in studies])),
        "contradictions": [f"{study.problem.name}: {said}" for study in studies for said in study.broken()],
    }


def _small(value: float) -> str:
    return f"{value:.1e}" if value < 1e-3 else f"{value:.3g}"


def _count(value: float) -> str:
    return "∞" if np.isinf(value) else f"{value:,.3g}" if value < 100 else f"{value:,.0f}"
