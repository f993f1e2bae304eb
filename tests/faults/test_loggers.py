"""What loggers write is what the run's own metrics say."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgsom
from pgsom.checks import InputError
from pgsom.methods import make_method
from pgsom.policies import make_policy
from pgsom.runs.driver import Chunk, Memory, Stand, drive, engine_for
from pgsom.runs.evaluations import Evaluation
from pgsom.runs.loggers import JsonLines, TensorBoard, WeightsAndBiases, curvature_of, make_loggers, points_of
from pgsom.runs.plan import Plan
from pgsom.training import Metrics

UPDATES, SEEDS = 60, (0, 3)


class Chunks(Memory):
    """Keeps the chunks as they came."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[Chunk] = []

    def write(self, chunk: Chunk) -> None:
        super().write(chunk)
        self.chunks.append(chunk)


@pytest.fixture(scope="module", name="ran")
def _ran() -> Chunks:
    """PG-SOM on the bandit; one seed is frozen from update 40 on, one update of the other has no return."""
    environment = pgsom.make_environment("two-armed-bandit")
    plan = Plan(environment, make_policy("tabular", environment), (make_method("pg-som"),), SEEDS, 0, UPDATES)
    engine, kept = engine_for(plan), Chunks()
    drive(engine, Stand(engine.start(), 0, 0.0), UPDATES, [kept], every=50)
    spoilt = []
    for chunk in kept.chunks:
        returns = np.array(chunk.rows.episode_return)
        numbers = np.arange(chunk.first, chunk.last)
        returns[1, numbers >= 40] = np.nan
        returns[0, numbers == 7] = np.nan
        spoilt.append(chunk._replace(rows=chunk.rows._replace(episode_return=returns)))
    kept.chunks = spoilt
    return kept


def table(ran: Chunks) -> Metrics:
    return Metrics._make(np.concatenate(parts, axis=1) for parts in zip(*(c.rows for c in ran.chunks), strict=True))


def test_points_are_means_of_the_updates_between_them(ran: Chunks) -> None:
    rows, before = table(ran), 0
    for chunk in ran.chunks:
        points = points_of(chunk, at_most=3)
        assert 1 <= len(points) <= 3 and points[-1].updates == chunk.last
        for point in points:
            part = slice(before, point.updates)
            np.testing.assert_allclose(
                point.values["gradient_norm"], rows.gradient_norm[:, part].mean(axis=1), rtol=1e-5
            )
            np.testing.assert_array_equal(point.episodes, rows.episodes[:, point.updates - 1])
            returns = rows.episode_return[0, part]
            np.testing.assert_allclose(point.values["episode_return"][0], np.nanmean(returns), rtol=1e-5)
            before = point.updates
    assert before == UPDATES
    assert np.isnan(points_of(ran.chunks[-1])[-1].values["episode_return"][1]), "a frozen seed has no return"


