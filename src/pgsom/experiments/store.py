"""What is finished, kept in files that are named by a digest of everything that can change the numbers.

The digest covers the protocol's values, the variant with its learning rate, the seeds, the episodes of the evaluations,
the versions of the packages and every line of this package that trains or evaluates. A changed number is another
digest, so nothing stale is ever read.
"""

import hashlib
import io
import json
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pgsom.experiments.blocks import Cell, Lengths, Trained
from pgsom.experiments.protocols import Protocol
from pgsom.runs.store import versions

NOT_COMPUTING = ("cli", "report", "runs", "experiments", "presets", "__init__.py")
"""What only shows, saves or judges; of the experiments, `COMPUTING` is what does compute."""
COMPUTING = ("as_run.py", "blocks.py", "evaluation.py", "variants.py")


class Part(NamedTuple):
    """A finished piece: one variant over some seeds, and the seconds its share of the block took."""

    trained: Trained
    seconds: float


def digest_of(protocol: Protocol, cell: Cell, lengths: Lengths) -> str:
    """Of all that decides the numbers of this cell."""
    said = {
        "protocol": protocol.values,
        "variant": list(cell.variant),
        "rate": cell.rate,
        "root": cell.root,
        "seeds": list(cell.seeds),
        "episodes": [lengths.last, lengths.before],
        "versions": versions(),
        "source": source_digest(),
    }
    return _hash(json.dumps(said, sort_keys=True))


@cache
def source_digest() -> str:
    """Of every line that a training run or an evaluation can go through."""
    root = Path(str(resources.files("pgsom")))
    files = [file for file in root.rglob("*.py") if file.relative_to(root).parts[0] not in NOT_COMPUTING]
    files += [root / "experiments" / name for name in COMPUTING]
    return _hash("\0".join(file.read_text(encoding="utf-8") for file in sorted(files)))


def write_part(folder: Path, digest: str, part: Part) -> None:
    """Keep it, all or nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, seconds=part.seconds, **part.trained._asdict())
    temporary = folder / f"{digest}.part"
    temporary.write_bytes(buffer.getvalue())
    temporary.replace(folder / f"{digest}.npz")


def read_part(folder: Path, digest: str) -> Part | None:
    """What was kept under this digest; a damaged file is none."""
    place = folder / f"{digest}.npz"
    try:
        with np.load(place) as found:
            return Part(Trained(*(found[name] for name in Trained._fields)), float(found["seconds"]))
    except (OSError, ValueError, KeyError, EOFError):
        return None


def write_json(folder: Path, digest: str, content: Any) -> None:
    """Keep the outcome of a measurement that is no training."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f"{digest}.part"
    temporary.write_text(json.dumps(content), encoding="utf-8")
    temporary.replace(folder / f"{digest}.json")


def read_json(folder: Path, digest: str) -> Any:
    """What `write_json` kept, or None."""
    try:
        return json.loads((folder / f"{digest}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def digest_of_measurement(name: str, settings: dict[str, Any]) -> str:
    """Of a measurement by its name and numbers."""
    said = {"measurement": name, "settings": settings, "versions": versions(), "source": source_digest()}
    return _hash(json.dumps(said, sort_keys=True))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
