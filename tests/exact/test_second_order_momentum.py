"""Algorithm 1: against numbers worked out by hand, at a maximum, and as an optax transform."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from pgsom.environments import FiniteMDP, random_mdp, three_state, two_armed_bandit
from pgsom.methods import Common, assemble, pg_som
from pgsom.objective import LocalObjective
from pgsom.policies import MLP, Policy, policy_from_functions
from pgsom.updates import (
    Ascent,
    Clipping,
    UpdateRule,
    clip_elements,
    clip_norm,
    followed_by,
    from_optax,
    scale_by_som,
    som,
)
from tests.exact.oracle import STATES, estimates, flat, objective_of, quick_jit, random_params, tabular, truth

pytestmark = pytest.mark.usefixtures("float64")
TINY = 1e-10

# --- three steps by hand -----------------------------------------------------------------------------------------
#
# β₁ = 1/2, β₂ = 3/4            step 1      step 2      step 3
# ĝ                              1           3          −1
# ĥ                             −2           4           1
# g ← g/2 + ĝ/2                 1/2         7/4         3/8
# h ← 3h/4 + ĥ/4               −1/2         5/8        23/32
# h of ĥ² (rms)                  1         19/4        61/16
# 1 − β₁^{t+1}                  1/2         3/4         7/8
# 1 − β₂^{t+1}                  1/4         7/16       37/64
# ḡ                              1          7/3         3/7
# h̄                             −2         10/7        46/37
# h̄ of ĥ² (rms)                  4         76/7       244/37

GRADIENT, CURVATURE = (1.0, 3.0, -1.0), (-2.0, 4.0, 1.0)
TABLE: dict[str, tuple[dict[str, Any], tuple[float, float, float]]] = {
    "raw": ({"shape": "raw"}, (-1 / 2, 49 / 30, 111 / 322)),
    "raw, damped away from zero": ({"shape": "raw", "damping": 1.0}, (-1 / 3, 49 / 51, 111 / 581)),
    "raw, capped": ({"shape": "raw", "trust_cap": 0.4}, (-0.4, 0.4, 111 / 322)),
    "raw, square root": ({"shape": "raw", "exponent": 0.5}, (-1 / 2**0.5, 49 / 3 / 70**0.5, 3 / 7 * (37 / 46) ** 0.5)),
    "absolute": ({}, (1 / 2, 49 / 30, 111 / 322)),
    "absolute, damped": ({"damping": 1.0}, (1 / 3, 49 / 51, 111 / 581)),
    "absolute, capped": ({"trust_cap": 1.0}, (1 / 2, 1.0, 111 / 322)),
    "absolute, square root": ({"exponent": 0.5}, (1 / 2**0.5, 49 / 3 / 70**0.5, 3 / 7 * (37 / 46) ** 0.5)),
    "absolute, power 0: momentum": ({"exponent": 0.0}, (1.0, 7 / 3, 3 / 7)),
    "absolute, uncorrected": ({"bias_correction": False}, (1.0, 14 / 5, 12 / 23)),
    "negative part": ({"shape": "negative_part", "damping": 1.0}, (1 / 3, 7 / 3, 3 / 7)),
    "negative part, capped": ({"shape": "negative_part", "damping": 1.0, "trust_cap": 2.0}, (1 / 3, 2.0, 3 / 7)),
    "rms": ({"shape": "rms"}, (1 / 2, 7 / 3 / (76 / 7) ** 0.5, 3 / 7 / (244 / 37) ** 0.5)),
    "rms, damped": (
        {"shape": "rms", "damping": 1.0},
        (1 / 3, 7 / (3 + 3 * (76 / 7) ** 0.5), 3 / (7 + 7 * (244 / 37) ** 0.5)),
    ),
    "rms, uncorrected": ({"shape": "rms", "bias_correction": False}, (1 / 2, 7 / 4 / 4.75**0.5, 3 / 8 * 4 / 61**0.5)),
    "no memory": ({"beta1": 0.0, "beta2": 0.0}, (1 / 2, 3 / 4, -1.0)),
}


@pytest.mark.parametrize(("options", "expected"), TABLE.values(), ids=TABLE)
def test_three_steps_of_algorithm_1_are_those_worked_out_by_hand(options: dict[str, Any], expected: Any) -> None:
    rule = som("causal", **({"beta1": 0.5, "beta2": 0.75, "damping": 0.0} | options))
    state = rule.init(jnp.zeros(()))
    for gradient, curvature, direction in zip(GRADIENT, CURVATURE, expected, strict=True):
        found, state = rule.precondition(jnp.asarray(gradient), jnp.asarray(curvature), state)
        assert float(found) == pytest.approx(direction, rel=1e-12)


def test_the_moments_themselves_are_those_worked_out_by_hand() -> None:
    for shape, expected in (("absolute", (-1 / 2, 5 / 8, 23 / 32)), ("rms", (1.0, 19 / 4, 61 / 16))):
        rule = som("causal", beta1=0.5, beta2=0.75, shape=shape)
        state = rule.init(jnp.zeros(()))
        for gradient, curvature, g, h in zip(GRADIENT, CURVATURE, (1 / 2, 7 / 4, 3 / 8), expected, strict=True):
            _, state = rule.precondition(jnp.asarray(gradient), jnp.asarray(curvature), state)
            assert (float(state.gradient), float(state.curvature)) == (g, h)


def test_one_update_preconditions_the_estimated_gradient_with_the_estimated_diagonal() -> None:
    mdp, policy = three_state(), tabular()
    params = random_params(policy)
    objective = objective_of(mdp, policy, params, (6, 3888))
    exact = truth(mdp, policy, params)
    rule = som("causal", damping=0.3, beta1=0.9, beta2=0.5)
    direction, _, info = quick_jit(rule.update)(objective, rule.init(params), params)
    expected = exact.gradient / (np.abs(np.diag(exact.hessian)) + 0.3)
    np.testing.assert_allclose(flat(direction), expected, atol=TINY)
    assert float(info.gradient_norm) == pytest.approx(np.linalg.norm(exact.gradient))
    assert float(info.direction_norm) == pytest.approx(np.linalg.norm(expected))
    cosine = expected @ exact.gradient / np.linalg.norm(expected) / np.linalg.norm(exact.gradient)
    assert float(info.alignment) == pytest.approx(cosine)
    assert float(info.negative_curvature) == pytest.approx(np.mean(estimates(objective)["causal diagonal"] < 0))


# --- at a maximum ------------------------------------------------------------------------------------------------


LOGISTIC = policy_from_functions(lambda key: jnp.zeros(()), lambda theta, state: jnp.stack([theta, 0 * theta]))
"""π(0) = σ(θ) in every state: one parameter."""


def first_left_then_right() -> FiniteMDP:
    """Action 0 and then action 1 earn 1, all else 0: with one logit for both, J = σ(1 − σ) has its maximum at θ = 0."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1
    transition[1:, :, 2] = 1
    return FiniteMDP(transition, [[0, 0], [0, 1], [0, 0]], [1, 0, 0], 1.0, 2)


