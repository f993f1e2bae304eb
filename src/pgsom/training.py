"""Training: ``init``, ``step`` and the compiled program that repeats ``step``.

What plays is a `Collector`: ``init`` and ``step`` take the one that suits an environment in JAX, ``start`` and
``update`` any.

One program per structure: environment, policy and the method's parts compile; its numbers, the seeds and the number
of updates do not. Seeds (and methods that differ only in numbers) are a leading axis of the state, vmapped. Seed i's
key is ``fold_in(key(root), i)``, so adding seeds never changes the others.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.collectors import Batch, Collector, collector_of, statistics_of
from pgsom.diagnosis import log_probabilities, not_finite
from pgsom.environments import Environment, Spec
from pgsom.folds import largest_of_batch
from pgsom.methods import Method
from pgsom.objective import LocalObjective, observe, start_baseline, update_baseline
from pgsom.policies import Policy, standardised
from pgsom.rollout import Score, score
from pgsom.schemes import combine, integrate
from pgsom.updates import Info
from pgsom.updates.update_rule import all_finite, batches_of, points_of, update_from

Tree = Any


class TrainState(NamedTuple):
    """All that the next update needs, and the counters. Episodes and steps count every stage of every update."""

    params: Tree
    rule_state: Tree
    baseline_state: Tree
    experience: Tree
    """What the collector carries from batch to batch."""
    key: Array
    updates: Array
    episodes: Array
    env_steps: Array
    skipped: Array
    failures: Array
    """Updates left out in a row, up to now. A seed at which they reach the method's `freeze_after` is frozen."""


class Metrics(NamedTuple):
    """What one update reports, of its first stage: its first batch, and the rule's direction there, unclipped.

    That batch is played at θ, but for the few rules that play elsewhere (`RoamingRule`). Of a seed that is frozen
    nothing is reported: the floating-point entries are NaN, and the counters stand still.
    """

    episode_return: Array
    episode_length: Array
    entropy: Array
    gradient_norm: Array
    direction_norm: Array
    alignment: Array
    negative_curvature: Array
    declined: Array
    """1 if the rule found no step that it could answer for and stayed where it was."""
    effective_episodes: Array
    """Kish's effective number of episodes in the last stage: below the batch only where stages are re-weighted."""
    skipped: Array
    """1 if something was not finite and the update was left out."""
    not_finite: Array
    """What was not finite, a bit for each of `pgsom.diagnosis.QUANTITIES`; 0 in an update that counts."""
    frozen: Array
    """1 if the seed had failed too often in a row, so that this update was not made."""
    episodes: Array
    env_steps: Array


def seed_keys(root: int, seeds: int | Sequence[int]) -> Array:
    """The keys of these seeds, or of seeds 0 … seeds − 1."""
    chosen = jnp.arange(seeds) if isinstance(seeds, int) else jnp.asarray(seeds)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(jax.random.key(root), chosen)


def collector_for(environment: Environment, policy: Policy, method: Method) -> Collector:
    """What plays the method's batches in an environment in JAX."""
    return collector_of(environment, policy, method.plan, method.weighting.rate)


def init(environment: Environment, policy: Policy, method: Method, key: Array) -> TrainState:
    """Draw the parameters; everything else starts at zero."""
    return start(collector_for(environment, policy, method), policy, method, key)


def step(environment: Environment, policy: Policy, method: Method, state: TrainState) -> tuple[TrainState, Metrics]:
    """One update: stages, combination, clipping, ascent. Left out, and counted, if anything is not finite."""
    return update(collector_for(environment, policy, method), policy, method, state)


def start(collector: Collector, policy: Policy, method: Method, key: Array) -> TrainState:
    """`init` with any collector."""
    key, params_key = jax.random.split(key)
    # With the dtypes they will keep: a weakly typed leaf would compile the second chunk of updates anew.
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.result_type(leaf)), policy.init(params_key))
    experience = collector.init(jax.random.fold_in(params_key, 1))
    baseline_state = start_baseline(method.weighting, collector.observation, jax.random.fold_in(params_key, 2))
    zero = jnp.zeros((), jnp.int32)
    return TrainState(params, method.rule.init(params), baseline_state, experience, key, *[zero] * 5)


