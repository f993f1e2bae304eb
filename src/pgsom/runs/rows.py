"""Metrics on disk: part files that are complete when they appear, and can be read while the run goes on.

A part holds the updates [first, last) of every seed. Two neighbours become one when the newer is as long as the older,
so there are few however long the run; a moment long both they and their union are there, and readers prefer the union.
"""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pgsom.runs.files import DIGITS, DamageError, digest, inner_folder, read_checked, write
from pgsom.training import Metrics

METRICS = "metrics"
MOST_ROWS = 2**18
"""In a part that two others become: joining takes memory, and a run's must not depend on how long it is."""
NAME = re.compile(rf"(\d{{10}})-(\d{{10}})\.([0-9a-f]{{{DIGITS}}})\.parquet")
NAMES = Metrics._fields


class Part(NamedTuple):
    """A file of metrics, as its name describes it."""

    path: Path
    first: int
    last: int
    digest: str


class Rows(NamedTuple):
    """Metrics from update 0 on, as far as they are whole."""

    metrics: Metrics
    """[seed, update]."""
    parts: tuple[Part, ...]
    damaged: tuple[str, ...]
    """Sentences on what could not be read."""


def write_rows(run: Path, first: int, rows: Metrics, seeds: Sequence[int]) -> Path:
    """A part that begins at update `first`; rows are [seed, update]."""
    import polars

    count = np.asarray(rows.episodes).shape[1]
    index = {
        "seed": np.repeat(np.asarray(seeds), count),
        "update": np.tile(np.arange(first, first + count), len(seeds)),
    }
    frame = polars.DataFrame(index | {name: np.asarray(leaf).reshape(-1) for name, leaf in rows._asdict().items()})
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    content = buffer.getvalue()
    name = f"{first:010}-{first + count:010}.{digest(content)[:DIGITS]}.parquet"
    path = inner_folder(run, METRICS, make=True) / name
    write(path, content)
    return path


def join_neighbours(run: Path, seeds: Sequence[int]) -> None:
    """Make one of the last two parts while the last is as long as the one before."""
    while True:
        parts = _cover(listed(run))
        if len(parts) < 2:
            return
        older, newer = parts[-2:]
        rows = (newer.last - older.first) * len(seeds)
        if newer.last - newer.first < older.last - older.first or rows > MOST_ROWS:
            return
        try:
            both = [_read(part, len(seeds)) for part in (older, newer)]
        except DamageError:
            return
        write_rows(run, older.first, _joined(both), seeds)
        for part in (older, newer):
            part.path.unlink()


def read_rows(run: Path, seeds: int, *, attempts: int = 100) -> Rows:
    """All rows from update 0 on without a gap, while somebody may be writing."""
    for _ in range(attempts - 1):
        try:
            return _read_all(run, seeds)
        except FileNotFoundError:
            # Two parts have become one since they were listed.
            continue
    return _read_all(run, seeds)


def cut_rows(run: Path, updates: int, seeds: Sequence[int]) -> None:
    """Leave the rows of the first `updates` updates alone; interrupted, it can be done again."""
    keep = set()
    for part in read_rows(run, len(seeds)).parts:
        if part.last <= updates:
            keep.add(part.path)
        elif part.first < updates:
            kept = _cut(_read(part, len(seeds)), updates - part.first)
            keep.add(write_rows(run, part.first, kept, seeds))
    for part in listed(run):
        if part.path not in keep:
            part.path.unlink()


def listed(run: Path) -> list[Part]:
    """The parts by their names, in order, longer ones first."""
    folder = inner_folder(run, METRICS)
    found = [(path, NAME.fullmatch(path.name)) for path in folder.iterdir()] if folder.is_dir() else []
    parts = [Part(path, int(match[1]), int(match[2]), match[3]) for path, match in found if match]
    return sorted((part for part in parts if part.first < part.last), key=lambda part: (part.first, -part.last))


def _read_all(run: Path, seeds: int) -> Rows:
    parts: list[Part] = []
    read: list[Metrics] = []
    damaged: list[str] = []
    here = 0
    available = listed(run)
    while candidates := [part for part in available if part.first == here]:
        # The longest first; what it was made of may still be there.
        for part in candidates:
            try:
                read.append(_read(part, seeds))
            except DamageError as error:
                damaged.append(str(error))
                continue
            parts.append(part)
            here = part.last
            break
        else:
            break
    beyond = max((part.last for part in available), default=0)
    if beyond > here and not damaged:
        damaged.append(f"{run / METRICS}: the rows of update {here:,} are missing")
    metrics = _joined(read) if read else Metrics._make(np.zeros((seeds, 0)) for _ in NAMES)
    return Rows(metrics, tuple(parts), tuple(damaged))


def _cover(parts: list[Part]) -> list[Part]:
    """The longest parts that follow each other."""
    chosen: list[Part] = []
    for part in parts:
        if part.first == (chosen[-1].last if chosen else 0):
            chosen.append(part)
    return chosen


def _read(part: Part, seeds: int) -> Metrics:
    """A part [seed, update], if it is what its name says."""
    import polars

    count = part.last - part.first
    # Generous, as Parquet is smaller than its numbers; a bound all the same, on what is read into memory.
    largest = 2**20 + count * seeds * 16 * (2 + len(NAMES))
    content = read_checked(part.path, part.digest, largest=largest)
    try:
        height = int(polars.scan_parquet(io.BytesIO(content)).select(polars.len()).collect().item())
        if height != seeds * count:
            raise DamageError(
                f"{part.path}: {height:,} rows; {seeds} seeds and {count:,} updates have {seeds * count:,}"
            )
        table = polars.read_parquet(io.BytesIO(content))
    except polars.exceptions.PolarsError as error:
        raise DamageError(f"{part.path}: not a Parquet file ({str(error).splitlines()[0]})") from None
    absent = [name for name in NAMES if name not in table.columns]
    if absent:
        raise DamageError(f"{part.path}: without {', '.join(absent)}; made by another version")
    return Metrics._make(table[name].to_numpy().reshape(seeds, count) for name in NAMES)


def _joined(parts: Sequence[Metrics]) -> Metrics:
    return Metrics._make(np.concatenate(leaves, axis=1) for leaves in zip(*parts, strict=True))


def _cut(rows: Metrics, count: int) -> Metrics:
    def first(leaf: Any) -> NDArray[Any]:
        return np.asarray(leaf)[:, :count]

    return Metrics._make(map(first, rows))
