"""`python -m benchmarks [question …]`: run them, print them, keep them in benchmarks/results.json."""

import importlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

QUESTIONS = (
    "update_cost",
    "short_episodes",
    "estimator_cost",
    "against_backpack",
    "against_pytorch",
    "paper_cost",
    "host",
    "same_curve",
)
RESULTS = Path(__file__).parent / "results.json"


def main(asked: list[str]) -> int:
    unknown = [name for name in asked if name not in QUESTIONS]
    if unknown:
        print(f"benchmarks: unknown {unknown[0]!r}; accepted are {', '.join(QUESTIONS)}", file=sys.stderr)
        return 2
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept["measured on"] = {
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "jax": version("jax"),
    }
    for name in asked or QUESTIONS:
        answers = importlib.import_module(f"benchmarks.{name}").run()
        if answers:
            kept[name] = {key: round(value, 3) for key, value in answers.items()}
            RESULTS.write_text(json.dumps(kept, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
