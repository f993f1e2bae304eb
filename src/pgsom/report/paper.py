"""The paper's table and figures, as files."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pgsom.experiments.as_run import AsRun, Variant
from pgsom.experiments.table import Row
from pgsom.report.figures import COLOURS, STYLE, column_figure, legend_above, save_figure
from pgsom.statistics import bootstrap_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHOD_COLOURS = {
    "reinforce": COLOURS["reinforce"],
    "hessian": COLOURS["hessian-pg"],
    "runge-kutta": COLOURS["runge-kutta-pg"],
}
STABILISER_STYLES = {"none": "-", "clip": "--", "entropy": ":", "baseline": "-."}
SCORE = "score, of at most 393.2"
READINGS = {"plus": "+x²σ(1−σ)", "minus": "−x²σ(1−σ)", "none": "no curvature", "": ""}


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """All columns, one row a cell and reading."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Row._fields)
        writer.writerows(rows)


def write_markdown(rows: Sequence[Row], path: Path) -> None:
    """The table for people."""
    header, *body = markdown_cells(rows)
    lines = ["| " + " | ".join(header) + " |", "|---|---|---|" + "---:|" * (len(header) - 4) + "---|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in body]
    note = (
        f"Score at the last evaluation over {rows[0].seeds} seeds. Band: where the mean of five runs falls in 95 of "
        "100 cases. Hessian rows stand in three readings of what the paper leaves open."
    )
    path.write_text("\n".join([*lines, "", note, ""]), encoding="utf-8")


def markdown_cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Header and rows, as text."""
    header = (
        "method",
        "stabiliser",
        "reading",
        "printed",
        "ours",
        "95 % interval",
        "band of 5 runs",
        "episodes",
        "printed mean in band",
    )
    return [header, *(_cells(row) for row in rows)]


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.method,
        row.stabiliser,
        READINGS[row.reading],
        f"{row.printed_mean:.1f} ± {row.printed_std:.1f}",
        f"{row.mean:.1f} ± {row.std:.1f}",
        f"[{row.ci_low:.1f}, {row.ci_high:.1f}]",
        f"[{row.five_run_mean_low:.1f}, {row.five_run_mean_high:.1f}]",
        f"{row.episodes:,.0f}",
        "yes" if row.mean_is_in_band else "no",
    )


def save_figures(outcome: AsRun, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Figures 1 to 3 of the paper, with intervals of the mean in place of standard deviations."""
    import matplotlib as mpl

    written: list[Path] = []
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its keys are literals
        for method in METHOD_COLOURS:
            shown = [v for v in outcome.variants if v.method == method and v.reading in ("", "none")]
            written += _curves(outcome, shown, folder / f"figure1_{method}", method)
        plain = [Variant(method, "none") for method in METHOD_COLOURS]
        written += _curves(outcome, plain, folder / "figure2", "no stabiliser", by_method=True)
        written += _bars(rows, folder / "figure3")
    return written


def _curves(
    outcome: AsRun, variants: Sequence[Variant], path: Path, caption: str, *, by_method: bool = False
) -> tuple[Path, Path]:
    figure = column_figure()
    axes = figure.add_subplot()
    for variant in variants:
        index = outcome.variants.index(variant)
        interval = bootstrap_mean(outcome.scores[index])
        episodes = outcome.updates * outcome.episodes[index, 0] / outcome.updates[-1]
        name = variant.method if by_method else variant.stabiliser
        # plain REINFORCE and plain Hessian are the same update: dashes keep both visible
        style = "--" if by_method and variant.method == "hessian" else STABILISER_STYLES[variant.stabiliser]
        colour = METHOD_COLOURS[variant.method]
        axes.fill_between(episodes, interval.low, interval.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(episodes, interval.mean, style, color=colour, linewidth=1.3, label=name)
    _frame(axes)
    axes.set_xlabel("episodes per seed, all stages counted")
    axes.set_ylabel(SCORE)
    legend_above(figure, f"{caption}: mean, 95 % interval, {outcome.scores.shape[1]} seeds")
    return save_figure(figure, path)


def _bars(rows: Sequence[Row], path: Path) -> tuple[Path, Path]:
    figure = column_figure()
    figure.set_size_inches(3.4, 4.2)
    axes = figure.add_subplot()
    places = np.arange(len(rows))
    bands = [(row.five_run_mean_low, row.five_run_mean_high) for row in rows]
    axes.hlines(places, *zip(*bands, strict=True), color="#BBBBBB", linewidth=5, label="band of five runs' mean")
    for place, row in zip(places, rows, strict=True):
        axes.hlines(place, row.ci_low, row.ci_high, color=METHOD_COLOURS[row.method], linewidth=2.2)
    ours = [row.mean for row in rows]
    axes.plot(ours, places, "o", color="#000000", markersize=3, label="ours, with 95 % interval")
    axes.plot([row.printed_mean for row in rows], places, "x", color="#000000", markersize=5, label="printed")
    axes.set_yticks(places, [Variant(row.method, row.stabiliser, row.reading).label for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel(SCORE)
    axes.set_xlim(0, 400)
    legend_above(figure, f"last evaluation, {rows[0].seeds} seeds")
    return save_figure(figure, path)


def _frame(axes: "Axes") -> None:
    axes.margins(x=0)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", linewidth=0.4, alpha=0.4)
