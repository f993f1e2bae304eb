"""Training with an environment on the host is training: same batches, same updates, only played elsewhere."""

from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom import sweep, train
from pgsom.collectors import BatchPlan
from pgsom.environments import EpisodeError, chain, make
from pgsom.host_play import HostPlayer, host_score, reset_seeds
from pgsom.host_training import HostTraining, Played, _Wanted, host_init_program, update_program, wanted_program
from pgsom.methods import Common, Method, assemble, make_method
from pgsom.policies import Policy, make_policy, tabular_softmax
from pgsom.rollout import collect
from pgsom.training import init, seed_keys, step
from tests.contracts.test_roaming_rules import There
from tests.host.clock import BETWEEN, CUT, ENDED, limited

TABLE = Policy(tabular_softmax(4, 2))
SHORT = {"max_episode_steps": 20}
QUICK: Any = {"batch": 2, "policy": "linear", "environment_options": SHORT}
METHODS = {
    "two stages": make_method("reinforce", batch=2, scheme="heun"),
    "two points in each of two stages": assemble("there", There(0.5), 0.1, Common(batch=2, scheme="heun")),
    "one batch for two stages": make_method("reinforce", batch=2, scheme="heun", stage_data="reweighted"),
}


@pytest.mark.parametrize("case", METHODS)
def test_an_update_in_pieces_is_the_update_in_one(case: str) -> None:
    """The pieces are given the batches that the one program would have played; all they then do must be the same."""
    method: Method = METHODS[case]
    environment, keys = chain(), seed_keys(0, 2)
    whole = jax.jit(jax.vmap(partial(step, environment, TABLE, method)))
    expected, metrics = whole(jax.vmap(partial(init, environment, TABLE, method))(keys))

    state = host_init_program(environment.observation, TABLE, method, keys)

    @jax.jit
    @jax.vmap
    def play(data: jax.Array, params: Any) -> Any:
        return collect(environment, TABLE, params, jax.random.wrap_key_data(data), 2)._replace(
            reward_scale=jnp.ones(())
        )

    played: Any = ()
    for _ in range(method.batches_per_update):
        wants = wanted_program(environment.observation, TABLE, method, state, played)
        played = (*played, play(wants.key, wants.params))
    found, told, wanted = update_program(environment.observation, TABLE, method, state, played)

    def alike(a: Any, b: Any) -> None:
        a, b = (jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)

    jax.tree.map(alike, (found, told), (expected, metrics))
    jax.tree.map(alike, wanted, wanted_program(environment.observation, TABLE, method, found, ()))


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_a_batch_is_what_gymnasium_says_step_by_step(name: str) -> None:
    """Every episode of a batch, replayed in an environment of its own with the same seed and the actions drawn."""
    environment = make(f"gymnasium:{name}", max_episode_steps=40)
    policy = make_policy("mlp", environment, hidden=(4,), log_std="network")
    keys = seed_keys(3, 2)
    params = jax.vmap(policy.init)(keys)
    player = HostPlayer(environment, policy, ["seed 0", "seed 1"], 3)
    rollout = jax.tree.map(jnp.asarray, player.episodes(keys, params))
    assert rollout.reward.shape == (2, 64, 3)
    seeds = np.asarray(reset_seeds(keys, 3)).reshape(2, 3)
    for member in range(2):
        for copy in range(3):
            env = gymnasium.make(name, max_episode_steps=40)
            seen, _ = env.reset(seed=int(seeds[member, copy]))
            length = int(rollout.length[member, copy])
            assert 1 <= length <= 40
            for t in range(length):
                np.testing.assert_allclose(rollout.observation[member, t, copy], seen, rtol=1e-6)
                action = np.asarray(policy.distribution.executed(rollout.action[member, t, copy]))
                seen, reward, terminated, truncated, _ = env.step(action if action.ndim else int(action))
                np.testing.assert_allclose(rollout.reward[member, t, copy], reward, rtol=1e-5)
                assert (terminated or truncated) == (t + 1 == length)
            np.testing.assert_allclose(rollout.final_observation[member, copy], seen, rtol=1e-6)
            assert bool(rollout.terminated[member, copy]) == terminated
            assert bool(rollout.truncated[member, copy]) == truncated
            np.testing.assert_array_equal(rollout.reward[member, length:, copy], 0)
    outputs = jax.vmap(lambda p, s: jax.vmap(jax.vmap(partial(policy.outputs, p)))(s))(params, rollout.observation)
    taken = np.asarray(jax.vmap(lambda r: r.mask)(rollout)) > 0
    np.testing.assert_allclose(np.asarray(rollout.outputs)[taken], np.asarray(outputs)[taken], rtol=1e-4, atol=1e-6)


