"""``pgsom train``: what it prints, what it keeps, and how it ends."""

import json
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import pgsom
from pgsom.cli.closing import Outcome, as_json, closing_rows, headline, print_closing
from pgsom.cli.main import main
from pgsom.cli.progress import Lines, describe
from pgsom.cli.settings import read_settings
from pgsom.runs import Progress
from tests.cli.conftest import PROGRAM, SMALL, Trained

STOPPED = {
    "settings.toml",
    "metrics",
    "checkpoints",
    "policy.safetensors",
    "summary.json",
    "summary.md",
    "SHA256SUMS",
    "log.txt",
}
FILES = STOPPED | {"figures"}


def test_json_is_all_that_is_printed(trained: Trained) -> None:
    assert trained.code == 0
    assert trained.said == ""
    summary = trained.json
    assert summary["environment"] == "three-state"
    assert summary["method"] == "reinforce"
    assert summary["updates"] == 30 and summary["episodes"] == 120 and summary["env_steps"] == [480, 480]
    assert summary["final_return"]["low"] <= summary["final_return"]["mean"] <= summary["final_return"]["high"]
    assert summary["out"] == str(trained.folder)
    assert summary["interrupted"] is False


def test_the_evaluation_is_apart(trained: Trained) -> None:
    evaluation = trained.json["evaluation"]
    assert evaluation["episodes"] == 5
    assert len(evaluation["return_by_seed"]) == 2
    assert evaluation["return"]["mean"] == pytest.approx(np.mean(evaluation["return_by_seed"]))


