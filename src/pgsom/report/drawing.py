"""What charts share: tick labels, legends, notes. SVG that fits any width without a script.

Positions across are shares of the width and heights are pixels, so text is never scaled.
"""

from collections.abc import Sequence

from pgsom.report.escaping import escape, prose
from pgsom.report.scale import Scale, written


def x_ticks(x: Scale) -> str:
    """Tick labels below a plot."""
    places = ((tick, x.share(tick)) for tick in x.ticks)
    return "".join(
        f'<text x="{percent(place)}" y="14" text-anchor="{_anchor(place)}">{written(tick)}</text>'
        for tick, place in places
    )


def legend(entries: Sequence[tuple[str, str, str]]) -> str:
    """Names with their colour and dash pattern; buttons once the script is there."""
    buttons = "".join(
        f'<button type="button" aria-pressed="true" disabled data-name="{escape(name)}">{swatch(colour, pattern)}'
        f"{escape(name)}</button>"
        for name, colour, pattern in entries
    )
    return f'<div class="legend" role="group" aria-label="Show or hide">{buttons}</div>'


def swatch(colour: str, pattern: str) -> str:
    """A short piece of the line."""
    return (
        '<svg class="swatch" width="26" height="10" aria-hidden="true"><line x1="1" x2="25" y1="5" y2="5" '
        f'stroke="{colour}" stroke-dasharray="{pattern}"/></svg>'
    )


def note(text: str) -> str:
    """A line below the chart, if there is one."""
    return f'<p class="note">{prose(text)}</p>\n' if text else ""


def percent(share: float) -> str:
    """A position across."""
    return f"{short(100 * share)}%"


def short(value: float) -> str:
    """Two digits behind the point are a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _anchor(share: float) -> str:
    """The first and last label stay inside."""
    return "start" if share < 0.02 else "end" if share > 0.98 else "middle"