def test_actions_follow_the_policy_and_differ_between_copies_steps_and_members() -> None:
    environment = make(lambda: limited(lengths=(9,), limit=99))
    policy = make_policy("linear", environment)
    params = jax.tree.map(lambda leaf: jnp.zeros((2, *leaf.shape)), policy.init(jax.random.key(0)))
    keys = seed_keys(0, 2)
    actions = np.asarray(HostPlayer(environment, policy, ["a", "b"], 64).episodes(keys, params).action)[:, :9]
    assert abs(actions.mean() - 0.5) < 0.05
    rows = actions.transpose(0, 2, 1).reshape(128, 9)
    assert len(np.unique(rows, axis=0)) > 100 and len(np.unique(actions.reshape(18, 64), axis=0)) == 18


def test_episodes_are_scored_without_favour_for_short_ones() -> None:
    """9 episodes on 8 copies: every copy plays two, one is dropped; each lasts 3 steps and pays 1 + 1 + 7."""
    environment = make(limited)
    policy = make_policy("linear", environment)
    params = jax.vmap(policy.init)(seed_keys(0, 2))
    outcome = host_score(environment, policy, params, seed_keys(1, 2), ["a", "b"], 9, deterministic=True)
    np.testing.assert_array_equal(outcome.episode_return, np.full((2, 9), 9.0))
    np.testing.assert_array_equal(outcome.length, np.full((2, 9), 3))


def test_an_update_depends_on_the_state_it_is_given_and_not_on_the_one_before() -> None:
    """What the last update foresaw of the next holds for its own state only."""
    environment, method = make("gymnasium:CartPole-v1", **SHORT), make_method("reinforce", batch=2)
    training = HostTraining(environment, make_policy("linear", environment), method, ["seed 0"])
    first = training.init(seed_keys(0, 1))
    second, told = training.step(first)
    third, _ = training.step(second)
    again, told_again = training.step(first)
    np.testing.assert_array_equal(told.episode_return, told_again.episode_return)
    np.testing.assert_array_equal(again.params[0].weight, second.params[0].weight)
    assert not np.array_equal(third.params[0].weight, second.params[0].weight)
    training.close()


def test_what_an_update_foresees_is_what_a_resumed_run_works_out_to_the_bit() -> None:
    environment, method = make("gymnasium:Pendulum-v1", **SHORT), make_method("reinforce", batch=3)
    training = HostTraining(environment, make_policy("linear", environment), method, ["seed 0", "seed 1"])
    state, _ = training.step(training.init(seed_keys(0, 2)))
    assert training._after is not None and training._after[0] is state
    assert training._after[1].noise.shape == (2, 64, 3, 1)
    jax.tree.map(np.testing.assert_array_equal, training._after[1], training._wanted(state, ()))
    training.close()


def test_seed_i_is_the_same_whatever_the_others() -> None:
    two = train("gymnasium:CartPole-v1", "reinforce", seeds=2, updates=3, **QUICK)
    one = train("gymnasium:CartPole-v1", "reinforce", seeds=(1,), updates=3, **QUICK)
    assert two.returns.shape == (2, 3) and two.episodes.tolist() == [2, 4, 6]
    np.testing.assert_allclose(two.returns[1:], one.returns)
    of_one = jax.tree.map(lambda leaf: leaf[1:], two.params)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), of_one, one.params)
    assert one.evaluate(3).shape == (1, 3)


def test_methods_that_differ_in_numbers_are_trained_side_by_side() -> None:
    methods = [make_method("reinforce", batch=2, learning_rate=rate) for rate in (0.1, 0.2)]
    both = sweep("gymnasium:CartPole-v1", methods, updates=2, policy="linear", environment_options=SHORT)
    alone = train("gymnasium:CartPole-v1", "reinforce", learning_rate=0.2, updates=2, **QUICK)
    np.testing.assert_allclose(both[1].returns, alone.returns)


