"""What does a curvature cost beside a gradient? 4-64-64-2 tanh, D = 4,610, one episode of 500 steps, no rollout.

Diagonals alone and in one pass with the gradient, as rules have them; K-FAC's factors; whole updates of the rules that
solve with the Fisher matrix. What is kept is the ratio of least times (`Timing.least`); `LIMITS` are asked of some.
"""

from functools import partial
from typing import Any

import jax

from benchmarks.fixed_length import FixedLength
from benchmarks.timing import side_by_side
from pgsom.baselines import NoBaseline
from pgsom.curvature import ESTIMATORS, Estimator, diagonal
from pgsom.objective import LocalObjective, Weighting, observe
from pgsom.policies import derivatives, make_policy
from pgsom.rollout import collect
from pgsom.updates import kfac, natural_gradient, trust_region

LIMITS = {
    "gauss-newton": 1.15,
    "fisher": 1.15,
    "gradient and hutchinson": 2.6,
    "log-density": 40.0,
    "score products of lemma": 2.2,
    "causal": 15.0,
    "factors of K-FAC": 1.5,
    "update of trpo": 25.0,
}


def with_gradient(estimator: Estimator, objective: LocalObjective) -> Any:
    return objective.evaluate(objective.gradient_fold(), estimator.diagonal(objective))


def score_products(objective: LocalObjective) -> Any:
    """Of Lemma 1: the sum of the scores and the weighted sum, for each episode."""

    def of_chunk(policy: Any, params: Any, chunk: Any, taken: Any, w: Any) -> Any:
        return [derivatives.score_sums_by_episode(policy, params, chunk, weights) for weights in (taken, w)]

    (sums,) = objective.evaluate(objective.sum_over_steps(of_chunk, objective.rollout.mask, objective.weight))
    return jax.tree.map(lambda a, b: (a * b).mean(axis=0), *sums)


def update_of(rule: Any, objective: LocalObjective) -> Any:
    return rule.update(objective, rule.init(objective.params), objective.params)


def one_episode() -> LocalObjective:
    """500 steps, seen by a 4-64-64-2 tanh policy."""
    environment = FixedLength(500)
    policy = make_policy("mlp", environment)
    params = policy.init(jax.random.key(0))
    rollout = collect(environment, policy, params, jax.random.key(1), 1)
    weighting = Weighting(0.99, NoBaseline(), 0.0, "appendix", "sum")
    return observe(weighting, (), policy, params, rollout, jax.random.key(2))


def run() -> dict[str, Any]:
    objective = one_episode()
    asked: dict[str, Any] = {"gradient": LocalObjective.gradient}
    for name, entry in ESTIMATORS.items():
        asked[name] = partial(diagonal, entry.make(0))
        asked[f"gradient and {name}"] = partial(with_gradient, entry.make(0))
    asked["score products of lemma"] = score_products
    asked["factors of K-FAC"] = lambda objective: objective.evaluate(objective.kronecker_fold())
    asked["update of kfac"] = partial(update_of, kfac())
    asked["update of npg"] = partial(update_of, natural_gradient(tolerance=0.0))
    asked["update of trpo"] = partial(update_of, trust_region(tolerance=0.0))
    compiled = {name: jax.jit(function) for name, function in asked.items()}
    contestants = {name: partial(function, objective) for name, function in compiled.items()}
    print("\ncost beside the gradient's, 500 steps, D = 4,610")
    answers = {}
    for name, timing in side_by_side(contestants, "gradient", rounds=301).items():
        limit = f"  asked: {LIMITS[name]:g}×" if name in LIMITS else ""
        print(f"  {name:<40} {timing.seconds * 1e6:8.0f} µs  {timing.ratio}  least {timing.least:6.2f}×{limit}")
        answers[name] = timing.least
    return answers
