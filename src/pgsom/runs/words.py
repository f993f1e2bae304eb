"""The summary of a run for people, in Markdown."""

import html
from collections.abc import Mapping
from typing import Any


def report_text(said: Mapping[str, Any]) -> str:
    """From what summary.json says; names are escaped, as Markdown may hold HTML."""
    rows = [
        ("state", said["state"]),
        ("updates", f"{said['updates']:,} of {said['planned_updates']:,}"),
        ("episodes", f"{said['episodes']:,} a seed"),
        ("final return", _interval(said["final_return"], len(said["seeds"]))),
        ("final return of each seed", ", ".join(map(_number, said["final_return_by_seed"]))),
    ]
    if said.get("evaluation"):
        rows.append(("evaluation", _interval(said["evaluation"]["return"], len(said["seeds"]))))
    rows += [
        ("policy", f"{said['policy']}, {said['parameters']:,} parameters"),
        ("seeds", ", ".join(map(str, said["seeds"]))),
        ("speed", f"{said['steps_per_second']:,.0f} environment steps/s, all seeds together"),
        ("run time", f"{said['run_seconds']:.1f} s, and {said['compile_seconds']:.1f} s to compile"),
    ]
    lines = [f"# {_safe(said['method'])} on {_safe(said['environment'])}", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {_safe(value)} |" for name, value in rows]
    for title, key in (("Warnings", "warnings"), ("What happened", "notes")):
        if said.get(key):
            lines += ["", f"## {title}", "", *(f"- {_safe(sentence)}" for sentence in said[key])]
    if said["state"] != "finished":
        lines += ["", "`pgsom resume` with this folder carries the run on."]
    return "\n".join([*lines, ""])


def _interval(interval: Mapping[str, Any], seeds: int) -> str:
    mean = _number(interval["mean"])
    return f"{mean} (95 %: {_number(interval['low'])} to {_number(interval['high'])})" if seeds > 1 else mean


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"


def _safe(value: Any) -> str:
    return html.escape(" ".join(str(value).split())).replace("|", "&#124;").replace("`", "&#96;")
