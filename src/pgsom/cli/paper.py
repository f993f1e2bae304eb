"""``pgsom paper``: the paper's experiment in three protocols, its table and figures, and a verdict on every claim."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsom.checks import check_count, wrong
from pgsom.cli.arguments import COUNT, FLAG, PATH, TEXT, Option, help_text, read_arguments

if TYPE_CHECKING:
    from pgsom.experiments.study import Setup, Study
    from pgsom.experiments.table import Row

PROTOCOLS = ("as-printed", "as-run", "corrected", "all")
FEW_SEEDS = 20
"""Up to so many, the evaluations before the last have as many episodes as the last."""
OPTIONS = (
    Option("protocol", TEXT, "which setting", "all", PROTOCOLS),
    Option("seeds", COUNT, "runs of each cell; the paper has 5", 200),
    Option("episodes", COUNT, "episodes of the last evaluation, which makes the table", 500),
    Option("episodes_before", COUNT, f"episodes of the evaluations before; as many up to {FEW_SEEDS} seeds, else 50"),
    Option("out", PATH, "folder for table, figures, report and finished parts", "paper-results"),
    Option("fresh", FLAG, "run everything anew, whatever is finished already"),
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("debug", FLAG, "show the traceback of a failure"),
)
USAGE = "pgsom paper [--protocol NAME] [--seeds N] [--out DIR] [--json]"
SUMMARY = (
    "The 12 cells of Table 1 (CartPole) in three protocols, each with its sources: the equations as printed, the\n"
    "setting that explains the printed numbers, and a careful experiment. Ours with intervals beside the printed ones."
)
INTERRUPTED = 130


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS))
        return 0
    given = {option.name: option.default for option in OPTIONS} | read_arguments(arguments, OPTIONS)
    folder = Path(given["out"])
    _check(given)

    from pgsom.cli.paper_progress import board

    shown = board(silent=bool(given["json"]))
    try:
        studies = _studies(given, _setup(given, folder, shown))
    except KeyboardInterrupt:
        shown.close()
        print(_continue(arguments, folder), file=sys.stderr)
        return INTERRUPTED
    shown.close()
    rows = _write(studies, folder)
    if given["json"]:
        print(json.dumps({"out": str(folder), "table": [row._asdict() for row in rows]}, indent=2))
    else:
        _print(rows, folder)
    return 0


def _check(given: dict[str, Any]) -> None:
    """What can be said before anything heavy is imported."""
    check_count("seeds", given["seeds"], at_least=2)
    check_count("episodes", given["episodes"])
    if given["episodes_before"] is None:
        given["episodes_before"] = given["episodes"] if given["seeds"] <= FEW_SEEDS else min(50, given["episodes"])
    check_count("episodes_before", given["episodes_before"])
    _writable(Path(given["out"]))


def _setup(given: dict[str, Any], folder: Path, shown: Any) -> "Setup":
    from pgsom.experiments.blocks import Lengths
    from pgsom.experiments.study import Setup

    lengths = Lengths(given["episodes"], given["episodes_before"])
    return Setup(given["seeds"], lengths, folder / "parts", shown, fresh=bool(given["fresh"]))


def _studies(given: dict[str, Any], setup: "Setup") -> "dict[str, Study]":
    from pgsom.experiments.protocols import NAMES, read_protocol
    from pgsom.experiments.study import run_study
    from pgsom.experiments.variants import others_of, variants_of

    names = NAMES if given["protocol"] == "all" else (given["protocol"],)
    protocols = {name: read_protocol(name) for name in names}
    return {
        name: run_study(protocol, (*variants_of(protocol), *others_of(protocol)), setup)
        for name, protocol in protocols.items()
    }


def _write(studies: "dict[str, Study]", folder: Path) -> "list[Row]":
    from pgsom.experiments.table import table
    from pgsom.report.paper_table import write_table

    rows = [row for name, study in studies.items() for row in table(name, study.trained)]
    write_table(rows, folder / "table1")
    return rows


def _print(rows: "Sequence[Row]", folder: Path) -> None:
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
    console.print(note(rows), style="dim")
    print(f"the table is in {folder}")


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
