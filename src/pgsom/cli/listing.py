"""``pgsom list``: what there is, one line each."""

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any

from pgsom.checks import check_choice
from pgsom.cli.arguments import FLAG, Option, help_text, read_arguments

Entry = dict[str, Any]
"""A name, a summary, and what else is declared."""

OPTIONS = (
    Option("json", FLAG, "print one JSON object: sections of entries"),
    Option("debug", FLAG, "show the traceback of an error"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)


def environments() -> list[Entry]:
    """Registered environments."""
    from pgsom.environments import available

    return [{"name": name, "summary": summary} for name, summary in available()]


def methods() -> list[Entry]:
    """Named methods, with the first line of what they say of themselves."""
    from pgsom.methods import METHODS

    return [{"name": name, "summary": _first_line(method)} for name, method in METHODS.items()]


def estimators() -> list[Entry]:
    """Curvature estimators, with what they declare."""
    from pgsom.curvature import ESTIMATORS, make_estimator

    made = {name: make_estimator(name) for name in ESTIMATORS}
    return [
        {
            "name": name,
            "summary": estimator.estimates,
            "biased": estimator.biased,
            "positive_semi_definite": estimator.positive_semi_definite,
            "takes_probes": ESTIMATORS[name].takes_probes,
        }
        for name, estimator in made.items()
    ]


def schemes() -> list[Entry]:
    """Runge-Kutta schemes."""
    from pgsom.schemes import SCHEMES

    return _summaries(SCHEMES)


def baselines() -> list[Entry]:
    """Baselines."""
    from pgsom.baselines import BASELINES, LEARNED

    return [{"name": name, "summary": entry.summary} for name, entry in BASELINES.items()] + _summaries(LEARNED)


def shapes() -> list[Entry]:
    """How a curvature becomes a scale."""
    from pgsom.updates.som import SHAPES

    return _summaries(SHAPES)


def policies() -> list[Entry]:
    """Policies by name."""
    from pgsom.policies.policy import POLICIES

    return _summaries(POLICIES)


def presets() -> list[Entry]:
    """Complete settings of a run, for --preset."""
    from pgsom.presets import preset_names, read_preset

    return [{"name": name, "summary": read_preset(name).summary} for name in preset_names()]


SECTIONS: dict[str, Callable[[], list[Entry]]] = {
    section.__name__: section
    for section in (environments, methods, presets, estimators, schemes, baselines, shapes, policies)
}


def run(arguments: Sequence[str]) -> int:
    """Print one section or all."""
    if {"--help", "-h"} & set(arguments):
        usage = f"pgsom list [{' | '.join(SECTIONS)}] [--json]"
        print(
            help_text(usage, "One line for each environment, method and part; all sections if none is named.", OPTIONS)
        )
        return 0
    given = read_arguments(arguments, OPTIONS, operands=("section",))
    chosen = [check_choice("section", given["section"], SECTIONS)] if "section" in given else list(SECTIONS)
    listed = {section: SECTIONS[section]() for section in chosen}
    if given.get("json"):
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return 0
    width = max(len(entry["name"]) for entries in listed.values() for entry in entries)
    blocks = [_block(section, entries, width) for section, entries in listed.items()]
    print("\n\n".join(blocks))
    return 0


def _block(section: str, entries: list[Entry], width: int) -> str:
    lines = (f"  {entry['name']:<{width}}  {entry['summary']}{_declared(entry)}" for entry in entries)
    return "\n".join((f"{section}:", *lines))


def _declared(entry: Entry) -> str:
    if "biased" not in entry:
        return ""
    definite = "positive semi-definite" if entry["positive_semi_definite"] else "of either sign"
    return f" ({'biased' if entry['biased'] else 'unbiased'}, {definite})"


def _first_line(documented: Any) -> str:
    return (inspect.getdoc(documented) or "").partition("\n")[0]


def _summaries(registry: dict[str, str]) -> list[Entry]:
    return [{"name": name, "summary": summary} for name, summary in registry.items()]
