"""`pgsom diagnose`: its numbers, its files, its part of the page, and what it refuses."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import pgsom
from pgsom.cli.main import main
from pgsom.experiments.diagnosis import Effort
from pgsom.report.diagnosis import MEANINGS, blocks, read
from tests.cli.conftest import Trained

LITTLE = ("--batches", "4", "--episodes", "8", "--steps", "3")


@pytest.fixture(scope="module", name="folder")
def _folder(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(trained.folder, tmp_path_factory.mktemp("diagnosed") / "run"))


def said_by(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["diagnose", *arguments])
    return code, *capsys.readouterr()


def test_a_saved_run_is_diagnosed_and_the_page_shows_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said_by(capsys, str(folder), *LITTLE, "--json")
    whole: dict[str, Any] = json.loads(out)
    assert code == 0 and whole["updates"] == 30 and whole["curvature"] == "causal"
    assert [seed["seed"] for seed in whole["seeds"]] == [0, 1]
    assert whole["seeds"][0].keys() >= MEANINGS.keys() and len(whole["seeds"][0]["hessian_top"]) == 3
    assert {path.name for path in folder.glob("diagnosis.*")} == {"diagnosis.json", "diagnosis.png", "diagnosis.pdf"}
    assert read(folder) is not None
    code, out, _ = said_by(capsys, str(folder), *LITTLE, "--seeds", "1,", "--json", "--out", str(folder / "again"))
    assert json.loads(out)["seeds"] == whole["seeds"][1:]
    page = folder / "page.html"
    assert main(["report", str(folder), "--out", str(page)]) == 0
    written = page.read_text()
    assert 'id="diagnosis"' in written and MEANINGS["hessian_smallest"] in written and "seed 1" in written


def test_a_callback_diagnoses_what_is_trained_there() -> None:
    """Its last diagnosis is that of the finished run: the same parameters, the same averages of the rule."""
    effort = Effort(4, 8, 3)
    watch = pgsom.Diagnosing(every=5, seeds=2, effort=effort)
    result = pgsom.train("three-state", "reinforce", seeds=2, updates=10, callback=watch)
    assert [(updates, one.seed) for updates, one in watch.found][-2:] == [(10, 0), (10, 1)]
    assert all(updates >= 5 for updates, _ in watch.found)
    for (_, seen), ended in zip(watch.found[-2:], pgsom.diagnose(result, effort=effort), strict=True):
        assert seen._replace(hessian=None, fisher=None) == ended._replace(hessian=None, fisher=None)
    with pytest.raises(pgsom.InputError, match="every=0"):
        pgsom.Diagnosing(every=0)


def test_numbers_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said_by(capsys, str(folder), *LITTLE, "--seeds", "1")
    assert code == 0 and "three-state · reinforce after 30 updates · causal" in out
    assert "signal-to-noise of the gradient" in out and "seed 0" in out and "seed 1" not in out


def seed(**changes: Any) -> dict[str, Any]:
    numbers: dict[str, Any] = dict.fromkeys(MEANINGS, 1.5)
    return numbers | {"seed": 0, "actual_error": 0.5, "negative": 0.25, "gradient_batches_needed": None} | changes


def test_a_page_says_what_is_infinite_and_what_is_of_an_older_state() -> None:
    found = {"updates": 10, "curvature": "causal", "seeds": [seed()]}
    text, table, bars = blocks(found, "a run", 20)
    cells = dict(table.rows)  # type: ignore[union-attr, arg-type]
    assert cells[MEANINGS["gradient_batches_needed"]] == "∞" and cells[MEANINGS["negative"]] == "25%"
    assert cells[MEANINGS["actual"]] == "1.5 ± 0.5"
    assert "after 10 updates" in text.text and "after" not in blocks(found, "a run", 10)[0].text  # type: ignore[union-attr]
    assert [(b.low, b.high) for b in bars.bars if b.label == "measured"] == [(0.5, 2.5)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"updates": 1, "curvature": "x", "seeds": [{}]}', "\0", "[" * 99_999]
)
def test_a_damaged_diagnosis_gets_one_line(
    folder: Path, tmp_path: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Path(shutil.copytree(folder, tmp_path / "run"))
    (run / "diagnosis.json").write_text(content)
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "diagnosis.json" in said and "run it again" in said


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "a run is missing"),
        (["nowhere"], "run='nowhere': accepted is the folder of a saved run"),
        (["RUN", "--seeds", "7,"], "seed=7: accepted are the trained seeds 0, 1"),
        (["RUN", "--seeds", "0"], "seeds=0: accepted is a whole number >= 1"),
        (["RUN", "--batches", "1"], "batches=1"),
        (["RUN", "--episodes", "1"], "episodes=1"),
        (["RUN", "--curvature", "causl"], "did you mean 'causal'?"),
        (["RUN", "--out", "RUN/settings.toml"], "accepted is a folder"),
        (["RUN", "--bathces", "3"], "did you mean '--batches'?"),
    ],
)
def test_wrong_use_gets_one_line(
    folder: Path, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said_by(capsys, *(word.replace("RUN", str(folder)) for word in arguments))
    assert code == 2 and out == "" and len(err.splitlines()) == 1 and expected in err
