"""A run that is watched is the run it would have been, and how runs stand is told from whatever is in their files."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pgsom
from pgsom.checks import InputError
from pgsom.cli.main import main
from pgsom.cli.runs import age
from pgsom.runs.evaluations import Evaluation
from pgsom.runs.overview import find_runs, overview

UPDATES = 40


def train(**options: Any) -> pgsom.Result:
    usual = {"environment": "three-state", "method": "reinforce", "learning_rate": 0.5, "seeds": 2}
    return pgsom.train(**(usual | options))


@pytest.fixture(scope="module", name="alone")
def _alone() -> pgsom.Result:
    return train(updates=UPDATES)


@pytest.fixture(scope="module", name="kept")
def _kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, watched in every way."""
    run = tmp_path_factory.mktemp("watched") / "run"
    seen: list[Evaluation] = []
    result = train(
        updates=UPDATES, out=run, log="jsonl", evaluate_every=16, on_evaluation=lambda e: bool(seen.append(e))
    )
    assert [one.updates for one in seen] == [16, 32] and result.evaluations == tuple(seen)
    return run


def test_watching_changes_nothing(alone: pgsom.Result, kept: Path) -> None:
    watched = pgsom.load(kept)
    trees = ((alone.params, alone.metrics), (watched.params, watched.metrics))
    for one, other in zip(*map(jax.tree.leaves, trees), strict=True):
        np.testing.assert_array_equal(one, other)


def test_evaluations_are_of_the_policies_of_their_update(alone: pgsom.Result, kept: Path) -> None:
    """The last update's, so that the result can be asked itself, with the episodes that this evaluation played."""
    lines = [json.loads(line) for line in (kept / "progress.jsonl").read_text().splitlines()]
    assert [line["updates"] for line in lines if "evaluation" in line] == [16, 32]
    assert max(line["updates"] for line in lines) == UPDATES
    result = train(updates=16, evaluate_every=16, evaluation_episodes=7)
    (last,) = result.evaluations
    np.testing.assert_array_equal(last.returns, result.evaluate(7, seed=2 + 16))
    assert last.mean == pytest.approx(last.returns.mean())


def test_a_target_return_ends_the_run_and_the_run_is_finished(tmp_path: Path) -> None:
    run = tmp_path / "run"
    easy = train(updates=UPDATES, out=run, evaluate_every=8, target_return=-1000)
    assert easy.updates == 8 and easy.reached_target and easy.evaluations[-1].mean >= -1000
    assert overview(run).state == "finished" and overview(run).updates == 8
    assert easy.notes[0].startswith("ended after update 8: evaluated at ") and easy.notes[0].endswith(
        "target was -1000"
    )
    hard = train(updates=UPDATES, evaluate_every=8, target_return=1000)
    assert hard.updates == UPDATES and not hard.reached_target and len(hard.evaluations) == UPDATES // 8
    stopped = train(updates=UPDATES, evaluate_every=8, on_evaluation=lambda evaluation: evaluation.updates == 24)
    assert stopped.updates == 24 and not stopped.reached_target


def test_a_run_is_taken_up_as_it_was_watched(alone: pgsom.Result, tmp_path: Path) -> None:
    """Loggers, evaluations and the target stay, and an evaluation during which it was stopped is made again."""
    whole, run = tmp_path / "whole", tmp_path / "run"
    told = {"log": "jsonl", "evaluate_every": 8, "evaluation_episodes": 3, "checkpoint_updates": 8}
    train(updates=UPDATES, out=whole, **told)

    def fails(evaluation: Evaluation) -> None:
        raise RuntimeError(evaluation.updates)

    with pytest.raises(RuntimeError, match="8"):
        train(updates=UPDATES, out=run, on_evaluation=fails, **told)
    assert overview(run).state == "failed"
    result = pgsom.resume(run)
    assert [one.updates for one in result.evaluations] == [8, 16, 24, 32, 40]
    np.testing.assert_array_equal(np.asarray(result.metrics.episode_return), alone.returns)
    evaluations = [evaluations_in(folder) for folder in (run, whole)]
    assert evaluations[0] == evaluations[1] and len(evaluations[0]) == 5
    other = pgsom.resume(run, updates=UPDATES + 8, log=(), evaluate_every=0)
    assert other.updates == UPDATES + 8 and other.evaluations == () and evaluations_in(run) == evaluations[1]
    assert pgsom.resume(run, updates=UPDATES + 16).evaluations == (), "and that is remembered in its turn"


def evaluations_in(run: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (run / "progress.jsonl").read_text().splitlines()]
    return [line for line in lines if "evaluation" in line]


def test_a_run_that_reached_its_target_stays_so(tmp_path: Path) -> None:
    run, told = tmp_path / "run", {"updates": UPDATES, "evaluate_every": 8, "target_return": -1000}
    first = train(out=run, **told)
    for again in (pgsom.resume(run), train(out=run, resume="auto", **told), pgsom.resume(run, updates=2 * UPDATES)):
        assert again.updates == 8 and again.reached_target and again.notes == first.notes
    assert overview(run).state == "finished"
    further = pgsom.resume(run, target_return=1000.0, updates=UPDATES)
    assert further.updates == UPDATES and not further.reached_target


def test_a_frozen_seed_does_not_count_in_an_evaluation() -> None:
    returns = np.array([[1.0, 3.0], [np.nan, 0.0]])
    assert Evaluation(8, returns, np.array([True, False])).mean == 2
    assert np.isnan(Evaluation(8, returns, np.array([False, False])).mean)


