"""PPO and A2C against NumPy: the clipped objective and its gradient, a whole update, the pace of the rates."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.environments import random_mdp
from pgsom.methods import Method, make_method
from pgsom.objective import LocalObjective, observe
from pgsom.policies import Policy
from pgsom.policies.derivatives import Chunk
from pgsom.rollout import collect
from pgsom.updates.proximal import Proximal, Seen
from pgsom.updates.update_rule import PacedRule
from tests.exact.oracle import STATES, flat, quick_jit, random_params, tabular, weighting

pytestmark = pytest.mark.usefixtures("float64")
ACTIONS = 2
NUMBERS = {"clip": 0.2, "max_norm": 0.05, "learning_rate": 0.1, "b1": 0.8, "b2": 0.95, "eps": 1e-3}


def rule(**changes: Any) -> Proximal:
    options = NUMBERS | {"stop_kl": np.inf, "epochs": 3, "minibatches": 1, "standardise": True} | changes
    return Proximal(**options)


@pytest.fixture(name="objective", scope="module")
def _objective() -> LocalObjective:
    """Twelve episodes of a random MDP, entropy coefficient 0.3."""
    with jax.enable_x64(True):
        mdp, policy = random_mdp(np.random.default_rng(0), STATES, ACTIONS, 5, 0.9, 1), tabular()
        params = random_params(policy)
        rollout = collect(mdp, policy, params, jax.random.key(0), 12)
        made = weighting(0.9, "appendix", entropy=0.3, reduction="mean")
        return quick_jit(observe, static_argnums=2)(made, (), policy, params, rollout, jax.random.key(1))


class Steps:
    """The steps that were taken, one after the other, and PPO by hand."""

    def __init__(self, objective: LocalObjective, *, standardise: bool = True) -> None:
        taken = np.asarray(objective.rollout.mask, bool)
        self.state = np.asarray(objective.rollout.observation)[taken]
        self.action = np.asarray(objective.rollout.action)[taken]
        self.advantage = np.asarray(objective.weight)[taken]
        self.old = self.log_prob(flat(objective.params))
        if standardise:
            self.advantage = (self.advantage - self.advantage.mean()) / self.advantage.std()

    def log_prob(self, theta: np.ndarray) -> np.ndarray:
        """ln π [step, action] of a table of logits."""
        logits = theta.reshape(STATES, ACTIONS)[self.state]
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def surrogate(self, theta: np.ndarray, clip: float = 0.2, entropy: float = 0.3) -> float:
        total, new = 0.0, self.log_prob(theta)
        for t, action in enumerate(self.action):
            ratio = np.exp(new[t, action] - self.old[t, action])
            near = min(max(ratio, 1 - clip), 1 + clip)
            total += min(ratio * self.advantage[t], near * self.advantage[t])
            total -= entropy * np.exp(new[t]) @ new[t]
        return total / len(self.action)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """By central differences."""
        basis = 1e-6 * np.eye(theta.size)
        return np.asarray([(self.surrogate(theta + e) - self.surrogate(theta - e)) / 2e-6 for e in basis])


def far_from(objective: LocalObjective) -> np.ndarray:
    """Parameters at which some ratios are clipped from above, some from below, and some not."""
    return flat(objective.params) + np.random.default_rng(3).normal(scale=0.4, size=STATES * ACTIONS)


def seen(objective: LocalObjective) -> tuple[Policy, Seen]:
    """All rows of the batch as one minibatch."""
    arrays = (objective.outputs, objective.weight, objective.entropy_weight, objective.step_weight)
    chunk = Chunk(*(x.reshape(-1) for x in objective.chunk))
    rows = (x.reshape(-1, *x.shape[2:]) for x in arrays)
    return objective.policy, Seen(chunk, *rows)


@pytest.mark.parametrize("standardise", [True, False])
def test_the_clipped_objective_and_its_gradient_are_a_loop_and_its_differences(
    objective: LocalObjective, standardise: bool
) -> None:
    by_hand, there = Steps(objective, standardise=standardise), far_from(objective)
    unravel = ravel_pytree(objective.params)[1]
    policy, rows = seen(objective)
    made = rule(standardise=standardise)
    (value, _), gradient = jax.value_and_grad(made.surrogate, argnums=1, has_aux=True)(policy, unravel(there), rows)
    np.testing.assert_allclose(value, by_hand.surrogate(there), rtol=1e-8)
    np.testing.assert_allclose(flat(gradient), by_hand.gradient(there), atol=1e-8)
    ratio = np.exp((by_hand.log_prob(there) - by_hand.old)[np.arange(len(by_hand.action)), by_hand.action])
    kinds = {(r > 1.2, r < 0.8, a > 0) for r, a in zip(ratio, by_hand.advantage, strict=True)}
    assert len(kinds) >= 5, "all sides of the clip, for advantages of either sign"


def test_the_divergence_is_the_mean_over_steps(objective: LocalObjective) -> None:
    by_hand, there = Steps(objective), far_from(objective)
    policy, rows = seen(objective)
    new = by_hand.log_prob(there)
    expected = np.mean(np.sum(np.exp(by_hand.old) * (by_hand.old - new), axis=1))
    found = rule().surrogate(policy, ravel_pytree(objective.params)[1](there), rows)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def adam_by_hand(steps: Steps, theta: np.ndarray, epochs: int) -> np.ndarray:
    """θ after full-batch passes: clip the norm, average, correct the bias, ascend."""
    m, v = np.zeros(theta.size), np.zeros(theta.size)
    b1, b2 = NUMBERS["b1"], NUMBERS["b2"]
    for k in range(1, epochs + 1):
        gradient = steps.gradient(theta)
        gradient *= min(1, NUMBERS["max_norm"] / np.linalg.norm(gradient))
        m, v = b1 * m + (1 - b1) * gradient, b2 * v + (1 - b2) * gradient**2
        corrected = np.sqrt(v / (1 - b2**k)) + NUMBERS["eps"]
        theta = theta + NUMBERS["learning_rate"] * m / (1 - b1**k) / corrected
    return theta


def test_an_update_is_passes_of_adam_by_hand(objective: LocalObjective) -> None:
    made, theta = rule(), flat(objective.params)
    direction, _, info = quick_jit(made.update)(objective, made.init(objective.params), objective.params)
    expected = adam_by_hand(Steps(objective), theta, 3) - theta
    np.testing.assert_allclose(flat(direction), expected, atol=1e-6)
    np.testing.assert_allclose(info.direction_norm, np.linalg.norm(expected), rtol=1e-5)


def test_passes_end_where_the_divergence_is_too_large(objective: LocalObjective) -> None:
    """The first step starts from a divergence of 0; with the smallest radius it is the only one."""
    made = rule(stop_kl=1e-9, epochs=5)
    direction = quick_jit(made.update)(objective, made.init(objective.params), objective.params)[0]
    theta = flat(objective.params)
    np.testing.assert_allclose(flat(direction), adam_by_hand(Steps(objective), theta, 1) - theta, atol=1e-6)


def test_minibatches_make_as_many_steps_and_see_every_step_of_the_batch(objective: LocalObjective) -> None:
    """Adam counts: passes × minibatches. Without clipping and standardising, tiny steps add up to full passes."""
    plain = {"standardise": False, "max_norm": np.inf, "b1": 0.0, "b2": 0.0, "eps": 1e6, "epochs": 2}
    found = {}
    for parts in (1, 4):
        made = rule(**plain, minibatches=parts)
        found[parts] = quick_jit(made.update)(objective, made.init(objective.params), objective.params)
        assert int(found[parts][1][1][0].count) == 2 * parts
    # Parts are of equal size but for one step, so that four of them move four times as far as the whole.
    one, four = (flat(found[parts][0]) for parts in (1, 4))
    np.testing.assert_allclose(four, 4 * one, atol=0.1 * np.abs(four).max())


def test_a2c_is_one_clipped_step_of_rmsprop(objective: LocalObjective) -> None:
    made = make_method("a2c", max_gradient_norm=0.05, b2=0.9, eps=1e-3).rule
    direction = made.update(objective, made.init(objective.params), objective.params)[0]
    gradient = flat(objective.gradient())
    gradient = gradient * min(1, 0.05 / np.linalg.norm(gradient))
    np.testing.assert_allclose(flat(direction), gradient / (np.sqrt(0.1 * gradient**2) + 1e-3), rtol=1e-8)


@pytest.mark.parametrize("name", ["ppo", "a2c", "pg-som"])
def test_rates_fall_linearly_to_the_share_that_is_left(name: str) -> None:
    """The policy's and the critic's alike: of a decay of ¾ half is lost half-way, and nothing without a plan."""

    def rates(method: Method) -> list[float]:
        of_policy = method.rule.learning_rate if isinstance(method.rule, PacedRule) else method.learning_rate
        return [float(of_policy), float(method.weighting.baseline.learning_rate)]

    made = make_method(name, baseline="critic", learning_rate=0.4, critic_rate=0.2, rate_decay=0.75)
    assert rates(made.at(100)) == [0.4, 0.2]
    planned = dataclasses.replace(made, planned=200.0)
    np.testing.assert_allclose(rates(planned.at(0)), [0.4, 0.2])
    np.testing.assert_allclose(rates(planned.at(100)), [0.25, 0.125])
    np.testing.assert_allclose(rates(planned.at(jnp.asarray(300))), [0.1, 0.05])
