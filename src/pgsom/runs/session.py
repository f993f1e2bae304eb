"""A run in a folder, from wherever it stands to its end: what `train` with ``out`` and `resume` have in common."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax

from pgsom.checks import InputError, wrong
from pgsom.runs import folder as folders
from pgsom.runs import store
from pgsom.runs.checkpoint import Checkpoint, Entry, entries, read_checkpoint
from pgsom.runs.driver import Engine, Stand, drive, engine_for
from pgsom.runs.files import DamageError, disk, inner_folder, sweep_up
from pgsom.runs.folder import Keeping, Telling
from pgsom.runs.lock import Lock
from pgsom.runs.plan import Plan, Settings
from pgsom.runs.recorder import Recorder
from pgsom.runs.report import Report
from pgsom.runs.result import Result
from pgsom.runs.rows import METRICS, cut_rows, read_rows
from pgsom.runs.watching import Watch, Watching
from pgsom.training import TrainState, trained

ASIDE = ".damaged"
"""Added to the name of a checkpoint that cannot be used."""


@contextlib.contextmanager
def held(run: Path) -> Iterator[Lock]:
    """The run's folder, made if need be, and its lock."""
    try:
        run.mkdir(parents=True, exist_ok=True)
        lock = Lock(run)
        lock.__enter__()
    except OSError as error:
        raise wrong("out", str(run), f"cannot be written ({error.strerror}); accepted is a writable folder") from None
    try:
        yield lock
    finally:
        lock.__exit__()


def begin(run: Path, plan: Plan, settings: Settings, keeping: Keeping, telling: Telling, *, replace: bool) -> str:
    """Write the settings of a new run; the lock is held. Returns them as they were written."""
    if folders.is_run(run) and not replace:
        accepted = "a run is there; accepted with resume='auto', with overwrite, or another folder"
        raise wrong("out", str(run), accepted)
    text = folders.settings_text(settings, keeping, telling)
    with disk(run):
        store.clear(run)
        folders.write_settings(run, text)
        folders.log(run, f"begun: {settings.method} on {settings.environment}, {plan.updates:,} updates")
    return text


def go_on(
    run: Path,
    plan: Plan,
    settings: Settings,
    keeping: Keeping,
    *,
    text: str,
    watch: Watch,
    notes: tuple[str, ...] = (),
    recorders: list[Recorder] | None = None,
) -> Result:
    """Train on from the newest checkpoint that is whole; the lock is held."""
    engine = engine_for(plan)
    try:
        started = time.perf_counter()
        first = engine.start()
        with disk(run):
            stand, compiled, scores, happened = _taken_up(run, engine, first, settings)
            notes += happened
            folders.write_summary(run, store.beginning(settings, notes), f"# {settings.method}: training goes on\n")
        if stand.updates < plan.updates:
            engine.advance(first, 0)
            compiled += time.perf_counter() - started
        steps = int(stand.state.env_steps.sum())
        report = Report(plan, watch.callback, updates=stand.updates, env_steps=steps)
        watching = Watching(watch, plan, settings, report, run)
        recorder = Recorder(
            run, plan.seeds, keeping, engine.carried, settings=text, compile_seconds=compiled, scores=scores
        )
        if recorders is not None:
            recorders.append(recorder)
        goal = stand.updates if watching.over(stand) else plan.updates
        stand = _driven(run, engine, stand, goal, recorder, watching, watch.every(keeping.updates))
    finally:
        engine.close()
    ready, params = trained(plan.policy, plan.environment.observation, stand.state)
    notes = tuple(dict.fromkeys(notes + watching.notes()))
    with disk(run):
        rows = read_rows(run, len(plan.seeds))
        parts = (settings, plan.environment, ready, plan.methods[0], params, rows.metrics)
        spent = (compiled, stand.seconds)
        result = Result(*parts, *spent, stand.state, notes, tuple(watching.evaluations), watching.reached)
        said = store.summary(result)
        store.finish(run, result, said)
        folders.log(run, f"{said['state']} at update {stand.updates:,} of {plan.updates:,}")
    return result


