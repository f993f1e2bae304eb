"""Estimates of the gradient that are carried from iterate to iterate, in expectation and number by number.

All trajectories of a finite MDP stand in for a batch, so one update is its own expectation; where a point is drawn on
the way between two iterates, Gauss and Legendre's quadrature stands in for the draw.
"""

from dataclasses import replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from pgsom.checks import InputError
from pgsom.environments import random_mdp
from pgsom.folds import Fold
from pgsom.objective import LocalObjective
from pgsom.updates.adaptive_som import adaptive_som
from pgsom.updates.hapg import hessian_aided
from pgsom.updates.hessian_momentum import hessian_momentum
from pgsom.updates.mbpg import AdaptiveState, hessian_mbpg, weighted_mbpg
from pgsom.updates.recursion import Recursion
from pgsom.updates.sgdhess import sgdhess
from pgsom.updates.som import som
from pgsom.updates.storm import storm
from pgsom.updates.transport import gradient_transport
from tests.exact.oracle import (
    by_hand,
    flat,
    objective_of,
    probabilities,
    quick_jit,
    random_params,
    rollout_of,
    tables,
    tabular,
    truth,
    weights_by_hand,
)

pytestmark = pytest.mark.usefixtures("float64")
MDP = random_mdp(np.random.default_rng(3), 3, 2, 3, 0.9, 1)
POLICY, SHAPE = tabular(), (3, 600)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)
SHARES, WEIGHTS = (NODES + 1) / 2, WEIGHTS / 2


def at(params: Any, **changes: Any) -> LocalObjective:
    return objective_of(MDP, POLICY, params, SHAPE, **changes)


def gradient_at(params: Any) -> np.ndarray:
    return truth(MDP, POLICY, params).gradient


class Two:
    """Two iterates, and the state of a recursion that was exact at the first."""

    def __init__(self, distance: float = 1.0):
        self.old = random_params(POLICY, 0)
        self.step = jax.tree.map(lambda leaf: distance * leaf, random_params(POLICY, 1))
        self.new = self.at(1.0)
        _, unravel = ravel_pytree(self.old)
        exact = unravel(jnp.asarray(gradient_at(self.old)))
        self.state = Recursion(jnp.asarray(3), self.old, exact)

    def at(self, share: float) -> Any:
        return jax.tree.map(lambda p, s: p + share * s, self.old, self.step)


@pytest.fixture(scope="module", name="two")
def _two() -> Two:
    with jax.enable_x64(True):
        return Two()


@pytest.fixture(scope="module", name="on_the_way")
def _on_the_way(two: Two) -> list[LocalObjective]:
    with jax.enable_x64(True):
        return [at(two.at(share)) for share in SHARES]


def estimate_of(state: Any) -> np.ndarray:
    return flat((state.recursion if isinstance(state, AdaptiveState) else state).estimate)


_run = quick_jit(lambda rule, objectives, state, params: rule.update(objectives[0], state, params, *objectives[1:])[1])


def run(rule: Any, state: Any, params: Any, *objectives: LocalObjective) -> np.ndarray:
    """The estimate after one update."""
    return estimate_of(_run(jax.tree.map(jnp.asarray, rule), objectives, state, params))


def expected_over_the_way(rule: Any, state: Any, params: Any, *batches: list[LocalObjective]) -> np.ndarray:
    return sum(w * run(rule, state, params, *at_node) for w, *at_node in zip(WEIGHTS, *batches, strict=True))


# --- in expectation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("curvature", ["causal", "lemma"])
def test_a_product_at_a_random_point_is_the_change_of_the_gradient(
    two: Two, on_the_way: list[LocalObjective], curvature: str
) -> None:
    """With α = 0 nothing else moves the estimate: E d = ∇J(θ) from d = ∇J(θ₋)."""
    rule = replace(hessian_momentum(curvature), fresh=0.0)
    found = expected_over_the_way(rule, two.state, two.new, [at(two.new)] * len(SHARES), on_the_way)
    np.testing.assert_allclose(found, gradient_at(two.new), atol=1e-9)
    assert np.abs(gradient_at(two.new) - gradient_at(two.old)).max() > 0.05


