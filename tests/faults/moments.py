"""What is on the disk at every moment of a run: what a kill there would leave."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock


@contextlib.contextmanager
def photographed(run: Path, album: Path) -> Iterator[list[Path]]:
    """Copies of `run`, taken before every step that changes it."""
    moments: list[Path] = []

    def before(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            if run.is_dir():
                copy = album / f"{len(moments):04} {function.__name__}"
                shutil.copytree(run, copy)
                moments.append(copy)
            return function(*arguments, **options)

        return wrapped

    with contextlib.ExitStack() as stack:
        for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink"), (Path, "mkdir")):
            stack.enter_context(mock.patch.object(owner, name, before(getattr(owner, name))))
        yield moments
