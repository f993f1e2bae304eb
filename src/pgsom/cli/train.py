"""``pgsom train``: train, show how it went, save everything."""

import inspect
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsom.checks import InputError, check_choice
from pgsom.cli.arguments import help_text
from pgsom.cli.closing import Outcome, as_json, print_closing, save, save_summary
from pgsom.cli.options import TRAIN_OPTIONS, options_of
from pgsom.cli.settings import read_settings
from pgsom.methods import METHODS

if TYPE_CHECKING:
    from pgsom.runs import Result
    from pgsom.runs.recorder import Recorder

STOPPING = "stopping (a second Ctrl-C does not wait for the update)"

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
    silent = settings.flag("quiet") or settings.flag("json")

    def start(**watching: Any) -> "Result":
        from pgsom.runs import train

        return train(**settings.of_training(), **settings.of_keeping(), **watching)

    try:
        outcome = carried_out(start, "train", settings.out, settings.evaluate, silent=silent)
    except InputError as error:
        raise settings.located(error) from None
    return closed(outcome, "train", as_one_object=settings.flag("json"))


def closed(outcome: Outcome, command: str, *, as_one_object: bool) -> int:
    """Say how it went; the exit code."""
    if as_one_object:
        print(as_json(outcome))
    else:
        print_closing(outcome)
    if outcome.result.frozen.all():
        print(f"pgsom {command}: failed: every seed is frozen: {outcome.result.failures[0]}", file=sys.stderr)
        return 1
    if not outcome.interrupted:
        return 0
    updates = outcome.result.updates, outcome.planned_updates
    print(_interrupted(command, updates, outcome.out), file=sys.stderr)
    return 130


def carried_out(
    start: Callable[..., "Result"], command: str, out: Path | None, evaluate: int, *, silent: bool
) -> Outcome:
    """Train, save, evaluate, and add the evaluation to what was saved."""
    from pgsom.cli.interrupt import Interrupt
    from pgsom.cli.progress import reporter
    from pgsom.environments import EpisodeError
    from pgsom.runs import Progress, Result

    planned = done = 0
    recorders: list[Recorder] = []

    def leave() -> str:
        for recorder in recorders:
            recorder.close()
        return _interrupted(command, (done, planned), out)

    with reporter(silent=silent) as shown:
        with Interrupt(lambda: shown.stage(STOPPING), leave, kept=out is not None) as interrupt:
            shown.stage("compiling")

            def after_chunk(progress: Progress) -> bool:
                nonlocal planned, done
                planned, done = progress.total_updates, progress.updates
                shown.advance(progress)
                if interrupt.asked:
                    interrupt.reached()
                return interrupt.asked

            try:
                result: Result = start(callback=after_chunk, _recorders=recorders)
            except EpisodeError as error:
                kept = _kept(out, done)
                raise EpisodeError(f"{error}; the run's first {done:,} of {planned:,} updates are {kept}") from None
            planned = result.settings.updates
            outcome = Outcome(result, planned, out, interrupt.asked and result.updates < planned)
            if outcome.interrupted:
                save(outcome)
        if not outcome.interrupted:
            save(outcome)
        if evaluate and not outcome.interrupted and not result.frozen.all():
            shown.stage("evaluating")
            outcome = _evaluated(outcome, evaluate)
    return outcome


def _interrupted(command: str, updates: tuple[int, int], out: Path | None) -> str:
    done, planned = updates
    after = f"after {done:,} of {planned:,} updates" if done else "before the first updates were made"
    return f"pgsom {command}: interrupted {after}; {_kept(out, done)}"


def _kept(out: Path | None, done: int) -> str:
    return f"saved in {out}" if out and done else "not saved (no --out)" if done else "nothing to save"


def _help(arguments: Sequence[str]) -> str:
    """Of one method if the arguments name it, else of all."""
    given = [word.removeprefix("--method=") for word in arguments if word.startswith("--method=")]
    given += [word for before, word in itertools.pairwise(arguments) if before == "--method"]
    if not given:
        return help_text(USAGE, f"{SUMMARY}\n{ONE_METHOD}", TRAIN_OPTIONS, after=EXAMPLE)
    method = check_choice("method", given[-1], METHODS)
    about = inspect.getdoc(METHODS[method]) or ""
    return help_text(f"pgsom train --method {method} [options]", about, options_of(method))


def _evaluated(outcome: Outcome, episodes: int) -> Outcome:
    """With an evaluation; a Ctrl-C during it leaves the saved run as it is."""
    from pgsom.cli.interrupt import Interrupt

    def at_once() -> None:
        raise KeyboardInterrupt

    kept = f"saved in {outcome.out}" if outcome.out else "not saved (no --out)"
    try:
        with Interrupt(at_once, lambda: f"pgsom: interrupted in the evaluation; the run is {kept}"):
            outcome = replace(outcome, evaluation=outcome.result.evaluate(episodes))
    except KeyboardInterrupt:
        return replace(outcome, interrupted=True)
    save_summary(outcome)
    return outcome
