"""What was measured, kept in JSON files that several processes may add to at once."""

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def adding_to(path: Path) -> Iterator[dict[str, Any]]:
    """The file's contents, to be changed; written back at the end. Others wait meanwhile."""
    with path.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        contents: dict[str, Any] = json.loads(file.read() or "{}")
        yield contents
        file.truncate(0)
        file.write(json.dumps(contents, indent=1) + "\n")
