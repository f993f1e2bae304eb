"""docs/methods: what a page says of a method is what the method is."""

import inspect
import re
from pathlib import Path

import pytest

from benchmarks import gradient_variance
from pgsom.methods import METHODS

FOLDER = Path(__file__).parents[2] / "docs" / "methods"
PAGES = [path.stem for path in sorted(FOLDER.glob("*.md")) if path.stem in METHODS]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_the_methods_own_options_with_their_defaults(name: str) -> None:
    """Wherever a page has the line of options."""
    text = (FOLDER / f"{name}.md").read_text("utf-8")
    found = re.search(r"^\| options of its own \| (.*) \|$", text, re.MULTILINE)
    if found is None:
        return
    said = dict(re.findall(r"`(\w+)` = ([^,]+?)(?:, |$)", found[1]))
    parameters = dict(inspect.signature(METHODS[name]).parameters)
    parameters.pop("common")
    assert said == {option: _said(parameter.default) for option, parameter in parameters.items()}


def _said(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def test_the_page_of_variances_holds_what_was_measured() -> None:
    assert gradient_variance.PAGE.read_text("utf-8") == gradient_variance.page(gradient_variance.read_rows())


def test_recursive_estimates_are_unbiased_where_they_say_so() -> None:
    """Measured: bias² below 3 % of the error for all but plain momentum, SGDHess and transport, whatever the step."""
    for row in gradient_variance.read_rows():
        if row["rule"] not in ("plain momentum", "sgdhess", "n-pg-igt"):
            assert row["bias"] < 0.03 * row["error"], row
