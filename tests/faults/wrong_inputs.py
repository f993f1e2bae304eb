"""docs/errors.md, read: every row is a wrong input and the one line that is said about it.

In the messages ⟨…⟩ stands for names that grow with the package; `expanded` puts them in.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pgsom.baselines import BASELINES, LEARNED
from pgsom.checks import listed
from pgsom.cli.listing import SECTIONS
from pgsom.cli.main import COMMANDS
from pgsom.curvature import ESTIMATORS, PROBED
from pgsom.environments import names
from pgsom.methods import METHODS, method_options
from pgsom.policies.networks import ACTIVATIONS
from pgsom.presets import preset_names
from pgsom.schemes import SCHEMES

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
NEW_LINE = " ⏎ "
LISTS: dict[str, Callable[[], str]] = {
    "commands": lambda: ", ".join(COMMANDS),
    "sections": lambda: ", ".join(SECTIONS),
    "environments": lambda: listed(names()),
    "methods": lambda: listed(METHODS),
    "presets": lambda: listed(preset_names()),
    "estimators, with probes": lambda: listed((*ESTIMATORS, *PROBED)),
    "estimators": lambda: listed(ESTIMATORS),
    "activations": lambda: listed(ACTIVATIONS),
    "schemes": lambda: listed(SCHEMES),
    "baselines": lambda: ", ".join((*BASELINES, *LEARNED)),
}
OF_ONE: dict[str, Callable[[str], str]] = {
    "options of": lambda method: listed(method_options(method)),
    "methods with": lambda option: listed(_takers(option)),
    "any method with": lambda option: " or ".join(_takers(option)),
}


class Row(NamedTuple):
    """A wrong input."""

    section: str
    given: tuple[str, ...]
    """Words behind pgsom; or a file's text and further words; or an expression."""
    said: str


def rows() -> list[Row]:
    """Every row of every table of the page."""
    found, section = [], ""
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith(("| `", "|   |")):
            *given, said = (_plain(cell) for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            found.append(Row(section, tuple(given), said))
    return found


def expanded(said: str) -> str:
    """The message with the names that ⟨…⟩ stands for."""

    def names_of(match: re.Match[str]) -> str:
        phrase = match[1]
        if phrase in LISTS:
            return LISTS[phrase]()
        kind, _, which = phrase.rpartition(" ")
        return OF_ONE[kind](which)

    return re.sub("⟨([^⟩]+)⟩", names_of, said)


def _plain(cell: str) -> str:
    text = cell.strip().replace(r"\|", "|")
    return text[1:-1].replace(NEW_LINE, "\n").strip(" ") if text.startswith("`") else text


def _takers(option: str) -> tuple[str, ...]:
    return tuple(method for method in METHODS if option in method_options(method))
