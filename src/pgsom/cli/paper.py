"""``pgsom paper``: the paper's experiment in three protocols, its table and figures, and a verdict on every claim."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pgsom.checks import check_count, wrong
from pgsom.cli.arguments import COUNT, FLAG, PATH, TEXT, Option, help_text, read_arguments

if TYPE_CHECKING:
    from pgsom.cli.paper_progress import Board
    from pgsom.experiments.study import Setup, Study
    from pgsom.experiments.table import Row
    from pgsom.experiments.verdicts import Claim
    from pgsom.report.paper_page import Context

CLAIMS = tuple(f"C{number}" for number in range(1, 17))
PROTOCOLS = ("as-printed", "as-run", "corrected", "all")
FEW_SEEDS = 20
"""Up to so many, the evaluations before the last have as many episodes as the last."""
OPTIONS = (
    Option("protocol", TEXT, "which setting", "all", PROTOCOLS),
    Option("seeds", COUNT, "runs of each cell; the paper has 5", 200),
    Option("episodes", COUNT, "episodes of the last evaluation, which makes the table", 500),
    Option("episodes_before", COUNT, f"episodes of the evaluations before; as many up to {FEW_SEEDS} seeds, else 50"),
    Option("claim", TEXT, "only this claim", choices=CLAIMS),
    Option("out", PATH, "folder for table, figures, report and finished parts", "paper-results"),
    Option("fresh", FLAG, "run everything anew, whatever is finished already"),
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("debug", FLAG, "show the traceback of a failure"),
)
USAGE = "pgsom paper [--protocol NAME] [--claim NAME] [--seeds N] [--out DIR] [--json]"
SUMMARY = (
    "The 12 cells of Table 1 (CartPole) in three protocols, each with its sources: the equations as printed, the\n"
    "setting that explains the printed numbers, and a careful experiment. Ours with intervals beside the printed,\n"
    "all figures, and a verdict on each of the paper's 16 claims. What is finished is kept and not run again."
)
INTERRUPTED = 130
LINEAR_SEEDS = 50
"""At most, of the careful experiment with the linear policy beside its neural one."""


class Found(NamedTuple):
    """What came out."""

    studies: "dict[str, Study]"
    claims: "list[Claim]"
    linear: "Study | None"
    """The careful experiment once more, with a linear policy."""


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS))
        return 0
    given = {option.name: option.default for option in OPTIONS} | read_arguments(arguments, OPTIONS)
    folder = Path(given["out"])
    _check(given)

    from pgsom.cli.paper_progress import board
    from pgsom.report.paper_page import Context
    from pgsom.runs.store import to_json

    shown, started = board(silent=bool(given["json"])), time.monotonic()
    try:
        found = _find(given, _setup(given, folder, shown), shown)
    except KeyboardInterrupt:
        shown.close()
        print(_continue(arguments, folder), file=sys.stderr)
        return INTERRUPTED
    shown.close()
    context = Context(
        given["seeds"],
        given["episodes"],
        given["episodes_before"],
        time.monotonic() - started,
        " ".join(["pgsom paper", *(word for word in arguments if word != "--fresh")]),
    )
    rows = _write(found, folder, context, only=given["claim"])
    if given["json"]:
        print(to_json(_summary(found, rows, folder)))
    else:
        _print(found, rows, folder, only=given["claim"])
    return 0


def _check(given: dict[str, Any]) -> None:
    """What can be said before anything heavy is imported."""
    check_count("seeds", given["seeds"], at_least=2)
    check_count("episodes", given["episodes"])
    if given["episodes_before"] is None:
        given["episodes_before"] = given["episodes"] if given["seeds"] <= FEW_SEEDS else min(50, given["episodes"])
    check_count("episodes_before", given["episodes_before"])
    _writable(Path(given["out"]))


def _setup(given: dict[str, Any], folder: Path, shown: "Board") -> "Setup":
    from pgsom.experiments.blocks import Lengths
    from pgsom.experiments.study import Setup

    lengths = Lengths(given["episodes"], given["episodes_before"])
    return Setup(given["seeds"], lengths, folder / "parts", shown, fresh=bool(given["fresh"]))


def _find(given: dict[str, Any], setup: "Setup", shown: "Board") -> Found:
    """Train what the claims need, measure the rest, and judge."""
    from pgsom.experiments.claims import judge, measure, measurements_for, protocols_for
    from pgsom.experiments.protocols import read_protocol, with_linear_policy
    from pgsom.experiments.study import run_study
    from pgsom.experiments.variants import others_of, variants_of

    claims = CLAIMS if given["claim"] is None else (given["claim"],)
    needed = PROTOCOLS[:-1] if given["claim"] is None else protocols_for(given["claim"])
    chosen = [name for name in needed if given["protocol"] in (name, "all")]
    studies = {}
    for name in chosen:
        protocol = read_protocol(name)
        studies[name] = run_study(protocol, (*variants_of(protocol), *others_of(protocol)), setup)
    linear = None
    if "corrected" in studies and given["claim"] is None:
        protocol, few = with_linear_policy(studies["corrected"].protocol), min(setup.seeds, LINEAR_SEEDS)
        linear = run_study(protocol, variants_of(protocol), replace(setup, seeds=few))
    # One protocol alone is about what needs training; all of them, or a claim, are about everything.
    wanted = measurements_for(claims) if given["protocol"] == "all" or given["claim"] else ()
    measured = {}
    for name in wanted:
        shown.begin(f"measuring, {name}", "", ())
        measured[name] = measure(name, setup.parts, fresh=setup.fresh)
    return Found(studies, judge(claims, studies, measured), linear)


def _write(found: Found, folder: Path, context: "Context", *, only: str | None) -> "list[Row]":
    """Everything on disk; of one claim alone only its own numbers, so that a whole report stays."""
    from pgsom.experiments.learning_claims import views
    from pgsom.experiments.table import table
    from pgsom.experiments.verdicts import as_data
    from pgsom.report.paper_figures import save_figures
    from pgsom.report.paper_page import paper_page
    from pgsom.report.paper_table import write_table
    from pgsom.report.reproduction import reproduction
    from pgsom.runs.store import to_json

    if only is not None:
        (folder / f"{only}.json").write_text(to_json(as_data(found.claims[0])) + "\n", encoding="utf-8")
        return []
    rows = [row for name, study in found.studies.items() for row in table(name, study.trained)]
    write_table(rows, folder / "table1")
    linear = table(found.linear.protocol.name, found.linear.trained) if found.linear else []
    if linear:
        write_table(linear, folder / "table1_linear")
    (folder / "claims.json").write_text(to_json([as_data(claim) for claim in found.claims]) + "\n", encoding="utf-8")
    figures = folder / "figures"
    figures.mkdir(exist_ok=True)
    save_figures(views(found.studies), rows, figures)
    paper_page(found.claims, found.studies, [*rows, *linear], context).write(folder / "report.html")
    text = reproduction(found.claims, found.studies, [*rows, *linear], context)
    (folder / "reproduction.md").write_text(text, encoding="utf-8")
    return rows


def _summary(found: Found, rows: "Sequence[Row]", folder: Path) -> dict[str, Any]:
    from pgsom.experiments.verdicts import as_data

    return {
        "out": str(folder),
        "table": [row._asdict() for row in rows],
        "claims": [as_data(claim) for claim in found.claims],
    }


def _print(found: Found, rows: "Sequence[Row]", folder: Path, *, only: str | None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from pgsom.report.paper_table import ALIGN, HEADER, cells, note

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 180)
    for protocol in dict.fromkeys(row.protocol for row in rows):
        shown = Table(title=protocol, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
        for name, letter in zip(HEADER[1:], ALIGN[1:], strict=True):
            shown.add_column(name, justify="right" if letter == "r" else "left")
        for row in rows:
            if row.protocol == protocol:
                shown.add_row(*cells(row)[1:])
        console.print(shown)
    if rows:
        console.print(note(rows), style="dim")
    verdicts = Table("", "claim", "verdict", "number [95 %]", "why", box=box.SIMPLE_HEAD, pad_edge=False)
    for claim in found.claims:
        number = f"{claim.number.text()}: {claim.what}"
        verdicts.add_row(claim.name, claim.text, claim.verdict, number, claim.why)
    console.print(verdicts)
    if only is None:
        print(f"report.html, tables and figures are in {folder}")


def _continue(arguments: Sequence[str], folder: Path) -> str:
    """What is kept, and how to go on."""
    kept = len(list((folder / "parts").glob("*.npz")))
    again = " ".join(["pgsom paper", *(word for word in arguments if word != "--fresh")])
    return f"stopped; {kept} finished parts are kept in {folder / 'parts'}, and `{again}` goes on from there"


def _writable(folder: Path) -> Path:
    """Find out before the work whether its results can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise wrong("out", str(folder), f"cannot be written ({error.strerror}); accepted is a folder") from None
    return folder
