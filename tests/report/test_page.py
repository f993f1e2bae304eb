"""Pages as files: what stands in them, and that nothing else can get in."""

import base64
import hashlib
import json
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgsom.checks import InputError
from pgsom.report.blocks import numbers
from pgsom.report.lines import HEIGHT, WIDTH, scales
from pgsom.report.markup import verdict_of
from pgsom.report.page import Bar, BarChart, Columns, Facts, LineChart, Page, Section, Series, Table, Text
from pgsom.report.scale import scale, written
from tests.report.conftest import AXES, UPDATES, curve, example

HOSTILE = (
    "<!--<script </script </script></style></title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
    "&amp;\u2028\u202e\x00--> <!--"
)


class Skeleton(HTMLParser):
    """Tags with the names of their attributes, values of attributes, and texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[tuple[str, str]] = []
        self.raw: list[tuple[str, str]] = []
        self.shown = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.values += [(name, value or "") for name, value in attrs]
        if tag in ("script", "style"):
            kind = dict(attrs).get("type") or tag
            self.raw.append((kind, ""))
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside:
            kind, before = self.raw[-1]
            self.raw[-1] = (kind, before + data)
        else:
            self.shown += data


def test_hostile_text_changes_nothing_but_text() -> None:
    plain, hostile = Skeleton(example().html()), Skeleton(example(HOSTILE).html())
    assert hostile.tags == plain.tags
    assert hostile.shown == plain.shown.replace("word", HOSTILE)
    written = [text for kind, text in hostile.raw if kind == "application/json"]
    assert not set("<>&\u2028") & set("".join(written))
    data = [json.loads(text) for text in written]
    assert [chart["series"][0]["name"] for chart in data] == [f"first {HOSTILE}"] * 2


def test_nothing_is_asked_for_and_only_our_script_may_run() -> None:
    page = Skeleton(example(HOSTILE).html())
    addresses = {value for name, value in page.values if name in ("src", "href", "action", "data", "srcset", "content")}
    policy = next(value for value in addresses if value.startswith("default-src"))
    assert {a for a in addresses if not a.startswith(("#", "default-src"))} == {
        "data:,",
        "light dark",
        "no-referrer",
        "width=device-width, initial-scale=1",
    }
    assert not [name for name, _ in page.values if name.startswith("on") or name == "style"]
    (script,) = (text for kind, text in page.raw if kind == "script")
    (style,) = (text for kind, text in page.raw if kind == "style")
    for directive, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; img-src data:; ")
    assert "url(" not in style and "@import" not in style
    assert not re.findall(r"\b(?:eval|innerHTML|outerHTML|insertAdjacentHTML|fetch|XMLHttpRequest|import)\b", script)
    assert set(re.findall(r"https?://[^\"]+", example().html())) == {"http://www.w3.org/2000/svg"}


def test_what_is_not_finite_is_a_gap_and_null() -> None:
    mean = [1.0, math.nan, 3.0, 4.0, math.inf]
    series = Series("a", "#000000", "-", {"updates": range(5)}, mean, [None, 1, 2, 3, None], [None, 2, 3, 4, None])
    page = Page("t", "", [Section("s", "s", [LineChart("c", {"updates": "u"}, "y", [series])])]).html()
    (data,) = (json.loads(text) for kind, text in Skeleton(page).raw if kind == "application/json")
    assert data["series"][0]["mean"] == [1.0, None, 3.0, 4.0, None]
    (line,) = re.findall(r'class="line"[^>]* d="([^"]*)"', page)
    (band,) = re.findall(r'class="band"[^>]* d="([^"]*)"', page)
    assert line.count("M") == 2 and band.count("M") == band.count("Z") == 1
    assert "nan" not in line + band and "inf" not in line + band


def test_the_drawn_points_are_the_numbers() -> None:
    series = [curve("a"), curve("b", top=-300.0)]
    page = Page("t", "", [Section("s", "s", [LineChart("c", AXES, "y", series)])]).html()
    x, y = scales(series, "updates")
    drawn = [re.findall(r"(-?[\d.]+),(-?[\d.]+)", d) for d in re.findall(r'class="line"[^>]* d="([^"]*)"', page)]
    for one, points in zip(series, drawn, strict=True):
        across, down = np.array(points, dtype=float).T
        assert np.allclose(x.low + across / WIDTH * (x.high - x.low), UPDATES, atol=1e-3)
        assert np.allclose(y.high - down / HEIGHT * (y.high - y.low), numbers(one.mean), atol=0.02)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1, max_size=5), st.sampled_from([0.0, 0.04]))
def test_an_axis_holds_its_values_and_has_round_ticks(values: list[float], margin: float) -> None:
    axis = scale(values, margin=margin)
    assert axis.low <= min(values) and max(values) <= axis.high
    assert 2 <= len(axis.ticks) <= 7
    assert axis.low - 1e-6 * (axis.high - axis.low) <= axis.ticks[0]
    assert axis.ticks[-1] <= axis.high + 1e-6 * (axis.high - axis.low)
    steps = np.diff(axis.ticks)
    assert np.allclose(steps, steps[0], rtol=1e-3, atol=0)
    mantissa = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-9)
    assert min(abs(mantissa - good) for good in (1, 2, 2.5, 5)) < 1e-3


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([100, 400], (0, 100, 200, 300, 400)),
        ([380, 400], (380, 385, 390, 395, 400)),
        ([-1, 400], (0, 100, 200, 300, 400)),
        ([0, 1e-9], (0, 2e-10, 4e-10, 6e-10, 8e-10, 1e-9)),
        ([7, 7], (4, 6, 8, 10)),
        ([math.nan], (0, 0.2, 0.4, 0.6, 0.8, 1)),
        ([], (0, 0.2, 0.4, 0.6, 0.8, 1)),
    ],
)
def test_the_ticks_of_an_axis(values: list[float], ticks: tuple[float, ...]) -> None:
    assert np.allclose(scale(values).ticks, ticks, rtol=1e-9, atol=0)


def test_an_axis_has_no_margin_beyond_zero() -> None:
    assert scale([0, 100], margin=0.1)[:2] == (0, 110)
    assert scale([-100, 0], margin=0.1)[:2] == (-110, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.5, "−0.5"),
        (392.79, "392.8"),
        (9999.4, "9999"),
        (12_345.0, "12.35k"),
        (180e6, "180M"),
        (2.5e-7, "2.5e−7"),
        (math.nan, "–"),
        (None, "–"),
    ],
)
def test_numbers_are_written_short(value: float | None, text: str) -> None:
    assert written(value) == text


def test_a_verdict_has_a_colour_and_a_symbol_of_its_own() -> None:
    said = ("reproduced", "Not reproduced", "contradicted by the paper itself", "cannot be tested as stated", "else")
    kinds = [verdict_of(text) for text in said]
    assert len({kind.kind for kind in kinds}) == len({kind.symbol for kind in kinds}) == 5
    assert verdict_of("reproduced, as run").kind == verdict_of("yes").kind == "good"
    assert verdict_of("nothing").kind == "none"


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "page.html"
    assert example().write(path) == path
    before = path.read_bytes()
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(
        InputError, match=r"path='.*page.html': cannot be written \(No space left\); accepted is a file"
    ):
        example("other").write(path)
    assert path.read_bytes() == before


def test_bytes_that_are_no_text_do_not_stop_a_page(tmp_path: Path) -> None:
    page = Page("\udcff", "", [])
    assert b"<h1>?</h1>" in page.write(tmp_path / "page.html").read_bytes()


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: Text(3), "text=3: accepted is text"),
    (lambda: Facts([("a",)]), "facts=('a',): accepted are pairs of a name and a text"),
    (lambda: Table("", [], []), "columns=[]: accepted is at least one column"),
    (lambda: Table("", ["a"], [["x", "y"]]), "rows=['x', 'y']: accepted are rows of 1 cells"),
    (lambda: Table("", ["a"], [[1]]), "rows=1: accepted is text"),
    (lambda: Table("", ["a"], [], "lx"), "align='lx': accepted is a letter of l, r, c for each of 1 columns"),
    (lambda: Table("", ["a"], [], "l", 1), "verdict_column=1: accepted are 0 to 0, or None"),
    (lambda: Series("a", "red", "-", {}, []), "colour='red': accepted is #RRGGBB"),
    (
        lambda: Series("a", '#000000" onload="', "-", {}, []),
        "colour='#000000\" onload=\"': accepted is #RRGGBB",
    ),
    (lambda: Series("a", "#000000", "dotted", {}, []), "dash='dotted': accepted are -, --, :, -."),
    (lambda: Series("a", "#000000", "-", {}, ["x"]), "mean=['x']: accepted are numbers, or None for a gap"),
    (lambda: Series("a", "#000000", "-", {}, [[1.0]]), "mean='shape (1, 1)': accepted is one axis of numbers"),
    (lambda: Series("a", "#000000", "-", {}, [1], [1]), "high='0 numbers': accepted are both low and high, or neither"),
    (lambda: Series("a", "#000000", "-", {}, [1], [1, 2]), "low='2 numbers': accepted are none, or 1 as in mean"),
    (lambda: Series("a", "#000000", "-", {"u": []}, [1]), "x['u']='0 numbers': accepted are 1 as in mean"),
    (
        lambda: Series("a", "#000000", "-", {"u": [2, 1]}, [1, 1]),
        "x['u']='numbers': accepted are finite ones that do not fall",
    ),
    (lambda: LineChart("c", {}, "y", []), "x_labels={}: accepted is at least one axis with its label"),
    (lambda: LineChart("c", {"u": "u"}, "y", []), "series=[]: accepted is at least one"),
    (
        lambda: LineChart("c", {"u": "u"}, "y", [Series("a", "#000000", "-", {}, [])]),
        "series='a': accepted are series with x for each axis; u is missing",
    ),
    (
        lambda: LineChart("c", AXES, "y", [curve("a"), curve("a")]),
        "series='a': given twice; accepted are different names",
    ),
    (lambda: Bar("a", "", "#000000", 1, 0), "high=None: accepted are both low and high, or neither"),
    (lambda: Bar("a", "", "#000000", 1, 2, 1), "low=2: accepted is a number <= high, which is 1"),
    (lambda: BarChart("c", "x", []), "bars=[]: accepted is at least one"),
    (
        lambda: Columns(["a"]),
        "blocks='a': accepted are Text, Code, Facts, Table, LineChart, BarChart, Columns",
    ),
    (lambda: Section("", "a", []), "heading='': accepted is text"),
    (
        lambda: Section("a", 'a" onclick="', []),
        "anchor='a\" onclick=\"': accepted are small letters, digits and dashes, a letter first",
    ),
    (lambda: Page(None, "", []), "title=None: accepted is text"),
    (
        lambda: Page("t", "", [Section("a", "a", []), Section("b", "a", [])]),
        "anchor='a': given twice; accepted are different ones",
    ),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("build", "line"), WRONG)
def test_wrong_blocks_are_refused_when_they_are_built(build: Callable[[], Any], line: str) -> None:
    with pytest.raises(InputError) as refused:
        build()
    assert str(refused.value) == line


def test_the_wheel_has_the_assets(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for asset in (resources.files("pgsom.report") / "assets").iterdir():
            assert archive.read(f"pgsom/report/assets/{asset.name}") == asset.read_bytes()
