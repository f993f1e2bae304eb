"""The claims about other methods, C9 and C15, in the protocol in which every method is tuned alike."""

from collections.abc import Mapping

import numpy as np

from pgsom.experiments.printed import SAMPLE_EFFICIENCY, STABILISERS, THRESHOLD, Variant
from pgsom.experiments.resampling import Resampled, first_reaches, mean_score, smallest, spread
from pgsom.experiments.study import Study
from pgsom.experiments.variants import CRITIC, CRITICISED
from pgsom.experiments.verdicts import (
    UNDECIDED,
    Claim,
    Finding,
    Number,
    at_least,
    at_most,
    conclude,
    roughly_at_least,
)

PROTOCOL = "corrected"
CURVED = (*(Variant("hessian", s) for s in STABILISERS), Variant("pg-som", "baseline"))
"""Methods that divide by a curvature diagonal."""
FIRST_ORDER = (
    *(Variant("reinforce", s) for s in STABILISERS),
    *(Variant("runge-kutta", s) for s in STABILISERS),
    Variant("adam", "baseline"),
)
FISHER = (Variant("npg", "baseline"),)
CLOSE = 0.9
"""Competes: at least this share of the other's score."""


def efficiency_claim(studies: Mapping[str, Study]) -> Claim:
    """C9."""
    text = "up to 2.1× sample efficiency against first-order and Fisher baselines, with lower variance"
    if PROTOCOL not in studies:
        return _needs_corrected("C9", text)
    study = studies[PROTOCOL]
    findings = []
    for what, others in (("first-order", FIRST_ORDER), ("Fisher", FISHER)):
        ours, theirs = _fastest(study, CURVED), _fastest(study, others)
        ratio = theirs.map(np.divide, ours).number()
        findings.append(
            Finding(
                PROTOCOL,
                f"episodes to {THRESHOLD:g}: fastest {what} method over fastest with a curvature diagonal",
                ratio,
                f"roughly at least {SAMPLE_EFFICIENCY:g}",
                roughly_at_least(ratio, SAMPLE_EFFICIENCY),
                f"Against the fastest {what} method ({_name(study, others)}) the fastest with a curvature diagonal "
                f"({_name(study, CURVED)}) needs {1 / ratio.value:.2f} times the episodes.",
            )
        )
        curved, other = (spread(study.trained[_best(study, group)]) for group in (CURVED, others))
        number = curved.map(np.divide, other).number()
        what = f"standard deviation over seeds: best with a curvature diagonal over best {what}"
        findings.append(Finding(PROTOCOL, what, number, "at most 1", at_most(number, 1)))
    tries, budget = len(study.protocol["rates"]), study.protocol["budget"]
    why = (
        f"Every method had {tries} tries on {study.protocol['tuning_seeds']} other seeds and {budget} episodes, all "
        "stages counted. The paper speaks of five benchmarks and shows CartPole; so does this."
    )
    return conclude("C9", text, findings, findings, why)


def critic_claim(studies: Mapping[str, Study]) -> Claim:
    """C15: against the same method with the state's value, learned, as its baseline."""
    text = "competes without a learned critic"
    if PROTOCOL not in studies:
        return _needs_corrected("C15", text)
    study = studies[PROTOCOL]
    findings = []
    for method in CRITICISED:
        without = _best(study, tuple(Variant(method, s) for s in STABILISERS))
        ours, theirs = mean_score(study.trained[without]), mean_score(study.trained[Variant(method, CRITIC)])
        ratio = ours.map(np.divide, theirs).number()
        what = f"final score of {without.label} over {method} with a learned critic"
        why = f"{without.label} scores {ratio.text()} times what {method} does with a learned critic."
        findings.append(Finding(PROTOCOL, what, ratio, f"at least {CLOSE:g}", at_least(ratio, CLOSE), why))
    return conclude("C15", text, findings, findings)


def _needs_corrected(name: str, text: str) -> Claim:
    nothing = Number(float("nan"), float("nan"), float("nan"))
    why = f"It is tested in the protocol {PROTOCOL}, which was not run."
    found = Finding(PROTOCOL, "not run", nothing, "", UNDECIDED, why)
    return conclude(name, text, [found], [found])


def _fastest(study: Study, variants: tuple[Variant, ...]) -> Resampled:
    """Episodes to the threshold, of the fastest of them."""
    return smallest(*(first_reaches(study.trained[variant], THRESHOLD) for variant in variants))


def _name(study: Study, variants: tuple[Variant, ...]) -> str:
    """Which that is."""
    return min(variants, key=lambda v: float(first_reaches(study.trained[v], THRESHOLD).value)).label


def _best(study: Study, variants: tuple[Variant, ...]) -> Variant:
    """The one with the highest final score."""
    return max(variants, key=lambda v: float(mean_score(study.trained[v]).value))
