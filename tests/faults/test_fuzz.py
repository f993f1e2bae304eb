"""Files that nobody would write: whatever is in them, they are read, or refused in one clear line.

`make fuzz` tries 10,000 of each kind (PGSOM_FUZZ), the suite some hundred, always the same.
"""

import io
import json
import math
import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pgsom
from pgsom.checks import InputError, printable
from pgsom.cli.options import FILE_OPTIONS
from pgsom.cli.runs import table
from pgsom.cli.settings import read_settings
from pgsom.cli.show import lines_of
from pgsom.experiments.problems import KNOWN, read_problem
from pgsom.methods import make_method, method_options
from pgsom.policies import tabular_softmax
from pgsom.runs import store
from pgsom.runs.folder import parse_settings
from pgsom.runs.overview import details, overview

EXAMPLES = int(os.environ.get("PGSOM_FUZZ", "100"))
fuzzed = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="PGSOM_FUZZ" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

names = st.sampled_from(sorted({key for option in FILE_OPTIONS for key in (option.name, *option.choices)}))
words = st.one_of(st.text(max_size=12), names, st.sampled_from(["nan", "inf", "\x1b[31m", "‮", "a\nb"]))
numbers = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([0, -1, 1, 0.5, 1e308, -0.0, math.nan, math.inf])
)
plain = st.one_of(words, numbers, st.booleans())
values = st.recursive(
    plain, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)), max_leaves=6
)

summary_keys = st.sampled_from(
    ["state", "updates", "planned_updates", "evaluation", "warnings", "notes", "return", "seeds"]
)


def refused_in_one_line(read: Callable[[], Any]) -> Any:
    """What is read; if it is refused, nothing, and then as a user can bear it."""
    try:
        return read()
    except InputError as error:
        said = str(error)
        assert said.strip() and len(said) < 20_000
        return None


def spoilt(content: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    """The content with bytes replaced: place, how many, by what."""
    for place, count, other in edits:
        begin = place % (len(content) + 1)
        content = content[:begin] + other + content[begin + count :]
    return content


edits = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 9), st.binary(max_size=9)), max_size=4)


@st.composite
def toml_files(draw: Any) -> bytes:
    table = draw(st.dictionaries(st.one_of(names, words), values, max_size=5))
    try:
        text = tomli_w.dumps(table).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError):
        text = b"seeds = 3\n[options]\nbatch = 2\n"
    return spoilt(text, draw(edits))


@fuzzed
@given(content=st.one_of(toml_files(), st.binary(max_size=60)))
def test_options_files(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_bytes(content)
    chosen = refused_in_one_line(lambda: read_settings(["--config", str(file)]))
    if chosen is not None:
        tomllib.loads(content.decode())
        given_options = chosen.of_training()
        method = given_options.get("method", "pg-som")
        own = {name: value for name, value in given_options.items() if name in method_options(method)}
        refused_in_one_line(lambda: make_method(method, **own))


def problem() -> dict[str, Any]:
    return {
        "P": [[[0.5, 0.5], [1, 0]], [[0, 1], [0, 1]]],
        "R": [[1, 0], [0, 0]],
        "rho": [1, 0],
        "gamma": 0.9,
        "horizon": 3,
        "theta": [[0, 1], [0, 0]],
    }


@st.composite
def changed_problems(draw: Any) -> dict[str, Any]:
    fields = problem() | draw(st.dictionaries(st.one_of(st.sampled_from(KNOWN), words), values, max_size=2))
    for key in draw(st.lists(st.sampled_from(sorted(fields)), max_size=1)):
        del fields[key]
    if draw(st.booleans()):
        # One number in one place of one array.
        array = np.array(draw(st.sampled_from([problem()[key] for key in ("P", "R", "rho", "theta")])), object)
        key = next(name for name in ("P", "R", "rho", "theta") if np.shape(problem()[name]) == array.shape)
        array.flat[draw(st.integers(0, array.size - 1))] = draw(plain)
        fields[key] = array.tolist()
    return fields


@fuzzed
@given(fields=changed_problems(), changes=edits, other=st.one_of(st.none(), st.binary(max_size=40)))
def test_json_files(fields: dict[str, Any], changes: Any, other: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "mdp.json"
    file.write_bytes(spoilt(json.dumps(fields).encode(), changes) if other is None else other)
    read = refused_in_one_line(lambda: read_problem(file))
    if read is not None:
        assert np.allclose(read.mdp.transition.sum(axis=2), 1) and np.all(np.isfinite(read.mdp.reward))


@st.composite
def npz_files(draw: Any) -> bytes:
    kept: dict[str, Any] = {name: np.asarray(value) for name, value in problem().items()}
    for name in draw(st.lists(st.sampled_from(sorted(kept)), max_size=2)):
        dtype = draw(st.sampled_from(["f8", "f2", "i1", "u8", "?", "U3", "M8[s]", "c16", ">f4"]))
        shape = draw(st.lists(st.integers(0, 3), max_size=4))
        kept[name] = np.zeros(shape, dtype)
    buffer = io.BytesIO()
    save = np.savez_compressed if draw(st.booleans()) else np.savez
    save(buffer, **kept)  # type: ignore[arg-type]
    content = buffer.getvalue()
    if draw(st.booleans()):
        # In a header of an array, where sizes and kinds are claimed.
        place = content.find(b"'shape'")
        changes = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6), st.binary(max_size=6)), max_size=2))
        return content[: max(place, 0)] + spoilt(content[max(place, 0) :], changes)
    return spoilt(content, draw(edits))


