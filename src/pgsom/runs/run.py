"""``pgsom.train``: names and numbers in, a `Result` out."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from pgsom.checks import check_count, wrong
from pgsom.environments import Environment, make
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
from pgsom.training import Metrics, TrainState

Tree = Any
__all__ = ["CAPACITY", "DEFAULT_EPISODES", "Callback", "Progress", "default_policy", "sweep", "train"]


def train(
    environment: str | Environment = "CartPole-v1",
    method: str | Method = "pg-som",
    *,
    seeds: int | Sequence[int] = 1,
    episodes: int | None = None,
    updates: int | None = None,
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
        environment: a registered name (`pgsom list`) or an `Environment`.
        method: a registered name, its options then being further keyword arguments, or an assembled `Method`.
        seeds: how many seeds (0, 1, …), or which. Seed i is the same whatever the others.
        episodes: budget of each seed, every stage of every update counted; 500 unless `updates` is given.
        updates: budget as a number of updates, instead of `episodes`.
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
    environment: str | Environment,
    methods: Sequence[Method],
    *,
    seeds: int | Sequence[int] = 1,
    episodes: int | None = None,
    updates: int | None = None,
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
        total = budget(methods[group[0]], episodes, updates)
        plan = Plan(env, definition, tuple(methods[i] for i in group), chosen, seed, total)
        trained = _run(plan, callback)
        for place, index in enumerate(group):
            settings = described(plan, (environment, of_environment), (policy, of_policy), written[index])
            state, metrics = (_part(tree, place, len(chosen)) for tree in trained[:2])
            parts = (settings, env, definition, methods[index], state.params, metrics)
            results[index] = Result(*parts, *trained[2:], state)
    return [results[index] for index in range(len(methods))]


def _run(plan: Plan, callback: Callback | None) -> tuple[TrainState, Metrics, float, float]:
    """The members' last state, their metrics, and the seconds spent compiling and running."""
    started = time.perf_counter()
    engine = engine_for(plan)
    state = engine.start()
    engine.advance(state, 0)
    compiled = time.perf_counter() - started
    memory = Memory()
    report = Report(plan.updates, callback)
    stand = drive(engine, Stand(state, 0, 0.0), plan.updates, [memory], stop=report)
    engine.close()
    return stand.state, memory.metrics(), compiled, time.perf_counter() - report.started


def _part(tree: Tree, place: int, seeds: int) -> Any:
    """The members of one method."""
    return jax.tree.map(lambda leaf: leaf[place * seeds : (place + 1) * seeds], tree)
