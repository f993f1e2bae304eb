"""What carries a run forward: an engine makes updates, `drive` asks it for chunk after chunk and hands each to sinks.

How a run is cut into chunks never shows in its results, so it follows the clock: a chunk is as long as a reader can
wait for news. Nor does it matter here who makes the updates, the compiled program or a loop on the host.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pgsom.environments import EpisodeError, HostEnvironment
from pgsom.host_training import HostTraining
from pgsom.methods import Method
from pgsom.runs.plan import Plan
from pgsom.training import Metrics, TrainState, init_program, seed_keys, train_program

CAPACITY = 256
FIRST_CHUNK = 8
SECONDS_BETWEEN_REPORTS = 0.25

Carried = Mapping[str, NDArray[Any]]
"""Arrays by name."""


@runtime_checkable
class Engine(Protocol):
    """Makes updates. Its state has a leading axis: the members of the plan, method-major."""

    @property
    def capacity(self) -> int:
        """The most updates that one call of `advance` makes."""
        ...

    def start(self) -> TrainState:
        """The state before the first update."""
        ...

    def advance(self, state: TrainState, updates: int) -> tuple[TrainState, Metrics]:
        """The state `updates` later and what they report [member, update]; with 0 only what is slow once is done.

        The result depends on the state and, for a simulator on the host, on what it carries; not on how the updates
        are spread over calls. What it returns stays as it is: later calls do not write into it.
        """
        ...

    def carried(self) -> Carried:
        """What the next update needs beside the state, such as simulators in mid-episode; kept with a checkpoint."""
        ...

    def restore(self, carried: Carried) -> tuple[str, ...]:
        """Take back what `carried` gave, before `advance`; sentences about what could not be, for the summary."""
        ...

    def close(self) -> None:
        """Let go of simulators."""
        ...


@dataclass(frozen=True)
class CompiledEngine:
    """An environment in JAX: playing and learning are one compiled program, and all is in the state."""

    plan: Plan

    @property
    def capacity(self) -> int:
        # The same for every budget: a run that is carried further runs the very program that began it.
        return CAPACITY

    @cached_property
    def _method(self) -> Method:
        return method_of_members(self.plan)

    def start(self) -> TrainState:
        plan = self.plan
        many = len(plan.methods) > 1
        return init_program(plan.environment, plan.policy, self._method, member_keys(plan), many_methods=many)

    def advance(self, state: TrainState, updates: int) -> tuple[TrainState, Metrics]:
        plan = self.plan
        state, rows = jax.block_until_ready(
            train_program(
                plan.environment,
                plan.policy,
                self._method,
                state,
                jnp.asarray(updates),
                capacity=CAPACITY,
                many_methods=len(plan.methods) > 1,
            )
        )
        # Cut on the host: JAX would compile a slice for every length there is, and keep it. Copied, as a view would
        # keep all of the program's rows.
        return state, jax.tree.map(lambda leaf: np.asarray(leaf)[:, :updates].copy(), rows)

    def carried(self) -> Carried:
        return {}

    def restore(self, carried: Carried) -> tuple[str, ...]:
        del carried
        return ()

    def close(self) -> None:
        pass


class HostEngine:
    """An environment on the host. Whole episodes begin anew with each batch, so all is in the state; segments go on."""

    def __init__(self, plan: Plan, environment: HostEnvironment) -> None:
        self.plan = plan
        labels = [f"seed {seed}" for _ in plan.methods for seed in plan.seeds]
        method, many = method_of_members(plan), len(plan.methods) > 1
        self._training = HostTraining(environment, plan.policy, method, labels, many_methods=many)
        self._failure: EpisodeError | None = None

    @property
    def capacity(self) -> int:
        return CAPACITY

    def start(self) -> TrainState:
        return self._training.init(member_keys(self.plan))

    def advance(self, state: TrainState, updates: int) -> tuple[TrainState, Metrics]:
        """Fewer than `updates` if the environment raises; the next call then raises it."""
        if self._failure is not None:
            raise self._failure
        if not updates:
            return state, self._training.warm(state)
        rows: list[Metrics] = []
        for _ in range(updates):
            try:
                state, row = self._training.step(state)
            except EpisodeError as failure:
                if not rows:
                    raise
                self._failure = failure
                break
            rows.append(jax.tree.map(np.asarray, row))
        return state, jax.tree.map(lambda *parts: np.stack(parts, axis=1), *rows)

    def carried(self) -> Carried:
        return {}

    def restore(self, carried: Carried) -> tuple[str, ...]:
        del carried
        if not self._training.method.plan.steps:
            return ()
        return ("the copies of the environment began new episodes, as those on the host cannot be kept",)

    def close(self) -> None:
        self._training.close()


def method_of_members(plan: Plan) -> Method:
    """With an axis of members if there are several methods."""
    if len(plan.methods) == 1:
        return jax.tree.map(jnp.asarray, plan.methods[0])
    members = [method for method in plan.methods for _ in plan.seeds]
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *members)


def member_keys(plan: Plan) -> Array:
    """Every method has the same seeds."""
    return jnp.tile(seed_keys(plan.root, plan.seeds), len(plan.methods))


def engine_for(plan: Plan) -> Engine:
    """The engine that can run this plan's environment."""
    if isinstance(plan.environment, HostEnvironment):
        return HostEngine(plan, plan.environment)
    return CompiledEngine(plan)


class Chunk(NamedTuple):
    """Some updates in a row, just made."""

    first: int
    """How many updates were made before it."""
    rows: Metrics
    """[member, update of the chunk]."""
    state: TrainState
    """After it."""
    seconds: float
    """Spent running so far, chunk included, sinks left out."""

    @property
    def last(self) -> int:
        """How many updates have been made now."""
        return self.first + int(self.rows.episodes.shape[1])


@runtime_checkable
class Sink(Protocol):
    """Where chunks go, in order and each once: memory, a run's folder, a logger."""

    def write(self, chunk: Chunk) -> None:
        """Take the chunk; its arrays will not change."""
        ...


class Memory:
    """Keeps all metrics."""

    def __init__(self) -> None:
        self._rows: list[Metrics] = []
        self.last: Chunk | None = None

    def write(self, chunk: Chunk) -> None:
        self._rows.append(chunk.rows)
        self.last = chunk

    def metrics(self) -> Metrics:
        """Of all chunks [member, update]."""
        return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *self._rows)


class Stand(NamedTuple):
    """Where a run stands."""

    state: TrainState
    updates: int
    seconds: float
    """Spent running."""


def drive(
    engine: Engine,
    stand: Stand,
    updates: int,
    sinks: Sequence[Sink],
    *,
    stop: Callable[[Chunk], bool] = lambda chunk: False,
    every: int | None = None,
) -> Stand:
    """Chunks of updates until there are `updates`, `stop` says so or no seed goes on.

    Chunks end at multiples of `every`.
    """
    size = min(FIRST_CHUNK, engine.capacity)
    while stand.updates < updates:
        count = min(size, updates - stand.updates)
        if every is not None:
            count = min(count, every - stand.updates % every)
        before = time.perf_counter()
        state, rows = engine.advance(stand.state, count)
        spent = time.perf_counter() - before
        chunk = Chunk(stand.updates, rows, state, stand.seconds + spent)
        stand = Stand(state, chunk.last, chunk.seconds)
        for sink in sinks:
            sink.write(chunk)
        size = max(1, min(engine.capacity, round(count * min(4.0, SECONDS_BETWEEN_REPORTS / max(spent, 1e-4)))))
        if stop(chunk) or np.asarray(rows.frozen)[:, -1].all():
            break
    return stand
