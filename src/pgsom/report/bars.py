"""Values with their intervals on one horizontal axis. All numbers are written beside them, so no script is needed."""

from itertools import groupby

from pgsom.report.blocks import Bar, BarChart
from pgsom.report.drawing import legend, note, percent, x_ticks
from pgsom.report.escaping import escape, prose
from pgsom.report.scale import Scale, scale, written

HEIGHT = 24
"""Of a row, in pixels."""


def bar_chart_markup(chart: BarChart) -> str:
    """Title, legend, a row for each bar, axis, note."""
    everything = [value for bar in chart.bars for value in _values(bar)]
    x = scale(everything, margin=0.03)
    groups = {bar.group: bar.colour for bar in chart.bars if bar.group}
    switch = legend([(name, colour, "") for name, colour in groups.items()]) if len(groups) > 1 else ""
    rows = "".join(
        f'<li class="group" data-name="{escape(group)}"><ul>{"".join(_row(bar, x) for bar in bars)}</ul></li>'
        for group, bars in groupby(chart.bars, key=lambda bar: bar.group)
    )
    return (
        f'<figure class="chart bars"><figcaption>{prose(chart.title)}</figcaption>\n'
        f'<div class="controls">{switch}{_key(chart)}</div>\n<ul class="rows">{rows}</ul>\n'
        f'<div class="row axis"><svg class="x-axis" height="20" aria-hidden="true">{x_ticks(x)}</svg></div>'
        f'<div class="x-label">{escape(chart.x_label)}</div>\n{note(chart.note)}</figure>'
    )


def _values(bar: Bar) -> tuple[float | None, ...]:
    return bar.value, bar.low, bar.high, bar.band_low, bar.band_high, bar.printed


def _row(bar: Bar, x: Scale) -> str:
    return (
        f'<li class="row"><span class="label">{prose(bar.label)}</span>'
        f'<svg class="canvas" height="{HEIGHT}" aria-hidden="true">{_drawn(bar, x)}</svg>'
        f'<span class="value">{_said(bar)}</span></li>'
    )


def _drawn(bar: Bar, x: Scale) -> str:
    middle = HEIGHT / 2
    marks = [
        f'<line class="tick" x1="{at}" x2="{at}" y1="0" y2="100%"/>' for at in (percent(x.share(t)) for t in x.ticks)
    ]
    if bar.band_low is not None and bar.band_high is not None:
        begin, wide = percent(x.share(bar.band_low)), percent(x.share(bar.band_high) - x.share(bar.band_low))
        marks.append(f'<rect class="pale" x="{begin}" width="{wide}" y="{middle - 6}" height="12" rx="2"/>')
    if bar.low is not None and bar.high is not None:
        begin, end = percent(x.share(bar.low)), percent(x.share(bar.high))
        marks.append(
            f'<line class="interval" stroke="{bar.colour}" x1="{begin}" x2="{end}" y1="{middle}" y2="{middle}"/>'
        )
    marks.append(f'<circle fill="{bar.colour}" cx="{percent(x.share(bar.value))}" cy="{middle}" r="4.5"/>')
    if bar.printed is not None:
        marks.append(
            f'<svg class="printed" x="{percent(x.share(bar.printed))}" y="{middle}" overflow="visible">'
            '<path d="M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5"/></svg>'
        )
    return "".join(marks)


def _said(bar: Bar) -> str:
    """The numbers in words."""
    said = f"<b>{written(bar.value)}</b>"
    if bar.low is not None and bar.high is not None:
        said += f" [{written(bar.low)}, {written(bar.high)}]"
    return said + (f" <span>printed {written(bar.printed)}</span>" if bar.printed is not None else "")


def _key(chart: BarChart) -> str:
    """What the marks are, of those that are there."""
    entries = []
    if any(bar.low is not None for bar in chart.bars):
        entries.append(
            (
                "value with interval",
                '<line class="interval" x1="2" x2="24" y1="6" y2="6"/><circle cx="13" cy="6" r="4"/>',
            )
        )
    if any(bar.band_low is not None for bar in chart.bars):
        entries.append((chart.band_label, '<rect class="pale" x="1" y="1" width="24" height="10" rx="2"/>'))
    if any(bar.printed is not None for bar in chart.bars):
        entries.append((chart.printed_label, '<path class="printed" d="M9,2L17,10M9,10L17,2"/>'))
    drawn = "".join(
        f'<span><svg width="26" height="12" aria-hidden="true">{mark}</svg>{escape(text)}</span>'
        for text, mark in entries
    )
    return f'<div class="key">{drawn}</div>' if entries else ""
