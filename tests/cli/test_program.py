"""The program around the commands: help, version, speed, exit codes."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

import pgsom
from pgsom.cli.main import COMMANDS, main
from pgsom.cli.options import ACTIVATIONS, METHOD_OPTIONS, METHODS, POLICIES, RUN_OPTIONS, TRAIN_OPTIONS, takers
from tests.cli.conftest import PROGRAM

Run = Callable[..., subprocess.CompletedProcess[str]]
HEAVY = ("jax", "optax", "gymnax", "numpy", "polars", "matplotlib", "rich")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["train", "--help"], ["list", "-h"]])
def test_help_is_quick(arguments: list[str]) -> None:
    def seconds() -> float:
        started = time.perf_counter()
        subprocess.run([*PROGRAM, *arguments], check=True, capture_output=True)
        return time.perf_counter() - started

    assert min(seconds() for _ in range(3)) < 0.7


@pytest.mark.parametrize(
    "arguments", [["--help"], ["train", "--help"], ["train", "--seeds", "many"], ["train", "--env", "x"], ["list", "x"]]
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
    from pgsom import methods

    assert tuple(methods.METHODS) == METHODS
    for method in METHODS:
        declared: dict[str, Any] = {}
        for option in METHOD_OPTIONS:
            if method in takers(option):
                shared = option.default
                declared[option.name] = shared[method] if isinstance(shared, dict) else shared
        assert declared == methods.method_options(method), method


def test_the_choices_of_train_are_those_of_the_registries() -> None:
    from pgsom.baselines import BASELINES
    from pgsom.curvature import ESTIMATORS
    from pgsom.methods import METHODS as NAMED
    from pgsom.objective import REDUCTIONS
    from pgsom.policies.networks import ACTIVATIONS as FUNCTIONS
    from pgsom.policies.policy import POLICIES as DEFINED
    from pgsom.returns import DISCOUNTINGS
    from pgsom.schemes import SCHEMES, STAGE_DATA
    from pgsom.updates.som import SHAPES, STEP_LENGTHS

    assert {option.name: option.choices for option in TRAIN_OPTIONS if option.choices} == {
        "method": tuple(NAMED),
        "policy": tuple(DEFINED),
        "activation": tuple(FUNCTIONS),
        "discounting": tuple(DISCOUNTINGS),
        "reduction": tuple(REDUCTIONS),
        "baseline": tuple(BASELINES),
        "scheme": tuple(SCHEMES),
        "stage_data": tuple(STAGE_DATA),
        "curvature": tuple(ESTIMATORS),
        "shape": tuple(SHAPES),
        "step_length": tuple(STEP_LENGTHS),
    }
    assert (tuple(DEFINED), tuple(FUNCTIONS)) == (POLICIES, ACTIVATIONS)


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
