"""Figures at the width of a column, drawn without pyplot's global state."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from pgsom.checks import check_choice, wrong
from pgsom.runs import Result
from pgsom.runs.files import write
from pgsom.statistics import bootstrap_mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Against = Literal["env_steps", "episodes", "updates"]
AGAINST: dict[str, str] = {
    "env_steps": "environment steps per seed",
    "episodes": "episodes per seed",
    "updates": "updates",
}
# Okabe and Ito's palette, told apart by the colour-blind. A method has its colour in every figure.
COLOURS = {
    "pg-som": "#0072B2",
    "reinforce": "#E69F00",
    "hessian-pg": "#009E73",
    "runge-kutta-pg": "#D55E00",
    "adam": "#CC79A7",
}
OTHER_COLOURS = ("#56B4E9", "#000000", "#999999", "#F0E442")
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    # TrueType, so that text in the PDF stays text.
    "pdf.fonttype": 42,
}
COLUMN_WIDTH, HEIGHT = 3.4, 2.5
GRID_POINTS = 400
MOST_SEEDS_DRAWN = 20


def save_learning_curve(
    results: Sequence[Result],
    path: Path,
    *,
    against: Against = "episodes",
    labels: Sequence[str] | None = None,
) -> tuple[Path, Path]:
    """The learning curves of `results` as ``path.png`` and ``path.pdf``."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its keys are literals
        figure = column_figure()
        learning_curve(results, figure.add_subplot(), against=against, labels=labels)
        legend_above(figure, _caption(results))
        return save_figure(figure, path)


def learning_curve(
    results: Sequence[Result],
    axes: "Axes",
    *,
    against: Against = "episodes",
    labels: Sequence[str] | None = None,
) -> None:
    """Mean return over seeds with its 95 % bootstrap band; of one or two results also the seeds, faint.

    Long runs are smoothed by a running mean, which the axis then says. Results are named by their method, or by
    `labels`. Against `env_steps` the curve ends where the seed with the fewest steps does.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    check_choice("against", against, AGAINST)
    names = list(labels) if labels is not None else [result.settings.method for result in results]
    if not results or len(names) != len(results):
        raise wrong("labels", names, f"accepted is one for each of {len(results)} results, at least one")
    windows = [max(1, result.returns.shape[1] // 100) for result in results]
    for result, name, colour, window in zip(results, names, colours(results, names), windows, strict=True):
        x, curves = _on_one_grid(result, window, against)
        _draw(axes, x, curves, name, colour, each_seed=len(results) <= 2)
    axes.set_xlabel(AGAINST[against])
    axes.set_ylabel(_return_label(windows))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.margins(x=0)
    axes.set_xlim(left=0)
    axes.grid(axis="y", linewidth=0.4, alpha=0.4)


def legend_above(figure: "Figure", caption: str) -> None:
    """Each name once, above all axes, where it hides no curve."""
    named = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    legend = figure.legend(
        list(named.values()),
        list(named),
        loc="outside upper left",
        ncols=3 if max(map(len, named)) <= 15 else 2,
        title=caption,
        alignment="left",
        frameon=False,
        handlelength=2.0,
        columnspacing=1.2,
    )
    legend.get_title().set_fontsize(8)


def column_figure() -> "Figure":
    """An empty figure as wide as a column of text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(COLUMN_WIDTH, HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: "Figure", path: Path) -> tuple[Path, Path]:
    """As PNG and PDF beside each other, each whole or not at all; the same figure gives the same bytes."""
    png, pdf = (path.with_name(path.name + ending) for ending in (".png", ".pdf"))
    unstamped = {"CreationDate": None, "Producer": None, "Creator": None}
    forms: dict[Path, dict[str, Any]] = {
        png: {"format": "png", "dpi": 200, "metadata": {"Software": None}},
        pdf: {"format": "pdf", "metadata": unstamped},
    }
    for file, form in forms.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, **form)
        figure.set_layout_engine("none")  # the second form keeps the layout of the first
        write(file, buffer.getvalue())
    return png, pdf


def _draw(
    axes: "Axes", x: NDArray[np.float64], curves: NDArray[np.float64], name: str, colour: str, *, each_seed: bool
) -> None:
    """Curves are [seed, point]."""
    interval = bootstrap_mean(curves)
    if each_seed and 1 < len(curves) <= MOST_SEEDS_DRAWN:
        axes.plot(x, curves.T, color=colour, linewidth=0.4, alpha=0.3)
    if len(curves) > 1:
        axes.fill_between(x, interval.low, interval.high, color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, interval.mean, color=colour, linewidth=1.3, label=name)


def _on_one_grid(result: Result, window: int, against: Against) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """x [point] and smoothed returns [seed, point], up to the smallest budget that all seeds reached."""
    seeds, updates = result.returns.shape
    counts = {
        "env_steps": result.env_steps,
        "episodes": np.broadcast_to(result.episodes, (seeds, updates)),
        "updates": np.broadcast_to(np.arange(1, updates + 1), (seeds, updates)),
    }[against].astype(np.float64)
    counts, sound = counts[result.sound], result.returns[result.sound]
    smooth = np.stack([_running_mean(returns, window) for returns in sound])
    start, end = counts[:, 0].max(), counts[:, -1].min()
    grid = np.linspace(start, max(start, end), min(GRID_POINTS, updates))
    return grid, np.stack([np.interp(grid, own, curve) for own, curve in zip(counts, smooth, strict=True)])


def _running_mean(values: NDArray[Any], window: int) -> NDArray[np.float64]:
    """Over the finite ones of the last `window` values, or as many as there are."""
    known = np.isfinite(values)
    sums, counts = (
        np.concatenate(([0.0], np.cumsum(part, dtype=np.float64))) for part in (np.where(known, values, 0), known)
    )
    end = np.arange(1, len(values) + 1)
    begin = np.maximum(end - window, 0)
    count = counts[end] - counts[begin]
    return np.divide(sums[end] - sums[begin], count, out=np.full(len(values), np.nan), where=count > 0)


def colours(results: Sequence[Result], names: Sequence[str]) -> list[str]:
    """The method's own colour for the first of its results, the free ones for the rest."""
    chosen: list[str] = []
    for result, name in zip(results, names, strict=True):
        own = COLOURS.get(name) or COLOURS.get(result.settings.method)
        free = [c for c in (*OTHER_COLOURS, *COLOURS.values()) if c not in chosen]
        chosen.append(own if own and own not in chosen else (free or OTHER_COLOURS)[0])
    return chosen


def _caption(results: Sequence[Result]) -> str:
    """Where, and what line and band are."""
    environments = ", ".join(dict.fromkeys(result.settings.environment for result in results))
    counts = sorted({len(result.seeds) for result in results})
    if counts == [1]:
        return f"{environments}, one seed"
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{environments}, mean over {seeds} seeds with 95 % interval"


def _return_label(windows: Sequence[int]) -> str:
    if max(windows) == 1:
        return "return"
    low, high = min(windows), max(windows)
    span = f"{high}" if low == high else f"{low} to {high}"
    return f"return\n(mean of {span} updates)"


def _thousands(value: float, position: int | None = None) -> str:
    """1,000 rather than 1000.0; -0 is 0."""
    del position
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"
