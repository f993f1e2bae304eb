"""PPO's update: several passes over one batch, by a surrogate that does not reward going far."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from pgsom.checks import check_count, check_flag, check_number
from pgsom.minibatches import deal, take
from pgsom.objective import LocalObjective
from pgsom.policies import Policy
from pgsom.policies.derivatives import Chunk, log_probs, outputs
from pgsom.updates.update_rule import Info, describe

Tree = Any
TINY = 1e-8


class Seen(NamedTuple):
    """The steps of a minibatch [step, …]."""

    chunk: Chunk
    outputs: Array
    """the distribution at θ_old"""
    advantage: Array
    entropy: Array
    """coefficient of the entropy"""
    weight: Array
    """how much the step counts"""


class _Pass(NamedTuple):
    """What is carried from minibatch to minibatch."""

    params: Tree
    optimiser: Tree
    gradients: Tree
    taken: Array
    stopped: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Proximal:
    """direction = θ_K − θ, after K steps of Adam on minibatches of the batch that was played at θ.

        ρ_t = π_ϑ(a_t|s_t) / π_θ(a_t|s_t)
        L(ϑ) = mean_t [ min(ρ_t Â_t, clip(ρ_t, 1 − ε, 1 + ε) Â_t) + c H(π_ϑ(·|s_t)) ]
        ϑ ← ϑ + Adam(clip_norm(∇L(ϑ)))

    Every pass deals all steps anew into minibatches; in each the advantages Â are standardised. If a minibatch shows
    a mean KL divergence beyond `stop_kl`, the rest of the update is left out.
    """

    learning_rate: Any
    clip: Any
    max_norm: Any
    stop_kl: Any
    b1: Any
    b2: Any
    eps: Any
    epochs: int = field(metadata={"static": True})
    minibatches: int = field(metadata={"static": True})
    standardise: bool = field(metadata={"static": True})

    def slowed(self, factor: Any) -> "Proximal":
        """With the learning rate times `factor`."""
        return replace(self, learning_rate=self.learning_rate * factor)

    def init(self, params: Tree) -> Tree:
        return self._transform().init(params)

    def update(self, objective: LocalObjective, state: Tree, params: Tree) -> tuple[Tree, Tree, Info]:
        batch, weight = objective.rollout, objective.step_weight
        # The entropy's coefficient by itself: that a step counts is said by its weight.
        arrays = Seen(objective.chunk, objective.outputs, objective.weight, objective.entropy_weight, weight)

        def one_step(at: _Pass, dealt: tuple[Array, Array]) -> tuple[_Pass, None]:
            row, counts = dealt
            seen = take(arrays, row)
            return self._step(objective.policy, at, seen._replace(weight=seen.weight * counts)), None

        def one_pass(at: _Pass, key: Array) -> tuple[_Pass, None]:
            return jax.lax.scan(one_step, at, deal(key, batch.mask, self.minibatches))

        nothing = jnp.zeros(())
        start = _Pass(params, state, jax.tree.map(jnp.zeros_like, params), nothing, jnp.zeros((), bool))
        keys = jax.random.split(jax.random.fold_in(objective.key, 4), self.epochs)
        end = jax.lax.scan(one_pass, start, keys)[0]
        direction = jax.tree.map(jnp.subtract, end.params, params)
        gradient = jax.tree.map(lambda total: total / jnp.maximum(end.taken, 1), end.gradients)
        return direction, end.optimiser, describe(gradient, direction)

    def _step(self, policy: Policy, at: _Pass, seen: Seen) -> _Pass:
        """One step of Adam, unless the policy has gone too far."""
        gradient, divergence = jax.grad(self.surrogate, argnums=1, has_aux=True)(policy, at.params, seen)
        stopped = at.stopped | (divergence > self.stop_kl)
        descent = jax.tree.map(jnp.negative, gradient)
        moves, optimiser = self._transform().update(descent, at.optimiser, at.params)
        moved = (optax.apply_updates(at.params, moves), optimiser, jax.tree.map(jnp.add, at.gradients, gradient))
        stayed = (at.params, at.optimiser, at.gradients)
        params, kept, total = jax.tree.map(lambda old, new: jnp.where(stopped, old, new), stayed, moved)
        return _Pass(params, kept, total, at.taken + ~stopped, stopped)

    def surrogate(self, policy: Policy, params: Tree, seen: Seen) -> tuple[Array, Array]:
        """L, and the mean KL divergence from θ."""
        head, share = policy.distribution, seen.weight / jnp.maximum(seen.weight.sum(), TINY)
        column = jax.tree.map(lambda leaf: leaf[:, None], seen.chunk)
        new = outputs(policy, params, column.observation)[:, 0]
        log_ratio = log_probs(policy, params, column)[:, 0] - jax.vmap(head.log_prob)(seen.outputs, seen.chunk.action)
        ratio, advantage = jnp.exp(log_ratio), seen.advantage
        if self.standardise:
            centred = advantage - jnp.sum(share * advantage)
            advantage = centred / (jnp.sqrt(jnp.sum(share * jnp.square(centred))) + TINY)
        near = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        gained = jnp.minimum(ratio * advantage, near * advantage) + seen.entropy * jax.vmap(head.entropy)(new)
        return jnp.sum(share * gained), jnp.sum(share * jax.vmap(head.kl)(seen.outputs, new))

    def _transform(self) -> optax.GradientTransformation:
        adam = optax.adam(self.learning_rate, b1=self.b1, b2=self.b2, eps=self.eps)
        return optax.chain(optax.clip_by_global_norm(self.max_norm), adam)


def proximal(
    *,
    learning_rate: float,
    clip: float,
    max_norm: float,
    stop_kl: float,
    b1: float,
    b2: float,
    eps: float,
    epochs: int,
    minibatches: int,
    standardise: bool,
) -> Proximal:
    """PPO's update from checked parts; see `Proximal`."""
    return Proximal(
        learning_rate=check_number("learning_rate", learning_rate, above=0),
        clip=check_number("clip", clip, above=0, infinite=True),
        max_norm=check_number("max_gradient_norm", max_norm, above=0, infinite=True),
        stop_kl=check_number("stop_kl", stop_kl, above=0, infinite=True),
        b1=check_number("b1", b1, at_least=0, below=1),
        b2=check_number("b2", b2, at_least=0, below=1),
        eps=check_number("eps", eps, above=0),
        epochs=check_count("epochs", epochs),
        minibatches=check_count("minibatches", minibatches),
        standardise=check_flag("standardise_advantages", standardise),
    )
