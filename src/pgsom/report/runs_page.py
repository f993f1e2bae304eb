"""The page of one or more saved runs: how they were set up, how they learned, what they were made with."""

import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgsom.checks import wrong
from pgsom.report.blocks import DASHES, Block, Dash
from pgsom.report.diagnosis import blocks, read
from pgsom.report.figures import AGAINST, colours
from pgsom.report.page import Bar, BarChart, Code, Columns, Facts, LineChart, Page, Section, Series, Table, Text
from pgsom.runs import Result, load
from pgsom.runs.result import metric, metric_names
from pgsom.runs.store import SETTINGS
from pgsom.statistics import Interval, bootstrap_mean

POINTS = 400
"""Of a curve, at most."""
COUNTERS = ("episode_return", "episodes", "env_steps", "not_finite")
"""Metrics that are not diagnostics: the curve itself, its axes, and what the warnings say in words."""
DIAGNOSTICS = {
    "episode_length": "Steps of an episode",
    "entropy": "Entropy of the policy",
    "gradient_norm": "Norm of the gradient",
    "direction_norm": "Norm of the direction, unclipped",
    "alignment": "Cosine between direction and gradient",
    "negative_curvature": "Share of negative curvature",
    "effective_episodes": "Effective episodes of the last stage",
    "skipped": "Updates left out",
    "frozen": "Share of seeds that are frozen",
}
"""Titles. A metric that is not among them goes by its name."""


class Run(NamedTuple):
    """A run with what the page calls it."""

    folder: Path
    result: Result
    label: str


def runs_page(folders: Sequence[Path]) -> Page:
    """The page of the runs saved in `folders`."""
    runs = _labelled([(folder, load(folder)) for folder in folders])
    environments = list(dict.fromkeys(run.result.settings.environment for run in runs))
    grouped = [[run for run in runs if run.result.settings.environment == name] for name in environments]
    sections = [
        Section("Results", "results", [_overview(runs), *_remarks(runs), *_each(_finals, grouped)]),
        Section("Learning curves", "curves", _each(_returns, grouped)),
        Section("Diagnostics", "diagnostics", _each(_diagnostics, grouped)),
        *_diagnosed(runs),
        Section("Settings", "settings", [_settings(runs)]),
        Section("Versions and rerunning", "rerun", _rerun(runs)),
    ]
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    return Page(f"Training on {', '.join(environments)}", f"{count}: {', '.join(run.label for run in runs)}", sections)


def _labelled(loaded: Sequence[tuple[Path, Result]]) -> list[Run]:
    """By method if that tells the runs apart, otherwise with the environment, the folder's name, its path."""
    methods = [result.settings.method for _, result in loaded]
    ways = [
        methods,
        [f"{result.settings.method} on {result.settings.environment}" for _, result in loaded],
        [f"{method}, {folder.name}" for method, (folder, _) in zip(methods, loaded, strict=True)],
        [f"{method}, {folder}" for method, (folder, _) in zip(methods, loaded, strict=True)],
    ]
    labels = next((way for way in ways if len(set(way)) == len(way)), None)
    if labels is None:
        twice = next(str(folder) for folder, _ in loaded if [f for f, _ in loaded].count(folder) > 1)
        raise wrong("run", twice, "given twice; accepted are different folders")
    return [Run(folder, result, label) for (folder, result), label in zip(loaded, labels, strict=True)]


def _each(blocks: Callable[[Sequence[Run]], Sequence[Block]], grouped: Sequence[Sequence[Run]]) -> list[Block]:
    """The blocks of each environment."""
    return [block for runs in grouped for block in blocks(runs)]


def _overview(runs: Sequence[Run]) -> Table:
    columns = [
        "run",
        "environment",
        "final return",
        "95 % interval",
        "seeds",
        "updates",
        "episodes",
        "steps",
        "seconds",
    ]
    rows = []
    for run in runs:
        result, final = run.result, run.result.final
        several = len(result.seeds) > 1
        rows.append(
            [
                run.label,
                result.settings.environment,
                f"{final.mean:.4g}",
                f"[{final.low:.4g}, {final.high:.4g}]" if several else "one seed",
                f"{len(result.seeds)}",
                f"{result.returns.shape[1]:,}",
                f"{result.episodes[-1]:,}",
                f"{result.env_steps[:, -1].mean():,.0f}",
                f"{result.run_seconds:.1f}",
            ]
        )
    return Table(
        "Mean return over the last tenth of the updates; episodes and steps of each seed, seconds of all together.",
        columns,
        rows,
        "llrlrrrrr",
    )