class _Stages:
    """The stages of one update: plays where the rule wants it and asks the rule for directions, in order."""

    def __init__(self, collector: Collector, policy: Policy, method: Method, state: TrainState, keys: list[Array]):
        self.collector, self.policy, self.method, self.state, self.keys = collector, policy, method, state, keys
        self.experience = state.experience
        self.observed: list[tuple[LocalObjective, ...]] = []

    def direction_at(self, index: int, params: Tree) -> tuple[Tree, tuple[Tree, Info]]:
        """The rule's direction in stage `index`, and beside it the rule's new state and report."""
        again = index > 0 and self.method.stage_data == "reweighted"
        self.observed.append((self.observed[0][0].at(params),) if again else self.play(params, self.keys[index]))
        direction, rule_state, info = update_from(self.method.rule, self.observed[-1], self.state.rule_state, params)
        return direction, (rule_state, info)

    def play(self, params: Tree, key: Array) -> tuple[LocalObjective, ...]:
        """A batch at each of the rule's points."""
        rule = self.method.rule
        point_key, *batch_keys = jax.random.split(key, 1 + batches_of(rule))
        points = points_of(rule, self.state.rule_state, params, point_key)
        return tuple(map(self.observe_at, points, batch_keys))

    def observe_at(self, params: Tree, key: Array) -> LocalObjective:
        """One batch, and what it says."""
        play_key, estimate_key = jax.random.split(key)
        rollout, self.experience = self.collector.collect(play_key, params, self.experience)
        return observe(self.method.weighting, self.state.baseline_state, self.policy, params, rollout, estimate_key)

    def played(self) -> list[Batch]:
        """Every batch that was played."""
        batches = self.observed if self.method.stage_data == "fresh" else self.observed[:1]
        return [objective.rollout for objectives in batches for objective in objectives]

    def objectives(self) -> list[LocalObjective]:
        """Every objective, of played batches and of re-weighted ones."""
        return [objective for objectives in self.observed for objective in objectives]


def update(collector: Collector, policy: Policy, method: Method, state: TrainState) -> tuple[TrainState, Metrics]:
    """`step` with any collector."""
    method = method.at(state.updates)
    key, *stage_keys = jax.random.split(state.key, 1 + method.scheme.stages)
    stages = _Stages(collector, policy, method, state, stage_keys)
    direction, beside = integrate(method.scheme, stages.direction_at, state.params, method.learning_rate)
    rule_state = combine(method.scheme.b, [s for s, _ in beside])
    clipped = method.clipping(direction)
    params = jax.tree.map(lambda p, d: p + jnp.asarray(method.learning_rate * d, p.dtype), state.params, clipped)
    lesson_key = jax.random.fold_in(state.key, 1)
    baseline_state = update_baseline(method.weighting, state.baseline_state, stages.observed[0][0], lesson_key)
    new = (params, rule_state, baseline_state, stages.experience)
    frozen = state.failures >= method.freeze_after
    fine, bits = _judge(stages, [info for _, info in beside], direction, new, frozen)
    old = (state.params, state.rule_state, state.baseline_state, state.experience)
    learned, rule_state, baseline_state, experience = jax.tree.map(partial(jnp.where, fine), new, old)
    after = TrainState(
        learned,
        rule_state,
        baseline_state,
        experience,
        key,
        state.updates + 1,
        state.episodes + sum(batch.ended for batch in stages.played()),
        state.env_steps + sum(batch.steps for batch in stages.played()),
        state.skipped + ~fine,
        jnp.where(fine, 0, state.failures + 1),
    )
    after = jax.tree.map(partial(jnp.where, frozen), state, after)
    return after, _report(stages.observed, beside[0][1], bits, frozen, after)


def _judge(
    stages: _Stages, infos: list[Info], direction: Tree, new: tuple[Tree, Tree, Tree, Tree], frozen: Array
) -> tuple[Array, Array]:
    """Whether all is finite, and if not, what is not."""
    # The direction is judged before clipping, which would make something finite of an infinite gradient.
    told = [(info.gradient_norm, info.negative_curvature) for info in infos]
    played = [(objective.rollout.reward, log_probabilities(objective)) for objective in stages.objectives()]
    fine = all_finite((new, direction, told, played))
    # What was wrong is looked for only where something is: one scalar condition for all members of a batch.
    look = largest_of_batch((~fine & ~frozen).astype(jnp.int32)) > 0
    nothing = jnp.zeros((), jnp.int32)
    bits = jax.lax.cond(look, lambda: not_finite(stages.objectives(), infos, direction, new), lambda: nothing)
    return fine, jnp.where(fine, nothing, bits)


