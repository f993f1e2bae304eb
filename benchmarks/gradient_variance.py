"""`python -m benchmarks.gradient_variance`: how good are recursive estimates? Writes docs/methods/variance.md.

Every rule rides along the same path, which nobody's estimate steers: steps of one length round a circle. At every
update its estimate is compared with the exact gradient there, and so is REINFORCE's from as many episodes. What was
measured is kept in benchmarks/gradient_variance.json.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from pgsom.environments import exact_return, softmax_policy, three_state
from pgsom.methods import make_method
from pgsom.objective import observe
from pgsom.policies import Policy, tabular_softmax
from pgsom.rollout import collect
from pgsom.statistics import bootstrap_mean
from pgsom.updates.hessian_momentum import hessian_momentum
from pgsom.updates.mbpg import AdaptiveState
from pgsom.updates.storm import storm
from pgsom.updates.update_rule import batches_of, points_of, update_from

ROOT = Path(__file__).parents[1]
ROWS, PAGE = ROOT / "benchmarks" / "gradient_variance.json", ROOT / "docs" / "methods" / "variance.md"
MDP, POLICY = three_state(), Policy(tabular_softmax(3, 2))
EPISODES, UPDATES, SETTLED, SEEDS = 4, 60, 20, 1000
STEPS = (0.02, 0.1, 0.5)
"""Lengths of one step of the path, in parameters."""
FRESH = 0.2
WEIGHTING = make_method("reinforce", discount=MDP.discount, discounting="lemma", batch=EPISODES).weighting

RULES: dict[str, tuple[str, Any]] = {
    "plain momentum": ("no correction: d ← (1 − α) d + α ĝ", None),
    "sharp, harpg, n-harpg": ("Hessian product at a random point", hessian_momentum(fresh=FRESH)),
    "sharp by Lemma 1": ("the same with the product as published", hessian_momentum("lemma", fresh=FRESH)),
    "hapg": ("Hessian products at 2 random points, renewed every 5 updates", make_method("hapg").rule),
    "ha-mbpg": (
        "one batch on the way, importance weights",
        make_method("ha-mbpg", offset=1e6, fresh_factor=FRESH * 1e4).rule,
    ),
    "sgdhess": ("Hessian product of the batch at hand", make_method("sgdhess", fresh=FRESH).rule),
    "storm-pg, is-mbpg": ("importance weights", storm(fresh=FRESH)),
    "page-pg": ("importance weights, renewed with probability 0.2", make_method("page-pg", fresh=FRESH).rule),
    "n-pg-igt": ("gradients asked further on", make_method("n-pg-igt", fresh=FRESH, fresh_power=0.0).rule),
}

HEAD = f"""# The variance of recursive gradient estimates

How far from ∇J is what a method takes for it? On the three-state MDP, whose ∇J is known exactly, with a tabular softmax
policy, {EPISODES} episodes in a batch, the leave-one-out baseline and the lemma's discounting. All rules are carried
along the same path, {UPDATES} steps of one length round a circle of radius 1, so that no estimate chooses where it is
asked and ∇J stays what it is. Over {SEEDS:,} seeds and the last {UPDATES - SETTLED} updates:

- *error* is E‖d − ∇J(θ)‖², that of the estimate a rule carries, before it is normalised or clipped;
- *bias²* is its part ‖E d − ∇J(θ)‖²;
- *against REINFORCE* is the error divided by the variance of a plain gradient of **as many episodes** as the rule
  plays in an update, at the same points, with a 95 % interval over seeds. Below 1 it is the better estimate.

α = {FRESH:g} throughout (HAPG: renewed every 5 updates). An average of gradients that does not lag would come to
α/(2 − α) = {FRESH / (2 - FRESH):.2f} of one batch's variance, which is {2 * FRESH / (2 - FRESH):.2f} of that of the
two batches that SHARP and its like play.

The page is written by `python -m benchmarks.gradient_variance` from `benchmarks/gradient_variance.json`.
"""
TAIL = """
## What this says

- Averages are far better estimates than a plain gradient of as many episodes, and the shorter the steps the better. The
  rules that play two batches an update give up half of that: they are held against a REINFORCE that has both.
- HAPG and PAGE-PG are no better than REINFORCE: their promise is a large batch now and then and small ones in between,
  and here all batches are alike. Between two renewals their noise can only grow.
- The corrections do what they promise: by Hessian products at random points and by importance weights the bias is zero
  at every length. SGDHess and transport, exact to second order, show theirs with long steps.
- They do it for a price: with long steps the variance that a product or a ratio adds is larger than the bias that it
  takes away, and the best estimate of all is plain momentum's. With four episodes a batch noise outweighs lag.
