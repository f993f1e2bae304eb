"""``pgsom show``: one run, as far as it has got."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pgsom.checks import InputError, printable
from pgsom.cli.arguments import FLAG, Option, help_text, read_arguments
from pgsom.cli.runs import age

OPTIONS = (
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("debug", FLAG, "show the traceback of an error"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
USAGE = "pgsom show RUN [--json]"
SUMMARY = "One run: how it stands, how it was set up, how it went so far, and what is to be known of its numbers."


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after="example: pgsom show runs/first"))
        return 0
    given = read_arguments(arguments, OPTIONS, operands=("run",))
    if "run" not in given:
        raise InputError("a run is missing; accepted is the folder of a run, as pgsom train --out makes it")

    from pgsom.runs.folder import to_json
    from pgsom.runs.overview import details

    known = details(Path(given["run"]))
    if given.get("json"):
        print(json.dumps(json.loads(to_json(known)), indent=2))
    else:
        print("\n".join(printable(line) for line in lines_of(known)))
    return 0


def lines_of(known: Mapping[str, Any]) -> list[str]:
    """For people."""
    settings, summary = known["settings"] or {}, known["summary"]
    last = (
        "none yet" if known["last_return"] is None else f"{known['last_return']:.4g}, of the last tenth of the updates"
    )
    rows = [
        ("run", known["folder"]),
        ("state", known["state"] + (f", by {known['held_by']}" if known["held_by"] else "")),
        ("updates", f"{known['updates']:,} of {known['planned_updates']:,}"),
        ("last return", last),
        ("evaluation", _evaluation(summary)),
        ("last written", f"{age(known['age_seconds'])} ago"),
    ]
    for name in ("environment", "method", "policy", "seed", "seeds"):
        rows.append((name, _worded(settings.get(name, "?"))))
    for title in ("environment_options", "policy_options", "options"):
        rows += [(f"  {name}", _worded(value)) for name, value in _table(settings.get(title)).items()]
    rows = [(name, value) for name, value in rows if value]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    said = [("damaged", known["problems"]), ("warning", summary.get("warnings")), ("note", summary.get("notes"))]
    for kind, sentences in said:
        if isinstance(sentences, list | tuple):
            lines += [f"{kind}: {sentence}" for sentence in sentences]
    if known["state"] in ("interrupted", "failed", "damaged"):
        lines.append(f"pgsom resume {known['folder']} carries it on")
    return lines


def _evaluation(summary: Mapping[str, Any]) -> str:
    mean = _table(_table(summary.get("evaluation")).get("return")).get("mean")
    return f"{mean:.4g}, of fresh episodes after training" if isinstance(mean, int | float) else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _worded(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_worded, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
