"""A protocol, run: every variant over every seed, tuned first where the protocol says so, finished parts reused."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple
from typing import Protocol as Interface

import jax
import numpy as np

from pgsom.experiments.blocks import MEMBERS, Cell, Lengths, Trained, blocks_of, run_block
from pgsom.experiments.printed import Variant
from pgsom.experiments.protocols import Protocol
from pgsom.experiments.store import Part, digest_of, read_part, write_part
from pgsom.experiments.variants import method_of, rates_of

ROOT, TUNING_ROOT = 0, 1
WORKERS = 2
"""Compiled programs that run side by side; one of our small programs keeps about one core busy."""


class Listener(Interface):
    """Who is told how far the study is."""

    def begin(self, protocol: str, stage: str, cells: Sequence[Cell]) -> None:
        """These cells are about to run, or are taken from what is kept."""
        ...

    def advance(self, cell: Cell, share: float, score: float) -> None:
        """A cell is through with this share of its evaluations; its mean score now."""
        ...

    def kept(self, cell: Cell) -> None:
        """A cell was there already."""
        ...


@dataclass(frozen=True)
class Setup:
    """How much, where finished parts are kept, and who is told."""

    seeds: int
    lengths: Lengths
    parts: Path | None
    listener: Listener
    fresh: bool = False
    stop: Event = field(default_factory=Event)


class Try(NamedTuple):
    """A learning rate (or KL radius) that was tried, and its mean final score over the tuning seeds."""

    variant: Variant
    rate: float
    score: float
    chosen: bool


class Study(NamedTuple):
    """A protocol's outcome."""

    protocol: Protocol
    trained: dict[Variant, Trained]
    tries: tuple[Try, ...]
    seconds: float
    """Of all blocks, added up; two run side by side."""
    reused: int
    """Parts that were there already."""


def run_study(protocol: Protocol, variants: Sequence[Variant], setup: Setup) -> Study:
    """Tune if the protocol has rates to try, then train every variant over all seeds."""
    pieces = _pieces(setup.seeds)
    tuning = _tuning_cells(protocol, variants)
    # A rate does not change the program, so one shape does for tuning and runs.
    unrated = [Cell(cell.variant, 1.0, cell.root, cell.seeds) for cell in tuning]
    unrated += [Cell(variant, 1.0, ROOT, piece) for variant in variants for piece in pieces]
    members = max(sum(len(cell.seeds) for cell in block) for block in _blocks(protocol, unrated))
    tries = _tune(protocol, tuning, setup, members)
    rate = {tried.variant: tried.rate for tried in tries if tried.chosen}
    cells = [Cell(variant, rate.get(variant), ROOT, piece) for variant in variants for piece in pieces]
    parts, reused = _run(protocol, cells, setup, "runs", members)
    trained = {
        variant: _joined([parts[cell].trained for cell in cells if cell.variant == variant]) for variant in variants
    }
    return Study(protocol, trained, tries, sum(part.seconds for part in parts.values()), reused)


def _tuning_cells(protocol: Protocol, variants: Sequence[Variant]) -> list[Cell]:
    """The same number of rates, seeds and episodes for every variant; none where the paper gives the rate."""
    seeds = tuple(range(protocol.get("tuning_seeds", 0)))
    return [Cell(variant, rate, TUNING_ROOT, seeds) for variant in variants for rate in rates_of(protocol, variant)]


def _tune(protocol: Protocol, cells: Sequence[Cell], setup: Setup, members: int) -> tuple[Try, ...]:
    """The rate with the best mean final score is chosen."""
    if not cells:
        return ()
    quick = Lengths(setup.lengths.before, setup.lengths.before)
    parts, _ = _run(protocol, cells, replace(setup, lengths=quick), "tuning", members)
    scores = {cell: float(parts[cell].trained.scores[:, -1].mean()) for cell in cells}
    tried = dict.fromkeys(cell.variant for cell in cells)
    best = {variant: max((c for c in cells if c.variant == variant), key=scores.__getitem__) for variant in tried}
    return tuple(Try(c.variant, float(c.rate or 0), scores[c], c == best[c.variant]) for c in cells)


def _run(
    protocol: Protocol, cells: Sequence[Cell], setup: Setup, stage: str, members: int
) -> tuple[dict[Cell, Part], int]:
    """Every cell, from what is kept or by training; blocks of different programs side by side."""
    setup.listener.begin(protocol.name, stage, cells)
    digests = {cell: digest_of(protocol, cell, setup.lengths) for cell in cells}
    kept = {} if setup.fresh or setup.parts is None else _kept(setup.parts, digests)
    for cell in kept:
        setup.listener.kept(cell)
    blocks = _blocks(protocol, [cell for cell in cells if cell not in kept])
    done = dict(kept)

    def work(block: tuple[Cell, ...]) -> dict[Cell, Part]:
        return _work(protocol, block, members, setup)

    def keep(future: Future[dict[Cell, Part]]) -> None:
        for cell, part in future.result().items():
            done[cell] = part
            if setup.parts is not None:
                write_part(setup.parts, digests[cell], part)

    with ThreadPoolExecutor(WORKERS) as pool:
        waiting: set[Future[dict[Cell, Part]]] = {pool.submit(work, block) for block in blocks}
        try:
            while waiting:
                # With a time limit, so that Ctrl-C is noticed.
                finished, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    keep(future)
                    waiting.remove(future)
        except BaseException:
            setup.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            # What was finished meanwhile is not lost to the one that failed.
            for future in waiting:
                if not future.cancelled() and future.exception() is None:
                    keep(future)
            raise
    return done, len(kept)


def _work(protocol: Protocol, block: tuple[Cell, ...], members: int, setup: Setup) -> dict[Cell, Part]:
    """One block, told to the listener cell by cell."""

    def report(evaluated: int, total: int, scores: list[float]) -> None:
        for cell, score in zip(block, scores, strict=True):
            setup.listener.advance(cell, evaluated / total, score)

    started = time.perf_counter()
    trained = run_block(protocol, block, setup.lengths, members=members, report=report, stopped=setup.stop.is_set)
    share = (time.perf_counter() - started) / len(block)
    return {cell: Part(outcome, share) for cell, outcome in zip(block, trained, strict=True)}


def _kept(folder: Path, digests: Mapping[Cell, str]) -> dict[Cell, Part]:
    found = {cell: read_part(folder, digest) for cell, digest in digests.items()}
    return {cell: part for cell, part in found.items() if part is not None}


def _blocks(protocol: Protocol, cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
    """Blocks of every kind of program, one of each kind in turn: what runs side by side compiles side by side."""
    kinds: dict[Any, list[Cell]] = {}
    for cell in cells:
        kind = jax.tree.structure(method_of(protocol, cell.variant, cell.rate)), cell.root
        kinds.setdefault(kind, []).append(cell)
    queues = [blocks_of(group) for group in kinds.values()]
    longest = max(map(len, queues), default=0)
    return [queue[i] for i in range(longest) for queue in queues if i < len(queue)]


def _pieces(seeds: int) -> list[tuple[int, ...]]:
    """All seeds in pieces of at most `MEMBERS`, as even as can be."""
    count = -(-seeds // MEMBERS)
    return [tuple(int(seed) for seed in piece) for piece in np.array_split(np.arange(seeds), count)]


def _joined(parts: Sequence[Trained]) -> Trained:
    """Pieces of seeds in one."""
    first = parts[0]
    by_seed = [np.concatenate([part[k] for part in parts]) for k in range(2, len(Trained._fields))]
    return Trained(first.updates, first.episodes, *by_seed)
