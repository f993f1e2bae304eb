"""How well a method sees, and whether its steps do what they promise, at the parameters of a run.

What is measured, with b a batch as the method plays it, θ where the run ended and Δ one whole update of the method
from there (rule, scheme, clipping and learning rate included):

    signal-to-noise    ‖E x‖ / √tr Cov x, of the gradient and of the curvature's diagonal estimated from one batch
    negative           the share of negative entries in that diagonal, from one batch and in the mean of all
    alignment          the cosine between Δ and the mean gradient
    predicted          ∇JᵀΔ, and ∇JᵀΔ + ½ ΔᵀHΔ with the causal Hessian H
    actual             J(θ + Δ) − J(θ), of fresh episodes in pairs that share their random numbers
    spectrum           the ends of that of H and of the Fisher matrix, by Lanczos

J is the return with the method's discount, its gradient and Hessian the unbiased ones (the lemma's discounting).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from pgsom.baselines import LeaveOneOutBaseline
from pgsom.checks import check_count, wrong
from pgsom.curvature import CausalHessian, Estimator, Fisher, diagonal, make_estimator
from pgsom.environments import Environment, HostEnvironment
from pgsom.experiments.lanczos import Spectrum, lanczos
from pgsom.methods import Method
from pgsom.objective import LocalObjective, Weighting, observe
from pgsom.policies import Policy
from pgsom.returns import returns_to_go
from pgsom.rollout import collect
from pgsom.training import TrainState, collector_for, init, step

Tree = Any
MOST_NUMBERS = 50_000_000
"""Batches times parameters that are kept side by side."""


@dataclass(frozen=True)
class Effort:
    """How much is played and computed."""

    batches: int = 32
    """for signal, noise and the method's own averages"""
    episodes: int = 64
    """for the predicted and the actual improvement, and the spectrum"""
    steps: int = 16
    """of Lanczos: products with each matrix"""
    shown: int = 5
    """eigenvalues at each end"""

    def __post_init__(self) -> None:
        check_count("batches", self.batches, at_least=2)
        check_count("episodes", self.episodes, at_least=2)
        check_count("steps", self.steps)
        check_count("shown", self.shown)


DEFAULT_EFFORT = Effort()


class Clarity(NamedTuple):
    """Of a vector that is estimated from one batch."""

    norm: float
    """Of its expectation, free of what noise adds; 0 if no signal is seen."""
    signal_to_noise: float
    batches_needed: float
    """For a ratio of 1; ∞ if no signal is seen."""


class Diagnosis(NamedTuple):
    """The numbers of one seed."""

    seed: int
    parameters: int
    batch: int
    """Episodes (or environments) in one of the method's batches."""
    gradient: Clarity
    curvature_name: str
    curvature: Clarity
    negative: float
    """Share of negative entries from one batch, on average."""
    negative_of_mean: float
    """The same of the mean of all batches."""
    alignment: float
    step_norm: float
    predicted: float
    """∇JᵀΔ"""
    predicted_second: float
    """∇JᵀΔ + ½ ΔᵀHΔ"""
    actual: float
    actual_error: float
    """Its standard error."""
    hessian: Spectrum
    fisher: Spectrum


def clarity(samples: NDArray[Any]) -> Clarity:
    """Of the mean of independent samples [sample, entry]: ‖mean‖² − tr Cov / n is unbiased for the signal's square."""
    x = np.asarray(samples, np.float64)
    noise = float(x.var(axis=0, ddof=1).sum())
    signal = max(0.0, float(np.square(x.mean(axis=0)).sum()) - noise / len(x))
    if noise == 0:
        return Clarity(float(np.sqrt(signal)), float("inf") if signal > 0 else 0.0, 0.0 if signal > 0 else float("inf"))
    return Clarity(float(np.sqrt(signal)), float(np.sqrt(signal / noise)), noise / signal if signal > 0 else np.inf)


def curvature_of(method: Method) -> Estimator:
    """The one that the method's rule uses, or the causal Hessian's."""
    found = getattr(method.rule, "curvature", None)
    return found if isinstance(found, Estimator) else CausalHessian()


