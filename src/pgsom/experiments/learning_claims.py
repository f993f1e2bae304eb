"""The claims about learning, C8 and C10 to C14: by the paper's own numbers, and in every protocol.

A protocol with several readings of the Hessian rows is looked at in each; "+" is as the script has it, and the reading
that decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from pgsom.experiments.printed import (
    FASTER,
    FEWER_EPISODES,
    GOAL,
    METHODS,
    PRINTED,
    REACHES_200,
    STABILISERS,
    TEXT_CELLS,
    THRESHOLD,
    Variant,
)
from pgsom.experiments.resampling import Cells, Resampled, first_reaches, largest, mean_score, smallest, spread
from pgsom.experiments.study import Study
from pgsom.experiments.table import Row, table
from pgsom.experiments.verdicts import (
    UNTESTABLE,
    Claim,
    Finding,
    about,
    all_of,
    at_least,
    at_most,
    conclude,
    denied,
    exactly,
    roughly_at_least,
)

PAPER = "the paper's own numbers"
SIGNS = {"plus": "+", "minus": "−", "none": "0"}
DECISIVE = ("as-run (+)", "as-run", "as-printed", "corrected")
"""The settings that decide, the first that was run: the one that explains the printed numbers comes first."""


class View(NamedTuple):
    """Twelve cells of a protocol in one reading."""

    name: str
    cells: Cells
    best: float
    """The highest score there is."""

    def rows(self) -> list[Row]:
        """Table 1."""
        return table(self.name, {Variant(*cell): trained for cell, trained in self.cells.items()})


def views(studies: Mapping[str, Study]) -> list[View]:
    """All protocols, those with readings once in each."""
    return [view for study in studies.values() for view in _views_of(study)]


def _views_of(study: Study) -> Iterator[View]:
    protocol = study.protocol
    for reading in protocol.get("readings", ("",)):
        own = {v: trained for v, trained in study.trained.items() if v.reading in ("", reading)}
        cells = {v[:2]: trained for v, trained in own.items() if v[:2] in PRINTED}
        yield View(f"{protocol.name} ({SIGNS[reading]})" if reading else protocol.name, cells, protocol.best_score)


def learning_claims(studies: Mapping[str, Study]) -> list[Claim]:
    """C8 and C10 to C14."""
    seen = views(studies)
    claims = (fewer_episodes, reaches_200, cells, clipping, trade_off, modest_gains)
    return [_with_the_others(claim(seen)) for claim in claims]


def _with_the_others(claim: Claim) -> Claim:
    """The verdicts in all settings, behind the reason for the one."""
    said = {name: verdict for name, verdict in across(claim.findings).items() if name != PAPER}
    by_verdict = {verdict: [name for name, one in said.items() if one == verdict] for verdict in said.values()}
    listed = "; ".join(f"{verdict}: {', '.join(names)}" for verdict, names in by_verdict.items())
    return claim._replace(why=f"{claim.why} By setting: {listed}.".strip())


def _decisive(findings: Sequence[Finding]) -> list[Finding]:
    """Those in the setting that decides."""
    for setting in DECISIVE:
        if found := [finding for finding in findings if finding.setting == setting]:
            return found
    return list(findings)


def fewer_episodes(seen: Sequence[View]) -> Claim:
    """C8."""
    best = max(mean for mean, _ in PRINTED.values())
    findings = [
        Finding(
            PAPER,
            f"highest mean in Table 1, against {GOAL:g} to be surpassed",
            exactly(best),
            f"at least {GOAL:g}",
            denied(best >= GOAL),
            f"No cell of Table 1 surpasses {GOAL:g}, and by the paper's Figure 2 the Hessian method is the slowest: "
            f"{REACHES_200['hessian']:g} episodes to {THRESHOLD:g} against {REACHES_200['reinforce']:g}.",
        )
    ]
    for view in seen:
        ours, theirs = (first_reaches(view.cells[m, "none"], GOAL) for m in ("hessian", "reinforce"))
        ratio = theirs.map(np.divide, ours).number()
        testable = view.best >= GOAL and not np.isnan(ratio.value)
        why = f"The highest possible score is {view.best:.1f}." if view.best < GOAL else ""
        findings.append(
            Finding(
                view.name,
                f"episodes of REINFORCE to {GOAL:g} over those of the Hessian method",
                ratio,
                f"roughly at least {FEWER_EPISODES:g}",
                roughly_at_least(ratio, FEWER_EPISODES) if testable else UNTESTABLE,
                why or ("" if testable else f"Neither mean reaches {GOAL:g}."),
            )
        )
    return conclude("C8", "≈3× fewer episodes to 400 on CartPole", findings, _decisive(findings[1:]))


def reaches_200(seen: Sequence[View]) -> Claim:
    """C10."""
    findings: list[Finding] = []
    decisive: list[Finding] = []
    for view in seen:
        own = [*_times(view), *_ratios(view, "updates"), *_ratios(view, "episodes")]
        findings += own
    for setting in DECISIVE:
        decisive = [f for f in findings if f.setting == setting and "per episode" in f.what]
        if decisive:
            break
    why = (
        "Runge-Kutta plays two episodes an update, which the paper's axis does not count; the verdict is for episodes, "
        "as the claim is stated."
    )
    text = "Runge-Kutta reaches 200 after ~250 episodes, policy gradient ~350, Hessian ~400 (40 % and 55 % faster)"
    return conclude("C10", text, findings, decisive, why)


def _times(view: View) -> Iterator[Finding]:
    """Updates to 200, which is what the paper's axis shows."""
    for method, claimed in REACHES_200.items():
        number = first_reaches(view.cells[method, "none"], THRESHOLD, counted="updates").number()
        what = f"updates of {method} to {THRESHOLD:g}"
        yield Finding(view.name, what, number, f"about {claimed:g}", about(number, claimed))


