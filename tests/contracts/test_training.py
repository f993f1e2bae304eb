"""What training promises: one program, independent seeds, honest counters, nothing non-finite, and clear refusals."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import pgsom
from pgsom.checks import InputError
from pgsom.collectors import BatchPlan
from pgsom.environments import Discrete, Step, chain, two_armed_bandit
from pgsom.methods import Common, Method, adam, assemble, make_method, reinforce
from pgsom.policies import Policy, policy_from_functions, tabular_softmax
from pgsom.runs.run import CAPACITY
from pgsom.training import TrainState, init, init_program, seed_keys, step, train_program
from pgsom.updates import from_optax
from tests.exact.oracle import quick_jit

UPDATES = 6


def result_of(method: Any = "reinforce", environment: Any = "chain", **options: Any) -> pgsom.Result:
    return pgsom.train(environment, method, **({"updates": UPDATES} | options))


@pytest.fixture(scope="module", name="trained")
def _trained() -> pgsom.Result:
    """Three seeds of the moving-average REINFORCE on the corridor."""
    return result_of(seeds=3, baseline="moving-average", learning_rate=0.5)


def assert_close(found: pgsom.Result, expected: pgsom.Result, seeds: tuple[int, ...], of: tuple[int, ...]) -> None:
    """The same curves and parameters up to rounding, seed by seed."""
    for mine, theirs in zip(seeds, of, strict=True):
        np.testing.assert_allclose(found.returns[mine], expected.returns[theirs], rtol=1e-4)
        for one, other in zip(jax.tree.leaves(found.params), jax.tree.leaves(expected.params), strict=True):
            np.testing.assert_allclose(one[mine], other[theirs], rtol=1e-3, atol=1e-5)


# --- one program, any number of seeds and methods ----------------------------------------------------------------


def test_a_second_call_compiles_nothing(trained: pgsom.Result) -> None:
    """Nor do other numbers, another root seed, or a shorter last chunk."""
    options = {"seeds": 3, "baseline": "moving-average"}
    before = (train_program._cache_size(), init_program._cache_size())
    again = result_of(learning_rate=0.5, **options)
    result_of(learning_rate=0.1, clip_norm=1.0, entropy=0.01, discount=0.5, seed=7, **options)
    assert (train_program._cache_size(), init_program._cache_size()) == before
    assert_close(again, trained, (0, 1, 2), (0, 1, 2))


def test_the_same_call_gives_the_same_bits(trained: pgsom.Result) -> None:
    again = result_of(seeds=3, baseline="moving-average", learning_rate=0.5)
    trees = ((trained.params, trained.metrics), (again.params, again.metrics))
    for one, other in zip(*map(jax.tree.leaves, trees), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_seed_is_the_same_whatever_the_others(trained: pgsom.Result) -> None:
    """Up to rounding, for the batch size may change the order of sums."""
    some = result_of(seeds=(2, 0), baseline="moving-average", learning_rate=0.5)
    assert some.seeds == (2, 0)
    assert_close(some, trained, (0, 1), (2, 0))
    assert not np.array_equal(trained.returns[0], trained.returns[1]), "seeds differ from each other"


def test_another_root_seed_gives_other_episodes(trained: pgsom.Result) -> None:
    other = result_of(seeds=3, baseline="moving-average", learning_rate=0.5, seed=1)
    assert not np.array_equal(other.returns, trained.returns)


def test_chunks_of_updates_are_one_run(trained: pgsom.Result) -> None:
    """Two calls of three updates carry on where one of six does not stop."""
    method = jax.tree.map(jnp.asarray, trained.method)
    state = init_program(trained.environment, trained.policy_definition, method, seed_keys(0, 3))
    run = partial(train_program, trained.environment, trained.policy_definition, method, capacity=UPDATES)
    state, first = run(state, jnp.asarray(3))
    state, second = run(state, jnp.asarray(3))
    joined = np.concatenate([first.episode_return[:, :3], second.episode_return[:, :3]], axis=1)
    np.testing.assert_array_equal(joined, trained.returns)
    for one, other in zip(jax.tree.leaves(state.params), jax.tree.leaves(trained.params), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.any(np.asarray(first.episodes[:, 3:])), "rows behind the updates are zero"


def test_weakly_typed_parameters_compile_once_too() -> None:
    policy = policy_from_functions(lambda key: jnp.asarray(0.5), lambda theta, state: jnp.stack([theta, -theta]))
    method = jax.tree.map(jnp.asarray, reinforce(0.1, common=Common(batch=2)))
    state = init_program(chain(), policy, method, seed_keys(0, 1))
    before = train_program._cache_size()
    for _ in range(2):
        state, _ = train_program(chain(), policy, method, state, jnp.asarray(1), capacity=1)
    assert train_program._cache_size() == before + 1


def test_methods_that_differ_in_numbers_run_as_one_program_and_as_each_alone(trained: pgsom.Result) -> None:
    """A sweep with numbers vmapped against each method alone, and against a program with the numbers as constants."""

    def method(**options: Any) -> Method:
        return make_method("reinforce", baseline="moving-average", **options)

    methods = [method(learning_rate=0.5), method(learning_rate=0.05, entropy=0.3, clip_norm=0.2)]
    before = train_program._cache_size()
    together = pgsom.sweep("chain", methods, seeds=3, updates=UPDATES)
    assert train_program._cache_size() == before + 1
    alone = [trained, result_of(methods[1], seeds=3)]
    for found, expected in zip(together, alone, strict=True):
        assert_close(found, expected, (0, 1, 2), (0, 1, 2))
    policy, environment = trained.policy_definition, trained.environment

    @jax.jit
    def with_constants(key: jax.Array) -> Any:
        state = init(environment, policy, methods[1], key)
        return jax.lax.fori_loop(0, UPDATES, lambda i, s: step(environment, policy, methods[1], s)[0], state).params

    constant = with_constants(seed_keys(0, 2)[1])
    for one, other in zip(jax.tree.leaves(together[1].params), jax.tree.leaves(constant), strict=True):
        np.testing.assert_allclose(one[1], other, rtol=1e-3, atol=1e-5)


def test_a_sweep_keeps_the_order_of_methods_of_different_structure() -> None:
    methods = [reinforce(0.1), adam(0.1), reinforce(0.2)]
    results = pgsom.sweep("two-armed-bandit", methods, updates=2)
    assert [r.method.name for r in results] == ["reinforce", "adam", "reinforce"]
    assert [float(r.method.learning_rate) for r in results] == [0.1, 0.1, 0.2]


# --- counters and reports ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "stage_data", "batches"), [("euler", "fresh", 1), ("heun", "fresh", 2), ("heun", "reweighted", 1)]
)
def test_episodes_and_steps_of_every_stage_are_counted(scheme: str, stage_data: str, batches: int) -> None:
    """On the bandit every episode takes one step; an update with batch 3 consumes 3 episodes a stage played.

    The budget is spent in whole updates: of 20 episodes for one batch an update, 18.
    """
    budget = {"updates": None, "episodes": UPDATES * 3 * batches + 2}
    result = result_of(environment="two-armed-bandit", scheme=scheme, stage_data=stage_data, batch=3, seeds=2, **budget)
    expected = 3 * batches * np.arange(1, UPDATES + 1)
    np.testing.assert_array_equal(result.episodes, expected)
    np.testing.assert_array_equal(result.env_steps, np.broadcast_to(expected, (2, UPDATES)))
    assert result.method.episodes_per_update == 3 * batches


def test_steps_are_those_taken(trained: pgsom.Result) -> None:
    """The corridor costs 1 a step: steps = −returns, summed over the batch of four."""
    np.testing.assert_allclose(np.cumsum(-4 * trained.returns, axis=1), trained.env_steps)
    lengths = np.asarray(trained.metrics.episode_length)
    np.testing.assert_allclose(lengths, -trained.returns)
    assert np.all(lengths <= 6) and np.any(lengths < 6)


def test_a_reweighted_stage_reports_its_effective_episodes() -> None:
    """Kish's number: all four episodes while the second stage is near, fewer where it moved far."""
    options = {"scheme": "heun", "stage_data": "reweighted", "baseline": "none"}
    near, far = (
        np.asarray(result_of(learning_rate=rate, **options).metrics.effective_episodes) for rate in (1e-4, 1.0)
    )
    np.testing.assert_allclose(near, 4, rtol=1e-3)
    assert np.all(far >= 1) and far.min() < 3.9


