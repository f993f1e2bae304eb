"""Segments against what an environment does: pieces, flags, clocks, the observation before a reset, statistics."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.collectors import BatchPlan, EpisodeCollector, SegmentCollector, statistics_of
from pgsom.environments import chain
from pgsom.folds import padded_length
from pgsom.normalisation import no_moments, standardise, with_more
from pgsom.policies import Policy, policy_from_functions, tabular_softmax
from pgsom.segments import Segments, padded

CORRIDOR = chain(length=2, horizon=4)
"""Three states in a row; the last is the end, the first the start; four steps at most."""
GOAL = CORRIDOR.states - 1
POLICY = Policy(tabular_softmax(3, 2))
STEPS, ENVIRONMENTS = 7, 40


@pytest.fixture(scope="module", name="played")
def _played() -> tuple[list[Segments], list[Any]]:
    """Three segments in a row, and the experience state after each."""
    collector = SegmentCollector(CORRIDOR, POLICY, BatchPlan(ENVIRONMENTS, STEPS), 0.9)
    collect = jax.jit(collector.collect)
    experience, batches, states = collector.init(jax.random.key(0)), [], []
    for index in range(3):
        batch, experience = collect(jax.random.key(1 + index), POLICY.init(jax.random.key(0)), experience)
        batches.append(batch)
        states.append(experience)
    return batches, states


def test_play_goes_on_from_row_to_row_and_from_segment_to_segment(played: Any) -> None:
    """Put end to end, the segments are one long play, in which only an episode's end interrupts."""
    batches, _ = played
    seen, after, time, over = (
        np.concatenate([np.asarray(getattr(batch, name)) for batch in batches])
        for name in ("observation", "next_observation", "time", "over")
    )
    np.testing.assert_array_equal(seen[1:][~over[:-1]], after[:-1][~over[:-1]])
    assert np.all(seen[1:][over[:-1]] == 0) and np.all(time[1:][over[:-1]] == 0), "a fresh start"
    np.testing.assert_array_equal(time[1:][~over[:-1]], time[:-1][~over[:-1]] + 1)
    assert over.any() and not over.all()


def test_the_observation_behind_an_end_is_the_one_before_the_reset(played: Any) -> None:
    """Terminated exactly at the goal, truncated exactly at the fourth step: two flags, two conditions."""
    batches, _ = played
    terminated, truncated, after, time = (
        np.concatenate([np.asarray(getattr(batch, name)) for batch in batches])
        for name in ("terminated", "truncated", "next_observation", "time")
    )
    np.testing.assert_array_equal(terminated, after == GOAL)
    np.testing.assert_array_equal(truncated, time == CORRIDOR.horizon - 1)
    assert np.any(terminated & ~truncated) and np.any(truncated & ~terminated) and np.any(truncated & terminated)


def test_returns_are_those_of_whole_episodes(played: Any) -> None:
    """One is lost with every step, so the return up to a step is less its number in the episode, less 1."""
    batches, _ = played
    for batch in batches:
        np.testing.assert_array_equal(batch.episode_return, -(batch.time + 1.0))
        over = np.asarray(batch.over)
        assert int(batch.ended) == over.sum() and int(batch.steps) == STEPS * ENVIRONMENTS
        np.testing.assert_allclose(batch.mean_length, (np.asarray(batch.time)[over] + 1).mean(), rtol=1e-6)
        np.testing.assert_allclose(batch.mean_return, -batch.mean_length)


def test_a_piece_begins_with_the_segment_and_behind_every_end(played: Any) -> None:
    batch = played[0][1]
    expected = np.vstack([np.ones((1, ENVIRONMENTS), bool), np.asarray(batch.over)[:-1]])
    np.testing.assert_array_equal(batch.begins, expected)
    assert np.any(batch.time[0] > 0), "some go on from the segment before"


def test_rows_that_are_no_steps_belong_to_no_piece() -> None:
    """A host environment that spends a call on its reset: the row counts for nothing, the next begins a piece."""
    taken = np.asarray([[True], [True], [False], [True]])
    flags = np.asarray([[False], [True], [False], [False]])
    nothing = jnp.zeros((4, 1))
    segments = Segments(
        nothing,
        nothing,
        nothing[..., None],
        nothing,
        *map(jnp.asarray, (taken, flags, ~taken)),
        nothing,
        nothing,
        nothing,
        jnp.ones(()),
    )
    np.testing.assert_array_equal(np.ravel(segments.begins), [True, False, True, True])
    assert int(segments.steps) == 3 and int(segments.ended) == 1, "a flag in a row that was not taken is none"


