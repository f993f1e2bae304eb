"""The critic: a value function V_φ(s) that learns, as the baseline of everything.

It has a network, an optimiser and a number of passes of its own; its state travels beside the policy's parameters. What
it says of a batch is from before it learns of that batch, so with λ = 1 and no bootstrapping w_t = d_t (G_t − V(s_t))
keeps gradient and Hessians unbiased, whatever V is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from pgsom.advantages import ADVANTAGES, Advantage, Valued, gae, n_step
from pgsom.checks import check_choice, check_count, check_flag, check_number, wrong
from pgsom.collectors import Batch
from pgsom.environments import Discrete, Spec
from pgsom.folds import map_fold, run, sum_fold
from pgsom.minibatches import deal, take
from pgsom.policies.networks import ACTIVATIONS, MLP, Network, Params
from pgsom.returns import pieces_of
from pgsom.segments import Segments

Tree = Any
Optimiser = Literal["adam", "rmsprop", "sgd"]
OPTIMISERS: dict[str, Callable[[Any], optax.GradientTransformation]] = {
    "adam": lambda rate: optax.adam(rate, eps=1e-5),
    "rmsprop": lambda rate: optax.rmsprop(rate, decay=0.99, eps=1e-5, eps_in_sqrt=False),
    "sgd": optax.sgd,
}
INFINITE = float("inf")


class CriticState(NamedTuple):
    """What the critic has learned."""

    params: Params
    optimiser: Tree


class Lesson(NamedTuple):
    """What a batch has to teach, [time, env]."""

    value: Array
    """V(s_t) as the critic had it"""
    target: Array
    """what it should have been"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Critic:
    """V_φ, fitted to TD(λ) targets R_t.

    `epochs` passes over the batch, each in `minibatches` parts, of the optimiser on L(φ) = mean_t ½ (V_φ(s_t) − R_t)².
    With a finite `clip` ε the larger of this and ½ (clip(V_φ, V_old − ε, V_old + ε) − R)² counts, as in PPO's code.
    """

    learning_rate: Any = 0.003
    gae_lambda: Any = 1.0
    """λ of the advantages"""
    td_lambda: Any = 1.0
    """λ of the targets"""
    n: Any = 5
    """rewards in an n-step advantage"""
    clip: Any = INFINITE
    """how far from its old value V may go to lower its loss"""
    clip_norm: Any = INFINITE
    """largest norm of the loss's gradient"""
    advantage: Advantage = field(default="gae", metadata={"static": True})
    bootstrap: bool = field(default=True, metadata={"static": True})
    """whether an episode cut off by its time limit is worth V of where it stood; segments always are"""
    epochs: int = field(default=10, metadata={"static": True})
    minibatches: int = field(default=1, metadata={"static": True})
    optimiser: Optimiser = field(default="adam", metadata={"static": True})
    hidden: tuple[int, ...] = field(default=(64, 64), metadata={"static": True})
    activation: str = field(default="tanh", metadata={"static": True})
    network: Network | None = field(default=None, metadata={"static": True})
    """instead of an MLP of these widths; its one output is V"""
    unbiased: ClassVar[bool] = False
    """only with λ = 1 and without bootstrapping"""
    least_episodes: ClassVar[int] = 1

    def init(self, observation: Spec, key: Array) -> CriticState:
        """Draw V's parameters, for observations like these."""
        inputs = observation.n if isinstance(observation, Discrete) else math.prod(observation.shape)
        network = self.network or self._mlp(inputs, one_hot=isinstance(observation, Discrete))
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), network.init(key))
        return CriticState(params, self._transform().init(params))

    def values(self, state: CriticState, observation: Array, filled: Array) -> Array:
        """V [time, env]; 0 behind the last chunk that is filled."""
        return run((map_fold(lambda seen: self._of_steps(state.params, seen), observation),), filled)[0]

    def valued(self, state: CriticState, batch: Batch) -> Valued:
        """The batch's steps with their values."""
        mask, value = batch.mask, self.values(state, batch.observation, batch.filled)
        reward = batch.reward * batch.reward_scale
        if isinstance(batch, Segments):
            unworthy = batch.terminated | (batch.truncated & (not self.bootstrap))
            following = self.values(state, batch.next_observation, batch.filled)
            begins = batch.begins
            last = batch.over | jnp.concatenate([begins[1:], jnp.ones_like(begins[:1])])
        else:
            last = jnp.arange(value.shape[0])[:, None] == batch.length - 1
            unworthy = last & (batch.terminated | (batch.truncated & (not self.bootstrap)))
            final = jax.vmap(lambda seen: self._of_one(state.params, seen))(batch.final_observation)
            following = jnp.where(last, final, jnp.concatenate([value[1:], value[-1:]]))
        next_value = jnp.where(unworthy, 0, following)
        return Valued(mask * reward, mask * value, mask * next_value, last, pieces_of(batch))

    def judge(self, state: CriticState, batch: Batch, discount: Any) -> tuple[Array, Lesson]:
        """Advantages [time, env], and what the batch has to teach."""
        steps = self.valued(state, batch)
        advantage = (
            n_step(steps, discount, self.n) if self.advantage == "n-step" else gae(steps, discount, self.gae_lambda)
        )
        return advantage, Lesson(steps.value, steps.value + gae(steps, discount, self.td_lambda))

    def learn(self, state: CriticState, batch: Batch, lesson: Lesson, key: Array) -> CriticState:
        """All passes over the batch."""
        arrays = (batch.observation, lesson, batch.mask)

        def step(state: CriticState, gradient: Tree) -> CriticState:
            moves, optimiser = self._transform().update(gradient, state.optimiser, state.params)
            return CriticState(optax.apply_updates(state.params, moves), optimiser)

        def over_all(state: CriticState, key: Array) -> tuple[CriticState, None]:
            del key
            fold = sum_fold(lambda chunk: jax.grad(self._loss)(state.params, *chunk), arrays)
            (total,) = run((fold,), batch.filled)
            return step(state, jax.tree.map(lambda g: g / batch.steps, total)), None

        def over_part(state: CriticState, dealt: tuple[Array, Array]) -> tuple[CriticState, None]:
            index, weight = dealt
            seen, told, _ = take(arrays, index)
            one_column = jax.tree.map(lambda leaf: leaf[:, None], (seen, told, weight))
            gradient = jax.grad(self._loss)(state.params, *one_column)
            return step(state, jax.tree.map(lambda g: g / jnp.maximum(weight.sum(), 1), gradient)), None

        def over_parts(state: CriticState, key: Array) -> tuple[CriticState, None]:
            return jax.lax.scan(over_part, state, deal(key, batch.mask, self.minibatches))

        one_pass = over_all if self.minibatches == 1 else over_parts
        return jax.lax.scan(one_pass, state, jax.random.split(key, self.epochs))[0]

    def _loss(self, params: Params, observation: Array, lesson: Lesson, weight: Array) -> Array:
        """Σ weight ½ (V − R)²."""
        value = self._of_steps(params, observation)
        near = lesson.value + jnp.clip(value - lesson.value, -self.clip, self.clip)
        errors = jnp.maximum(jnp.square(value - lesson.target), jnp.square(near - lesson.target))
        return jnp.sum(weight * 0.5 * errors)

    def _of_steps(self, params: Params, observation: Array) -> Array:
        return jax.vmap(jax.vmap(lambda seen: self._of_one(params, seen)))(observation)

    def _of_one(self, params: Params, observation: Array) -> Array:
        if self.network is not None:
            return jnp.reshape(self.network.apply(params, observation), ())
        # An observation without axes that is a whole number is the number of a state.
        one_hot = jnp.issubdtype(observation.dtype, jnp.integer) and observation.ndim == 0
        seen = observation if one_hot else observation.reshape(-1)
        return self._mlp(params[0].weight.shape[0], one_hot=one_hot).apply(params, seen)[0]

    def _mlp(self, inputs: int, *, one_hot: bool) -> MLP:
        return MLP(inputs, 1, self.hidden, self.activation, one_hot=one_hot, last_scale=1.0)

    def _transform(self) -> optax.GradientTransformation:
        return optax.chain(optax.clip_by_global_norm(self.clip_norm), OPTIMISERS[self.optimiser](self.learning_rate))