def test_evaluation_is_apart_from_training(trained: pgsom.Result) -> None:
    before = (trained.episodes.copy(), trained.env_steps.copy())
    one, again, other = trained.evaluate(50), trained.evaluate(50), trained.evaluate(50, seed=2)
    assert one.shape == (3, 50) and np.array_equal(one, again) and not np.array_equal(one, other)
    np.testing.assert_array_equal(trained.episodes, before[0])
    np.testing.assert_array_equal(trained.env_steps, before[1])
    greedy = trained.evaluate(50, deterministic=True)
    assert set(np.unique(greedy)) <= {-3.0, -4.0, -5.0, -6.0}


def test_progress_comes_in_chunks_and_a_callback_can_stop() -> None:
    seen: list[pgsom.Progress] = []

    def stop_at_sixteen(progress: pgsom.Progress) -> bool:
        seen.append(progress)
        return progress.updates >= 16

    result = result_of(environment="two-armed-bandit", updates=40, callback=stop_at_sixteen, seeds=2)
    assert seen[0].updates == 8 and 16 <= seen[-1].updates <= 40 and seen[-1].total_updates == 40
    assert result.returns.shape == (2, seen[-1].updates) == (2, result.updates)
    assert result.settings.updates == 40, "settings are those of the plan"
    assert seen[-1].episodes == 4 * seen[-1].updates and seen[-1].env_steps == 2 * seen[-1].episodes
    assert sum(p.chunk.episode_return.shape[1] for p in seen) == seen[-1].updates
    assert CAPACITY >= 40