def path(mdp: FiniteMDP, rule: UpdateRule, theta: float, steps: int, rate: float) -> list[float]:
    """θ after each update of the rule, estimates being exact expectations."""
    points = [theta]
    state = rule.init(jnp.zeros(()))
    update = quick_jit(rule.update)
    for _ in range(steps):
        params = jnp.asarray(points[-1])
        objective = objective_of(mdp, LOGISTIC, params, (2, 8))
        direction, state, _ = update(objective, state, params)
        points.append(points[-1] + rate * float(direction))
    return points


def sigmoid(theta: float) -> float:
    return 1 / (1 + math.exp(-theta))


def test_the_curvature_of_the_bandit_changes_sign() -> None:
    """J = σ(θ): J″ = σ(1 − σ)(1 − 2σ), positive left of 0 and negative right of it, estimated so by both forms."""
    for theta in (-1.5, -0.1, 0.0, 0.1, 1.5):
        s = sigmoid(theta)
        found = estimates(objective_of(two_armed_bandit(), LOGISTIC, jnp.asarray(theta), (2, 8)), ("lemma", "causal"))
        for name in ("lemma diagonal", "causal diagonal"):
            assert found[name][0] == pytest.approx(s * (1 - s) * (1 - 2 * s), abs=TINY)
            assert np.sign(np.round(found[name][0], 12)) == -np.sign(theta)


AS_PRINTED = {"curvature": "lemma", "shape": "raw", "damping": 0.0}
GUARDED: dict[str, dict[str, Any]] = {
    "absolute": {"curvature": "lemma", "shape": "absolute", "damping": 0.05},
    "negative part": {"curvature": "causal", "shape": "negative_part", "damping": 0.05},
    "rms": {"curvature": "causal", "shape": "rms", "damping": 0.05},
    "gauss-newton": {"curvature": "gauss-newton", "damping": 0.05},
    "fisher": {"curvature": "fisher", "damping": 0.05},
}


