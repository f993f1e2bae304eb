"""``pgsom evaluate``: what the policies of a saved run earn in fresh episodes, with an interval."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgsom.checks import check_count
from pgsom.cli.arguments import COUNT, FLAG, Option, help_text, read_arguments
from pgsom.cli.saved import run_folder

if TYPE_CHECKING:
    from pgsom.runs import Result

EPISODES = 100
OPTIONS = (
    Option("episodes", COUNT, "fresh episodes of each seed's policy, in each of the two ways to act", EPISODES),
    Option("seed", COUNT, "root of the episodes' randomness", 1),
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("debug", FLAG, "show the traceback of a failure"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
USAGE = "pgsom evaluate RUN [--episodes N] [--json]"
SUMMARY = (
    "Mean return of fresh episodes with its 95 % interval, of actions drawn from the policy (stochastic) and of the\n"
    "most probable ones (deterministic). The interval is over seeds; of a run of one seed it is over episodes."
)


def run(arguments: Sequence[str]) -> int:
    """The exit code."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after="example: pgsom evaluate runs/first --episodes 1000"))
        return 0
    given = read_arguments(arguments, OPTIONS, operands=("run",))
    folder = run_folder(given)
    episodes = check_count("episodes", given.get("episodes", EPISODES))
    root = check_count("seed", given.get("seed", 1), at_least=0, at_most=2**31 - 1)

    from pgsom.runs import load
    from pgsom.runs.store import to_json

    result = load(folder)
    ways = {"stochastic": False, "deterministic": True}
    found = {way: _found(result, episodes, root, deterministic) for way, deterministic in ways.items()}
    whole = {"run": str(folder), "episodes": episodes, "seeds": list(result.seeds), **found}
    if given.get("json"):
        print(to_json(whole))
        return 0
    over = found["stochastic"]["interval_over"]
    print(f"{result.settings.environment} · {result.settings.method} · {episodes:,} episodes a seed")
    for way, numbers in found.items():
        interval = f"[{numbers['low']:.4g}, {numbers['high']:.4g}]"
        print(f"  {way:<13}  {numbers['mean']:.4g}  {interval}  95 % over {over}")
    return 0


def _found(result: "Result", episodes: int, root: int, deterministic: bool) -> dict[str, Any]:
    """Mean and interval, over seeds where there are several."""
    from pgsom.statistics import bootstrap_mean

    returns = result.evaluate(episodes, deterministic=deterministic, seed=root)
    several = len(returns) > 1
    interval = bootstrap_mean(returns.mean(axis=1) if several else returns[0])
    return {
        "mean": float(interval.mean),
        "low": float(interval.low),
        "high": float(interval.high),
        "interval_over": "seeds" if several else "episodes",
        "return_by_seed": [float(mean) for mean in returns.mean(axis=1)],
        "standard_deviation": float(returns.std()),
    }
