"""`python -m benchmarks.learning [preset …]`: does each preset learn, over 32 seeds? Writes docs/results.md.

What was measured is kept in benchmarks/learning.json, a row a preset; the page holds nothing else. `make learn` asks
the same of every preset, and fails if too few of its seeds reach its goal.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.stats

import pgsom
from benchmarks.keeping import adding_to
from pgsom.checks import check_known
from pgsom.methods import METHODS
from pgsom.presets import preset_names, read_preset
from pgsom.statistics import bootstrap_mean, interquartile_mean

ROOT = Path(__file__).parents[1]
ROWS, PAGE = ROOT / "benchmarks" / "learning.json", ROOT / "docs" / "results.md"
SEEDS, NEEDED, EVALUATION = 32, 29, 100
ROOT_SEED = 0
"""Presets are tuned on root seed 1 (`benchmarks.tuning`)."""

HEAD = f"""# Results

Every preset over {SEEDS} seeds of root seed {ROOT_SEED}; the numbers of presets were chosen on root seed 1, those
of [Tuning](tuning.md) with one budget for all, the others with less. A preset says where each number comes from.
A seed's score is the mean undiscounted return of {EVALUATION} fresh episodes after training, actions drawn. It reaches
the goal if its score is at least as high; a preset passes `make learn` if at least {NEEDED} of {SEEDS} seeds do. One
that does with probability 0.98 a seed fails that 1 time in 250, one that does with probability 0.75 passes 1 in 39.

"While learning" is the mean return over all episodes of training: the higher, the sooner it learned. Episodes and
steps are those of one seed, with every batch of every update counted. Intervals: 95 %, bootstrapped over seeds;
IQM: the mean of the middle half of the seeds.

The page is written by `make results` from `benchmarks/learning.json`. One row again: the command beside it.
"""
COLUMNS = (
    "preset",
    "episodes",
    "environment steps",
    "score, mean [95 %]",
    "IQM",
    "while learning",
    "goal",
    "seeds at the goal",
    "command",
)


class Row(NamedTuple):
    """What was measured of one preset."""

    settings: dict[str, Any]
    goal: float
    episodes: int
    env_steps: float
    """Of one seed, on average."""
    while_learning: float
    skipped: int
    scores: list[float]
    """One a seed."""

    @property
    def successes(self) -> int:
        """How many seeds reached the goal."""
        return sum(score >= self.goal for score in self.scores)


def luck(needed: int, p: float) -> float:
    """The probability that fewer than `needed` seeds succeed, each with probability p."""
    return float(scipy.stats.binom.cdf(needed - 1, SEEDS, p))


def measure(name: str) -> Row:
    """Train the preset over all seeds and evaluate it."""
    preset = read_preset(name)
    result = pgsom.train(**preset.settings, seeds=SEEDS, seed=ROOT_SEED)
    scores = result.evaluate(EVALUATION).mean(axis=1)
    return Row(
        settings=preset.settings,
        goal=preset.goal,
        episodes=int(result.episodes[-1]),
        env_steps=float(result.env_steps[:, -1].mean()),
        while_learning=float(np.nanmean(result.returns)),
        skipped=int(result.skipped.sum()),
        scores=[round(float(score), 2) for score in scores],
    )


def read_rows() -> dict[str, Row]:
    """What has been measured so far."""
    return {name: Row(**row) for name, row in json.loads(ROWS.read_text("utf-8")).items()} if ROWS.exists() else {}


def page(rows: dict[str, Row]) -> str:
    """docs/results.md."""
    sections = []
    for environment in sorted({row.settings["environment"] for row in rows.values()}):
        inside = {name: row for name, row in rows.items() if row.settings["environment"] == environment}
        best_first = sorted(inside, key=lambda name: -inside[name].while_learning)
        lines = [COLUMNS, ["---"] * len(COLUMNS), *(cells(name, rows[name]) for name in best_first)]
        sections.append(f"\n## {environment}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines))
    missing = [method for method in METHODS if method not in rows]
    said = f"\nMethods not yet measured: {', '.join(missing)}.\n" * bool(missing)
    return HEAD + said + "".join(sections)


def cells(name: str, row: Row) -> list[str]:
    mean, low, high = bootstrap_mean(row.scores)
    return [
        name,
        f"{row.episodes:,}",
        f"{row.env_steps:,.0f}",
        f"{mean:.1f} [{low:.1f}, {high:.1f}]",
        f"{interquartile_mean(row.scores):.1f}",
        f"{row.while_learning:.1f}",
        f"{row.goal:g}",
        f"{row.successes} of {len(row.scores)}",
        f"`python -m benchmarks.learning {name}`",
    ]


def main(asked: Sequence[str]) -> int:
    quick = [name for name in preset_names() if read_preset(name).seeds_measured == SEEDS]
    check_known("preset", asked, quick)
    for name in asked or quick:
        row = measure(name)
        print(
            f"{name:<24} score {np.mean(row.scores):6.1f}, {row.successes} of {SEEDS} seeds at {row.goal:g}", flush=True
        )
        with adding_to(ROWS) as rows:
            rows[name] = row._asdict()
            in_order = {known: rows[known] for known in preset_names() if known in rows}
            rows.clear()
            rows.update(in_order)
            PAGE.write_text(page({known: Row(**kept) for known, kept in rows.items()}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