def make_critic(
    *,
    learning_rate: float = 0.003,
    gae_lambda: float = 1.0,
    td_lambda: float = 1.0,
    n_step: int = 5,
    clip: float = INFINITE,
    clip_norm: float = INFINITE,
    advantage: Advantage = "gae",
    bootstrap: bool = True,
    epochs: int = 10,
    minibatches: int = 1,
    optimiser: Optimiser = "adam",
    hidden: Sequence[int] = (64, 64),
    activation: str = "tanh",
    network: Network | None = None,
) -> Critic:
    """A critic from checked parts; see `Critic`."""
    if not isinstance(hidden, tuple | list):
        raise wrong("critic_hidden", hidden, "accepted is a sequence of widths, such as (64, 64)")
    check_choice("advantage", advantage, ADVANTAGES)
    check_choice("critic_optimiser", optimiser, OPTIMISERS)
    return Critic(
        learning_rate=check_number("critic_rate", learning_rate, above=0),
        gae_lambda=check_number("gae_lambda", gae_lambda, at_least=0, at_most=1),
        td_lambda=check_number("td_lambda", td_lambda, at_least=0, at_most=1),
        n=check_count("n_step", n_step),
        clip=check_number("critic_clip", clip, above=0, infinite=True),
        clip_norm=check_number("critic_clip_norm", clip_norm, above=0, infinite=True),
        advantage=advantage,
        bootstrap=check_flag("bootstrap", bootstrap),
        epochs=check_count("critic_epochs", epochs),
        minibatches=check_count("critic_minibatches", minibatches),
        optimiser=optimiser,
        hidden=tuple(check_count("critic_hidden", width) for width in hidden),
        activation=check_choice("critic_activation", activation, ACTIVATIONS),
        network=network,
    )
