"""`python -m benchmarks.control [preset …] [--seeds 0 1 2]`: the long trainings on the host, beside published numbers.

Every seed is a run of its own in .control/PRESET/SEED, carried on where it was stopped; its scores are kept in
benchmarks/control.json, and docs/control.md holds nothing else. Seeds are of root seed 0; presets were tuned on root 1.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pgsom
from benchmarks import learning
from pgsom.checks import check_known
from pgsom.presets import preset_names, read_preset
from pgsom.statistics import bootstrap_mean

ROOT = Path(__file__).parents[1]
RUNS, ROWS, PAGE = ROOT / ".control", ROOT / "benchmarks" / "control.json", ROOT / "docs" / "control.md"
ROOT_SEED, EVALUATION = 0, 100


class Aim(NamedTuple):
    """What is asked of a preset."""

    wanted: str
    published: str


HARNESS = "Tianshou's MuJoCo benchmark, 10 seeds, 1M steps"
AIMS = {
    "cartpole-200": Aim("≥ 490 in 90 % of seeds", "pass mark of a university course: 490 after 200 episodes"),
    "pendulum": Aim("≥ -200", ""),
    "mountain-car-continuous": Aim("≥ 90", "the environment's own threshold: 90"),
    "lunar-lander": Aim("≥ 200", "the environment's own threshold: 200"),
    "half-cheetah": Aim("≥ 3485 (NPG), 4471 (TRPO)", f"NPG 3485 ± 717, TRPO 4471 ± 805, PPO 5784 ({HARNESS})"),
    "hopper": Aim("≥ 1915 (NPG), 2046 (TRPO)", f"NPG 1915 ± 550, TRPO 2046 ± 1038, PPO 2609 ({HARNESS})"),
}
"""Presets with a mark to reach; those that `benchmarks.learning` measures are shown from its rows."""


class Score(NamedTuple):
    """Of one seed: mean returns of fresh episodes after training."""

    drawn: float
    most_probable: float


class Row(NamedTuple):
    """What was measured of a preset."""

    settings: dict[str, Any]
    goal: float
    seeds: dict[str, list[float]]
    """Two scores a seed, as `Score` has them."""


HEAD = f"""# Long trainings, beside published numbers

Presets whose environments are stepped on the host take a minute or more for each seed, so few seeds are trained.
Seeds are of root seed {ROOT_SEED}; the presets were tuned on root seed 1, by hand. A seed's score is the mean
undiscounted return of {EVALUATION} fresh episodes after training: with actions drawn, and with the most probable ones,
which is how the published numbers were evaluated and what is compared with the goal (where it is given). Intervals:
95 %, bootstrapped over seeds and widened for few of them; the published ± are standard deviations over seeds. Every
number is of one budget, reached once, without choosing among checkpoints.

The page is written by `make learn-long` from `benchmarks/control.json`, and the rows of environments in JAX from
`benchmarks/learning.json`.

"""
COLUMNS = (
    "preset",
    "environment",
    "method",
    "environment steps",
    "seeds",
    "score, drawn [95 %]",
    "score, most probable [95 %]",
    "at the goal",
    "wanted",
    "command",
)


def measure(name: str, seed: int) -> Score:
    """Train one seed, or carry its run on, and evaluate it."""
    settings = read_preset(name).settings
    run = RUNS / name / str(seed)
    result = pgsom.train(**settings, seeds=(seed,), seed=ROOT_SEED, out=run, resume="auto", checkpoint_seconds=15)
    drawn, probable = (result.evaluate(EVALUATION, deterministic=d).mean() for d in (False, True))
    return Score(round(float(drawn), 1), round(float(probable), 1))


def read_rows() -> dict[str, Row]:
    """What has been measured so far."""
    return {name: Row(**row) for name, row in json.loads(ROWS.read_text("utf-8")).items()} if ROWS.exists() else {}


def page(rows: dict[str, Row], in_jax: dict[str, learning.Row]) -> str:
    """docs/control.md."""
    lines = [COLUMNS, ["---"] * len(COLUMNS)]
    for name in AIMS:
        if name in rows:
            lines.append(cells(name, rows[name]))
        elif name in in_jax:
            lines.append(cells_in_jax(name, in_jax[name]))
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    sources = "".join(f"- {name}: {aim.published}\n" for name, aim in AIMS.items() if aim.published)
    return HEAD + table + "\nPublished:\n\n" + sources + (TRIED.read_text("utf-8") if TRIED.exists() else "")


TRIED = ROOT / "benchmarks" / "control_tried.md"
"""What was tried, in words."""


def cells(name: str, row: Row) -> list[str]:
    scores = [Score(*pair) for pair in row.seeds.values()]
    drawn, probable = ([getattr(score, kind) for score in scores] for kind in Score._fields)
    reached = sum(score.most_probable >= row.goal for score in scores)
    settings = row.settings
    told = [name, settings["environment"], settings["method"], f"{settings['env_steps']:,}", str(len(scores))]
    command = f"`python -m benchmarks.control {name}`"
    return [*told, interval(drawn), interval(probable), f"{reached} of {len(scores)}", AIMS[name].wanted, command]


def cells_in_jax(name: str, row: learning.Row) -> list[str]:
    settings = row.settings
    steps = f"{row.env_steps:,.0f}" + (f" ({row.episodes} episodes)" if "episodes" in settings else "")
    told = [name, settings["environment"], settings["method"], steps, str(len(row.scores))]
    reached, command = f"{row.successes} of {len(row.scores)}", f"`python -m benchmarks.learning {name}`"
    return [*told, interval(row.scores), "", reached, AIMS[name].wanted, command]


def interval(scores: list[float]) -> str:
    if len(scores) == 1:
        return f"{scores[0]:.1f} (one seed: no interval)"
    mean, low, high = bootstrap_mean(scores)
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def write_page() -> None:
    PAGE.write_text(page(read_rows(), learning.read_rows()), "utf-8")


def main(arguments: list[str]) -> int:
    reader = argparse.ArgumentParser(prog="python -m benchmarks.control")
    reader.add_argument("presets", nargs="*")
    reader.add_argument("--seeds", type=int, nargs="+", default=[])
    given = reader.parse_args(arguments)
    long = [name for name in preset_names() if read_preset(name).seeds_measured < learning.SEEDS]
    check_known("preset", given.presets, long)
    for name in given.presets or long:
        preset = read_preset(name)
        for seed in given.seeds or range(preset.seeds_measured):
            score = measure(name, seed)
            rows = read_rows()
            known = rows.get(name)
            same = known is not None and (known.settings, known.goal) == (preset.settings, preset.goal)
            seeds = (known.seeds if known is not None and same else {}) | {str(seed): list(score)}
            rows[name] = Row(preset.settings, preset.goal, dict(sorted(seeds.items())))
            ROWS.write_text(json.dumps({key: row._asdict() for key, row in sorted(rows.items())}, indent=1) + "\n")
            write_page()
            print(f"{name}, seed {seed}: drawn {score.drawn:.1f}, most probable {score.most_probable:.1f}", flush=True)
    write_page()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