# --- nothing non-finite reaches the parameters -------------------------------------------------------------------


ONE_STATE, TWO_ACTIONS = Discrete(1), Discrete(2)


@dataclasses.dataclass(frozen=True)
class Broken:
    """One step; the reward of action 1 is `reward`, that of action 0 is 1."""

    reward: float
    name: str = "broken"
    horizon: int = 1
    observation: Discrete = ONE_STATE
    action: Discrete = TWO_ACTIONS

    def reset(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        reward = jnp.where(action == 1, jnp.asarray(self.reward, float), 1.0)
        return Step(state, state, reward, jnp.asarray(True), jnp.asarray(True))


@partial(quick_jit, static_argnums=(0, 1))
def _step(environment: Any, policy: Policy, method: Method, state: TrainState) -> Any:
    return step(environment, policy, method, state)


def history_of(
    environment: Any, policy: Policy, method: Method, updates: int
) -> list[tuple[TrainState, Any, TrainState]]:
    """(state before, metrics, state after) of each update."""
    method = jax.tree.map(jnp.asarray, method)
    state, seen = init(environment, policy, method, jax.random.key(0)), []
    for _ in range(updates):
        new, metrics = _step(environment, policy, method, state)
        seen.append((state, metrics, new))
        state = new
    return seen


def assert_left_out(before: TrainState, after: TrainState) -> None:
    """Nothing that is learned has changed; what is counted has."""
    learned = [(s.params, s.rule_state, s.baseline_state) for s in (before, after)]
    for old, new in zip(*map(jax.tree.leaves, learned), strict=True):
        np.testing.assert_array_equal(old, new)
    assert int(after.updates) == int(before.updates) + 1 and int(after.episodes) > int(before.episodes)
    assert int(after.env_steps) > int(before.env_steps) and int(after.skipped) == int(before.skipped) + 1
    assert not np.array_equal(*(jax.random.key_data(s.key) for s in (before, after))), "other episodes come next"


INFINITE, NAN = Broken(float("inf")), Broken(float("nan"))
BROKEN: dict[str, tuple[Broken, Method]] = {
    "infinite reward": (INFINITE, make_method("reinforce", baseline="none")),
    "infinite reward, elements clipped": (INFINITE, make_method("reinforce", baseline="none", clip_elements=0.1)),
    "infinite reward, norm clipped": (INFINITE, make_method("reinforce", baseline="none", clip_norm=0.1)),
    "infinite reward, signs": (
        INFINITE,
        assemble("signs", from_optax(optax.sign_sgd, learning_rate=0.1), common=Common(baseline="none")),
    ),
    "infinite reward, trust cap": (
        INFINITE,
        make_method("pg-som", baseline="none", trust_cap=1.0, curvature="fisher", step_length="rate"),
    ),
    "infinite reward, two stages": (INFINITE, make_method("runge-kutta-pg", baseline="none", clip_elements=1.0)),
    "NaN reward, moving average": (NAN, make_method("reinforce", baseline="moving-average")),
    "NaN reward, adam": (NAN, make_method("adam")),
    "NaN reward, kl": (NAN, make_method("pg-som", step_length="kl")),
}


@pytest.mark.parametrize(("environment", "method"), BROKEN.values(), ids=BROKEN)
def test_an_update_with_a_reward_that_is_not_finite_is_left_out_and_counted(
    environment: Broken, method: Method
) -> None:
    """Action 0 of the one state earns 1, action 1 something that is no number; batches of action 0 alone are good."""
    method = dataclasses.replace(method, plan=BatchPlan(2))
    history = history_of(environment, Policy(tabular_softmax(1, 2)), method, 24)
    skipped = [bool(metrics.skipped) for _, metrics, _ in history]
    assert any(skipped) and not all(skipped)
    for before, metrics, after in history:
        assert bool(metrics.skipped) or np.isfinite(metrics.episode_return)
        assert all(
            np.all(np.isfinite(leaf))
            for leaf in jax.tree.leaves((after.params, after.rule_state, after.baseline_state))
        )
        if metrics.skipped:
            assert_left_out(before, after)
        else:
            assert int(after.skipped) == int(before.skipped)


def test_a_network_that_breaks_keeps_its_last_good_parameters() -> None:
    """Fine at θ = 0, NaN elsewhere: the first update counts, all others are left out."""

    def apply(theta: jax.Array, state: jax.Array) -> jax.Array:
        return theta * jnp.asarray([1.0, -1.0]) * jnp.where(theta == 0, 1.0, jnp.nan)

    policy = policy_from_functions(lambda key: jnp.zeros(1), apply)
    history = history_of(Broken(0.0), policy, make_method("adam", baseline="none"), 5)
    assert [int(metrics.skipped) for _, metrics, _ in history] == [0, 1, 1, 1, 1]
    assert float(history[0][2].params[0]) != 0
    for before, _, after in history[1:]:
        assert_left_out(before, after)


@pytest.mark.parametrize("step_length", ["rate", "kl"])
def test_division_by_a_curvature_of_zero_is_left_out(step_length: Any) -> None:
    """As printed, without damping: where both arms are as probable, z² and ∇²ℓ cancel in every episode; ĝ is not 0."""
    options = {"curvature": "lemma", "shape": "raw", "damping": 0.0, "baseline": "none", "batch": 16}
    method = make_method("pg-som", step_length=step_length, **options)
    for before, metrics, after in history_of(two_armed_bandit(), Policy(tabular_softmax(1, 2)), method, 3):
        assert int(metrics.skipped) == 1
        assert_left_out(before, after)


def test_a_result_says_how_many_updates_each_seed_left_out() -> None:
    result = result_of("adam", NAN, seeds=2, batch=2)
    np.testing.assert_array_equal(result.skipped, np.isnan(result.returns).sum(axis=1))
    assert result.skipped.sum() > 0
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(result.params))


