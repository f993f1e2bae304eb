"""The claims about cost and use, C6, C7 and C16, measured here and now."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from pgsom.environments import make
from pgsom.experiments.printed import ALGORITHM_1_NEEDS, WALL_CLOCK
from pgsom.experiments.theory_claims import over_seeds
from pgsom.experiments.verdicts import (
    ROUGHLY,
    Claim,
    Finding,
    at_most,
    conclude,
    denied,
    exactly,
)
from pgsom.methods import make_method
from pgsom.policies import make_policy
from pgsom.training import init_program, seed_keys, train_program
from pgsom.updates import som
from pgsom.updates.som import Shape, scale_by_som

PAPER = "the paper's own numbers"
SIZES = (4, 64, 1_024, 32_768, 1_000_000)
MOST_STATE = 3.0
NETWORKS: dict[str, tuple[int, ...]] = {"linear": (), "64-64": (64, 64)}
CURVATURES = {"lemma": "Lemma 1, exact", "hutchinson": "one random probe", "gauss-newton": "Gauss-Newton"}
ROUNDS, UPDATES = 9, 40
LOOP_STEPS = 200
SETTINGS: dict[str, Any] = {"rounds": ROUNDS, "updates": UPDATES, "networks": list(NETWORKS), "sizes": list(SIZES)}


def measure_memory() -> dict[str, float]:
    """Bytes of Algorithm 1's state over those of the parameters, by their number D."""
    found = {}
    for size in SIZES:
        params = jax.ShapeDtypeStruct((size,), jnp.float32)
        state = jax.eval_shape(som("lemma").init, params)
        found[str(size)] = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)) / (4 * size)
    return found


def measure_time() -> dict[str, dict[str, list[float]]]:
    """Seconds of an update with a curvature over those of one without, by network and curvature, round by round.

    Whole updates, playing included. The learning rate is next to nothing, so both sides play the same episodes; they
    take turns.
    """
    return {name: _ratios(hidden) for name, hidden in NETWORKS.items()}


def _ratios(hidden: tuple[int, ...]) -> dict[str, list[float]]:
    plain = _timer("reinforce", hidden)
    timers = {
        curvature: _timer("hessian-pg", hidden, curvature=curvature, shape="absolute") for curvature in CURVATURES
    }
    ratios: dict[str, list[float]] = {curvature: [] for curvature in CURVATURES}
    for _ in range(ROUNDS):
        for curvature, timer in timers.items():
            before, own, after = plain(), timer(), plain()
            ratios[curvature].append(2 * own / (before + after))
    return ratios


def _timer(method: str, hidden: tuple[int, ...], **options: Any) -> Callable[[], float]:
    """The seconds that some updates take, compiled and warm."""
    environment = make("CartPole-v1")
    policy = make_policy("mlp" if hidden else "linear", environment, hidden=hidden, activation="tanh")
    made = jax.tree.map(jnp.asarray, make_method(method, learning_rate=1e-12, **options))
    state = init_program(environment, policy, made, seed_keys(0, 4))

    def run() -> float:
        started = time.perf_counter()
        jax.block_until_ready(train_program(environment, policy, made, state, jnp.asarray(UPDATES), capacity=UPDATES))
        return time.perf_counter() - started

    run()
    return run


def measure_drop_in() -> dict[str, float]:
    """Last loss over first of a logistic regression in a plain optax loop, by shape; nothing of it is ours."""
    return {shape: _loop(shape) for shape in ("absolute", "raw")}


def _loop(shape: Shape) -> float:
    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.normal(size=(200, 5)) * [1, 3, 0.3, 1, 2], jnp.float32)
    y = jnp.asarray(generator.uniform(size=200) < 1 / (1 + np.exp(-x @ np.asarray([1, -1, 2, 0.5, 0]))), jnp.float32)

    def loss(w: Array) -> Array:
        return optax.sigmoid_binary_cross_entropy(x @ w, y).mean()

    transform = optax.chain(scale_by_som(shape=shape, damping=1e-3), optax.scale_by_learning_rate(0.05))

    @jax.jit
    def step(w: Array, state: Any) -> tuple[Array, Any]:
        diagonal = jnp.diag(jax.hessian(loss)(w))
        updates, state = transform.update(jax.grad(loss)(w), state, w, hessian_diagonal=diagonal)
        return optax.apply_updates(w, updates), state

    w = jnp.zeros(5)
    first, state = float(loss(w)), transform.init(w)
    for _ in range(LOOP_STEPS):
        w, state = step(w, state)
    return float(loss(w)) / first


def memory_claim(found: dict[str, float]) -> Claim:
    """C6."""
    most, large = exactly(max(found.values())), found[str(SIZES[-1])]
    why = (
        f"Algorithm 1 keeps two numbers for each parameter: {large:.3g} times their bytes at D = {SIZES[-1]:,}, "
        f"{found[str(SIZES[0])]:.3g} times at D = {SIZES[0]}, where its counters show."
    )
    what = f"largest ratio of state to parameters, D from {SIZES[0]} to {SIZES[-1]:,}"
    own = Finding("measured", what, most, f"at most {MOST_STATE:g}", at_most(most, MOST_STATE), why)
    return conclude("C6", "O(D) memory", [own], [own])


def time_claim(found: dict[str, dict[str, list[float]]]) -> Claim:
    """C7; the paper's curvature is Lemma 1's, so that decides."""
    findings = []
    for network, ratios in found.items():
        for curvature, each in ratios.items():
            number = over_seeds(np.asarray(each))
            what = f"update with curvature over one without, {CURVATURES[curvature]}, {network} policy"
            bound = WALL_CLOCK * ROUGHLY
            why = f"{CURVATURES[curvature]} on a {network} policy costs {number.value:.2f} times a plain update."
            findings.append(
                Finding("measured", what, number, f"roughly at most {WALL_CLOCK:g}", at_most(number, bound), why)
            )
    decisive = [finding for finding in findings if CURVATURES["lemma"] in finding.what]
    why = "Playing the episodes is part of an update, as in the paper."
    return conclude("C7", "≈1.8× wall-clock per update", findings, decisive, why)


def drop_in_claim(found: dict[str, float]) -> Claim:
    """C16."""
    more = len(ALGORITHM_1_NEEDS) - 1
    fits, printed = exactly(found["absolute"]), exactly(found["raw"])
    findings = [
        Finding(
            PAPER,
            "numbers that Algorithm 1 requires beyond REINFORCE's",
            exactly(more),
            "at most 0",
            denied(more == 0),
            f"Algorithm 1 itself requires {' and '.join(ALGORITHM_1_NEEDS[1:])} beside the learning rate.",
        ),
        Finding(
            "measured",
            f"loss of a logistic regression after {LOOP_STEPS} steps of a plain optax loop over the first, P = |h|",
            fits,
            "at most 0.9",
            at_most(fits, 0.9),
        ),
        Finding("measured", "the same with P = h as printed", printed, "at most 0.9", at_most(printed, 0.9)),
    ]
    why = (
        f"As a drop-in transform it works where P is positive (loss × {found['absolute']:.2f}) and climbs as printed "
        f"(× {found['raw']:.3g})."
    )
    return conclude("C16", "scales: no extra hyper-parameters, drop-in", findings, findings[1:2], why)