def _remarks(runs: Sequence[Run]) -> list[Block]:
    """What a reader of the numbers should know: how far a run is, what was left out, what happened."""
    said = []
    for label, result in ((run.label, run.result) for run in runs):
        planned = result.settings.updates
        if result.updates < planned and not any(note.startswith("ended after") for note in result.notes):
            said.append(f"{label}: {result.updates:,} of {planned:,} updates so far.")
        said += [f"{label}: {sentence}." for sentence in (*result.warnings, *result.notes)]
    return [Text(sentence) for sentence in said]


def _finals(runs: Sequence[Run]) -> list[Block]:
    bars = []
    for run, colour in zip(runs, _colours(runs), strict=True):
        final = run.result.final
        band = (float(final.low), float(final.high)) if run.result.sound.sum() > 1 else (None, None)
        bars.append(Bar(run.label, "", colour, float(final.mean), *band))
    title = f"Final return on {runs[0].result.settings.environment}"
    return [BarChart(title, "mean return over the last tenth of the updates", bars, _interval_note(runs))]


def _returns(runs: Sequence[Run]) -> list[Block]:
    title = f"Learning curves on {runs[0].result.settings.environment}"
    return [_chart(runs, "episode_return", title, "return", _how_drawn(runs))]


def _diagnostics(runs: Sequence[Run]) -> list[Block]:
    """A chart of each metric that moves in any of the runs; the others in a sentence."""
    names = [name for name in metric_names() if name not in COUNTERS]
    still = {name: value for name in names if (value := _only_value(runs, name)) is not None}
    environment = runs[0].result.settings.environment
    charts = [_chart(runs, name, _titled(name), name.replace("_", " ")) for name in names if name not in still]
    said = "; ".join(f"{_titled(name).lower()}: {value:g}" for name, value in still.items())
    constant: list[Block] = [Text(f"Constant throughout on {environment}: {said}.")] if still else []
    return [Text(f"On {environment}. {_how_drawn(runs)}"), Columns(charts), *constant]


def _diagnosed(runs: Sequence[Run]) -> list[Section]:
    """Of the runs that `pgsom diagnose` has looked at."""
    found = [(run, read(run.folder)) for run in runs]
    shown = [
        block for run, one in found if one is not None for block in blocks(one, run.label, run.result.returns.shape[1])
    ]
    return [Section("Diagnosis", "diagnosis", shown)] if shown else []


def _only_value(runs: Sequence[Run], name: str) -> float | None:
    """What the metric always is, in all runs, if it is one number."""
    values = np.unique(np.concatenate([np.unique(metric(run.result, name)) for run in runs]))
    return float(values[0]) if len(values) == 1 else None


def _titled(name: str) -> str:
    return DIAGNOSTICS.get(name, name.replace("_", " "))


def _chart(runs: Sequence[Run], name: str, title: str, y_label: str, note: str = "") -> LineChart:
    shades = _colours(runs)
    dashes: list[Dash] = [*DASHES]  # type: ignore[list-item]  # its keys are the dashes
    curves = [
        _curve(run, name, colour, dashes[index % len(dashes)])
        for index, (run, colour) in enumerate(zip(runs, shades, strict=True))
    ]
    axes = {axis: AGAINST[axis] for axis in ("updates", "episodes", "env_steps")}
    return LineChart(title, axes, y_label, curves, note)


def _curve(run: Run, name: str, colour: str, dash: Dash) -> Series:
    """Mean and interval of a metric over seeds, at up to `POINTS` updates."""
    result = run.result
    updates = result.returns.shape[1]
    chosen = np.unique(np.linspace(0, updates - 1, min(POINTS, updates)).round().astype(int))
    x = {
        "updates": chosen + 1,
        "episodes": result.episodes[chosen],
        "env_steps": result.env_steps.mean(axis=0)[chosen],
    }
    values = metric(result, name)
    # Of a frozen seed there is nothing to show but that it is one.
    shown = values if name == "frozen" else values[result.sound]
    interval = _interval(smoothed(shown, chosen, _window(updates)))
    band = (interval.low, interval.high) if len(shown) > 1 else ((), ())
    return Series(run.label, colour, dash, x, interval.mean, *band)