def _driven(
    run: Path, engine: Engine, stand: Stand, goal: int, recorder: Recorder, watching: Watching, every: int | None
) -> Stand:
    """`drive`, after which all is on the disk, whatever ended it."""
    try:
        sinks = [recorder, *watching.loggers]
        with contextlib.closing(watching):
            return drive(engine, stand, goal, sinks, stop=watching.stop, every=every)
    except Exception as error:
        recorder.close()
        with disk(run):
            folders.mark_failed(run, f"{type(error).__name__}: {error}")
        raise
    finally:
        recorder.close()


def _taken_up(
    run: Path, engine: Engine, first: TrainState, settings: Settings
) -> tuple[Stand, float, dict[str, float], tuple[str, ...]]:
    """Where to go on from, seconds spent compiling before, the scores of checkpoints, and what happened."""
    for folder in (run, inner_folder(run, "checkpoints"), inner_folder(run, METRICS)):
        if folder.is_dir():
            sweep_up(folder)
    rows = read_rows(run, len(settings.seeds))
    whole = rows.metrics.episodes.shape[1]
    found, scores, useless = _checkpoints(run, first, settings, whole)
    notes = [*rows.damaged, *useless.values()]
    stand, compiled = Stand(first, 0, 0.0), 0.0
    if found is not None:
        stand, compiled = found.stand, found.compile_seconds
        notes += engine.restore(found.carried)
    if notes or stand.updates:
        here = f"taken up after update {stand.updates:,}"
        notes = [*notes, here] if notes else notes
        folders.log(run, "; ".join(notes) or here)
    for entry in useless:
        # Before rows are cut: a checkpoint never lacks rows.
        entry.path.replace(entry.path.with_name(entry.path.name + ASIDE))
    cut_rows(run, stand.updates, settings.seeds)
    return stand, compiled, scores, tuple(notes)


def _checkpoints(
    run: Path, first: TrainState, settings: Settings, whole: int
) -> tuple[Checkpoint | None, dict[str, float], dict[Entry, str]]:
    """The newest that can be used, all scores, and why others cannot be used."""
    found: Checkpoint | None = None
    scores: dict[str, float] = {}
    useless: dict[Entry, str] = {}
    for entry in entries(run):
        try:
            checkpoint = read_checkpoint(entry, first)
            if difference := _another(checkpoint, settings):
                raise DamageError(f"{entry.path}: of another run ({difference})")
            if entry.updates > whole:
                raise DamageError(f"{entry.path}: left aside, as rows of metrics before it are not whole")
        except DamageError as error:
            useless[entry] = str(error)
            continue
        scores[entry.path.name] = checkpoint.score
        found = found or checkpoint
    return found, scores, useless


def _another(checkpoint: Checkpoint, settings: Settings) -> str:
    """In what the checkpoint's settings differ from the run's; empty if in nothing but the budget."""
    own = folders.parse_settings(checkpoint.settings.encode(), "its settings").settings
    return settings_difference(own, settings)


def settings_difference(one: Settings, other: Settings) -> str:
    """The first setting in which two runs differ, their budgets apart; empty if they are one run."""
    first, second = (_flat(folders.plain(asdict(settings) | {"updates": 0})) for settings in (one, other))
    for name in first | second:
        if first.get(name) != second.get(name):
            there, here = (repr(found[name]) if name in found else "not given" for found in (first, second))
            return f"{name} is {there} there, {here} here"
    return ""


def _flat(table: dict[str, Any]) -> dict[str, Any]:
    """Options beside what they are the options of."""
    inner = [value for value in table.values() if isinstance(value, dict)]
    return {name: value for part in (table, *inner) for name, value in part.items() if not isinstance(value, dict)}


@contextlib.contextmanager
def as_it_was_set_up(written: folders.Written) -> Iterator[None]:
    """With the precision that the run began with."""
    with jax.enable_x64(bool(written.platform.get("x64", False))):
        yield


def check_readable(run: Path) -> folders.Written:
    """The settings of a run that is to be carried on."""
    if not folders.is_run(run):
        raise wrong("run", str(run), f"accepted is the folder of a run, with {folders.SETTINGS} in it")
    written = folders.read_settings(run)
    if not written.settings.rebuildable:
        raise InputError(
            f"{run}: a part of this run was an object, not a name; pgsom.train(…, out=…, resume='auto') with the same "
            "objects carries it on"
        )
    return written
