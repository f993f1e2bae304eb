"""The compiled environments against Gymnasium's own, step by step over whole episodes.

Gymnasium computes in float64. In float64 the two are run side by side from the same start to the end of the
episode. In float32, and where the motion amplifies rounding beyond any tolerance (a pole balanced for 500
steps), the state is set to Gymnasium's before every step, which compares each single step.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.environments import Discrete, Environment, make

STATE = {
    "CartPole-v1": ("x", "x_dot", "theta", "theta_dot"),
    "Acrobot-v1": ("joint_angle1", "joint_angle2", "velocity_1", "velocity_2"),
    "MountainCar-v0": ("position", "velocity"),
}
SKILLED: dict[str, Callable[[Any], bool]] = {
    "CartPole-v1": lambda s: s[2] + 0.3 * s[3] + 0.05 * s[0] + 0.1 * s[1] > 0,
    "Acrobot-v1": lambda s: s[3] > 0,
    "MountainCar-v0": lambda s: s[1] >= 0,
}
TOLERANCE = {"float32": 2e-5, "float64": 2e-6}
EPISODES = 4


def gymnasium_state(reference: Any) -> np.ndarray:
    return np.asarray(reference.unwrapped.state, np.float64)


def synchronised(name: str, state: Any, reference: Any) -> Any:
    numbers = zip(STATE[name], gymnasium_state(reference), strict=True)
    return state.replace(**{field: jnp.asarray(number, float) for field, number in numbers})


def choose(name: str, reference: Any, actions: int, skilled: bool, generator: np.random.Generator) -> int:
    if skilled:
        return actions - 1 if SKILLED[name](gymnasium_state(reference)) else 0
    return int(generator.integers(actions))


def replay(name: str, *, skilled: bool, each_step: bool, tolerance: float) -> list[tuple[int, bool, bool]]:
    """Compare every step of some episodes; returns (length, terminated, truncated) of each."""
    environment, reference = make(name), gymnasium.make(name)
    assert isinstance(environment.action, Discrete)
    step = jax.jit(environment.step)
    generator, episodes = np.random.default_rng(0), []
    for episode in range(EPISODES):
        first, _ = reference.reset(seed=episode)
        state = synchronised(name, environment.reset(jax.random.key(episode))[0], reference)
        length, ended = 0, False
        assert first.shape == environment.observation.shape
        while not ended:
            action = choose(name, reference, environment.action.n, skilled, generator)
            if each_step:
                state = synchronised(name, state, reference)
            ours = step(jax.random.key(length), state, jnp.int32(action))
            observation, reward, terminated, truncated, _ = reference.step(action)
            state, length, ended = ours.state, length + 1, terminated or truncated
            np.testing.assert_allclose(ours.observation, observation, rtol=tolerance, atol=tolerance)
            assert float(ours.reward) == reward
            assert (bool(ours.terminated), bool(ours.truncated)) == (terminated, truncated)
        episodes.append((length, terminated, truncated))
    reference.close()
    return episodes


@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("skilled", [False, True], ids=["random", "skilled"])
@pytest.mark.parametrize("name", STATE)
def test_every_step_is_gymnasiums(name: str, skilled: bool, precision: str) -> None:
    with jax.enable_x64(precision == "float64"):
        episodes = replay(name, skilled=skilled, each_step=True, tolerance=TOLERANCE[precision])
    limit = make(name).horizon
    assert all(truncated == (length == limit) for length, _, truncated in episodes)
    # The skilled player survives CartPole and solves the other two; the random one does the opposite.
    survives = skilled == (name == "CartPole-v1")
    assert all(truncated == survives and terminated != survives for _, terminated, truncated in episodes)


@pytest.mark.parametrize(
    ("name", "skilled"),
    [("CartPole-v1", False), *((name, skilled) for name in list(STATE)[1:] for skilled in (False, True))],
)
def test_whole_episodes_are_gymnasiums(name: str, skilled: bool) -> None:
    with jax.enable_x64(True):
        replay(name, skilled=skilled, each_step=False, tolerance=TOLERANCE["float64"])


@pytest.mark.parametrize("name", STATE)
def test_specs_and_time_limits_are_gymnasiums(name: str) -> None:
    environment: Environment = make(name)
    reference = gymnasium.make(name)
    assert environment.horizon == gymnasium.spec(name).max_episode_steps
    assert environment.observation.shape == reference.observation_space.shape
    np.testing.assert_allclose(environment.observation.low, reference.observation_space.low, rtol=1e-6)
    np.testing.assert_allclose(environment.observation.high, reference.observation_space.high, rtol=1e-6)
    assert environment.action == Discrete(int(reference.action_space.n))


@pytest.mark.parametrize("name", STATE)
def test_starts_are_drawn_from_gymnasiums_range(name: str) -> None:
    """Uniform over the same box: the extremes of 2,000 draws lie within it, and within 1 % of its sides."""
    reference = gymnasium.make(name)
    draws = []
    for seed in range(2000):
        reference.unwrapped.reset(seed=seed)
        draws.append(gymnasium_state(reference))
    states, _ = jax.vmap(make(name).reset)(jax.random.split(jax.random.key(0), 2000))
    ours = np.stack([np.asarray(getattr(states, field)) for field in STATE[name]], -1)
    width = np.ptp(draws, axis=0)
    assert np.all(np.abs(ours.min(0) - np.min(draws, 0)) <= 0.01 * width)
    assert np.all(np.abs(ours.max(0) - np.max(draws, 0)) <= 0.01 * width)
    assert np.all(np.abs(ours.mean(0) - np.mean(draws, 0)) <= 0.05 * width)
