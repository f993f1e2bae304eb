"""The report of `pgsom paper`: verdicts first, then the evidence, then all that is needed to check it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pgsom.experiments.learning_claims import View, views
from pgsom.experiments.protocols import Protocol
from pgsom.experiments.study import Study
from pgsom.experiments.table import Row
from pgsom.experiments.verdicts import ROUGHLY, Claim
from pgsom.report.blocks import Block
from pgsom.report.page import Code, Columns, Facts, Page, Section, Table, Text
from pgsom.report.paper_figures import bar_chart, figure_1, figure_2, line_chart
from pgsom.report.paper_table import ALIGN, HEADER, cells, note
from pgsom.runs.store import versions

RULES = (
    "A verdict is computed from a number and its 95 % interval (bootstrap over seeds, the same seeds in every method). "
    "At least and at most: reproduced if the whole interval keeps to the bound, not reproduced if it lies beyond it, "
    f"else undecided. Numbers that the paper gives with ≈ may be off by a factor of {ROUGHLY:g}. A claim with several "
    "parts is reproduced if all are, and not reproduced if one is not. What the paper's own numbers deny is "
    "contradicted by the paper itself. The setting that decides is named behind each number."
)


class Context(NamedTuple):
    """What else the report says: how it was made."""

    seeds: int
    episodes: int
    episodes_before: int
    seconds: float
    command: str


def paper_page(claims: Sequence[Claim], studies: Mapping[str, Study], rows: Sequence[Row], context: Context) -> Page:
    """The whole report."""
    seen = views(studies)
    sections = [
        Section("Verdicts", "verdicts", [verdict_table(claims), Text(RULES)]),
        Section("Table 1", "table-1", [*_tables(rows), Text(note(rows))] if rows else []),
        *(
            _figures(study, [view for view in seen if view.name.startswith(name)], rows)
            for name, study in studies.items()
        ),
        Section("Claims, part by part", "parts", [_parts(claim) for claim in claims]),
        Section("Settings", "settings", [block for study in studies.values() for block in _settings(study)]),
        Section("How it was made", "made", _made(studies, context)),
    ]
    subtitle = (
        f"Policy Gradient with Second Order Momentum (PG-SOM), its experiment run anew: "
        f"{', '.join(studies)}; {note_of_seeds(rows)}every episode counted"
    )
    return Page("The paper, reproduced", subtitle, [section for section in sections if section.blocks])


def note_of_seeds(rows: Sequence[Row]) -> str:
    """How many runs each cell has."""
    counts = sorted({row.seeds for row in rows}, reverse=True)
    return f"{' or '.join(map(str, counts))} seeds a cell, " if counts else ""


def verdict_table(claims: Sequence[Claim]) -> Table:
    """One row a claim."""
    rows = [
        [claim.name, claim.verdict, claim.text, f"{claim.number.text()}: {claim.what}", claim.why, f"`{claim.command}`"]
        for claim in claims
    ]
    # The verdict stands second, so that a phone shows it without scrolling.
    return Table("", ["", "verdict", "claim", "number [95 %]", "why", "regenerate"], rows, "llllll", 1)


def _tables(rows: Sequence[Row]) -> list[Table]:
    """One a protocol; numbers stay on their line."""
    found = []
    for protocol in dict.fromkeys(row.protocol for row in rows):
        body = [[cell.replace(" ", "\u00a0") for cell in cells(row)[1:]] for row in rows if row.protocol == protocol]
        found.append(Table(f"Table 1, printed and ours, {protocol}", list(HEADER[1:]), body, ALIGN[1:]))
    return found


def _figures(study: Study, seen: Sequence[View], rows: Sequence[Row]) -> Section:
    """Figures 1 to 3 of a protocol; figure 1 of the Hessian rows once for each reading."""
    protocol = study.protocol
    blocks: list[Block] = [Text(protocol.summary[0].upper() + protocol.summary[1:] + ".")]
    first, best = seen[0], protocol.best_score
    title = f"Figure 2, {protocol.name}: the three methods without a stabiliser"
    blocks.append(line_chart(title, figure_2(first), best))
    panels = [
        line_chart(f"Figure 1, {protocol.name}: {method}", curves, best)
        for method, curves in figure_1(first).items()
        if method != "hessian"
    ]
    panels += [line_chart(f"Figure 1, {view.name}: hessian", figure_1(view)["hessian"], best) for view in seen]
    blocks.append(Columns(panels))
    blocks.append(bar_chart([row for row in rows if row.protocol == protocol.name], best))
    return Section(f"Figures, {protocol.name}", f"figures-{protocol.name}", blocks)


def _parts(claim: Claim) -> Table:
    body = [[f.setting, f.what, f.number.text(), f.rule, f.verdict] for f in claim.findings]
    return Table(
        f"{claim.name}: {claim.text}", ["setting", "number", "value [95 %]", "rule", "verdict"], body, "lllll", 4
    )


def _settings(study: Study) -> list[Block]:
    """Every value with its source, and what tuning chose."""
    protocol = study.protocol
    body = [[name, _written(setting.value), setting.source] for name, setting in protocol.settings.items()]
    blocks: list[Block] = [Table(f"Protocol {protocol.name}", ["setting", "value", "source"], body)]
    if study.tries:
        blocks.append(_tuning(protocol, study))
    return blocks


def _tuning(protocol: Protocol, study: Study) -> Table:
    variants = list(dict.fromkeys(tried.variant for tried in study.tries))
    rows = []
    for variant in variants:
        own = [tried for tried in study.tries if tried.variant == variant]
        rows.append([variant.label, *(f"{t.rate:g}: {t.score:.0f}{' ←' if t.chosen else ''}" for t in own)])
    columns = ["variant", *(f"try {number}" for number in range(1, max(map(len, rows))))]
    seeds, caption = protocol["tuning_seeds"], f"Tuning, {protocol.name}: rate (or KL radius): mean final score over"
    return Table(f"{caption} {seeds} seeds of another root; ← chosen", columns, rows)


def _made(studies: Mapping[str, Study], context: Context) -> list[Block]:
    spent = [
        (f"{name}, compute", f"{study.seconds:,.0f} s in all blocks, two side by side; {study.reused} parts reused")
        for name, study in studies.items()
    ]
    facts = [
        ("seeds", f"{context.seeds} asked for: 0, 1, … of root 0; tuning has seeds of root 1"),
        (
            "episodes of an evaluation",
            f"{context.episodes} at the last, which makes the table, {context.episodes_before} before",
        ),
        ("wall-clock of this run", f"{context.seconds:,.0f} s, finished parts reused"),
        *spent,
        *((f"{name}", version) for name, version in versions().items()),
    ]
    commands = (
        f"{context.command}\npgsom paper --protocol as-run        # one protocol\n"
        "pgsom paper --claim C7               # one claim\npgsom paper --fresh                  # nothing reused"
    )
    return [Facts(facts), Code(commands)]


def _written(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
