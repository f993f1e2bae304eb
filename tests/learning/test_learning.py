"""Does it learn? Each test trains many seeds side by side and asks how many of them succeeded.

The rule: at least `needed` of `SEEDS` seeds succeed. A method that succeeds with probability p per seed fails that
by bad luck with probability P[Binomial(SEEDS, p) < needed], which is stated where the numbers are chosen. Seeds are
fixed, so a test that passes keeps passing until the code changes.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import scipy.stats

import pgsom
from pgsom.methods import METHODS


def luck(seeds: int, needed: int, p: float) -> float:
    """The probability that fewer than `needed` of `seeds` succeed, each with probability p."""
    return float(scipy.stats.binom.cdf(needed - 1, seeds, p))


# --- quick: two tables with a known best action ------------------------------------------------------------------

SEEDS, NEEDED = 32, 30
QUICK: dict[str, dict[str, Any]] = {
    "reinforce": {"learning_rate": 1.0},
    "hessian-pg": {"learning_rate": 0.5, "damping": 0.5},
    "runge-kutta-pg": {"learning_rate": 1.0},
    "pg-som": {"kl_radius": 0.05},
    "adam": {"learning_rate": 0.3},
}


def test_the_rule_for_the_quick_ones_is_strict_and_fair() -> None:
    """Success with probability 0.99 a seed passes all but one time in 200, with 0.75 not once in 100."""
    assert luck(SEEDS, NEEDED, 0.99) < 1 / 200
    assert 1 - luck(SEEDS, NEEDED, 0.75) < 1 / 100


def test_every_method_is_here() -> None:
    assert set(QUICK) == set(CARTPOLE) == set(METHODS)


@pytest.mark.parametrize("environment", ["two-armed-bandit", "probe-delayed"])
@pytest.mark.parametrize("name", METHODS)
def test_the_best_first_action_is_found(name: str, environment: str) -> None:
    """A seed succeeds if it takes the paid action with probability above 0.9 after 50 updates of 8 episodes a stage."""
    result = pgsom.train(environment, name, seeds=SEEDS, updates=50, batch=8, **QUICK[name])
    first = jax.nn.softmax(result.params[0].weight[:, 0])[:, 0]
    assert int(np.sum(first > 0.9)) >= NEEDED, np.sort(first)
    assert not result.skipped.any()


# --- slow: CartPole with the methods' defaults -------------------------------------------------------------------


class Goal(NamedTuple):
    """Success of a seed: the mean of 100 fresh episodes after `episodes` of training is at least `score`."""

    episodes: int
    score: float
    needed: int
    """of 32 seeds; 29 is 90 %"""


CARTPOLE_SEEDS = 32
CARTPOLE = {
    "reinforce": Goal(1000, 150, 29),
    "hessian-pg": Goal(1000, 150, 29),
    "runge-kutta-pg": Goal(2000, 150, 29),
    "pg-som": Goal(1000, 400, 29),
    "adam": Goal(1000, 300, 29),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_cartpole_is_learned_with_the_defaults(name: str) -> None:
    """At least 90 % of seeds reach the score; by luck, a method that does so with probability 0.98 fails 1 in 300."""
    goal = CARTPOLE[name]
    assert luck(CARTPOLE_SEEDS, goal.needed, 0.98) < 1 / 300
    result = pgsom.train("CartPole-v1", name, seeds=CARTPOLE_SEEDS, episodes=goal.episodes)
    scores = result.evaluate(100).mean(axis=1)
    assert int(np.sum(scores >= goal.score)) >= goal.needed, np.sort(scores).round(1)
