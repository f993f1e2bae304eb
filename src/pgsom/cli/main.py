"""``pgsom``: finds the command, and turns every failure into one line and an exit code.

0 done · 1 the run failed · 2 wrong use · 130 interrupted.
"""

import importlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from pgsom import __version__
from pgsom.checks import InputError, RunError, check_choice, printable
from pgsom.cli.arguments import FLAG, Option, help_text, read_arguments

# A command's module is imported when it runs. It has ``run(arguments) -> exit code``.
COMMANDS = {
    "train": ("pgsom.cli.train", "train policies on an environment, several seeds side by side"),
    "evaluate": ("pgsom.cli.evaluate", "what a saved run's policies earn in fresh episodes, with intervals"),
    "play": ("pgsom.cli.play", "watch a trained policy, or film it"),
    "export": ("pgsom.cli.export", "a trained policy as an ONNX, safetensors or NumPy file"),
    "resume": ("pgsom.cli.resume", "carry on a run that was stopped, or further one that has ended"),
    "runs": ("pgsom.cli.runs", "the runs in a folder, and how they stand"),
    "show": ("pgsom.cli.show", "one run, as far as it has got"),
    "report": ("pgsom.cli.report", "one interactive page of saved runs"),
    "diagnose": ("pgsom.cli.diagnose", "how well the method of a saved run sees, and what its next step gains"),
    "paper": ("pgsom.cli.paper", "the paper's experiment, beside its printed table"),
    "theory": ("pgsom.cli.theory", "the paper's lemmas and every estimator on finite MDPs, exactly"),
    "list": ("pgsom.cli.listing", "environments, methods, estimators, schemes and the rest, one line each"),
}
OPTIONS = (
    Option("version", FLAG, "print the version"),
    Option("help", FLAG, "this text; pgsom COMMAND --help for a command's", spelled=("--help", "-h")),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    named = bool(arguments) and arguments[0] in COMMANDS
    program = f"pgsom {arguments[0]}" if named else "pgsom"
    before = _as_ctrl_c()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except InputError as error:
        return _failed(program, error, 2, arguments)
    except KeyboardInterrupt:
        _say(f"{program}: interrupted at once; nothing more was kept")
        return 130
    except BrokenPipeError:
        # The reader has gone (`pgsom list | head`): nothing to say, and nothing to flush at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _failed(program, error, 1, arguments)
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _as_ctrl_c() -> Any:
    """Let SIGTERM be what Ctrl-C is; returns what it was before, where it could be changed."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, signal.default_int_handler)


def _run(arguments: list[str]) -> int:
    if not arguments:
        raise InputError(f"a command is missing; accepted are {', '.join(COMMANDS)} (or --help)")
    if arguments[0].startswith("-"):
        return _answer(read_arguments(arguments, OPTIONS))
    module, _ = COMMANDS[check_choice("command", arguments[0], COMMANDS)]
    return int(importlib.import_module(module).run(arguments[1:]))


def _answer(given: dict[str, bool]) -> int:
    if "version" in given:
        print(f"pgsom {__version__}")
        return 0
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items())
    about = f"Curvature-aware policy-gradient reinforcement learning.\n\ncommands:\n{commands}"
    print(help_text("pgsom COMMAND [options]", about, OPTIONS))
    return 0


def _failed(program: str, error: Exception, code: int, arguments: list[str]) -> int:
    if "--debug" in arguments:
        import traceback

        traceback.print_exception(error)
        return code
    said = " ".join(str(error).split()) or "no more is known"
    named = said if isinstance(error, RunError) else f"{type(error).__name__}: {said}"
    _say(f"{program}: {said}" if code == 2 else f"{program}: failed: {named}")
    return code


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr)
