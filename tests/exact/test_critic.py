"""The critic: advantages against loops, cut-off episodes against a closed form, unbiasedness by enumeration."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.baselines import NoBaseline
from pgsom.critic import Critic, CriticState, Lesson
from pgsom.curvature import ESTIMATORS, CausalHessian, DecayedCausal, Hutchinson, dense, diagonal, make_estimator
from pgsom.environments import Discrete, random_mdp, trajectory_probabilities
from pgsom.minibatches import deal
from pgsom.objective import LocalObjective, observe
from pgsom.rollout import Rollout
from pgsom.segments import Segments
from tests.exact.oracle import (
    STATES,
    flat,
    objective_of,
    quick_jit,
    random_params,
    rollout_of,
    tables,
    tabular,
    trajectories,
    truth,
    weighting,
)

pytestmark = pytest.mark.usefixtures("float64")
TABLE = Critic(hidden=(), optimiser="sgd", bootstrap=False)
"""One number for each state."""
DRAWN = ("fisher-sampled", "gauss-newton-bartlett", "hutchinson")
"""What these return depends on where a step stands in the batch."""


def valued_at(values: Any) -> CriticState:
    """A table that says these values."""
    state = TABLE.init(Discrete(STATES), jax.random.key(0))
    (layer,) = state.params
    return state._replace(params=(layer._replace(weight=jnp.asarray(values)[:, None]),))


def segments_of(**columns: Any) -> Segments:
    """From [time, env] arrays; what is not given is of no consequence."""
    shape = np.shape(columns["reward"])
    zeros, flags = jnp.zeros(shape), jnp.zeros(shape, bool)
    whole = {
        "observation": zeros.astype(int),
        "action": zeros.astype(int),
        "outputs": jnp.zeros((*shape, 2)),
        "taken": ~flags,
        "terminated": flags,
        "truncated": flags,
        "next_observation": zeros.astype(int),
        "time": jnp.cumsum(jnp.ones(shape, int), axis=0) - 1,
        "episode_return": zeros,
        "reward_scale": jnp.ones(()),
    }
    return Segments(**(whole | {name: jnp.asarray(value) for name, value in columns.items()}))


judge = quick_jit(Critic.judge)
watched = quick_jit(observe, static_argnums=2)


# --- advantages --------------------------------------------------------------------------------------------------


@pytest.fixture(name="segments", scope="module")
def _segments() -> Segments:
    """Thirty steps of three environments, in which a third of the steps end an episode one way or the other."""
    generator = np.random.default_rng(0)
    with jax.enable_x64(True):
        return segments_of(
            observation=generator.integers(STATES, size=(30, 3)),
            next_observation=generator.integers(STATES, size=(30, 3)),
            reward=generator.normal(size=(30, 3)),
            terminated=generator.random((30, 3)) < 0.2,
            truncated=generator.random((30, 3)) < 0.2,
        )


VALUES, GAMMA, LAMBDA = np.asarray([0.3, -1.0, 2.0, 0.7]), 0.9, 0.8


def test_gae_is_a_ten_line_loop(segments: Segments) -> None:
    expected, later = np.zeros((30, 3)), np.zeros(3)
    for t in reversed(range(30)):
        for n in range(3):
            ended, cut = bool(segments.terminated[t, n]), bool(segments.truncated[t, n])
            after = 0.0 if ended else VALUES[segments.next_observation[t, n]]
            delta = segments.reward[t, n] + GAMMA * after - VALUES[segments.observation[t, n]]
            later[n] = delta + (0.0 if ended or cut else GAMMA * LAMBDA * later[n])
            expected[t, n] = later[n]
    critic = dataclasses.replace(TABLE, bootstrap=True, gae_lambda=LAMBDA, td_lambda=LAMBDA)
    advantage, lesson = judge(critic, valued_at(VALUES), segments, GAMMA)
    np.testing.assert_allclose(advantage, expected, atol=1e-12)
    np.testing.assert_allclose(lesson.target - lesson.value, expected, atol=1e-12)


@pytest.mark.parametrize("n", [1, 3, 100])
def test_n_step_advantages_are_their_definition(segments: Segments, n: int) -> None:
    expected, over = np.zeros((30, 3)), np.asarray(segments.over)
    for t in range(30):
        for e in range(3):
            last = next((k for k in range(t, 30) if over[k, e]), 29)
            m = min(n, last - t + 1)
            rewards = sum(GAMMA**k * segments.reward[t + k, e] for k in range(m))
            after = 0.0 if segments.terminated[t + m - 1, e] else VALUES[segments.next_observation[t + m - 1, e]]
            expected[t, e] = rewards + GAMMA**m * after - VALUES[segments.observation[t, e]]
    critic = dataclasses.replace(TABLE, bootstrap=True, advantage="n-step", n=n)
    np.testing.assert_allclose(judge(critic, valued_at(VALUES), segments, GAMMA)[0], expected, atol=1e-12)


def one_step(*, terminated: bool, truncated: bool, bootstrap: bool, whole: bool) -> float:
    """The advantage of one step that earns 5, from a state worth 11 to one worth 1000, at γ = ½."""
    flags = {"terminated": terminated, "truncated": truncated}
    shape = (1, 1)
    if whole:
        batch: Any = Rollout(
            jnp.zeros(shape, int), jnp.zeros(shape, int), jnp.zeros((1, 1, 2)), jnp.full(shape, 5.0), jnp.ones(1, int),
            *(jnp.full(1, flag) for flag in flags.values()), jnp.ones(1, int),
        )  # fmt: skip
    else:
        columns = {name: np.full(shape, flag) for name, flag in flags.items()}
        batch = segments_of(reward=np.full(shape, 5.0), next_observation=np.ones(shape, int), **columns)
    critic = dataclasses.replace(TABLE, bootstrap=bootstrap)
    return float(judge(critic, valued_at([11.0, 1000.0, 0.0, 0.0]), batch, 0.5)[0][0, 0])


@pytest.mark.parametrize("whole", [True, False])
def test_a_termination_is_worth_nothing_and_a_time_limit_what_the_critic_says(whole: bool) -> None:
    ended, limited = 5.0 - 11.0, 5.0 + 0.5 * 1000.0 - 11.0
    for bootstrap, worth in ((True, limited), (False, ended)):
        options: Any = {"bootstrap": bootstrap, "whole": whole}
        assert one_step(terminated=True, truncated=False, **options) == ended
        assert one_step(terminated=True, truncated=True, **options) == ended, "terminated on the last step allowed"
        assert one_step(terminated=False, truncated=True, **options) == worth
    if not whole:
        assert one_step(terminated=False, truncated=False, bootstrap=False, whole=False) == limited, "only interrupted"


def test_an_endless_task_cut_off_by_its_time_limit_is_worth_what_it_is_worth_endless() -> None:
    """A reward of 1 for ever is worth 1/(1 − γ); if the limit is taken for an end, the critic learns less."""
    discount, steps = 0.8, 6
    batch = segments_of(
        reward=np.ones((steps, 1)),
        truncated=np.arange(steps)[:, None] == steps - 1,
    )
    exact = valued_at(np.full(STATES, 1 / (1 - discount)))
    right = dataclasses.replace(TABLE, bootstrap=True, learning_rate=0.2, epochs=100, gae_lambda=0.7, td_lambda=0.7)
    naive = dataclasses.replace(right, bootstrap=False)
    np.testing.assert_allclose(judge(right, exact, batch, discount)[0], 0, atol=1e-12)
    assert np.max(judge(naive, exact, batch, discount)[0]) < -0.01
    learned = {}
    for critic in (right, naive):
        state = valued_at(np.zeros(STATES))
        lesson = jax.jit(lambda s, c=critic: c.learn(s, batch, c.judge(s, batch, discount)[1], jax.random.key(0)))
        for _ in range(60):
            state = lesson(state)
        learned[critic.bootstrap] = float(critic.values(state, batch.observation, batch.filled)[0, 0])
    np.testing.assert_allclose(learned[True], 1 / (1 - discount), rtol=1e-6)
    assert learned[False] < 0.9 / (1 - discount)


# --- pieces ------------------------------------------------------------------------------------------------------


def laid_end_to_end(rollout: Rollout, columns: int) -> Segments:
    """The same episodes, several behind one another in every column; a last row is no step."""
    length = np.asarray(rollout.length)
    rows: list[dict[str, list[Any]]] = [{} for _ in range(columns)]
    for n, steps in enumerate(length):
        into = rows[n % columns]
        for t in range(steps):
            last = t == steps - 1
            step = {
                "observation": rollout.observation[t, n],
                "action": rollout.action[t, n],
                "outputs": rollout.outputs[t, n],
                "reward": rollout.reward[t, n],
                "taken": True,
                "terminated": bool(last and rollout.terminated[n]),
                "truncated": bool(last and rollout.truncated[n]),
                "next_observation": rollout.final_observation[n] if last else rollout.observation[t + 1, n],
                "time": t,
            }
            for name, value in step.items():
                into.setdefault(name, []).append(value)
    most = max(len(column["taken"]) for column in rows) + 1

    def stacked(name: str) -> np.ndarray:
        columns_of = [np.stack([np.asarray(x) for x in column[name]]) for column in rows]
        return np.stack([np.concatenate([c, np.zeros((most - len(c), *c.shape[1:]), c.dtype)]) for c in columns_of], 1)

    return segments_of(**{name: stacked(name) for name in rows[0]})


@pytest.fixture(name="two_ways", scope="module")
def _two_ways() -> tuple[LocalObjective, LocalObjective]:
    """Seven episodes of unequal length side by side, and the same in two columns; weights by a critic."""
    with jax.enable_x64(True):
        mdp, policy = random_mdp(np.random.default_rng(3), 4, 2, 4, 0.9, 1), tabular()
        params = random_params(policy)
        whole = rollout_of(mdp, tables(policy, params), trajectories(mdp).state.shape)
        of_length = [np.flatnonzero(np.asarray(whole.length) == steps) for steps in (1, 2, 3, 4)]
        chosen = np.concatenate([of_length[1][:2], of_length[3][:2], of_length[0][:1], of_length[2][-2:]])
        single = ("length", "terminated", "truncated", "final_observation")
        rollout = whole._replace(
            **{name: getattr(whole, name)[chosen] for name in single},
            **{name: getattr(whole, name)[:, chosen] for name in ("observation", "action", "outputs", "reward")},
        )
        critic = dataclasses.replace(TABLE, bootstrap=True, gae_lambda=0.7)
        made = weighting(0.9, baseline=critic, reduction="mean", entropy=0.3)
        state = valued_at(VALUES)
        return tuple(
            watched(made, state, policy, params, batch, jax.random.key(0))
            for batch in (rollout, laid_end_to_end(rollout, 2))
        )


def test_every_estimator_keeps_pieces_of_one_column_apart(two_ways: Any) -> None:
    """Diagonal, and product with a vector, are those of the same episodes side by side."""
    vector = random_params(tabular(), seed=6)

    @quick_jit
    def of(objective: LocalObjective) -> Any:
        made = {name: make_estimator(name) for name in ESTIMATORS if name not in DRAWN}
        return {name: (diagonal(e, objective), e.product(objective, vector)) for name, e in made.items()}

    apart, joined = map(of, two_ways)
    for name in apart:
        np.testing.assert_allclose(flat(joined[name]), flat(apart[name]), atol=1e-12, err_msg=name)
        assert np.abs(flat(apart[name])).max() > 1e-3


def test_random_probes_keep_pieces_of_one_column_apart(two_ways: Any) -> None:
    """Probes go with the gradient where a column holds one episode; else they are products, which keep pieces apart."""
    _, joined = two_ways

    @quick_jit
    def of(objective: LocalObjective) -> Any:
        return [diagonal(Hutchinson(of=matrix), objective) for matrix in (CausalHessian(), DecayedCausal(1.0))]

    found, expected = map(flat, of(joined))
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.abs(found).max() > 1e-3


def test_the_objective_keeps_pieces_of_one_column_apart(two_ways: Any) -> None:
    """The gradient, the entropy's to-go part in it; re-weighting by importance; gains with the whole past."""
    there = random_params(tabular(), seed=5)

    @quick_jit
    def of(objective: LocalObjective) -> Any:
        moved, past = objective.at(there), objective.gain_fold(there, whole_past=True)
        curved = diagonal(make_estimator("lemma"), moved)
        parts = (objective.gradient(), moved.gradient(), curved, objective.evaluate(past), objective.kl(there))
        return ravel_pytree(parts)[0]

    np.testing.assert_allclose(of(two_ways[1]), of(two_ways[0]), atol=1e-12)


