"""The program around the commands: help, version, speed, exit codes."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import pgsom
from pgsom.cli.main import COMMANDS, main
from pgsom.cli.options import (
    HELP,
    METHOD_OPTIONS,
    RUN_OPTIONS,
    TRAIN_OPTIONS,
    _annotations,
    _kind_and_choices,
    options_of,
    takers,
)
from pgsom.methods import METHODS, method_options
from pgsom.objective import REDUCTIONS
from pgsom.returns import DISCOUNTINGS
from pgsom.schemes import STAGE_DATA
from pgsom.updates import SHAPES, STEP_LENGTHS
from tests.cli.conftest import PROGRAM

Run = Callable[..., subprocess.CompletedProcess[str]]
HEAVY = ("jax", "optax", "gymnax", "numpy", "polars", "matplotlib", "rich")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["list", "-h"]])
def test_help_is_quick(arguments: list[str]) -> None:
    def seconds() -> float:
        started = time.perf_counter()
        subprocess.run([*PROGRAM, *arguments], check=True, capture_output=True)
        return time.perf_counter() - started

    assert min(seconds() for _ in range(3)) < 0.7


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["list", "--help"], ["list", "x"], ["trian"], ["--xyzzy"]]
)
def test_help_and_usage_errors_import_nothing_heavy(arguments: list[str]) -> None:
    imported = f"print(*set({HEAVY}) & sys.modules.keys(), file=sys.__stderr__)"
    code = f"import sys; from pgsom.cli.main import main; sys.stderr = None; main({arguments}); {imported}"
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stderr == "\n"


def test_help_names_every_command_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    assert all(f"\n  {name} " in overview for name in COMMANDS)
    assert main(["train", "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for option in TRAIN_OPTIONS:
        assert sum(line.split()[:1] in ([option.spellings[0]], [f"{option.spellings[0]},"]) for line in lines) == 1
    assert max(map(len, lines)) <= 140


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"pgsom {pgsom.__version__}\n"


def test_the_options_of_train_are_those_of_the_methods() -> None:
    """Every option of every method has its words in HELP, and nothing else stands there."""
    used: set[str] = set()
    for method in METHODS:
        defaults = method_options(method)
        used |= defaults.keys()
        assert {o.name: o.default for o in options_of(method) if o.name in defaults} == defaults, method
        assert {o.name for o in METHOD_OPTIONS if method in takers(o)} == defaults.keys(), method
    assert used == set(HELP)


def test_an_option_has_one_kind_and_one_set_of_choices_in_all_methods() -> None:
    for option in METHOD_OPTIONS:
        for method in takers(option):
            assert _kind_and_choices(option.name, _annotations(method)[option.name]) == (option.kind, option.choices)


def test_literal_choices_are_those_of_the_registries() -> None:
    expected = {"discounting": DISCOUNTINGS, "reduction": REDUCTIONS, "stage_data": STAGE_DATA}
    expected |= {"shape": SHAPES, "step_length": STEP_LENGTHS}
    found = {option.name: option.choices for option in METHOD_OPTIONS}
    for name, registry in expected.items():
        assert found[name] == tuple(registry)


def test_help_of_one_method_shows_its_equations_and_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    for spelled in (["--method", "adam"], ["--method=adam"]):
        assert main(["train", *spelled, "--help"]) == 0
        said = capsys.readouterr().out
        assert "θ ← θ + η" in said and "--b1" in said and "--kl-radius" not in said
    assert main(["train", "--method", "adma", "--help"]) == 2
    assert "did you mean 'adam'?" in capsys.readouterr().err


def test_the_defaults_of_the_run_are_those_of_train() -> None:
    import inspect

    from pgsom.runs import train
    from pgsom.runs.run import DEFAULT_EPISODES

    parameters = inspect.signature(train).parameters
    for option in RUN_OPTIONS:
        if option.name in parameters and option.name != "episodes":
            assert option.default == parameters[option.name].default, option.name
        if option.name == "episodes":
            assert option.default == DEFAULT_EPISODES


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (RuntimeError("out of\nmemory"), 1, "pgsom train: failed: RuntimeError: out of memory"),
        (MemoryError(), 1, "pgsom train: failed: MemoryError: no more is known"),
        (KeyboardInterrupt(), 130, "pgsom train: interrupted at once; nothing more was kept"),
    ],
)
def test_a_run_that_fails(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pgsom.runs

    def fail(**arguments: Any) -> Any:
        raise error

    monkeypatch.setattr(pgsom.runs, "train", fail)
    assert main(["train"]) == code
    assert capsys.readouterr() == ("", f"{line}\n")


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--evaluate", "-1", "--debug"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback") and said.endswith("InputError: evaluate=-1: accepted is a whole number >= 0\n")


def test_a_reader_that_goes_away_is_no_failure() -> None:
    piped = subprocess.Popen([*PROGRAM, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert piped.stdout is not None and piped.stderr is not None
    piped.stdout.close()
    assert piped.stderr.read() == b""
    piped.stderr.close()
    assert piped.wait(timeout=60) == 0
