"""`python -m benchmarks.tuning [method …]`: the grids that presets come from. Writes docs/tuning.md.

Every method has as many configurations, seeds and episodes as every other, on root seed 1; results are measured on
root seed 0 (`benchmarks.learning`). What was measured is kept in benchmarks/tuning.json. Configurations that differ in
numbers only run in one program.
"""

import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import pgsom
from benchmarks.keeping import adding_to
from pgsom.checks import check_known
from pgsom.methods import METHODS

ROOT = Path(__file__).parents[1]
RUNS, PAGE = ROOT / "benchmarks" / "tuning.json", ROOT / "docs" / "tuning.md"
ENVIRONMENT, EPISODES, SEEDS, ROOT_SEED = "CartPole-v1", 500, 8, 1
CONFIGURATIONS = 12

GRIDS: dict[str, dict[str, Sequence[Any]]] = {
    "reinforce": {"learning_rate": [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3], "discount": [0.95, 0.99]},
    "hessian-pg": {"learning_rate": [0.003, 0.01, 0.03, 0.1], "damping": [0.1, 1.0, 10.0]},
    "runge-kutta-pg": {"learning_rate": [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3], "discount": [0.95, 0.99]},
    "pg-som": {"kl_radius": [0.002, 0.005, 0.01, 0.02], "beta1": [0.0, 0.5, 0.9]},
    "npg": {"kl_radius": [0.002, 0.005, 0.01, 0.02], "damping": [0.01, 0.1, 1.0]},
    "trpo": {"kl_radius": [0.002, 0.005, 0.01, 0.02], "damping": [0.01, 0.1, 1.0]},
    "adam": {"learning_rate": [0.001, 0.002, 0.005, 0.01, 0.02, 0.05], "b1": [0.5, 0.9]},
    "adaptive-pg-som": {"kl_radius": [0.002, 0.005, 0.01, 0.02], "beta1": [0.5, 0.8, 0.9]},
    "hapg": {"learning_rate": [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3], "discount": [0.95, 0.99]},
    "sharp": {"learning_rate": [0.05, 0.1, 0.2, 0.5], "rate_power": [0.0, 1 / 3, 2 / 3]},
    # Two batches an update, so of half the size.
    "harpg": {"batch": [2], "learning_rate": [2e-4, 5e-4, 1e-3, 2e-3], "fresh": [0.2, 0.5, 0.8]},
    "n-harpg": {"learning_rate": [0.05, 0.1, 0.2, 0.5], "rate_power": [0.0, 0.5, 1.0]},
    "storm-pg": {"learning_rate": [2e-4, 5e-4, 1e-3, 2e-3], "fresh": [0.2, 0.5, 0.8]},
    "page-pg": {"learning_rate": [2e-4, 5e-4, 1e-3, 2e-3], "fresh": [0.2, 0.5, 0.8]},
    "is-mbpg": {"learning_rate": [0.03, 0.1, 0.3, 1.0], "fresh_factor": [300.0, 3000.0, 30000.0]},
    "ha-mbpg": {"learning_rate": [0.03, 0.1, 0.3, 1.0], "fresh_factor": [300.0, 3000.0, 30000.0]},
    "sgdhess": {"learning_rate": [2e-4, 5e-4, 1e-3, 2e-3], "fresh": [0.2, 0.5, 0.8]},
    "n-pg-igt": {"learning_rate": [0.05, 0.1, 0.2, 0.5], "rate_power": [0.0, 0.5, 1.0]},
    "kfac": {"kl_radius": [0.003, 0.005, 0.01, 0.02], "damping": [0.001, 0.01, 0.1]},
    "rmsprop": {"learning_rate": [0.001, 0.002, 0.005, 0.01, 0.02, 0.05], "b2": [0.9, 0.99]},
    "adabelief": {"learning_rate": [0.001, 0.002, 0.005, 0.01, 0.02, 0.05], "b1": [0.5, 0.9]},
    "adahessian": {"learning_rate": [0.01, 0.03, 0.1, 0.3], "damping": [1e-4, 1e-2, 1.0]},
    "sophia": {"learning_rate": [0.001, 0.002, 0.005, 0.01], "gamma": [0.05, 0.5, 5.0]},
    "shampoo": {"refresh": [5], "learning_rate": [0.005, 0.01, 0.02, 0.05], "beta1": [0.0, 0.5, 0.9]},
    "soap": {"learning_rate": [0.002, 0.005, 0.01, 0.02], "beta1": [0.5, 0.9, 0.95]},
    "ggt": {"learning_rate": [0.02, 0.05, 0.1, 0.2], "window": [1, 5, 20]},
    "hessian-free": {"kl_radius": [0.001, 0.003, 0.01, 0.03], "damping": [1.0, 10.0, 100.0]},
    "cubic-newton": {"regularisation": [1e3, 1e4, 3e4, 1e5, 3e5, 1e6], "discount": [0.95, 0.99]},
    "natural-actor-critic": {"kl_radius": [0.002, 0.005, 0.01, 0.02], "damping": [0.01, 0.1, 1.0]},
    # Whole episodes, so that the budget is the same.
    "ppo": {"steps": [0], "learning_rate": [0.0005, 0.002, 0.005], "epochs": [4, 20], "critic_rate": [0.002, 0.01]},
    "a2c": {"steps": [0], "learning_rate": [0.0007, 0.002, 0.007], "critic_epochs": [1, 10], "gae_lambda": [0.95, 1.0]},
}
"""The values of each option that are tried, all combinations."""

