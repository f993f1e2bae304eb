"""Blocks: the piece of an experiment that runs in one compiled program, and is kept when it is done.

A block is up to `MEMBERS` pairs (variant, seed) whose methods differ in numbers only, so all blocks of a kind share
their programs. Seed i has the same key in every variant and block, and its episodes do not depend on who runs beside
it.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pgsom.baselines import ConstantBaseline
from pgsom.environments import Environment, make
from pgsom.experiments.as_run import FixedStart, start_state
from pgsom.experiments.evaluation import play_all, starts
from pgsom.experiments.printed import Variant
from pgsom.experiments.protocols import Protocol
from pgsom.experiments.variants import is_measured, method_of, updates_of
from pgsom.methods import Method
from pgsom.policies import Policy, make_policy
from pgsom.training import init_program, seed_keys, train_program

Tree = Any
MEMBERS = 50
"""More are not faster on few cores, and fewer can be kept sooner."""
STREAM = 0x65000000
"""Evaluations have keys apart from those of training."""


class StoppedError(Exception):
    """The run was asked to stop; what is finished is kept."""


class Trained(NamedTuple):
    """One variant over some seeds: [seed, evaluation], or [evaluation] for what all seeds share."""

    updates: NDArray[np.integer]
    episodes: NDArray[np.integer]
    """Played so far, every stage of every update counted [evaluation]."""
    env_steps: NDArray[np.integer]
    scores: NDArray[np.floating]
    negative: NDArray[np.floating]
    """Share of negative entries in the curvature, since the evaluation before; 0 without curvature."""
    alignment: NDArray[np.floating]
    """Mean cosine between an update's direction and the gradient of its batch, since the evaluation before."""
    skipped: NDArray[np.integer]
    """Updates left out because something was not finite [seed]."""


@dataclass(frozen=True)
class Cell:
    """A variant over some seeds, with the learning rate it is given (none: the protocol's)."""

    variant: Variant
    rate: float | None
    root: int
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Lengths:
    """Episodes of an evaluation: of the last one, which makes the table, and of those before."""

    last: int
    before: int


