"""The exact quantities of finite MDPs, against plain NumPy, enumerated sums and closed forms, in float64."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pgsom.checks import InputError
from pgsom.environments import (
    FiniteMDP,
    chain,
    count_trajectories,
    enumerate_trajectories,
    exact_gradient,
    exact_hessian,
    exact_return,
    exact_values,
    finite_mdp,
    probe_delayed,
    random_mdp,
    softmax_policy,
    three_state,
    trajectory_probabilities,
    two_armed_bandit,
)

TINY = 1e-12

FINITE = {
    "two-armed-bandit": two_armed_bandit(),
    "three-state": three_state(),
    "chain": chain(),
    "chain without slip": chain(slip=0.0),
    "probe-delayed": probe_delayed(),
    "random": random_mdp(np.random.default_rng(1), 3, 2, 4, 0.8),
    "random with ends": random_mdp(np.random.default_rng(2), 4, 2, 4, 0.9, terminal_states=2),
    "undiscounted": random_mdp(np.random.default_rng(3), 2, 3, 4, 1.0, terminal_states=1),
    "first reward only": random_mdp(np.random.default_rng(4), 2, 2, 3, 0.0),
}


@pytest.fixture(autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=FINITE, name="mdp")
def _mdp(request: pytest.FixtureRequest) -> FiniteMDP:
    return FINITE[request.param]


def logits(mdp: FiniteMDP, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(mdp.states, mdp.actions))


def softmax(theta: np.ndarray) -> np.ndarray:
    weights = np.exp(theta)
    return weights / weights.sum(-1, keepdims=True)


def return_by_hand(mdp: FiniteMDP, pi: np.ndarray, state: int | None = None, time: int = 0) -> float:
    """J by plain recursion over every branch, in Python numbers only."""
    if state is None:
        return sum(mdp.start[s] * return_by_hand(mdp, pi, s) for s in range(mdp.states) if mdp.start[s] > 0)
    if time == mdp.horizon or mdp.terminal[state]:
        return 0.0
    total = 0.0
    for a in range(mdp.actions):
        later = sum(
            mdp.transition[state, a, s] * return_by_hand(mdp, pi, s, time + 1)
            for s in range(mdp.states)
            if mdp.transition[state, a, s] > 0
        )
        total += pi[state, a] * (mdp.reward[state, a] + mdp.discount * later)
    return total


def discounted_sums(mdp: FiniteMDP, reward: np.ndarray) -> np.ndarray:
    return (mdp.discount ** np.arange(mdp.horizon)) @ reward


def test_trajectory_probabilities_sum_to_one(mdp: FiniteMDP) -> None:
    probabilities = trajectory_probabilities(enumerate_trajectories(mdp), softmax(logits(mdp)))
    assert float(probabilities.sum()) == pytest.approx(1.0, abs=TINY)


def test_four_routes_to_the_return_agree(mdp: FiniteMDP) -> None:
    pi = softmax(logits(mdp))
    enumeration = enumerate_trajectories(mdp)
    probabilities = np.asarray(trajectory_probabilities(enumeration, pi))
    enumerated = probabilities @ discounted_sums(mdp, enumeration.reward)
    assert float(exact_return(mdp, pi)) == pytest.approx(return_by_hand(mdp, pi), abs=TINY)
    assert enumerated == pytest.approx(return_by_hand(mdp, pi), abs=TINY)
    assert mdp.start @ np.asarray(exact_values(mdp, pi))[0] == pytest.approx(enumerated, abs=TINY)


def test_values_are_the_returns_from_each_state_and_time(mdp: FiniteMDP) -> None:
    pi = softmax(logits(mdp))
    values = exact_values(mdp, pi)
    by_hand = [[return_by_hand(mdp, pi, state, time) for state in range(mdp.states)] for time in range(mdp.horizon)]
    np.testing.assert_allclose(values, by_hand, atol=TINY)
    assert not np.any(np.asarray(values)[:, mdp.terminal])


def test_gradient_is_the_finite_difference_of_the_return_by_hand(mdp: FiniteMDP) -> None:
    theta, step = logits(mdp), 1e-5
    gradient = np.asarray(exact_gradient(mdp, softmax_policy, theta))
    for index in np.ndindex(*theta.shape):
        shift = np.zeros_like(theta)
        shift[index] = step
        up, down = (return_by_hand(mdp, softmax(theta + sign * shift)) for sign in (1, -1))
        assert gradient[index] == pytest.approx((up - down) / (2 * step), abs=1e-9)


def test_hessian_is_the_finite_difference_of_the_return_by_hand(mdp: FiniteMDP) -> None:
    theta, step = logits(mdp).ravel(), 1e-3
    size = theta.size
    exact = exact_hessian(mdp, softmax_policy, theta.reshape(mdp.states, -1))
    hessian = np.asarray(exact).reshape(size, size)
    np.testing.assert_allclose(hessian, hessian.T, atol=TINY)

    def value(shift: np.ndarray) -> float:
        return return_by_hand(mdp, softmax((theta + step * shift).reshape(mdp.states, -1)))

    rows = np.random.default_rng(5).choice(size, min(size, 3), replace=False)
    for i, j in ((i, j) for i in rows for j in rows):
        e, f = np.eye(size)[i], np.eye(size)[j]
        difference = (value(e + f) - value(e - f) - value(f - e) + value(-e - f)) / (4 * step**2)
        assert hessian[i, j] == pytest.approx(difference, abs=2e-5)


def test_derivatives_of_the_enumerated_sum_agree(mdp: FiniteMDP) -> None:
    enumeration, theta = enumerate_trajectories(mdp), logits(mdp)
    returns = discounted_sums(mdp, enumeration.reward)

    def enumerated(point: jax.Array) -> jax.Array:
        return trajectory_probabilities(enumeration, softmax_policy(point)) @ returns

    @jax.jit
    def both_routes(point: jax.Array) -> Any:
        exact = exact_gradient(mdp, softmax_policy, point), exact_hessian(mdp, softmax_policy, point)
        return (jax.grad(enumerated)(point), jax.hessian(enumerated)(point)), exact

    for summed, exact in zip(*both_routes(theta), strict=True):
        np.testing.assert_allclose(summed, exact, atol=TINY)


def test_policy_gradient_theorem(mdp: FiniteMDP) -> None:
    """∇J = Σ_t γ^t Σ_s d_t(s) Σ_a ∇π(a|s) Q_t(s, a), with the derivative of the softmax written out."""
    pi = softmax(logits(mdp))
    going_on = np.where(mdp.terminal, 0.0, mdp.transition)
    values = np.vstack([np.asarray(exact_values(mdp, pi)), np.zeros(mdp.states)])
    distribution, gradient = mdp.start, np.zeros((mdp.states, mdp.actions))
    for time in range(mdp.horizon):
        q = mdp.reward + mdp.discount * going_on @ values[time + 1]
        centred = q - np.sum(pi * q, -1, keepdims=True)
        gradient += mdp.discount**time * distribution[:, None] * pi * centred
        distribution = np.einsum("s,sa,sat->t", distribution, pi, going_on)
    np.testing.assert_allclose(exact_gradient(mdp, softmax_policy, logits(mdp)), gradient, atol=TINY)


@pytest.mark.parametrize("terminal_states", [0, 2])
def test_infinite_horizon_is_the_limit_of_long_finite_ones(terminal_states: int) -> None:
    def build(horizon: int | None) -> FiniteMDP:
        return random_mdp(np.random.default_rng(6), 4, 2, horizon, 0.9, terminal_states)

    infinite, long = build(None), build(400)
    theta = logits(infinite)
    pi = softmax(theta)
    assert infinite.infinite and not long.infinite
    assert float(exact_return(infinite, pi)) == pytest.approx(float(exact_return(long, pi)), abs=TINY)
    np.testing.assert_allclose(exact_values(infinite, pi), exact_values(long, pi)[0], atol=TINY)
    for derivative in (exact_gradient, exact_hessian):
        np.testing.assert_allclose(
            derivative(infinite, softmax_policy, theta), derivative(long, softmax_policy, theta), atol=TINY
        )


def test_bandit_has_the_closed_forms_of_the_logistic_function() -> None:
    mdp = two_armed_bandit()

    def policy(theta: jax.Array) -> jax.Array:
        return jnp.stack([jax.nn.sigmoid(theta), jax.nn.sigmoid(-theta)])[None]

    for theta in (-2.0, 0.0, 0.7):
        sigma = 1 / (1 + np.exp(-theta))
        assert float(exact_return(mdp, policy(jnp.asarray(theta)))) == pytest.approx(sigma, abs=TINY)
        slope = sigma * (1 - sigma)
        assert float(exact_gradient(mdp, policy, theta)) == pytest.approx(slope, abs=TINY)
        assert float(exact_hessian(mdp, policy, theta)) == pytest.approx(slope * (1 - 2 * sigma), abs=TINY)


def test_probe_delayed_discounts_the_first_choice() -> None:
    mdp = probe_delayed(steps=5, discount=0.8)
    theta = logits(mdp)
    assert float(exact_return(mdp, softmax(theta))) == pytest.approx(0.8**4 * softmax(theta)[0, 0], abs=TINY)
    gradient = np.asarray(exact_gradient(mdp, softmax_policy, theta))
    assert gradient[0, 0] > 0.01 and np.all(np.abs(gradient[1:]) < TINY)


def test_derivatives_accept_any_parameters() -> None:
    """A pytree of features and a bias instead of a table."""
    mdp = three_state()
    params = {"weights": jnp.asarray([[0.3, -0.2]]), "bias": jnp.asarray([0.1, 0.0])}
    features = jnp.asarray([[0.0], [1.0], [2.0]])

    def policy(point: Any) -> jax.Array:
        return jax.nn.softmax(features @ point["weights"] + point["bias"])

    gradient = exact_gradient(mdp, policy, params)
    tabular = exact_gradient(mdp, softmax_policy, features @ params["weights"] + params["bias"])
    np.testing.assert_allclose(gradient["bias"], tabular.sum(0), atol=TINY)
    np.testing.assert_allclose(gradient["weights"], features.T @ tabular, atol=TINY)
    assert exact_hessian(mdp, policy, params)["bias"]["weights"].shape == (2, 1, 2)


def test_enumeration_of_the_chain_without_slip_is_known() -> None:
    """One cell and a goal, two steps: right at once; left then right; left twice."""
    enumeration = enumerate_trajectories(chain(length=1, horizon=2, slip=0.0))
    columns = {tuple(action[mask]): column for column, (action, mask) in _columns(enumeration)}
    assert set(columns) == {(1,), (0, 1), (0, 0)}
    order = [columns[(1,)], columns[(0, 1)], columns[(0, 0)]]
    assert enumeration.final_state[order].tolist() == [1, 1, 0]
    assert enumeration.terminated[:, order].T.astype(int).tolist() == [[1, 0], [0, 1], [0, 0]]
    assert enumeration.truncated[:, order].T.astype(int).tolist() == [[0, 0], [0, 1], [0, 1]]
    assert enumeration.reward[:, order].T.tolist() == [[-1, 0], [-1, -1], [-1, -1]]
    assert enumeration.environment_probability.tolist() == [1, 1, 1]


def _columns(enumeration: Any) -> Iterator[tuple[int, tuple[np.ndarray, np.ndarray]]]:
    return enumerate(zip(enumeration.action.T, enumeration.mask.T, strict=True))


def test_enumeration_is_complete_and_without_repetition(mdp: FiniteMDP) -> None:
    enumeration = enumerate_trajectories(mdp)
    columns = np.vstack([enumeration.state, enumeration.action, enumeration.mask, enumeration.final_state])
    assert np.unique(columns, axis=1).shape[1] == columns.shape[1] == count_trajectories(mdp)
    assert np.all(enumeration.environment_probability > 0)
    ends = enumeration.terminated | enumeration.truncated
    steps = enumeration.mask.sum(0)
    assert np.array_equal(np.argmax(ends, 0) + 1, steps) and np.all(ends.sum(0) == 1)
    assert np.array_equal(enumeration.truncated.any(0), steps == mdp.horizon)
    assert np.array_equal(enumeration.terminated.any(0), mdp.terminal[enumeration.final_state])
    assert not np.any(mdp.terminal[enumeration.state] & enumeration.mask)


def test_sampled_frequencies_are_the_probabilities(mdp: FiniteMDP) -> None:
    """One step from every state and action: nothing impossible, and χ² within six standard deviations."""
    draws = 4000
    state, action = (grid.ravel() for grid in np.indices((mdp.states, mdp.actions)))
    begin = jax.vmap(mdp.reset)(jax.random.split(jax.random.key(0), state.size))[0]
    here = begin._replace(state=jnp.asarray(state, jnp.int32))
    keys = jax.random.split(jax.random.key(1), (draws, state.size))
    step = jax.vmap(jax.vmap(mdp.step), (0, None, None))
    reached = step(keys, here, jnp.asarray(action, jnp.int32)).observation
    counts = np.stack([np.bincount(column, minlength=mdp.states) for column in np.asarray(reached).T])
    expected = draws * mdp.transition[state, action]
    assert not np.any(counts[expected == 0])
    free = np.sum(expected > 0) - len(expected)
    chi_square = np.sum((counts - expected)[expected > 0] ** 2 / expected[expected > 0])
    assert chi_square <= free + 6 * np.sqrt(2 * free)


def test_rounding_never_draws_an_impossible_state() -> None:
    """Seven probabilities of 1/7 sum to less than the largest uniform number; the eighth state is impossible."""
    probabilities = np.append(np.full(7, 1 / 7), 0.0)
    largest = 1 - 2.0**-52
    assert np.all(largest >= np.cumsum(probabilities))
    assert np.sum(largest >= finite_mdp._cumulative(probabilities)) == 6


def test_rows_within_the_tolerance_are_normalised() -> None:
    mdp = FiniteMDP(np.full((3, 1, 3), np.float32(1 / 3)), np.zeros((3, 1)), [1, 0, 0], 0.9, 2)
    np.testing.assert_allclose(mdp.transition.sum(-1), 1.0, atol=1e-15)


def test_arrays_are_copied_and_read_only() -> None:
    reward = np.array([[1.0, 0.0]])
    mdp = FiniteMDP(np.ones((1, 2, 1)), reward, [1.0], 1.0, 1)
    reward[:] = 7
    assert mdp.reward.tolist() == [[1.0, 0.0]]
    with pytest.raises(ValueError, match="read-only"):
        mdp.reward[0, 0] = 2.0


@pytest.mark.parametrize(("discount", "steps"), [(0.0, 1), (0.1, 9), (0.5, 27), (0.99, 1833)])
def test_sampling_of_the_infinite_horizon_is_cut_where_nothing_is_left(discount: float, steps: int) -> None:
    mdp = FiniteMDP(np.ones((1, 1, 1)), [[1.0]], [1.0], discount, None)
    assert mdp.horizon == steps and discount**steps < 1e-8 <= discount ** (steps - 1) * 1.0001
    assert FiniteMDP(np.ones((1, 1, 1)), [[1.0]], [1.0], discount, None, sampling_horizon=5).horizon == 5


GOOD: dict[str, Any] = {
    "transition": [[[0.5, 0.5], [1, 0]], [[0, 1], [0, 1]]],
    "reward": [[1, 0], [0, 0]],
    "start": [1, 0],
    "discount": 0.9,
    "horizon": 3,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transition": [[1.0]]}, "transition.shape=(1, 1): accepted is (states, actions, states)"),
        (
            {"transition": [[[0.5, 0.4], [1, 0]], [[0, 1], [0, 1]]]},
            "sum of transition[0, 0]=0.9: accepted is 1",
        ),
        (
            {"transition": [[[1.5, -0.5], [1, 0]], [[0, 1], [0, 1]]]},
            "transition[0, 0, 0]=1.5: accepted are probabilities, from 0 to 1",
        ),
        (
            {"transition": [[[1, 0], [1, 0]], [[0, 1], [0, np.nan]]]},
            "transition[1, 1, 1]=nan: accepted are finite numbers",
        ),
        ({"transition": "P"}, "transition='P': accepted is an array of numbers"),
        ({"reward": [1, 0]}, "reward.shape=(2,): accepted is (states, actions) = (2, 2)"),
        ({"reward": [[1, 0], [np.inf, 0]]}, "reward[1, 0]=inf: accepted are finite numbers"),
        ({"start": [1.0]}, "start.shape=(1,): accepted is (states,) = (2,)"),
        ({"start": [0.5, 0.2]}, "sum of start=0.7: accepted is 1"),
        ({"discount": 1.1}, "discount=1.1: accepted is a number >= 0 and <= 1"),
        ({"horizon": 0}, "horizon=0: accepted is a whole number >= 1"),
        ({"horizon": 2.5}, "horizon=2.5: accepted is a whole number >= 1"),
        (
            {"horizon": None, "discount": 1.0},
            "horizon=None: accepted with discount < 1 only; give a whole number >= 1",
        ),
        ({"sampling_horizon": 9}, "sampling_horizon=9: accepted only with horizon=None"),
        ({"terminal": [False]}, "terminal=[False]: accepted is None or 2 booleans, one for each state"),
        ({"terminal": [0, 1]}, "terminal=[0, 1]: accepted is None or 2 booleans, one for each state"),
        (
            {"terminal": [True, False]},
            "start[0]=1.0: accepted is 0, an episode cannot start in a terminal state",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_wrong_arrays_are_named(changes: dict[str, Any], message: str) -> None:
    FiniteMDP(**GOOD)
    with pytest.raises(InputError) as error:
        FiniteMDP(**(GOOD | changes))
    assert str(error.value) == message


def test_wrong_policy_shape_is_named() -> None:
    with pytest.raises(InputError) as error:
        exact_return(three_state(), jnp.ones((2, 3)) / 3)
    expected = "action_probabilities.shape=(2, 3): accepted is (states, actions) = (3, 2)"
    assert str(error.value) == expected


def test_too_many_trajectories_are_counted_not_built() -> None:
    mdp = random_mdp(np.random.default_rng(0), 4, 3, 40, 0.9)
    with pytest.raises(InputError) as error:
        enumerate_trajectories(mdp)
    expected = "limit=2000000: random has 5.88e+43 trajectories; take a shorter horizon or raise the limit"
    assert str(error.value) == expected
    with pytest.raises(InputError, match="three-state has 3888 trajectories"):
        enumerate_trajectories(three_state(), limit=3887)
    assert enumerate_trajectories(three_state(), limit=3888).state.shape == (4, 3888)


def test_infinite_trajectories_are_refused() -> None:
    with pytest.raises(InputError, match="infinite trajectories cannot be listed"):
        enumerate_trajectories(random_mdp(np.random.default_rng(0), 2, 2, None, 0.9))


@pytest.mark.usefixtures("unchecked")
def test_random_mdp_needs_a_generator_and_repeats_with_its_seed() -> None:
    with pytest.raises(InputError, match=r"generator=0: accepted is a numpy\.random\.Generator"):
        random_mdp(0, 2, 2, 3, 0.9)  # type: ignore[arg-type]
    first, again, other = (random_mdp(np.random.default_rng(seed), 3, 2, 3, 0.9) for seed in (1, 1, 2))
    assert first == again and first != other
