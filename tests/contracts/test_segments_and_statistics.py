"""Training on segments, and policies trained on normalised observations: counters, chunks, use, saving, evaluation."""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import pgsom
from pgsom.checks import InputError
from pgsom.normalisation import standardise
from pgsom.policies import Standardised
from pgsom.runs import Result

SEEDS, UPDATES, BATCH, STEPS = 2, 12, 3, 8
OPTIONS: dict[str, Any] = {
    "batch": BATCH,
    "steps": STEPS,
    "hidden": (4,),
    "critic_hidden": (4,),
    "normalise_observations": True,
    "normalise_rewards": True,
    "discount": 0.9,
}


@pytest.fixture(scope="module", name="result")
def _result() -> Result:
    """A few updates of A2C on Pendulum: 288 steps, in which every environment's first episode stays unfinished."""
    budget = BATCH * STEPS * UPDATES + 1
    return pgsom.train("Pendulum-v1", "a2c", seeds=SEEDS, env_steps=budget, **OPTIONS)


def test_steps_are_counted_and_a_budget_is_not_overdrawn(result: Result) -> None:
    np.testing.assert_array_equal(result.env_steps, np.tile(BATCH * STEPS * np.arange(1, UPDATES + 1), (SEEDS, 1)))
    assert result.updates == UPDATES and not result.skipped.any()


def test_without_an_end_there_is_no_return_yet(result: Result) -> None:
    """96 of 200 steps of every episode have been played."""
    assert np.isnan(result.returns).all() and result.episodes[-1] == 0


def test_returns_are_the_last_known_ones(result: Result) -> None:
    """A batch in which no episode ended says nothing; a seed that is frozen has none any more."""
    none, seen = np.nan, np.full((SEEDS, UPDATES), np.nan)
    seen[:, 2], seen[:, 5] = -900.0, -800.0
    frozen = np.zeros((SEEDS, UPDATES), int)
    frozen[1, 7:] = 1
    changed = result.metrics._replace(episode_return=seen, frozen=frozen)
    found = dataclasses.replace(result, metrics=changed).returns
    expected = [none] * 2 + [-900.0] * 3 + [-800.0] * 7
    np.testing.assert_array_equal(found, [expected, expected[:7] + [none] * 5])


def test_a_trained_policy_standardises_what_it_is_given(result: Result) -> None:
    """By the statistics of all that was seen in training, which are those of its state."""
    policy, observation = result.policy(1), jnp.asarray([0.3, -0.9, 4.0])
    assert isinstance(policy.policy.network, Standardised)
    params, moments = policy.params
    state = result.state
    assert state is not None
    np.testing.assert_array_equal(moments.mean, state.experience.statistics.observations.mean[1])
    assert float(moments.number) == BATCH * STEPS * UPDATES
    inner = policy.policy.network.network
    shown = inner.apply(params, standardise(moments, observation))
    expected = policy.policy.distribution.executed(policy.policy.distribution.mode(shown))
    np.testing.assert_allclose(policy.act(observation), expected, rtol=1e-5)
    raw = policy.policy.distribution.executed(policy.policy.distribution.mode(inner.apply(params, observation)))
    assert np.abs(np.asarray(raw) - policy.act(observation)).max() > 1e-6


def test_statistics_are_saved_with_the_policy_and_hold_still(result: Result, tmp_path: Path) -> None:
    before = jax.tree.map(np.asarray, result.params)
    scores = result.evaluate(2)
    loaded = pgsom.load(result.save(tmp_path / "run"))
    np.testing.assert_array_equal(loaded.evaluate(2), scores)
    observations = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_array_equal(loaded.policy(1).act(observations), result.policy(1).act(observations))
    for kept, was in zip(jax.tree.leaves(loaded.params), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(kept, was)
    assert loaded.policy_definition.parameter_count() == 3 * 4 + 4 + 4 + 1 + 1, "statistics are no parameters"


WRONG = [
    ({"method": "reinforce", "steps": 8}, "baseline='leave-one-out': a segment's end is worth what a critic says; "
     "accepted is critic, or steps=0 for whole episodes"),
    ({"episodes": 5}, "episodes=5: a2c plays 8 steps at a time; accepted are env_steps and updates"),
    ({"env_steps": 23}, "env_steps=23: one update of a2c takes 24; accepted is >= 24"),
    ({"steps": 0, "baseline": "critic", "env_steps": 50},
     "env_steps=50: a2c plays whole episodes; accepted with steps > 0, or episodes"),
    ({"gae_lambda": 1.5}, "gae_lambda=1.5: accepted is a number >= 0 and <= 1"),
    ({"n_step": 0}, "n_step=0: accepted is a whole number >= 1"),
    ({"critic_optimiser": "adm"}, "critic_optimiser='adm': accepted are adam, rmsprop, sgd; did you mean 'adam'?"),
    ({"critic_hidden": 64}, "critic_hidden=64: accepted is a sequence of widths, such as (64, 64)"),
    ({"rate_decay": 2}, "rate_decay=2: accepted is a number >= 0 and <= 1"),
    ({"normalise_rewards": 1}, "normalise_rewards=1: accepted are True and False"),
    ({"method": "ppo", "clip": 0}, "clip=0: accepted is a number > 0 (inf: off)"),
    ({"method": "ppo", "minibatches": 0}, "minibatches=0: accepted is a whole number >= 1"),
]  # fmt: skip


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("options", "message"), WRONG, ids=[",".join(options) for options, _ in WRONG])
def test_a_wrong_argument_is_named_with_what_is_accepted(options: dict[str, Any], message: str) -> None:
    arguments = {"environment": "Pendulum-v1", "method": "a2c"} | OPTIONS | options
    if arguments["method"] == "reinforce":
        arguments = {"environment": "Pendulum-v1", **options}
    with pytest.raises(InputError) as error:
        pgsom.train(**arguments)
    assert str(error.value) == message


@pytest.mark.usefixtures("unchecked")
def test_whole_number_states_are_not_standardised() -> None:
    with pytest.raises(InputError, match="normalise_observations=True: states are whole numbers; accepted is False"):
        pgsom.train("chain", "reinforce", updates=1, normalise_observations=True)
