"""Action distributions against sums over all actions, numerical integrals and scipy, in float64."""

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from pgsom.checks import InputError
from pgsom.environments import Box, Discrete, MultiBinary, MultiDiscrete
from pgsom.policies import (
    Bernoulli,
    Beta,
    Bounds,
    Categorical,
    Distribution,
    Gaussian,
    MultiCategorical,
    TanhGaussian,
    head_for,
)
from tests.exact.oracle import quick_jit

pytestmark = pytest.mark.usefixtures("float64")

BOX = Bounds((-2.0, 0.5), (1.0, 0.75), (2,))
DISCRETE: dict[str, tuple[Distribution, int, list[Any]]] = {
    "categorical": (Categorical(), 4, list(range(4))),
    "categorical of two": (Categorical(), 2, [0, 1]),
    "multi-categorical": (MultiCategorical((3, 2, 4)), 9, list(itertools.product(range(3), range(2), range(4)))),
    "bernoulli": (Bernoulli(), 3, list(itertools.product(range(2), repeat=3))),
}
CONTINUOUS: dict[str, Distribution] = {"gaussian": Gaussian(BOX), "tanh-gaussian": TanhGaussian(BOX), "beta": Beta(BOX)}
ALL = {name: (head, size) for name, (head, size, _) in DISCRETE.items()} | {
    name: (head, 4) for name, head in CONTINUOUS.items()
}


def outputs_for(size: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=size) * 0.8)


def one_entry(name: str) -> Distribution:
    """Of the first entry of the box alone."""
    return type(CONTINUOUS[name])(Bounds(BOX.low[:1], BOX.high[:1], (1,)))


class Line(NamedTuple):
    """What a distribution of one number says along its whole range: action, density there, and da/dx of the draw."""

    x: np.ndarray
    weight: np.ndarray
    """Quadrature weights in x, times the density of x."""


def line(name: str, outputs: jax.Array) -> Line:
    """Gauss-Legendre nodes over (almost) all of the mass of the number drawn."""
    u = np.asarray(outputs)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    if name == "beta":
        # y = (1 + sin(πt/2))/2 takes the powers of the ends away.
        y = (1 + np.sin(np.pi / 2 * nodes)) / 2
        return Line(y, weights * np.pi / 4 * np.cos(np.pi / 2 * nodes) * reference(name, u).pdf(y))
    reach = 12 * math.exp(u[1])
    x = u[0] + reach * nodes
    return Line(x, weights * reach * reference(name, u).pdf(x))


def reference(name: str, u: np.ndarray) -> Any:
    """scipy's distribution of the number drawn."""
    if name == "beta":
        return scipy.stats.beta(*(1 + np.log1p(np.exp(u))))
    return scipy.stats.norm(u[0], np.exp(u[1]))


def executed(name: str, x: np.ndarray) -> np.ndarray:
    """The action, by hand, before any clipping."""
    low, high = BOX.low[0], BOX.high[0]
    image = {"gaussian": x, "tanh-gaussian": np.tanh(x), "beta": 2 * x - 1}[name]
    return (low + high) / 2 + (high - low) / 2 * image


# --- finite: every action ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DISCRETE)
def test_finite_distributions_are_sums_over_all_actions(name: str) -> None:
    """Probabilities sum to 1; entropy, KL and Fisher matrix are their definitions, the mode is the most probable."""
    head, size, actions = DISCRETE[name]
    u, v, listed = outputs_for(size), outputs_for(size, 1), jnp.asarray(actions)

    @quick_jit
    def measure(u: jax.Array, v: jax.Array) -> Any:
        log_prob = jax.vmap(head.log_prob, (None, 0))
        scores = jax.jacfwd(lambda x: log_prob(x, listed))(u)
        return log_prob(u, listed), log_prob(v, listed), scores, head.entropy(u), head.kl(u, v), head.fisher_factor(u)

    log_p, log_q, scores, entropy, kl, factor = map(np.asarray, measure(u, v))
    p = np.exp(log_p)
    assert p.sum() == pytest.approx(1, rel=1e-12)
    assert entropy == pytest.approx(-np.sum(p * log_p), rel=1e-12)
    assert kl == pytest.approx(np.sum(p * (log_p - log_q)), rel=1e-10)
    np.testing.assert_allclose(factor @ factor.T, np.einsum("a,ai,aj->ij", p, scores, scores), atol=1e-12)
    np.testing.assert_array_equal(head.mode(u), actions[int(np.argmax(p))])
    np.testing.assert_array_equal(head.executed(listed[1]), actions[1])


