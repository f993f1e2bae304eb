"""A diagnosis as plain data, as text, as a figure, and as a part of the page of its run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pgsom.checks import wrong
from pgsom.experiments.diagnosis import Diagnosis
from pgsom.report.blocks import Bar, BarChart, Block, Table, Text
from pgsom.report.figures import STYLE, column_figure, save_figure
from pgsom.runs.store import to_json

DIAGNOSIS = "diagnosis"
"""The files in a run's folder: .json, .png, .pdf."""
GRADIENT, CURVATURE, PREDICTED, SECOND, ACTUAL = "#0072B2", "#009E73", "#E69F00", "#CC79A7", "#000000"
MEANINGS = {
    "gradient_signal_to_noise": "signal-to-noise of the gradient, one batch",
    "gradient_batches_needed": "batches for a gradient of signal-to-noise 1",
    "curvature_signal_to_noise": "signal-to-noise of the curvature, one batch",
    "curvature_batches_needed": "batches for a curvature of signal-to-noise 1",
    "negative": "negative entries of the curvature, one batch",
    "negative_of_mean": "negative entries of its mean over all batches",
    "alignment": "cosine between the method's step and the gradient",
    "step_norm": "length of the step",
    "predicted": "improvement predicted, first order",
    "predicted_second": "improvement predicted, second order",
    "actual": "improvement, measured",
    "hessian_largest": "largest eigenvalue of the policy Hessian",
    "hessian_smallest": "smallest eigenvalue of the policy Hessian",
    "fisher_largest": "largest eigenvalue of the Fisher matrix",
}
"""Numbers of a seed in the order shown, and what they are."""
LEAST = 0.01
"""The signal-to-noise at which the figure's bars begin."""
ENDS = ("hessian_top", "hessian_bottom", "fisher_top")


def plain(found: Diagnosis, shown: int) -> dict[str, Any]:
    """JSON-ready, with `shown` eigenvalues at each end and how far each is off at most."""
    spectra = {}
    for name, spectrum in (("hessian", found.hessian), ("fisher", found.fisher)):
        spectra[f"{name}_top"] = spectrum.top(shown).tolist()
        spectra[f"{name}_top_bounds"] = spectrum.bounds[:shown].tolist()
    spectra["hessian_bottom"] = found.hessian.bottom(shown).tolist()
    spectra["hessian_bottom_bounds"] = found.hessian.bounds[::-1][:shown].tolist()
    return {
        "seed": found.seed,
        "parameters": found.parameters,
        "batch": found.batch,
        "gradient_norm": found.gradient.norm,
        "gradient_signal_to_noise": found.gradient.signal_to_noise,
        "gradient_batches_needed": found.gradient.batches_needed,
        "curvature": found.curvature_name,
        "curvature_norm": found.curvature.norm,
        "curvature_signal_to_noise": found.curvature.signal_to_noise,
        "curvature_batches_needed": found.curvature.batches_needed,
        "negative": found.negative,
        "negative_of_mean": found.negative_of_mean,
        "alignment": found.alignment,
        "step_norm": found.step_norm,
        "predicted": found.predicted,
        "predicted_second": found.predicted_second,
        "actual": found.actual,
        "actual_error": found.actual_error,
        "hessian_largest": float(found.hessian.values[0]),
        "hessian_smallest": float(found.hessian.values[-1]),
        "fisher_largest": float(found.fisher.values[0]),
        **spectra,
    }


def save(found: Mapping[str, Any], folder: Path) -> list[Path]:
    """``diagnosis.json``, ``.png`` and ``.pdf`` in the folder."""
    target = folder / f"{DIAGNOSIS}.json"
    temporary = target.with_name(target.name + ".part")
    temporary.write_text(to_json(found) + "\n", encoding="utf-8")
    temporary.replace(target)
    return [target, *save_diagnosis_figure(found["seeds"], folder / DIAGNOSIS)]


def read(folder: Path) -> dict[str, Any] | None:
    """What `save` wrote there; None if nothing."""
    path = folder / f"{DIAGNOSIS}.json"
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        rows(found["seeds"])
        _bars(found["seeds"])
        return {"updates": int(found["updates"]), "seeds": found["seeds"], "curvature": str(found["curvature"])}
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        raise wrong("diagnosis", str(path), "damaged; accepted is what pgsom diagnose writes, run it again") from None


