"""The as-run protocol against a slow NumPy version of one update, and against Gymnasium's start state."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.baselines import ConstantBaseline
from pgsom.environments import make
from pgsom.experiments.as_run import FixedStart, start_state
from pgsom.experiments.blocks import Cell, Lengths, run_block
from pgsom.experiments.printed import Variant
from pgsom.experiments.protocols import read_protocol
from pgsom.experiments.variants import method_of, variants_of
from pgsom.objective import LocalObjective, observe
from pgsom.policies import Layer, Policy, linear_logistic
from pgsom.rollout import collect

BASELINE, DISCOUNT, ENTROPY = 17.3, 0.99, 0.01
AS_RUN = read_protocol("as-run")
VARIANTS = variants_of(AS_RUN)


@pytest.fixture(name="episode", scope="module")
def _episode() -> LocalObjective:
    policy = Policy(linear_logistic(4, 2))
    params = (Layer(jnp.asarray([[0.3], [0.9], [0.2], [0.7]]), None),)
    rollout = collect(make("CartPole-v1"), policy, params, jax.random.key(3), 1)
    weighting = dataclasses.replace(
        method_of(AS_RUN, Variant("reinforce", "baseline")).weighting, baseline=ConstantBaseline(jnp.asarray(BASELINE))
    )
    return observe(weighting, (), policy, params, rollout, jax.random.key(0))


def by_hand(episode: LocalObjective, variant: Variant) -> np.ndarray:
    """The script's direction, step by step; action 0 has probability σ(θᵀx)."""
    theta = np.asarray(episode.params[0].weight)[:, 0].astype(np.float64)
    steps = int(episode.rollout.length[0])
    rewards = np.asarray(episode.rollout.reward)[:steps, 0]
    direction, entropy = np.zeros(4), 0.0
    for t in range(steps):
        x = np.asarray(episode.rollout.observation[t, 0], dtype=np.float64)
        action = int(episode.rollout.action[t, 0])
        sigma = 1 / (1 + np.exp(-theta @ x))
        score = x * ((1 - sigma) if action == 0 else -sigma)
        taken = sigma if action == 0 else 1 - sigma
        weight = sum(DISCOUNT ** (k - t) * rewards[k] for k in range(t, steps)) - BASELINE
        bend = x * x * sigma * (1 - sigma)
        if variant.method == "hessian" and variant.stabiliser != "none":
            extra = {"plus": bend, "minus": -bend, "none": np.zeros(4)}[variant.reading]
            direction += weight * (2 * score + extra)
        else:
            direction += weight * score
        entropy -= taken * np.log(taken)
    return direction + (ENTROPY * entropy if variant.stabiliser == "entropy" else 0.0)


@pytest.mark.parametrize("variant", VARIANTS, ids=[v.label for v in VARIANTS])
def test_the_direction_of_each_cell_is_the_scripts(episode: LocalObjective, variant: Variant) -> None:
    rule = method_of(AS_RUN, variant).rule
    direction, _, _ = rule.update(episode, (), episode.params)
    np.testing.assert_allclose(np.asarray(direction[0].weight)[:, 0], by_hand(episode, variant), rtol=2e-4, atol=2e-4)


def test_rates_clipping_and_schemes_are_the_papers() -> None:
    assert len(VARIANTS) == 18
    for variant in VARIANTS:
        method = method_of(AS_RUN, variant)
        clip = variant.stabiliser == "clip"
        assert method.learning_rate == (0.004 if clip else 0.002)
        assert method.clipping.elements == (50 if clip else np.inf) and method.clipping.norm == np.inf
        assert method.episodes_per_update == (2 if variant.method == "runge-kutta" else 1)


def test_evaluation_starts_where_gymnasium_does() -> None:
    observation, _ = gymnasium.make("CartPole-v1").reset(seed=1)
    np.testing.assert_allclose(np.asarray(start_state()), observation, rtol=1e-6)
    fixed = FixedStart(make("CartPole-v1"), start_state())
    np.testing.assert_allclose(fixed.reset(jax.random.key(5))[1], observation, rtol=1e-6)


def test_a_small_run_has_every_cell_with_all_episodes_counted() -> None:
    short = AS_RUN.changed(updates=50)
    told: list[tuple[int, int]] = []
    outcomes = {}
    for group in (
        [v for v in VARIANTS if v.method != "runge-kutta"],
        [v for v in VARIANTS if v.method == "runge-kutta"],
    ):
        cells = [Cell(variant, None, 0, (0, 1, 2)) for variant in group]
        trained = run_block(short, cells, Lengths(4, 2), members=42, report=lambda *said: told.append(said[:2]))
        outcomes |= dict(zip(group, trained, strict=True))
    assert told[-1] == (3, 3)
    for variant, outcome in outcomes.items():
        assert outcome.scores.shape == outcome.env_steps.shape == (3, 3)
        assert list(outcome.updates) == [0, 25, 50]
        assert list(outcome.episodes) == ([0, 50, 100] if variant.method == "runge-kutta" else [0, 25, 50])
        # Σ_{i=1..L} 0.999^i is below the length, and the steps of training are counted one by one.
        assert (outcome.scores < 393.2).all() and (np.diff(outcome.env_steps) > 0).all()
    # Plain REINFORCE and plain "Hessian" are one update, so the same seeds give the same numbers.
    plain, hessian = outcomes[Variant("reinforce", "none")], outcomes[Variant("hessian", "none")]
    np.testing.assert_array_equal(plain.scores, hessian.scores)
    # With the measured baseline it is another one.
    assert (outcomes[Variant("reinforce", "baseline")].scores[:, 1:] != plain.scores[:, 1:]).any()
