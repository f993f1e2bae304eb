"""What ``pgsom train`` says and keeps at the end: a table, or JSON, and the folder."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsom.checks import RunError, printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pgsom.runs import Result
    from pgsom.statistics import Interval

LEARNING_CURVE = "learning_curve"


@dataclass(frozen=True)
class Outcome:
    """A run that has ended."""

    result: "Result"
    planned_updates: int
    out: Path | None
    interrupted: bool
    evaluation: "NDArray[Any] | None" = None
    """Returns of fresh episodes [seed, episode], if there were any."""


def save(outcome: Outcome) -> None:
    """Summary and learning curve, if there is a folder for them; a run that was stopped has no time for the curve."""
    save_summary(outcome)
    if outcome.out is None or outcome.interrupted:
        return
    from pgsom.report.figures import save_learning_curve
    from pgsom.runs.folder import FIGURES

    with _failing_clearly(outcome.out):
        (outcome.out / FIGURES).mkdir(exist_ok=True)
        save_learning_curve([outcome.result], outcome.out / FIGURES / LEARNING_CURVE)


def save_summary(outcome: Outcome) -> None:
    """The summary with the evaluation in it, over the one that training left."""
    if outcome.out is not None:
        from pgsom.runs.store import renew_summary

        with _failing_clearly(outcome.out):
            renew_summary(outcome.out, as_table(outcome))


@contextlib.contextmanager
def _failing_clearly(run: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(f"{run} cannot be written ({error.strerror or error})") from None


def as_json(outcome: Outcome) -> str:
    """The summary of the run, its evaluation and where it is; what is not finite is null."""
    from pgsom.runs.store import to_json

    return to_json(as_table(outcome))


def as_table(outcome: Outcome) -> dict[str, Any]:
    """The same before it is JSON."""
    from pgsom.runs import summary

    evaluation = None
    if outcome.evaluation is not None:
        by_seed, interval = _evaluation(outcome.evaluation)
        evaluation = {
            "episodes": outcome.evaluation.shape[1],
            "return": {"mean": float(interval.mean), "low": float(interval.low), "high": float(interval.high)},
            "return_by_seed": [float(value) for value in by_seed],
        }
    return summary(outcome.result) | {
        "evaluation": evaluation,
        "interrupted": outcome.interrupted,
        "out": None if outcome.out is None else str(outcome.out),
    }


def print_closing(outcome: Outcome) -> None:
    """What was trained, in a line, and how it went, in a table."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for row in closing_rows(outcome):
        table.add_row(*row)
    console = Console(highlight=False)
    # What comes out of a folder may have been written by anybody.
    console.print(printable(headline(outcome.result)), style="bold", markup=False)
    console.print(table)
    for warning in outcome.result.warnings:
        console.print(printable(f"warning: {warning}"), style="yellow", markup=False)
    for note in outcome.result.notes:
        console.print(printable(f"note: {note}"), style="yellow", markup=False)
    if outcome.out is not None:
        print(printable(f"saved in {outcome.out}"))


def headline(result: "Result") -> str:
    """Environment, policy with its number of parameters, method, seeds."""
    settings = result.settings
    shape = f" {'-'.join(map(str, settings.hidden))} {settings.activation}" if settings.policy == "mlp" else ""
    parameters = result.policy_definition.parameter_count()
    seeds = f"{len(result.seeds)} seed{'s' if len(result.seeds) > 1 else ''}"
    return f"{settings.environment} · {settings.method} · {settings.policy}{shape}, {parameters:,} parameters · {seeds}"


def closing_rows(outcome: Outcome) -> list[tuple[str, str, str]]:
    """What, how much, and what it means."""
    result = outcome.result
    updates, steps = result.returns.shape[1], result.env_steps[:, -1]
    rows = [
        (
            "final return",
            _interval(result.final, int(result.sound.sum())),
            f"last {max(1, round(updates * 0.1)):,} of {updates:,} updates",
        )
    ]
    if outcome.evaluation is not None:
        interval = _evaluation(outcome.evaluation)[1]
        episodes = f"{outcome.evaluation.shape[1]:,} fresh episodes a seed"
        rows.append(("evaluation", _interval(interval, len(steps)), episodes))
    rows.append(("episodes", f"{result.episodes[-1]:,}", "a seed"))
    rows.append(("environment steps", f"{steps.mean():,.0f}", "a seed, on average"))
    rows.append(("speed", f"{result.steps_per_second:,.0f} steps/s", "all seeds together"))
    rows.append(("run time", f"{result.run_seconds:.2f} s", f"and {result.compile_seconds:.1f} s to compile"))
    return rows


def _evaluation(returns: "NDArray[Any]") -> "tuple[NDArray[Any], Interval]":
    """Each seed's mean, and the mean of these with its interval."""
    from pgsom.statistics import bootstrap_mean

    by_seed = returns.mean(axis=1)
    return by_seed, bootstrap_mean(by_seed)


def _interval(interval: "Interval", seeds: int) -> str:
    mean = f"{float(interval.mean):.4g}"
    if seeds == 1:
        return f"{mean} (one seed: no interval)"
    return f"{mean}  [{float(interval.low):.4g}, {float(interval.high):.4g}]  95 %"
