"""``pgsom theory``: the paper's lemmas and every estimator on finite MDPs, without sampling error."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsom.checks import check_count, wrong
from pgsom.cli.arguments import COUNT, FLAG, PATH, Option, help_text, read_arguments

if TYPE_CHECKING:
    from pgsom.experiments.problems import Problem
    from pgsom.experiments.theory import Study

MOST_RANDOM = 10_000
OPTIONS = (
    Option("mdp", PATH, "one's own MDP: an .npz or JSON file with P, R, rho, gamma, horizon, theta"),
    Option("random", COUNT, "that many random MDPs"),
    Option("episodes", COUNT, "really played for the z-scores; 0 for none", 1_000),
    Option("seed", COUNT, "of the random MDPs and of the played episodes", 0),
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("debug", FLAG, "show the traceback of a failure"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
USAGE = "pgsom theory [--mdp FILE | --random N] [--episodes N] [--seed N] [--json]"
SUMMARY = (
    "The lemmas and every curvature estimator on MDPs whose trajectories are all listed: expectation, bias, variance,\n"
    "trajectories for a signal-to-noise ratio of 1, negative entries, and whether dividing by the curvature climbs.\n"
    "Without --mdp and --random: the built-in MDPs."
)
FILES = (
    "A file has P[S, A, S], R[S, A], rho[S], gamma, horizon and the policy's logits theta[S, A]; terminal[S], true or\n"
    'false, if wanted. As JSON: {"P": [[[…]]], "R": [[…]], "rho": […], "gamma": 0.9, "horizon": 4, "theta": [[…]]}.'
)


def run(arguments: Sequence[str]) -> int:
    """The exit code: 1 if something contradicts a lemma or what an estimator declares of itself."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after=FILES))
        return 0
    given = {option.name: option.default for option in OPTIONS} | read_arguments(arguments, OPTIONS)
    if given["mdp"] is not None and given["random"] is not None:
        raise wrong("random", given["random"], "accepted is either --random or --mdp")
    episodes = check_count("episodes", given["episodes"], at_least=0, at_most=1_000_000)
    seed = check_count("seed", given["seed"], at_least=0, at_most=2**31 - 1)
    problems = _problems(given["mdp"], given["random"], seed)

    from pgsom.experiments.theory import study

    say = None if given["json"] or len(problems) == 1 else _progress(len(problems))
    studies = []
    for problem in problems:
        studies.append(study(problem, episodes=episodes, seed=seed))
        if say is not None:
            say(len(studies))
    if given["json"]:
        print(_json(studies, single=given["mdp"] is not None))
    elif given["random"] is not None:
        _print_summary(studies)
    else:
        _print_each(studies)
    return 1 if any(one.broken() for one in studies) else 0


def _problems(mdp: str | None, random: int | None, seed: int) -> "list[Problem]":
    if random is not None:
        check_count("random", random, at_most=MOST_RANDOM)
    if mdp is not None and not Path(mdp).is_file():
        raise wrong("mdp", mdp, "no such file; accepted is an .npz or a JSON file")

    from pgsom.experiments import problems

    if mdp is not None:
        return [problems.read_problem(mdp)]
    return problems.built_in_problems() if random is None else problems.random_problems(random, seed=seed)


def _json(studies: "Sequence[Study]", *, single: bool) -> str:
    """One MDP is its own object; several stand in ``mdps`` beside a ``summary``."""
    from pgsom.report.theory import plain, plain_summary
    from pgsom.runs.store import to_json

    if single:
        return to_json(plain(studies[0]))
    return to_json({"summary": plain_summary(studies), "mdps": [plain(one) for one in studies]})


def _print_each(studies: "Sequence[Study]") -> None:
    from pgsom.report import theory

    for one in studies:
        _say(theory.headline(one), style="bold")
        for line in theory.check_lines(one):
            _say(line)
        _table(theory.ESTIMATOR_HEADER, theory.estimator_rows(one))
        _table(theory.ASCENT_HEADER, theory.ascent_rows(one))
        for said in one.broken():
            _say(f"contradiction: {said}", style="red")


def _print_summary(studies: "Sequence[Study]") -> None:
    from pgsom.report import theory

    whole = theory.plain_summary(studies)
    held = ", ".join(f"{claim} in {whole[claim]}" for claim in ("C1", "C2", "C3"))
    negative = f"{whole['negative_share']:.0%} of the entries of diag ∇²J are negative"
    _say(f"{len(studies)} random MDPs: {held} of {len(studies)}; {negative}", style="bold")
    _table(theory.SUMMARY_HEADER, theory.summary_rows(studies))
    _table(theory.CLIMBING_HEADER, theory.climbing_rows(studies))
    for said in whole["contradictions"]:
        _say(f"contradiction: {said}", style="red")


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def _say(line: str, style: str | None = None) -> None:
    _console().print(line, style=style, markup=False, soft_wrap=True)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(header):
        table.add_column(name, justify="left" if place < 2 else "right")
    for row in rows:
        table.add_row(*row)
    _console().print(table)


def _progress(total: int) -> Callable[[int], None]:
    """A line on stderr that counts, where a person watches."""

    def say(done: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{done} of {total} MDPs", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return say
