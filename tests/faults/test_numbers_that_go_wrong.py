"""Whatever goes wrong in an update is caught, named and counted, and a seed that keeps failing is left behind."""

import dataclasses
import json
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgsom
from pgsom.baselines import NoBaseline
from pgsom.cli.main import main
from pgsom.cli.progress import describe as describe_progress
from pgsom.collectors import BatchPlan, EpisodeCollector
from pgsom.diagnosis import QUANTITIES, quantities_of
from pgsom.environments import Box, Discrete, Step, register, two_armed_bandit
from pgsom.environments.registry import _entries
from pgsom.methods import Common, Method, assemble, make_method, reinforce
from pgsom.policies import Categorical, Policy, policy_from_functions, tabular_softmax
from pgsom.runs.failures import Failure, failures_of
from pgsom.runs.store import summary, to_json
from pgsom.training import init, init_program, seed_keys, start, train_program, update
from pgsom.updates.update_rule import describe
from tests.exact.oracle import quick_jit

SEEN, ONE_STATE, TWO_ACTIONS = Box((1,), -jnp.inf, jnp.inf), Discrete(1), Discrete(2)
SIGNS = jnp.asarray([1.0, -1.0])
NAN, INF = float("nan"), float("inf")


@dataclasses.dataclass(frozen=True)
class Odd:
    """Two steps, each with the same observation and the same reward."""

    seen: float = 1.0
    reward: float = 1.0
    name: str = "odd"
    horizon: int = 2
    observation: Box = SEEN
    action: Discrete = TWO_ACTIONS

    def reset(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros((), jnp.int32), jnp.full(1, self.seen)

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        over = state == 1
        return Step(state + 1, jnp.full(1, self.seen), jnp.asarray(self.reward), over, over)


@dataclasses.dataclass(frozen=True)
class Impossible(Categorical):
    """Says of every action that it could not have been taken, and has a gradient all the same."""

    def log_prob(self, outputs: jax.Array, action: jax.Array) -> jax.Array:
        return super().log_prob(outputs, action) - jax.lax.stop_gradient(jnp.inf)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OddRule:
    """Plain ascent, but for a direction or a state that is not finite."""

    direction: Any = 1.0
    state: Any = 1.0

    def init(self, params: Any) -> Any:
        return jnp.zeros(())

    def update(self, objective: Any, state: Any, params: Any) -> Any:
        gradient = objective.gradient()
        direction = jax.tree.map(lambda g: g * self.direction, gradient)
        return direction, state + self.state, describe(gradient, gradient)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class OddBaseline(NoBaseline):
    """No baseline, with a state that is not finite after the first batch."""

    def init(self) -> Any:
        return jnp.zeros(())

    def update(self, state: Any, returns: Any) -> Any:
        return state + jnp.inf


@dataclasses.dataclass(frozen=True)
class Remembers(EpisodeCollector):
    """Carries a number that is not finite after the first batch."""

    def init(self, key: jax.Array) -> Any:
        return (super().init(key), jnp.zeros(()))

    def collect(self, key: jax.Array, params: Any, experience: Any) -> Any:
        rollout, known = super().collect(key, params, experience[0])
        return rollout, (known, experience[1] - jnp.inf)


def one_parameter(apply: Any, value: float = 0.0, head: Any = None) -> Policy:
    """Logits ± apply(θ, observation)."""
    return policy_from_functions(
        lambda key: jnp.asarray(value), lambda theta, seen: SIGNS * apply(theta, seen[0]), head
    )


def product(theta: jax.Array, seen: jax.Array) -> jax.Array:
    return theta * seen


def plain(**options: Any) -> Method:
    return make_method("reinforce", **({"baseline": "none", "batch": 2} | options))


PLAIN, LINEAR = plain(), one_parameter(product, 0.1)
CASES: dict[str, tuple[Odd, Policy, Method]] = {
    "parameters": (Odd(), one_parameter(product, NAN), PLAIN),
    "observations": (Odd(seen=NAN), LINEAR, PLAIN),
    "policy outputs": (Odd(), one_parameter(lambda theta, seen: theta / (theta - theta)), PLAIN),
    "log-probabilities": (Odd(), one_parameter(product, 0.1, Impossible()), PLAIN),
    "rewards": (Odd(reward=INF), LINEAR, PLAIN),
    # Each is finite, their sum is not.
    "returns": (Odd(reward=3e38), LINEAR, PLAIN),
    # At 0 the square root has a value and no derivative, and |θ|^1.5 a derivative and no second one.
    "gradient": (Odd(), one_parameter(lambda theta, seen: jnp.sqrt(theta) * seen), PLAIN),
    "curvature": (
        Odd(),
        one_parameter(lambda theta, seen: theta**1.5 + theta),
        make_method("pg-som", curvature="causal", baseline="none", batch=2),
    ),
    "direction": (Odd(), LINEAR, assemble("odd", OddRule(direction=INF), common=Common(batch=2))),
    "state of the rule": (Odd(), LINEAR, assemble("odd", OddRule(state=NAN), common=Common(batch=2))),
    "state of the baseline": (Odd(), LINEAR, plain(baseline=OddBaseline())),
    "experience": (Odd(), LINEAR, PLAIN),
    "new parameters": (Odd(reward=1e4), LINEAR, plain(learning_rate=3e38)),
}


@pytest.mark.parametrize("cause", QUANTITIES)
def test_what_went_wrong_first_is_named_and_nothing_of_it_is_kept(cause: str) -> None:
    environment, policy, method = CASES[cause]
    kind = Remembers if cause == "experience" else EpisodeCollector
    collector = kind(environment, policy, BatchPlan(2), method.weighting.rate)
    before = start(collector, policy, method, jax.random.key(0))
    after, metrics = quick_jit(lambda method, state: update(collector, policy, method, state))(method, before)
    assert quantities_of(int(metrics.not_finite))[:1] == (cause,)
    assert (int(metrics.skipped), int(after.skipped), int(after.failures), int(metrics.frozen)) == (1, 1, 1, 0)
    kept = [(s.params, s.rule_state, s.baseline_state, s.experience) for s in (before, after)]
    for old, new in zip(*map(jax.tree.leaves, kept), strict=True):
        np.testing.assert_array_equal(old, new)
    assert int(after.episodes) == 2 and int(after.env_steps) == 4, "what was played is counted"


# --- one seed of several -----------------------------------------------------------------------------------------

UPDATES = 8


def run(method: Method, *, poisoned: bool) -> tuple[Any, Any, Any]:
    """States before and after, and metrics, of three seeds of which the middle one may have a NaN parameter."""
    environment, policy = two_armed_bandit(), Policy(tabular_softmax(1, 2))
    method = jax.tree.map(jnp.asarray, method)
    state = init_program(environment, policy, method, seed_keys(0, 3))
    if poisoned:
        state = state._replace(params=jax.tree.map(lambda leaf: leaf.at[1].set(jnp.nan), state.params))
    program = partial(train_program, environment, policy, capacity=UPDATES)
    return state, *program(method, state, jnp.asarray(UPDATES))


def test_a_seed_that_keeps_failing_is_frozen_and_the_others_go_on_bit_by_bit() -> None:
    method = reinforce(0.5, common=Common(freeze_after=3))
    _, healthy, all_well = run(method, poisoned=False)
    begin, ill, metrics = run(method, poisoned=True)
    assert not np.any(all_well.skipped) and not np.any(all_well.frozen) and not np.any(all_well.not_finite)
    others = np.array([0, 2])
    for one, other in zip(*map(jax.tree.leaves, ((healthy, all_well), (ill, metrics))), strict=True):
        one, other = (
            jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in (one, other)
        )
        np.testing.assert_array_equal(np.asarray(one)[others], np.asarray(other)[others])
    np.testing.assert_array_equal(metrics.skipped[1], [1, 1, 1, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(metrics.frozen[1], [0, 0, 0, 1, 1, 1, 1, 1])
    np.testing.assert_array_equal(metrics.episodes[1], [4, 8, 12, 12, 12, 12, 12, 12])
    assert np.all(np.isnan(metrics.episode_return[1, 3:])) and np.all(np.isfinite(metrics.episode_return[1, :3]))
    assert int(ill.skipped[1]) == int(ill.failures[1]) == int(ill.updates[1]) == 3
    assert not np.array_equal(*(jax.random.key_data(s.key)[1] for s in (begin, ill)))
    (failure,) = failures_of(metrics, (4, 5, 6), before=100)
    assert failure[:2] == (5, 100)
    assert str(failure).startswith("update 100 of seed 5 was left out; not finite: parameters, then policy outputs, ")


def test_no_seed_is_frozen_if_that_is_switched_off() -> None:
    """And the number is data: both runs are one compiled program."""
    _, _, metrics = run(reinforce(0.5, common=Common(freeze_after=float("inf"))), poisoned=True)
    np.testing.assert_array_equal(metrics.skipped[1], np.ones(UPDATES))
    assert not np.any(metrics.frozen)


def test_a_success_in_between_starts_the_count_anew() -> None:
    """Rewards that are infinite now and then: failures in a row are counted, whatever came before them."""
    method = reinforce(0.0001, common=Common(batch=1, baseline="none", freeze_after=4))
    environment = Now(INF)
    policy = Policy(tabular_softmax(1, 2))
    state = init(environment, policy, method, jax.random.key(5))
    program = quick_jit(partial(pgsom.step, environment, policy))
    row, longest = 0, 0
    for _ in range(40):
        state, metrics = program(method, state)
        if metrics.frozen:
            break
        row = row + 1 if metrics.skipped else 0
        longest = max(longest, row)
        assert int(state.failures) == row <= 4
    assert int(state.skipped) > longest, "there were successes in between"
    assert bool(metrics.frozen) == (longest == 4)


@dataclasses.dataclass(frozen=True)
class Now:
    """One step; action 1 earns `reward`, action 0 earns 1."""

    reward: float
    name: str = "now"
    horizon: int = 1
    observation: Discrete = ONE_STATE
    action: Discrete = TWO_ACTIONS

    def reset(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)

    def step(self, key: jax.Array, state: jax.Array, action: jax.Array) -> Step:
        reward = jnp.where(action == 1, jnp.asarray(self.reward), 1.0)
        return Step(state, state, reward, jnp.asarray(True), jnp.asarray(True))


# --- what is said of it ------------------------------------------------------------------------------------------


def some_are_ill(key: jax.Array) -> jax.Array:
    return jnp.where(jax.random.uniform(key) < 0.4, jnp.nan, 0.0)


def test_a_run_reports_its_frozen_seeds_and_its_means_are_over_the_others() -> None:
    policy = policy_from_functions(some_are_ill, lambda theta, state: theta * SIGNS)
    seen: list[pgsom.Progress] = []
    result = pgsom.train(
        "two-armed-bandit",
        "reinforce",
        policy=policy,
        seeds=6,
        updates=12,
        freeze_after=5,
        callback=lambda p: seen.append(p),
    )
    ill = np.isnan(np.asarray(result.params))
    assert 0 < ill.sum() < 6
    np.testing.assert_array_equal(result.frozen, ill)
    np.testing.assert_array_equal(result.skipped, 5 * ill)
    np.testing.assert_array_equal(result.episodes, 4 * np.arange(1, 13)), "those of the seeds that go on"
    np.testing.assert_array_equal(np.isnan(result.final_returns()), ill)
    np.testing.assert_allclose(result.final.mean, result.returns[~ill, -1].mean())
    np.testing.assert_allclose(result.curve.mean, result.returns[~ill].mean(axis=0))
    numbers = ", ".join(str(n) for n in np.flatnonzero(ill))
    first, second = result.warnings
    assert first.startswith(f"update 0 of seed {np.argmax(ill)} was left out; not finite: parameters, then ")
    assert first.endswith(f"(the first of {5 * ill.sum()} updates that were skipped, of {ill.sum()} seeds)")
    expected = (
        f"frozen after 5 updates in a row that were not finite: seed {numbers}; means and curves are over the others"
    )
    assert second == expected
    written = json.loads(to_json(summary(result)))
    assert written["frozen_seeds"] == np.flatnonzero(ill).tolist()
    assert written["first_failures"][0] == {
        "seed": int(np.argmax(ill)),
        "update": 0,
        "quantities": list(result.failures[0].quantities),
    }
    assert np.isfinite(written["final_return"]["mean"]) and None in written["final_return_by_seed"]
    assert np.isfinite(seen[-1].mean_return)
    assert describe_progress(seen[-1]).endswith(f" left · {ill.sum()} of 6 seeds frozen")


def test_a_run_ends_when_no_seed_goes_on_and_has_failed(
    capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgsom.environments.registry._entries", dict(_entries))
    register("always-nan", lambda: dataclasses.replace(Now(NAN), name="always-nan"), "of no use")
    words = ["--env", "always-nan", "--method", "reinforce", "--baseline", "none", "--learning-rate", "1000"]
    budget = ["--updates", "100000", "--freeze-after", "3", "--seeds", "2", "--quiet"]
    assert main(["train", *words, *budget, "--out", str(tmp_path / "run")]) == 1
    printed, said = capsys.readouterr()
    assert "frozen after 3 updates in a row" in printed.replace("\n", " ")
    assert said.startswith("pgsom train: failed: every seed is frozen: update ")
    assert said.count("\n") == 1
    kept = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert kept["frozen_seeds"] == [0, 1] and kept["updates"] < 100000


def test_a_failure_is_named_in_words() -> None:
    assert quantities_of(0) == ()
    assert quantities_of(2 ** len(QUANTITIES) - 1) == QUANTITIES
    said = str(Failure(3, 1200, ("gradient",)))
    assert said == "update 1,200 of seed 3 was left out; not finite: gradient"
