"""``pgsom runs``: which runs there are, and how they stand."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from pgsom.checks import printable
from pgsom.cli.arguments import FLAG, Option, help_text, read_arguments

if TYPE_CHECKING:
    from pgsom.runs.overview import Overview

OPTIONS = (
    Option("json", FLAG, "print a JSON list of objects and nothing else"),
    Option("debug", FLAG, "show the traceback of an error"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
USAGE = "pgsom runs [DIR] [--json]"
SUMMARY = (
    "The runs in a folder and below it (by default here): running, finished, interrupted, failed or damaged.\n"
    "The return is the mean over seeds and the last tenth of the updates; the age, since something was last written."
)
COLUMNS = ("run", "state", "environment", "method", "seeds", "updates", "return", "age")
RIGHT = {"seeds", "updates", "return", "age"}


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after="example: pgsom runs runs"))
        return 0
    given = read_arguments(arguments, OPTIONS, operands=("folder",))
    folder = Path(given.get("folder", "."))

    from pgsom.runs.overview import find_runs, overview

    found = [overview(run) for run in find_runs(folder)]
    if given.get("json"):
        print(json.dumps([asdict(one) for one in found], indent=2))
    elif found:
        print(table(found))
    else:
        print(printable(f"no runs in {folder}"))
    return 0


def table(found: Sequence["Overview"]) -> str:
    """A line for each run, and under those that are damaged what is."""
    rows = [COLUMNS, *(tuple(map(printable, cells(one))) for one in found)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    lines = []
    for row, problems in zip(rows, [(), *(one.problems for one in found)], strict=True):
        padded = (
            cell.rjust(width) if name in RIGHT else cell.ljust(width)
            for name, cell, width in zip(COLUMNS, row, widths, strict=True)
        )
        lines.append("  ".join(padded).rstrip())
        lines += [f"  {printable(problem)}" for problem in problems]
    return "\n".join(lines)


def cells(one: "Overview") -> tuple[str, ...]:
    """In the order of `COLUMNS`."""
    return (
        one.folder,
        one.state,
        one.environment or "?",
        one.method or "?",
        str(one.seeds or "?"),
        f"{one.updates:,} of {one.planned_updates:,}",
        "–" if one.last_return is None else f"{one.last_return:.4g}",
        age(one.age_seconds),
    )


def age(seconds: float) -> str:
    """In the largest unit that is full: 12 s, 3 min, 5 h, 2 d."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"
