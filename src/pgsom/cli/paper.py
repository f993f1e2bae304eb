"""``pgsom paper``: the paper's experiment in the setting that explains its Table 1, beside the printed cells."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pgsom.checks import check_count, wrong
from pgsom.cli.arguments import COUNT, FLAG, PATH, Option, help_text, read_arguments

if TYPE_CHECKING:
    from pgsom.experiments.table import Row

OPTIONS = (
    Option("seeds", COUNT, "runs of each cell; the paper has 5", 100),
    Option("episodes", COUNT, "episodes of the last evaluation, which makes the table", 500),
    Option("out", PATH, "folder for table and figures", "paper-results"),
    Option("json", FLAG, "print the table as one JSON object and nothing else"),
    Option("debug", FLAG, "show the traceback of a failure"),
)
USAGE = "pgsom paper [--seeds N] [--episodes N] [--out DIR] [--json]"
SUMMARY = (
    "The 12 cells of Table 1 (CartPole, linear policy), the Hessian rows in three readings: ours with intervals\n"
    "beside the printed ones, figures 1 to 3, and the band in which the mean of five runs falls."
)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS))
        return 0
    given = {option.name: option.default for option in OPTIONS} | read_arguments(arguments, OPTIONS)
    seeds, episodes = check_count("seeds", given["seeds"], at_least=2), check_count("episodes", given["episodes"])
    folder = _writable(Path(given["out"]))

    from pgsom.experiments import as_run
    from pgsom.experiments.table import table
    from pgsom.report.paper import save_figures, write_csv, write_markdown

    outcome = as_run.run(seeds, episodes=episodes, report=None if given["json"] else _progress())
    rows = table(outcome)
    write_csv(rows, folder / "table1.csv")
    write_markdown(rows, folder / "table1.md")
    save_figures(outcome, rows, folder)
    if given["json"]:
        print(json.dumps({"out": str(folder), "table": [row._asdict() for row in rows]}, indent=2))
    else:
        _print(rows, folder)
    return 0


def _print(rows: "Sequence[Row]", folder: Path) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from pgsom.report.paper import markdown_cells

    header, *body = markdown_cells(rows)
    shown = Table(*header, box=box.SIMPLE_HEAD, pad_edge=False)
    for cells in body:
        shown.add_row(*cells)
    Console(highlight=False, width=None if sys.stdout.isatty() else 140).print(shown)
    inside = sum(row.mean_is_in_band for row in rows if row.reading in ("", "none"))
    print(f"{inside} of 12 printed means lie in the band of five runs (Hessian rows read without curvature)")
    print(f"table and figures are in {folder}")


def _progress() -> Callable[[str, int, int], None]:
    """A line on stderr for each evaluation, at most one in five seconds."""
    started, last = time.monotonic(), [float("-inf")]

    def say(scheme: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] < 5 and done < total:
            return
        last[0] = now
        cells = {"euler": "REINFORCE and Hessian", "heun": "Runge-Kutta"}[scheme]
        print(f"{now - started:6.0f} s  {cells}: evaluation {done} of {total}", file=sys.stderr, flush=True)

    return say


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
