"""What only the protocol *as-run* needs: the script's direction, and episodes that all begin in one state.

The paper leaves network, discount, evaluation and the meaning of its stabilisers open. A public script that agrees
with every setting it does state uses those of `protocols/as-run.toml`; whether it is the script behind the table is not
known. All cells of one scheme differ in numbers only, so they run in one compiled program.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pgsom.curvature import LogDensityHessian
from pgsom.environments import Environment, Step
from pgsom.objective import LocalObjective
from pgsom.policies import Policy, derivatives
from pgsom.policies.derivatives import Chunk
from pgsom.updates import Info
from pgsom.updates.update_rule import describe

Tree = Any

EVALUATION_SEED = 1
"""All evaluation episodes begin in the state of Gymnasium's ``reset(seed=1)`` (script)."""


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


def start_state() -> tuple[float, ...]:
    """What Gymnasium's CartPole draws after ``reset(seed=1)``: four uniform numbers of NumPy's PCG64."""
    drawn = np.random.Generator(np.random.PCG64(EVALUATION_SEED)).uniform(-0.05, 0.05, 4)
    return tuple(float(value) for value in drawn)


def _entropy_value(policy: Policy, params: Tree, chunk: Chunk, weights: Array) -> Array:
    log_prob = derivatives.log_probs(policy, params, chunk)
    return -jnp.sum(weights * jnp.exp(log_prob) * log_prob)