def test_what_raises_ends_the_run_before_the_update_that_was_being_played() -> None:
    """Every copy breaks in its third episode."""
    made = []

    class Breaks(gymnasium.Wrapper):
        episodes = 0

        def reset(self, **options: Any) -> Any:
            self.episodes += 1
            made.append(self)
            if self.episodes == 3:
                raise ValueError("no more")
            return super().reset(**options)

    with pytest.raises(
        EpisodeError, match=r"^Clock, seed 7, copy 0, reset of episode 1 .*: ValueError: no more"
    ) as raised:
        train(lambda: Breaks(limited()), "reinforce", seeds=(7,), updates=9, batch=2, policy="linear")
    (result,) = raised.value.results
    assert result.returns.tolist() == [[9.0, 9.0]] and result.settings.updates == 9
    assert len(made) == 2 + 2 + 1 and int(result.state.updates[0]) == 2


def test_continuous_actions_stay_within_their_bounds() -> None:
    result = train("gymnasium:Pendulum-v1", "adam", updates=2, actions="tanh-gaussian", **QUICK | {"policy": "mlp"})
    assert np.isfinite(result.returns).all() and result.env_steps.tolist() == [[40, 80]]


@pytest.mark.parametrize("autoreset", ["same-step", "next-step"])
def test_segments_are_one_long_play_cut_in_pieces(autoreset: str) -> None:
    """The clock's episodes last 3, 2 and 3 steps: ended, ended, cut; what was before a reset is what is next."""
    environment = make(limited, autoreset=autoreset)
    policy = make_policy("linear", environment)
    player, keys = HostPlayer(environment, policy, ["a", "b"], 2), seed_keys(0, 2)
    params = jax.vmap(policy.init)(keys)
    batches = [player.segments(keys, params, None, 5) for _ in range(4)]
    player.close()
    assert batches[0].reward.shape == (2, 5, 2)
    told = []
    for batch in batches:
        columns = (batch.observation, batch.next_observation, batch.reward, batch.terminated, batch.truncated)
        rows = zip(*(np.asarray(x)[1, :, 0] for x in (*columns, batch.time, batch.episode_return)), strict=True)
        told += [[x.tolist() for x in row] for row, taken in zip(rows, batch.taken[1, :, 0], strict=True) if taken]
    rewards = {0: (BETWEEN, BETWEEN, ENDED), 1: (BETWEEN, ENDED), 2: (BETWEEN, BETWEEN, CUT)}
    expected = [
        [[k, t], [k, t + 1], paid, paid == ENDED, paid == CUT, t, sum(rewards[k % 3][: t + 1])]
        for k in range(8)
        for t, paid in enumerate(rewards[k % 3])
    ]
    assert len(told) >= 14 and told == expected[: len(told)]


def test_statistics_and_scaled_rewards_are_those_of_environments_in_jax() -> None:
    """The host's segments, handed to the collector of played batches, against the same numbers by a loop."""
    raw = HostPlayer(*(lambda e: (e, make_policy("linear", e)))(make(limited, autoreset="next-step")), ["a"], 2)
    environment, policy = raw.environment, raw.policy
    keys = seed_keys(0, 1)
    params = jax.vmap(policy.init)(keys)
    segments = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), raw.segments(keys, params, None, 9))
    played = Played(environment.observation, BatchPlan(2, 9, True, True), 0.5, [segments])
    first = played.init(jax.random.key(0))
    batch, after = played.collect(jax.random.key(0), params, first)
    taken = np.asarray(segments.taken)
    np.testing.assert_allclose(
        after.statistics.observations.mean, np.asarray(segments.observation)[taken].mean(axis=0), rtol=1e-5
    )
    sums, now = [], np.zeros(2)
    for reward, acted, over in zip(segments.reward, taken, segments.over, strict=True):
        now = np.where(acted, 0.5 * now + reward, now)
        sums.append(now)
        now = np.where(over, 0, now)
    np.testing.assert_allclose(after.statistics.returns.mean, np.array(sums)[taken].mean(), rtol=1e-5)
    np.testing.assert_allclose(after.discounted, now, rtol=1e-5)
    assert batch.reward.shape == (9, 2) and float(batch.reward_scale) == 1
    with pytest.raises(_Wanted) as wanted:
        played.collect(jax.random.key(5), params, after)
    assert wanted.value.seen is after.statistics.observations