def test_the_average_with_fresh_gradients_stays_unbiased(two: Two, on_the_way: list[LocalObjective]) -> None:
    rule = hessian_momentum(fresh=2.0, fresh_power=1.0)
    found = expected_over_the_way(rule, two.state, two.new, [at(two.new)] * len(SHARES), on_the_way)
    np.testing.assert_allclose(found, gradient_at(two.new), atol=1e-9)


def test_hapg_moves_its_gradient_along_and_renews_it(two: Two, on_the_way: list[LocalObjective]) -> None:
    rule = hessian_aided(period=4, spread=2)
    found = expected_over_the_way(rule, two.state, two.new, on_the_way, on_the_way[::-1])
    wanted = WEIGHTS @ [run(rule, two.state, two.new, *pair) for pair in zip(on_the_way, on_the_way[::-1], strict=True)]
    np.testing.assert_allclose(found, wanted)
    np.testing.assert_allclose(found, gradient_at(two.new), atol=1e-9)
    due = two.state._replace(updates=jnp.asarray(4), estimate=jax.tree.map(jnp.zeros_like, two.old))
    np.testing.assert_allclose(run(rule, due, two.new, at(two.new), at(two.new)), gradient_at(two.new), atol=1e-12)


@pytest.mark.parametrize("fresh", [0.0, 0.4])
def test_ha_mbpg_weighs_the_gradient_of_the_way_to_its_end(
    two: Two, on_the_way: list[LocalObjective], fresh: float
) -> None:
    state = AdaptiveState(two.state, jnp.zeros(()), jnp.asarray(fresh))
    found = expected_over_the_way(hessian_mbpg(), state, two.new, on_the_way)
    np.testing.assert_allclose(found, gradient_at(two.new), atol=1e-9)


@pytest.mark.parametrize("rule", [storm(fresh=0.25), storm(fresh=0.25, at_random=True), weighted_mbpg()])
def test_the_importance_weighted_correction_is_unbiased(two: Two, rule: Any) -> None:
    """Exactly, whatever the length of the step, whether the coin of PAGE-PG falls one way or the other."""
    state = AdaptiveState(two.state, jnp.zeros(()), jnp.asarray(0.25)) if hasattr(rule, "adaptive") else two.state
    for key in range(3):
        objective = replace(at(two.new), key=jax.random.key(key))
        np.testing.assert_allclose(run(rule, state, two.new, objective), gradient_at(two.new), atol=1e-10)


def test_page_pg_renews_as_often_as_its_probability_says(two: Two) -> None:
    wrong = two.state._replace(estimate=jax.tree.map(lambda leaf: leaf + 1, two.state.estimate))
    objective, exact = at(two.new), gradient_at(two.new)

    def renews(key: jax.Array) -> jax.Array:
        state = storm(fresh=0.3, at_random=True).update(replace(objective, key=key), wrong, two.new)[1]
        return jnp.abs(ravel_pytree(state.estimate)[0] - exact).max() < 1e-9

    share = np.mean(quick_jit(jax.vmap(renews))(jax.random.split(jax.random.key(0), 400)))
    assert abs(share - 0.3) < 4 * np.sqrt(0.21 / 400)


