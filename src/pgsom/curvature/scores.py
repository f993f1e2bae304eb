"""Squares of scores: the Fisher matrix from actions, those that were taken or fresh ones drawn from the policy."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_count
from pgsom.folds import Fold, sum_fold
from pgsom.objective import LocalObjective
from pgsom.policies import derivatives
from pgsom.policies.derivatives import Chunk, over_steps

Tree = Any


@dataclass(frozen=True)
class EmpiricalFisher:
    """Σ_n e Σ_t z_t z_tᵀ over the actions taken.

    Where the policy's own episodes are seen its expectation is the Fisher matrix, with more noise; on episodes of
    another policy it is the second moment of scores there, and no Fisher matrix. It knows nothing of rewards, and
    so is neither the second moment of the gradient (Adam's) nor an estimate of ∇²J.
    """

    name: ClassVar[str] = "empirical-fisher"
    estimates: ClassVar[str] = "E[Σ z zᵀ] over the actions taken, whatever their reward"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = True

    def diagonal(self, objective: LocalObjective) -> Fold:
        return objective.sum_over_steps(derivatives.squared_score_sum, objective.step_weight)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        return objective.evaluate(objective.sum_over_steps(_outer_product(vector), objective.step_weight))[0]


@dataclass(frozen=True)
class SampledFisher:
    """(1/k) Σ_m Σ_n e Σ_t z_tm z_tmᵀ, z_tm = ∇ ln π(a_tm|s_t) for `probes` = k fresh actions a_tm ~ π(·|s_t).

    Unbiased for the exact `Fisher` on the same states, whichever policy visited them.
    """

    probes: int = 1
    name: ClassVar[str] = "fisher-sampled"
    estimates: ClassVar[str] = "E[Σ z zᵀ] over fresh actions of the policy, drawn once a step"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("probes", self.probes)

    def diagonal(self, objective: LocalObjective) -> Fold:
        chunk, weight = _with_drawn_actions(objective, self.probes)
        return _sum_over(objective, derivatives.squared_score_sum, chunk, weight)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        chunk, weight = _with_drawn_actions(objective, self.probes)
        return objective.evaluate(_sum_over(objective, _outer_product(vector), chunk, weight))[0]


@dataclass(frozen=True)
class GaussNewtonBartlett:
    """(1/k) Σ_m g_m g_mᵀ,  g_m = Σ_n √e Σ_t ∇ ln π(a_tm|s_t) for `probes` = k sets of fresh actions.

    Sophia's estimator: one gradient with drawn actions, squared. Scores of independent draws have mean zero, so the
    products of different steps vanish in expectation, which is that of `Fisher`; they do not vanish in one draw, so it
    is the noisiest estimate of it, and rank k.
    """

    probes: int = 1
    name: ClassVar[str] = "gauss-newton-bartlett"
    estimates: ClassVar[str] = "E[g gᵀ], g a gradient of Σ ln π over fresh actions: Sophia's"
    biased: ClassVar[bool] = True
    positive_semi_definite: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("probes", self.probes)

    def diagonal(self, objective: LocalObjective) -> Fold:
        def mean_square(gradients: Tree) -> Tree:
            return jax.tree.map(lambda g: jnp.mean(jnp.square(g), axis=0), gradients)

        return self._gradients(objective)._replace(finish=mean_square)

    def product(self, objective: LocalObjective, vector: Tree) -> Tree:
        (gradients,) = objective.evaluate(self._gradients(objective))
        along = sum(
            jax.tree.leaves(jax.tree.map(lambda g, v: jnp.sum(g * v, axis=range(1, g.ndim)), gradients, vector))
        )
        return jax.tree.map(lambda g: jnp.tensordot(along, g, 1) / self.probes, gradients)

    def _gradients(self, objective: LocalObjective) -> Fold:
        """Every g_m, leaves with a leading axis."""
        actions = drawn_actions(objective, self.probes)
        root = objective.rollout.mask * jnp.sqrt(objective.episode_weight)

        def of_chunk(arrays: tuple[Array, Array, Array]) -> Tree:
            observation, drawn, weight = arrays
            return jax.vmap(
                lambda action: derivatives.score_sum(
                    objective.policy, objective.params, Chunk(observation, action), weight
                ),
                in_axes=2,
            )(drawn)

        return sum_fold(of_chunk, (objective.rollout.observation, actions, root))


def drawn_actions(objective: LocalObjective, draws: int) -> Array:
    """Fresh actions of the policy at every step [time, env, draw, …]."""
    sample = objective.policy.distribution.sample
    keys = jax.random.split(jax.random.fold_in(objective.key, 3), (*objective.outputs.shape[:2], draws))
    return over_steps(lambda u, of_step: jax.vmap(lambda key: sample(key, u))(of_step))(objective.outputs, keys)


def _with_drawn_actions(objective: LocalObjective, draws: int) -> tuple[Chunk, Array]:
    """Every episode `draws` times side by side, with fresh actions, each counting as much less."""
    drawn, observation = drawn_actions(objective, draws), objective.rollout.observation
    beside = jnp.repeat(observation, draws, axis=1)
    chunk = Chunk(beside, drawn.reshape(*beside.shape[:2], *drawn.shape[3:]))
    return chunk, jnp.repeat(objective.step_weight, draws, axis=1) / draws


def _sum_over(objective: LocalObjective, function: Any, chunk: Chunk, weight: Array) -> Fold:
    return sum_fold(lambda part: function(objective.policy, objective.params, *part), (chunk, weight))


def _outer_product(vector: Tree) -> Any:
    """Σ w (z·v) z over a chunk."""

    def of_chunk(policy: Any, params: Tree, chunk: Chunk, weights: Array) -> Tree:
        along = derivatives.directional_scores(policy, params, chunk, vector)
        return derivatives.score_sum(policy, params, chunk, weights * along)

    return of_chunk
