"""The paper's figures: as it has them, mean ± 1 standard deviation, and as they should be, with intervals of the mean.

Figure 1 has one method a panel, its stabilisers as dashes; figure 2 the three methods without stabiliser; figure 3 the
last evaluation of all variants. A method has one colour everywhere. Against updates, episodes and environment steps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgsom.experiments.blocks import Trained
from pgsom.experiments.learning_claims import View
from pgsom.experiments.printed import METHODS, PRINTED, STABILISERS
from pgsom.experiments.table import Row
from pgsom.report.blocks import Bar, BarChart, Dash, LineChart, Series
from pgsom.report.figures import COLOURS, STYLE, column_figure, legend_above, save_figure
from pgsom.statistics import bootstrap_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHOD_COLOURS = {
    "reinforce": COLOURS["reinforce"],
    "hessian": COLOURS["hessian-pg"],
    "runge-kutta": COLOURS["runge-kutta-pg"],
}
DASHES: dict[str, Dash] = {"none": "-", "clip": "--", "entropy": ":", "baseline": "-."}
METHOD_DASHES: dict[str, Dash] = {"reinforce": "-", "hessian": "--", "runge-kutta": "-."}
"""Where methods share a chart: plain REINFORCE and as-run's plain Hessian are one curve, and both stay visible."""
AXES = {"updates": "updates", "episodes": "episodes per run, all stages counted", "env_steps": "environment steps"}
FILE_NAMES = str.maketrans({" ": "_", "(": None, ")": None, "+": "plus", "−": "minus", "0": "none"})