def trained(policy: Policy, observation: Spec, state: TrainState) -> tuple[Policy, Tree]:
    """The policy and parameters to use from now on: for observations as the environment gives them."""
    seen = statistics_of(state.experience).observations
    return (policy, state.params) if seen is None else (standardised(policy, observation), (state.params, seen))


def train_updates(
    environment: Environment,
    policy: Policy,
    method: Method,
    state: TrainState,
    updates: Array,
    capacity: int,
) -> tuple[TrainState, Metrics]:
    """`updates` ≤ `capacity` updates; metrics [capacity], the rows behind `updates` zero."""
    shapes = jax.eval_shape(partial(step, environment, policy), method, state)[1]
    empty = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shapes)

    def body(index: Array, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
        state, rows = carry
        state, row = step(environment, policy, method, state)
        return state, jax.tree.map(lambda r, x: jax.lax.dynamic_update_index_in_dim(r, x, index, 0), rows, row)

    return jax.lax.fori_loop(0, updates, body, (state, empty))


@partial(jax.jit, static_argnames=("environment", "policy", "capacity", "many_methods"))
def train_program(
    environment: Environment,
    policy: Policy,
    method: Method,
    state: TrainState,
    updates: Array,
    *,
    capacity: int,
    many_methods: bool = False,
) -> tuple[TrainState, Metrics]:
    """`train_updates` for every member of the state's leading axis, with one method or one for each member.

    `updates` is data, so the last, shorter chunk of a run uses the same compiled program, and 0 updates compile it.
    """

    def of_member(method: Method, member: TrainState) -> tuple[TrainState, Metrics]:
        return train_updates(environment, policy, method, member, updates, capacity)

    return jax.vmap(of_member, in_axes=(0 if many_methods else None, 0))(method, state)


@partial(jax.jit, static_argnames=("environment", "policy", "many_methods"))
def init_program(
    environment: Environment, policy: Policy, method: Method, keys: Array, *, many_methods: bool = False
) -> TrainState:
    """`init` for every member."""
    return jax.vmap(partial(init, environment, policy), in_axes=(0 if many_methods else None, 0))(method, keys)


@partial(jax.jit, static_argnames=("environment", "policy", "episodes", "deterministic"))
def evaluate_program(
    environment: Environment, policy: Policy, params: Tree, keys: Array, *, episodes: int, deterministic: bool
) -> Score:
    """`score` for every member of the parameters' leading axis."""
    return jax.vmap(lambda p, key: score(environment, policy, p, key, episodes, deterministic=deterministic))(
        params, keys
    )


def _report(
    observed: list[tuple[LocalObjective, ...]], info: Info, bits: Array, frozen: Array, state: TrainState
) -> Metrics:
    first = observed[0][0]
    batch = first.rollout
    weight = _weight_of_pieces(observed[-1][0])
    entropies = jax.vmap(jax.vmap(first.policy.distribution.entropy))(batch.outputs)
    row = Metrics(
        episode_return=batch.mean_return,
        episode_length=batch.mean_length,
        entropy=(entropies * batch.mask).sum() / batch.steps,
        gradient_norm=info.gradient_norm,
        direction_norm=info.direction_norm,
        alignment=info.alignment,
        negative_curvature=info.negative_curvature,
        declined=info.declined,
        effective_episodes=jnp.square(weight.sum()) / jnp.square(weight).sum(),
        skipped=(bits != 0).astype(jnp.int32),
        not_finite=bits,
        frozen=frozen.astype(jnp.int32),
        episodes=state.episodes,
        env_steps=state.env_steps,
    )
    silent = jax.tree.map(lambda leaf: jnp.where(frozen, jnp.nan if leaf.dtype.kind == "f" else 0, leaf), row)
    return silent._replace(frozen=row.frozen, episodes=row.episodes, env_steps=row.env_steps)


def _weight_of_pieces(objective: LocalObjective) -> Array:
    """e, once for each piece, and 0 for what is none."""
    weight = objective.episode_weight
    return weight if weight.ndim == 1 else weight * objective.rollout.begins * objective.rollout.mask