def test_json_lines_hold_every_point_and_go_on_where_a_run_was_taken_up(ran: Chunks, tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    whole = JsonLines(path, SEEDS)
    for chunk in ran.chunks:
        whole.write(chunk)
    text = path.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    expected = [point for chunk in ran.chunks for point in points_of(chunk)]
    assert [line["updates"] for line in lines] == [point.updates for point in expected]
    assert lines[-1]["episode_return"][1] is None and lines[-1]["seeds"] == [0, 3]
    np.testing.assert_allclose(lines[0]["episode_return"], expected[0].values["episode_return"])
    # A half-written line and lines beyond the checkpoint are replaced by what the run that is taken up writes.
    path.write_text(text + '{"updates": 61, "epi')
    again = JsonLines(path, SEEDS)
    for chunk in ran.chunks[1:]:
        again.write(chunk)
    assert [json.loads(line) | {"seconds": 0} for line in path.read_text().splitlines()] == [
        line | {"seconds": 0} for line in lines
    ]


def events_in(folder: Path) -> tuple[dict[str, list[tuple[int, float]]], dict[str, list[Any]]]:
    """Scalars and histograms by tag, read back."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import RecordWriter  # noqa: F401  (the format it writes is what is read here)

    scalars: dict[str, list[tuple[int, float]]] = {}
    histograms: dict[str, list[Any]] = {}
    for path in sorted(folder.glob("events.*")):
        content, place = path.read_bytes(), 0
        while place < len(content):
            # Length, its checksum, the record, its checksum.
            length = int.from_bytes(content[place : place + 8], "little")
            event = Event.FromString(content[place + 12 : place + 12 + length])
            place += 16 + length
            for value in event.summary.value:
                if value.HasField("histo"):
                    histograms.setdefault(value.tag, []).append((event.step, value.histo))
                else:
                    scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    return scalars, histograms


def test_tensorboard_files_have_curves_and_histograms_of_curvature(ran: Chunks, tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    (logger,) = make_loggers("tensorboard", tmp_path, SEEDS, {})
    for chunk in ran.chunks:
        logger.write(chunk)
    logger.close()
    assert isinstance(logger, TensorBoard)
    folders = {path.name for path in (tmp_path / "tensorboard").iterdir()}
    assert folders == {"mean", "seed-0", "seed-3"}
    scalars, histograms = events_in(tmp_path / "tensorboard" / "seed-3")
    points = [point for chunk in ran.chunks for point in points_of(chunk)]
    finite = [point for point in points if np.isfinite(point.values["episode_return"][1])]
    returns = [point.values["episode_return"][1] for point in finite]
    for tag, steps in {
        "by_updates": [point.updates for point in finite],
        "by_episodes": [int(point.episodes[1]) for point in finite],
        "by_env_steps": [int(point.env_steps[1]) for point in finite],
    }.items():
        assert [step for step, _ in scalars[f"episode_return/{tag}"]] == steps
        np.testing.assert_allclose([value for _, value in scalars[f"episode_return/{tag}"]], returns, rtol=1e-6)
    assert len(scalars["gradient_norm"]) == len(points) > len(finite)
    ((name, leaf),) = curvature_of(ran.chunks[-1].state.rule_state).items()
    step, last = histograms[f"curvature/{name}"][-1]
    assert step == UPDATES and last.num == leaf[1].size
    np.testing.assert_allclose(last.sum, leaf[1].sum(), rtol=1e-5)


def test_weights_and_biases_offline(ran: Chunks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    (logger,) = make_loggers(["wandb"], tmp_path, SEEDS, {"method": "pg-som"})
    assert isinstance(logger, WeightsAndBiases)
    for chunk in ran.chunks:
        logger.write(chunk)
    logger.evaluated(Evaluation(UPDATES, np.array([[1.0, 2.0], [4.0, 4.0]]), np.array([True, False])))
    logger._run.log({}, commit=True)
    said = dict(logger._run.summary)
    logger.close()
    assert said["mean/evaluation"] == 1.5, "a frozen seed does not count"
    last = points_of(ran.chunks[-1])[-1]
    assert said["seed-0/episodes"] == last.episodes[0]
    np.testing.assert_allclose(said["mean/gradient_norm"], last.values["gradient_norm"].mean())
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    assert any(path.suffix == ".wandb" and path.stat().st_size > 1000 for path in folder.iterdir())


def test_no_curvature_is_found_where_none_is_kept(ran: Chunks) -> None:
    assert curvature_of(((), jnp.zeros(3))) == {}
    state = ran.chunks[0].state.rule_state
    assert jax.tree.leaves(curvature_of((state, ())))[0].shape[0] == len(SEEDS)


@pytest.mark.usefixtures("unchecked")
def test_wrong_loggers_are_named(tmp_path: Path) -> None:
    for log, folder, said in (
        (
            "tensorbord",
            tmp_path,
            "log='tensorbord': accepted are jsonl, tensorboard, wandb; did you mean 'tensorboard'?",
        ),
        ("jsonl,jsonl", tmp_path, "log='jsonl,jsonl': jsonl is given twice"),
        ("jsonl", None, "log='jsonl': accepted only together with out, the run's folder"),
        ([3], tmp_path, "log=3: accepted are jsonl, tensorboard, wandb"),
    ):
        with pytest.raises(InputError) as error:
            make_loggers(log, folder, SEEDS, {})  # type: ignore[arg-type]
        assert str(error.value) == said
