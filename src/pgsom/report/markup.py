"""Blocks as HTML. Whatever a block says passes `escape` or `prose` on its way."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pgsom.report.bars import bar_chart_markup
from pgsom.report.blocks import ALIGNMENTS, BarChart, Block, Code, Columns, Facts, LineChart, Table, Text
from pgsom.report.escaping import escape, prose
from pgsom.report.lines import line_chart_markup


class Verdict(NamedTuple):
    """How a verdict looks: a class for its colour, and a symbol for those who do not see it."""

    kind: str
    symbol: str


VERDICTS = {
    "not reproduced": Verdict("bad", "✗"),
    "reproduced": Verdict("good", "✓"),
    "contradicted": Verdict("odd", "≠"),
    "cannot be tested": Verdict("open", "?"),
    "undecided": Verdict("open", "?"),
    "yes": Verdict("good", "✓"),
    "no": Verdict("bad", "✗"),
}
"""By how the text of the cell begins."""
NO_VERDICT = Verdict("none", "–")


def verdict_of(text: str) -> Verdict:
    """How this verdict looks."""
    said = text.strip().lower()
    return next((verdict for begin, verdict in VERDICTS.items() if re.match(rf"{begin}\b", said)), NO_VERDICT)


def block_markup(block: Block) -> str:
    """The block as HTML."""
    return _MARKUP[type(block)](block)


def _text(block: Text) -> str:
    return "\n".join(f"<p>{prose(paragraph)}</p>" for paragraph in re.split(r"\n\s*\n", block.text.strip()))


def _code(block: Code) -> str:
    return f'<pre tabindex="0"><code>{escape(block.text)}</code></pre>'


def _facts(block: Facts) -> str:
    pairs = "".join(f"<div><dt>{prose(name)}</dt><dd>{prose(value)}</dd></div>" for name, value in block.facts)
    return f'<dl class="facts">{pairs}</dl>'


def _columns(block: Columns) -> str:
    return '<div class="columns">' + "\n".join(map(block_markup, block.blocks)) + "</div>"


def _table(block: Table) -> str:
    classes = [ALIGNMENTS[letter] for letter in block.align or "l" * len(block.columns)]
    head = "".join(
        f'<th scope="col" class="{place}">{prose(name)}</th>'
        for name, place in zip(block.columns, classes, strict=True)
    )
    body = "\n".join(f"<tr>{_cells(block, row, classes)}</tr>" for row in block.rows)
    # Beside the table rather than in it, so that it does not scroll away with the columns.
    caption = f'<p class="caption">{prose(block.caption)}</p>\n' if block.caption else ""
    label = escape(block.caption) or "table"
    return (
        f'{_tally(block)}{caption}<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def _cells(block: Table, row: Any, classes: list[str]) -> str:
    return "".join(
        _verdict_cell(cell) if index == block.verdict_column else f'<td class="{place}">{prose(cell)}</td>'
        for index, (cell, place) in enumerate(zip(row, classes, strict=True))
    )


def _verdict_cell(text: str) -> str:
    return f'<td class="left">{_badge(verdict_of(text), prose(text))}</td>'


def _badge(verdict: Verdict, inside: str) -> str:
    return f'<span class="verdict {verdict.kind}"><span aria-hidden="true">{verdict.symbol}</span> {inside}</span>'


def _tally(block: Table) -> str:
    """How often each verdict stands in the table."""
    if block.verdict_column is None:
        return ""
    said = [row[block.verdict_column] for row in block.rows]
    badges = (_badge(verdict_of(text), f"<b>{said.count(text)}</b> {prose(text)}") for text in dict.fromkeys(said))
    return f'<p class="tally">{" ".join(badges)}</p>\n'


_MARKUP: dict[type, Callable[[Any], str]] = {
    Text: _text,
    Code: _code,
    Facts: _facts,
    Table: _table,
    Columns: _columns,
    LineChart: line_chart_markup,
    BarChart: bar_chart_markup,
}
