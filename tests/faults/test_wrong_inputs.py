"""Every wrong input of docs/errors.md: one clear line, exit code 2, nothing on stdout, no traceback."""

import dataclasses
import math
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import pgsom
from pgsom import checks, methods, policies, schemes
from pgsom.checks import InputError
from pgsom.cli.main import main
from pgsom.environments import chain, examples, linear_quadratic
from pgsom.runs.result import TrainedPolicy, metric
from tests.faults.wrong_inputs import Row, expanded, rows

ROWS = rows()
COMMANDS, FILES, EXPRESSIONS = "On the command line", "In a file of options", "In Python"


def of(section: str) -> list[Any]:
    return [
        pytest.param(row, id=" ".join(filter(None, row.given))[:90] or "nothing")
        for row in ROWS
        if row.section == section
    ]


def test_the_table_is_long_and_says_nothing_twice() -> None:
    assert len(ROWS) >= 60
    assert {row.section for row in ROWS} == {COMMANDS, FILES, EXPRESSIONS}
    assert len({row[:2] for row in ROWS}) == len(ROWS)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the rows name: files and folders of every unfitting kind."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("folder").mkdir()
    Path("bytes.toml").write_bytes(b"\xff\xfe")
    Path("finished").mkdir()
    Path("finished/settings.toml").touch()
    Path("read-only").mkdir()
    Path("list.json").write_text("[1, 2]")
    Path("other.npz").write_bytes(b"PK no zip")
    access = os.access
    # Not by permissions: the tests may run as root, who is refused nothing.
    monkeypatch.setattr(os, "access", lambda path, mode: "read-only" not in str(path) and access(path, mode))
    return tmp_path


def error_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """What is said on stderr; all else that must hold for wrong use is asserted."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith("\n") and printed.err.count("\n") == 1
    return printed.err.removesuffix("\n")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("row", of(COMMANDS))
def test_a_wrong_command_line(row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    assert error_line(capsys, row.given[0].split()) == expanded(row.said)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("row", of(FILES))
def test_a_wrong_file(row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    text, words = row.given
    Path("run.toml").write_text(text)
    assert error_line(capsys, ["train", "--config", "run.toml", *words.split()]) == expanded(row.said)


@dataclasses.dataclass(frozen=True)
class Images:
    """An environment whose observations are not flat."""

    name: str = "images"
    horizon: int = 1
    observation: Any = dataclasses.field(default_factory=lambda: pgsom.Box((2, 2)))
    action: Any = dataclasses.field(default_factory=lambda: pgsom.Discrete(2))
    reset: Any = print
    step: Any = print


@pytest.fixture(scope="module")
def vocabulary() -> dict[str, Any]:
    """What the expressions of the page may use."""

    def train(**options: Any) -> Any:
        return pgsom.train(**({"environment": "chain", "method": "reinforce", "updates": 1} | options))

    result = pgsom.train("chain", "reinforce", updates=1, seeds=(2, 5))
    own = {"chain": chain, "train": train, "result": result, "metric": metric, "images": Images(), "print": print}
    modules = {"pgsom": pgsom, "np": np, "jnp": jnp, "math": math, "examples": examples, "checks": checks}
    parts = {name: vars(module) for name, module in {"s": schemes, "m": methods, "p": policies}.items()}
    names = {name: value for part in parts.values() for name, value in part.items() if not name.startswith("_")}
    names |= {
        "TrainedPolicy": TrainedPolicy,
        "LinearQuadratic": linear_quadratic.LinearQuadratic,
        "SimpleNamespace": SimpleNamespace,
    }
    return vars(pgsom) | {name: getattr(pgsom, name) for name in pgsom.__all__} | names | modules | own


@pytest.mark.usefixtures("here", "unchecked")
@pytest.mark.parametrize("row", of(EXPRESSIONS))
def test_a_wrong_call(row: Row, vocabulary: dict[str, Any]) -> None:
    with pytest.raises(InputError) as error:
        eval(row.given[0], dict(vocabulary))
    assert str(error.value) == expanded(row.said)
