"""``pgsom.train``: names and numbers in, a `Result` out."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax

from pgsom.checks import check_choice, check_count, wrong
from pgsom.environments import EpisodeError, make
from pgsom.methods import Method, make_method
from pgsom.policies import Policy, make_policy
from pgsom.policies.policy import policy_options
from pgsom.runs.driver import CAPACITY, Memory, Stand, drive, engine_for
from pgsom.runs.files import disk
from pgsom.runs.folder import Keeping, differences, is_run, read_settings, settings_text, standing, write_settings
from pgsom.runs.loggers import Logger
from pgsom.runs.plan import (
    DEFAULT_EPISODES,
    Plan,
    Settings,
    budget,
    check_seeds,
    check_widths,
    default_policy,
    described,
    described_method,
    same_structure,
)
from pgsom.runs.recorder import Recorder
from pgsom.runs.report import Callback, Progress, Report
from pgsom.runs.result import Result
from pgsom.runs.session import as_it_was_set_up, begin, check_readable, go_on, held, settings_difference
from pgsom.runs.store import rebuilt
from pgsom.runs.watching import EvaluationCallback, Watch, Watching, watch_again
from pgsom.training import TrainState, trained

Tree = Any
KEEPING = Keeping()
__all__ = ["CAPACITY", "DEFAULT_EPISODES", "Callback", "Progress", "default_policy", "resume", "sweep", "train"]


def train(
    environment: Any = "CartPole-v1",
    method: str | Method = "pg-som",
    *,
    seeds: int | Sequence[int] = 1,
    episodes: int | None = None,
    updates: int | None = None,
    env_steps: int | None = None,
    policy: str | Policy | None = None,
    hidden: Sequence[int] = (64, 64),
    activation: str = "tanh",
    seed: int = 0,
    environment_options: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
    out: str | Path | None = None,
    resume: str | None = None,
    overwrite: bool = False,
    checkpoint_seconds: float = KEEPING.seconds,
    checkpoint_updates: int = KEEPING.updates,
    keep: int = KEEPING.last,
    log: str | Sequence[str | Logger] = (),
    evaluate_every: int = 0,
    evaluation_episodes: int = 20,
    on_evaluation: EvaluationCallback | None = None,
    target_return: float | None = None,
    _recorders: list[Recorder] | None = None,
    **options: Any,
) -> Result:
    """Train `seeds` independent policies side by side.

    Args:
        environment: a registered name (`pgsom list`) or an `Environment`.
        method: a registered name, its options then being further keyword arguments, or an assembled `Method`.
        seeds: how many seeds (0, 1, …), or which. Seed i is the same whatever the others.
        episodes: budget of each seed, every stage of every update counted; 500 unless `updates` is given.
        updates: budget as a number of updates, instead of `episodes`.
        env_steps: budget as a number of environment steps, for methods whose batches are of so many ``steps``.
        policy: ``"mlp"``, ``"linear"``, ``"tabular"`` or a `Policy`; by default what suits the observations.
        hidden: widths of the hidden layers of ``"mlp"``.
        activation: activation of the hidden layers of ``"mlp"``.
        seed: root of all randomness.
        environment_options: what the named environment is made with, for instance ``{"masspole": 0.2}``.
        callback: called with `Progress` after each chunk of updates; returning True ends the run there.
        out: a folder that keeps the run while it goes on (docs/runs.md), so that it can be carried on.
        resume: ``"auto"`` carries on the run in `out` if there is one, perhaps to a larger budget.
        overwrite: replace the run in `out` if there is one.
        checkpoint_seconds: from one checkpoint to the next.
        checkpoint_updates: the same in updates; 0: only by the clock.
        keep: how many checkpoints stay, beside the best.
        log: loggers by name (``"jsonl,tensorboard"``, which write into `out`) or your own (docs/watching.md).
        evaluate_every: after so many updates, and again, the policies play fresh episodes; 0: never.
        evaluation_episodes: how many, for each seed.
        on_evaluation: called with each `Evaluation`; returning True ends the run there.
        target_return: a mean return of an evaluation that ends the run.
        options: the named method's options, for instance ``learning_rate=0.02, curvature="causal"``, and the named
            policy's (`make_policy`), for instance ``layer_norm=True``.
    """
    of_policy = {name: options.pop(name) for name in policy_options() if name in options}
    parts = _Parts(environment, dict(environment_options or {}), policy, of_policy, hidden, activation)
    made = [make_method(method, **options)]
    told = (callback, log, evaluate_every, evaluation_episodes, on_evaluation, target_return)
    watch = Watch(*told, kept=out is not None)
    ((_, plan, (settings,)),) = _plans(
        parts, made, [described_method(method, options)], seeds, (episodes, updates, env_steps), seed
    )
    if out is None:
        for name, given in (("resume", resume), ("overwrite", overwrite)):
            if given:
                raise wrong(name, given, "accepted only together with out, the run's folder")
        return _in_memory(plan, [settings], watch)[0]
    check_choice("resume", resume or "auto", ("auto",))
    keeping = Keeping(checkpoint_seconds, checkpoint_updates, keep)
    run = Path(out)
    with held(run):
        if resume and is_run(run):
            return _carry_on(run, plan, settings, keeping, watch, recorders=_recorders)
        text = begin(run, plan, settings, keeping, watch.telling(), replace=overwrite)
        return go_on(run, plan, settings, keeping, text=text, watch=watch, recorders=_recorders)


def resume(
    run: str | Path,
    *,
    episodes: int | None = None,
    updates: int | None = None,
    env_steps: int | None = None,
    callback: Callback | None = None,
    checkpoint_seconds: float | None = None,
    checkpoint_updates: int | None = None,
    keep: int | None = None,
    log: str | Sequence[str | Logger] | None = None,
    evaluate_every: int | None = None,
    evaluation_episodes: int | None = None,
    on_evaluation: EvaluationCallback | None = None,
    target_return: float | None = None,
    _recorders: list[Recorder] | None = None,
) -> Result:
    """Carry a run on from its newest checkpoint that is whole, to the same bits as if it had never stopped.

    Args:
        run: its folder.
        episodes: a new budget of each seed, the episodes so far included; by default the budget it was begun with.
        updates: the same in updates.
        env_steps: the same in environment steps, for methods that play so many at a time.
        callback: as in `train`.
        checkpoint_seconds: from one checkpoint to the next; like the others by default as it was begun with.
        checkpoint_updates: the same in updates; 0: only by the clock.
        keep: how many checkpoints stay, beside the best.
        log: as in `train`, like all that follows; ``()`` for none.
        evaluate_every: after so many updates the policies are evaluated; 0: never, and the target counts no more.
        evaluation_episodes: how many, for each seed.
        on_evaluation: called with each `Evaluation`.
        target_return: a mean return of an evaluation that ends the run.
    """
    folder = Path(run)
    told = {"evaluate_every": evaluate_every, "evaluation_episodes": evaluation_episodes}
    watch = watch_again(check_readable(folder).telling, callback, log, on_evaluation, target_return, **told)
    with held(folder):
        # Read again: whoever held the lock till now may have changed it.
        written = check_readable(folder)
        with as_it_was_set_up(written):
            plan = rebuilt(written.settings)
            settings = written.settings
            if (episodes, updates, env_steps) != (None, None, None):
                settings = replace(settings, updates=budget(plan.methods[0], episodes, updates, env_steps))
                plan = rebuilt(settings)
            given: dict[str, Any] = {"seconds": checkpoint_seconds, "updates": checkpoint_updates, "last": keep}
            keeping = replace(written.keeping, **{name: value for name, value in given.items() if value is not None})
            return _carry_on(folder, plan, settings, keeping, watch, recorders=_recorders)


def sweep(
    environment: Any,
    methods: Sequence[Method],
    *,
    seeds: int | Sequence[int] = 1,
    episodes: int | None = None,
    updates: int | None = None,
    env_steps: int | None = None,
    policy: str | Policy | None = None,
    hidden: Sequence[int] = (64, 64),
    activation: str = "tanh",
    seed: int = 0,
    environment_options: Mapping[str, Any] | None = None,
    policy_options: Mapping[str, Any] | None = None,
    callback: Callback | None = None,
) -> list[Result]:
    """Train several methods, each over the same seeds; those that differ only in numbers share one program.

    Returns one `Result` for each method, in their order. The other arguments are those of `train`.
    """
    if not methods:
        raise wrong("methods", list(methods), "accepted is at least one method")
    for method in methods:
        if not isinstance(method, Method):
            raise wrong("methods", method, "accepted are methods, such as make_method('pg-som', damping=0.3)")
    watch = Watch(callback)
    options = dict(environment_options or {}), dict(policy_options or {})
    parts = _Parts(environment, options[0], policy, options[1], hidden, activation)
    written: list[tuple[str, dict[str, Any] | None]] = [(method.name, None) for method in methods]
    results: dict[int, Result] = {}
    for group, plan, settings in _plans(parts, methods, written, seeds, (episodes, updates, env_steps), seed):
        results |= dict(zip(group, _in_memory(plan, settings, watch), strict=True))
    return [results[index] for index in range(len(methods))]


class _Parts(NamedTuple):
    """Environment and policy as the caller gave them."""

    environment: Any
    environment_options: dict[str, Any]
    policy: str | Policy | None
    policy_options: dict[str, Any]
    hidden: Sequence[int]
    activation: str


def _plans(
    parts: _Parts,
    methods: Sequence[Method],
    written: Sequence[tuple[str, dict[str, Any] | None]],
    seeds: int | Sequence[int],
    amount: tuple[int | None, int | None, int | None],
    seed: int,
) -> list[tuple[list[int], Plan, list[Settings]]]:
    """For methods of one structure each: their indices, what is to be run, and that in words."""
    env = make(parts.environment, **parts.environment_options)
    chosen = check_seeds(seeds)
    check_count("seed", seed, at_least=0, at_most=2**31 - 1)
    if isinstance(parts.policy, Policy) and parts.policy_options:
        given = sorted(parts.policy_options)
        raise wrong("policy_options", given, "accepted only with a policy's name; this policy is assembled")
    of_policy = parts.policy_options | {"hidden": check_widths(parts.hidden), "activation": parts.activation}
    definition = make_policy(parts.policy or default_policy(env), env, **of_policy)
    found = []
    for group in same_structure(methods):
        total = budget(methods[group[0]], *amount)
        planned = tuple(replace(methods[i], planned=float(total)) for i in group)
        plan = Plan(env, definition, planned, chosen, seed, total)
        named = (parts.environment, parts.environment_options), (parts.policy, of_policy)
        found.append((group, plan, [described(plan, *named, written[i]) for i in group]))
    return found


def _carry_on(
    run: Path,
    plan: Plan,
    settings: Settings,
    keeping: Keeping,
    watch: Watch,
    *,
    recorders: list[Recorder] | None,
) -> Result:
    """Check that it is the same run, renew its settings if the budget has grown, and go on."""
    written = read_settings(run)
    if settings.rebuildable and (difference := settings_difference(written.settings, settings)):
        raise wrong("out", str(run), f"another run is there: {difference}; accepted is another folder, or overwrite")
    made = standing(run).updates
    if plan.updates < made and plan.updates < written.settings.updates:
        raise wrong("updates", plan.updates, f"the run has made {made:,}; accepted is a larger budget")
    changed = differences(written)
    notes = (*_earlier_notes(run), *([f"carried on with {', '.join(changed)}"] if changed else []))
    text = settings_text(settings, keeping, watch.telling())
    with disk(run):
        write_settings(run, text)
    return go_on(run, plan, settings, keeping, text=text, watch=watch, notes=notes, recorders=recorders)


def _earlier_notes(run: Path) -> tuple[str, ...]:
    notes = standing(run).summary.get("notes", [])
    return tuple(note for note in notes if isinstance(note, str)) if isinstance(notes, list) else ()


def _in_memory(plan: Plan, settings: Sequence[Settings], watch: Watch) -> list[Result]:
    """Run the plan and keep nothing on disk. What ends it early carries the results there are."""
    started = time.perf_counter()
    engine = engine_for(plan)
    state = engine.start()
    engine.advance(state, 0)
    compiled = time.perf_counter() - started
    memory, report = Memory(), Report(plan, watch.callback)
    watching = Watching(watch, plan, settings[0], report, None)

    def results(state: TrainState) -> list[Result]:
        ran, rows = time.perf_counter() - report.started, memory.metrics()
        found = []
        for place, (method, words) in enumerate(zip(plan.methods, settings, strict=True)):
            own, metrics = (_part(tree, place, len(plan.seeds)) for tree in (state, rows))
            ready, params = trained(plan.policy, plan.environment.observation, own)
            parts = (words, plan.environment, ready, method, params, metrics)
            seen = watching.notes(), tuple(watching.evaluations), watching.reached
            found.append(Result(*parts, compiled, ran, own, *seen))
        return found

    try:
        sinks, every = [memory, *watching.loggers], watch.every()
        with contextlib.closing(watching):
            stand = drive(engine, Stand(state, 0, 0.0), plan.updates, sinks, stop=watching.stop, every=every)
        return results(stand.state)
    except EpisodeError as error:
        if memory.last is not None:
            error.results = tuple(results(memory.last.state))
        raise
    finally:
        engine.close()


def _part(tree: Tree, place: int, seeds: int) -> Any:
    """The members of one method."""
    return jax.tree.map(lambda leaf: leaf[place * seeds : (place + 1) * seeds], tree)
