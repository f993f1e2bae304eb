"""A page with one of everything, and the browser that shows it."""

from collections.abc import Iterator

import numpy as np
import pytest

from pgsom.report.page import (
    Bar,
    BarChart,
    Code,
    Columns,
    Facts,
    LineChart,
    Page,
    Section,
    Series,
    Table,
    Text,
)
from tests.report.browser import Browser, programs

AXES = {"updates": "updates", "episodes": "episodes per seed", "env_steps": "environment steps"}
UPDATES = np.arange(1, 41)


def curve(name: str, colour: str = "#0072B2", *, top: float = 100.0, per_update: int = 4) -> Series:
    """Rises to `top` at update 40; its band is 5 to either side."""
    mean = top * UPDATES / 40
    x = {"updates": UPDATES, "episodes": per_update * UPDATES, "env_steps": np.cumsum(per_update * np.abs(mean))}
    return Series(name, colour, "--", x, mean, mean - 5, mean + 5)


def example(word: str = "word") -> Page:
    """Every text that a caller gives holds `word`."""
    chart = LineChart(
        f"curves {word}",
        {axis: f"{label} {word}" for axis, label in AXES.items()},
        f"return {word}",
        [curve(f"first {word}"), curve("second", "#E69F00", top=1000.0, per_update=8)],
        f"note {word}",
    )
    bars = BarChart(
        f"bars {word}",
        f"score {word}",
        [
            Bar(f"a {word}", f"one {word}", "#0072B2", 3.0, 2.0, 4.0, 1.0, 5.0, 2.5),
            Bar(f"b {word}", "two", "#000000", 7.0),
        ],
        f"note {word}",
        band_label=f"band {word}",
        printed_label=f"printed {word}",
    )
    verdicts = ("reproduced", "not reproduced", "contradicted by the paper itself", "cannot be tested as stated")
    table = Table(
        f"claims {word}",
        [f"claim {word}", "verdict"],
        [[f"C{i} {word}", f"{verdict} {word}"] for i, verdict in enumerate(verdicts)],
        "lr",
        1,
    )
    written = [Text(f"text {word}"), Code(f"code {word}"), Facts([(f"fact {word}", f"value {word}")])]
    return Page(
        f"title {word}",
        f"subtitle {word}",
        [
            Section(f"first {word}", "first", [table, Columns([chart, chart])]),
            Section(f"second {word}", "second", [bars, *written]),
        ],
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = programs()
    if found is None:
        pytest.skip("not run: there is no Chromium with its driver (make browser installs them on Debian)")
    session = Browser(*found)
    yield session
    session.close()