def diagnose_at(
    environment: Environment | HostEnvironment,
    policy: Policy,
    method: Method,
    params: Tree,
    *,
    state: TrainState | None = None,
    seed: int = 0,
    curvature: str | Estimator | None = None,
    effort: Effort = DEFAULT_EFFORT,
) -> Diagnosis:
    """The diagnosis at `params`.

    `state` is the training state there, if it was kept; without it the method's averages are made anew from batches
    at `params`. `seed` names the result and seeds what is played, apart from training.
    """
    if isinstance(environment, HostEnvironment):
        raise wrong("environment", environment.name, "it is stepped on the host; accepted are environments in JAX")
    if method.plan.normalise_observations:
        raise wrong("normalise_observations", True, "the policy changes as it sees more; accepted are runs without")
    estimator = curvature_of(method) if curvature is None else make_estimator(curvature)
    flat, unravel = ravel_pytree(params)
    if flat.size * effort.batches > MOST_NUMBERS:
        raise wrong(
            "batches", effort.batches, f"accepted are up to {MOST_NUMBERS // flat.size} for {flat.size:,} numbers"
        )
    root = jax.random.fold_in(jax.random.fold_in(jax.random.key(0x646961), seed), 0)
    keys = jax.random.split(root, 5)
    begun = init(environment, policy, method, keys[0]) if state is None else state
    begun = begun._replace(params=params, key=keys[0])
    estimates = _from_batches(environment, policy, method, estimator, begun, keys[1], effort.batches)
    gradients, curvatures = (np.asarray(found, np.float64) for found in estimates)
    moved = _one_update(environment, policy, method, begun, effort.batches if state is None else 1)
    change = np.asarray(ravel_pytree(moved)[0] - flat, np.float64)
    weighting = Weighting(method.weighting.rate, LeaveOneOutBaseline(), 0.0, "lemma", "sum")
    objective = _pooled(environment, policy, weighting, params, keys[2], effort.episodes)
    first, second = (float(x) for x in _predicted(objective, unravel(jnp.asarray(change, flat.dtype))))
    gains = np.asarray(
        _gains(environment, policy, params, moved, keys[3], method.weighting.rate, effort.episodes), np.float64
    )
    return Diagnosis(
        seed=seed,
        parameters=int(flat.size),
        batch=method.plan.environments,
        gradient=clarity(gradients),
        curvature_name=estimator.name,
        curvature=clarity(curvatures),
        negative=float((curvatures < 0).mean()),
        negative_of_mean=float((curvatures.mean(axis=0) < 0).mean()),
        alignment=_cosine(change, gradients.mean(axis=0)),
        step_norm=float(np.linalg.norm(change)),
        predicted=first,
        predicted_second=first + 0.5 * second,
        actual=float(gains.mean()),
        actual_error=float(gains.std(ddof=1) / np.sqrt(len(gains))),
        hessian=spectrum(objective, CausalHessian(), effort.steps),
        fisher=spectrum(objective, Fisher(), effort.steps),
    )


def spectrum(objective: LocalObjective, estimator: Estimator, steps: int) -> Spectrum:
    """Ends of the spectrum of an estimator's matrix."""
    flat, _ = ravel_pytree(objective.params)

    def product(vector: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(_product(objective, estimator, jnp.asarray(vector, flat.dtype)), np.float64)

    return lanczos(product, int(flat.size), steps)


@partial(jax.jit, static_argnames=("environment", "policy", "estimator", "batches"))
def _from_batches(
    environment: Environment,
    policy: Policy,
    method: Method,
    estimator: Estimator,
    state: TrainState,
    key: Array,
    batches: int,
) -> tuple[Array, Array]:
    """Gradient and curvature from each of some batches [batch, D], as training plays and weighs them."""
    collector = collector_for(environment, policy, method)

    def of_one(experience: Tree, key: Array) -> tuple[Tree, tuple[Array, Array]]:
        play_key, estimate_key = jax.random.split(key)
        batch, experience = collector.collect(play_key, state.params, experience)
        objective = observe(method.weighting, state.baseline_state, policy, state.params, batch, estimate_key)
        found = (objective.gradient(), diagonal(estimator, objective))
        return experience, tuple(ravel_pytree(tree)[0] for tree in found)  # type: ignore[return-value]  # a pair

    return jax.lax.scan(of_one, state.experience, jax.random.split(key, batches))[1]


@partial(jax.jit, static_argnames=("environment", "policy"))
def _one_update(environment: Environment, policy: Policy, method: Method, state: TrainState, warm: Array) -> Tree:
    """θ + Δ: where the last of `warm` updates from θ leads, all of which begin at θ and keep the rule's averages."""

    def again(_: Array, now: TrainState) -> TrainState:
        return step(environment, policy, method, now._replace(params=state.params))[0]

    return jax.lax.fori_loop(0, warm, again, state).params


@partial(jax.jit, static_argnames=("environment", "policy", "episodes"))
def _pooled(
    environment: Environment, policy: Policy, weighting: Weighting, params: Tree, key: Array, episodes: int
) -> LocalObjective:
    rollout = collect(environment, policy, params, key, episodes)
    return observe(weighting, (), policy, params, rollout, key)


@jax.jit
def _predicted(objective: LocalObjective, change: Tree) -> tuple[Array, Array]:
    """∇JᵀΔ and ΔᵀHΔ."""
    flat, _ = ravel_pytree(change)
    gradient, image = objective.gradient(), CausalHessian().product(objective, change)
    return ravel_pytree(gradient)[0] @ flat, ravel_pytree(image)[0] @ flat


@partial(jax.jit, static_argnames=("environment", "policy", "episodes"))
def _gains(
    environment: Environment, policy: Policy, here: Tree, there: Tree, key: Array, rate: Array, episodes: int
) -> Array:
    """Discounted returns of episodes at `there` less those at `here`, pair by pair with the same keys."""

    def returns(params: Tree) -> Array:
        return returns_to_go(collect(environment, policy, params, key, episodes).reward, rate)[0]

    return returns(there) - returns(here)


@partial(jax.jit, static_argnames="estimator")
def _product(objective: LocalObjective, estimator: Estimator, vector: Array) -> Array:
    _, unravel = ravel_pytree(objective.params)
    return ravel_pytree(estimator.product(objective, unravel(vector)))[0]


def _cosine(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    lengths = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / lengths if lengths > 0 else 0.0
