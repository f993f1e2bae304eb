"""The machinery of `pgsom paper`: evaluations, tables, what is kept and what is reused."""

import csv
import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import polars
import pytest

from pgsom.environments import make
from pgsom.experiments import evaluation, store, study
from pgsom.experiments.blocks import Cell, Lengths, Trained, blocks_of
from pgsom.experiments.evaluation import play_all, starts
from pgsom.experiments.printed import PRINTED, Variant
from pgsom.experiments.protocols import NAMES, read_protocol
from pgsom.experiments.store import digest_of, read_part, write_part
from pgsom.experiments.study import Setup, run_study
from pgsom.experiments.table import five_run_bands, table
from pgsom.experiments.variants import method_of, updates_of, variants_of
from pgsom.policies import Layer, Policy, linear_logistic
from pgsom.report.paper_table import write_table
from pgsom.rollout import score

HEADER = (
    "protocol,method,stabiliser,reading,seeds,mean,std,ci_low,ci_high,five_run_mean_low,five_run_mean_high,"
    "five_run_std_low,five_run_std_high,printed_mean,printed_std,episodes,env_steps"
)


class Silent:
    """A listener that counts what it is told."""

    def __init__(self) -> None:
        self.reused: list[Cell] = []
        self.advanced: list[Cell] = []

    def begin(self, protocol: str, stage: str, cells: object) -> None: ...

    def advance(self, cell: Cell, share: float, score: float) -> None:
        self.advanced.append(cell)

    def kept(self, cell: Cell) -> None:
        self.reused.append(cell)


