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
    "MountainCarContinuous-v0": ("position", "velocity"),
    "Pendulum-v1": ("theta", "theta_dot"),
}
SKILLED: dict[str, Callable[[Any], bool]] = {
    "CartPole-v1": lambda s: s[2] + 0.3 * s[3] + 0.05 * s[0] + 0.1 * s[1] > 0,
    "Acrobot-v1": lambda s: s[3] > 0,
    "MountainCar-v0": lambda s: s[1] >= 0,
    "MountainCarContinuous-v0": lambda s: s[1] >= 0,
    "Pendulum-v1": lambda s: s[1] >= 0,
}
SURVIVED_BY_THE_RANDOM = ("Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
SURVIVED_BY_THE_SKILLED = ("CartPole-v1", "Pendulum-v1")
# Gymnasium keeps the state of the continuous car in float32.
IN_DOUBLE = ("Acrobot-v1", "MountainCar-v0", "Pendulum-v1")
TOLERANCE = {"float32": 2e-5, "float64": 2e-6}
EPISODES = 4


def gymnasium_state(reference: Any) -> np.ndarray:
    return np.asarray(reference.unwrapped.state, np.float64)


def synchronised(name: str, state: Any, reference: Any) -> Any:
    numbers = zip(STATE[name], gymnasium_state(reference), strict=True)
    return state.replace(**{field: jnp.asarray(number, float) for field, number in numbers})


def choose(name: str, reference: Any, skilled: bool, generator: np.random.Generator) -> Any:
    """An action; continuous ones also beyond their bounds, where both must clip alike."""
    space = reference.action_space
    up = skilled and SKILLED[name](gymnasium_state(reference))
    if isinstance(space, gymnasium.spaces.Discrete):
        actions = int(space.n)
        return np.int32((actions - 1) * up if skilled else generator.integers(actions))
    low, high = 1.2 * space.low, 1.2 * space.high
    return np.float32((high if up else low) if skilled else generator.uniform(low, high))


def replay(name: str, *, skilled: bool, each_step: bool, tolerance: float) -> list[tuple[int, bool, bool]]:
    """Compare every step of some episodes; returns (length, terminated, truncated) of each."""
    environment, reference = make(name), gymnasium.make(name)
    step = jax.jit(environment.step)
    generator, episodes = np.random.default_rng(0), []
    for episode in range(1 if name == "MountainCarContinuous-v0" else EPISODES):
        first, _ = reference.reset(seed=episode)
        state = synchronised(name, environment.reset(jax.random.key(episode))[0], reference)
        length, ended = 0, False
        assert first.shape == environment.observation.shape
        while not ended:
            action = choose(name, reference, skilled, generator)
            if each_step:
                state = synchronised(name, state, reference)
            ours = step(jax.random.key(length), state, jnp.asarray(action))
            observation, reward, terminated, truncated, _ = reference.step(action)
            state, length, ended = ours.state, length + 1, terminated or truncated
            np.testing.assert_allclose(ours.observation, observation, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(ours.reward, reward, rtol=tolerance, atol=tolerance)
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
    survives = name in (SURVIVED_BY_THE_SKILLED if skilled else SURVIVED_BY_THE_RANDOM)
    assert all(truncated == survives and terminated != survives for _, terminated, truncated in episodes)


@pytest.mark.parametrize(
    ("name", "skilled"),
    [("CartPole-v1", False), *((name, skilled) for name in IN_DOUBLE for skilled in (False, True))],
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
    if isinstance(environment.action, Discrete):
        assert environment.action == Discrete(int(reference.action_space.n))
    else:
        assert environment.action.shape == reference.action_space.shape
        np.testing.assert_allclose(environment.action.low, reference.action_space.low)
        np.testing.assert_allclose(environment.action.high, reference.action_space.high)


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


@pytest.mark.parametrize("name", ["MountainCar-v0", "MountainCarContinuous-v0"])
def test_the_left_wall_stops_the_car(name: str) -> None:
    environment, reference = make(name), gymnasium.make(name)
    reference.reset(seed=0)
    reference.unwrapped.state = np.array([-1.19, -0.05])
    state = synchronised(name, environment.reset(jax.random.key(0))[0], reference)
    action = np.int32(0) if isinstance(environment.action, Discrete) else np.float32([-1.0])
    ours = environment.step(jax.random.key(0), state, jnp.asarray(action))
    observation, *_ = reference.step(action)
    assert observation[1] == 0
    np.testing.assert_allclose(ours.observation, observation, rtol=1e-6)
    np.testing.assert_allclose(ours.state.velocity, 0)


def test_the_ice_is_as_slippery_as_gymnasiums() -> None:
    """Every cell and action: the same next cells, with the same probabilities, rewards and ends."""
    environment, table = make("FrozenLake-misc"), gymnasium.make("FrozenLake-v1").unwrapped.P
    start, _ = environment.reset(jax.random.key(0))
    keys = jax.random.split(jax.random.key(1), 2000)
    cells, actions = np.repeat(np.arange(16), 4), np.tile(np.arange(4), 16)

    @jax.jit
    def draws(cell: jax.Array, action: jax.Array) -> Any:
        return jax.vmap(lambda key: environment.step(key, start.replace(position=cell), action))(keys)

    steps = jax.vmap(draws)(jnp.asarray(cells, jnp.int32), jnp.asarray(actions, jnp.int32))
    for index, (cell, action) in enumerate(zip(cells, actions, strict=True)):
        if table[cell][action][0][3] and len(table[cell][action]) == 1:
            continue
        expected, reached = np.zeros(16), np.asarray(steps.observation[index])
        for probability, following, reward, over in table[cell][action]:
            expected[following] += probability
            there = reached == following
            assert np.all(np.asarray(steps.reward[index])[there] == reward)
            assert np.all(np.asarray(steps.terminated[index])[there] == over)
        share = np.bincount(reached, minlength=16) / len(keys)
        assert np.all((share > 0) == (expected > 0)) and np.all(np.abs(share - expected) < 0.05)
