"""Line charts, as they stand before the reader has touched them.

`assets/page.js` draws them anew, in the same way, when the axis is switched or a curve is hidden.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from pgsom.report.blocks import DASHES, LineChart, Numbers, Series, numbers
from pgsom.report.drawing import legend, note, percent, short, x_ticks
from pgsom.report.escaping import escape, json_in_script, prose
from pgsom.report.scale import Scale, scale, written

WIDTH, HEIGHT = 1000, 280
"""Of the drawing: the width is stretched to what there is, the height is in pixels."""
MARGIN = 0.04
"""Above and below the curves, as a share of their span."""
ROWS = 11
"""Of the table of numbers below a chart."""


def line_chart_markup(chart: LineChart) -> str:
    """Title, legend, axis switch, curves, note, and the numbers as a table."""
    axis = next(iter(chart.x_labels))
    x, y = scales(chart.series, axis)
    entries = [(series.name, series.colour, DASHES[series.dash]) for series in chart.series]
    curves = "".join(_curve(series, axis, x, y) for series in chart.series)
    return (
        f'<figure class="chart lines"><figcaption>{prose(chart.title)}</figcaption>\n'
        f'<div class="controls">{legend(entries)}{_switch(chart)}</div>\n'
        f'<div class="y-label">{prose(chart.y_label)}</div>\n<div class="frame">'
        f'<svg class="y-axis" height="{HEIGHT}" aria-hidden="true">{_y_ticks(y)}</svg>\n'
        f'<div class="plot"><svg class="canvas" height="{HEIGHT}" role="img" aria-label="{escape(chart.title)}">'
        f'<g class="grid">{_grid(x, y)}</g><svg class="curves" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'preserveAspectRatio="none" width="100%" height="{HEIGHT}">{curves}</svg></svg></div>\n'
        f'<svg class="x-axis" height="20" aria-hidden="true">{x_ticks(x)}</svg>'
        f'<div class="x-label">{escape(chart.x_labels[axis])}</div></div>\n'
        f"{note(chart.note)}{_numbers_table(chart, axis)}"
        f'<script type="application/json">{json_in_script(_data(chart))}</script></figure>'
    )


def scales(series: Sequence[Series], axis: str) -> tuple[Scale, Scale]:
    """The axes on which all of `series` fit; across from zero."""
    across = [0.0, *(position for one in series for position in numbers(one.x[axis]).tolist())]
    along = [value for one in series for part in (one.mean, one.low, one.high) for value in numbers(part).tolist()]
    return scale(across), scale(along, margin=MARGIN)


def _y_ticks(y: Scale) -> str:
    heights = ((tick, short(HEIGHT * (1 - y.share(tick)))) for tick in y.ticks)
    return "".join(
        f'<text x="100%" dx="-8" y="{height}" dy="0.32em" text-anchor="end">{written(tick)}</text>'
        for tick, height in heights
    )


def _grid(x: Scale, y: Scale) -> str:
    heights = (short(HEIGHT * (1 - y.share(tick))) for tick in y.ticks)
    places = (percent(x.share(tick)) for tick in x.ticks)
    return "".join(
        [
            *(f'<line x1="0" x2="100%" y1="{height}" y2="{height}"/>' for height in heights),
            *(f'<line class="tick" x1="{at}" x2="{at}" y1="{HEIGHT - 4}" y2="{HEIGHT}"/>' for at in places),
        ]
    )


def _curve(series: Series, axis: str, x: Scale, y: Scale) -> str:
    across = [WIDTH * x.share(position) for position in numbers(series.x[axis]).tolist()]
    mean, low, high = (_heights(part, y) for part in (series.mean, series.low, series.high))
    band = f'<path class="band" fill="{series.colour}" d="{_band(across, low, high)}"/>' if low else ""
    return (
        f'<g data-name="{escape(series.name)}">{band}<path class="line" stroke="{series.colour}" '
        f'stroke-dasharray="{DASHES[series.dash]}" d="{_line(across, mean)}"/></g>'
    )


def _heights(values: Numbers, y: Scale) -> list[float]:
    return [HEIGHT * (1 - y.share(value)) for value in numbers(values).tolist()]


def _line(across: Sequence[float], heights: Sequence[float]) -> str:
    """Through the finite points; a gap begins a new piece."""
    points = zip(across, heights, strict=True)
    pieces = (list(piece) for whole, piece in groupby(points, key=lambda p: bool(np.isfinite(p[1]))) if whole)
    return "".join(_path(piece) for piece in pieces)


def _band(across: Sequence[float], low: Sequence[float], high: Sequence[float]) -> str:
    """For each piece without a gap, forth along `high` and back along `low`."""
    points = zip(across, low, high, strict=True)
    pieces = (list(piece) for whole, piece in groupby(points, key=lambda p: bool(np.isfinite(p[1:]).all())) if whole)
    return "".join(
        _path([*((at, top) for at, _, top in piece), *((at, bottom) for at, bottom, _ in reversed(piece))]) + "Z"
        for piece in pieces
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{short(across)},{short(height)}" for across, height in points)


def _switch(chart: LineChart) -> str:
    """The axes to choose from; shown by the script, which makes it work."""
    if len(chart.x_labels) < 2:
        return ""
    buttons = "".join(
        f'<button type="button" data-axis="{escape(axis)}" aria-pressed="{str(index == 0).lower()}">'
        f"{escape(axis.replace('_', ' '))}</button>"
        for index, axis in enumerate(chart.x_labels)
    )
    return f'<div class="switch" role="group" aria-label="Horizontal axis" hidden>{buttons}</div>'


def _data(chart: LineChart) -> dict[str, Any]:
    """What the script draws from."""
    return {
        "labels": dict(chart.x_labels),
        "series": [
            {
                "name": series.name,
                "colour": series.colour,
                "dashes": DASHES[series.dash],
                "x": {axis: _rounded(series.x[axis]) for axis in chart.x_labels},
                "mean": _rounded(series.mean),
                "low": _rounded(series.low),
                "high": _rounded(series.high),
            }
            for series in chart.series
        ],
    }


def _rounded(values: Numbers) -> list[float]:
    """Six figures, far below a pixel."""
    return [float(f"{value:.6g}") for value in numbers(values).tolist()]


def _numbers_table(chart: LineChart, axis: str) -> str:
    """A few points of each curve, for whoever does not see it."""
    head = "".join(f'<th scope="col" class="right">{escape(s.name)}</th>' for s in chart.series)
    longest = max(chart.series, key=lambda series: len(series.mean))
    chosen = np.unique(np.linspace(0, max(0, len(longest.mean) - 1), ROWS).round().astype(int))
    rows = "".join(
        f'<tr><th scope="row" class="right">{written(at)}</th>'
        + "".join(f'<td class="right">{written(_value_at(series, axis, at))}</td>' for series in chart.series)
        + "</tr>"
        for at in numbers(longest.x[axis])[chosen[chosen < len(longest.mean)]].tolist()
    )
    return (
        '<details class="numbers"><summary>Numbers</summary><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{escape(chart.title)}: numbers"><table><thead><tr><th scope="col" class="right">'
        f"{escape(chart.x_labels[axis])}</th>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>\n"
    )


def _value_at(series: Series, axis: str, at: float) -> float | None:
    """The mean at the point nearest to `at`; nothing outside of where the curve goes."""
    places = numbers(series.x[axis])
    if not places.size or not places[0] <= at <= places[-1]:
        return None
    return float(numbers(series.mean)[np.abs(places - at).argmin()])