# --- results -----------------------------------------------------------------------------------------------------


def test_a_saved_run_comes_back(trained: pgsom.Result, tmp_path: Path) -> None:
    loaded = pgsom.load(trained.save(tmp_path / "run"))
    given = {name: value for name, value in trained.settings.options.items() if value is not None}
    assert loaded.settings == dataclasses.replace(trained.settings, options=given)
    assert loaded.seeds == (0, 1, 2)
    trees = ((trained.params, trained.metrics), (loaded.params, loaded.metrics))
    for one, other in zip(*map(jax.tree.leaves, trees), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype
    np.testing.assert_array_equal(loaded.evaluate(50), trained.evaluate(50))
    assert jax.tree.leaves(loaded.method) == jax.tree.leaves(trained.method)
    assert loaded.method.scheme == trained.method.scheme


def test_a_run_made_of_objects_is_saved_but_not_rebuilt(tmp_path: Path) -> None:
    result = result_of(reinforce(0.1), "two-armed-bandit")
    with pytest.raises(InputError, match="a part of this run was an object, not a name"):
        pgsom.load(result.save(tmp_path))


def test_a_trained_policy_acts_on_one_observation_or_many(trained: pgsom.Result) -> None:
    policy = trained.policy(seed=2)
    table = np.asarray(trained.params[0].weight)[2]
    assert policy.act(1) == np.argmax(table[1])
    np.testing.assert_array_equal(policy.act([[0, 1], [2, 0]]), np.argmax(table, axis=1)[[[0, 1], [2, 0]]])
    drawn = policy.act(np.ones(4000, int), key=jax.random.key(0))
    p = np.exp(table[1, 1]) / np.exp(table[1]).sum()
    assert abs(drawn.mean() - p) < 4 * np.sqrt(p * (1 - p) / 4000)