@pytest.mark.parametrize("name", DISCRETE)
def test_finite_draws_have_their_probabilities(name: str) -> None:
    """χ² of 20,000 draws at a fixed key."""
    head, size, actions = DISCRETE[name]
    u, draws = outputs_for(size), 20_000
    drawn = np.asarray(jax.jit(jax.vmap(head.sample, (0, None)))(jax.random.split(jax.random.key(0), draws), u))
    drawn = drawn.reshape(draws, -1)
    counts = [int(np.all(drawn == np.ravel(action), axis=1).sum()) for action in actions]
    p = np.exp(jax.vmap(head.log_prob, (None, 0))(u, jnp.asarray(actions)))
    assert sum(counts) == draws and scipy.stats.chisquare(counts, draws * p / p.sum()).pvalue > 1e-3


# --- continuous: scipy and integrals -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_log_probability_is_that_of_the_action_taken(name: str) -> None:
    """The density of the image, by the derivative of the map from the number drawn; it integrates to 1 over actions."""
    head, u = one_entry(name), outputs_for(2)
    x = line(name, u).x
    ends = executed(name, x + 1e-6), executed(name, x - 1e-6)
    slope = (ends[0] - ends[1]) / 2e-6
    log_prob = np.asarray(jax.vmap(head.log_prob, (None, 0))(u, jnp.asarray(x)[:, None]))
    expected = reference(name, np.asarray(u)).logpdf(x) - np.log(slope)
    inside = slope > 1e-3
    np.testing.assert_allclose(log_prob[inside], expected[inside], atol=1e-5, rtol=1e-7)
    total = scipy.integrate.trapezoid(np.exp(log_prob), executed(name, x))
    assert total == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_entropy_kl_and_fisher_matrix_are_integrals(name: str, seed: int) -> None:
    head, u, v = one_entry(name), outputs_for(2, seed), outputs_for(2, seed + 10)
    x, weight = line(name, u)

    @quick_jit
    def measure(u: jax.Array, v: jax.Array, x: jax.Array) -> Any:
        def along(outputs: jax.Array) -> jax.Array:
            return jax.vmap(head.log_prob, (None, 0))(outputs, x[:, None])

        return along(u), along(v), jax.jacfwd(along)(u), head.entropy(u), head.kl(u, v), head.fisher_factor(u)

    log_p, log_q, scores, entropy, kl, factor = map(np.asarray, measure(u, v, jnp.asarray(x)))
    assert weight.sum() == pytest.approx(1, rel=1e-8)
    assert entropy == pytest.approx(-np.sum(weight * log_p), rel=1e-7, abs=1e-7)
    assert kl == pytest.approx(np.sum(weight * (log_p - log_q)), rel=1e-8)
    np.testing.assert_allclose(factor @ factor.T, np.einsum("n,ni,nj->ij", weight, scores, scores), atol=1e-9)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_entries_are_independent_of_each_other(name: str) -> None:
    """Two entries with bounds of their own: log-probability, entropy and KL are sums, the Fisher matrix has blocks."""
    head, u, v = CONTINUOUS[name], outputs_for(4), outputs_for(4, 1)
    parts = [type(head)(Bounds(BOX.low[i : i + 1], BOX.high[i : i + 1], (1,))) for i in range(2)]
    x = jnp.asarray([0.3, 0.6])
    for whole, each in (
        (head.log_prob(u, x), [part.log_prob(u[i::2], x[i : i + 1]) for i, part in enumerate(parts)]),
        (head.entropy(u), [part.entropy(u[i::2]) for i, part in enumerate(parts)]),
        (head.kl(u, v), [part.kl(u[i::2], v[i::2]) for i, part in enumerate(parts)]),
    ):
        assert float(whole) == pytest.approx(float(sum(each)), rel=1e-12)
    fisher = np.asarray(head.fisher_factor(u) @ head.fisher_factor(u).T)
    for i, part in enumerate(parts):
        block = np.asarray(part.fisher_factor(u[i::2]))
        np.testing.assert_allclose(fisher[i::2, i::2], block @ block.T, atol=1e-12)
    np.testing.assert_allclose(fisher[0::2, 1::2], 0, atol=1e-15)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_draws_have_the_distribution_and_stay_within_the_bounds(name: str) -> None:
    """Kolmogorov and Smirnov on 5,000 draws at a fixed key; what the environment is given never leaves the box."""
    head, u = CONTINUOUS[name], outputs_for(4)
    drawn = jax.jit(jax.vmap(head.sample, (0, None)))(jax.random.split(jax.random.key(1), 5_000), u)
    for i in range(2):
        expected = reference(name, np.asarray(u)[i::2])
        assert scipy.stats.kstest(np.asarray(drawn)[:, i], expected.cdf).pvalue > 1e-3
    given = np.asarray(jax.vmap(head.executed)(drawn))
    assert np.all(given >= np.asarray(BOX.low)) and np.all(given <= np.asarray(BOX.high))
    clipped = np.clip(executed(name, np.asarray(drawn)[:, 0]), BOX.low[0], BOX.high[0])
    np.testing.assert_allclose(given[:, 0], clipped, atol=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_modes(name: str) -> None:
    """The largest density of the number drawn; for tanh the image of the Gaussian's, as documented."""
    head, u = one_entry(name), outputs_for(2)
    x = line(name, u).x
    best = x[int(np.argmax(reference(name, np.asarray(u)).pdf(x)))]
    assert float(head.mode(u)[0]) == pytest.approx(best, abs=0.1)


def test_a_squashed_action_on_the_bound_has_a_finite_exact_log_probability() -> None:
    """In float32, where tanh(20) is 1 and atanh(1) infinite; ln(1 − tanh² 20) = 2 ln 2 − 40 up to e⁻⁴⁰."""
    head, u = one_entry("tanh-gaussian"), jnp.asarray([19.0, 0.0], jnp.float32)
    x = jnp.asarray([20.0], jnp.float32)
    assert float(head.executed(x)[0]) == BOX.high[0]
    expected = scipy.stats.norm(19, 1).logpdf(20) - math.log(1.5) - (2 * math.log(2) - 40)
    assert float(head.log_prob(u, x)) == pytest.approx(expected, rel=1e-6)
    assert np.all(np.isfinite(jax.grad(head.log_prob)(u, x)))


def test_the_squashed_entropy_keeps_its_promise_for_wide_gaussians() -> None:
    for log_std, tolerance in ((math.log(2), 1e-8), (math.log(4), 1e-4)):
        u = np.asarray([0.4, log_std])
        x, weight = line("tanh-gaussian", jnp.asarray(u))
        head = one_entry("tanh-gaussian")
        expected = -np.sum(weight * np.asarray(jax.vmap(head.log_prob, (None, 0))(jnp.asarray(u), x[:, None])))
        assert float(head.entropy(jnp.asarray(u))) == pytest.approx(expected, abs=tolerance)


# --- derivatives -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_curvature_of_the_log_probability_is_its_hessian(name: str) -> None:
    """S diag(σ) Sᵀ against `jax.hessian`, for several actions; and the KL's Hessian is the Fisher matrix."""
    head, size = ALL[name]
    u = outputs_for(size, 3)
    drawn = jax.vmap(head.sample, (0, None))(jax.random.split(jax.random.key(2), 5), u)

    @quick_jit
    def measure(u: jax.Array, action: jax.Array) -> Any:
        columns, signs = head.log_prob_curvature(u, action)
        return (columns * signs) @ columns.T, jax.hessian(head.log_prob)(u, action)

    for action in drawn:
        found, expected = measure(u, action)
        np.testing.assert_allclose(found, expected, atol=1e-10)
    bend = quick_jit(jax.hessian(lambda other: head.kl(u, other)))(u)
    factor = head.fisher_factor(u)
    np.testing.assert_allclose(factor @ factor.T, bend, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_the_entropy_can_be_differentiated(name: str) -> None:
    head, size = ALL[name]
    u, v = outputs_for(size), outputs_for(size, 5)
    slope = float(jnp.vdot(jax.grad(head.entropy)(u), v))
    difference = float(head.entropy(u + 1e-5 * v) - head.entropy(u - 1e-5 * v)) / 2e-5
    assert slope == pytest.approx(difference, rel=1e-6)


# --- which suits an action space ---------------------------------------------------------------------------------


def test_an_action_space_gets_its_distribution() -> None:
    assert head_for(Discrete(3)) == (Categorical(), 3, 0)
    assert head_for(MultiDiscrete((3, 2))) == (MultiCategorical((3, 2)), 5, 0)
    assert head_for(MultiBinary(4)) == (Bernoulli(), 4, 0)
    box = Box((2,), (-2.0, 0.5), (1.0, 0.75))
    assert head_for(box) == (Gaussian(BOX), 4, 2)
    assert head_for(box, "tanh-gaussian") == (TanhGaussian(BOX), 4, 2)
    assert head_for(box, "beta") == (Beta(BOX), 4, 0)


def test_what_has_no_bounds_is_not_squashed_into_them() -> None:
    free = Box((2,), (-math.inf, 0.0), (1.0, 1.0))
    assert Gaussian(head_for(free).distribution.bounds).executed(jnp.asarray([-50.0, -3.0])).tolist() == [-50.0, 0.0]
    for actions in ("tanh-gaussian", "beta"):
        with pytest.raises(InputError, match=f"actions='{actions}': not every action is bounded .* gaussian"):
            head_for(free, actions)
    with pytest.raises(InputError, match=r"actions='gausian': .*; did you mean 'gaussian'"):
        head_for(free, "gausian")
