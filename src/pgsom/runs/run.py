"""``pgsom.train``: names and numbers in, a `Result` out."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from pgsom.checks import check_count, wrong
from pgsom.environments import EpisodeError, make
from pgsom.methods import Method, make_method
from pgsom.policies import Policy, make_policy
from pgsom.policies.policy import policy_options
from pgsom.runs.driver import CAPACITY, Chunk, Memory, Stand, drive, engine_for
from pgsom.runs.plan import (
    DEFAULT_EPISODES,
    Plan,
    budget,
    check_seeds,
    check_widths,
    default_policy,
    described,
    described_method,
    same_structure,
)
from pgsom.runs.result import Result
from pgsom.training import Metrics, TrainState, trained

Tree = Any
__all__ = ["CAPACITY", "DEFAULT_EPISODES", "Callback", "Progress", "default_policy", "sweep", "train"]


class Progress(NamedTuple):
    """Where a run stands; given to the callback after each chunk of updates."""

    updates: int
    total_updates: int
    episodes: int
    """Episodes of each seed that goes on."""
    env_steps: int
    """Environment steps of all seeds."""
    mean_return: float
    """Over seeds and the chunk's updates, those that have a return; NaN if none has."""
    steps_per_second: float
    seconds_left: float
    chunk: Metrics
    """The chunk's metrics [seed, update of the chunk]."""


Callback = Callable[[Progress], bool | None]


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
    **options: Any,
) -> Result:
    """Train `seeds` independent policies side by side.

    Args:
        environment: a registered name (`pgsom list`), an `Environment`, or one of Gymnasium's: its id, an instance, a
            function that makes one.
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
        options: the named method's options, for instance ``learning_rate=0.02, curvature="causal"``, and the named
            policy's (`make_policy`), for instance ``layer_norm=True``.
    """
    of_policy = {name: options.pop(name) for name in policy_options() if name in options}
    return sweep(
        environment,
        [make_method(method, **options)],
        seeds=seeds,
        episodes=episodes,
        updates=updates,
        env_steps=env_steps,
        policy=policy,
        hidden=hidden,
        activation=activation,
        seed=seed,
        environment_options=environment_options,
        policy_options=of_policy,
        callback=callback,
        _written=[described_method(method, options)],
    )[0]


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
    _written: Sequence[tuple[str, dict[str, Any] | None]] | None = None,
) -> list[Result]:
    """Train several methods, each over the same seeds; those that differ only in numbers share one program.

    Returns one `Result` for each method, in their order. The other arguments are those of `train`.
    """
    if not methods:
        raise wrong("methods", list(methods), "accepted is at least one method")
    for method in methods:
        if not isinstance(method, Method):
            raise wrong("methods", method, "accepted are methods, such as make_method('pg-som', damping=0.3)")
    if callback is not None and not callable(callback):
        raise wrong("callback", callback, "accepted is a function of Progress")
    of_environment, of_policy = dict(environment_options or {}), dict(policy_options or {})
    env = make(environment, **of_environment)
    chosen = check_seeds(seeds)
    check_count("seed", seed, at_least=0, at_most=2**31 - 1)
    if isinstance(policy, Policy) and of_policy:
        raise wrong("policy_options", sorted(of_policy), "accepted only with a policy's name; this policy is assembled")
    of_policy |= {"hidden": check_widths(hidden), "activation": activation}
    definition = make_policy(policy or default_policy(env), env, **of_policy)
    written = list(_written) if _written else [(method.name, None) for method in methods]
    results: dict[int, Result] = {}
    for group in same_structure(methods):
        total = budget(methods[group[0]], episodes, updates, env_steps)
        planned = tuple(replace(methods[i], planned=float(total)) for i in group)
        plan = Plan(env, definition, planned, chosen, seed, total)
        ran = _run(plan, callback)
        for place, index in enumerate(group):
            settings = described(plan, (environment, of_environment), (policy, of_policy), written[index])
            state, metrics = (_part(tree, place, len(chosen)) for tree in ran[:2])
            ready, params = trained(definition, env.observation, state)
            parts = (settings, env, ready, methods[index], params, metrics)
            results[index] = Result(*parts, *ran[2:4], state)
        if ran[4] is not None:
            ran[4].results = tuple(results.values())
            raise ran[4]
    return [results[index] for index in range(len(methods))]


def _run(plan: Plan, callback: Callback | None) -> tuple[TrainState, Metrics, float, float, EpisodeError | None]:
    """The members' last state, their metrics, seconds spent compiling and running, and what ended the run early."""
    started = time.perf_counter()
    engine = engine_for(plan)
    state = engine.start()
    engine.advance(state, 0)
    compiled = time.perf_counter() - started
    memory = Memory()
    report = Report(plan.updates, callback)
    failure = None
    try:
        state = drive(engine, Stand(state, 0, 0.0), plan.updates, [memory], stop=report).state
    except EpisodeError as error:
        if memory.last is None:
            raise
        state, failure = memory.last.state, error
    finally:
        engine.close()
    return state, memory.metrics(), compiled, time.perf_counter() - report.started, failure


class Report:
    """Tells the callback of each chunk, and whether it asked to stop."""

    def __init__(self, total: int, callback: Callback | None, *, updates: int = 0, env_steps: int = 0) -> None:
        self.total, self.callback = total, callback
        self.started = time.perf_counter()
        self._before = (updates, env_steps)

    def __call__(self, chunk: Chunk) -> bool:
        return self.callback is not None and bool(self.callback(self._progress(chunk)))

    def _progress(self, chunk: Chunk) -> Progress:
        elapsed = time.perf_counter() - self.started
        updates, env_steps = self._before
        steps = int(np.asarray(chunk.rows.env_steps)[:, -1].sum())
        returns = np.asarray(chunk.rows.episode_return)
        returns = returns[np.isfinite(returns)]
        return Progress(
            updates=chunk.last,
            total_updates=self.total,
            episodes=int(np.asarray(chunk.rows.episodes)[:, -1].max()),
            env_steps=steps,
            mean_return=float(returns.mean()) if returns.size else float("nan"),
            steps_per_second=(steps - env_steps) / elapsed,
            seconds_left=elapsed / (chunk.last - updates) * (self.total - chunk.last),
            chunk=chunk.rows,
        )


def _part(tree: Tree, place: int, seeds: int) -> Any:
    """The members of one method."""
    return jax.tree.map(lambda leaf: leaf[place * seeds : (place + 1) * seeds], tree)