def test_everything_is_saved(trained: Trained) -> None:
    assert {file.name for file in trained.folder.iterdir()} == FILES
    assert json.loads((trained.folder / "summary.json").read_text()) == trained.json
    assert pgsom.load(trained.folder).returns.shape == (2, 30)
    figures = trained.folder / "figures"
    assert (figures / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert (figures / "learning_curve.pdf").read_bytes().startswith(b"%PDF")


def test_what_is_not_finite_is_null(trained: Trained) -> None:
    result = pgsom.load(trained.folder)
    evaluation = np.array([[np.nan, 1.0], [1.0, 2.0]])
    written = json.loads(as_json(Outcome(result, 30, None, False, evaluation)))
    assert written["evaluation"]["return"]["mean"] is None
    assert written["evaluation"]["return_by_seed"] == [None, 1.5]
    assert written["out"] is None


def test_closing_table(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    result = pgsom.load(trained.folder)
    outcome = Outcome(result, 30, trained.folder, False, np.ones((2, 5)))
    assert headline(result) == "three-state · reinforce · tabular, 6 parameters · 2 seeds"
    rows = {what: (value, meaning) for what, value, meaning in closing_rows(outcome)}
    assert rows["final return"][1] == "last 3 of 30 updates"
    assert rows["evaluation"] == ("1  [1, 1]  95 %", "5 fresh episodes a seed")
    assert rows["episodes"] == ("120", "a seed")
    assert rows["environment steps"] == ("480", "a seed, on average")
    assert result.warnings == ()
    assert rows["speed"][0].endswith("steps/s")
    print_closing(outcome)
    printed = capsys.readouterr().out
    assert printed.startswith(headline(result)) and all(what in printed for what in rows)


def test_a_finished_run_is_replaced_only_if_asked(
    trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    shutil.copytree(trained.folder, out)
    # The saved settings, as a file of options, give the same run again.
    again = ["train", "--config", str(out / "settings.toml"), "--evaluate", "0", "--out", str(out)]
    assert main(again) == 2
    capsys.readouterr()
    assert main([*again, "--overwrite"]) == 0
    printed, said = capsys.readouterr()
    assert "final return" in printed and "evaluation" not in printed
    assert " of 120 episodes · mean return " in said
    assert np.array_equal(pgsom.load(out).returns, pgsom.load(trained.folder).returns)
    assert json.loads((out / "summary.json").read_text())["evaluation"] is None


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "env = 'chain'\nseeds = [0, 3]\nepisodes = 40\nhidden = [8]\n"
        "learning-rate = 0.5\nclip_norm = inf\nevaluate = 7\n"
    )
    settings = read_settings(["--config", str(file)])
    from_file = {
        "environment": "chain",
        "seeds": (0, 3),
        "episodes": 40,
        "hidden": (8,),
        "learning_rate": 0.5,
        "clip_norm": float("inf"),
    }
    assert settings.of_training() == from_file
    assert settings.evaluate == 7
    words = ["--config", str(file), "--seeds", "2", "--learning-rate=0.25", "--updates", "3", "--hidden", "none"]
    both = read_settings(words).of_training()
    budget_of_the_file = from_file.pop("episodes")
    assert budget_of_the_file == 40
    assert both == from_file | {"seeds": 2, "learning_rate": 0.25, "updates": 3, "hidden": ()}


def test_the_file_wins_over_the_preset_and_the_command_line_over_both(tmp_path: Path) -> None:
    settings = read_settings(["--preset", "adam"])
    assert settings.of_training() == pgsom.preset("adam")
    file = tmp_path / "run.toml"
    file.write_text("learning_rate = 0.5\nupdates = 3\nb1 = 0.1\n")
    both = read_settings(["--config", str(file), "--preset", "adam", "--b1", "0.2", "--seeds", "2"]).of_training()
    assert both == pgsom.preset("adam", updates=3) | {"learning_rate": 0.5, "b1": 0.2, "seeds": 2}
    file.write_text("preset = 'adam'\nseeds = 2\n")
    assert read_settings(["--config", str(file)]).of_training() == pgsom.preset("adam") | {"seeds": 2}


def test_a_saved_run_is_a_file_of_options(trained: Trained) -> None:
    settings = read_settings(["--config", str(trained.folder / "settings.toml"), "--baseline", "none"])
    written = tomllib.loads((trained.folder / "settings.toml").read_text())
    given = settings.of_training()
    assert given["seeds"] == (0, 1) and given["updates"] == 30
    assert given["clip_norm"] == float("inf")
    assert given["baseline"] == "none" and written["options"]["baseline"] == "leave-one-out"


def test_only_what_was_given_is_passed_on() -> None:
    assert read_settings([]).of_training() == {}
    assert read_settings([]).evaluate == 100


def test_progress_in_words() -> None:
    progress = Progress(10, 50, 40, 160, 3.25, 1234.5, 65.0, chunk=None)  # type: ignore[arg-type]
    assert describe(progress) == "40 of 200 episodes · mean return 3.25 · 1,234 steps/s · 1:05 left"


def test_lines_are_rare(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(10, 50, 40, 160, 3.25, 1234.5, 65.0, chunk=None)  # type: ignore[arg-type]
    lines = Lines()
    lines.stage("compiling")
    for _ in range(100):
        lines.advance(progress)
    assert capsys.readouterr().err.count("\n") == 1


def interrupted(*arguments: str) -> tuple[int, str, str]:
    """Exit code and output of a run that gets Ctrl-C once it has said how far it is."""
    command = [*PROGRAM, "train", *SMALL[:6], "--updates", "100000000", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    first = process.stderr.readline()
    assert "episodes · mean return" in first
    process.send_signal(signal.SIGINT)
    printed, said = process.communicate(timeout=60)
    return process.returncode, printed, said


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
def test_ctrl_c_keeps_what_is_there(tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, printed, said = interrupted("--out", str(out))
    assert code == 130, said
    assert {file.name for file in out.iterdir()} == STOPPED
    result = pgsom.load(out)
    done = result.updates
    assert 0 < done < 100_000_000 and result.returns.shape == (2, done)
    *_, stopping, last = said.splitlines()
    assert stopping == "stopping (a second Ctrl-C does not wait for the update)"
    assert last == f"pgsom train: interrupted after {done:,} of 100,000,000 updates; saved in {out}"
    assert "final return" in printed and "evaluation" not in printed
    assert json.loads((out / "summary.json").read_text())["interrupted"] is True
