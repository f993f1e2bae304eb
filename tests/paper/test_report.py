"""What `pgsom paper` shows: figures, the report in a real browser, the docs page, and the command itself."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pgsom.cli import paper as command
from pgsom.cli.main import main
from pgsom.experiments import claims as all_claims
from pgsom.experiments import study as study_module
from pgsom.experiments.claims import judge
from pgsom.experiments.learning_claims import views
from pgsom.experiments.printed import Variant
from pgsom.experiments.table import Row, table
from pgsom.report.paper_figures import METHOD_COLOURS, figure_1, figure_2, save_figures
from pgsom.report.paper_page import Context, paper_page
from pgsom.report.reproduction import figure_names, reproduction
from tests.paper.synthetic import curve, studies, trained
from tests.report.browser import Browser
from tests.report.conftest import browser as browser  # the session's browser

MEASURED = {
    "exact": {
        "problems": 17,
        "lemma": 1e-15,
        "appendix": 0.03,
        "score": 1e-15,
        "bias": 1e-15,
        "z": 2.0,
        "negative": 0.4,
        "ascending": {"raw": 0.5, "absolute": 1.0},
    },
    "memory": {"4": 2.5, "1000000": 2.0},
    "time": {"linear": {"lemma": [1.8, 1.9]}, "64-64": {"lemma": [2.8, 2.9]}},
    "drop-in": {"absolute": 0.5, "raw": 30.0},
}
CONTEXT = Context(40, 500, 50, 321.0, "pgsom paper --out '<b>here</b>'")
STUDIES = studies({("runge-kutta", "clip"): curve(380)})
CLAIMS = judge(all_claims.NAMES, STUDIES, MEASURED)


def rows() -> list[Row]:
    return [row for name, study in STUDIES.items() for row in table(name, study.trained)]


@pytest.fixture(scope="module", name="report")
def _report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = paper_page(CLAIMS, STUDIES, rows(), CONTEXT)
    return page.write(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def shown(browser: Browser, report: Path) -> Iterator[Browser]:
    """The report; whatever a test does, the console stays empty and nothing else is asked for."""
    browser.look()
    browser.open(report)
    yield browser
    assert browser.console() == []
    assert browser.requests() == [report.as_uri()]


def test_verdicts_stand_on_top_and_every_section_is_there(shown: Browser) -> None:
    headings = shown.run("return [...document.querySelectorAll('h2')].map((h) => h.innerText)")
    assert headings == [
        "Verdicts",
        "Table 1",
        *(f"Figures, {name}" for name in STUDIES),
        "Claims, part by part",
        "Settings",
        "How it was made",
    ]
    table_rows = "return document.querySelector('table').querySelectorAll('tbody tr').length"
    assert shown.run(table_rows) == 16
    verdicts = shown.run(
        "return [...document.querySelector('table').querySelectorAll('.verdict')].map((v) => v.innerText)"
    )
    assert [said.split(" ", 1)[1] for said in verdicts] == [claim.verdict for claim in CLAIMS]
    assert "<b>here</b>" in shown.text("#made ~ pre")


def test_figures_are_read_hidden_and_switched(shown: Browser) -> None:
    plots = shown.run("return document.querySelectorAll('figure.chart').length")
    # Figure 2, figure 1 of two methods and of the Hessian rows in each reading, figure 3.
    assert plots == 3 * (1 + 2 + 1) + 3 + 2
    shown.point(".plot", 0.5)
    readout = shown.text(".readout")
    assert all(method in readout for method in METHOD_COLOURS)
    names = "return [...document.querySelector('.curves').children].map((curve) => curve.dataset.name)"
    assert shown.run(names) == list(METHOD_COLOURS)
    shown.click(".legend button:nth-child(3)")
    assert shown.run(names) == ["reinforce", "hessian"]
    shown.click(".switch button:nth-child(3)")
    assert shown.text(".lines .x-label") == "environment steps"


@pytest.mark.parametrize("width", [390, 1200])
def test_it_fits_phones_and_desktops(browser: Browser, report: Path, width: int) -> None:
    browser.look(width=width, height=900)
    browser.open(report)
    assert browser.run("return document.documentElement.scrollWidth") <= width


def test_figures_for_print(tmp_path: Path) -> None:
    few = studies(names=("as-run",))
    own = [row for name, study in few.items() for row in table(name, study.trained)]
    written = save_figures(views(few)[-1:], own, tmp_path)
    names = {path.name for path in written}
    assert len(names) == len(written) and all(path.stat().st_size > 3000 for path in written)
    assert {f"figure2_as-run{kind}.{end}" for kind in ("", "_paper") for end in ("png", "pdf")} <= names
    assert {"figure3_as-run.png", "figure3_as-run_paper.pdf"} <= names
    assert {"figure1_as-run_none_hessian.png", "figure1_as-run_reinforce.pdf"} <= names


def test_a_method_has_one_colour_in_every_figure() -> None:
    seen = views(STUDIES)
    used = {(c.name, c.colour) for view in seen for c in figure_2(view)}
    assert used == set(METHOD_COLOURS.items()) and len(set(METHOD_COLOURS.values())) == 3
    for view in seen:
        for method, curves in figure_1(view).items():
            assert {c.colour for c in curves} == {METHOD_COLOURS[method]} and len({c.dash for c in curves}) == 4


def test_the_page_for_sceptics_says_what_the_data_say() -> None:
    text = reproduction(CLAIMS, STUDIES, rows(), CONTEXT)
    for claim in CLAIMS:
        assert f"| {claim.name} | " in text and claim.why.replace("|", "\\|") in text
    own = rows()
    assert text.count("\n| as-run |") == 18 and f"{own[0].mean:.1f} ± {own[0].std:.1f}" in text
    inside = sum(row.mean_is_in_band for row in own if row.protocol == "corrected")
    assert f"- corrected: {inside} of 12 printed means" in text
    assert all(f"](figures/{name}.png)" in text for name in figure_names(STUDIES))


def pretend(monkeypatch: pytest.MonkeyPatch, interrupt_at: int = 0) -> list[int]:
    """Blocks and measurements that take no time."""
    calls: list[int] = []
    interrupted = []

    def block(protocol, cells, lengths, stopped, **others):  # type: ignore[no-untyped-def]
        run = stopped.__self__
        if run not in interrupted:
            calls.append(len(cells))
        if len(calls) == interrupt_at:
            interrupted.append(run)
        if run in interrupted:
            raise KeyboardInterrupt
        others["report"](1, 2, [100.0] * len(cells))
        name = protocol.name.split(",")[0]
        return [trained(name, cell.variant, curve(300, seeds=len(cell.seeds))) for cell in cells]

    monkeypatch.setattr(study_module, "run_block", block)
    monkeypatch.setattr(
        all_claims,
        "MEASUREMENTS",
        {k: (lambda k=k: MEASURED[k], m, s) for k, (_, m, s) in all_claims.MEASUREMENTS.items()},
    )
    return calls


def test_the_command_writes_everything_and_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = pretend(monkeypatch)
    out = tmp_path / "out"
    assert main(["paper", "--seeds", "8", "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert len(said["table"]) == 18 + 12 + 12 and [c["claim"] for c in said["claims"]] == list(all_claims.NAMES)
    assert {p.name for p in out.iterdir()} >= {
        "table1.csv",
        "table1.md",
        "table1.tex",
        "table1.parquet",
        "table1_linear.csv",
        "claims.json",
        "report.html",
        "reproduction.md",
        "figures",
        "parts",
    }
    ran = len(calls)
    assert main(["paper", "--seeds", "8", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert len(calls) == ran and "contradicted by the paper itself" in shown.out and "corrected" in shown.out
    assert "as-run, runs" in shown.err
    report = (out / "report.html").read_bytes()
    assert main(["paper", "--seeds", "8", "--out", str(out), "--claim", "C7"]) == 0
    assert "C7" in capsys.readouterr().out and (out / "report.html").read_bytes() == report
    assert json.loads((out / "C7.json").read_text())["claim"] == "C7"


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study_module, "WORKERS", 1)
    calls = pretend(monkeypatch, interrupt_at=3)
    arguments = ["paper", "--protocol", "as-run", "--seeds", "50", "--out", str(tmp_path), "--fresh"]
    assert main(arguments) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert "2 finished parts are kept" in said
    again = re.search(r"`(pgsom .*)`", said)
    assert again is not None and "--fresh" not in again[1]
    assert main(again[1].split()[1:]) == 0
    assert len(calls) == 3 + 16


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--claim C17", "claim='C17': accepted are C1, C2,"),
        ("--protocol as-runn", "did you mean 'as-run'?"),
        ("--seeds 1", "seeds=1: accepted is a whole number >= 2"),
        ("--episodes-before 0", "episodes_before=0: accepted is a whole number >= 1"),
    ],
)
def test_wrong_input_is_one_line(arguments: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["paper", "--out", str(tmp_path), *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert command.CLAIMS == all_claims.NAMES


def test_time_left_counts_only_what_runs() -> None:
    from pgsom.cli.paper_progress import Board
    from pgsom.experiments.blocks import Cell

    shown = Board()
    cells = [Cell(Variant("reinforce", s), None, 0, (0,)) for s in ("none", "clip")]
    shown.begin("as-run", "runs", cells)
    assert shown.time_left == "–:––" and shown.share == 0
    shown.kept(cells[0])
    assert shown.share == 0.5 and shown.time_left == "–:––"
    shown.started = (shown.started or 0) - 30
    shown.advance(cells[1], 0.25, 123.0)
    assert shown.time_left == "1:30" and shown.share_of(cells[1].variant) == 0.25
    assert np.isclose(shown.share, 0.625)