@fuzzed
@given(content=npz_files())
def test_npz_files(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "mdp.npz"
    file.write_bytes(content)
    read = refused_in_one_line(lambda: read_problem(file))
    if read is not None:
        assert np.allclose(read.mdp.transition.sum(axis=2), 1) and np.all(np.isfinite(read.mdp.reward))


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", name="run")
def _run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "run"
    pgsom.train("two-armed-bandit", "reinforce", updates=2, out=run)
    return run


@fuzzed
@given(changes=edits, more=st.one_of(st.none(), st.dictionaries(words, values, max_size=3)))
def test_settings_of_runs(changes: Any, more: dict[str, Any] | None, run: Path) -> None:
    content = (run / "settings.toml").read_bytes()
    if more is not None:
        content = toml_of(tomllib.loads(content.decode()) | more)
    refused_in_one_line(lambda: parse_settings(spoilt(content, changes), "settings.toml"))


@fuzzed
@given(content=st.one_of(st.dictionaries(st.one_of(words, summary_keys), values, max_size=6), values, edits))
def test_summaries_of_runs_are_shown_whatever_is_in_them(content: Any, run: Path, tmp_path: Path) -> None:
    own = tmp_path / "run"
    if not own.exists():
        shutil.copytree(run, own)
    whole = (run / "summary.json").read_bytes()
    spoil = isinstance(content, list) and all(isinstance(edit, tuple) for edit in content)
    (own / "summary.json").write_bytes(spoilt(whole, content) if spoil else json.dumps(content).encode())
    for line in lines_of(details(own)):
        assert printable(line).isprintable()
    assert table([overview(own)])


@fuzzed
@given(changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9), st.binary(max_size=9)), max_size=3))
def test_policy_files(changes: Any, run: Path) -> None:
    """The header, in which names, types and places are claimed, and the numbers behind it."""
    content = spoilt((run / "policy.safetensors").read_bytes(), changes)
    arrays = refused_in_one_line(lambda: store._arrays(content, run / "policy.safetensors"))
    shapes = jax.eval_shape(tabular_softmax(1, 2).init, jax.random.key(0))
    if arrays is not None:
        refused_in_one_line(lambda: store._fitting(arrays, shapes, 1, run / "policy.safetensors"))


def toml_of(table: dict[str, Any]) -> bytes:
    try:
        return tomli_w.dumps(table).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError):
        return b""


def test_every_byte_of_a_compressed_file(tmp_path: Path) -> None:
    """One at a time: in the compressed numbers, their checksums, the table of contents."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **problem())
    file, whole = tmp_path / "mdp.npz", buffer.getvalue()
    for place in range(2, len(whole), 1 if EXAMPLES > 100 else 7):
        file.write_bytes(spoilt(whole, [(place, 1, bytes([whole[place] ^ 0x55]))]))
        refused_in_one_line(lambda: read_problem(file))


def test_what_is_fuzzed_is_right_to_begin_with(tmp_path: Path) -> None:
    """Else everything would be refused for the same reason."""
    (tmp_path / "mdp.json").write_text(json.dumps(problem()))
    np.savez(tmp_path / "mdp.npz", **problem())
    assert read_problem(tmp_path / "mdp.json").mdp == read_problem(tmp_path / "mdp.npz").mdp
    (tmp_path / "run.toml").write_bytes(b"seeds = 3\n[options]\nbatch = 2\n")
    assert read_settings(["--config", str(tmp_path / "run.toml")]).given == {"seeds": 3, "batch": 2}
    with pytest.raises(InputError):
        read_problem(tmp_path / "run.toml")
