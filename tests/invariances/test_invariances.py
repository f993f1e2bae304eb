"""What must not change, or change in a known way, when a batch of episodes is changed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pgsom.baselines import Baseline, ConstantBaseline, LeaveOneOutBaseline, NoBaseline, TimeStepBaseline
from pgsom.environments import FiniteMDP, three_state
from pgsom.methods import METHODS, make_method
from pgsom.objective import observe
from pgsom.policies import Policy
from pgsom.rollout import Rollout
from pgsom.updates import UpdateRule
from pgsom.updates.update_rule import batches_of
from tests.exact.oracle import (
    STATES,
    estimates,
    flat,
    objective_of,
    observed,
    quick_jit,
    random_params,
    tables,
    tabular,
    weighting,
)

pytestmark = pytest.mark.usefixtures("float64")
few = settings(max_examples=12, deadline=None, derandomize=True)
STEPS, EPISODES = 5, 4
NUMBERS = st.floats(-3, 3, allow_subnormal=False)
BASELINES: list[Baseline] = [NoBaseline(), ConstantBaseline(0.7), TimeStepBaseline(), LeaveOneOutBaseline()]


@st.composite
def batches(draw: Any) -> Rollout:
    """Four episodes of up to five steps with any observations, actions and rewards."""
    shape = (STEPS, EPISODES)
    length = draw(arrays.arrays(np.int32, EPISODES, elements=st.integers(1, STEPS)))
    observation = draw(arrays.arrays(np.int32, shape, elements=st.integers(0, STATES - 1)))
    action = draw(arrays.arrays(np.int32, shape, elements=st.integers(0, 1)))
    reward = draw(arrays.arrays(np.float64, shape, elements=NUMBERS)) * (np.arange(STEPS)[:, None] < length)
    full = length == STEPS
    return Rollout(observation, action, np.zeros((*shape, 2)), reward, length, ~full, full, observation[-1])


def seen(rollout: Rollout, baseline: Baseline, policy: Policy | None = None, **changes: Any) -> dict[str, np.ndarray]:
    """All estimates from a batch, each episode counting equally."""
    policy = policy or tabular()
    params = random_params(policy)
    rollout = rollout._replace(outputs=tables(policy, params).outputs[np.asarray(rollout.observation)])
    rollout = jax.tree.map(jnp.asarray, rollout)
    made = weighting(0.9, **({"baseline": baseline, "entropy": 0.2} | changes))
    return estimates(observed(made, (), policy, params, rollout, np.full(EPISODES, 1 / EPISODES)))


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], factor: float = 1.0) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], factor * value, rtol=1e-9, atol=1e-9, err_msg=name)


@few
@given(rollout=batches(), order=st.permutations(range(EPISODES)), baseline=st.sampled_from(BASELINES))
def test_the_order_of_episodes_does_not_matter(rollout: Rollout, order: list[int], baseline: Baseline) -> None:
    by_time = {"observation", "action", "outputs", "reward"}
    by_episode = {k: v for k, v in rollout._asdict().items() if k != "reward_scale"}
    shuffled = Rollout(**{k: v[:, order] if k in by_time else v[np.asarray(order)] for k, v in by_episode.items()})
    assert_same(seen(shuffled, baseline), seen(rollout, baseline))


@few
@given(rollout=batches(), factor=st.floats(0.1, 10), baseline=st.sampled_from([BASELINES[i] for i in (0, 2, 3)]))
def test_scaling_rewards_scales_gradient_and_curvature(rollout: Rollout, factor: float, baseline: Baseline) -> None:
    """All but the Fisher matrix, in which rewards play no part."""
    expected = seen(rollout, baseline, entropy=0.0)
    found = seen(rollout._replace(reward=factor * rollout.reward), baseline, entropy=0.0)
    for name in ("fisher", "fisher diagonal"):
        np.testing.assert_allclose(found.pop(name), expected.pop(name), rtol=1e-9)
    assert_same(found, expected, factor)


@few
@given(rollout=batches(), shift=NUMBERS)
def test_a_reward_at_the_last_step_equals_a_constant_under_leave_one_out(rollout: Rollout, shift: float) -> None:
    """With episodes of equal length, the same addition to all returns cancels against the others'."""
    whole = rollout._replace(length=np.full(EPISODES, STEPS, np.int32))
    moved = whole.reward.copy()
    moved[-1] += shift
    baseline = LeaveOneOutBaseline()
    assert_same(seen(whole._replace(reward=moved), baseline), seen(whole, baseline))


