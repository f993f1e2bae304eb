"""Verdicts, each computed from a number with its interval by a stated rule.

    at least b     reproduced if the whole interval lies at or above b, not reproduced if it lies below, else undecided
    at most b      the same the other way round
    about b        reproduced if the whole interval lies within a factor `ROUGHLY` of b, not reproduced if it lies
                   outside of that altogether, else undecided
    roughly at least b    at least b / `ROUGHLY`: what a paper calls ≈ b is met by that

A claim with several parts is reproduced if all of them are, not reproduced if one of them is not, else undecided. What
the paper's own numbers deny is contradicted by the paper itself, whatever we measure.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
CONTRADICTED = "contradicted by the paper itself"
UNTESTABLE = "cannot be tested as stated"
UNDECIDED = "undecided"
ROUGHLY = 1.25
"""What a number that the paper gives with ≈ or ~ may be off by, as a factor."""


class Number(NamedTuple):
    """A value and its 95 % interval; of what is exact, or counted, the interval is the value."""

    value: float
    low: float
    high: float

    def text(self, digits: int = 3) -> str:
        """As in a table."""
        if math.isnan(self.value) or self.low == self.high == self.value:
            return _plain(self.value, digits)
        return f"{_plain(self.value, digits)} [{_plain(self.low, digits)}, {_plain(self.high, digits)}]"


class Finding(NamedTuple):
    """One part of a claim in one setting: the number, the rule, and what follows."""

    setting: str
    """A protocol with its reading, or "exact", "measured", "the paper's own numbers"."""
    what: str
    number: Number
    rule: str
    verdict: str
    why: str = ""


class Claim(NamedTuple):
    """A claim with its verdict."""

    name: str
    text: str
    verdict: str
    number: Number
    what: str
    """What the number is."""
    why: str
    findings: tuple[Finding, ...]

    @property
    def command(self) -> str:
        """What regenerates it alone."""
        return f"pgsom paper --claim {self.name}"


def exactly(value: float) -> Number:
    """A number without uncertainty."""
    return Number(value, value, value)


def at_least(number: Number, bound: float) -> str:
    """Whether the number is at least `bound`."""
    if not _known(number):
        return UNTESTABLE
    return REPRODUCED if number.low >= bound else NOT_REPRODUCED if number.high < bound else UNDECIDED


def at_most(number: Number, bound: float) -> str:
    """Whether the number is at most `bound`."""
    return at_least(Number(-number.value, -number.high, -number.low), -bound)


def roughly_at_least(number: Number, claimed: float) -> str:
    """Whether the number is at least ≈ `claimed`."""
    return at_least(number, claimed / ROUGHLY)


def about(number: Number, claimed: float) -> str:
    """Whether the number is ≈ `claimed`."""
    if not _known(number):
        return UNTESTABLE
    low, high = claimed / ROUGHLY, claimed * ROUGHLY
    if low <= number.low and number.high <= high:
        return REPRODUCED
    return NOT_REPRODUCED if number.high < low or number.low > high else UNDECIDED


def all_of(verdicts: Iterable[str]) -> str:
    """Of a claim with several parts."""
    said = list(verdicts)
    for verdict in (CONTRADICTED, NOT_REPRODUCED, UNTESTABLE, UNDECIDED):
        if verdict in said:
            return verdict
    return REPRODUCED


def denied(holds: bool) -> str:
    """Of a claim held against other numbers of the paper: it is contradicted if it does not hold there."""
    return REPRODUCED if holds else CONTRADICTED


def conclude(name: str, text: str, findings: Sequence[Finding], decisive: Sequence[Finding], why: str = "") -> Claim:
    """The claim's verdict: contradicted if any finding says so, else that of the decisive findings together.

    The number shown is that of the first decisive finding that bears the verdict.
    """
    contradicting = [finding for finding in findings if finding.verdict == CONTRADICTED]
    verdict = CONTRADICTED if contradicting else all_of(finding.verdict for finding in decisive)
    shown = next((f for f in (*contradicting, *decisive) if f.verdict == verdict), decisive[0])
    said = " ".join(filter(None, (shown.why, why)))
    return Claim(name, text, verdict, shown.number, f"{shown.what} ({shown.setting})", said, tuple(findings))


def as_data(claim: Claim) -> dict[str, Any]:
    """JSON-ready."""
    return {
        "claim": claim.name,
        "text": claim.text,
        "verdict": claim.verdict,
        "number": claim.number.value,
        "low": claim.number.low,
        "high": claim.number.high,
        "what": claim.what,
        "why": claim.why,
        "command": claim.command,
        "findings": [f._asdict() | {"number": list(f.number)} for f in claim.findings],
    }


def _known(number: Number) -> bool:
    return not any(math.isnan(part) for part in number)


def _plain(value: float, digits: int) -> str:
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