def test_as_printed_it_walks_away_from_a_maximum() -> None:
    """J = σ(1 − σ) from θ = ±0.1: every step, of exact expectations, leads further from the maximum at 0."""
    for start in (0.1, -0.1):
        points = np.abs(path(first_left_then_right(), som(**AS_PRINTED, beta1=0, beta2=0), start, 20, 0.1))
        assert np.all(np.diff(points) > 0) and points[-1] > 0.5


def test_as_printed_with_momentum_it_walks_away_too() -> None:
    points = np.abs(path(first_left_then_right(), som(**AS_PRINTED), 0.1, 20, 0.1))
    assert np.all(np.diff(points) > 0) and points[-1] > 0.4


@pytest.mark.parametrize("options", GUARDED.values(), ids=GUARDED)
def test_guarded_it_walks_to_the_maximum(options: dict[str, Any]) -> None:
    points = path(first_left_then_right(), som(**options, beta1=0, beta2=0), 0.8, 40, 0.3)
    assert np.all(np.diff(np.abs(points)) < 0) and abs(points[-1]) < 0.05


def test_on_the_bandit_as_printed_walks_down_where_the_guarded_form_walks_up() -> None:
    """Right of 0 the curvature is negative and the best arm at +∞: as printed, J falls at every step."""
    down = path(two_armed_bandit(), som(**AS_PRINTED, beta1=0, beta2=0), 2.0, 10, 0.1)
    up = path(two_armed_bandit(), som(**GUARDED["absolute"], beta1=0, beta2=0), 2.0, 10, 0.1)
    assert np.all(np.diff(down) < 0) and np.all(np.diff(up) > 0)


def test_as_printed_the_step_explodes_where_the_curvature_crosses_zero() -> None:
    near = path(two_armed_bandit(), som(**AS_PRINTED, beta1=0, beta2=0), 1e-6, 1, 1.0)
    assert abs(near[1] - near[0]) > 1e5


# --- as an optax transform ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["raw", "absolute", "negative_part", "rms"])
def test_scale_by_som_is_the_rule_mirrored(shape: Any) -> None:
    """Descent on the loss −J: gradient and curvature change sign on the way in, the direction on the way out."""
    options = {"shape": shape, "damping": 0.7, "trust_cap": 1.5, "exponent": 0.8}
    rule, transform = som("causal", beta1=0.5, beta2=0.75, **options), scale_by_som(0.5, 0.75, **options)
    params = {"a": jnp.zeros(3), "b": jnp.zeros(())}
    state, mirrored = rule.init(params), transform.init(params)
    generator = np.random.default_rng(0)
    for _ in range(3):
        g, h = (jax.tree.map(lambda leaf: jnp.asarray(generator.normal(size=leaf.shape)), params) for _ in range(2))
        direction, state = rule.precondition(g, h, state)
        minus_g, minus_h = (jax.tree.map(jnp.negative, tree) for tree in (g, h))
        updates, mirrored = transform.update(minus_g, mirrored, params, hessian_diagonal=minus_h)
        np.testing.assert_allclose(flat(updates), -flat(direction), rtol=1e-12)


def test_scale_by_som_minimises_a_quadratic_in_an_optax_loop() -> None:
    """Curvatures from 1 to 10⁴ and one step size: each coordinate shrinks at the same rate."""
    curvature = jnp.asarray([1.0, 1e2, 1e4])
    transform = optax.chain(scale_by_som(0.0, 0.9), optax.scale_by_learning_rate(0.3))
    x = jnp.asarray([1.0, -1.0, 1.0])
    state = transform.init(x)
    for _ in range(30):
        updates, state = transform.update(curvature * x, state, x, hessian_diagonal=curvature)
        x = optax.apply_updates(x, updates)
    np.testing.assert_allclose(np.abs(x), 0.7**30, rtol=1e-6)


# --- step length, clipping, optax, order -------------------------------------------------------------------------


def small_objective(policy: Policy | None = None) -> tuple[LocalObjective, Any]:
    policy = policy or tabular()
    params = random_params(policy)
    return objective_of(random_mdp(np.random.default_rng(1), 3, 2, 2, 0.9), policy, params, (2, 108)), params