def _ratios(view: View, counted: str) -> Iterator[Finding]:
    fast = first_reaches(view.cells["runge-kutta", "none"], THRESHOLD, counted=counted)
    for method, claimed in FASTER.items():
        slow = first_reaches(view.cells[method, "none"], THRESHOLD, counted=counted)
        number = slow.map(np.divide, fast).number()
        per = counted.removesuffix("s")
        what = f"{counted} of {method} to {THRESHOLD:g} over those of Runge-Kutta, per {per}"
        why = f"Per {per}, Runge-Kutta is {number.value:.2f} times as fast as {method}."
        yield Finding(view.name, what, number, f"roughly at least {claimed:g}", roughly_at_least(number, claimed), why)


def cells(seen: Sequence[View]) -> Claim:
    """C11: how many of the 12 printed means lie in their bands; up to 2 misses are chance in 1 of 20 cases or more."""
    findings = []
    allowed = next(k for k in range(13) if scipy.stats.binom.sf(k, 12, 0.05) < 0.05)
    for view in seen:
        rows = view.rows()
        means, stds = (sum(getattr(row, f"{what}_is_in_band") for row in rows) for what in ("mean", "std"))
        missed = ", ".join(f"{r.method} {r.stabiliser}" for r in rows if not r.mean_is_in_band)
        findings.append(
            Finding(
                view.name,
                "printed means in the 95 % band of five runs, of 12",
                exactly(means),
                f"at least {12 - allowed} (more misses come by chance in fewer than 1 of 20 cases)",
                at_least(exactly(means), 12 - allowed),
                f"{means} of 12 printed means and {stds} of 12 standard deviations lie where five of our runs fall"
                + (f"; not: {missed}." if missed else "."),
            )
        )
    good = [f.setting for f in findings if at_least(f.number, 12 - allowed) == "reproduced"]
    why = (
        f"The table is what one expects in the setting {' and '.join(good)}" + _without(good)
        if good
        else "In no setting that we tried is the table what one expects."
    )
    return conclude("C11", "each of the 12 cells of Table 1", findings, _decisive(findings), why)