def test_lanes_play_what_score_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer lanes than episodes, policies that fall at once and that last; padding is not played."""
    monkeypatch.setattr(evaluation, "LANES", 7)
    environment, policy = make("CartPole-v1"), Policy(linear_logistic(4, 2))
    weights = jnp.asarray([[3.0, 3, 3, 3], [-1, -1, -8, -4], [0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0]])
    params = (Layer(weights[:, :, None], None),)
    keys = jax.random.split(jax.random.key(2), 4)
    found = play_all(environment, policy, params, starts(environment, keys, capacity=8), 5, 3)
    expected = jax.vmap(lambda p, key: score(environment, policy, p, key, 5))(params, keys)
    np.testing.assert_array_equal(found.length[:3, :5], expected.length[:3])
    np.testing.assert_array_equal(found.episode_return[:3, :5], expected.episode_return[:3])
    assert not found.length[3].any() and not found.length[:, 5:].any()
    assert len(set(np.asarray(expected.length).ravel().tolist())) > 5


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_of_a_protocol_has_its_source(name: str) -> None:
    protocol = read_protocol(name)
    assert all(setting.source for setting in protocol.settings.values())
    cells = {(v.method, v.stabiliser) for v in variants_of(protocol)}
    assert cells == PRINTED.keys()
    for variant in variants_of(protocol):
        method = method_of(protocol, variant, 0.01)
        assert method.learning_rate == 0.01
        assert updates_of(protocol, method) % protocol["evaluate_every"] == 0


def test_corrected_pays_for_every_stage_out_of_one_budget() -> None:
    protocol = read_protocol("corrected")
    played = {
        v: updates_of(protocol, m) * m.episodes_per_update
        for v in variants_of(protocol)
        for m in [method_of(protocol, v, 0.01)]
    }
    assert set(played.values()) == {protocol["budget"]}


def test_blocks_hold_every_cell_once_in_one_shape() -> None:
    cells = [Cell(variant, None, 0, tuple(range(5))) for variant in variants_of(read_protocol("as-run"))]
    blocks = blocks_of(cells)
    assert [cell for block in blocks for cell in block] == cells
    assert all(sum(len(cell.seeds) for cell in block) <= 50 for block in blocks)


CELL = Cell(Variant("hessian", "clip", "plus"), 0.1, 0, (0, 1))


def test_any_changed_number_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    protocol, lengths = read_protocol("as-run"), Lengths(500, 50)
    digests = [
        digest_of(protocol, CELL, lengths),
        digest_of(protocol, CELL, Lengths(500, 51)),
        digest_of(protocol, CELL, Lengths(499, 50)),
        digest_of(protocol, dataclasses.replace(CELL, rate=0.2), lengths),
        digest_of(protocol, dataclasses.replace(CELL, root=1), lengths),
        digest_of(protocol, dataclasses.replace(CELL, seeds=(0, 2)), lengths),
        digest_of(protocol, dataclasses.replace(CELL, variant=Variant("hessian", "clip", "minus")), lengths),
    ]
    for name, value in protocol.values.items():
        other = (
            value * 1.001 if isinstance(value, float) else [value, value] if isinstance(value, list) else f"{value}+"
        )
        digests.append(digest_of(protocol.changed(**{name: other}), CELL, lengths))
    monkeypatch.setattr(store, "source_digest", lambda: "another line of code")
    digests.append(digest_of(protocol, CELL, lengths))
    assert len(set(digests)) == len(digests)
    monkeypatch.undo()
    assert digest_of(read_protocol("as-run"), CELL, Lengths(500, 50)) == digests[0]


def trained(scores: np.ndarray) -> Trained:
    seeds, evaluations = scores.shape
    updates = 25 * np.arange(evaluations)
    steps = np.cumsum(np.full((seeds, evaluations), 100), axis=1)
    nothing = np.zeros(scores.shape)
    return Trained(updates, updates, steps, scores, nothing, nothing, np.zeros(seeds, int))


def test_a_kept_part_comes_back_and_a_damaged_one_does_not(tmp_path: Path) -> None:
    part = store.Part(trained(np.arange(6.0).reshape(2, 3)), 1.5)
    write_part(tmp_path, "abc", part)
    found = read_part(tmp_path, "abc")
    assert found is not None and found.seconds == 1.5
    for before, after in zip(part.trained, found.trained, strict=True):
        np.testing.assert_array_equal(before, after)
    (tmp_path / "abc.npz").write_bytes(b"half a file")
    assert read_part(tmp_path, "abc") is None and read_part(tmp_path, "xyz") is None


def test_a_second_run_reuses_what_is_finished_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Cell, ...]] = []

    def pretend(protocol: object, cells: tuple[Cell, ...], lengths: object, **others: object) -> list[Trained]:
        calls.append(tuple(cells))
        others["report"](1, 1, [0.0] * len(cells))
        return [trained(np.full((len(cell.seeds), 2), float(protocol["discount"]))) for cell in cells]

    monkeypatch.setattr(study, "run_block", pretend)
    protocol, listener = read_protocol("as-run"), Silent()
    variants = variants_of(protocol)[:2]

    def run(protocol: object = protocol, seeds: int = 60, fresh: bool = False) -> study.Study:
        calls.clear()
        return run_study(protocol, variants, Setup(seeds, Lengths(4, 2), tmp_path, listener, fresh))

    first = run()
    assert len(calls) == 4 and first.reused == 0 and first.trained[variants[0]].scores.shape == (60, 2)
    again = run()
    assert calls == [] and again.reused == 4 and len(listener.reused) == 4
    np.testing.assert_array_equal(first.trained[variants[1]].scores, again.trained[variants[1]].scores)
    changed = run(protocol.changed(discount=0.98))
    assert len(calls) == 4 and (changed.trained[variants[0]].scores == 0.98).all()
    assert run(fresh=True).reused == 0 and len(calls) == 4
    assert run(seeds=61).reused == 0


def test_a_run_that_is_stopped_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    going = True

    def pretend(protocol: object, cells: tuple[Cell, ...], lengths: object, **others: object) -> list[Trained]:
        calls.append(1)
        if going and len(calls) >= 3:
            raise KeyboardInterrupt
        return [trained(np.zeros((len(cell.seeds), 2))) for cell in cells]

    monkeypatch.setattr(study, "run_block", pretend)
    monkeypatch.setattr(study, "WORKERS", 1)
    protocol = read_protocol("as-run")
    setup = Setup(50, Lengths(4, 2), tmp_path, Silent())
    with pytest.raises(KeyboardInterrupt):
        run_study(protocol, variants_of(protocol)[:4], setup)
    assert setup.stop.is_set() and len(list(tmp_path.glob("*.npz"))) == 2
    going = False
    assert run_study(protocol, variants_of(protocol)[:4], Setup(50, Lengths(4, 2), tmp_path, Silent())).reused == 2


def test_the_best_rate_is_chosen_on_other_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    protocol, seen = read_protocol("corrected"), []

    def pretend(protocol: object, cells: tuple[Cell, ...], lengths: object, **others: object) -> list[Trained]:
        seen.extend(cells)
        score = {cell: -abs(cell.rate - (0.02 if cell.variant.method == "hessian" else 0.005)) for cell in cells}
        return [trained(np.full((len(cell.seeds), 2), score[cell])) for cell in cells]

    monkeypatch.setattr(study, "run_block", pretend)
    found = run_study(protocol, variants_of(protocol), Setup(20, Lengths(4, 2), tmp_path, Silent()))
    tuning = [cell for cell in seen if cell.root == 1]
    assert len(tuning) == 12 * 5 and all(cell.seeds == tuple(range(6)) for cell in tuning)
    for cell in seen:
        if cell.root == 0:
            assert cell.rate == (0.02 if cell.variant.method == "hessian" else 0.005)
    assert sum(tried.chosen for tried in found.tries) == 12


def test_bands_are_those_of_five_draws() -> None:
    """Of scores that are 0 or 1 evenly, the mean of five is 0 or 1 in 1 of 16 cases, so the band is the whole range."""
    (low, high), (std_low, std_high) = five_run_bands(np.asarray([0.0, 1.0] * 50))
    assert (low, high) == (0.0, 1.0)
    assert std_low == 0.0 and std_high == pytest.approx(np.std([0, 0, 0, 1, 1]))


def test_the_table_in_every_format(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    outcomes = {v: trained(generator.normal(200, 30, (40, 3))) for v in variants_of(read_protocol("as-run"))}
    rows = table("as-run", outcomes)
    assert len(rows) == 18 and all(r.ci_low <= r.mean <= r.ci_high for r in rows)
    scores = outcomes[Variant("reinforce", "none")].scores[:, -1]
    assert rows[0].mean == pytest.approx(scores.mean()) and rows[0].std == pytest.approx(scores.std(ddof=0))
    assert (rows[0].printed_mean, rows[0].printed_std, rows[0].episodes) == (202.70, 23.99, 50)
    files = {path.suffix: path for path in write_table(rows, tmp_path / "table1")}
    lines = files[".csv"].read_text("utf-8").splitlines()
    assert lines[0] == HEADER and len(lines) == 19
    read = list(csv.DictReader(lines))
    assert {row["reading"] for row in read} == {"plus", "minus", "none", ""}
    assert float(read[0]["mean"]) == rows[0].mean
    assert polars.read_parquet(files[".parquet"]).columns == HEADER.split(",")
    assert r"\toprule" in files[".tex"].read_text("utf-8") and "σ" not in files[".tex"].read_text("utf-8")
    assert files[".md"].read_text("utf-8").count("\n| as-run") == 18
