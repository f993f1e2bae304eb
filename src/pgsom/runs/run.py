"""``pgsom.train``: names and numbers in, a `Result` out."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from pgsom.checks import check_count, wrong
from pgsom.environments import Environment, make
from pgsom.methods import Method, make_method, method_options
from pgsom.policies import Policy, make_policy
from pgsom.runs.result import Result, Settings
from pgsom.training import Metrics, TrainState, init_program, seed_keys, train_program

Tree = Any
CAPACITY = 256
SECONDS_BETWEEN_REPORTS = 0.25
DEFAULT_EPISODES = 500


class Progress(NamedTuple):
    """Where a run stands; given to the callback after each chunk of updates."""

    updates: int
    total_updates: int
    episodes: int
    """Episodes of each seed."""
    env_steps: int
    """Environment steps of all seeds."""
    mean_return: float
    """Over seeds and the chunk's updates."""
    steps_per_second: float
    seconds_left: float
    chunk: Metrics
    """The chunk's metrics [seed, update of the chunk]."""


Callback = Callable[[Progress], bool | None]


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
        callback: called with `Progress` after each chunk of updates; returning True ends the run there.
        options: the named method's options, for instance ``learning_rate=0.02, curvature="causal"``.
    """
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
        callback=callback,
        _written=[_written_method(method, options)],
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
    env = make(environment)
    chosen = _seeds(seeds)
    check_count("seed", seed, at_least=0, at_most=2**31 - 1)
    widths = _widths(hidden)
    definition = make_policy(policy or default_policy(env), env, hidden=widths, activation=activation)
    written = list(_written) if _written else [(method.name, None) for method in methods]
    results: dict[int, Result] = {}
    for group in _same_structure(methods):
        budget = _updates(methods[group[0]], episodes, updates)
        trained = _run_group(env, definition, [methods[i] for i in group], chosen, seed, budget, callback)
        for index, (params, metrics, compiled, ran) in zip(group, trained, strict=True):
            name, options = written[index]
            settings = Settings(
                environment=env.name,
                method=name,
                options=options or {},
                policy=_policy_name(policy, env),
                hidden=widths,
                activation=activation,
                seed=seed,
                seeds=chosen,
                updates=metrics.episodes.shape[1],
                rebuildable=isinstance(environment, str) and options is not None and not isinstance(policy, Policy),
            )
            results[index] = Result(settings, env, definition, methods[index], params, metrics, compiled, ran)
    return [results[index] for index in range(len(methods))]


def default_policy(environment: Environment) -> str:
    """A table for whole-number states, otherwise an MLP."""
    return "tabular" if environment.observation.shape == () else "mlp"


def _run_group(
    environment: Environment,
    policy: Policy,
    methods: list[Method],
    seeds: tuple[int, ...],
    root: int,
    updates: int,
    callback: Callback | None,
) -> list[tuple[Tree, Metrics, float, float]]:
    """Train methods of one structure; members are method-major: (method 0, seed 0), (method 0, seed 1), …."""
    keys = seed_keys(root, seeds)
    many = len(methods) > 1
    if many:
        method = _stack([m for m in methods for _ in seeds])
        keys = jnp.tile(keys, len(methods))
    else:
        method = jax.tree.map(jnp.asarray, methods[0])
    capacity = min(updates, CAPACITY)

    def advance(state: TrainState, count: int) -> tuple[TrainState, Metrics]:
        return jax.block_until_ready(
            train_program(environment, policy, method, state, jnp.asarray(count), capacity=capacity, many_methods=many)
        )

    started = time.perf_counter()
    state = init_program(environment, policy, method, keys, many_methods=many)
    advance(state, 0)
    compiled = time.perf_counter() - started
    state, metrics, ran = _drive(advance, state, updates, capacity, callback)
    split = [slice(k * len(seeds), (k + 1) * len(seeds)) for k in range(len(methods))]
    return [
        (*(jax.tree.map(lambda leaf, part=part: leaf[part], tree) for tree in (state.params, metrics)), compiled, ran)
        for part in split
    ]


def _drive(
    advance: Callable[[TrainState, int], tuple[TrainState, Metrics]],
    state: TrainState,
    updates: int,
    capacity: int,
    callback: Callback | None,
) -> tuple[TrainState, Metrics, float]:
    """Run chunks of updates until the budget is spent or the callback asks to stop."""
    chunks: list[Metrics] = []
    done, size, started = 0, min(8, capacity), time.perf_counter()
    while done < updates:
        count = min(size, updates - done)
        before = time.perf_counter()
        state, rows = advance(state, count)
        spent = time.perf_counter() - before
        chunk = jax.tree.map(lambda leaf, count=count: np.asarray(leaf[:, :count]), rows)
        chunks.append(chunk)
        done += count
        size = max(1, min(capacity, round(count * min(4.0, SECONDS_BETWEEN_REPORTS / max(spent, 1e-4)))))
        if callback is not None and callback(_progress(done, updates, chunk, time.perf_counter() - started)):
            break
    metrics = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *chunks)
    return state, metrics, time.perf_counter() - started


def _progress(done: int, total: int, chunk: Metrics, elapsed: float) -> Progress:
    steps = int(np.asarray(chunk.env_steps)[:, -1].sum())
    return Progress(
        updates=done,
        total_updates=total,
        episodes=int(np.asarray(chunk.episodes)[0, -1]),
        env_steps=steps,
        mean_return=float(np.asarray(chunk.episode_return).mean()),
        steps_per_second=steps / elapsed,
        seconds_left=elapsed / done * (total - done),
        chunk=chunk,
    )


def _stack(methods: list[Method]) -> Method:
    """One method whose numbers have a leading axis."""
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *methods)


def _same_structure(methods: Sequence[Method]) -> list[list[int]]:
    """Indices of methods that can share a compiled program."""
    groups: dict[Any, list[int]] = {}
    for index, method in enumerate(methods):
        groups.setdefault(jax.tree.structure(method), []).append(index)
    return list(groups.values())


def _updates(method: Method, episodes: int | None, updates: int | None) -> int:
    if updates is not None:
        if episodes is not None:
            raise wrong("updates", updates, f"accepted is either updates or episodes, and episodes={episodes} is given")
        return check_count("updates", updates)
    per_update = method.episodes_per_update
    budget = check_count("episodes", DEFAULT_EPISODES if episodes is None else episodes)
    if budget < per_update:
        raise wrong("episodes", budget, f"one update of {method.name} takes {per_update}; accepted is >= {per_update}")
    return budget // per_update


def _seeds(seeds: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(seeds, int | np.integer):
        return tuple(range(check_count("seeds", seeds)))
    if not isinstance(seeds, list | tuple | range | np.ndarray):
        raise wrong("seeds", seeds, "accepted are a number of seeds or different seeds")
    chosen = tuple(check_count("seeds", s, at_least=0, at_most=2**31 - 1) for s in seeds)
    if not chosen or len(set(chosen)) != len(chosen):
        raise wrong("seeds", list(seeds), "accepted are a number of seeds or different seeds")
    return chosen


def _widths(hidden: Sequence[int]) -> tuple[int, ...]:
    if not isinstance(hidden, tuple | list):
        raise wrong("hidden", hidden, "accepted is a sequence of widths, such as (64, 64)")
    return tuple(check_count("hidden", width) for width in hidden)


def _policy_name(policy: str | Policy | None, environment: Environment) -> str:
    if isinstance(policy, Policy):
        return repr(policy)
    return policy or default_policy(environment)


def _written_method(method: str | Method, options: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The method's name with all its options, defaults resolved, if names and numbers say it all."""
    if isinstance(method, Method):
        return method.name, None
    resolved = method_options(method) | options
    plain = all(value is None or isinstance(value, str | int | float | bool) for value in resolved.values())
    return method, resolved if plain else None
