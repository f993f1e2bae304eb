"""``pgsom diagnose``: how well the method of a saved run sees, and whether its next step does what it promises."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pgsom.checks import InputError, wrong
from pgsom.cli.arguments import COUNT, FLAG, PATH, SEEDS, TEXT, Option, help_text, read_arguments
from pgsom.cli.settings import FINISHED

OPTIONS = (
    Option("seeds", SEEDS, "which of the run's: the first N, or those named", 3),
    Option("curvature", TEXT, "the estimator that is judged; the method's own, or causal if it has none"),
    Option("batches", COUNT, "batches for signal, noise and the method's averages", 32),
    Option("episodes", COUNT, "for improvements and spectrum", 64),
    Option("steps", COUNT, "of Lanczos: products with each matrix", 16),
    Option("out", PATH, "folder for diagnosis.json and the figure; the run's own by default"),
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("debug", FLAG, "show the traceback of a failure"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
USAGE = "pgsom diagnose RUN [--seeds N] [--curvature NAME] [--out DIR] [--json]"
SUMMARY = (
    "Where a saved run ended: signal-to-noise of gradient and curvature, negative entries, alignment of the method's\n"
    "step with the gradient, predicted and measured improvement, ends of the spectrum of policy Hessian and Fisher."
)
AFTER = "The numbers become a part of the page that pgsom report makes of the run. Example: pgsom diagnose runs/first"
SHOWN = 5


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after=AFTER))
        return 0
    typed = read_arguments(arguments, OPTIONS, operands=("run",))
    given = {option.name: option.default for option in OPTIONS} | typed
    if "run" not in given:
        raise InputError("a run is missing; accepted is the folder of a saved run, as pgsom train --out makes it")
    folder = Path(given["run"])
    if not (folder / FINISHED).is_file():
        raise wrong("run", str(folder), f"accepted is the folder of a saved run, with {FINISHED} in it")
    out = folder if given["out"] is None else _folder(Path(given["out"]))

    from pgsom.curvature import make_estimator
    from pgsom.experiments.diagnosing import diagnose
    from pgsom.experiments.diagnosis import Effort
    from pgsom.report import diagnosis
    from pgsom.runs import load
    from pgsom.runs.store import to_json

    if given["curvature"] is not None:
        make_estimator(given["curvature"])
    effort = Effort(given["batches"], given["episodes"], given["steps"], SHOWN)
    result = load(folder)
    found = diagnose(result, seeds=_chosen(given["seeds"], result.seeds), curvature=given["curvature"], effort=effort)
    whole: dict[str, Any] = {
        "run": str(folder),
        "environment": result.settings.environment,
        "method": result.settings.method,
        "updates": int(result.returns.shape[1]),
        "curvature": found[0].curvature_name,
        "effort": vars(effort),
        "seeds": [diagnosis.plain(one, effort.shown) for one in found],
    }
    files = diagnosis.save(whole, out)
    if given["json"]:
        print(to_json(whole))
    else:
        _print(whole, files)
    return 0


def _chosen(asked: int | tuple[int, ...], trained: tuple[int, ...]) -> tuple[int, ...]:
    """The first of the run's seeds, or those asked for by name."""
    if isinstance(asked, tuple):
        return asked
    if asked < 1:
        raise wrong("seeds", asked, "accepted is a whole number >= 1, or seeds such as 0,2")
    return trained[:asked]


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise wrong("out", str(path), f"cannot be made a folder ({error.strerror}); accepted is a folder") from None
    return path


def _print(whole: dict[str, Any], files: Sequence[Path]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from pgsom.report import diagnosis

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    about = f"{whole['environment']} · {whole['method']} after {whole['updates']:,} updates · {whole['curvature']}"
    console.print(about, style="bold", markup=False)
    first, *others = diagnosis.header(whole["seeds"])
    table = Table(first, box=box.SIMPLE_HEAD, pad_edge=False)
    for name in others:
        table.add_column(name, justify="right")
    for row in diagnosis.rows(whole["seeds"]):
        table.add_row(*row)
    console.print(table)
    print(f"saved: {', '.join(map(str, files))}")
