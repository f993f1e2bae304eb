"""What does an update cost beside a REINFORCE update? Rollout included; 4-64-64-2 tanh, one episode of 500 steps."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.fixed_length import FixedLength
from benchmarks.timing import side_by_side
from pgsom.methods import Common, Method, hessian_pg, pg_som, reinforce, runge_kutta_pg
from pgsom.policies import make_policy
from pgsom.training import init_program, seed_keys, train_program

UPDATES = 10
LIMITS = {"pg-som gauss-newton": 1.15, "pg-som hutchinson, 1 probe": 1.8}


def methods() -> dict[str, Method]:
    common = Common(batch=1, baseline="none")
    return {
        "reinforce": reinforce(common=common),
        "pg-som gauss-newton": pg_som(step_length="rate", common=common),
        "pg-som gauss-newton, KL step": pg_som(common=common),
        "pg-som hutchinson, 1 probe": pg_som(curvature="hutchinson", step_length="rate", common=common),
        "pg-som fisher": pg_som(curvature="fisher", step_length="rate", common=common),
        "hessian-pg causal": hessian_pg(common=common),
        "hessian-pg lemma": hessian_pg(curvature="lemma", common=common),
        "runge-kutta-pg": runge_kutta_pg(common=common),
    }


def updates_of(environment: Any, method: Method, seeds: int) -> Callable[[], Any]:
    """A few updates inside one compiled program, as training runs them."""
    policy = make_policy("mlp", environment)
    method = jax.tree.map(jnp.asarray, method)
    state = init_program(environment, policy, method, seed_keys(0, seeds))
    return lambda: train_program(environment, policy, method, state, jnp.asarray(UPDATES), capacity=UPDATES)


def run() -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for seeds in (1, 16):
        print(f"\nupdate cost beside REINFORCE, {seeds} seed(s), one episode of 500 steps, 4-64-64-2 tanh")
        contestants = {name: updates_of(FixedLength(500), method, seeds) for name, method in methods().items()}
        for name, timing in side_by_side(contestants, "reinforce").items():
            limit = f"   (wanted ≤ {LIMITS[name]})" if name in LIMITS else ""
            print(f"  {name:<30} {timing.seconds / UPDATES * 1e3:8.2f} ms  {timing.ratio}{limit}")
            answers[f"{name}, {seeds} seeds"] = timing.ratio.median
    return answers