# --- unbiasedness ------------------------------------------------------------------------------------------------

UNBIASED = [name for name in ESTIMATORS if not make_estimator(name).biased and name != "hutchinson"]


@quick_jit
def estimates_of(objective: LocalObjective) -> Any:
    """The gradient, and the matrix of every estimator that says it is unbiased."""
    matrices = {name: dense(make_estimator(name), objective) for name in UNBIASED}
    return ravel_pytree(objective.gradient())[0], matrices


@pytest.mark.parametrize("mdp", [random_mdp(np.random.default_rng(s), 3, 2, 3, 0.8, s) for s in (0, 1)])
def test_any_state_value_as_the_baseline_of_all_terms_leaves_them_unbiased(mdp: Any) -> None:
    policy = tabular()
    params = random_params(policy)
    objective = objective_of(mdp, policy, params, (3, 864), valued_at(VALUES), baseline=TABLE)
    plain = objective_of(mdp, policy, params, (3, 864), baseline=NoBaseline())
    assert np.abs(objective.weight - plain.weight).max() > 0.1
    exact = truth(mdp, policy, params)
    gradient, matrices = estimates_of(objective)
    np.testing.assert_allclose(gradient, exact.gradient, atol=1e-10)
    for name, matrix in matrices.items():
        np.testing.assert_allclose(matrix, exact.hessian, atol=1e-10, err_msg=name)