def test_padding_is_not_taken_and_a_batch_without_an_end_has_no_mean_return() -> None:
    rows = 33
    zeros = jnp.zeros((rows, 2))
    flags = jnp.zeros((rows, 2), bool)
    whole = Segments(zeros, zeros, zeros[..., None], zeros, ~flags, flags, flags, zeros, zeros, zeros, jnp.ones(()))
    longer = padded(whole)
    assert longer.reward.shape == (padded_length(rows), 2) and int(longer.filled) == rows
    assert int(longer.steps) == 2 * rows and np.isnan(longer.mean_return)


# --- statistics --------------------------------------------------------------------------------------------------


def test_moments_of_parts_are_those_of_the_whole() -> None:
    generator = np.random.default_rng(0)
    parts = [generator.normal(3.0, [1.0, 5.0], size=(rows, 4, 2)) for rows in (3, 1, 8)]
    masks = [generator.random(part.shape[:2]) < 0.7 for part in parts]
    moments = no_moments((2,))
    for part, mask in zip(parts, masks, strict=True):
        moments = with_more(moments, jnp.asarray(part), jnp.asarray(mask))
    everything = np.concatenate([part[mask] for part, mask in zip(parts, masks, strict=True)])
    np.testing.assert_allclose(moments.mean, everything.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(moments.variance, everything.var(axis=0), rtol=1e-4)
    shown = standardise(moments, everything)
    np.testing.assert_allclose(np.mean(shown, axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(np.std(shown, axis=0), 1, rtol=1e-5)


def test_nothing_seen_changes_nothing() -> None:
    np.testing.assert_array_equal(standardise(no_moments((2,)), np.asarray([30.0, -2.0])), [30.0, -2.0])
    assert standardise(None, 12.0) == 12.0


NEAR = policy_from_functions(lambda key: jnp.zeros(()), lambda params, seen: jnp.stack([params, seen]))
"""Shows what it was shown: its second output is its observation."""


@pytest.mark.parametrize("steps", [0, STEPS])
def test_statistics_are_of_raw_numbers_and_hold_for_the_next_batch(steps: int) -> None:
    """The first batch is played as it is; the second with the first's mean and variance, by play and learning alike."""
    plan = BatchPlan(ENVIRONMENTS, steps, normalise_observations=True, normalise_rewards=True)
    kind = SegmentCollector if steps else EpisodeCollector
    collector = kind(_Shifted(), NEAR, plan, 0.5)
    first, experience = collector.collect(jax.random.key(0), jnp.zeros(()), collector.init(jax.random.key(1)))
    known = statistics_of(experience)
    mask = np.asarray(first.mask, bool)
    np.testing.assert_allclose(known.observations.mean, np.asarray(first.observation)[mask].mean(), rtol=1e-5)
    discounted = sum(0.5**k * -1.0 for k in range(4))
    assert float(first.reward_scale) == 1 and abs(discounted) > np.sqrt(known.returns.variance) > 0
    second, after = collector.collect(jax.random.key(2), jnp.zeros(()), experience)
    mask = np.asarray(second.mask, bool)
    raw = known.observations.mean + np.sqrt(known.observations.variance) * np.asarray(second.observation)
    assert set(np.round(np.asarray(raw)[mask], 3).tolist()) <= {10.0, 11.0}, "the states, shifted"
    np.testing.assert_allclose(second.outputs[..., 1][mask], second.observation[mask], rtol=1e-6)
    np.testing.assert_allclose(second.reward_scale, 1 / np.sqrt(known.returns.variance), rtol=1e-6)
    assert set(np.asarray(second.reward)[mask].tolist()) == {-1.0}, "rewards stay as the environment gave them"
    assert float(statistics_of(after).observations.number) == mask.sum() + float(known.observations.number)


class _Shifted:
    """The corridor, its states seen as real numbers from 10."""

    name, action, horizon = "shifted", CORRIDOR.action, CORRIDOR.horizon

    @property
    def observation(self) -> Any:
        from pgsom.environments import Box

        return Box(())

    def reset(self, key: jax.Array) -> Any:
        state, seen = CORRIDOR.reset(key)
        return state, seen + 10.0

    def step(self, key: jax.Array, state: Any, action: jax.Array) -> Any:
        step = CORRIDOR.step(key, state, action)
        return step._replace(observation=step.observation + 10.0)
