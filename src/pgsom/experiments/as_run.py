"""The paper's experiment in the setting that explains its Table 1 (protocol *as-run*).

The paper leaves network, discount, evaluation and the meaning of its stabilisers open. A public script that agrees
with every setting it does state uses the ones below; whether it is the script behind the table is not known. A row of
`VARIANTS` is a cell of the table, in one of its readings. All cells of one scheme differ in numbers only and run, with
all seeds, in one compiled program.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pgsom.baselines import ConstantBaseline
from pgsom.curvature import LogDensityHessian
from pgsom.environments import Environment, Step, make
from pgsom.methods import Common, Method, assemble
from pgsom.objective import LocalObjective
from pgsom.policies import Policy, derivatives, linear_logistic
from pgsom.policies.derivatives import Chunk
from pgsom.training import TrainState, evaluate_program, init_program, seed_keys, train_program
from pgsom.updates import Info
from pgsom.updates.update_rule import describe

Tree = Any

ENVIRONMENT = "CartPole-v1"
UPDATES = 475
"""The table is the last evaluation: after 475 of 500 updates (script)."""
EVALUATE_EVERY = 25
LEARNING_RATE = 0.002
"""Section "Dataset and implementation details"; doubled with clipping."""
CLIP = 50.0
"""The same section: "a clipping size of 50", here of each element of the summed gradient (script)."""
DISCOUNT = 0.99
"""Of the reward-to-go (script)."""
ENTROPY = 0.01
"""Factor of the entropy *value*, a scalar added to every parameter's gradient (script)."""
BASELINE_EPISODES = 100
"""The baseline is one constant: the mean return of this many episodes of the initial policy (script)."""
SCORE_DISCOUNT = 0.999
"""An evaluation scores Σ_{i=1..L} 0.999^i for an episode of L steps (script); 393.2 for 500 steps."""
EVALUATION_SEED = 1
"""All evaluation episodes begin in the state of Gymnasium's ``reset(seed=1)`` (script)."""

PRINTED: dict[tuple[str, str], tuple[float, float]] = {
    ("reinforce", "none"): (202.70, 23.99),
    ("reinforce", "clip"): (370.51, 38.72),
    ("reinforce", "entropy"): (239.90, 58.98),
    ("reinforce", "baseline"): (218.84, 47.17),
    ("hessian", "none"): (147.00, 24.53),
    ("hessian", "clip"): (392.79, 0.55),
    ("hessian", "entropy"): (274.99, 112.73),
    ("hessian", "baseline"): (208.43, 115.63),
    ("runge-kutta", "none"): (314.18, 66.33),
    ("runge-kutta", "clip"): (383.09, 7.15),
    ("runge-kutta", "entropy"): (314.75, 95.46),
    ("runge-kutta", "baseline"): (328.21, 65.32),
}
"""Table 1: mean and standard deviation over five runs."""


class Variant(NamedTuple):
    """A cell of Table 1. `reading` is the open sign of x²σ(1−σ) in the Hessian rows, empty elsewhere."""

    method: str
    stabiliser: str
    reading: str = ""

    @property
    def label(self) -> str:
        """For tables and figures."""
        sign = {"plus": " (+)", "minus": " (−)", "none": " (0)", "": ""}[self.reading]
        return f"{self.method}, {self.stabiliser}{sign}"


STABILISERS = ("none", "clip", "entropy", "baseline")
VARIANTS: tuple[Variant, ...] = (
    *(Variant("reinforce", s) for s in STABILISERS),
    Variant("hessian", "none"),
    *(Variant("hessian", s, r) for s in STABILISERS[1:] for r in ("plus", "minus", "none")),
    *(Variant("runge-kutta", s) for s in STABILISERS),
)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ScriptDirection:
    """f Σ w_t z_t + s Σ w_t diag ∇²ℓ_t + c Σ_t −π(a_t|s_t) ln π(a_t|s_t), the last a scalar on every parameter.

    For the linear logistic policy diag ∇²ℓ = −x²σ(1−σ), so the script's 2 z + x²σ(1−σ) is f = 2, s = −1.
    """

    scores: Any
    curvature: Any
    entropy: Any

    def init(self, params: Tree) -> Tree:
        del params
        return ()

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        del params
        gradient, curvature, entropy = objective.evaluate(
            objective.gradient_fold(),
            LogDensityHessian().diagonal(objective),
            objective.sum_over_steps(_entropy_value, objective.step_weight),
        )
        direction = jax.tree.map(
            lambda g, h: self.scores * g + self.curvature * h + self.entropy * entropy, gradient, curvature
        )
        return direction, state, describe(gradient, direction, curvature)


@dataclass(frozen=True)
class FixedStart:
    """An environment whose episodes all begin in one state."""

    of: Environment
    start: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.of.name} from one start"

    @property
    def observation(self) -> Any:
        return self.of.observation

    @property
    def action(self) -> Any:
        return self.of.action

    @property
    def horizon(self) -> int:
        return self.of.horizon

    def reset(self, key: Array) -> tuple[Any, Array]:
        state, observation = self.of.reset(key)
        x, x_dot, theta, theta_dot = (jnp.asarray(value, observation.dtype) for value in self.start)
        state = state.replace(x=x, x_dot=x_dot, theta=theta, theta_dot=theta_dot)
        return state, jnp.stack([x, x_dot, theta, theta_dot])

    def step(self, key: Array, state: Any, action: Array) -> Step:
        return self.of.step(key, state, action)