def test_segments_estimate_what_their_rewards_and_the_value_at_their_end_are_worth() -> None:
    """J = E[Σ_{t<T} γ^t r_t + γ^T V(s_T)], V held constant, differentiated by way of the probabilities."""
    mdp = random_mdp(np.random.default_rng(7), 4, 2, 3, 0.8, 1)
    policy, found = tabular(), trajectories(mdp)
    params = random_params(policy)
    vector, unravel = ravel_pytree(params)
    steps, ended = found.mask.sum(axis=0), found.terminated.any(axis=0)
    earned = (GAMMA ** np.arange(3)[:, None] * found.reward).sum(axis=0)
    earned = earned + np.where(ended, 0.0, GAMMA**steps * VALUES[found.final_state])

    def worth(theta: Any) -> Any:
        chances = jax.nn.softmax(jax.vmap(policy.outputs, (None, 0))(unravel(theta), jnp.arange(STATES)))
        return jnp.sum(trajectory_probabilities(found, chances) * earned)

    rollout = rollout_of(mdp, tables(policy, params), found.state.shape)
    batch = laid_end_to_end(rollout._replace(truncated=rollout.truncated & False), rollout.length.size)
    critic = dataclasses.replace(TABLE, bootstrap=True)
    made = weighting(GAMMA, baseline=critic)
    objective = watched(made, valued_at(VALUES), policy, params, batch, jax.random.key(0))
    chances = jax.nn.softmax(jax.vmap(policy.outputs, (None, 0))(params, jnp.arange(STATES)))
    objective = dataclasses.replace(objective, episode_weight=trajectory_probabilities(found, chances))
    gradient, matrices = estimates_of(objective)
    np.testing.assert_allclose(gradient, quick_jit(jax.grad(worth))(vector), atol=1e-10)
    hessian = quick_jit(jax.hessian(worth))(vector)
    for name, matrix in matrices.items():
        np.testing.assert_allclose(matrix, hessian, atol=1e-10, err_msg=name)


