"""Loggers: sinks that write how a run goes on for other programs to show. docs/watching.md describes what they write.

A chunk may hold thousands of updates a second, more than anybody looks at: a logger is given at most `POINTS` points of
each, means over the updates since the point before. Every update is in the run's own table of metrics.
"""

import importlib.util
import itertools
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from numpy.typing import NDArray

from pgsom.checks import InputError, check_choice, wrong
from pgsom.runs.driver import Chunk, Sink
from pgsom.runs.evaluations import Evaluation

POINTS = 20
MOST_SEEDS = 16
"""So many seeds have curves of their own; of more there are the mean's only."""
SECONDS_BETWEEN_HISTOGRAMS = 10.0
COUNTERS = ("episodes", "env_steps", "not_finite")
LOGGERS: dict[str, str] = {
    "jsonl": "progress.jsonl in the run's folder, a JSON object a line",
    "tensorboard": "a folder tensorboard beside it: curves of each seed and of their mean, histograms of curvature",
    "wandb": "Weights & Biases, project pgsom; WANDB_MODE=offline keeps it in the run's folder",
}
PACKAGES = {"tensorboard": "tensorboardX", "wandb": "wandb"}


@runtime_checkable
class Logger(Sink, Protocol):
    """A sink that is told of evaluations, and of the end."""

    def evaluated(self, evaluation: Evaluation) -> None:
        """The policies were evaluated after the chunk that was written last, or where the run was taken up."""
        ...

    def close(self) -> None:
        """After the last chunk."""
        ...


class Point(NamedTuple):
    """Some updates in a row, in one number for each metric and seed."""

    updates: int
    """Made by then."""
    episodes: NDArray[np.integer]
    env_steps: NDArray[np.integer]
    values: dict[str, NDArray[np.float64]]
    """Means over the updates, NaN where a seed has no value [seed]."""


def points_of(chunk: Chunk, at_most: int = POINTS) -> list[Point]:
    """The chunk in at most so many points, the last of them at its end."""
    rows = {name: np.asarray(leaf) for name, leaf in chunk.rows._asdict().items()}
    count = rows["episodes"].shape[1]
    ends = np.unique(np.linspace(0, count, min(at_most, count) + 1).round().astype(int))
    found = []
    for begin, end in itertools.pairwise(ends):
        values = {name: _mean(leaf[:, begin:end]) for name, leaf in rows.items() if name not in COUNTERS}
        episodes, env_steps = (rows[name][:, end - 1] for name in ("episodes", "env_steps"))
        found.append(Point(chunk.first + int(end), episodes, env_steps, values))
    return found


