"""What a page is made of: text, facts, tables and charts. Plain data, judged when it is built; no markup yet."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pgsom.checks import check_choice, wrong

Numbers = Sequence[float | None] | NDArray[Any]
"""Numbers along an axis; None and NaN leave a gap."""
Dash = Literal["-", "--", ":", "-."]
DASHES: dict[str, str] = {"-": "", "--": "7 4", ":": "2 3", "-.": "8 3 2 3"}
"""Line styles as matplotlib spells them, and their SVG patterns."""
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
ALIGNMENTS = {"l": "left", "r": "right", "c": "centre"}


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text, an empty line between them; `a word in backticks` is set as code."""

    text: str

    def __post_init__(self) -> None:
        _check_text("text", self.text)


@dataclass(frozen=True)
class Code:
    """Commands or other text in which every space counts."""

    text: str

    def __post_init__(self) -> None:
        _check_text("text", self.text)


@dataclass(frozen=True)
class Facts:
    """Names and what they are: versions, seeds, times."""

    facts: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        for fact in self.facts:
            if not isinstance(fact, tuple) or len(fact) != 2 or not all(isinstance(part, str) for part in fact):
                raise wrong("facts", fact, "accepted are pairs of a name and a text")


@dataclass(frozen=True)
class Table:
    """Rows of text under named columns. The cells of `verdict_column` get a colour and a symbol."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: str = ""
    """A letter a column: l, r or c; left if it is empty."""
    verdict_column: int | None = None

    def __post_init__(self) -> None:
        _check_text("caption", self.caption, empty=True)
        _check_texts("columns", self.columns)
        if not self.columns:
            raise wrong("columns", list(self.columns), "accepted is at least one column")
        for row in self.rows:
            _check_texts("rows", row)
            if len(row) != len(self.columns):
                raise wrong("rows", list(row), f"accepted are rows of {len(self.columns)} cells")
        if self.align and (len(self.align) != len(self.columns) or set(self.align) - ALIGNMENTS.keys()):
            raise wrong("align", self.align, f"accepted is a letter of l, r, c for each of {len(self.columns)} columns")
        if self.verdict_column is not None and self.verdict_column not in range(len(self.columns)):
            raise wrong("verdict_column", self.verdict_column, f"accepted are 0 to {len(self.columns) - 1}, or None")


@dataclass(frozen=True)
class Series:
    """One curve: its mean, and where `low` and `high` are not empty the band between them."""

    name: str
    colour: str
    dash: Dash
    x: Mapping[str, Numbers]
    """Positions by axis: the same points against updates, episodes, environment steps."""
    mean: Numbers
    low: Numbers = ()
    high: Numbers = ()

    def __post_init__(self) -> None:
        _check_text("name", self.name)
        _check_colour(self.colour)
        check_choice("dash", self.dash, DASHES)
        points = len(_check_numbers("mean", self.mean))
        for name, band in (("low", self.low), ("high", self.high)):
            if len(_check_numbers(name, band)) not in (0, points):
                raise wrong(name, f"{len(band)} numbers", f"accepted are none, or {points} as in mean")
        if (len(self.low) == 0) != (len(self.high) == 0):
            raise wrong("high", f"{len(self.high)} numbers", "accepted are both low and high, or neither")
        for axis, positions in self.x.items():
            places = _check_numbers(f"x[{axis!r}]", positions)
            if len(places) != points:
                raise wrong(f"x[{axis!r}]", f"{len(places)} numbers", f"accepted are {points} as in mean")
            if not np.isfinite(places).all() or (np.diff(places) < 0).any():
                raise wrong(f"x[{axis!r}]", "numbers", "accepted are finite ones that do not fall")


@dataclass(frozen=True)
class LineChart:
    """Curves with their bands. `x_labels` names the axes to choose from, the first one is shown first."""

    title: str
    x_labels: Mapping[str, str]
    y_label: str
    series: Sequence[Series]
    note: str = ""

    def __post_init__(self) -> None:
        for name in ("title", "y_label"):
            _check_text(name, getattr(self, name))
        _check_text("note", self.note, empty=True)
        if not self.x_labels:
            raise wrong("x_labels", dict(self.x_labels), "accepted is at least one axis with its label")
        for axis, label in self.x_labels.items():
            _check_text(f"x_labels[{axis!r}]", label)
        if not self.series:
            raise wrong("series", [], "accepted is at least one")
        _check_distinct("series", [series.name for series in self.series])
        for series in self.series:
            if missing := self.x_labels.keys() - series.x.keys():
                raise wrong(
                    "series", series.name, f"accepted are series with x for each axis; {min(missing)} is missing"
                )


@dataclass(frozen=True)
class Bar:
    """One value on a horizontal axis, with what is known around it."""

    label: str
    group: str
    colour: str
    value: float
    low: float | None = None
    """With `high`, the interval of the value."""
    high: float | None = None
    band_low: float | None = None
    """With `band_high`, a pale band behind it, such as where the mean of five runs falls."""
    band_high: float | None = None
    printed: float | None = None
    """What a paper prints for it."""

    def __post_init__(self) -> None:
        _check_text("label", self.label)
        _check_text("group", self.group, empty=True)
        _check_colour(self.colour)
        _check_numbers("value", [self.value, self.low, self.high, self.band_low, self.band_high, self.printed])
        for low, high in (("low", "high"), ("band_low", "band_high")):
            begin, end = getattr(self, low), getattr(self, high)
            if (begin is None) != (end is None):
                raise wrong(high, end, f"accepted are both {low} and {high}, or neither")
            if begin is not None and end is not None and begin > end:
                raise wrong(low, begin, f"accepted is a number <= {high}, which is {end}")


@dataclass(frozen=True)
class BarChart:
    """Values under each other on one axis, those of a group together."""

    title: str
    x_label: str
    bars: Sequence[Bar]
    note: str = ""
    band_label: str = "band"
    """What the pale bands are."""
    printed_label: str = "printed"
    """What the crosses are."""

    def __post_init__(self) -> None:
        for name in ("title", "x_label", "band_label", "printed_label"):
            _check_text(name, getattr(self, name))
        _check_text("note", self.note, empty=True)
        if not self.bars:
            raise wrong("bars", [], "accepted is at least one")


@dataclass(frozen=True)
class Columns:
    """Blocks side by side where there is room, and under each other where there is none."""

    blocks: Sequence["Text | Code | Facts | Table | LineChart | BarChart"] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        check_blocks(self.blocks)


Block = Text | Code | Facts | Table | LineChart | BarChart | Columns


def check_blocks(blocks: Sequence[Any]) -> None:
    """Every one must be a block."""
    for block in blocks:
        if not isinstance(block, Block):
            raise wrong("blocks", block, f"accepted are {', '.join(kind.__name__ for kind in Block.__args__)}")


def numbers(values: Numbers) -> NDArray[np.float64]:
    """As an array; None is NaN."""
    return np.asarray(values, dtype=np.float64)


def _check_numbers(argument: str, values: Any) -> NDArray[np.float64]:
    try:
        array = numbers(values)
    except (TypeError, ValueError):
        raise wrong(argument, values, "accepted are numbers, or None for a gap") from None
    if array.ndim != 1:
        raise wrong(argument, f"shape {array.shape}", "accepted is one axis of numbers")
    return array


def _check_text(argument: str, value: Any, *, empty: bool = False) -> None:
    if not isinstance(value, str) or not (value or empty):
        raise wrong(argument, value, "accepted is text")


def _check_texts(argument: str, values: Any) -> None:
    for value in values:
        _check_text(argument, value, empty=True)


def _check_colour(value: Any) -> None:
    if not isinstance(value, str) or not COLOUR.fullmatch(value):
        raise wrong("colour", value, "accepted is #RRGGBB")


def _check_distinct(argument: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise wrong(argument, name, "given twice; accepted are different names")
