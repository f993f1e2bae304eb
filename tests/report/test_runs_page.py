"""``pgsom report``: the page of saved runs says what the runs say."""

import json
import shlex
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
import tomli_w

import pgsom
from pgsom.cli.main import main
from pgsom.methods import method_options
from pgsom.report.page import BarChart, Code, Columns, Facts, LineChart, Page, Table, Text
from pgsom.report.runs_page import runs_page, smoothed
from pgsom.runs.result import metric, metric_names
from pgsom.statistics import bootstrap_mean
from tests.report.browser import Browser


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run of 4 seeds, and its first seeds under the names of another method and of another environment."""
    base = tmp_path_factory.mktemp("runs")
    trained = pgsom.train("three-state", "reinforce", seeds=4, updates=6)
    other_method = {"method": "pg-som", "options": method_options("pg-som")}
    runs = [
        trained,
        first_seeds(trained, 1, **other_method),
        pgsom.train("two-armed-bandit", "reinforce", seeds=2, updates=6),
    ]
    return [run.save(base / f"run {index}") for index, run in enumerate(runs)]


def first_seeds(result: pgsom.Result, count: int, **settings: object) -> pgsom.Result:
    params, metrics = jax.tree.map(lambda leaf: leaf[:count], (result.params, result.metrics))
    changed = replace(result.settings, seeds=result.seeds[:count], **settings)
    return replace(result, settings=changed, params=params, metrics=metrics, state=None)


def block(page: Page, section: str, kind: type, number: int = 0):
    blocks = next(part.blocks for part in page.sections if part.anchor == section)
    return [one for one in blocks if isinstance(one, kind)][number]


def test_a_curve_is_the_mean_and_interval_over_seeds_on_all_axes(folders: list[Path]) -> None:
    result = pgsom.load(folders[0])
    chart = block(runs_page(folders[:1]), "curves", LineChart)
    (series,) = chart.series
    interval = bootstrap_mean(result.returns)
    assert np.allclose(series.mean, interval.mean)
    assert np.allclose(series.low, interval.low) and np.allclose(series.high, interval.high)
    assert list(series.x["updates"]) == [1, 2, 3, 4, 5, 6]
    assert list(series.x["episodes"]) == [4, 8, 12, 16, 20, 24]
    assert np.allclose(series.x["env_steps"], result.env_steps.mean(axis=0))
    assert "Mean over 4 seeds with its 95 % interval." in chart.note


def test_one_seed_has_no_interval(folders: list[Path]) -> None:
    page = runs_page(folders[1:2])
    assert block(page, "curves", LineChart).series[0].low == ()
    assert block(page, "results", BarChart).bars[0].low is None
    assert block(page, "results", Table).rows[0][3] == "one seed"


def test_final_returns(folders: list[Path]) -> None:
    result = pgsom.load(folders[0])
    bar, other = block(runs_page(folders[:2]), "results", BarChart).bars
    final = bootstrap_mean(result.final_returns())
    assert (bar.value, bar.low, bar.high) == (final.mean, final.low, final.high)
    assert (bar.label, other.label) == ("reinforce", "pg-som") and bar.colour != other.colour


def test_every_metric_is_drawn_or_said_to_be_constant(folders: list[Path]) -> None:
    page = runs_page(folders[:2])
    drawn = {chart.y_label for chart in block(page, "diagnostics", Columns).blocks}
    said = block(page, "diagnostics", Text, 1).text
    results = [pgsom.load(folder) for folder in folders[:2]]
    for name in set(metric_names()) - {"episode_return", "episodes", "env_steps"}:
        values = np.concatenate([metric(result, name).ravel() for result in results])
        assert (name.replace("_", " ") in drawn) == (len(np.unique(values)) > 1), name
    assert "effective episodes of the last stage: 4" in said and "updates left out: 0" in said


def test_a_diagnostic_is_the_mean_of_its_metric(folders: list[Path]) -> None:
    result = pgsom.load(folders[0])
    for chart in block(runs_page(folders[:1]), "diagnostics", Columns).blocks:
        values = metric(result, chart.y_label.replace(" ", "_"))
        assert np.allclose(chart.series[0].mean, values.mean(axis=0)), chart.title


def test_environments_are_not_mixed_in_one_chart(folders: list[Path]) -> None:
    page = runs_page(folders)
    charts = [block(page, "curves", LineChart, number) for number in (0, 1)]
    assert [[series.name for series in chart.series] for chart in charts] == [
        ["reinforce on three-state", "pg-som on three-state"],
        ["reinforce on two-armed-bandit"],
    ]
    assert charts[1].title == "Learning curves on two-armed-bandit"


def test_runs_of_one_method_go_by_their_folders(folders: list[Path], tmp_path: Path) -> None:
    again = shutil.copytree(folders[0], tmp_path / "again")
    assert runs_page([folders[0], again]).subtitle == "2 runs: reinforce, run 0, reinforce, again"
    same_name = shutil.copytree(folders[0], tmp_path / "run 0")
    assert f"reinforce, {same_name}" in runs_page([folders[0], same_name]).subtitle
    with pytest.raises(pgsom.InputError, match="given twice; accepted are different folders"):
        runs_page([again, again])


def test_settings_that_differ_stand_first(folders: list[Path]) -> None:
    rows = block(runs_page(folders[:2]), "settings", Table).rows
    differ = [row[1] != row[2] for row in rows]
    assert differ == sorted(differ, reverse=True) and 0 < sum(differ) < len(rows)
    cells = {row[0]: row[1:] for row in rows}
    assert cells["learning_rate"] == ["0.0005", "1"]
    assert cells["seeds"] == ["0 … 3", "0"]
    assert cells["kl_radius"] == ["–", "0.005"]


def test_rerunning_gives_the_same_run(folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    copy = shutil.copytree(folders[0], tmp_path / "a 'run'")
    train, report = block(runs_page([copy.relative_to(tmp_path)]), "rerun", Code).text.splitlines()
    assert main([*shlex.split(train)[1:], "--quiet", "--evaluate", "0"]) == 0
    assert np.array_equal(pgsom.load(copy).returns, pgsom.load(tmp_path / "a 'run'-again").returns)
    assert main(shlex.split(report)[1:]) == 0
    assert (tmp_path / "report.html").is_file()


def test_versions_are_those_of_the_runs(folders: list[Path], tmp_path: Path) -> None:
    facts = dict(block(runs_page(folders[:2]), "rerun", Facts).facts)
    assert facts["pgsom"] == pgsom.__version__ and {"jax", "python", "machine"} <= facts.keys()
    other = shutil.copytree(folders[0], tmp_path / "other")
    written = tomllib.loads((other / "settings.toml").read_text())
    written["versions"]["jax"] = "<b>0.1</b>"
    (other / "settings.toml").write_text(tomli_w.dumps(written))
    (other / "SHA256SUMS").unlink()
    rows = block(runs_page([folders[0], other]), "rerun", Table).rows
    assert ["jax", facts["jax"], "<b>0.1</b>"] in [list(row) for row in rows]


def test_smoothing_leaves_out_what_is_not_finite() -> None:
    values = np.array([[1.0, np.nan, 3.0, 5.0, np.inf], [np.nan, np.nan, 2.0, 4.0, 6.0], [2.0, 4.0, 9.0, 5.0, 1.0]])
    found = smoothed(values, np.array([0, 1, 3, 4]), 3)
    assert np.array_equal(found, [[1, 1, 4, 4], [np.nan, np.nan, 3, 4], [2, 3, 6, 5]], equal_nan=True)


def test_an_update_without_a_gradient_is_a_gap(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pgsom.report import runs_page as module

    result = pgsom.load(folders[0])
    norms = np.array(result.metrics.gradient_norm)
    norms[1, 2] = np.nan
    broken = replace(result, metrics=result.metrics._replace(gradient_norm=norms))
    monkeypatch.setattr(module, "load", lambda folder: broken)
    charts = block(runs_page(folders[:1]), "diagnostics", Columns).blocks
    (series,) = next(chart for chart in charts if chart.y_label == "gradient norm").series
    assert list(np.isfinite(series.mean)) == [True, True, False, True, True, True]
    runs_page(folders[:1]).write(tmp_path / "page.html")


def test_the_command_writes_a_page_that_works(browser: Browser, folders: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    assert main(["report", *map(str, folders), "--out", str(file)]) == 0
    browser.look()
    browser.open(file)
    browser.point("#curves ~ .chart .plot", 0.99)
    assert browser.text("#curves ~ .chart .readout caption") == "updates: 6"
    assert (browser.console(), browser.requests()) == ([], [file.as_uri()])
    browser.look(width=360, height=800)
    assert browser.run("return document.documentElement.scrollWidth") == 360


def test_the_page_cannot_be_a_folder(folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folders[0]), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr()
    line = f"pgsom report: out={str(tmp_path)!r}: is a folder; accepted is a file, such as report.html\n"
    assert (said.out, said.err) == ("", line)


def test_a_name_of_a_folder_is_text(folders: list[Path], tmp_path: Path) -> None:
    hostile = shutil.copytree(folders[0], tmp_path / "<script>alert(1)<" / "b")
    page = runs_page([folders[0], hostile]).html()
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;" in page
    data = [json.loads(part.split("</script>")[0]) for part in page.split('<script type="application/json">')[1:]]
    assert data[0]["series"][1]["name"].startswith("reinforce, ")
