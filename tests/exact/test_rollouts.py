"""Sampled episodes, against the list of all trajectories."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.baselines import ConstantBaseline, LeaveOneOutBaseline
from pgsom.curvature import CausalHessian
from pgsom.environments import Box, FiniteMDP, Step, chain, three_state
from pgsom.objective import observe
from pgsom.policies import make_policy
from pgsom.returns import returns_to_go, step_factors
from pgsom.rollout import Rollout, collect, score
from tests.exact.oracle import probabilities, random_params, tables, tabular, trajectories, truth, weighting

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("steps", [1, 2, 7, 64])
def test_returns_to_go_are_a_plain_loop(steps: int) -> None:
    reward = np.random.default_rng(steps).normal(size=(steps, 3))
    for discount in (0.0, 0.9, 1.0):
        expected, later = np.zeros_like(reward), np.zeros(3)
        for t in reversed(range(steps)):
            later = reward[t] + discount * later
            expected[t] = later
        np.testing.assert_allclose(returns_to_go(jnp.asarray(reward), discount), expected, atol=1e-12)


def test_step_factors_are_powers_under_the_lemma_only() -> None:
    np.testing.assert_allclose(step_factors("lemma", 0.5, jnp.arange(4)), [1, 0.5, 0.25, 0.125])
    np.testing.assert_allclose(step_factors("lemma", 0.0, jnp.arange(3)), [1, 0, 0])
    for discounting in ("appendix", "undiscounted"):
        np.testing.assert_allclose(step_factors(discounting, 0.5, jnp.arange(3)), 1)


CORRIDOR = chain(length=2, horizon=4)


@pytest.fixture(name="rollout", scope="module")
def _rollout() -> Rollout:
    with jax.enable_x64(True):
        return collect(CORRIDOR, tabular(), random_params(tabular()), jax.random.key(0), 200)


def test_an_episode_ends_at_the_goal_or_at_the_horizon(rollout: Rollout) -> None:
    length, goal = np.asarray(rollout.length), CORRIDOR.states - 1
    assert {2, 3, 4} == set(length.tolist())
    np.testing.assert_array_equal(rollout.terminated, np.asarray(rollout.final_observation) == goal)
    np.testing.assert_array_equal(rollout.truncated, length == CORRIDOR.horizon)
    assert np.all(rollout.terminated | rollout.truncated)
    assert np.any(rollout.terminated & rollout.truncated), "both flags at the last step"
    assert np.any(~np.asarray(rollout.terminated))
    assert int(rollout.filled) == length.max()


@pytest.mark.parametrize("discounting", ["lemma", "appendix", "undiscounted"])
def test_weights_are_the_discounted_returns_to_go_less_the_baseline(rollout: Rollout, discounting: Any) -> None:
    """w_t = d_t (G_t − b) step by step in a loop; on the corridor each step costs 1."""
    weights = observe(
        weighting(0.5, discounting=discounting, baseline=ConstantBaseline(-0.7)),
        (),
        tabular(),
        random_params(tabular()),
        rollout,
        jax.random.key(0),
    ).weight
    gamma = 1.0 if discounting == "undiscounted" else 0.5
    for episode, length in enumerate(np.asarray(rollout.length)[:20]):
        for t in range(length):
            to_go = -sum(gamma ** (k - t) for k in range(t, length))
            factor = 0.5**t if discounting == "lemma" else 1.0
            assert float(weights[t, episode]) == pytest.approx(factor * (to_go + 0.7), abs=1e-12)


def test_steps_are_counted_until_the_end_and_not_after_it(rollout: Rollout) -> None:
    taken = np.arange(CORRIDOR.horizon)[:, None] < np.asarray(rollout.length)
    np.testing.assert_array_equal(rollout.mask, taken)
    np.testing.assert_array_equal(rollout.reward, np.where(taken, -1.0, 0.0))
    np.testing.assert_array_equal(rollout.episode_return, -np.asarray(rollout.length))
    assert not np.any(taken & (np.asarray(rollout.observation) == CORRIDOR.states - 1))


def test_observations_follow_each_other_to_the_final_one(rollout: Rollout) -> None:
    """The next observation is one that the action can lead to; the last leads to the final observation."""
    seen, action = np.asarray(rollout.observation), np.asarray(rollout.action)
    assert np.all(seen[0] == 0)
    for n, length in enumerate(np.asarray(rollout.length)):
        states = [*seen[:length, n], int(rollout.final_observation[n])]
        for t in range(length):
            assert CORRIDOR.transition[states[t], action[t, n], states[t + 1]] > 0


def test_outputs_are_the_policys_at_what_it_saw(rollout: Rollout) -> None:
    expected = tables(tabular(), random_params(tabular())).outputs[np.asarray(rollout.observation)]
    taken = np.asarray(rollout.mask, bool)
    np.testing.assert_allclose(np.asarray(rollout.outputs)[taken], expected[taken], atol=1e-12)


def test_scoring_plays_the_same_episodes_as_collecting(rollout: Rollout) -> None:
    outcome = score(CORRIDOR, tabular(), random_params(tabular()), jax.random.key(0), 200)
    np.testing.assert_array_equal(outcome.episode_return, rollout.episode_return)
    np.testing.assert_array_equal(outcome.length, rollout.length)


def test_a_deterministic_score_takes_the_most_probable_action() -> None:
    mdp, policy = chain(length=2, horizon=4, slip=0.0), tabular()
    to_the_right = jax.tree.map(lambda leaf: leaf.at[:, 1].set(0.1), policy.init(jax.random.key(0)))
    outcome = score(mdp, policy, to_the_right, jax.random.key(0), 8, deterministic=True)
    np.testing.assert_array_equal(outcome.length, 2)


def names_of(mdp: FiniteMDP, rollout: Any) -> list[tuple[int, ...]]:
    """Each episode as one tuple of states and actions."""
    state, action, final = (np.asarray(x) for x in (rollout.observation, rollout.action, rollout.final_observation))
    return [
        (*np.stack([state[:k, n], action[:k, n]], 1).ravel().tolist(), int(final[n]))
        for n, k in enumerate(np.asarray(rollout.length))
    ]


def test_sampled_trajectories_have_their_probabilities() -> None:
    """χ² of 20,000 episodes over the ten trajectories of the shortest chain: below its 99.99 % point for 9 degrees."""
    mdp, policy, episodes = chain(length=1, horizon=2, slip=0.2), tabular(), 20_000
    params = random_params(policy)
    played = names_of(mdp, collect(mdp, policy, params, jax.random.key(1), episodes))
    found, p = trajectories(mdp), probabilities(mdp, tables(policy, params))
    listed = Rollout(found.state, found.action, None, None, found.mask.sum(0), None, None, found.final_state)
    expected = dict(zip(names_of(mdp, listed), episodes * p, strict=True))
    assert len(expected) == 10 and set(played) <= set(expected)
    chi_square = sum((played.count(name) - mean) ** 2 / mean for name, mean in expected.items())
    assert chi_square < 33.7


@pytest.mark.parametrize("mdp", [CORRIDOR, three_state()], ids=["chain", "three-state"])
def test_estimates_from_sampled_batches_have_the_exact_derivatives_as_mean(mdp: FiniteMDP) -> None:
    """400 batches of 8 episodes, leave-one-out baseline: gradient and causal diagonal within 4 standard errors."""
    policy, batches = tabular(), 400
    params = random_params(policy)
    made = weighting(mdp.discount, baseline=LeaveOneOutBaseline())

    @jax.jit
    def estimate(keys: jax.Array) -> tuple[jax.Array, jax.Array]:
        def of_batch(key: jax.Array) -> Any:
            objective = observe(made, (), policy, params, collect(mdp, policy, params, key, 8), key)
            return objective.evaluate(objective.gradient_fold(), CausalHessian().diagonal(objective))

        return tuple(jax.vmap(lambda t: ravel_pytree(t)[0])(tree) for tree in jax.vmap(of_batch)(keys))

    gradient, diagonal = (np.asarray(x) for x in estimate(jax.random.split(jax.random.key(2), batches)))
    exact = truth(mdp, policy, params)
    for found, expected in ((gradient, exact.gradient), (diagonal, np.diag(exact.hessian))):
        visited = slice(0, 2 * int((~mdp.terminal).sum()))
        z = (found.mean(axis=0) - expected)[visited] / (found.std(axis=0)[visited] / np.sqrt(batches))
        assert np.abs(z).max() < 4


# --- continuous actions ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Echo:
    """Three steps, each paid with the action that was given."""

    name: str = "echo"
    horizon: int = 3

    @property
    def observation(self) -> Box:
        return Box((1,))

    @property
    def action(self) -> Box:
        return Box((1,), 0.5, 0.75)

    def reset(self, key: jax.Array) -> tuple[Any, jax.Array]:
        return jnp.zeros((), jnp.int32), jnp.zeros(1)

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Step:
        return Step(state + 1, jnp.zeros(1), action[0], jnp.asarray(False), state + 1 == self.horizon)


@pytest.mark.parametrize("actions", ["gaussian", "tanh-gaussian", "beta"])
def test_the_environment_is_given_an_action_within_its_bounds(actions: Any) -> None:
    """And the record keeps the number that was drawn, whose log-probability is asked for later."""
    policy = make_policy("mlp", Echo(), hidden=(), actions=actions)
    params = random_params(policy)
    rollout = collect(Echo(), policy, params, jax.random.key(0), 50)
    paid, drawn = np.asarray(rollout.reward), np.asarray(rollout.action)[:, :, 0]
    assert np.all((paid >= 0.5) & (paid <= 0.75)) and paid.std() > 0.01
    unit = {"gaussian": np.clip(drawn, -1, 1), "tanh-gaussian": np.tanh(drawn), "beta": 2 * drawn - 1}[actions]
    np.testing.assert_allclose(paid, 0.625 + 0.125 * unit, atol=1e-12)
    if actions == "gaussian":
        assert np.abs(drawn).max() > 1, "drawn outside, kept as drawn"
