"""Training with an environment on the host is training: same batches, same updates, only played elsewhere."""

from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from pgsom.host_collector import HostCollector, _reset_seeds, host_score

from pgsom.environments import Box, chain, make
from pgsom.host_training import HostTraining, host_init_program, update_program, wanted_program
from pgsom.methods import Common, Method, assemble, make_method
from pgsom.policies import Policy, make_policy, tabular_softmax
from pgsom.rollout import collect
from pgsom.training import init, seed_keys, step
from pgsom.updates import followed_by, from_optax
from tests.contracts.test_roaming_rules import There
from tests.host.clock import limited

TABLE = Policy(tabular_softmax(4, 2))
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
    play = jax.jit(jax.vmap(lambda key, params: collect(environment, TABLE, params, key, 2)))
    played: Any = ()
    for _ in range(method.batches_per_update):
        played = (*played, play(*wanted_program(environment.observation, TABLE, method, state, played)))
    found, told = update_program(environment.observation, TABLE, method, state, played)

    def alike(a: Any, b: Any) -> None:
        a, b = (jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)

    jax.tree.map(alike, (found, told), (expected, metrics))


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_a_batch_is_what_gymnasium_says_step_by_step(name: str) -> None:
    """Every episode of a batch, replayed in an environment of its own with the same seed and the actions drawn."""
    environment = make(f"gymnasium:{name}", max_episode_steps=40)
    policy = make_policy("mlp", environment, hidden=(4,), log_std="network")
    keys = seed_keys(3, 2)
    params = jax.vmap(policy.init)(keys)
    collector = HostCollector(environment, policy, ["seed 0", "seed 1"], 3)
    rollout = collector.collect(keys, params)
    assert rollout.reward.shape == (2, 64, 3)
    seeds = np.asarray(_reset_seeds(keys, 3)).reshape(2, 3)
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
    actions = np.asarray(HostCollector(environment, policy, ["a", "b"], 64).collect(keys, params).action)[:, :9]
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


def test_seed_i_is_the_same_whatever_the_others_and_what_raises_ends_the_run_before_its_update() -> None:
    environment = make("gymnasium:CartPole-v1", max_episode_steps=20)
    policy = make_policy("linear", environment)
    method = make_method("reinforce", batch=2)
    runs = {}
    for seeds in ((0, 1), (1,)):
        training = HostTraining(environment, policy, method, [f"seed {seed}" for seed in seeds])
        state, rows, made = training.advance(training.init(seed_keys(0, seeds)), 3)
        training.close()
        assert made == 3 and rows is not None and rows.episodes.shape == (len(seeds), 3)
        runs[seeds] = jax.tree.map(lambda leaf: np.asarray(leaf[-1]), (state.params, rows))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), runs[(0, 1)], runs[(1,)])


def test_what_raises_ends_the_run_before_the_update_that_was_being_played() -> None:
    class Once:
        """The third episode of every copy breaks."""

        episodes = 0

    def breaking() -> Any:
        env = limited()

        def reset(*, seed: Any = None, options: Any = None) -> Any:
            Once.episodes += 1
            if Once.episodes > 4:
                raise ValueError("no more")
            return type(env).reset(env, seed=seed, options=options)

        wrapper = gymnasium.Wrapper(env)
        wrapper.reset = reset  # type: ignore[method-assign]
        return wrapper

    environment = make(breaking)
    policy = make_policy("linear", environment)
    training = HostTraining(environment, policy, make_method("reinforce", batch=2), ["seed 7"])
    state, rows, made = training.advance(training.init(seed_keys(0, (7,))), 5)
    assert made == 2 == int(state.updates[0]) and rows is not None and rows.episodes[0].tolist() == [2, 4]
    assert "Clock, seed 7, copy 0, reset of episode 1" in str(training.failure) and "no more" in str(training.failure)
    training.close()


def test_a_followed_rule_and_a_continuous_action() -> None:
    environment = make("gymnasium:Pendulum-v1", max_episode_steps=5)
    assert isinstance(environment.action, Box)
    policy = make_policy("mlp", environment, hidden=(4,), actions="tanh-gaussian")
    rule = followed_by(make_method("reinforce").rule, from_optax(optax.scale, step_size=2.0))
    training = HostTraining(environment, policy, assemble("twice", rule, 0.1, Common(batch=2)), ["seed 0"])
    state, rows, made = training.advance(training.init(seed_keys(0, 1)), 2)
    training.close()
    assert made == 2 and rows is not None and np.isfinite(rows.episode_return).all() and int(state.env_steps[0]) == 20
