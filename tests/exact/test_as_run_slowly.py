"""The protocol as-run, written a second time: loops in NumPy around Gymnasium's own CartPole, episode by episode.

Nothing of it is shared with the package but the words for the cells. Given the same start states and the same uniform
numbers it must learn the same parameters, update by update; given its own it must score alike.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from pgsom.baselines import ConstantBaseline
from pgsom.environments import make
from pgsom.experiments.as_run import FixedStart, start_state
from pgsom.experiments.blocks import Cell, Lengths, run_block
from pgsom.experiments.evaluation import play_all, starts
from pgsom.experiments.printed import Variant
from pgsom.experiments.protocols import read_protocol
from pgsom.experiments.variants import method_of, variants_of
from pgsom.policies import Policy, linear_logistic
from pgsom.training import init_program, seed_keys, train_program

AS_RUN = read_protocol("as-run")
VARIANTS = variants_of(AS_RUN)
UPDATES = 6
BASELINE = 21.5


class Dealt(NamedTuple):
    """The random part of an episode: where it starts, and a uniform number a step; action 0 if it is below π(0|s)."""

    start: np.ndarray
    uniform: np.ndarray


class Slow:
    """One run of one cell."""

    def __init__(self, variant: Variant, theta: np.ndarray, baseline: float, deal: Callable[[], Dealt]):
        self.variant, self.theta, self.deal = variant, np.array(theta, np.float64), deal
        self.baseline = 0.0 if variant.stabiliser == "none" else baseline
        self.cartpole = gymnasium.make("CartPole-v1")
        self.cartpole.reset(seed=0)

    def play(self, theta: np.ndarray, dealt: Dealt) -> list[tuple[np.ndarray, int, float]]:
        """(state, action, reward) of every step."""
        self.cartpole.reset()
        self.cartpole.unwrapped.state = np.array(dealt.start, np.float64)
        seen, steps = np.array(dealt.start, np.float64), []
        for uniform in dealt.uniform:
            action = 0 if uniform < 1 / (1 + np.exp(-theta @ seen)) else 1
            _, reward, terminated, truncated, _ = self.cartpole.step(action)
            steps.append((seen, action, float(reward)))
            # Gymnasium shows its state rounded to float32; the state itself is float64.
            seen = np.array(self.cartpole.unwrapped.state, np.float64)
            if terminated or truncated:
                break
        return steps

    def direction(self, theta: np.ndarray) -> np.ndarray:
        """Of a fresh episode, summed over its steps."""
        steps = self.play(theta, self.deal())
        total, entropy, to_go = np.zeros(4), 0.0, 0.0
        for seen, action, reward in reversed(steps):
            to_go = reward + 0.99 * to_go
            left = 1 / (1 + np.exp(-theta @ seen))
            weight = to_go - self.baseline
            total += weight * self.of_one_step(seen, action, left)
            taken = left if action == 0 else 1 - left
            entropy -= taken * np.log(taken)
        return total + (0.01 * entropy if self.variant.stabiliser == "entropy" else 0.0)

    def of_one_step(self, seen: np.ndarray, action: int, left: float) -> np.ndarray:
        """The score; in the Hessian rows with a stabiliser 2 z + c."""
        score = seen * ((1 if action == 0 else 0) - left)
        if self.variant.method != "hessian" or self.variant.stabiliser == "none":
            return score
        sign = {"plus": 1, "minus": -1, "none": 0}[self.variant.reading]
        return 2 * score + sign * np.square(seen) * left * (1 - left)

    def update(self) -> None:
        """One update of θ; Heun's takes two episodes."""
        clip = self.variant.stabiliser == "clip"
        rate = 0.004 if clip else 0.002
        step = self.direction(self.theta)
        if self.variant.method == "runge-kutta":
            step = (step + self.direction(self.theta + rate * step)) / 2
        self.theta = self.theta + rate * (np.clip(step, -50, 50) if clip else step)

    def score(self, dealt: Dealt) -> float:
        """Σ_{i=1..L} 0.999^i r_i of an episode of the present policy."""
        return sum(0.999 ** (i + 1) * r for i, (_, _, r) in enumerate(self.play(self.theta, dealt)))


# --- the same random numbers -------------------------------------------------------------------------------------


def dealt_by(environment: Any, key: jax.Array) -> Dealt:
    """What `rollout.collect` draws for its one episode with this key."""
    reset_key, play_key = jax.random.split(key)
    start, uniform = _draws(environment, jax.random.split(reset_key, 1)[0], jax.random.split(play_key, 1)[0])
    return Dealt(np.asarray(start), np.asarray(uniform))


@partial(jax.jit, static_argnums=0)
def _draws(environment: Any, reset_key: jax.Array, env_key: jax.Array) -> tuple[jax.Array, jax.Array]:
    keys = jax.vmap(lambda t: jax.random.fold_in(env_key, 2 * t))(jnp.arange(500))
    return environment.reset(reset_key)[1], jax.vmap(partial(jax.random.uniform, dtype=float))(keys)


def deals(environment: Any, key: jax.Array, stages: int) -> Iterator[Dealt]:
    """What training draws, episode by episode, from its state's first key on."""
    while True:
        key, *stage_keys = jax.random.split(key, 1 + stages)
        for stage_key in stage_keys:
            _, batch_key = jax.random.split(stage_key, 2)
            play_key, _ = jax.random.split(batch_key)
            yield dealt_by(environment, play_key)


