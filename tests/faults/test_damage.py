"""Files that are not what was written: said or mended, never a wrong result."""

import json
import os
import pickle
import struct
from pathlib import Path

import numpy as np
import polars
import pytest
import safetensors.numpy

import pgsom
from pgsom.checks import InputError
from pgsom.cli.main import main
from pgsom.runs.checkpoint import entries
from pgsom.runs.files import digest
from pgsom.runs.folder import Keeping, Telling, settings_text, standing
from pgsom.runs.rows import listed
from tests.faults.damage import HARMS, cases, outcome
from tests.faults.small_run import UPDATES, begun, carried_on, difference, stopped, uninterrupted


@pytest.fixture(scope="module", name="whole")
def _whole() -> pgsom.Result:
    return uninterrupted()


@pytest.fixture(name="run")
def _run(tmp_path: Path) -> Path:
    stopped(tmp_path / "run")
    return tmp_path / "run"


def test_damage_is_said_or_mended(run: Path, whole: pgsom.Result, tmp_path: Path) -> None:
    """A few of the cases; ``make faults`` has all."""
    everything = list(cases(run))
    assert len(everything) >= 300 and len({case.file for case in everything}) >= 8
    deleted = [case for case in everything if case.what == "deleted"]
    chosen = [*deleted, *everything[:: len(HARMS) // 2 - 1]]
    for case in chosen:
        said = outcome(run, tmp_path / "work", case, whole)
        assert "WRONG" not in said, f"{case.file}, {case.what}: {said}"


def test_the_previous_checkpoint_is_used_and_the_damaged_one_named(run: Path, whole: pgsom.Result) -> None:
    newest, previous = entries(run)[:2]
    newest.path.write_bytes(newest.path.read_bytes()[:-1])
    result = pgsom.resume(run)
    assert difference(result, whole) == ""
    damaged, taken_up = result.notes
    assert damaged == f"{newest.path}: damaged (its checksum is not the one in its name)"
    assert taken_up == f"taken up after update {previous.updates:,}"
    assert newest.path.with_name(newest.path.name + ".damaged").is_file()
    assert json.loads((run / "summary.json").read_text())["notes"] == list(result.notes)
    assert newest.path.name in (run / "summary.md").read_text() and newest.path.name in (run / "log.txt").read_text()


def test_a_checkpoint_of_another_run_is_not_used(run: Path, whole: pgsom.Result, tmp_path: Path) -> None:
    """Of the same shapes, and whole; it has another learning rate."""
    begun(tmp_path / "other", learning_rate=0.25)
    foreign = entries(tmp_path / "other")[0]
    (run / "checkpoints" / foreign.path.name).write_bytes(foreign.path.read_bytes())
    result = pgsom.resume(run)
    assert difference(result, whole) == ""
    assert "of another run (learning_rate is 0.25 there, 0.5 here)" in result.notes[0]


def test_a_run_of_another_version_says_what_differs(run: Path, whole: pgsom.Result) -> None:
    text = (run / "settings.toml").read_text().replace('jax = "', 'jax = "0.1-')
    (run / "settings.toml").write_text(text)
    with pytest.raises(InputError, match=r"settings\.toml: damaged or changed since it was written"):
        for entry in entries(run):
            entry.path.unlink()
        pgsom.resume(run)
    (run / "SHA256SUMS").unlink()
    result = pgsom.resume(run)
    (note,) = [note for note in result.notes if note.startswith("carried on with")]
    assert note.startswith("carried on with jax 0.1-") and ", here " in note
    assert difference(result, whole) == ""


def forged(run: Path, content: bytes, updates: int = UPDATES - 1) -> Path:
    """A checkpoint with the right checksum and anything in it."""
    path = run / "checkpoints" / f"{updates:010}.{digest(content)[:16]}.safetensors"
    path.write_bytes(content)
    return path


class Exploit:
    def __reduce__(self) -> tuple:
        return (os.mkdir, ("exploited",))


HOSTILE = {
    "a pickle": pickle.dumps(Exploit()),
    "a header of 10 GiB": struct.pack("<Q", 10 * 2**30) + b"{",
    "a header without end": struct.pack("<Q", 2**63) + b"{}",
    "nothing": b"",
    "deeply nested": struct.pack("<Q", 200_000) + b"[" * 200_000,
    "no metadata": safetensors.numpy.save({"state.key": np.zeros(2, np.uint32)}),
    "metadata of another shape": safetensors.numpy.save({"x": np.zeros(1)}, {"pgsom": "[1, 2]"}),
    "another format": safetensors.numpy.save({"x": np.zeros(1)}, {"pgsom": json.dumps({"format": 99})}),
    "an array of 2^60": (lambda header: struct.pack("<Q", len(header)) + header)(
        json.dumps({"x": {"dtype": "F32", "shape": [2**58], "data_offsets": [0, 2**60]}}).encode()
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_checkpoint_with_the_right_checksum_is_refused(
    name: str, run: Path, whole: pgsom.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = forged(run, HOSTILE[name])
    result = carried_on(run)
    assert difference(result, whole) == ""
    assert result.notes[0].startswith(f"{path}: ") and not (tmp_path / "exploited").exists()


def test_hostile_metrics_are_refused(run: Path, whole: pgsom.Result, tmp_path: Path) -> None:
    """More rows than the name says, and rows that say that they are many."""
    last = listed(run)[-1].last
    many = polars.DataFrame({"episode_return": np.zeros(1_000_000)})
    many.write_parquet(tmp_path / "many")
    content = (tmp_path / "many").read_bytes()
    path = run / "metrics" / f"{last:010}-{last + 1:010}.{digest(content)[:16]}.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match="1,000,000 rows; 2 seeds and 1 updates have 2"):
        pgsom.load(run)
    assert difference(pgsom.resume(run), whole) == ""


def test_links_and_paths_lead_nowhere(run: Path, whole: pgsom.Result, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "0000000001.0123456789abcdef.safetensors").write_text("mine")
    (run / "SHA256SUMS").write_text((run / "SHA256SUMS").read_text() + f"{digest(b'')}  ../secret/x\n")
    assert difference(pgsom.resume(run), whole) == ""
    checkpoints = run / "checkpoints"
    checkpoints.rename(tmp_path / "moved")
    checkpoints.symlink_to(secret)
    for use in (pgsom.load, pgsom.resume):
        with pytest.raises(InputError, match="not a folder of the run; accepted is a folder, not a link"):
            use(run)
    checkpoints.unlink()
    (run / "lock").symlink_to(secret / "lock")
    with pytest.raises(InputError, match="cannot be written"):
        pgsom.resume(run)
    assert [path.name for path in secret.iterdir()] == ["0000000001.0123456789abcdef.safetensors"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('environment = "three-state"', 'environment = "<script>alert(1)</script>"', "environment='<script>"),
        ('environment = "three-state"', 'environment = "../../three-state"', "environment='../../three-state'"),
        ("seeds = [\n    0,\n    1,\n]", 'seeds = "__import__(0)"', "seeds is '__import__(0)'; accepted is a list"),
        ("updates = 12", "updates = 1e9", "updates is 1000000000.0; accepted is a whole number"),
        ("last = 3", "last = -1", "keep=-1: accepted is a whole number >= 1"),
        ("learning_rate = 0.5", "learning_rate = nan", "learning_rate=nan"),
        ("learning_rate = 0.5", "learning_rat = 0.5", "option='learning_rat': unknown"),
        ("initial = ", "initials = ", "initials"),
        ('method = "reinforce"', "", "method is missing"),
    ],
)
def test_hostile_settings_are_refused(
    before: str, after: str, message: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (run / "settings.toml").read_text()
    assert text.count(before) == 1
    (run / "settings.toml").write_text(text.replace(before, after))
    (run / "SHA256SUMS").unlink()
    for entry in entries(run):
        entry.path.unlink()
    assert main(["resume", str(run), "--evaluate", "0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_names_are_escaped_in_the_summary(whole: pgsom.Result, tmp_path: Path) -> None:
    import dataclasses

    settings = dataclasses.replace(whole.settings, environment="<script>alert(1)</script> | `x`")
    run = dataclasses.replace(whole, settings=settings, notes=("<img src=x>",)).save(tmp_path / "run")
    said = (run / "summary.md").read_text()
    assert "<script" not in said and "<img" not in said and "&lt;script&gt;" in said
    assert settings_text(settings, Keeping(), Telling()).startswith("environment = ")


def test_a_summary_that_is_not_one_is_no_reason_to_fail(run: Path) -> None:
    for content in (b"", b"[1, 2]", b"\xff\xfe", b"null", b'{"planned_updates": "many", "state": 3}'):
        (run / "summary.json").write_bytes(content)
        found = standing(run)
        assert found.updates >= 1 and found.holder is None