class JsonLines:
    """A JSON object a line: `updates`, `seconds`, and lists over the seeds; what is not finite is null."""

    def __init__(self, path: Path, seeds: Sequence[int]) -> None:
        self._path, self._seeds, self._begun = path, list(seeds), False

    def write(self, chunk: Chunk) -> None:
        if not self._begun:
            self._begin(chunk.first)
        self._add([self._object(point, chunk.seconds) for point in points_of(chunk)])

    def evaluated(self, evaluation: Evaluation) -> None:
        if not self._begun:
            self._begin(evaluation.updates, evaluated=True)
        values = [_finite(value) for value in evaluation.by_seed.tolist()]
        self._add([{"updates": evaluation.updates, "seeds": self._seeds, "evaluation": values}])

    def close(self) -> None:
        pass

    def _add(self, objects: Sequence[Mapping[str, Any]]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{json.dumps(one, allow_nan=False)}\n" for one in objects))

    def _object(self, point: Point, seconds: float) -> dict[str, Any]:
        counts = {"seeds": self._seeds, "episodes": point.episodes.tolist(), "env_steps": point.env_steps.tolist()}
        values = {name: [_finite(value) for value in values.tolist()] for name, values in point.values.items()}
        return {"updates": point.updates, "seconds": round(seconds, 3)} | counts | values

    def _begin(self, first: int, *, evaluated: bool = False) -> None:
        """Leave out what an interrupted run wrote beyond the checkpoint from which this one goes on."""
        kept = []
        if first and self._path.is_file():
            kept = [line for line in self._path.read_text("utf-8").splitlines() if _updates_of(line) <= first]
        if evaluated:
            kept = [line for line in kept if _updates_of(line) < first or '"evaluation": ' not in line]
        self._path.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        self._begun = True


class TensorBoard:
    """Event files for TensorBoard, one folder for each seed and one for their mean."""

    def __init__(self, folder: Path, seeds: Sequence[int]) -> None:
        self._folder, self._seeds = folder, list(seeds)
        self._writers: dict[int | None, Any] = {}
        self._last: Chunk | None = None
        self._last_histograms = -math.inf

    def write(self, chunk: Chunk) -> None:
        if not self._writers:
            self._open(chunk.first)
        self._last = chunk
        for point in points_of(chunk):
            for place, writer in self._writers.items():
                self._add_scalars(writer, place, point)
        if time.monotonic() - self._last_histograms >= SECONDS_BETWEEN_HISTOGRAMS:
            self._add_histograms(chunk)

    def evaluated(self, evaluation: Evaluation) -> None:
        if not self._writers:
            self._open(evaluation.updates)
        for place, writer in self._writers.items():
            value = evaluation.mean if place is None else float(evaluation.by_seed[place])
            if math.isfinite(value):
                writer.add_scalar("evaluation", value, evaluation.updates)

    def close(self) -> None:
        if self._last is not None:
            self._add_histograms(self._last)
        for writer in self._writers.values():
            writer.close()

    def _open(self, first: int) -> None:
        from tensorboardX import SummaryWriter

        places = [None, *(range(len(self._seeds)) if len(self._seeds) <= MOST_SEEDS else ())]
        for place in places:
            name = "mean" if place is None else f"seed-{self._seeds[place]}"
            self._writers[place] = SummaryWriter(str(self._folder / name), purge_step=first + 1 if first else None)

    def _add_scalars(self, writer: Any, place: int | None, point: Point) -> None:
        """Every metric against updates; the return against episodes and environment steps too."""
        for name, values in point.values.items():
            value = _one(values, place)
            if value is not None:
                tag = f"{name}/by_updates" if name == "episode_return" else name
                writer.add_scalar(tag, value, point.updates)
                if name == "episode_return":
                    writer.add_scalar(f"{name}/by_episodes", value, int(_one(point.episodes, place) or 0))
                    writer.add_scalar(f"{name}/by_env_steps", value, int(_one(point.env_steps, place) or 0))

    def _add_histograms(self, chunk: Chunk) -> None:
        self._last_histograms = time.monotonic()
        for name, leaf in curvature_of(chunk.state.rule_state).items():
            for place, writer in self._writers.items():
                values = leaf.reshape(-1) if place is None else leaf[place].reshape(-1)
                values = values[np.isfinite(values)]
                if values.size:
                    writer.add_histogram(f"curvature/{name}", values, chunk.last)


class WeightsAndBiases:
    """A run of Weights & Biases. What it needs to know of an account it knows from its own configuration."""

    def __init__(self, folder: Path, seeds: Sequence[int], config: Mapping[str, Any]) -> None:
        import wandb

        self._seeds, self._wandb = list(seeds), wandb
        self._last_histograms = -math.inf
        quiet = wandb.Settings(silent=True, console="off")
        try:
            self._run = wandb.init(
                project="pgsom",
                name=folder.name,
                dir=str(folder),
                config=dict(config),
                settings=quiet,
                reinit="create_new",
            )
        except wandb.Error as error:
            raise InputError(f"log='wandb': {str(error).splitlines()[0]}; accepted with WANDB_MODE=offline") from None

    def write(self, chunk: Chunk) -> None:
        for point in points_of(chunk):
            drawn = self._histograms(chunk) if point.updates == chunk.last else {}
            self._run.log(self._named(point) | drawn, step=point.updates)

    def evaluated(self, evaluation: Evaluation) -> None:
        self._run.log({"mean/evaluation": _finite(evaluation.mean)}, step=evaluation.updates)

    def close(self) -> None:
        self._run.finish()

    def _histograms(self, chunk: Chunk) -> dict[str, Any]:
        """Of curvature, all seeds together, now and then."""
        if time.monotonic() - self._last_histograms < SECONDS_BETWEEN_HISTOGRAMS:
            return {}
        self._last_histograms = time.monotonic()
        found = {f"curvature/{name}": leaf for name, leaf in curvature_of(chunk.state.rule_state).items()}
        finite = {name: leaf[np.isfinite(leaf)] for name, leaf in found.items()}
        return {name: self._wandb.Histogram(leaf) for name, leaf in finite.items() if leaf.size}

    def _named(self, point: Point) -> dict[str, Any]:
        places = [None, *(range(len(self._seeds)) if len(self._seeds) <= MOST_SEEDS else ())]
        named = {}
        for place in places:
            own = "mean" if place is None else f"seed-{self._seeds[place]}"
            counts = {"episodes": point.episodes, "env_steps": point.env_steps}
            for name, values in (point.values | counts).items():
                if (value := _one(values, place)) is not None:
                    named[f"{own}/{name}"] = value
        return named


def make_loggers(
    log: str | Sequence[str | Logger], folder: Path | None, seeds: Sequence[int], config: Mapping[str, Any]
) -> list[Logger]:
    """The named loggers (one word may name several, with commas), which write into `folder`; objects as they are."""
    check_log(log, kept=folder is not None)
    return [word if isinstance(word, Logger) else _make(word, folder or Path(), seeds, config) for word in _words(log)]


def check_log(log: str | Sequence[str | Logger], *, kept: bool) -> None:
    """That such loggers can be made; those with names only where the run has a folder."""
    if not isinstance(log, str | list | tuple):
        raise wrong("log", log, f"accepted are {', '.join(LOGGERS)}, several with commas, or a list of loggers")
    names = [check_choice("log", word, LOGGERS) for word in names_of(log)]
    for name in names:
        if names.count(name) > 1:
            raise wrong("log", log, f"{name} is given twice")
        if name in PACKAGES and importlib.util.find_spec(PACKAGES[name]) is None:
            raise wrong("log", name, f"needs {PACKAGES[name]}; accepted after pip install 'pgsom[{name}]'")
    if names and not kept:
        raise wrong("log", log, "accepted only together with out, the run's folder")


def names_of(log: str | Sequence[str | Logger]) -> tuple[Any, ...]:
    """The loggers that are named, not objects."""
    return tuple(word for word in _words(log) if not isinstance(word, Logger))


def _words(log: str | Sequence[str | Logger]) -> list[Any]:
    return log.split(",") if isinstance(log, str) else list(log)


def _make(name: str, folder: Path, seeds: Sequence[int], config: Mapping[str, Any]) -> Logger:
    if name == "jsonl":
        return JsonLines(folder / "progress.jsonl", seeds)
    if name == "tensorboard":
        return TensorBoard(folder / "tensorboard", seeds)
    return WeightsAndBiases(folder, seeds, config)


def curvature_of(rule_state: Any) -> dict[str, NDArray[Any]]:
    """The curvature that a rule remembers, by the name of its part of the parameters; none if it keeps none."""
    if hasattr(rule_state, "_fields") and "curvature" in rule_state._fields:
        leaves = jax.tree_util.tree_leaves_with_path(rule_state.curvature)
        return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in leaves}
    found: dict[str, NDArray[Any]] = {}
    if isinstance(rule_state, tuple | list):
        for part in rule_state:
            found |= curvature_of(part)
    return found


def _mean(values: NDArray[Any]) -> NDArray[np.float64]:
    """Of what is finite, along the updates [seed]."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0).sum(axis=1, dtype=np.float64)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)


def _one(values: NDArray[Any], place: int | None) -> float | None:
    """One seed's value, or the mean of those that have one; None if there is none."""
    chosen = values[np.isfinite(values)] if place is None else values[place : place + 1]
    return _finite(float(chosen.mean())) if chosen.size else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _updates_of(line: str) -> float:
    """Of a line that is whole; infinity for one that is not."""
    try:
        updates = json.loads(line)["updates"]
    except (ValueError, TypeError, KeyError):
        return math.inf
    return updates if isinstance(updates, int) else math.inf