def _without(good: Sequence[str]) -> str:
    return ", in which the Hessian rows hold no curvature." if good == ["as-run (0)"] else "."


def clipping(seen: Sequence[View]) -> Claim:
    """C12."""
    findings = []
    for view in seen:
        for method in METHODS:
            others = largest(*(mean_score(view.cells[method, s]) for s in STABILISERS if s != "clip"))
            number = mean_score(view.cells[method, "clip"]).map(np.subtract, others).number()
            what = f"{method}: mean with clipping less the best other"
            why = f"{method} with clipping scores {number.text()} points more than with its best other stabiliser."
            findings.append(Finding(view.name, what, number, "at least 0", at_least(number, 0), why))
    return conclude("C12", "clipping is the best stabiliser for each method", findings, _decisive(findings))


def trade_off(seen: Sequence[View]) -> Claim:
    """C13."""
    (mean, std), others = (
        PRINTED["runge-kutta", "clip"],
        [v for k, v in PRINTED.items() if k != ("runge-kutta", "clip")],
    )
    best = max(other for other, _ in others)
    findings = [
        Finding(
            PAPER,
            "Table 1: Runge-Kutta with clipping less the best other",
            exactly(mean - best),
            "at least 0",
            denied(mean >= best and std <= min(s for _, s in others)),
            f"Table 1 has Hessian with clipping above it ({best:.1f} ± {PRINTED['hessian', 'clip'][1]:.1f} against "
            f"{mean:.1f} ± {std:.1f}); the text gives {TEXT_CELLS['runge-kutta', 'clip'][0]:.1f} for the same cell.",
        )
    ]
    for view in seen:
        own = view.cells["runge-kutta", "clip"]
        rest = [trained for cell, trained in view.cells.items() if cell != ("runge-kutta", "clip")]
        ahead = mean_score(own).map(np.subtract, largest(*map(mean_score, rest))).number()
        narrow = spread(own).map(np.divide, smallest(*map(spread, rest))).number()
        what = "mean of Runge-Kutta with clipping less the best other"
        findings.append(Finding(view.name, what, ahead, "at least 0", at_least(ahead, 0)))
        what = "its standard deviation over the smallest other"
        findings.append(Finding(view.name, what, narrow, "at most 1", at_most(narrow, 1)))
    text = "Runge-Kutta with clipping is the best trade-off, its band the narrowest"
    return conclude("C13", text, findings, _decisive(findings[1:]))


def modest_gains(seen: Sequence[View]) -> Claim:
    """C14: a gain is modest if it is at most half of clipping's."""
    gain = PRINTED["hessian", "entropy"][0] / PRINTED["hessian", "none"][0] - 1
    findings = [
        Finding(
            PAPER,
            'Table 1: gain of the Hessian method by entropy, of which the text says "little effect"',
            exactly(gain),
            "at most 0.25",
            denied(gain <= 0.25),
            f'The text says that entropy "has little effect on Hessian PG"; by Table 1 it adds {gain:.0%}.',
        )
    ]
    for view in seen:
        worst = largest(*(_beyond_half(view, m, s) for m in METHODS for s in ("entropy", "baseline"))).number()
        what = "largest gain by entropy or baseline less half of clipping's, of the three methods"
        findings.append(Finding(view.name, what, worst, "at most 0", at_most(worst, 0)))
    text = "entropy and baseline give only modest gains"
    return conclude("C14", text, findings, _decisive(findings[1:]))


def _beyond_half(view: View, method: str, stabiliser: str) -> Resampled:
    plain, clipped, other = (mean_score(view.cells[method, s]) for s in ("none", "clip", stabiliser))
    return other.map(lambda o, p, c: (o - p) - (c - p) / 2, plain, clipped)


def across(findings: Sequence[Finding]) -> dict[str, str]:
    """The verdict of a claim in each setting, its parts together."""
    settings = dict.fromkeys(finding.setting for finding in findings)
    return {name: all_of(f.verdict for f in findings if f.setting == name) for name in settings}