# --- learning ----------------------------------------------------------------------------------------------------


def test_one_pass_over_everything_is_one_step_down_the_mean_squared_error(segments: Segments) -> None:
    """With a table the gradient at state s is Σ (V(s) − R_t)/T over the steps in s; clipped, where that is larger."""
    critic = dataclasses.replace(TABLE, learning_rate=0.5, epochs=1)
    target = np.random.default_rng(1).normal(size=(30, 3))
    seen = np.asarray(segments.observation)
    lesson = Lesson(jnp.asarray(VALUES[seen]), jnp.asarray(target))
    after = critic.learn(valued_at(VALUES), segments, lesson, jax.random.key(0))
    gradient = np.asarray([(VALUES[s] - target)[seen == s].sum() / 90 for s in range(STATES)])
    np.testing.assert_allclose(after.params[0].weight[:, 0], VALUES - 0.5 * gradient, atol=1e-12)


def test_a_clipped_critic_does_not_profit_from_leaving_its_old_value() -> None:
    """Old value 0, clip 0.5: towards a target of 2 the loss is flat beyond 0.5, away from it it is not."""
    critic = dataclasses.replace(TABLE, clip=0.5)
    batch = segments_of(reward=np.zeros((1, 1)))

    def slope(value: float) -> float:
        lesson = Lesson(jnp.zeros((1, 1)), jnp.full((1, 1), 2.0))
        loss = jax.grad(lambda p: critic._loss(p, batch.observation, lesson, batch.mask))
        return float(loss(valued_at(np.full(STATES, value)).params)[0].weight[0, 0])

    assert [slope(v) for v in (0.25, 1.0, -0.25, -3.0)] == [-1.75, 0.0, -2.25, -5.0]


def test_minibatches_hold_every_step_once_and_nothing_else() -> None:
    generator = np.random.default_rng(0)
    for steps in (12, 7, 1):
        mask = np.zeros(24)
        mask[generator.permutation(24)[:steps]] = 1
        dealt = deal(jax.random.key(steps), jnp.asarray(mask.reshape(6, 4)), 3)
        chosen = np.asarray(dealt.row)[np.asarray(dealt.weight) == 1]
        assert sorted(chosen.tolist()) == np.flatnonzero(mask).tolist()
        sizes = np.asarray(dealt.weight).sum(axis=1)
        assert sizes.max() - sizes.min() <= 1
    orders = [np.asarray(deal(jax.random.key(k), jnp.ones((6, 4)), 3).row).ravel().tolist() for k in (0, 1)]
    assert orders[0] != orders[1] and sorted(orders[0]) == list(range(24))
