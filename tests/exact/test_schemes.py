"""Runge-Kutta schemes on flows whose solution is known, and one update of training against Heun's rule by hand."""

from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
import scipy.linalg

import pgsom.training
from pgsom.checks import InputError
from pgsom.environments import FiniteMDP, chain
from pgsom.methods import Common, Method, reinforce, runge_kutta_pg
from pgsom.objective import observe
from pgsom.policies import Policy
from pgsom.rollout import collect
from pgsom.schemes import (
    EULER,
    HEUN,
    MIDPOINT,
    RALSTON,
    RK4,
    SCHEMES,
    Scheme,
    combine,
    integrate,
    make_scheme,
    paper_alpha,
)
from tests.exact.oracle import flat, quick_jit, random_params, tabular

A = np.array([[-1.0, 2.0], [-0.5, -0.3]])
"""θ′ = Aθ: the gradient flow of a quadratic, with a rotation in it."""

ORDERS = {
    "euler": (EULER, 1),
    "heun": (HEUN, 2),
    "midpoint": (MIDPOINT, 2),
    "ralston": (RALSTON, 2),
    "paper, α = 0.5": (paper_alpha(0.5), 2),
    "paper, α = 0.3": (paper_alpha(0.3), 1),
    "rk4": (RK4, 4),
}


def error_after_time_one(scheme: Scheme, steps: int, flow: Any) -> float:
    theta = np.array([1.0, -0.4])
    for _ in range(steps):
        direction, _ = integrate(scheme, lambda index, point: (flow(point), None), theta, 1 / steps)
        theta = theta + direction / steps
    return float(np.linalg.norm(theta - scipy.linalg.expm(A) @ np.array([1.0, -0.4])))