def compiled(variants: list[Variant], updates: int) -> tuple[Any, np.ndarray]:
    """The first state, and θ [update, variant, 4] after each update; all variants have the key of seed 0."""
    environment, policy = make("CartPole-v1"), Policy(linear_logistic(4, 2))
    methods = []
    for variant in variants:
        method = method_of(AS_RUN, variant)
        value = 0.0 if variant.stabiliser == "none" else BASELINE
        methods.append(replace(method, weighting=replace(method.weighting, baseline=ConstantBaseline(value))))
    method = jax.tree.map(lambda *leaves: jnp.asarray(leaves, float), *methods)
    keys = jnp.tile(seed_keys(0, 1), len(variants))
    first = state = init_program(environment, policy, method, keys, many_methods=True)
    thetas = []
    for _ in range(updates):
        state, _ = train_program(environment, policy, method, state, jnp.asarray(1), capacity=1, many_methods=True)
        thetas.append(np.asarray(state.params[0].weight)[:, :, 0])
    return first, np.stack(thetas)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("scheme", ["euler", "heun"])
def test_fed_the_same_numbers_it_learns_the_same_update_by_update(scheme: str) -> None:
    """In float64, so that a state that leaves the other in the tenth digit falls in the same step."""
    variants = [v for v in VARIANTS if (v.method == "runge-kutta") == (scheme == "heun")]
    first, found = compiled(variants, UPDATES)
    environment = make("CartPole-v1")
    for index, variant in enumerate(variants):
        dealt = deals(environment, first.key[index], 2 if scheme == "heun" else 1)
        slow = Slow(variant, first.params[0].weight[index, :, 0], BASELINE, partial(next, dealt))
        for update in range(UPDATES):
            slow.update()
            np.testing.assert_allclose(slow.theta, found[update, index], rtol=1e-8, atol=1e-9, err_msg=variant.label)
    moved = np.abs(found[-1] - np.asarray(first.params[0].weight)[:, :, 0]).max(axis=1)
    assert moved.min() > 1e-3 and len(np.unique(found[-1][:, 0])) >= (len(variants) - 1 if scheme == "euler" else 4)


@pytest.mark.usefixtures("float64")
def test_fed_the_same_numbers_an_evaluation_is_the_same() -> None:
    theta, episodes = np.asarray([0.2, 0.6, 1.4, 1.1]), 4
    environment, policy = FixedStart(make("CartPole-v1"), start_state()), Policy(linear_logistic(4, 2))
    params = jax.tree.map(lambda leaf: jnp.asarray(theta)[None, :, None], policy.init(jax.random.key(0)))
    begun = starts(environment, seed_keys(3, 1), capacity=episodes)
    outcome = play_all(environment, policy, params, begun, episodes, 1)
    slow = Slow(Variant("reinforce", "none"), theta, 0.0, lambda: Dealt(np.zeros(4), np.zeros(1)))
    start, _ = gymnasium.make("CartPole-v1").reset(seed=1)
    for index in range(episodes):
        uniform = _draws(environment, jax.random.key(0), begun.key[0, index])[1]
        length = int(outcome.length[0, index])
        exact = np.random.Generator(np.random.PCG64(1)).uniform(-0.05, 0.05, 4)
        np.testing.assert_allclose(exact, start, rtol=1e-6)
        score = slow.score(Dealt(exact, np.asarray(uniform)))
        assert score == pytest.approx(0.999 * (1 - 0.999**length) / 0.001, rel=1e-12)
    assert len(set(np.asarray(outcome.length)[0].tolist())) > 1


# --- random numbers of its own -----------------------------------------------------------------------------------

SLOW_SEEDS, SEEDS, LEARNED = 12, 100, 75
CELLS = (Variant("reinforce", "none"), Variant("hessian", "clip", "plus"), Variant("runge-kutta", "entropy"))


def own_deal(generator: np.random.Generator) -> Dealt:
    return Dealt(generator.uniform(-0.05, 0.05, 4), generator.uniform(size=500))


def slow_score(variant: Variant, seed: int) -> float:
    """The mean score of 30 episodes from the one start state, after `LEARNED` updates."""
    generator = np.random.default_rng([17, seed])
    deal = partial(own_deal, generator)
    slow = Slow(variant, generator.uniform(size=4), 0.0, deal)
    returns = [len(slow.play(slow.theta, deal())) for _ in range(100)]
    slow = Slow(variant, slow.theta, float(np.mean(returns)), deal)
    for _ in range(LEARNED):
        slow.update()
    fixed = np.random.Generator(np.random.PCG64(1)).uniform(-0.05, 0.05, 4)
    return float(np.mean([slow.score(Dealt(fixed, generator.uniform(size=500))) for _ in range(30)]))


@pytest.mark.slow
@pytest.mark.parametrize("variant", CELLS, ids=[cell.label for cell in CELLS])
def test_with_its_own_numbers_it_scores_alike(variant: Variant) -> None:
    """Means within four standard errors, and no sign of another distribution at 1 in 10,000."""
    protocol = AS_RUN.changed(updates=LEARNED)
    (trained,) = run_block(protocol, [Cell(variant, None, 0, tuple(range(SEEDS)))], Lengths(30, 1))
    fast = trained.scores[:, -1]
    slow = np.asarray([slow_score(variant, seed) for seed in range(SLOW_SEEDS)])
    error = np.sqrt(fast.var(ddof=1) / SEEDS + slow.var(ddof=1) / SLOW_SEEDS)
    assert abs(fast.mean() - slow.mean()) < 4 * error, (fast.mean(), slow.mean(), error)
    assert scipy.stats.ks_2samp(fast, slow).pvalue > 1e-4