def rows(seeds: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """A number a row, a seed a column; None, which JSON has for ∞, included."""
    return [(said, *(_said(seed, name) for seed in seeds)) for name, said in MEANINGS.items()]


def _said(seed: Mapping[str, Any], name: str) -> str:
    value = seed[name]
    if value is None or np.isinf(value):
        return "∞"
    if name.startswith("negative"):
        return f"{value:.0%}"
    error = f" ± {seed['actual_error']:.2g}" if name == "actual" else ""
    return f"{value:.3g}{error}"


def header(seeds: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Of `rows`."""
    return ("", *(f"seed {seed['seed']}" for seed in seeds))


def blocks(found: Mapping[str, Any], label: str, updates: int) -> list[Block]:
    """Of one run, for its page."""
    seeds = found["seeds"]
    stale = "" if found["updates"] == updates else f" It is of the run after {found['updates']:,} updates."
    about = (
        f"{label}: where the run ended, from fresh episodes; curvature: {found['curvature']}. The step is one whole "
        f"update of the method; improvements are of the return with the method's discount.{stale}"
    )
    note = "Measured: mean of pairs of episodes that share their random numbers, with two standard errors."
    return [
        Text(about),
        Table("", header(seeds), rows(seeds), "l" + "r" * len(seeds)),
        BarChart(f"{label}: improvement by the next update", "return", _bars(seeds), note),
    ]


def _bars(seeds: Sequence[Mapping[str, Any]]) -> list[Bar]:
    bars = []
    for seed in seeds:
        group = f"seed {seed['seed']}"
        bars.append(Bar("predicted, first order", group, PREDICTED, float(seed["predicted"])))
        bars.append(Bar("predicted, second order", group, SECOND, float(seed["predicted_second"])))
        actual, error = float(seed["actual"]), 2 * float(seed["actual_error"])
        bars.append(Bar("measured", group, ACTUAL, actual, actual - error, actual + error))
    return bars


def save_diagnosis_figure(seeds: Sequence[Mapping[str, Any]], path: Path) -> tuple[Path, Path]:
    """Three panels under each other, as PNG and PDF: signal-to-noise, improvement, spectrum."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its keys are literals
        figure = column_figure()
        figure.set_size_inches(3.4, 5.4)
        above, middle, below = figure.subplots(3, 1)
        places = np.arange(len(seeds))
        names = [str(seed["seed"]) for seed in seeds]
        for offset, name, colour in ((-0.2, "gradient", GRADIENT), (0.2, "curvature", CURVATURE)):
            heights = np.asarray([_finite(seed[f"{name}_signal_to_noise"]) for seed in seeds])
            above.bar(places + offset, np.maximum(heights, LEAST), 0.38, color=colour, label=name)
            for place in places[heights < LEAST]:
                above.annotate(
                    "0", (place + offset, LEAST), (0, 1), textcoords="offset points", ha="center", color=colour
                )
        above.axhline(1, color="#999999", linewidth=0.6)
        above.set_yscale("log")
        above.set_ylim(bottom=LEAST)
        above.set_ylabel("signal-to-noise\nof one batch")
        _legend(above)
        for offset, name, colour, marker in (
            (-0.2, "predicted", PREDICTED, "s"),
            (0.0, "predicted_second", SECOND, "D"),
        ):
            label = {"predicted": "1st order", "predicted_second": "2nd order"}[name]
            middle.plot(
                places + offset, [seed[name] for seed in seeds], marker, color=colour, markersize=4, label=label
            )
        errors = [2 * seed["actual_error"] for seed in seeds]
        actual = [seed["actual"] for seed in seeds]
        middle.errorbar(
            places + 0.2, actual, errors, fmt="o", color=ACTUAL, markersize=3, linewidth=1, label="measured"
        )
        middle.axhline(0, color="#999999", linewidth=0.6)
        middle.yaxis.set_major_formatter("{x:.2g}")
        middle.set_ylabel("improvement by\nthe next update")
        _legend(middle)
        for axes in (above, middle):
            axes.set_xticks(places, names)
            axes.set_xlim(-0.6, len(seeds) - 0.4)
        middle.set_xlabel("seed")
        _draw_spectra(below, seeds)
        return save_figure(figure, path)


def _draw_spectra(axes: Any, seeds: Sequence[Mapping[str, Any]]) -> None:
    """Ends of the Hessian's spectrum and top of the Fisher's, by rank."""
    for index, seed in enumerate(seeds):
        for name, colour, marker in (("hessian_top", GRADIENT, "^"), ("hessian_bottom", PREDICTED, "v")):
            values = np.asarray(seed[name], float)
            label = {"hessian_top": "Hessian, top", "hessian_bottom": "bottom"}[name] if index == 0 else None
            axes.plot(np.arange(1, len(values) + 1), values, marker, color=colour, markersize=4, alpha=0.7, label=label)
        fisher = np.asarray(seed["fisher_top"], float)
        label = "Fisher, top" if index == 0 else None
        axes.plot(np.arange(1, len(fisher) + 1), fisher, "x", color=CURVATURE, markersize=4, label=label)
    axes.axhline(0, color="#999999", linewidth=0.6)
    _scale_both_ways(axes, [np.asarray([seed[name] for seed in seeds]) for name in ENDS])
    axes.set_ylabel("eigenvalue")
    axes.set_xlabel("rank")
    _legend(axes)


def _scale_both_ways(axes: Any, groups: Sequence[Any]) -> None:
    """Logarithmic above and below zero, as Hessian and Fisher can be of very different size."""
    least = min(np.abs(values).max() for values in groups)
    if not least > 0:
        return
    low, high = min(values.min() for values in groups), max(np.abs(values).max() for values in groups)
    powers = 10.0 ** np.unique(np.linspace(np.ceil(np.log10(least)), np.floor(np.log10(high)), 4).round())
    axes.set_yscale("symlog", linthresh=least)
    axes.set_ylim(min(1.5 * low, -least), 3 * high)
    axes.set_yticks([0, *powers, *(-powers[powers < -1.5 * low])], minor=False)
    axes.minorticks_off()


def _legend(axes: Any) -> None:
    """Above the axes, as wide as the figure."""
    place = {"loc": "lower left", "bbox_to_anchor": (-0.3, 1.0)}
    axes.legend(frameon=False, ncols=3, handlelength=1.2, columnspacing=1.0, handletextpad=0.5, **place)


def _finite(value: float | None) -> float:
    return 0.0 if value is None or not np.isfinite(value) else float(value)