def test_a_limit_on_the_ratio_is_one_on_each_episode(two: Two) -> None:
    """ĝ₋ trajectory by trajectory: each counts min(p(τ|θ₋), ρ_max p(τ|θ)) times."""
    before, now = tables(POLICY, two.old), tables(POLICY, two.new)
    rollout = rollout_of(MDP, now, SHAPE)
    e = np.minimum(probabilities(MDP, before, SHAPE[1]), 0.9 * probabilities(MDP, now, SHAPE[1]))
    w = weights_by_hand(np.asarray(rollout.reward), np.asarray(rollout.length), MDP.discount, "lemma")
    there = by_hand(before, rollout, e, w)["gradient"]
    wanted = gradient_at(two.new) + 0.75 * (flat(two.state.estimate) - there)
    found = run(storm(fresh=0.25, largest_ratio=0.9), two.state, two.new, at(two.new))
    np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_sgdhess_uses_the_hessian_at_the_end_of_the_step(two: Two) -> None:
    exact, step = truth(MDP, POLICY, two.new), ravel_pytree(two.step)[0]
    found = run(sgdhess(fresh=0.25), two.state, two.new, at(two.new))
    np.testing.assert_allclose(
        found, 0.75 * (flat(two.state.estimate) + exact.hessian @ step) + 0.25 * exact.gradient, atol=1e-10
    )


def test_transport_asks_beyond_the_iterate(two: Two) -> None:
    """α₃ = min(1, 1.2 · 4^−½) = 0.6, so θ̃ = θ + ⅔ (θ − θ₋)."""
    rule = gradient_transport(fresh=1.2, fresh_power=0.5)
    (there,) = rule.points(two.state, two.new, jax.random.key(0))
    np.testing.assert_allclose(flat(there), flat(two.at(1 + 2 / 3)), rtol=1e-12)
    found = run(rule, two.state, two.new, at(there))
    np.testing.assert_allclose(found, 0.4 * gradient_at(two.old) + 0.6 * gradient_at(there), atol=1e-10)


def test_what_is_not_exact_lags_by_the_square_of_the_step() -> None:
    """Halving the step divides the error of SGDHess and of transport by 4, that of an average of gradients by 2."""
    errors: dict[str, list[float]] = {"sgdhess": [], "transport": [], "average": []}
    for distance in (0.05, 0.025):
        pair = Two(distance)
        exact, here = gradient_at(pair.new), at(pair.new)
        transport = gradient_transport(fresh=0.5)
        beyond = at(transport.points(pair.state, pair.new, jax.random.key(0))[0])
        average = 0.5 * gradient_at(pair.old) + 0.5 * exact
        for name, found in (
            ("sgdhess", run(sgdhess(fresh=0.5), pair.state, pair.new, here)),
            ("transport", run(transport, pair.state, pair.new, beyond)),
            ("average", average),
        ):
            errors[name].append(float(np.linalg.norm(found - exact)))
    ratio = {name: first / second for name, (first, second) in errors.items()}
    assert ratio == pytest.approx({"sgdhess": 4, "transport": 4, "average": 2}, rel=0.05)


# --- number by number --------------------------------------------------------------------------------------------


class Bowl:
    """J = −½ (2x² + y²) without noise, in place of an objective."""

    def __init__(self, *params: float):
        self.params = jnp.asarray(params)

    def gradient(self) -> jax.Array:
        return -jnp.asarray([2.0, 1.0]) * self.params


class BowlHessian:
    name: ClassVar[str] = "bowl"
    estimates: ClassVar[str] = "diag(−2, −1)"
    biased: ClassVar[bool] = False
    positive_semi_definite: ClassVar[bool] = False

    def diagonal(self, objective: Any) -> Fold:
        raise AssertionError("no rule here asks for it")

    def product(self, objective: Any, vector: Any) -> Any:
        return -jnp.asarray([2.0, 1.0]) * vector