@pytest.mark.parametrize("radius", [0.01, 0.5])
def test_a_step_of_kl_length_has_half_d_fisher_d_equal_to_the_radius(radius: float) -> None:
    policy = Policy(MLP(STATES, 2, (3,), one_hot=True))
    objective, params = small_objective(policy)
    rule = som("gauss-newton", damping=0.1, step_length="kl", kl_radius=radius)
    plain = som("gauss-newton", damping=0.1)
    (d, _, _), (unscaled, _, _) = (quick_jit(r.update)(objective, r.init(params), params) for r in (rule, plain))
    fisher = estimates(objective)["fisher"] / float(objective.step_weight.sum())
    assert 0.5 * flat(d) @ fisher @ flat(d) == pytest.approx(radius, abs=TINY)
    cosine = flat(d) @ flat(unscaled) / np.linalg.norm(flat(d)) / np.linalg.norm(flat(unscaled))
    assert cosine == pytest.approx(1, abs=1e-12), "the direction itself is kept"


def test_norm_and_elements_are_clipped_by_two_different_functions() -> None:
    """(3, 4) to 1: by norm (0.6, 0.8), by elements (1, 1)."""
    vector = {"a": jnp.asarray([3.0]), "b": jnp.asarray([4.0])}
    np.testing.assert_allclose(flat(clip_norm(vector, 1.0)), [0.6, 0.8])
    np.testing.assert_allclose(flat(clip_elements(vector, 1.0)), [1.0, 1.0])
    np.testing.assert_allclose(flat(clip_elements(jax.tree.map(jnp.negative, vector), 3.5)), [-3.0, -3.5])
    np.testing.assert_allclose(flat(Clipping(norm=1.0, elements=math.inf)(vector)), [0.6, 0.8])
    np.testing.assert_allclose(flat(Clipping(norm=math.inf, elements=1.0)(vector)), [1.0, 1.0])
    np.testing.assert_allclose(flat(Clipping(norm=1.0, elements=3.0)(vector)), [0.5**0.5] * 2)
    np.testing.assert_array_equal(flat(Clipping(norm=math.inf, elements=math.inf)(vector)), [3.0, 4.0])


def test_clipping_leaves_what_is_short_enough_as_it_is_and_zero_at_zero() -> None:
    vector = jnp.asarray([3.0, 4.0])
    np.testing.assert_array_equal(clip_norm(vector, 5.0), vector)
    np.testing.assert_array_equal(clip_norm(jnp.zeros(2), 5.0), 0)


def test_a_lifted_optimiser_is_optax_run_by_hand() -> None:
    """Three updates of Adam, given −ĝ since it descends."""
    objective, params = small_objective()
    rule, transform = from_optax(optax.adam, learning_rate=0.1, b1=0.8), optax.adam(0.1, b1=0.8)
    gradient = jax.tree.map(jnp.negative, objective.gradient())
    state, expected_state = rule.init(params), transform.init(params)
    for _ in range(3):
        direction, state, _ = rule.update(objective, state, params)
        expected, expected_state = transform.update(gradient, expected_state, params)
        np.testing.assert_allclose(flat(direction), flat(expected), rtol=1e-12)
        assert flat(direction) @ flat(gradient) < 0, "it climbs"


def test_what_follows_a_rule_acts_in_the_order_written() -> None:
    objective, params = small_objective()
    clip, double = from_optax(optax.clip_by_global_norm, max_norm=0.01), from_optax(optax.scale, step_size=2.0)
    rules = (followed_by(Ascent(), clip, double), followed_by(Ascent(), double, clip))
    lengths = [np.linalg.norm(flat(rule.update(objective, rule.init(params), params)[0])) for rule in rules]
    np.testing.assert_allclose(lengths, [0.02, 0.01])


def test_methods_pass_their_options_on() -> None:
    """What `pg_som` is given is what its rule has."""
    method = pg_som(0.3, shape="rms", exponent=0.5, damping=0.2, beta1=0.1, beta2=0.2, trust_cap=3.0, kl_radius=0.7)
    rule: Any = method.rule
    found = (rule.shape, rule.exponent, rule.damping, rule.beta1, rule.beta2, rule.trust_cap, rule.kl_radius)
    assert found == ("rms", 0.5, 0.2, 0.1, 0.2, 3.0, 0.7) and method.learning_rate == 0.3
    common = Common(clip_norm=2.0, clip_elements=5.0, entropy=0.1, batch=3, discount=0.5)
    made = assemble("mine", Ascent(), 0.1, common)
    assert (made.clipping.norm, made.clipping.elements, made.weighting.entropy) == (2.0, 5.0, 0.1)
    assert (made.plan.environments, made.weighting.discount) == (3, 0.5)
