"""``pgsom resume``: carry a run on from its newest checkpoint."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgsom.checks import InputError, check_count, wrong
from pgsom.cli.arguments import COUNT, FLAG, NUMBER, Option, help_text, read_arguments
from pgsom.cli.options import WATCHING_OPTIONS
from pgsom.cli.settings import FINISHED, WATCHING

if TYPE_CHECKING:
    from pgsom.runs import Result

USAGE = "pgsom resume RUN [--episodes N] [options]"
SUMMARY = (
    "Carry on a run that was stopped or killed, to the same bits as if it never had been; with --episodes also\n"
    "one that has ended. Options that are not given are as the run was begun with."
)
OPTIONS = (
    Option("episodes", COUNT, "new budget of each seed, what is done included"),
    Option("updates", COUNT, "the same in updates"),
    Option("env_steps", COUNT, "the same in environment steps"),
    Option("evaluate", COUNT, "fresh episodes for each seed after training; 0: none", 100),
    Option("checkpoint_seconds", NUMBER, "from one checkpoint to the next"),
    Option("checkpoint_updates", COUNT, "the same in updates; 0: by the clock alone"),
    Option("keep", COUNT, "checkpoints that stay, beside the best"),
    *WATCHING_OPTIONS,
    Option("json", FLAG, "print one JSON object and nothing else"),
    Option("quiet", FLAG, "no progress"),
    Option("debug", FLAG, "show the traceback of an error"),
    Option("help", FLAG, "this text", spelled=("--help", "-h")),
)
OF_RESUME = ("episodes", "updates", "env_steps", "checkpoint_seconds", "checkpoint_updates", "keep", *WATCHING)


def run(arguments: Sequence[str]) -> int:
    """The exit code; 130 if a signal ended the run early."""
    if {"--help", "-h"} & set(arguments):
        print(help_text(USAGE, SUMMARY, OPTIONS, after="example: pgsom resume runs/first --episodes 1000"))
        return 0
    given = read_arguments(arguments, OPTIONS, operands=("run",))
    if "run" not in given:
        raise InputError("a run is missing; accepted is the folder of a run, as pgsom train --out makes it")
    folder = Path(given["run"])
    if not folder.is_dir():
        raise wrong("run", str(folder), f"accepted is the folder of a run, with {FINISHED} in it")
    evaluate = check_count("evaluate", given.get("evaluate", 100), at_least=0)

    from pgsom.cli.train import carried_out, closed

    def start(**watching: Any) -> "Result":
        from pgsom.runs import resume

        return resume(folder, **{name: given[name] for name in OF_RESUME if name in given}, **watching)

    silent = "quiet" in given or "json" in given
    outcome = carried_out(start, "resume", folder, evaluate, silent=silent)
    return closed(outcome, "resume", as_one_object="json" in given)