HEAD = f"""# Tuning

Where the presets' numbers come from. Each method gets {CONFIGURATIONS} configurations, a grid; each configuration
{SEEDS} seeds of root seed {ROOT_SEED} and {EPISODES} episodes a seed on {ENVIRONMENT}. They are ranked by the mean
return over all episodes of training. "Score" is the mean return of 100 fresh episodes afterwards, "lowest" that of the
seed with the lowest. Options that are not named have their defaults.

The first row of a table stands in the preset. REINFORCE's does not: what learns fastest in {EPISODES} episodes forgets
in more (over 1,000 and 32 seeds 296 while learning and 28 seeds at 150, the preset 326 and 31).

The page is written by `make tuning` from `benchmarks/tuning.json`, `python -m benchmarks.tuning NAME` renews one.
"""


def configurations(method: str) -> list[dict[str, Any]]:
    """All combinations of the method's grid."""
    grid = GRIDS[method]
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def tune(method: str) -> list[dict[str, Any]]:
    """Every configuration with what it gave, the best first."""
    tried = configurations(method)
    methods = [pgsom.make_method(method, **options) for options in tried]
    results = pgsom.sweep(ENVIRONMENT, methods, seeds=SEEDS, episodes=EPISODES, seed=ROOT_SEED)
    runs = [{"options": options} | outcome(result) for options, result in zip(tried, results, strict=True)]
    return sorted(runs, key=lambda run: -np.nan_to_num(run["while_learning"], nan=-np.inf))


def outcome(result: pgsom.Result) -> dict[str, float]:
    """What one configuration gave over its seeds."""
    scores = result.evaluate(100).mean(axis=1)
    return {
        "while_learning": round(float(result.returns.mean()), 1),
        "score": round(float(scores.mean()), 1),
        "lowest": round(float(scores.min()), 1),
        "skipped": int(result.skipped.sum()),
    }


def page(runs: dict[str, list[dict[str, Any]]]) -> str:
    """docs/tuning.md."""
    sections = []
    for method, found in runs.items():
        names = list(found[0]["options"])
        measured = [name for name in ("while_learning", "score", "lowest") if name in found[0]]
        head = [*names, *(name.replace("_", " ") for name in measured)]
        rows = [[f"{run['options'][n]:g}" for n in names] + [f"{run[n]:g}" for n in measured] for run in found]
        lines = [head, ["---"] * len(head), *rows]
        sections.append(f"\n## {method}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    missing = [method for method in METHODS if method not in runs]
    said = f"\nNot tuned so; where their numbers come from their presets say: {', '.join(missing)}.\n"
    return HEAD + said * bool(missing) + "".join(sections)


def read_runs() -> dict[str, list[dict[str, Any]]]:
    """What has been measured so far."""
    return json.loads(RUNS.read_text("utf-8")) if RUNS.exists() else {}


def main(asked: Sequence[str]) -> int:
    check_known("method", asked, GRIDS)
    for method in asked or GRIDS:
        found = tune(method)
        print(f"{method:<24} best {found[0]}", flush=True)
        with adding_to(RUNS) as runs:
            runs[method] = found
            in_order = {name: runs[name] for name in GRIDS if name in runs}
            runs.clear()
            runs.update(in_order)
            PAGE.write_text(page(runs), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
