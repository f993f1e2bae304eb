"""Runs to and from their folders: `save`, `load`, and what is written when a run ends."""

import contextlib
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from pgsom.checks import InputError, check_choice, check_known, wrong
from pgsom.environments import make
from pgsom.methods import make_method
from pgsom.policies import Policy, make_policy, standardised
from pgsom.policies.policy import policy_options
from pgsom.runs import checkpoint as checkpoints
from pgsom.runs import folder as folders
from pgsom.runs.driver import Stand, engine_for
from pgsom.runs.files import SUMS, DamageError, inner_folder, read_listed, read_sums, sweep_up, write
from pgsom.runs.folder import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    POLICY,
    SETTINGS,
    SUMMARY,
    Keeping,
    Telling,
    to_json,
    versions,
)
from pgsom.runs.lock import Lock
from pgsom.runs.plan import Plan, Settings, Words, check_widths
from pgsom.runs.result import Result
from pgsom.runs.rows import METRICS, Rows, read_rows, write_rows
from pgsom.runs.words import report_text
from pgsom.training import trained

__all__ = ["METRICS", "POLICY", "SETTINGS", "SUMMARY", "load", "rebuilt", "save", "summary", "to_json", "versions"]
LARGEST_POLICY = 2**33


def save(result: Result, folder: Path) -> Path:
    """Write the run; the folder may exist, and a run that is in it is replaced."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Lock(folder):
            clear(folder)
            text = folders.settings_text(result.settings, Keeping(), Telling())
            folders.write_settings(folder, text)
            write_rows(folder, 0, result.metrics, result.seeds)
            if result.state is not None:
                stand = Stand(result.state, result.updates, result.run_seconds)
                score = float(np.nan_to_num(result.final_returns().mean(), nan=-np.inf))
                kept = checkpoints.Checkpoint(stand, {}, score, result.compile_seconds, text)
                checkpoints.write_checkpoint(folder, kept)
            finish(folder, result, summary(result))
    except OSError as error:
        raise wrong(
            "out", str(folder), f"cannot be written ({error.strerror}); accepted is a writable folder"
        ) from None
    return folder


def finish(run: Path, result: Result, said: dict[str, Any]) -> None:
    """Policies, summaries, and the checksums of all files with fixed names."""
    import safetensors.numpy

    leaves = {name: np.asarray(leaf) for name, leaf in _named(result.params)}
    write(run / POLICY, safetensors.numpy.save(leaves))
    folders.write_summary(run, said, report_text(said))
    folders.seal(run)


def renew_summary(run: Path, said: dict[str, Any]) -> None:
    """Write another summary over that of a run which has ended, unless somebody has taken it up again."""
    with contextlib.suppress(InputError), Lock(run):
        folders.write_summary(run, said, report_text(said))
        folders.seal(run)


def clear(run: Path) -> None:
    """Remove a run that is to be replaced, the settings last: what is left of it till then is still a run."""
    for name in (checkpoints.CHECKPOINTS, METRICS):
        within = inner_folder(run, name)
        for path in within.iterdir() if within.is_dir() else ():
            path.unlink()
    sweep_up(run)
    for name in (POLICY, SUMMARY, folders.TEXT, folders.LOG, SUMS, SETTINGS):
        (run / name).unlink(missing_ok=True)


def load(path: str | Path, *, checkpoint: str = "last") -> Result:
    """Read a run back whose parts all had names: finished, stopped, or going on.

    Args:
        path: the run's folder.
        checkpoint: which policies: ``"last"``, or ``"best"`` by the mean return since the checkpoint before.
    """
    check_choice("checkpoint", checkpoint, ("last", "best"))
    run = Path(path)
    if not folders.is_run(run):
        raise wrong("path", str(path), f"accepted is the folder of a saved run, with {SETTINGS} in it")
    written = folders.read_settings(run)
    settings = written.settings
    if not settings.rebuildable:
        raise wrong(
            "path", str(path), "a part of this run was an object, not a name; its arrays can be read one by one"
        )
    plan = rebuilt(settings)
    policy, params, seconds, notes = _policies(run, plan, best=checkpoint == "best")
    rows = _whole_rows(run, len(settings.seeds))
    parts = (settings, plan.environment, policy, plan.methods[0], params, rows.metrics)
    return Result(*parts, *seconds, notes=notes)


def rebuilt(settings: Settings) -> Plan:
    """The plan that the settings name."""
    environment = make(settings.environment, **settings.environment_options)
    known = policy_options()
    check_known("policy_options", settings.policy_options, known)
    of_policy = known | settings.policy_options
    of_policy["hidden"] = check_widths(of_policy["hidden"])
    policy = make_policy(settings.policy, environment, **of_policy)
    # TOML has lists where the methods have tuples.
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.options.items()}
    method = replace(make_method(settings.method, **options), planned=float(settings.updates))
    return Plan(environment, policy, (method,), settings.seeds, settings.seed, settings.updates)


def summary(result: Result) -> dict[str, Any]:
    """The run in a few numbers, JSON-ready; what `pgsom train --json` prints."""
    final = result.final
    ended = FAILED if result.frozen.all() else INTERRUPTED
    finished = result.updates >= result.settings.updates or result.reached_target
    return {
        "state": FINISHED if finished else ended,
        "environment": result.settings.environment,
        "method": result.settings.method,
        "policy": result.settings.policy,
        "parameters": result.policy_definition.parameter_count(),
        "seeds": list(result.seeds),
        "updates": result.updates,
        "planned_updates": result.settings.updates,
        "episodes": int(result.episodes[-1]),
        "env_steps": [int(n) for n in result.env_steps[:, -1]],
        "final_return": {"mean": float(final.mean), "low": float(final.low), "high": float(final.high)},
        "final_return_by_seed": [float(r) for r in result.final_returns()],
        "skipped_updates": [int(n) for n in result.skipped],
        "first_failures": [failure._asdict() for failure in result.failures],
        "frozen_seeds": [seed for seed, frozen in zip(result.seeds, result.frozen, strict=True) if frozen],
        "declined_updates": [int(n) for n in result.declined],
        "warnings": list(result.warnings),
        "notes": list(result.notes),
        "compile_seconds": result.compile_seconds,
        "run_seconds": result.run_seconds,
        "steps_per_second": result.steps_per_second,
    }


def beginning(settings: Settings, notes: tuple[str, ...]) -> dict[str, Any]:
    """The summary while a run goes on: what is known before training."""
    return {
        "state": folders.RUNNING,
        "environment": settings.environment,
        "method": settings.method,
        "policy": settings.policy,
        "seeds": list(settings.seeds),
        "planned_updates": settings.updates,
        "notes": list(notes),
    }


def _policies(run: Path, plan: Plan, *, best: bool) -> tuple[Policy, Any, tuple[float, float], tuple[str, ...]]:
    """The policy and its parameters [seed, …], seconds spent compiling and running, and what was damaged on the way."""
    notes: list[str] = []
    if not best and POLICY in read_sums(run):
        try:
            arrays = _arrays(read_listed(run, POLICY, largest=LARGEST_POLICY), run / POLICY)
            timings = json.loads(read_listed(run, SUMMARY))
            policy = plan.policy
            if plan.methods[0].plan.normalise_observations:
                policy = standardised(policy, plan.environment.observation)
            params = _fitting(arrays, jax.eval_shape(policy.init, jax.random.key(0)), len(plan.seeds), run / POLICY)
            return policy, params, (float(timings["compile_seconds"]), float(timings["run_seconds"])), ()
        except (DamageError, FileNotFoundError) as error:
            notes.append(str(error))
    found = _newest_or_best(run, plan, notes, best=best)
    if notes:
        notes.append(f"the policies are those after update {found.stand.updates:,}")
    policy, params = trained(plan.policy, plan.environment.observation, found.stand.state)
    return policy, params, (found.compile_seconds, found.stand.seconds), tuple(notes)


def _newest_or_best(run: Path, plan: Plan, notes: list[str], *, best: bool) -> checkpoints.Checkpoint:
    """A checkpoint that is whole."""
    engine = engine_for(plan)
    try:
        template = engine.start()
    finally:
        engine.close()
    found: list[checkpoints.Checkpoint] = []
    for entry in checkpoints.entries(run):
        try:
            found.append(checkpoints.read_checkpoint(entry, template))
        except FileNotFoundError:
            # Made superfluous by a newer one since it was listed.
            continue
        except DamageError as error:
            notes.append(str(error))
            continue
        if not best:
            break
    if not found:
        why = "; ".join(notes) or f"{run}: no policies yet; accepted once the run has its first checkpoint"
        raise DamageError(why)
    return max(found, key=lambda checkpoint: checkpoint.score)


def _fitting(arrays: Words, shapes: Any, seeds: int, source: Path) -> Any:
    """Parameters of these shapes with an axis of seeds in front."""
    wanted = {name: (seeds, *leaf.shape) for name, leaf in _named(shapes)}
    leaves = {name: arrays.get(name) for name in wanted}
    for name, leaf in leaves.items():
        if leaf is None or leaf.shape != wanted[name]:
            what = "missing" if leaf is None else f"of shape {leaf.shape}"
            raise DamageError(f"{source}: {name or 'the policy'} is {what}; the run's policy has {wanted[name]}")
    return jax.tree.unflatten(jax.tree.structure(shapes), list(leaves.values()))


def _arrays(content: bytes, source: Path) -> Words:
    import safetensors
    import safetensors.numpy

    try:
        return dict(safetensors.numpy.load(content))
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise DamageError(f"{source}: not a safetensors file ({error})") from None


def _whole_rows(run: Path, seeds: int) -> Rows:
    """All rows there should be. A checkpoint never lacks rows, so what it counts is looked up first."""
    for attempt in range(3):
        made = max((entry.updates for entry in checkpoints.entries(run)), default=0)
        if SUMMARY in read_sums(run):
            made = max(made, int(json.loads(read_listed(run, SUMMARY))["updates"]))
        rows = read_rows(run, seeds)
        here = rows.metrics.episodes.shape[1]
        if not rows.damaged and here >= max(made, 1):
            return rows
        # Somebody may just have taken the run up again from an earlier update.
        time.sleep(0.05 * (attempt + 1))
    why = "; ".join(rows.damaged) or f"{run / METRICS}: the rows of update {here:,} are missing"
    raise DamageError(f"{why}; pgsom resume {run} makes them anew")


def _named(tree: Any) -> list[tuple[str, Any]]:
    return list(zip(checkpoints.leaf_names(tree), jax.tree.leaves(tree), strict=True))
