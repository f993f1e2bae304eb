"""Adaptive rules step by step against the same algorithms in NumPy: on a quadratic, Rosenbrock's and a small network.

The NumPy versions know nothing of JAX, of trees or of how roots are found here: they use `numpy.linalg` and matrices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import linear_sum_assignment

from pgsom.curvature import GaussNewtonBartlett, Hutchinson, SpatialAverage
from pgsom.curvature.averaged import average_blocks
from pgsom.methods import make_method
from pgsom.updates import scale_by_ggt, scale_by_shampoo, scale_by_soap, som, sophia
from tests.exact.oracle import quick_jit

pytestmark = pytest.mark.usefixtures("float64")
STEPS = 25
Arrays = list[np.ndarray]

# --- three problems on one set of parameters ---------------------------------------------------------------------

SHAPES = ((4, 3), (3, 2), (2,))
SIZE = 20


def start() -> Any:
    generator = np.random.default_rng(0)
    return tuple(jnp.asarray(0.5 * generator.normal(size=shape)) for shape in SHAPES)


def quadratic(params: Any) -> jax.Array:
    factor = np.random.default_rng(1).normal(size=(SIZE, SIZE))
    x = ravel_pytree(params)[0] - 0.3
    return 0.5 * x @ (factor @ factor.T / SIZE + 0.1 * np.eye(SIZE)) @ x


def rosenbrock(params: Any) -> jax.Array:
    x = ravel_pytree(params)[0]
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2) / 100


def network(params: Any) -> jax.Array:
    generator = np.random.default_rng(2)
    seen, wanted = generator.normal(size=(16, 4)), generator.normal(size=(16, 2))
    W, V, b = params
    return jnp.mean((jnp.tanh(seen @ W) @ V + b - wanted) ** 2)


PROBLEMS = (quadratic, rosenbrock, network)


def slope_and_bend(index: jax.Array, params: Any) -> Any:
    """Gradient and diagonal of the Hessian of a problem."""

    def of(problem: Callable[[Any], jax.Array]) -> Any:
        def both(params: Any) -> Any:
            flat, unravel = ravel_pytree(params)
            bend = jnp.diag(jax.hessian(lambda x: problem(unravel(x)))(flat))
            return jax.grad(problem)(params), unravel(bend)

        return both

    return jax.lax.switch(index, [of(problem) for problem in PROBLEMS], params)


slope_and_bend_alone = quick_jit(slope_and_bend)

# --- ours --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ours:
    """How to begin and to go on: ``move(gradient, bend, state, params) -> (step, state)``, both of what descends."""

    begin: Callable[[Any], Any]
    move: Callable[..., Any]


def of_transform(transform: optax.GradientTransformation, sign: float) -> Ours:
    """`sign` is −1 where the transform scales and does not descend by itself."""

    def move(gradient: Any, bend: Any, state: Any, params: Any) -> Any:
        updates, state = transform.update(gradient, state, params)
        return jax.tree.map(lambda u: sign * u, updates), state

    return Ours(transform.init, move)


def of_rule(rule: Any, block: int = 1) -> Ours:
    """A rule climbs −f, whose gradient and Hessian are those of f turned round."""

    def move(gradient: Any, bend: Any, state: Any, params: Any) -> Any:
        turned = [jax.tree.map(jnp.negative, tree) for tree in (gradient, average_blocks(bend, block))]
        return rule.precondition(*turned, state)

    return Ours(rule.init, move)


@partial(quick_jit, static_argnums=0)
def path_of(ours: Ours, index: jax.Array, rate: float) -> Any:
    """The parameters after every step."""

    def step(carry: Any, _: Any) -> Any:
        params, state = carry
        move, state = ours.move(*slope_and_bend(index, params), state, params)
        params = jax.tree.map(lambda p, m: p + rate * m, params, move)
        return (params, state), params

    params = start()
    return jax.lax.scan(step, (params, ours.begin(params)), None, length=STEPS)[1]


# --- theirs ------------------------------------------------------------------------------------------------------


def adabelief(gradients: Arrays, bends: Arrays, memory: dict[str, Any], t: int) -> Arrays:
    b1, b2, eps = 0.8, 0.95, 1e-8
    moves = []
    for i, g in enumerate(gradients):
        m = b1 * memory.get(("m", i), 0.0) + (1 - b1) * g
        s = b2 * memory.get(("s", i), 0.0) + (1 - b2) * (g - m) ** 2 + 1e-16
        memory["m", i], memory["s", i] = m, s
        moves.append(m / (1 - b1**t) / (np.sqrt(s / (1 - b2**t)) + eps))
    return moves


def rmsprop(gradients: Arrays, bends: Arrays, memory: dict[str, Any], t: int) -> Arrays:
    moves = []
    for i, g in enumerate(gradients):
        memory[i] = 0.8 * memory.get(i, 0.0) + 0.2 * g**2
        moves.append(g / np.sqrt(memory[i] + 1e-8))
    return moves


def adahessian(gradients: Arrays, bends: Arrays, memory: dict[str, Any], t: int) -> Arrays:
    """Blocks of two, Hessian power ½ (as in the published code: v^(k/2))."""
    b1, b2, k, eps = 0.9, 0.99, 0.5, 1e-3
    moves = []
    for i, (g, h) in enumerate(zip(gradients, bends, strict=True)):
        flat = h.ravel()
        means = [flat[j : j + 2].mean() for j in range(0, flat.size, 2)]
        h = np.array([means[j // 2] for j in range(flat.size)]).reshape(h.shape)
        m = memory["m", i] = b1 * memory.get(("m", i), 0.0) + (1 - b1) * g
        v = memory["v", i] = b2 * memory.get(("v", i), 0.0) + (1 - b2) * h * h
        moves.append(m / (1 - b1**t) / ((v / (1 - b2**t)) ** (k / 2) + eps))
    return moves


def sophia_every_third(gradients: Arrays, bends: Arrays, memory: dict[str, Any], t: int) -> Arrays:
    b1, b2, gamma, eps, rho = 0.9, 0.8, 0.5, 1e-6, 0.7
    moves = []
    for i, (g, h) in enumerate(zip(gradients, bends, strict=True)):
        m = memory["m", i] = b1 * memory.get(("m", i), 0.0) + (1 - b1) * g
        if t % 3 == 1:
            memory["h", i] = b2 * memory.get(("h", i), 0.0) + (1 - b2) * h
        moves.append(np.clip(m / np.maximum(gamma * memory["h", i], eps), -rho, rho))
    return moves


def root(matrix: np.ndarray, power: float, damping: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * (np.maximum(values, 0) + damping * values.max()) ** power) @ vectors.T


def shampoo(gradients: Arrays, bends: Arrays, memory: dict[str, Any], t: int, *, sums: bool, every: int) -> Arrays:
    b1, b2, damping = 0.8, 0.9, 1e-2
    moves = []
    for i, g in enumerate(gradients):
        left, right = (g @ g.T, g.T @ g) if g.ndim == 2 else (np.outer(g, g), None)
        for name, fresh in (("L", left), ("R", right)):
            if fresh is not None:
                old = memory.get((name, i), 0.0)
                memory[name, i] = old + fresh if sums else b2 * old + (1 - b2) * fresh
        m = memory["m", i] = b1 * memory.get(("m", i), 0.0) + (1 - b1) * g
        if (t - 1) % every == 0:
            scale = 1.0 if sums else 1 - b2**t
            power = -1 / 4 if g.ndim == 2 else -1 / 2
            memory["roots", i] = [root(memory[n, i] / scale, power, damping) for n in ("L", "R") if (n, i) in memory]
        roots, move = memory["roots", i], m / (1 - b1**t)
        moves.append(roots[0] @ move @ roots[1] if g.ndim == 2 else roots[0] @ move)
    return moves


def soap(gradients: Arrays, bends: Arrays, memory: dict[str, Any], t: int) -> Arrays:
    """Bases from `eigh`, put in the order of the last ones."""
    b1, b2, eps, every = 0.9, 0.8, 1e-6, 4
    moves = []
    for i, g in enumerate(gradients):
        turn = g.ndim == 2
        if turn:
            for name, fresh in (("L", g @ g.T), ("R", g.T @ g)):
                memory[name, i] = b2 * memory.get((name, i), 0.0) + (1 - b2) * fresh
                if (t - 1) % every == 0:
                    new = np.linalg.eigh(memory[name, i])[1]
                    old = memory.get(("Q" + name, i), np.eye(len(new)))
                    memory["Q" + name, i] = new[:, linear_sum_assignment(-np.abs(old.T @ new))[1]]
        left, right = (memory["QL", i], memory["QR", i]) if turn else (None, None)
        m = memory["m", i] = b1 * memory.get(("m", i), 0.0) + (1 - b1) * g
        rotated = left.T @ g @ right if turn else g
        v = memory["v", i] = b2 * memory.get(("v", i), 0.0) + (1 - b2) * rotated**2
        along = left.T @ m @ right if turn else m
        adam = along / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + eps)
        moves.append(left @ adam @ right.T if turn else adam)
    return moves


def ggt(gradients: Arrays, bends: Arrays, memory: dict[str, Any], t: int) -> Arrays:
    """The D × D root itself, from a window of four."""
    decay, damping = 0.7, 0.05
    g = np.concatenate([part.ravel() for part in gradients])
    memory["window"] = [g, *(decay * old for old in memory.get("window", []))][:4]
    G = np.stack(memory["window"], axis=1)
    values, vectors = np.linalg.eigh(G @ G.T)
    move = vectors @ ((vectors.T @ g) / (np.sqrt(np.maximum(values, 0)) + damping))
    ends = np.cumsum([part.size for part in gradients])[:-1]
    return [part.reshape(like.shape) for part, like in zip(np.split(move, ends), gradients, strict=True)]


def by_numpy(theirs: Any, index: int, rate: float) -> list[Arrays]:
    """The parameters after every step."""
    params, memory, path = [np.asarray(p) for p in start()], {}, []
    for t in range(1, STEPS + 1):
        gradients, bends = slope_and_bend_alone(jnp.asarray(index), tuple(jnp.asarray(p) for p in params))
        moves = theirs([np.asarray(g) for g in gradients], [np.asarray(h) for h in bends], memory, t)
        params = [p - rate * move for p, move in zip(params, moves, strict=True)]
        path.append(params)
    return path


# --- side by side ------------------------------------------------------------------------------------------------

RULES: dict[str, tuple[Ours, Any, float]] = {
    "adabelief": (of_transform(make_method("adabelief", b1=0.8, b2=0.95).rule.transform(), 1), adabelief, 0.02),
    "rmsprop": (of_transform(make_method("rmsprop", b2=0.8).rule.transform(), 1), rmsprop, 0.02),
    "adahessian": (
        of_rule(som(Hutchinson(), shape="rms", exponent=0.5, damping=1e-3, beta1=0.9, beta2=0.99), block=2),
        adahessian,
        0.1,
    ),
    "sophia": (
        of_rule(
            sophia("causal", gamma=0.5, eps=1e-6, trust_cap=0.7, beta1=0.9, beta2=0.8, refresh=3),
        ),
        sophia_every_third,
        0.05,
    ),
    "shampoo": (of_transform(scale_by_shampoo(0.8, 0.9, damping=1e-2), -1), partial(shampoo, sums=False, every=1), 0.1),
    "shampoo, sums, every third": (
        of_transform(scale_by_shampoo(0.8, 0.9, damping=1e-2, sums=True, refresh=3), -1),
        partial(shampoo, sums=True, every=3),
        0.1,
    ),
    "soap": (of_transform(scale_by_soap(0.9, 0.8, eps=1e-6, refresh=4), -1), soap, 0.02),
    "ggt": (of_transform(scale_by_ggt(0.7, damping=0.05, window=4), -1), ggt, 0.1),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_goes_the_way_of_its_algorithm_in_numpy(name: str) -> None:
    ours, theirs, rate = RULES[name]
    for index, problem in enumerate(PROBLEMS):
        found = path_of(ours, jnp.asarray(index), rate)
        expected = by_numpy(theirs, index, rate)
        for t, params in enumerate(expected):
            for mine, right in zip(found, params, strict=True):
                np.testing.assert_allclose(
                    mine[t], right, rtol=1e-6, atol=1e-7, err_msg=f"{problem.__name__}, step {t}"
                )
        last = tuple(leaf[-1] for leaf in found)
        assert problem(last) < problem(start()), f"{name} descends on {problem.__name__}"


def test_sophia_takes_a_curvature_that_is_positive_where_j_bends_down_as_it_is() -> None:
    """ĝ = 1, ĥ = 2: from the Gauss-Newton-Bartlett 1/(γ 2), from a Hessian (J bends up) the sign times the cap."""
    ones, twos = jnp.ones(3), 2 * jnp.ones(3)
    for curvature, expected in (("gauss-newton-bartlett", 0.25), ("causal", 0.9)):
        rule = sophia(curvature, gamma=2.0, trust_cap=0.9, beta1=0.0, beta2=0.0)
        direction, _ = rule.precondition(ones, twos, rule.init(ones))
        np.testing.assert_allclose(direction, expected)


def test_adahessian_probes_the_causal_hessian_once_and_averages_blocks() -> None:
    rule = make_method("adahessian", block=3).rule
    assert rule.curvature == SpatialAverage(Hutchinson(probes=1), 3) and rule.shape == "rms"
    assert make_method("sophia").rule.curvature == GaussNewtonBartlett(1)


def test_a_leaf_of_any_order_and_a_number_pass_through_shampoo_and_soap() -> None:
    """An array of order three has three preconditioners, with the power −1/6; a number is ±1 times its share."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2, 3, 2))
    gradients = {"cube": jnp.asarray(x), "number": jnp.asarray(-2.0), "empty": jnp.zeros((0, 3))}
    transform = scale_by_shampoo(0.0, 0.0, damping=1e-3)
    found, _ = quick_jit(transform.update)(gradients, transform.init(gradients))
    expected = x
    for axis in range(3):
        unfolded = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
        expected = np.moveaxis(np.tensordot(root(unfolded @ unfolded.T, -1 / 6, 1e-3), expected, (1, axis)), 0, axis)
    np.testing.assert_allclose(found["cube"], expected, rtol=1e-9)
    assert float(found["number"]) == pytest.approx(-1 / np.sqrt(1.001))
    rotated, _ = quick_jit(scale_by_soap(0.0, 0.0).update)(gradients, scale_by_soap(0.0, 0.0).init(gradients))
    assert rotated["cube"].shape == x.shape and float(rotated["number"]) == pytest.approx(-1.0)
