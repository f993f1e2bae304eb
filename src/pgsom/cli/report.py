"""``pgsom report``: the interactive page of saved runs."""

import json
from collections.abc import Sequence
from pathlib import Path

from pgsom.checks import InputError, printable, wrong
from pgsom.cli.arguments import FLAG, PATH, Option, help_text, read_arguments
from pgsom.cli.settings import FINISHED

OPTIONS = (
    Option("out", PATH, "the file to write", "report.html"),
    Option("json", FLAG, "print one JSON object, where the page is and of what, and nothing else"),
    Option("debug", FLAG, "show the traceback of a failure"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
USAGE = "pgsom report RUN… [--out FILE] [--json]"
SUMMARY = (
    "One self-contained page of one or more saved runs: results, learning curves, diagnostics, settings, versions.\n"
    "It needs no network; hover over a curve, click a name to hide it, switch the horizontal axis."
)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after="example: pgsom report runs/pg-som runs/adam --out both.html"))
        return 0
    # Any number of runs: as many operands are accepted as there are words.
    places = [str(place) for place in range(len(arguments))]
    given = read_arguments(arguments, OPTIONS, operands=places)
    folders = [Path(given[place]) for place in places if place in given]
    out = Path(given.get("out", "report.html"))
    _check(folders, out)

    from pgsom.report.runs_page import runs_page

    runs_page(folders).write(out)
    if given.get("json"):
        print(json.dumps({"out": str(out), "runs": [str(folder) for folder in folders]}))
    else:
        print(printable(f"the page is in {out}"))
    return 0


def _check(folders: Sequence[Path], out: Path) -> None:
    """What can be said before anything heavy is imported."""
    if not folders:
        raise InputError("a run is missing; accepted are folders of saved runs, as pgsom train --out makes them")
    for folder in folders:
        if not (folder / FINISHED).is_file():
            raise wrong("run", str(folder), f"accepted is the folder of a saved run, with {FINISHED} in it")
    if out.is_dir():
        raise wrong("out", str(out), "is a folder; accepted is a file, such as report.html")
