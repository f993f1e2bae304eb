"""One small training run, made by the command line, for all tests that look at what it leaves."""

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pgsom.cli.main import main

PROGRAM = (sys.executable, "-c", "import sys; from pgsom.cli.main import main; sys.exit(main())")
SMALL = ("--env", "three-state", "--method", "reinforce", "--seeds", "2", "--updates", "30", "--evaluate", "5")


class Trained(NamedTuple):
    code: int
    folder: Path
    printed: str
    said: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.printed)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("trained") / "run"
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(["train", *SMALL, "--json", "--out", str(folder)])
    return Trained(code, folder, out.getvalue(), err.getvalue())


@pytest.fixture
def program() -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command line in a process of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, timeout=120)

    return run