def blocks_of(cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
    """Cells that share a program, side by side in blocks of `MEMBERS`; all blocks of a kind have one shape."""
    size = max(1, MEMBERS // max(len(cell.seeds) for cell in cells))
    count = -(-len(cells) // size)
    each = -(-len(cells) // count)
    return [tuple(cells[i : i + each]) for i in range(0, len(cells), each)]


def run_block(
    protocol: Protocol,
    cells: Sequence[Cell],
    lengths: Lengths,
    *,
    members: int = 0,
    report: Callable[[int, int, list[float]], None] = lambda done, total, scores: None,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Trained]:
    """Train and evaluate the cells side by side; `members` is the shape that they are padded to.

    `report` is told (evaluations done, evaluations in all, mean score of every cell).
    """
    environment = make(protocol["environment"])
    policy = make_policy(protocol["policy"], environment, hidden=tuple(protocol["hidden"]), activation="tanh")
    pairs = [(cell, seed) for cell in cells for seed in cell.seeds]
    padded = pairs + [pairs[-1]] * (members - len(pairs))
    keys = _keys(padded)
    method = _stacked([method_of(protocol, cell.variant, cell.rate) for cell, _ in padded])
    state = init_program(environment, policy, method, keys, many_methods=True)
    scorer = _Scorer(protocol, environment, policy, keys, len(pairs), max(lengths.last, lengths.before))
    if is_measured(method):
        wanted = np.asarray([cell.variant.stabiliser in protocol["baseline_with"] for cell, _ in padded])
        method = _with_baseline(method, scorer.initial_return(state.params) * wanted)
    every, total = (
        int(protocol["evaluate_every"]),
        updates_of(protocol, method_of(protocol, cells[0].variant, cells[0].rate)),
    )
    rows: list[tuple[Any, ...]] = []
    negative, alignment = np.zeros((2, len(padded)), np.float32)
    for done in range(0, total + 1, every):
        if done:
            state, metrics = train_program(
                environment, policy, method, state, jnp.asarray(every), capacity=every, many_methods=True
            )
            negative = np.asarray(metrics.negative_curvature).mean(axis=1)
            alignment = np.nan_to_num(np.asarray(metrics.alignment)).mean(axis=1)
        if stopped():
            raise StoppedError
        scores = scorer.scores(state.params, done // every, lengths.last if done == total else lengths.before)
        rows.append((done, np.asarray(state.episodes)[0], np.asarray(state.env_steps), scores, negative, alignment))
        report(len(rows), total // every + 1, [float(part.mean()) for part in _split(scores, cells)])
    columns = [np.stack(column, axis=-1) for column in zip(*rows, strict=True)]
    return _cut(columns, np.asarray(state.skipped), cells)


@dataclass
class _Scorer:
    """The protocol's evaluation, of all members at once."""

    protocol: Protocol
    environment: Environment
    policy: Policy
    keys: Array
    members: int
    capacity: int

    def scores(self, params: Tree, number: int, episodes: int) -> NDArray[np.floating]:
        """Each member's mean score over fresh episodes [member]."""
        fixed = self.protocol["evaluation_start"] == "seed 1"
        place = FixedStart(self.environment, start_state()) if fixed else self.environment
        lengths, returns = self._play(place, params, 2 + number, episodes)
        gamma = float(self.protocol["score_discount"])
        # Every step of CartPole pays 1.
        scored = returns if gamma == 1 else gamma * (1 - gamma**lengths) / (1 - gamma)
        return np.asarray(scored.mean(axis=1))

    def initial_return(self, params: Tree) -> NDArray[np.floating]:
        """Each member's mean undiscounted return, for the constant baseline."""
        return np.asarray(self._play(self.environment, params, 1, self.protocol["baseline_episodes"])[1].mean(axis=1))

    def _play(self, place: Environment, params: Tree, stream: int, episodes: int) -> tuple[Any, Any]:
        keys = jax.vmap(lambda key: jax.random.fold_in(key, STREAM + stream))(self.keys)
        first = starts(place, keys, capacity=max(self.capacity, self.protocol.get("baseline_episodes", 0)))
        with _first_time(self.environment, self.policy, first.key.shape):
            outcome = jax.block_until_ready(
                play_all(self.environment, self.policy, params, first, episodes, self.members)
            )
        returns, lengths = (np.asarray(part, np.float64)[:, :episodes] for part in outcome)
        return lengths, returns


_compiling, _compiled = threading.Lock(), set[Any]()


@contextlib.contextmanager
def _first_time(*program: Any) -> Iterator[None]:
    """Alone in here when the program is new, so that blocks side by side do not both compile it."""
    if program in _compiled:
        yield
        return
    with _compiling:
        yield
        _compiled.add(program)


def _keys(pairs: Sequence[tuple[Cell, int]]) -> Array:
    by_root = {cell.root: None for cell, _ in pairs}
    [root] = by_root
    return seed_keys(root, [seed for _, seed in pairs])


def _stacked(methods: Sequence[Method]) -> Method:
    """One method whose numbers have a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.asarray(leaves, np.float32)), *methods)


def _with_baseline(method: Method, value: NDArray[Any]) -> Method:
    baseline = ConstantBaseline(jnp.asarray(value, jnp.float32))
    return replace(method, weighting=replace(method.weighting, baseline=baseline))


def _split(members: NDArray[Any], cells: Sequence[Cell]) -> list[NDArray[Any]]:
    """The members of each cell; padding is left out."""
    ends = np.cumsum([len(cell.seeds) for cell in cells])
    return [members[end - len(cell.seeds) : end] for end, cell in zip(ends, cells, strict=True)]


def _cut(columns: list[NDArray[Any]], skipped: NDArray[Any], cells: Sequence[Cell]) -> list[Trained]:
    updates, episodes, *by_member = columns
    parts = [_split(column, cells) for column in (*by_member, skipped)]
    return [Trained(updates, episodes, *(part[i] for part in parts)) for i in range(len(cells))]