@pytest.mark.usefixtures("unchecked")
def test_wrong_ways_to_watch_are_named() -> None:
    for options, said in (
        ({"on_evaluation": 3, "evaluate_every": 1}, "on_evaluation=3: accepted is a function of Evaluation"),
        ({"target_return": 3}, "target_return=3: accepted only together with evaluate_every"),
        ({"evaluate_every": -1}, "evaluate_every=-1: accepted is a whole number >= 0"),
        ({"evaluate_every": 1, "target_return": float("nan")}, "target_return=nan: accepted is a finite number"),
        ({"log": "jsonl"}, "log='jsonl': accepted only together with out, the run's folder"),
    ):
        with pytest.raises(InputError) as error:
            train(updates=1, **options)
        assert str(error.value) == said


# --- pgsom runs, show, report ------------------------------------------------------------------------------------


def spoken(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == 0
    printed, said = capsys.readouterr()
    assert said == ""
    return printed


@pytest.fixture(scope="module", name="shelf")
def _shelf(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, a stopped one, one whose metrics are damaged, and one with a hostile name and summary."""
    shelf = tmp_path_factory.mktemp("shelf")
    shutil.copytree(kept, shelf / "a" / "finished")
    train(updates=UPDATES, out=shelf / "stopped", callback=lambda progress: progress.updates >= 8)
    shutil.copytree(kept, shelf / "damaged")
    part = next((shelf / "damaged" / "metrics").iterdir())
    part.write_bytes(part.read_bytes()[:-100])
    hostile = shelf / "\x1b[31mred[bold]‮"
    shutil.copytree(kept, hostile)
    settings = hostile / "settings.toml"
    settings.write_text(settings.read_text().replace('"three-state"', '"three\\u001b[2Jstate"'))
    (shelf / "not a run").mkdir()
    (shelf / "loop").symlink_to(shelf)
    return shelf


def test_runs_are_listed_with_how_they_stand(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {Path(one["folder"]).name: one for one in json.loads(spoken(capsys, "runs", str(shelf), "--json"))}
    assert len(listed) == 4
    states = {name: one["state"] for name, one in listed.items()}
    assert states["finished"] == "finished" and states["stopped"] == "interrupted" and states["damaged"] == "damaged"
    whole = pgsom.load(shelf / "a" / "finished")
    assert listed["finished"]["last_return"] == pytest.approx(whole.returns[:, -4:].mean())
    assert listed["finished"]["updates"] == listed["finished"]["planned_updates"] == UPDATES
    assert 8 <= listed["stopped"]["updates"] < UPDATES
    assert listed["stopped"]["method"] == "reinforce" and listed["stopped"]["environment"] == "three-state"
    assert "its checksum is not the one in its name" in listed["damaged"]["problems"][0]
    text = spoken(capsys, "runs", str(shelf))
    assert text.isprintable() or set(filter(lambda c: not c.isprintable(), text)) == {"\n"}
    assert "\\x1b[31mred[bold]\\u202e" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith(str(shelf / "stopped"))] == ["interrupted"]


def test_a_run_is_shown(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped = shelf / "stopped"
    text = spoken(capsys, "show", str(stopped))
    assert "state" in text and "interrupted" in text and f"pgsom resume {stopped} carries it on" in text
    known = json.loads(spoken(capsys, "show", str(stopped), "--json"))
    assert known["settings"]["options"]["learning_rate"] == 0.5 and known["state"] == "interrupted"
    damaged = spoken(capsys, "show", str(shelf / "damaged"))
    assert "damaged: " in damaged
    hostile = next(path for path in shelf.iterdir() if "red" in path.name)
    for line in spoken(capsys, "show", str(hostile)).splitlines():
        assert line.isprintable()


def test_a_page_of_unfinished_runs_escapes_what_they_are_called(
    shelf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = tmp_path / "<script>alert(1)</script>"
    shutil.copytree(shelf / "stopped", odd)
    page = tmp_path / "page.html"
    printed = spoken(capsys, "report", str(shelf / "stopped"), str(odd), "--out", str(page), "--json")
    assert json.loads(printed) == {"out": str(page), "runs": [str(shelf / "stopped"), str(odd)]}
    text = page.read_text()
    assert "<script>alert" not in text and f" of {UPDATES} updates so far." in text


def test_a_run_that_goes_on_is_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    code = "import pgsom, sys; pgsom.train('three-state', 'reinforce', updates=10**9, out=sys.argv[1])"
    process = subprocess.Popen([sys.executable, "-c", code, str(run)], stderr=subprocess.PIPE)
    try:
        until = time.monotonic() + 120
        while not list((run / "metrics").glob("*.parquet")) and time.monotonic() < until:
            time.sleep(0.2)
        (going,) = json.loads(spoken(capsys, "runs", str(tmp_path), "--json"))
        assert going["state"] == "running" and going["updates"] > 0 and going["last_return"] is not None
        assert going["held_by"].startswith(f"process {process.pid} ")
    finally:
        process.kill()
        process.communicate()
    assert overview(run).state == "interrupted"


def test_what_is_looked_for_and_where(tmp_path: Path) -> None:
    assert find_runs(tmp_path) == []
    with pytest.raises(InputError, match="no such folder"):
        find_runs(tmp_path / "nowhere")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "settings.toml").touch()
    assert find_runs(tmp_path) == []


def test_ages_in_words() -> None:
    assert [age(s) for s in (0, 59.9, 60, 7300, 200000)] == ["0 s", "59 s", "1 min", "2 h", "2 d"]