@pytest.mark.parametrize(("scheme", "order"), ORDERS.values(), ids=ORDERS)
def test_the_error_shrinks_with_the_declared_order(scheme: Scheme, order: int) -> None:
    """The slope of ln error over ln step, against the matrix exponential."""
    steps = np.array([16, 32, 64, 128])
    errors = [error_after_time_one(scheme, int(n), lambda point: A @ point) for n in steps]
    slope = np.polyfit(np.log(1 / steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.08) and scheme.order == order


def test_one_step_of_each_scheme_is_the_taylor_polynomial_of_its_order() -> None:
    """On θ′ = θ from 1 with step ½: Euler 1 + ½, second order + ⅛, RK4 + 1/48 + 1/384; the paper's by its formula."""
    expected = {
        EULER: 1.5,
        HEUN: 1.625,
        MIDPOINT: 1.625,
        RALSTON: 1.625,
        RK4: 1.5 + 1 / 8 + 1 / 48 + 1 / 384,
        paper_alpha(0.3): 1 + 0.5 * (0.3 + 0.7 * 1.5),
    }
    for scheme, value in expected.items():
        direction, _ = integrate(scheme, lambda index, point: (point, None), np.asarray(1.0), 0.5)
        assert 1 + 0.5 * float(direction) == pytest.approx(value, rel=1e-12), scheme.name


def test_stages_are_visited_in_order_at_their_points_and_keep_what_they_return() -> None:
    """Directions 1, 2, 3, 4 in turn, step ½: the points are 0, ½·½·1, ½·½·2, ½·3."""
    points = []

    def direction_at(index: int, point: Any) -> tuple[Any, str]:
        points.append(float(point))
        return np.asarray(index + 1.0), f"stage {index}"

    direction, beside = integrate(RK4, direction_at, np.asarray(0.0), 0.5)
    np.testing.assert_allclose(points, [0, 0.25, 0.5, 1.5])
    assert beside == ("stage 0", "stage 1", "stage 2", "stage 3")
    assert float(direction) == pytest.approx((1 + 2 * 2 + 2 * 3 + 4) / 6)


def test_states_are_combined_as_directions_are_and_counters_are_not() -> None:
    first, second = ({"m": np.asarray(x), "count": np.asarray(3)} for x in (1.0, 5.0))
    mixed = combine((0.25, 0.75), [first, second])
    assert (float(mixed["m"]), int(mixed["count"])) == (4.0, 3)
    exploded = {"m": np.asarray(np.inf), "count": np.asarray(3)}
    only_second = combine(MIDPOINT.b, [exploded, second])
    assert float(only_second["m"]) == 5.0, "a stage of weight 0 contributes nothing, not 0 · ∞"


@pytest.mark.parametrize(
    ("a", "b", "order", "message"),
    [
        (((),), (0.5, 0.5), 1, "a=((),): accepted are 2 rows, one for each weight in b"),
        (((0.5,),), (1.0,), 1, "a=((0.5,),): row 0 has 1 numbers; accepted are 0 (explicit scheme)"),
        (
            ((), (0.5, 0.5)),
            (0.5, 0.5),
            1,
            "a=((), (0.5, 0.5)): row 1 has 2 numbers; accepted are 1 (explicit scheme)",
        ),
        (((),), (0.9,), 1, "b=(0.9,): sums to 0.9; accepted are weights that sum to 1"),
        (((), (1.0,)), (0.5, 0.5), 3, "order=3: the tableau satisfies the order conditions up to 2"),
        (((), (1.0,)), (0.5, 0.5), 1, "order=1: the tableau satisfies the order conditions up to 2"),
        (((), (1.0,)), (0.3, 0.7), 2, "order=2: the tableau satisfies the order conditions up to 1"),
    ],
)
def test_a_tableau_checks_itself(a: Any, b: Any, order: int, message: str) -> None:
    with pytest.raises(InputError) as error:
        Scheme("mine", a, b, order)
    assert str(error.value) == message


def test_order_conditions_know_third_and_fourth_order() -> None:
    """Kutta's third-order rule and the 3/8 rule."""
    kutta = Scheme("kutta", ((), (0.5,), (-1.0, 2.0)), (1 / 6, 2 / 3, 1 / 6), 3)
    eighths = Scheme("3/8", ((), (1 / 3,), (-1 / 3, 1.0), (1.0, -1.0, 1.0)), (1 / 8, 3 / 8, 3 / 8, 1 / 8), 4)
    assert (kutta.stages, eighths.stages) == (3, 4)


def test_schemes_by_name() -> None:
    for name in SCHEMES:
        scheme = make_scheme(name, 0.25)
        assert scheme.name == name and make_scheme(scheme) is scheme
    assert make_scheme("paper", 0.25).b == (0.25, 0.75)


# --- one update of training --------------------------------------------------------------------------------------


@partial(quick_jit, static_argnames=("policy", "mdp"))
def batch_gradient(method: Method, policy: Policy, mdp: FiniteMDP, played_at: Any, key: jax.Array, params: Any) -> Any:
    """The gradient at `params` by episodes played at `played_at`, and how many steps they took."""
    play, estimate = jax.random.split(jax.random.split(key)[1])
    rollout = collect(mdp, policy, played_at, play, method.plan.environments)
    objective = observe(method.weighting, (), policy, played_at, rollout, estimate)
    return objective.at(params).gradient(), rollout.length.sum()


_step = quick_jit(pgsom.training.step, static_argnums=(0, 1))


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("stage_data", ["fresh", "reweighted"])
def test_one_runge_kutta_update_is_heuns_rule_by_hand(stage_data: Any) -> None:
    """θ + η clip(½ g(θ) + ½ g(θ + η g(θ))), each g from its own episodes, or both from the first."""
    mdp, policy, rate = chain(length=2, horizon=4), tabular(), 0.4
    method = runge_kutta_pg(rate, common=Common(batch=5, stage_data=stage_data, discount=0.9, clip_elements=0.3))
    state = pgsom.training.init(mdp, policy, method, jax.random.key(3))._replace(params=random_params(policy))
    new, _ = _step(mdp, policy, method, state)

    _, first, second = jax.random.split(state.key, 3)
    theta = state.params
    g1, steps1 = batch_gradient(method, policy, mdp, theta, first, theta)
    there = jax.tree.map(lambda p, g: p + rate * g, theta, g1)
    again = (there, second) if stage_data == "fresh" else (theta, first)
    g2, steps2 = batch_gradient(method, policy, mdp, *again, there)
    average = (flat(g1) + flat(g2)) / 2
    assert np.abs(average).max() > 0.3, "clipping acts on the average"
    np.testing.assert_allclose(flat(new.params), flat(theta) + rate * np.clip(average, -0.3, 0.3), rtol=1e-10)
    batches = 2 if stage_data == "fresh" else 1
    assert (int(new.updates), int(new.episodes)) == (1, 5 * batches)
    assert int(new.env_steps) == int(steps1) + (batches - 1) * int(steps2)


@pytest.mark.usefixtures("float64")
def test_a_plain_update_climbs_by_the_learning_rate_times_the_gradient() -> None:
    mdp, policy, method = chain(length=2, horizon=4), tabular(), reinforce(0.25, common=Common(batch=5))
    state = pgsom.training.init(mdp, policy, method, jax.random.key(0))._replace(params=random_params(policy))
    new, metrics = _step(mdp, policy, method, state)
    gradient, _ = batch_gradient(method, policy, mdp, state.params, jax.random.split(state.key)[1], state.params)
    np.testing.assert_allclose(flat(new.params) - flat(state.params), 0.25 * flat(gradient), rtol=1e-10)
    assert float(metrics.gradient_norm) == pytest.approx(np.linalg.norm(flat(gradient)))
    assert float(metrics.effective_episodes) == pytest.approx(5)
    assert np.linalg.norm(flat(gradient)) > 0.1
