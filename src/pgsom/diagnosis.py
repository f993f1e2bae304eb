"""What was not finite in an update that was left out.

Quantities stand in the order in which data flows, so the first that is not finite is where it began and the others
are what came of it. An update's report has one bit for each (`Metrics.not_finite`), which `quantities_of` reads.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from pgsom.objective import LocalObjective
from pgsom.policies.derivatives import over_steps
from pgsom.updates import Info
from pgsom.updates.update_rule import all_finite

Tree = Any
QUANTITIES = (
    "parameters",
    "observations",
    "policy outputs",
    "log-probabilities",
    "rewards",
    "returns",
    "gradient",
    "curvature",
    "direction",
    "state of the rule",
    "state of the baseline",
    "experience",
    "new parameters",
)


def not_finite(
    objectives: Sequence[LocalObjective], infos: Sequence[Info], direction: Tree, new: tuple[Tree, Tree, Tree, Tree]
) -> Array:
    """A bit for each of `QUANTITIES`; `new` are parameters, rule state, baseline state and experience."""
    params, rule_state, baseline_state, experience = new
    judged = {
        "parameters": [objective.params for objective in objectives],
        "observations": [_taken(objective, objective.rollout.observation) for objective in objectives],
        "policy outputs": [_taken(objective, objective.outputs) for objective in objectives],
        "log-probabilities": [log_probabilities(objective) for objective in objectives],
        "rewards": [objective.rollout.reward for objective in objectives],
        "returns": [(objective.score_weight, objective.entropy_to_go) for objective in objectives],
        "gradient": [info.gradient_norm for info in infos],
        "curvature": [info.negative_curvature for info in infos],
        "direction": direction,
        "state of the rule": rule_state,
        "state of the baseline": baseline_state,
        "experience": experience,
        "new parameters": params,
    }
    bits = [jnp.where(all_finite(judged[name]), 0, 1 << place) for place, name in enumerate(QUANTITIES)]
    return jnp.stack(bits).sum(dtype=jnp.int32)


def quantities_of(bits: int) -> tuple[str, ...]:
    """The names of what was not finite, the earliest first."""
    return tuple(name for place, name in enumerate(QUANTITIES) if bits >> place & 1)


def log_probabilities(objective: LocalObjective) -> Array:
    """ln π(a_t|s_t) of the actions taken [time, env], 0 in the padding."""
    log_prob = over_steps(objective.policy.distribution.log_prob)
    return _taken(objective, log_prob(objective.outputs, objective.rollout.action))


def _taken(objective: LocalObjective, values: Array) -> Array:
    """`values` [time, env, …] with 0 in the padding, where nothing was taken and anything may stand."""
    mask = objective.rollout.mask.astype(bool)
    return jnp.where(mask.reshape(*mask.shape, *([1] * (values.ndim - 2))), values, 0)