- The causal product is less noisy than Lemma 1's, which the papers print.
"""


def path(length: float) -> tuple[jax.Array, jax.Array]:
    """θ_t on a circle of radius 1 around 0, `length` apart, and ∇J there; both [update, D]."""
    plane, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))
    angle = 2 * np.arcsin(length / 2) * np.arange(UPDATES)
    thetas = jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], axis=1) @ plane.T, jnp.float32)

    def value(theta: jax.Array) -> jax.Array:
        return exact_return(MDP, softmax_policy(theta.reshape(3, 2)))

    return thetas, jax.vmap(jax.grad(value))(thetas)


def estimate_of(state: Any) -> Any:
    return (state.recursion if isinstance(state, AdaptiveState) else state).estimate


def batch(params: Any, key: jax.Array, episodes: int = EPISODES) -> Any:
    play, estimate = jax.random.split(key)
    rollout = collect(MDP, POLICY, params, play, episodes)
    return observe(WEIGHTING, (), POLICY, params, rollout, estimate)


def plain_momentum(thetas: Any, keys: jax.Array) -> jax.Array:
    def update(d: Any, step: Any) -> Any:
        params, key, first = step
        alpha = jnp.where(first, 1.0, FRESH)
        d = jax.tree.map(lambda old, g: (1 - alpha) * old + alpha * g, d, batch(params, key).gradient())
        return d, ravel_pytree(d)[0]

    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:]), thetas)
    return jax.lax.scan(update, zeros, (thetas, keys, jnp.arange(UPDATES) == 0))[1]


def carried(rule: Any, thetas: Any, keys: jax.Array) -> jax.Array:
    """The estimate after each update along the path [update, D]."""

    def update(state: Any, step: Any) -> Any:
        params, key = step
        point_key, *play_keys = jax.random.split(key, 1 + batches_of(rule))
        objectives = list(map(batch, points_of(rule, state, params, point_key), play_keys))
        _, state, _ = update_from(rule, objectives, state, params)
        return state, ravel_pytree(estimate_of(state))[0]

    first = jax.tree.map(lambda leaf: leaf[0], thetas)
    return jax.lax.scan(update, rule.init(first), (thetas, keys))[1]


def plain(episodes: int, thetas: Any, keys: jax.Array) -> jax.Array:
    """A gradient of its own at every point of the path [update, D]."""
    return jax.lax.map(lambda at: ravel_pytree(batch(*at, episodes).gradient())[0], (thetas, keys))


def errors(estimates: Callable[[Any, jax.Array], jax.Array], thetas: Any, exact: jax.Array) -> tuple[np.ndarray, float]:
    """Mean squared error of each seed over the settled part of the path, and the bias² there."""
    keys = jax.vmap(lambda key: jax.random.split(key, UPDATES))(jax.random.split(jax.random.key(0), SEEDS))
    found = np.asarray(jax.jit(jax.vmap(estimates, in_axes=(None, 0)))(thetas, keys), float)[:, SETTLED:]
    off = found - np.asarray(exact, float)[SETTLED:]
    # The square of a mean over seeds exceeds that of the expectation by the variance of the mean.
    mean, variance = off.mean(axis=0), off.var(axis=0, ddof=1)
    bias = float((np.square(mean) - variance / SEEDS).sum(axis=1).mean())
    return np.square(off).sum(axis=2).mean(axis=1), bias


def measure() -> list[dict[str, Any]]:
    rows = []
    for length in STEPS:
        points, exact = path(length)
        thetas = jax.vmap(ravel_pytree(POLICY.init(jax.random.key(0)))[1])(points)
        variance = {n: float(errors(partial(plain, n * EPISODES), thetas, exact)[0].mean()) for n in (1, 2)}
        for name, (how, rule) in RULES.items():
            batches = 1 if rule is None else batches_of(rule)
            found, bias = errors(plain_momentum if rule is None else partial(carried, rule), thetas, exact)
            ratio = bootstrap_mean(found / variance[batches])
            rows.append(
                {
                    "step": length,
                    "rule": name,
                    "how": how,
                    "episodes": batches * EPISODES,
                    "error": float(found.mean()),
                    "bias": bias,
                    "reinforce": variance[batches],
                    "ratio": [float(x) for x in ratio],
                }
            )
            print(f"{length:<6g} {name:<24} {rows[-1]['ratio'][0]:.3f}", flush=True)
    return rows


def page(rows: list[dict[str, Any]]) -> str:
    """docs/methods/variance.md."""
    columns = ("rule", "what corrects it", "episodes an update", "error", "bias²", "against REINFORCE [95 %]")
    sections = []
    for length in sorted({row["step"] for row in rows}):
        lines = [columns, ["---"] * len(columns)]
        for row in sorted((row for row in rows if row["step"] == length), key=lambda row: row["ratio"][0]):
            mean, low, high = row["ratio"]
            lines.append(
                [
                    row["rule"],
                    row["how"],
                    str(row["episodes"]),
                    f"{row['error']:.4f}",
                    f"{max(row['bias'], 0):.4f}",
                    f"{mean:.2f} [{low:.2f}, {high:.2f}]",
                ]
            )
        table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
        sections.append(f"\n## Steps of length {length:g}\n\n{table}")
    return HEAD + "".join(sections) + TAIL


def read_rows() -> list[dict[str, Any]]:
    """What has been measured."""
    return list(json.loads(ROWS.read_text("utf-8")))


def main() -> int:
    ROWS.write_text(json.dumps(measure(), indent=1) + "\n", "utf-8")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(read_rows()), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
