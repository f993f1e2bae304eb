"""The as-run protocol against a slow NumPy version of one update, and against Gymnasium's start state."""

import dataclasses

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.baselines import ConstantBaseline
from pgsom.environments import make
from pgsom.experiments import as_run
from pgsom.experiments.as_run import VARIANTS, Variant
from pgsom.experiments.table import five_run_bands, table
from pgsom.objective import LocalObjective, observe
from pgsom.policies import Layer, Policy, linear_logistic
from pgsom.rollout import collect

BASELINE = 17.3


@pytest.fixture(name="episode", scope="module")
def _episode() -> LocalObjective:
    policy = Policy(linear_logistic(4, 2))
    params = (Layer(jnp.asarray([[0.3], [0.9], [0.2], [0.7]]), None),)
    rollout = collect(make(as_run.ENVIRONMENT), policy, params, jax.random.key(3), 1)
    weighting = dataclasses.replace(
        as_run.method_of(Variant("reinforce", "baseline")).weighting, baseline=ConstantBaseline(jnp.asarray(BASELINE))
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
        weight = sum(as_run.DISCOUNT ** (k - t) * rewards[k] for k in range(t, steps)) - BASELINE
        bend = x * x * sigma * (1 - sigma)
        if variant.method == "hessian" and variant.stabiliser != "none":
            extra = {"plus": bend, "minus": -bend, "none": np.zeros(4)}[variant.reading]
            direction += weight * (2 * score + extra)
        else:
            direction += weight * score
        entropy -= taken * np.log(taken)
    return direction + (as_run.ENTROPY * entropy if variant.stabiliser == "entropy" else 0.0)


@pytest.mark.parametrize("variant", VARIANTS, ids=[v.label for v in VARIANTS])
def test_the_direction_of_each_cell_is_the_scripts(episode: LocalObjective, variant: Variant) -> None:
    rule = as_run.method_of(variant).rule
    direction, _, _ = rule.update(episode, (), episode.params)
    np.testing.assert_allclose(np.asarray(direction[0].weight)[:, 0], by_hand(episode, variant), rtol=2e-4, atol=2e-4)


def test_rates_clipping_and_schemes_are_the_papers() -> None:
    for variant in VARIANTS:
        method = as_run.method_of(variant)
        clip = variant.stabiliser == "clip"
        assert method.learning_rate == (0.004 if clip else 0.002)
        assert method.clipping.elements == (50 if clip else np.inf) and method.clipping.norm == np.inf
        assert method.episodes_per_update == (2 if variant.method == "runge-kutta" else 1)


def test_evaluation_starts_where_gymnasium_does() -> None:
    observation, _ = gymnasium.make(as_run.ENVIRONMENT).reset(seed=1)
    np.testing.assert_allclose(np.asarray(as_run.start_state()), observation, rtol=1e-6)
    fixed = as_run.FixedStart(make(as_run.ENVIRONMENT), as_run.start_state())
    np.testing.assert_allclose(fixed.reset(jax.random.key(5))[1], observation, rtol=1e-6)


def test_bands_are_those_of_five_draws() -> None:
    """Of scores that are 0 or 1 evenly, the mean of five is 0 or 1 in 1 of 16 cases, so the band is the whole range."""
    (low, high), (std_low, std_high) = five_run_bands(np.asarray([0.0, 1.0] * 50))
    assert (low, high) == (0.0, 1.0)
    assert std_low == 0.0 and std_high == pytest.approx(np.std([0, 0, 0, 1, 1]))


def test_a_small_run_has_every_cell_with_all_episodes_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(as_run, "UPDATES", 50)
    said: list[tuple[str, int, int]] = []
    outcome = as_run.run(3, episodes=4, episodes_before=2, report=lambda *told: said.append(told))
    assert outcome.scores.shape == (18, 3, 3) and said[-1] == ("heun", 3, 3)
    played = {v: int(n[0]) for v, n in zip(outcome.variants, outcome.episodes, strict=True)}
    assert all(n == (100 if v.method == "runge-kutta" else 50) for v, n in played.items())
    # Plain REINFORCE and plain "Hessian" are one update, so the same seeds give the same numbers.
    plain = [outcome.variants.index(Variant(m, "none")) for m in ("reinforce", "hessian")]
    np.testing.assert_array_equal(outcome.scores[plain[0]], outcome.scores[plain[1]])
    rows = table(outcome)
    assert len(rows) == 18 and all(r.ci_low <= r.mean <= r.ci_high for r in rows)
