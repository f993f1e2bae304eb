"""Small MDPs with known answers. Each isolates one thing that can go wrong."""

from typing import Any

import numpy as np

from pgsom.checks import check_count, check_number, wrong
from pgsom.environments.finite_mdp import FiniteMDP


def two_armed_bandit() -> FiniteMDP:
    """One state, one choice, rewards 1 and 0: isolates the sign of the curvature.

    With π(0) = σ(θ) the return is J = σ(θ), so J′ = σ(1 − σ) > 0 everywhere while J″ = σ(1 − σ)(1 − 2σ)
    changes sign at θ = 0: dividing by J″ walks downhill on one side and explodes in the middle. The single
    state cannot be terminal, so the episode ends by truncation.
    """
    return FiniteMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], [1.0], 1.0, 1, name="two-armed-bandit")


def three_state() -> FiniteMDP:
    """Three states, two actions, four steps, γ = 0.9, all transitions possible: the general case.

    Isolates nothing and hides nothing: 3,888 trajectories, rewards between 0.5 and 1.5, so that all weights
    are positive and a missing baseline shows as variance.
    """
    transition = [
        [[0.70, 0.20, 0.10], [0.10, 0.60, 0.30]],
        [[0.30, 0.50, 0.20], [0.20, 0.20, 0.60]],
        [[0.50, 0.25, 0.25], [0.15, 0.35, 0.50]],
    ]
    reward = [[1.0, 0.6], [1.4, 0.9], [0.5, 1.5]]
    return FiniteMDP(transition, reward, [0.5, 0.3, 0.2], 0.9, 4, name="three-state")


def chain(length: int = 3, horizon: int = 6, slip: float = 0.1, discount: float = 0.95) -> FiniteMDP:
    """A corridor of `length` cells and a terminal goal behind it: isolates episodes of different lengths.

    Action 1 goes right and action 0 left, the other way with probability `slip`; the left wall holds. Every
    step costs 1, so the return is told by the length alone. Some episodes terminate, some are truncated, and
    some do both on the last step: whoever confuses the flags, or counts steps after the end, gets a wrong
    return.
    """
    length = check_count("length", length)
    slip = float(check_number("slip", slip, at_least=0, at_most=1))
    transition = np.zeros((length + 1, 2, length + 1))
    for cell in range(length):
        left, right = max(cell - 1, 0), cell + 1
        for action, to_the_right in ((0, slip), (1, 1 - slip)):
            transition[cell, action, left] += 1 - to_the_right
            transition[cell, action, right] += to_the_right
    transition[length, :, length] = 1
    reward = np.where(np.arange(length + 1)[:, None] < length, -1.0, 0.0) * np.ones((1, 2))
    start = np.eye(length + 1)[0]
    terminal = np.arange(length + 1) == length
    return FiniteMDP(transition, reward, start, discount, horizon, terminal, name="chain")


def probe_delayed(steps: int = 4, discount: float = 0.9) -> FiniteMDP:
    """Only the first action counts, paid at the last step: isolates credit assignment and discounting.

    Action 0 in the first state earns 1 at step `steps` − 1, action 1 earns 0, so J = γ^{steps−1} π(0|s_0).
    The gradient with respect to all other states is zero. Both flags stand at the last step.
    """
    steps = check_count("steps", steps, at_least=2)
    end = 2 * steps - 1
    transition = np.zeros((end + 1, 2, end + 1))
    reward = np.zeros((end + 1, 2))
    transition[0, 0, 1] = transition[0, 1, 2] = 1
    for state in range(1, end):
        transition[state, :, min(state + 2, end)] = 1
    transition[end, :, end] = 1
    reward[end - 2] = 1
    start, terminal = np.eye(end + 1)[0], np.arange(end + 1) == end
    return FiniteMDP(transition, reward, start, discount, steps, terminal, name="probe-delayed")


def random_mdp(
    generator: np.random.Generator,
    states: int,
    actions: int,
    horizon: int | None,
    discount: float,
    terminal_states: int = 0,
) -> FiniteMDP:
    """Rows of P and ρ uniform on the simplex, normal rewards; the last `terminal_states` are terminal."""
    _check_generator(generator)
    states, actions = check_count("states", states), check_count("actions", actions)
    ends = check_count("terminal_states", terminal_states, at_least=0, at_most=states - 1)
    transition = generator.dirichlet(np.ones(states), (states, actions))
    start = np.append(generator.dirichlet(np.ones(states - ends)), np.zeros(ends))
    terminal = np.arange(states) >= states - ends
    reward = generator.standard_normal((states, actions))
    return FiniteMDP(transition, reward, start, discount, horizon, terminal, name="random")


def _check_generator(generator: Any) -> None:
    if not isinstance(generator, np.random.Generator):
        accepted = "accepted is a numpy.random.Generator, as from numpy.random.default_rng(0)"
        raise wrong("generator", generator, accepted)
