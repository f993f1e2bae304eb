"""What a curvature costs beside BackPACK's and curvlinops', in milliseconds: 500 samples, 4-64-64-2 tanh, D = 4,610.

The same objects of the same network on one batch: gradient, Gauss-Newton diagonal with the gradient, exact Hessian
diagonal with the gradient, products of both matrices with a vector. `make peers` installs the peers.
"""

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.estimator_cost import one_episode, with_gradient
from benchmarks.timing import side_by_side
from pgsom.curvature import Fisher, LogDensityHessian
from pgsom.objective import LocalObjective

PEER = Path(".venv-peers/bin/python")
SCRIPT = Path(__file__).parent / "peers" / "curvature_torch.py"
ROUNDS = 101
SAME = {
    "gradient": "gradient",
    "gradient and Gauss-Newton diagonal": "gradient and Gauss-Newton diagonal (BackPACK)",
    "gradient and Hessian diagonal": "gradient and Hessian diagonal (BackPACK)",
    "Hessian product": "Hessian product (curvlinops)",
    "Gauss-Newton product": "Gauss-Newton product (curvlinops)",
}
"""Ours, and what does the same there. For ln π of a softmax Gauss-Newton and Fisher are one matrix."""


def ours() -> dict[str, float]:
    """Seconds."""
    objective = one_episode()
    vector = jax.tree.map(jnp.ones_like, objective.params)
    asked: dict[str, Any] = {
        "gradient": LocalObjective.gradient,
        "gradient and Gauss-Newton diagonal": partial(with_gradient, Fisher()),
        "gradient and Hessian diagonal": partial(with_gradient, LogDensityHessian()),
        "Hessian product": lambda objective: LogDensityHessian().product(objective, vector),
        "Gauss-Newton product": lambda objective: Fisher().product(objective, vector),
    }
    contestants = {name: partial(jax.jit(function), objective) for name, function in asked.items()}
    return {name: timing.seconds for name, timing in side_by_side(contestants, "gradient", rounds=ROUNDS).items()}


def run() -> dict[str, Any]:
    print("\nmilliseconds, 500 samples, D = 4,610")
    if not PEER.exists():
        print("  left out: the peers are not installed; `make peers` installs them")
        return {}
    printed = subprocess.run([str(PEER), str(SCRIPT), str(ROUNDS)], check=True, capture_output=True, text=True).stdout
    theirs, own = json.loads(printed), ours()
    answers: dict[str, Any] = {}
    for name, there in SAME.items():
        print(f"  {name:<40} {own[name] * 1e3:8.2f}   {there:<50} {theirs[there] * 1e3:8.2f}")
        answers[f"{name}, ms"] = own[name] * 1e3
        answers[f"{there}, ms"] = theirs[there] * 1e3
    return answers