def smoothed(values: NDArray[Any], chosen: NDArray[np.integer], window: int) -> NDArray[np.float64]:
    """At each of the `chosen` updates, each seed's mean over the last `window` finite values [seed, chosen]."""
    places = chosen[:, None] - np.arange(window)
    inside = values[:, np.maximum(places, 0)].astype(np.float64)
    counted = np.isfinite(inside) & (places >= 0)
    total, count = np.where(counted, inside, 0.0).sum(axis=2), counted.sum(axis=2)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def _interval(values: NDArray[np.float64]) -> Interval:
    """A gap where any seed has no value."""
    whole = np.isfinite(values).all(axis=0)
    interval = bootstrap_mean(np.where(whole, values, 0.0))
    return Interval(*(np.where(whole, part, np.nan) for part in interval))


def _window(updates: int) -> int:
    return max(1, updates // 100)


def _how_drawn(runs: Sequence[Run]) -> str:
    """What line and band are, and where they stand."""
    windows = [_window(run.result.returns.shape[1]) for run in runs]
    running = f" Running mean of {_span(windows)} updates." if max(windows) > 1 else ""
    return f"{_interval_note(runs)} Environment steps are the mean over seeds.{running}"


def _interval_note(runs: Sequence[Run]) -> str:
    counts = [len(run.result.seeds) for run in runs]
    return "One seed: no interval." if max(counts) == 1 else f"Mean over {_span(counts)} seeds with its 95 % interval."


def _span(counts: Sequence[int]) -> str:
    """6, or 6 to 12."""
    return " to ".join(str(count) for count in sorted({min(counts), max(counts)}))


def _colours(runs: Sequence[Run]) -> list[str]:
    return colours([run.result for run in runs], [run.result.settings.method for run in runs])


def _settings(runs: Sequence[Run]) -> Table:
    """A row for each setting; those in which the runs differ stand first."""
    written = [_described(run.result) for run in runs]
    names = list(dict.fromkeys(name for settings in written for name in settings))
    rows = [[name, *(settings.get(name, "–") for settings in written)] for name in names]
    rows.sort(key=lambda row: len(set(row[1:])) == 1)
    caption = "Every setting, defaults resolved" + ("; those that differ stand first." if len(runs) > 1 else ".")
    return Table(caption, ["setting", *(run.label for run in runs)], rows)


def _described(result: Result) -> dict[str, str]:
    settings = result.settings
    run = {
        "environment": settings.environment,
        "method": settings.method,
        "policy": settings.policy,
        "parameters": result.policy_definition.parameter_count(),
        "seeds": settings.seeds,
        "root seed": settings.seed,
        "updates": settings.updates,
    }
    if settings.policy == "mlp":
        run |= settings.policy_options | {"hidden": settings.hidden}
    return {name: _worded(value) for name, value in (run | settings.environment_options | settings.options).items()}


def _worded(value: Any) -> str:
    if isinstance(value, tuple):
        whole = list(value) == list(range(len(value))) and len(value) > 3
        return f"{value[0]} … {value[-1]}" if whole else ", ".join(map(str, value)) or "none"
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _rerun(runs: Sequence[Run]) -> list[Block]:
    versions = [_versions(run.folder) for run in runs]
    again = [
        f"pgsom train --config {shlex.quote(str(run.folder / SETTINGS))} --out {shlex.quote(f'{run.folder}-again')}"
        for run in runs
    ]
    folders = " ".join(shlex.quote(str(run.folder)) for run in runs)
    return [
        _versions_block(runs, versions),
        Text("Train again with the same settings and seeds, and make this page again:"),
        Code("\n".join([*again, f"pgsom report {folders}"])),
    ]


def _versions_block(runs: Sequence[Run], versions: Sequence[Mapping[str, str]]) -> Block:
    if all(one == versions[0] for one in versions):
        return Facts(list(versions[0].items()))
    names = list(dict.fromkeys(name for one in versions for name in one))
    rows = [[name, *(one.get(name, "–") for one in versions)] for name in names]
    return Table("The runs were made with different versions.", ["", *(run.label for run in runs)], rows)


def _versions(folder: Path) -> dict[str, str]:
    written = tomllib.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    return {str(name): str(value) for name, value in dict(written.get("versions", {})).items()}