@few
@given(shift=NUMBERS, seed=st.integers(0, 5))
def test_a_constant_added_to_every_reward_leaves_the_expected_gradient(shift: float, seed: int) -> None:
    """At a fixed horizon, by enumeration; and the expected Hessians with it."""
    base, policy = three_state(), tabular()
    shifted = FiniteMDP(base.transition, base.reward + shift, base.start, base.discount, base.horizon)
    params = random_params(policy, seed)
    found, expected = (estimates(objective_of(mdp, policy, params, (4, 3888))) for mdp in (shifted, base))
    for name in ("gradient", "lemma", "causal"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-10)


RULES: dict[str, UpdateRule] = {name: make_method(name).rule for name in METHODS} | {
    "pg-som, raw": make_method("pg-som", curvature="lemma", shape="raw", damping=0.1, step_length="rate").rule,
    "pg-som, rms": make_method("pg-som", curvature="causal", shape="rms", damping=0.1, step_length="rate").rule,
    "pg-som, kl": make_method("pg-som", step_length="kl").rule,
}


def batch_of(length: Any, reward: Any, policy: Policy, shape: tuple[int, int] = (STEPS, EPISODES)) -> Rollout:
    """Random observations and actions with these lengths and rewards."""
    generator = np.random.default_rng(0)
    observation = generator.integers(0, STATES, shape)
    lengths = np.broadcast_to(np.asarray(length, np.int32), shape[1:])
    return Rollout(
        jnp.asarray(observation),
        jnp.asarray(generator.integers(0, 2, shape)),
        jnp.asarray(tables(policy, random_params(policy)).outputs[observation]),
        jnp.asarray(reward * (np.arange(shape[0])[:, None] < lengths)),
        jnp.asarray(lengths),
        jnp.asarray(lengths < shape[0]),
        jnp.asarray(lengths == shape[0]),
        jnp.asarray(observation[-1]),
    )


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_where_no_action_is_better_no_rule_moves(rule: UpdateRule) -> None:
    """Equal returns under leave-one-out: the advantage is zero, and so is the step. γ = ½ makes the sums exact."""
    policy = tabular()
    params, rollout = random_params(policy), batch_of(STEPS, np.ones((STEPS, EPISODES)), policy)
    objective = observe(weighting(0.5, baseline=LeaveOneOutBaseline()), (), policy, params, rollout, jax.random.key(0))
    others = [objective] * (batches_of(rule) - 1)
    direction, state, _ = quick_jit(rule.update)(objective, rule.init(params), params, *others)
    np.testing.assert_array_equal(flat(direction), 0)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state))


@few
@given(rollout=batches())
def test_single_precision_agrees_with_double(rollout: Rollout) -> None:
    double = seen(rollout, NoBaseline())
    with jax.enable_x64(False):
        single = seen(rollout, NoBaseline())
    for name, value in double.items():
        assert single[name].dtype == np.float32
        scale = max(1.0, np.abs(value).max())
        np.testing.assert_allclose(single[name], value, atol=3e-5 * scale, err_msg=name)


def test_compiled_and_interpreted_agree() -> None:
    policy, shape = tabular(), (2, 2)
    rollout = batch_of(2, np.random.default_rng(1).normal(size=shape), policy, shape)
    params, rule = random_params(policy), make_method("hessian-pg").rule
    objective = observe(weighting(0.9), (), policy, params, rollout, jax.random.key(0))
    compiled = quick_jit(rule.update)(objective, rule.init(params), params)
    with jax.disable_jit():
        interpreted = rule.update(objective, rule.init(params), params)
    for one, other in zip(jax.tree.leaves(compiled), jax.tree.leaves(interpreted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("baseline", BASELINES, ids=lambda baseline: type(baseline).__name__)
def test_weights_are_zero_where_no_step_was_taken(baseline: Baseline) -> None:
    """Whatever the baseline says there."""
    policy, length = tabular(), np.array([1, 2, 3, 5])
    rollout = batch_of(length, np.random.default_rng(1).normal(size=(STEPS, EPISODES)), policy)
    made = weighting(0.9, baseline=baseline, entropy=0.1)
    objective = observe(made, (), policy, random_params(policy), rollout, jax.random.key(0))
    taken = np.arange(STEPS)[:, None] < length
    for name in ("weight", "entropy_to_go", "entropy_weight", "step_weight", "score_weight"):
        found = np.asarray(getattr(objective, name))
        assert not np.any(found[~taken]) and np.any(found[taken]), name
