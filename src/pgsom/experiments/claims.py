"""All claims: which data each needs, and their verdicts in order."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from pgsom.experiments import ascent, cost_claims, listing, moments, problems, theory, theory_claims
from pgsom.experiments.comparison_claims import critic_claim, efficiency_claim
from pgsom.experiments.learning_claims import learning_claims
from pgsom.experiments.protocols import NAMES as PROTOCOLS
from pgsom.experiments.store import digest_of_measurement, read_json, write_json
from pgsom.experiments.study import Study
from pgsom.experiments.theory_claims import Exact
from pgsom.experiments.verdicts import Claim

NAMES = tuple(f"C{number}" for number in range(1, 17))
MEASUREMENTS: dict[str, tuple[Callable[[], Any], tuple[ModuleType, ...], dict[str, Any]]] = {
    "exact": (
        theory_claims.measure_exactly,
        (theory_claims, theory, moments, ascent, listing, problems),
        theory_claims.SETTINGS,
    ),
    "memory": (cost_claims.measure_memory, (cost_claims,), cost_claims.SETTINGS),
    "time": (cost_claims.measure_time, (cost_claims,), cost_claims.SETTINGS),
    "drop-in": (cost_claims.measure_drop_in, (cost_claims,), cost_claims.SETTINGS),
}
"""What is measured beside the protocols: how, the modules whose lines decide it, and its numbers."""
_OF_CLAIM = {"C1": "exact", "C2": "exact", "C3": "exact", "C4": "exact", "C5": "exact"} | {
    "C6": "memory",
    "C7": "time",
    "C16": "drop-in",
}
_TRAINED = {
    "C4": ("as-printed", "corrected"),
    "C5": ("as-printed", "corrected"),
    **dict.fromkeys(("C8", "C10", "C11", "C12", "C13", "C14"), PROTOCOLS),
    "C9": ("corrected",),
    "C15": ("corrected",),
}


def protocols_for(claim: str) -> tuple[str, ...]:
    """The protocols that a claim's verdict needs."""
    return _TRAINED.get(claim, ())


def measurements_for(claims: Sequence[str]) -> tuple[str, ...]:
    """What has to be measured for these claims."""
    return tuple(dict.fromkeys(_OF_CLAIM[claim] for claim in claims if claim in _OF_CLAIM))


def measure(name: str, parts: Path | None, *, fresh: bool) -> Any:
    """The measurement, from what is kept or made now."""
    function, modules, settings = MEASUREMENTS[name]
    source = "".join(map(inspect.getsource, modules))
    digest = digest_of_measurement(name, settings | {"code": source})
    found = None if fresh or parts is None else read_json(parts, digest)
    if found is None:
        found = function()
        if parts is not None:
            write_json(parts, digest, found)
    return found


def judge(claims: Sequence[str], studies: Mapping[str, Study], measured: Mapping[str, Any]) -> list[Claim]:
    """The claims' verdicts, in order; `measured` holds what `measurements_for` names."""
    found: list[Claim] = []
    if "exact" in measured:
        found += theory_claims.theory_claims(Exact(**measured["exact"]), studies)
    found += [
        claim(measured[name])
        for name, claim in (
            ("memory", cost_claims.memory_claim),
            ("time", cost_claims.time_claim),
            ("drop-in", cost_claims.drop_in_claim),
        )
        if name in measured
    ]
    if studies:
        found += [*learning_claims(studies), efficiency_claim(studies), critic_claim(studies)]
    by_name = {claim.name: claim for claim in found}
    return [by_name[name] for name in NAMES if name in claims and name in by_name]
