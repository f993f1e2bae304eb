"""Does it learn? Each test trains many seeds side by side and asks how many of them succeeded.

The rule: at least `needed` of `SEEDS` seeds succeed. A method that succeeds with probability p per seed fails that
by bad luck with probability P[Binomial(SEEDS, p) < needed], which is stated where the numbers are chosen. Seeds are
fixed, so a test that passes keeps passing until the code changes.
"""

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import pgsom
from benchmarks import control, learning, tuning
from benchmarks.learning import SEEDS, luck
from benchmarks.tuning import GRIDS
from pgsom.methods import METHODS
from pgsom.presets import preset_names, read_preset

# --- quick: two tables with a known best action ------------------------------------------------------------------

NEEDED = 30
QUICK: dict[str, dict[str, Any]] = {
    "reinforce": {"learning_rate": 1.0},
    "hessian-pg": {"learning_rate": 0.5, "damping": 0.5},
    "runge-kutta-pg": {"learning_rate": 1.0},
    "pg-som": {"kl_radius": 0.05},
    "adam": {"learning_rate": 0.3},
    "npg": {"kl_radius": 0.05},
    "trpo": {"kl_radius": 0.05},
    "kfac": {"kl_radius": 0.05},
    "rmsprop": {"learning_rate": 0.3},
    "adabelief": {"learning_rate": 0.3},
    "adahessian": {"learning_rate": 0.3, "damping": 0.1},
    "sophia": {"learning_rate": 0.3},
    "shampoo": {"learning_rate": 0.3},
    "soap": {"learning_rate": 0.3},
    "ggt": {"learning_rate": 0.3},
    "adaptive-pg-som": {"kl_radius": 0.05},
    "hapg": {"learning_rate": 1.0},
    "sharp": {"learning_rate": 0.5},
    "harpg": {"learning_rate": 1.0},
    "n-harpg": {"learning_rate": 0.5, "rate_power": 0.5},
    "storm-pg": {"learning_rate": 1.0},
    "page-pg": {"learning_rate": 1.0},
    "is-mbpg": {"learning_rate": 1.0, "fresh_factor": 1.0},
    "ha-mbpg": {"learning_rate": 1.0, "fresh_factor": 1.0},
    "sgdhess": {"learning_rate": 1.0},
    "n-pg-igt": {"learning_rate": 0.5, "rate_power": 0.5},
    "hessian-free": {"kl_radius": 0.05},
    "cubic-newton": {"regularisation": 1.0},
    "natural-actor-critic": {"kl_radius": 0.05},
    "a2c": {"learning_rate": 0.1, "critic_rate": 0.1, "steps": 32},
    "ppo": {"learning_rate": 0.1, "critic_rate": 0.1, "steps": 16},
}
LONG_TO_COMPILE = {
    "adaptive-pg-som",
    "hapg",
    "harpg",
    "n-harpg",
    "storm-pg",
    "page-pg",
    "is-mbpg",
    "ha-mbpg",
    "sgdhess",
    "n-pg-igt",
    "cubic-newton",
    "natural-actor-critic",
}
"""Tried in `make learn` only."""


def test_the_rule_for_the_quick_ones_is_strict_and_fair() -> None:
    """Success with probability 0.99 a seed passes all but one time in 200, with 0.75 not once in 100."""
    assert luck(NEEDED, 0.99) < 1 / 200
    assert 1 - luck(NEEDED, 0.75) < 1 / 100


def test_every_method_is_here() -> None:
    assert set(QUICK) == set(METHODS)


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("reinforce", "two-armed-bandit"),
        *(
            pytest.param(name, "probe-delayed", marks=[pytest.mark.slow] * (name in LONG_TO_COMPILE))
            for name in METHODS
        ),
    ],
)
def test_the_best_first_action_is_found(name: str, environment: str) -> None:
    """A seed succeeds if it takes the paid action with probability above 0.9 after 50 updates of 8 episodes a stage."""
    result = pgsom.train(environment, name, seeds=SEEDS, updates=50, batch=8, **QUICK[name])
    first = jax.nn.softmax(result.params[0].weight[:, 0])[:, 0]
    assert int(np.sum(first > 0.9)) >= NEEDED, np.sort(first)
    assert not result.skipped.any()


# --- slow: every preset ------------------------------------------------------------------------------------------


def test_the_rule_for_presets_is_strict_and_fair() -> None:
    """As docs/results.md says it."""
    assert luck(learning.NEEDED, 0.98) < 1 / 250
    assert 1 - luck(learning.NEEDED, 0.75) < 1 / 39


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in preset_names() if read_preset(name).seeds_measured == SEEDS])
def test_a_preset_reaches_its_goal(name: str) -> None:
    """At least 29 of 32 seeds do."""
    row = learning.measure(name)
    assert row.successes >= learning.NEEDED and row.skipped == 0, sorted(row.scores)


# --- the pages hold what was measured ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "written"),
    [
        (learning.PAGE, learning.page(learning.read_rows())),
        (tuning.PAGE, tuning.page(tuning.read_runs())),
        (control.PAGE, control.page(control.read_rows(), learning.read_rows())),
    ],
    ids=["results", "tuning", "control"],
)
def test_a_page_holds_nothing_but_what_was_measured(page: Path, written: str) -> None:
    assert page.read_text("utf-8") == written


@pytest.mark.parametrize("name", learning.read_rows())
def test_what_was_measured_is_the_preset_as_it_is(name: str) -> None:
    row, preset = learning.read_rows()[name], read_preset(name)
    assert (row.settings, row.goal) == (preset.settings, preset.goal), f"measure again: {name}"
    assert len(row.scores) == SEEDS


@pytest.mark.parametrize("name", control.read_rows())
def test_a_long_training_is_of_the_preset_as_it_is(name: str) -> None:
    row, preset = control.read_rows()[name], read_preset(name)
    assert (row.settings, row.goal) == (preset.settings, preset.goal), f"train again: {name}"


@pytest.mark.parametrize("name", sorted(tuning.read_runs().keys() - {"reinforce", "ppo", "a2c"}))
def test_a_preset_has_the_numbers_that_were_found(name: str) -> None:
    """REINFORCE's, PPO's and A2C's say why not."""
    settings, best = read_preset(name).settings, tuning.read_runs()[name][0]
    assert settings.items() >= best["options"].items()
    assert len(best["options"]) + 3 >= len(settings), "options beside those of the grid"


def test_every_method_is_tuned_with_the_same_budget() -> None:
    assert GRIDS.keys() <= METHODS.keys()
    assert {name: len(tuning.configurations(name)) for name in GRIDS} == dict.fromkeys(GRIDS, tuning.CONFIGURATIONS)
    assert learning.ROOT_SEED != tuning.ROOT_SEED


@pytest.mark.slow
def test_every_method_is_tuned_and_measured() -> None:
    assert [name for name in METHODS if name not in GRIDS] == [], "methods without a grid in benchmarks/tuning.py"
    assert [name for name in METHODS if name not in learning.read_rows()] == [], "methods not measured: make results"