def walk(rule: Any, starts: list[tuple[float, float]]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Directions and estimates of a rule that is asked at these points, one after the other."""
    state, directions, estimates = rule.init(jnp.asarray(starts[0])), [], []
    for start in starts:
        direction, state, _ = rule.update(Bowl(*start), state, jnp.asarray(start), *[Bowl(*start)] * 1)
        directions.append(np.asarray(direction))
        estimates.append(estimate_of(state))
    return directions, estimates


@pytest.mark.usefixtures("unchecked")
def test_sgdhess_worked_out_by_hand() -> None:
    """α = ½, G = 2.5, η = 1. The first gradient (−3, −4) is clipped, and it is the clipped one that is carried."""
    rule = sgdhess(BowlHessian(), fresh=0.5, largest_estimate=2.5)
    points, state = [(1.5, 4.0)], rule.init(jnp.asarray([1.5, 4.0]))
    for wanted in ([-1.5, -2.0], [0.75, -1.0], [-1.125, -0.5]):
        here = jnp.asarray(points[-1])
        direction, state, _ = rule.update(Bowl(*points[-1]), state, here)
        np.testing.assert_allclose(direction, wanted, rtol=1e-12)
        np.testing.assert_allclose(state.estimate, wanted, rtol=1e-12)
        points.append(tuple(here + direction))
    assert points == [(1.5, 4.0), (0.0, 2.0), (0.75, 1.0), (-0.375, 0.5)]


@pytest.mark.usefixtures("unchecked")
def test_weights_and_lengths_fall_with_the_number_of_updates() -> None:
    """α = 1, 1, 3/4 …: α₀ (t + 1)^−p with α₀ = 2.25, p = 1; lengths (t + 1)^−½."""
    rule = hessian_momentum(BowlHessian(), fresh=2.25, fresh_power=1.0, rate_power=0.5)
    places = [(1.5, 4.0), (3.0, 8.0), (3.0, 8.0)]
    directions, estimates = walk(rule, places)
    np.testing.assert_allclose(estimates, [[-3, -4], [-6, -8], [-6, -8]])
    np.testing.assert_allclose(directions, [[-0.6, -0.8], *([-0.6 / np.sqrt(t), -0.8 / np.sqrt(t)] for t in (2, 3))])
    moved = rule.init(jnp.zeros(2))._replace(updates=jnp.asarray(2), estimate=jnp.asarray([4.0, 0.0]))
    _, after, _ = rule.update(Bowl(1.5, 4.0), moved, jnp.asarray([1.5, 4.0]), Bowl(0.0, 0.0))
    np.testing.assert_allclose(after.estimate, [0.25 * (4 - 3) - 0.75 * 3, 0.25 * (0 - 4) - 0.75 * 4])


@pytest.mark.usefixtures("unchecked")
def test_the_cube_root_rule_worked_out_by_hand() -> None:
    """m = 2: Σ = 25 and then 25 + 37, so η = 27^−⅓ = ⅓ and 64^−⅓ = ¼; c = 3: α = 1, ⅓, 3/16."""
    adaptive = hessian_mbpg(BowlHessian(), offset=2.0, fresh_factor=3.0).adaptive
    state = adaptive.init(jnp.zeros(2))
    np.testing.assert_allclose(state.fresh, 1)
    direction, state, _ = adaptive.finish(jnp.asarray([3.0, 4.0]), jnp.asarray([6.0, 9.0]), state, jnp.ones(2))
    np.testing.assert_allclose(direction, [2, 3])
    np.testing.assert_allclose((state.squares, state.fresh), (25, 1 / 3))
    direction, state, _ = adaptive.finish(jnp.asarray([6.0, 1.0]), jnp.asarray([6.0, 8.0]), state, jnp.ones(2))
    np.testing.assert_allclose(direction, [1.5, 2])
    np.testing.assert_allclose((state.squares, state.fresh), (62, 3 / 16))
    np.testing.assert_allclose(state.recursion.estimate, [6, 8])
    assert int(state.recursion.updates) == 2


def followed(rule: Any, gradients: Any) -> np.ndarray:
    """The average after each of these gradients."""

    def update(state: Any, gradient: jax.Array) -> Any:
        average, drift, error = rule.follow(gradient, state)
        som = state.som._replace(updates=state.som.updates + 1, gradient=average)
        return state._replace(som=som, drift=drift, error=error), average

    gradients = jnp.asarray(gradients)
    return np.asarray(jax.lax.scan(update, rule.init(jnp.zeros(gradients.shape[1])), gradients)[1])


def test_adaptive_momentum_worked_out_by_hand() -> None:
    """φ = ½, β₁ = 0.9. Errors 4, −2, 2: E = 2, 0, 1 and M = 2, 2, 2, so α = 1, 0.1 and ½."""
    rule = adaptive_som(som(beta1=0.9), tracking=0.5)
    np.testing.assert_allclose(followed(rule, [[4.0], [8.0], [6.0], [9.8]])[:, 0], [4.0, 8.0, 7.8, 8.8])


def test_adaptive_momentum_is_long_in_noise_and_short_after_a_jump() -> None:
    """Against averages of one length: quieter than the short one at rest, sooner there than the long one."""
    generator, jump = np.random.default_rng(0), np.arange(400)[:, None] >= 300
    signal = 6.0 * jump * np.ones((1, 20)) / np.sqrt(20)
    gradients = signal + generator.normal(size=(400, 20)) / np.sqrt(20)
    found = {"adaptive": followed(adaptive_som(som(beta1=0.95), tracking=0.1), gradients)}
    for name, beta in (("short", 0.5), ("long", 0.95)):
        found[name] = np.zeros_like(gradients)
        for t, g in enumerate(gradients):
            found[name][t] = g if t == 0 else beta * found[name][t - 1] + (1 - beta) * g
    at_rest = {name: np.square(x - signal)[100:300].sum(axis=1).mean() for name, x in found.items()}
    moved = {name: np.square(x - signal)[302:312].sum(axis=1).mean() for name, x in found.items()}
    assert at_rest["adaptive"] < 0.7 * at_rest["short"]
    assert moved["adaptive"] < 0.25 * moved["long"]


# --- where the batches are played --------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [hessian_momentum(), hessian_aided(spread=2), hessian_mbpg()])
def test_points_are_uniform_on_the_way(two: Two, rule: Any) -> None:
    state = AdaptiveState(two.state, jnp.zeros(()), jnp.ones(())) if hasattr(rule, "adaptive") else two.state
    keys = jax.random.split(jax.random.key(0), 500)
    points = jax.vmap(lambda key: rule.points(state, two.new, key))(keys)
    assert len(points) == rule.batches
    step = flat(two.step)
    share = np.stack(
        [(flat(jax.tree.map(lambda leaf, i=i: leaf[i], points[-1])) - flat(two.old)) @ step for i in range(500)]
    ) / (step @ step)
    rebuilt = flat(two.old) + share[0] * step
    np.testing.assert_allclose(rebuilt, flat(jax.tree.map(lambda leaf: leaf[0], points[-1])), atol=1e-12)
    edges = np.quantile(share, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(edges, [0, 0.25, 0.5, 0.75, 1], atol=0.08)
    assert share.min() >= 0 and share.max() <= 1


def test_hapg_renews_where_it_stands(two: Two) -> None:
    due = two.state._replace(updates=jnp.asarray(10))
    for point in hessian_aided(period=5, spread=2).points(due, two.new, jax.random.key(0)):
        np.testing.assert_allclose(flat(point), flat(two.new), rtol=1e-12)


@pytest.mark.parametrize("make", [hessian_momentum, hessian_aided, sgdhess, hessian_mbpg])
def test_a_curvature_without_the_hessians_sign_is_refused(make: Any) -> None:
    with pytest.raises(InputError, match="curvature='fisher': never negative, so no estimate of ∇²J"):
        make("fisher")


@pytest.mark.usefixtures("unchecked")
def test_flags_are_flags() -> None:
    with pytest.raises(InputError, match="normalised='yes': accepted are True and False"):
        storm(normalised="yes")
