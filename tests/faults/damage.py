"""Every file of a run, damaged in every class of its bytes; and what became of each."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pgsom
from pgsom.checks import InputError, RunError
from pgsom.runs.rows import read_rows
from tests.faults.small_run import carried_on, difference, rows_difference


class Case(NamedTuple):
    """`harm` turns a file's content into another, or None: the file is deleted."""

    file: str
    what: str
    harm: Callable[[bytes], bytes | None]


def _flip(place: float, bit: int) -> Callable[[bytes], bytes]:
    def harm(content: bytes) -> bytes:
        index = min(int(place * len(content)), len(content) - 1)
        return content[:index] + bytes([content[index] ^ (1 << bit)]) + content[index + 1 :]

    return harm


def _cut(share: float) -> Callable[[bytes], bytes]:
    return lambda content: content[: int(share * len(content))]


def _zeros(start: float, stop: float) -> Callable[[bytes], bytes]:
    def harm(content: bytes) -> bytes:
        first, last = int(start * len(content)), int(stop * len(content))
        return content[:first] + bytes(last - first) + content[last:]

    return harm


PLACES = (0.0, 0.005, 0.02, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 0.98, 0.999)
HARMS: list[tuple[str, Callable[[bytes], bytes | None]]] = [
    ("deleted", lambda content: None),
    *[(f"cut to {share:.0%}", _cut(share)) for share in (0.0, 0.01, 0.25, 0.5, 0.9, 0.999)],
    *[(f"bit {bit} at {place:.1%}", _flip(place, bit)) for place in PLACES for bit in (0, 6)],
    *[(f"zeros from {a:.0%} to {b:.0%}", _zeros(a, b)) for a, b in ((0, 0.05), (0.4, 0.6), (0.95, 1))],
    ("more at the end", lambda content: content + b"\n0"),
    ("twice", lambda content: content * 2),
    ("of another file", lambda content: b"\x80\x04]\x94." + content[5:]),
]


def cases(run: Path) -> Iterator[Case]:
    """All files, all harms."""
    for path in sorted(path for path in run.rglob("*") if path.is_file() and "figures" not in path.parts):
        for what, harm in HARMS:
            yield Case(str(path.relative_to(run)), what, harm)


def outcome(whole: Path, work: Path, case: Case, expected: pgsom.Result) -> str:
    """What became of it: read, then carried on. Anything that begins with WRONG must not be."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(whole, work)
    target = work / case.file
    content = target.read_bytes()
    harmed = case.harm(content)
    if harmed is None:
        target.unlink()
    else:
        target.write_bytes(harmed)
    return f"{_read(work, expected)}, {_carried_on(work, expected, harmed == content)}"


def _read(work: Path, expected: pgsom.Result) -> str:
    try:
        loaded = pgsom.load(work)
    except InputError as error:
        return "reading: said so" if _one_clear_line(error) else f"WRONG: reading said {error}"
    except Exception as error:
        return f"WRONG: reading failed with {error!r}"
    made = loaded.updates
    if any((mine != theirs[:, :made]).any() for mine, theirs in zip(loaded.metrics, expected.metrics, strict=True)):
        return "WRONG: reading gave other metrics"
    if made == expected.updates and difference(loaded, expected) and not loaded.notes:
        return "WRONG: reading gave other policies"
    return "reading: mended, with a note" if loaded.notes else "reading: unharmed"


def _carried_on(work: Path, expected: pgsom.Result, unharmed: bool) -> str:
    try:
        result = carried_on(work)
    except (InputError, RunError) as error:
        return "carrying on: said so" if _one_clear_line(error) else f"WRONG: carrying on said {error}"
    except Exception as error:
        return f"WRONG: carrying on failed with {error!r}"
    found = difference(result, expected) or rows_difference(work, expected)
    if found:
        return f"WRONG: carried on to another {found}"
    if read_rows(work, 2).damaged:
        return "WRONG: rows are still damaged"
    return "carrying on: the same bits" + ("" if unharmed or not result.notes else ", with a note")


def _one_clear_line(error: Exception) -> bool:
    return "\n" not in str(error) and len(str(error)) > 10
