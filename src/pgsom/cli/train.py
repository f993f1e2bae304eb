"""``pgsom train``: train, show how it went, save everything."""

import inspect
import itertools
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgsom.checks import InputError, check_choice
from pgsom.cli.arguments import help_text
from pgsom.cli.closing import Outcome, as_json, print_closing, save, save_summary
from pgsom.cli.options import TRAIN_OPTIONS, options_of
from pgsom.cli.settings import Settings, read_settings
from pgsom.methods import METHODS

if TYPE_CHECKING:
    from pgsom.environments import EpisodeError

USAGE = "pgsom train [--env NAME] [--method NAME] [--seeds N] [--episodes N] [--out DIR] [options]"
SUMMARY = "Train policies, several seeds side by side. In brackets: the default, or methods with theirs."
ONE_METHOD = "With --method NAME, --help shows the options of that method alone, with its defaults."
EXAMPLE = "example: pgsom train --env CartPole-v1 --method pg-som --seeds 8 --episodes 500 --out runs/first"


def run(arguments: Sequence[str]) -> int:
    """The exit code; 130 if Ctrl-C ended the run early, 1 if no seed could go on."""
    if {"--help", "-h"} & set(arguments):
        print(_help(arguments))
        return 0
    settings = read_settings(arguments)
    try:
        outcome = _train(settings)
    except InputError as error:
        raise settings.located(error) from None
    if settings.flag("json"):
        print(as_json(outcome))
    else:
        print_closing(outcome)
    if outcome.result.frozen.all():
        print(f"pgsom train: failed: every seed is frozen: {outcome.result.failures[0]}", file=sys.stderr)
        return 1
    if not outcome.interrupted:
        return 0
    kept = f"saved in {outcome.out}" if outcome.out else "not saved (no --out)"
    done = f"{outcome.result.updates:,} of {outcome.planned_updates:,} updates"
    print(f"pgsom train: interrupted after {done}; {kept}", file=sys.stderr)
    return 130


def _help(arguments: Sequence[str]) -> str:
    """Of one method if the arguments name it, else of all."""
    given = [word.removeprefix("--method=") for word in arguments if word.startswith("--method=")]
    given += [word for before, word in itertools.pairwise(arguments) if before == "--method"]
    if not given:
        return help_text(USAGE, f"{SUMMARY}\n{ONE_METHOD}", TRAIN_OPTIONS, after=EXAMPLE)
    method = check_choice("method", given[-1], METHODS)
    about = inspect.getdoc(METHODS[method]) or ""
    return help_text(f"pgsom train --method {method} [options]", about, options_of(method))


def _train(settings: Settings) -> Outcome:
    """Train, save, evaluate, and add the evaluation to what was saved."""
    from pgsom.cli.progress import Interrupt, reporter
    from pgsom.environments import EpisodeError
    from pgsom.runs import Progress, train

    planned = 0
    with reporter(silent=settings.flag("quiet") or settings.flag("json")) as shown:
        with Interrupt(shown) as interrupt:
            shown.stage("compiling")

            def after_chunk(progress: Progress) -> bool:
                nonlocal planned
                planned = progress.total_updates
                shown.advance(progress)
                return interrupt.asked

            try:
                result = train(**settings.of_training(), callback=after_chunk)
            except EpisodeError as error:
                raise _saved(error, planned, settings.out) from None
            outcome = Outcome(result, planned, settings.out, interrupt.asked)
            save(outcome)
        if settings.evaluate and not outcome.interrupted and not result.frozen.all():
            shown.stage("evaluating")
            outcome = _evaluated(outcome, settings.evaluate)
    return outcome


def _saved(error: "EpisodeError", planned: int, out: Path | None) -> "EpisodeError":
    """The same error, what there is of the run being saved, and a word on that."""
    from pgsom.environments import EpisodeError

    if not error.results:
        return error
    result = error.results[0]
    save(Outcome(result, planned, out, interrupted=True))
    kept = f"saved in {out}" if out else "not saved (no --out)"
    return EpisodeError(f"{error}; the run's first {result.updates:,} of {planned:,} updates are {kept}")


def _evaluated(outcome: Outcome, episodes: int) -> Outcome:
    """With an evaluation; a Ctrl-C during it leaves the saved run as it is."""
    try:
        outcome = replace(outcome, evaluation=outcome.result.evaluate(episodes))
    except KeyboardInterrupt:
        return replace(outcome, interrupted=True)
    save_summary(outcome)
    return outcome
