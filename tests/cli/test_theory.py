"""`pgsom theory`: one's own MDP from a file, right and wrong; what is printed."""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pgsom.cli import theory as command
from pgsom.cli.main import main
from pgsom.experiments import theory
from pgsom.experiments.problems import read_problem
from pgsom.report.theory import SUMMARY_HEADER, climbing_rows, plain_summary, summary_rows

MDP: dict[str, Any] = {
    "P": [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]],
    "R": [[1.0, 0.0], [0.5, -2.0]],
    "rho": [0.75, 0.25],
    "gamma": 0.9,
    "horizon": 3,
    "theta": [[0.1, -0.2], [0.3, 0.0]],
}


@pytest.fixture(name="few", autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two estimators: the command does not know how many there are."""
    monkeypatch.setattr(theory, "study", partial(theory.study, estimators=("lemma", "fisher")))


def written(path: Path, **changes: Any) -> Path:
    fields = {key: value for key, value in (MDP | changes).items() if value is not None}
    if path.suffix == ".json":
        path.write_text(json.dumps(fields))
    else:
        np.savez(path, **fields)
    return path


@pytest.mark.parametrize("name", ["own.json", "own.npz"])
def test_a_file_is_read_as_it_was_written(tmp_path: Path, name: str) -> None:
    problem = read_problem(written(tmp_path / name, terminal=[False, False]))
    assert problem.name == "own" and problem.mdp.horizon == 3 and problem.mdp.discount == 0.9
    np.testing.assert_array_equal(problem.mdp.transition, MDP["P"])
    np.testing.assert_array_equal(problem.mdp.reward, MDP["R"])
    np.testing.assert_array_equal(problem.theta, MDP["theta"])


def test_fortran_order_and_other_dtypes_are_read(tmp_path: Path) -> None:
    P = np.asfortranarray(np.asarray(MDP["P"], np.float32))
    problem = read_problem(written(tmp_path / "own.npz", P=P, R=np.asarray([[1, 0], [2, 3]]), horizon=np.int8(3)))
    np.testing.assert_array_equal(problem.mdp.transition, MDP["P"])


def test_json_has_the_exact_numbers_and_each_estimators(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "--mdp", str(written(tmp_path / "own.npz")), "--episodes", "0", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    pi = np.exp(MDP["theta"]) / np.exp(MDP["theta"]).sum(axis=1, keepdims=True)

    def J(pi: np.ndarray) -> float:
        values = np.zeros(2)
        for _ in range(3):
            values = (pi * (np.asarray(MDP["R"]) + 0.9 * np.asarray(MDP["P"]) @ values)).sum(axis=1)
        return float(np.asarray(MDP["rho"]) @ values)

    assert said["return"] == pytest.approx(J(pi), abs=1e-12)
    assert np.shape(said["gradient"]) == np.shape(said["hessian_diagonal"]) == (2, 2)
    for name in ("lemma", "fisher"):
        found = said["estimators"][name]
        for key in ("expectation", "bias", "variance"):
            assert np.shape(found[key]) == (2, 2)
        np.testing.assert_allclose(
            np.subtract(found["expectation"], said["hessian_diagonal"]), found["bias"], atol=1e-12
        )
    lemma = said["estimators"]["lemma"]
    assert np.abs(lemma["bias"]).max() < 1e-10
    needed = np.sum(lemma["variance"]) / np.square(lemma["expectation"]).sum()
    assert lemma["trajectories_needed"] == pytest.approx(needed)
    assert lemma["with_baseline"]["state value"]["total_variance"] < lemma["total_variance"]
    assert all(said["lemmas"][claim]["holds"] for claim in ("C1", "C2", "C3"))
    assert "lemma's discounting" in said["conventions"]["return"]


def test_tables_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "--mdp", str(written(tmp_path / "own.json")), "--episodes", "50"]) == 0
    said = capsys.readouterr().out
    for expected in ("own: 2 states, 2 actions, 3 steps", "✓ C1", "✓ C2", "✓ C3", "state value", "gᵀP⁻¹g"):
        assert expected in said


def test_many_random_ones_are_summed_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", "--random", "3", "--episodes", "0"]) == 0
    said = capsys.readouterr().out
    assert "3 random MDPs: C1 in 3, C2 in 3, C3 in 3 of 3" in said and "3 of 3" in said
    assert main(["theory", "--random", "2", "--episodes", "0", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole["summary"]["mdps"] == len(whole["mdps"]) == 2 and whole["summary"]["contradictions"] == []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a missing key": ({"rho": None}, "key='rho': missing"),
    "an unknown key": ({"rhoo": 1}, "did you mean 'rho'?"),
    "a row that does not sum to one": ({"P": [[[0.5, 0.4], [1, 0]], [[0, 1], [1, 0]]]}, "sum of P[0, 0]=0.9"),
    "a negative probability": ({"P": [[[1.5, -0.5], [1, 0]], [[0, 1], [1, 0]]]}, "P[0, 0, 0]=1.5"),
    "a start that does not sum to one": ({"rho": [0.5, 0.4]}, "sum of rho=0.9"),
    "rewards of another shape": ({"R": [[1.0, 0.0]]}, "R.shape=(1, 2)"),
    "logits of another shape": ({"theta": [[0.0], [0.0]]}, "theta.shape=(2, 1)"),
    "a kernel of another shape": ({"P": [[0.5, 0.5]]}, "P.shape=(1, 2)"),
    "NaN": ({"R": [[float("nan"), 0.0], [0.5, -2.0]]}, "R[0, 0]=nan"),
    "infinity": ({"theta": [[float("inf"), 0.0], [0.5, -2.0]]}, "theta[0, 0]=inf"),
    "rewards whose squares overflow": ({"R": [[1e200, 0.0], [0.5, -2.0]]}, "R[0, 0]=1e+200"),
    "a discount above one": ({"gamma": 1.5}, "gamma=1.5"),
    "a discount that is a list": ({"gamma": [0.9]}, "gamma: accepted is one number"),
    "a horizon that is no whole number": ({"horizon": 2.5}, "horizon=2.5"),
    "no step": ({"horizon": 0}, "horizon=0"),
    "a horizon too long to list": ({"horizon": 30}, "take a shorter horizon"),
    "an endless horizon": ({"horizon": 10**9}, "horizon=1000000000"),
    "a terminal start": ({"terminal": [True, False]}, "rho[0]=0.75"),
    "terminal flags that are numbers": ({"terminal": [0, 1]}, "terminal=[0, 1]"),
    "text": ({"R": [["a", "b"], ["c", "d"]]}, "numbers"),
}


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_gets_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, suffix: str, unchecked: None
) -> None:
    changes, expected = WRONG[case]
    refused(written(tmp_path / f"own{suffix}", **changes), capsys, expected)


def refused(path: Path, capsys: pytest.CaptureFixture[str], expected: str) -> None:
    assert main(["theory", "--mdp", str(path), "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and "Traceback" not in err
    assert err.startswith("pgsom theory: ") and path.name in err and expected in err, err


def header(shape: tuple[int, ...], descr: str = "<f8") -> bytes:
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def pickled() -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray([{"a": 1}], object))
    return stream.getvalue()


BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "a header that claims a terabyte": (lambda p: archive(p, P=header((5000, 5000, 5000)) + b"\0" * 64), "claimed"),
    "a header that claims nothing": (lambda p: archive(p, P=header((0,)) + b"\0" * 64), "claimed"),
    "a negative size": (lambda p: archive(p, P=header((-1, 2)) + b"\0" * 64), "P.shape"),
    "a pickle": (lambda p: archive(p, P=pickled()), "accepted are numbers"),
    "no header": (lambda p: archive(p, P=b"nothing"), "not a whole .npz file"),
    "half an archive": (lambda p: halved(written(p)), "not a whole .npz file"),
    "not JSON": (lambda p: text(p, "{"), "neither an .npz file nor valid JSON"),
    "not an object": (lambda p: text(p, "[1, 2]"), "accepted is one JSON object"),
    "deeply nested": (lambda p: text(p, "[" * 100_000), "neither an .npz file nor valid JSON"),
    "ragged": (lambda p: text(p, json.dumps(MDP | {"P": [[1], [1, 2]]})), "all rows of one length"),
    "an endless number": (lambda p: text(p, '{"horizon": ' + "9" * 5000 + "}"), "neither"),
    "bytes": (lambda p: raw(p, bytes(range(256))), "neither"),
    "nothing": (lambda p: text(p, ""), "neither"),
}


def text(path: Path, content: str) -> Path:
    return raw(path, content.encode())


def raw(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def halved(path: Path) -> Path:
    return raw(path, path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str) -> None:
    make, expected = BROKEN[case]
    refused(make(tmp_path / "own.npz"), capsys, expected)


def test_a_file_that_is_not_there_or_too_large(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(tmp_path / "missing.npz", capsys, "no such file")
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(2**27)
    refused(tmp_path / "large.json", capsys, "134,217,728 bytes")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--random", "0"], "random=0"),
        (["--random", "1000000"], "random=1000000"),
        (["--random", "2", "--mdp", "x"], "either --random or --mdp"),
        (["--episodes", "-1"], "episodes=-1"),
        (["--sede", "1"], "did you mean '--seed'?"),
        (["three-state"], "unexpected"),
    ],
)
def test_wrong_words_get_one_line(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["theory", *arguments]) == 2
    assert expected in capsys.readouterr().err


def test_the_exit_code_says_when_something_contradicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(theory, "score_error", lambda listing: 0.5)
    assert main(["theory", "--mdp", str(written(tmp_path / "own.json")), "--episodes", "0"]) == 1
    said = capsys.readouterr().out
    assert "✗ C2" in said and "Lemma 2 is off by 0.5" in said


def test_the_summary_says_in_how_many_it_holds() -> None:
    studies = [theory.study(problem, episodes=0) for problem in command._problems(None, 2, 0)]
    assert [row[2] for row in summary_rows(studies)] == ["2 of 2"] * 2
    assert len(SUMMARY_HEADER) == len(summary_rows(studies)[0])
    assert plain_summary(studies)["C2"] == 2
    assert {row[:2] for row in climbing_rows(studies)} >= {("lemma", "raw"), ("fisher", "absolute")}
