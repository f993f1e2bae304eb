"""What does a curvature cost beside a gradient? 4-64-64-2 tanh, D = 4,610, one episode of 500 steps, no rollout."""

from functools import partial
from typing import Any

import jax

from benchmarks.fixed_length import FixedLength
from benchmarks.timing import side_by_side
from pgsom.baselines import NoBaseline
from pgsom.curvature import ESTIMATORS, diagonal
from pgsom.objective import LocalObjective, Weighting, observe
from pgsom.policies import make_policy
from pgsom.rollout import collect


def run() -> dict[str, Any]:
    environment = FixedLength(500)
    policy = make_policy("mlp", environment)
    params = policy.init(jax.random.key(0))
    rollout = collect(environment, policy, params, jax.random.key(1), 1)
    weighting = Weighting(0.99, NoBaseline(), 0.0, "appendix", "sum")
    objective = observe(weighting, (), policy, params, rollout, jax.random.key(2))
    gradient = jax.jit(LocalObjective.gradient)
    contestants = {"gradient": lambda: gradient(objective)}
    for name, entry in ESTIMATORS.items():
        estimate = jax.jit(partial(diagonal, entry.make(0)))
        contestants[name] = lambda estimate=estimate: estimate(objective)
    print("\ndiagonal of a curvature beside the gradient, 500 steps, D = 4,610")
    answers = {}
    for name, timing in side_by_side(contestants, "gradient").items():
        print(f"  {name:<30} {timing.seconds * 1e6:8.0f} µs  {timing.ratio}")
        answers[name] = timing.ratio.median
    return answers