class AsRun(NamedTuple):
    """Scores [variant, seed, evaluation] and the episodes and steps that training took [variant, seed]."""

    variants: tuple[Variant, ...]
    updates: NDArray[np.integer]
    scores: NDArray[np.floating]
    episodes: NDArray[np.integer]
    env_steps: NDArray[np.integer]


def start_state() -> tuple[float, ...]:
    """What Gymnasium's CartPole draws after ``reset(seed=1)``: four uniform numbers of NumPy's PCG64."""
    drawn = np.random.Generator(np.random.PCG64(EVALUATION_SEED)).uniform(-0.05, 0.05, 4)
    return tuple(float(value) for value in drawn)


def method_of(variant: Variant) -> Method:
    """The cell as a method; the baseline's value is measured later."""
    hessian = variant.method == "hessian" and variant.stabiliser != "none"
    rule = ScriptDirection(
        scores=2.0 if hessian else 1.0,
        curvature={"plus": -1.0, "minus": 1.0}.get(variant.reading, 0.0),
        entropy=ENTROPY if variant.stabiliser == "entropy" else 0.0,
    )
    clip = variant.stabiliser == "clip"
    common = Common(
        batch=1,
        discount=DISCOUNT,
        discounting="appendix",
        baseline="constant",
        clip_elements=CLIP if clip else float("inf"),
        scheme="heun" if variant.method == "runge-kutta" else "euler",
    )
    return assemble(variant.label, rule, 2 * LEARNING_RATE if clip else LEARNING_RATE, common)


def run(
    seeds: int,
    *,
    episodes: int = 500,
    episodes_before: int = 50,
    root: int = 0,
    report: Callable[[str, int, int], None] | None = None,
) -> AsRun:
    """All cells over `seeds` seeds.

    `episodes` are played at the last evaluation, which makes the table, and `episodes_before` at the earlier ones.
    `report` is told (scheme, evaluations done, evaluations in all).
    """
    evaluated = np.arange(0, UPDATES + 1, EVALUATE_EVERY)
    rows: dict[Variant, tuple[NDArray[Any], ...]] = {}
    for scheme in ("euler", "heun"):
        group = [v for v in VARIANTS if (v.method == "runge-kutta") == (scheme == "heun")]
        outcome = _run_group(group, seeds, evaluated, (episodes_before, episodes), root, scheme, report)
        rows |= {variant: tuple(part[i] for part in outcome) for i, variant in enumerate(group)}
    scores, played, steps = (np.stack([rows[v][k] for v in VARIANTS]) for k in range(3))
    return AsRun(VARIANTS, evaluated, scores, played, steps)


def _run_group(
    variants: list[Variant],
    seeds: int,
    evaluated: NDArray[Any],
    episodes: tuple[int, int],
    root: int,
    scheme: str,
    report: Callable[[str, int, int], None] | None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Cells of one scheme, variant-major: every cell meets the same seeds."""
    environment, policy = make(ENVIRONMENT), Policy(linear_logistic(4, 2))
    keys = jnp.tile(seed_keys(root, seeds), len(variants))
    methods = [m for m in map(_named_alike, variants) for _ in range(seeds)]
    method: Method = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(x, float) for x in leaves]), *methods)
    state: TrainState = init_program(environment, policy, method, keys, many_methods=True)
    measured = evaluate_program(
        environment, policy, state.params, _stream(keys, 1), episodes=BASELINE_EPISODES, deterministic=False
    ).episode_return.mean(axis=1)
    wanted = jnp.repeat(jnp.asarray([v.stabiliser != "none" for v in variants]), seeds)
    weighting = replace(method.weighting, baseline=ConstantBaseline(measured * wanted))
    method = replace(method, weighting=weighting)
    fixed = FixedStart(environment, start_state())
    scores = []
    for index, at in enumerate(evaluated):
        if index:
            state, _ = train_program(
                environment,
                policy,
                method,
                state,
                jnp.asarray(EVALUATE_EVERY),
                capacity=EVALUATE_EVERY,
                many_methods=True,
            )
        count = episodes[1] if at == evaluated[-1] else episodes[0]
        outcome = evaluate_program(
            fixed, policy, state.params, _stream(keys, 2 + index), episodes=count, deterministic=False
        )
        scores.append(np.asarray(_discounted(outcome.length).mean(axis=1)))
        if report is not None:
            report(scheme, index + 1, len(evaluated))
    shape = (len(variants), seeds)
    return (
        np.stack(scores, axis=-1).reshape(*shape, -1),
        np.asarray(state.episodes).reshape(shape),
        np.asarray(state.env_steps).reshape(shape),
    )


def _named_alike(variant: Variant) -> Method:
    """Names are structure: cells that share a program share a name."""
    return replace(method_of(variant), name="as-run")


def _stream(keys: Array, number: int) -> Array:
    """Keys apart from those of training."""
    return jax.vmap(lambda key: jax.random.fold_in(key, 0x65000000 + number))(keys)


def _discounted(length: Array) -> Array:
    """Σ_{i=1..L} γ^i; every step of CartPole pays 1."""
    gamma = SCORE_DISCOUNT
    return gamma * (1 - gamma**length) / (1 - gamma)


def _entropy_value(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Array:
    log_prob = derivatives.log_probs(policy, params, chunk)
    return -jnp.sum(weights * jnp.exp(log_prob) * log_prob)
