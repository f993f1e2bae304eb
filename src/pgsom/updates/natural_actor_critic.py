"""Natural actor-critic: the critic's compatible weights are the natural gradient."""

from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_choice, check_count, check_number
from pgsom.folds import Fold, sum_fold
from pgsom.objective import LocalObjective
from pgsom.policies import derivatives
from pgsom.policies.derivatives import Chunk
from pgsom.updates.conjugate_gradient import conjugate_gradient
from pgsom.updates.step_length import STEP_LENGTHS, StepLength, scale_to_kl, with_evidence
from pgsom.updates.update_rule import Info, describe

Tree = Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NaturalActorCritic:
    """A linear critic whose features are the scores; what it learns is the direction.

        φ_t = (1, s_t),   z_t = ∇ ln π_θ(a_t|s_t)
        (x, v) = argmin  mean_t (w_t − z_tᵀx − φ_tᵀv)² + λ (‖x‖² + ‖v‖²)      by conjugate gradients
        d = x √(2 δ / xᵀFx)                      (step_length = "kl"; "rate": d = x)

    z_tᵀx is the part of the return that the action made, φ_tᵀv that of the state. In expectation z and φ are
    orthogonal and mean z zᵀ is the Fisher matrix, so that x = F⁻¹∇J for λ = 0; of a batch, v takes from x the noise
    that states alone explain. Nothing of the size D² is formed.
    """

    damping: Any
    tolerance: Any
    kl_radius: Any
    cg_steps: int = field(metadata={"static": True})
    step_length: StepLength = field(metadata={"static": True})

    def init(self, params: Tree) -> Tree:
        del params
        return ()

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        del params
        gradient = objective.gradient()
        direction, _ = self.critic(objective, gradient)
        if self.step_length == "kl":
            direction = with_evidence(gradient, scale_to_kl(objective, direction, self.kl_radius))
        return direction, state, describe(gradient, direction)

    def critic(self, objective: LocalObjective, gradient: Tree) -> tuple[Tree, Array]:
        """The compatible weights x and the state's v; Σ_t e w_t z_t is the gradient itself."""
        steps = objective.step_weight.sum()
        (of_states,) = objective.evaluate(_feature_sum(objective, objective.score_weight))

        def product(weights: tuple[Tree, Array]) -> tuple[Tree, Array]:
            image = objective.evaluate(_normal_fold(objective, *weights))[0]
            return jax.tree.map(lambda m, v: m / steps + jnp.asarray(self.damping * v, m.dtype), image, weights)

        right = jax.tree.map(lambda b: b / steps, (gradient, of_states))
        return conjugate_gradient(product, right, steps=self.cg_steps, tolerance=self.tolerance).x


def natural_actor_critic(
    *,
    damping: float = 0.1,
    cg_steps: int = 10,
    tolerance: float = 1e-5,
    step_length: StepLength = "kl",
    kl_radius: float = 0.01,
) -> NaturalActorCritic:
    """Check the options and build the rule."""
    check_choice("step_length", step_length, STEP_LENGTHS)
    return NaturalActorCritic(
        damping=check_number("damping", damping, at_least=0),
        tolerance=check_number("tolerance", tolerance, at_least=0),
        kl_radius=check_number("kl_radius", kl_radius, above=0),
        cg_steps=check_count("cg_steps", cg_steps),
        step_length=step_length,
    )


def features(observation: Array, dtype: Any) -> Array:
    """φ [time, env, 1 + size]."""
    seen = observation.reshape(*observation.shape[:2], -1).astype(dtype)
    return jnp.concatenate([jnp.ones((*seen.shape[:2], 1), dtype), seen], axis=-1)


def _feature_sum(objective: LocalObjective, weights: Array) -> Fold:
    """Σ w φ."""
    return sum_fold(
        lambda arrays: jnp.einsum("te,tef->f", arrays[1], features(arrays[0], arrays[1].dtype)),
        (objective.rollout.observation, weights),
    )


def _normal_fold(objective: LocalObjective, x: Tree, v: Array) -> Fold:
    """Σ e (zᵀx + φᵀv) (z, φ)."""

    def of_chunk(arrays: tuple[Chunk, Array]) -> tuple[Tree, Array]:
        chunk, e = arrays
        phi = features(chunk.observation, e.dtype)
        along = derivatives.directional_scores(objective.policy, objective.params, chunk, x)
        weights = e * (along + phi @ v)
        scores = derivatives.score_sum(objective.policy, objective.params, chunk, weights)
        return scores, jnp.einsum("te,tef->f", weights, phi)

    return sum_fold(of_chunk, (objective.chunk, objective.step_weight))