class Curve(NamedTuple):
    """One line of a figure."""

    name: str
    colour: str
    dash: Dash
    trained: Trained

    def x(self, axis: str) -> NDArray[np.float64]:
        """Positions; environment steps are the mean over seeds."""
        found = np.asarray(getattr(self.trained, axis), np.float64)
        return found.mean(axis=0) if found.ndim == 2 else found

    def band(self, *, spread: bool) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Mean and the band around it: one standard deviation to either side, or the interval of the mean."""
        scores = self.trained.scores.astype(np.float64)
        if not spread:
            return bootstrap_mean(scores)
        mean, std = scores.mean(axis=0), scores.std(axis=0)
        return mean, mean - std, mean + std


def figure_1(view: View) -> dict[str, list[Curve]]:
    """By method, a curve for each stabiliser."""
    return {
        method: [Curve(s, METHOD_COLOURS[method], DASHES[s], view.cells[method, s]) for s in STABILISERS]
        for method in METHODS
    }


def figure_2(view: View) -> list[Curve]:
    """The three methods without a stabiliser."""
    return [Curve(m, METHOD_COLOURS[m], METHOD_DASHES[m], view.cells[m, "none"]) for m in METHODS]


def save_figures(seen: Sequence[View], rows: Sequence[Row], folder: Path) -> list[Path]:
    """Every figure of every protocol, as PNG and PDF; figure 1 of the Hessian rows once for each reading."""
    import matplotlib as mpl

    written: list[Path] = []
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its keys are literals
        for protocol in dict.fromkeys(row.protocol for row in rows):
            readings = [view for view in seen if view.name.startswith(protocol)]
            first, best = readings[0], readings[0].best
            for method, curves in figure_1(first).items():
                if method != "hessian":
                    written += _both(curves, folder / f"figure1_{protocol}_{method}", f"{protocol}, {method}", best)
            for view in readings:
                path = folder / f"figure1_{view.name.translate(FILE_NAMES)}_hessian"
                written += _both(figure_1(view)["hessian"], path, f"{view.name}, hessian", best)
            written += _both(figure_2(first), folder / f"figure2_{protocol}", f"{protocol}, no stabiliser", best)
            own = [row for row in rows if row.protocol == protocol]
            written += _paper_bars(own, folder / f"figure3_{protocol}_paper", best)
            written += _bars(own, folder / f"figure3_{protocol}", best)
    return written


def _both(curves: Sequence[Curve], path: Path, caption: str, best: float) -> list[Path]:
    """As the paper has it, and with intervals against all three axes side by side."""
    seeds = len(curves[0].trained.scores)
    plain = column_figure()
    _draw(plain.add_subplot(), curves, "updates", best, spread=True)
    legend_above(plain, f"{caption}: mean ± 1 std, {seeds} seeds")
    wide = column_figure()
    wide.set_size_inches(7.0, 2.6)
    for place, axis in enumerate(AXES, start=1):
        axes = wide.add_subplot(1, 3, place)
        _draw(axes, curves, axis, best, spread=False)
        if place > 1:
            axes.set_ylabel("")
    legend_above(wide, f"{caption}: mean, 95 % interval, {seeds} seeds")
    return [*save_figure(plain, path.with_name(path.name + "_paper")), *save_figure(wide, path)]


def _draw(axes: "Axes", curves: Sequence[Curve], axis: str, best: float, *, spread: bool) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for curve in curves:
        mean, low, high = curve.band(spread=spread)
        x = curve.x(axis)
        axes.fill_between(x, low, high, color=curve.colour, alpha=0.15, linewidth=0)
        axes.plot(x, mean, curve.dash, color=curve.colour, linewidth=1.3, label=curve.name)
    axes.margins(x=0)
    axes.set_xlim(left=0)
    axes.set_ylim(0, best * 1.02)
    axes.grid(axis="y", linewidth=0.4, alpha=0.4)
    axes.set_xlabel(AXES[axis].split(",")[0])
    axes.set_ylabel(f"score, of at most {best:.4g}")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _paper_bars(rows: Sequence[Row], path: Path, best: float) -> tuple[Path, Path]:
    """Means as bars with ± 1 standard deviation."""
    figure = column_figure()
    figure.set_size_inches(3.4, 0.16 * len(rows) + 1.2)
    axes = figure.add_subplot()
    places = np.arange(len(rows))
    colours = [METHOD_COLOURS[row.method] for row in rows]
    axes.barh(places, [row.mean for row in rows], xerr=[row.std for row in rows], color=colours, error_kw={"lw": 0.8})
    _label(axes, rows, places, best)
    axes.set_title(f"{rows[0].protocol}, last evaluation: mean ± 1 std, {rows[0].seeds} seeds", loc="left")
    return save_figure(figure, path)


def _bars(rows: Sequence[Row], path: Path, best: float) -> tuple[Path, Path]:
    """Means with their intervals, the band of five runs, and the printed mean."""
    figure = column_figure()
    figure.set_size_inches(3.4, 0.16 * len(rows) + 1.4)
    axes = figure.add_subplot()
    places = np.arange(len(rows))
    bands = [(row.five_run_mean_low, row.five_run_mean_high) for row in rows]
    axes.hlines(places, *zip(*bands, strict=True), color="#BBBBBB", linewidth=5, label="band of five runs' mean")
    for place, row in zip(places, rows, strict=True):
        axes.hlines(place, row.ci_low, row.ci_high, color=METHOD_COLOURS[row.method], linewidth=2.2)
    axes.plot([row.mean for row in rows], places, "o", color="#000000", markersize=3, label="ours, with 95 % interval")
    axes.plot([row.printed_mean for row in rows], places, "x", color="#000000", markersize=5, label="printed")
    _label(axes, rows, places, best)
    legend_above(figure, f"{rows[0].protocol}, last evaluation, {rows[0].seeds} seeds")
    return save_figure(figure, path)


def _label(axes: "Axes", rows: Sequence[Row], places: NDArray[Any], best: float) -> None:
    axes.set_yticks(places, [row.variant.label for row in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, best * 1.02)
    axes.set_xlabel(f"score, of at most {best:.4g}")


def line_chart(title: str, curves: Sequence[Curve], best: float) -> LineChart:
    """The same for a page: interval of the mean, all three axes to choose from."""
    series = []
    for curve in curves:
        mean, low, high = curve.band(spread=False)
        x = {axis: curve.x(axis) for axis in AXES}
        series.append(Series(curve.name, curve.colour, curve.dash, x, mean, low, high))
    return LineChart(title, AXES, f"score, of at most {best:.4g}", series)


def bar_chart(rows: Sequence[Row], best: float) -> BarChart:
    """Figure 3 for a page."""
    bars = [
        Bar(
            row.variant.label,
            row.method,
            METHOD_COLOURS[row.method],
            row.mean,
            row.ci_low,
            row.ci_high,
            row.five_run_mean_low,
            row.five_run_mean_high,
            PRINTED[row.method, row.stabiliser][0],
        )
        for row in rows
    ]
    title = f"Figure 3, {rows[0].protocol}: last evaluation, {rows[0].seeds} seeds"
    return BarChart(title, f"score, of at most {best:.4g}", bars, band_label="mean of five runs, 95 of 100 cases")
