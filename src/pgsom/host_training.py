"""Training with an environment on the host: everything but the environment's steps is compiled.

`training.update` is one function that plays where it wants. Here it is compiled in pieces, without being written a
second time: it is traced with the batches that have been played so far, and stops where it asks for one more. The piece
before the stop says where to play that batch; when none is wanted, the piece is the whole update. An update of one
batch is two programs, the first of which only splits keys; one of s batches computes its i-th direction s − i + 1
times, while the environment, which costs far more, is stepped once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from pgsom.acting import first_noise
from pgsom.collectors import Batch, BatchPlan, normalised_episodes
from pgsom.environments import HostEnvironment, Spec
from pgsom.host_play import HostPlayer
from pgsom.methods import Method
from pgsom.normalisation import Moments, Statistics, scale_of, standardise
from pgsom.policies import Policy
from pgsom.segments import Segments, Standing, padded
from pgsom.training import Metrics, TrainState, start, update

Tree = Any


class _Wanted(Exception):  # noqa: N818 (a request, not an error)
    """A batch that has not been played."""

    def __init__(self, key: Array, params: Tree, seen: Moments | None) -> None:
        super().__init__()
        self.key, self.params, self.seen = key, params, seen


@dataclass
class Played:
    """A collector that hands out batches already played, in order, and then says which it lacks.

    Statistics are carried as they are with environments in JAX; simulators in mid-episode stay on the host.
    """

    observation: Spec
    plan: BatchPlan
    discount: Any
    batches: list[Batch] = field(default_factory=list)

    def init(self, key: Array) -> Statistics | Standing:
        del key
        known = self.plan.statistics(self.observation)
        if not self.plan.steps:
            return known
        return Standing((), jnp.zeros(0), jnp.zeros(0), jnp.zeros(0), jnp.zeros(self.plan.environments), known)

    def collect(self, key: Array, params: Tree, experience: Tree) -> tuple[Batch, Tree]:
        if not self.batches:
            raise _Wanted(key, params, self.statistics(experience).observations)
        raw = self.batches.pop(0)
        if isinstance(raw, Segments):
            return _normalised_segments(raw, experience, self.discount)
        return normalised_episodes(raw, experience, self.discount)

    def statistics(self, experience: Tree) -> Statistics:
        return experience.statistics if isinstance(experience, Standing) else experience


def _normalised_segments(raw: Segments, standing: Standing, discount: Any) -> tuple[Segments, Standing]:
    """Segments as the environment gave them, as learning is given them; and where the next ones begin."""
    known = standing.statistics

    def add(before: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        reward, taken, over = row
        now = jnp.where(taken, discount * before + reward, before)
        return jnp.where(over, 0, now), now

    last, discounted = jax.lax.scan(add, standing.discounted, (raw.reward, raw.taken, raw.over))
    segments = raw._replace(
        observation=standardise(known.observations, raw.observation),
        next_observation=standardise(known.observations, raw.next_observation),
        reward_scale=scale_of(known.returns),
    )
    known = known.with_more(raw.observation, discounted, raw.taken)
    return padded(segments), standing._replace(discounted=last, statistics=known)


@partial(jax.jit, static_argnames=("observation", "policy", "many_methods"))
def host_init_program(
    observation: Spec, policy: Policy, method: Method, keys: Array, *, many_methods: bool = False
) -> TrainState:
    """`training.start` for every member."""

    def of_member(method: Method, key: Array) -> TrainState:
        return start(_played(observation, method, ()), policy, method, key)

    return jax.vmap(of_member, in_axes=(0 if many_methods else None, 0))(method, keys)


class Wants(NamedTuple):
    """What a batch is to be played with, for every member."""

    key: Array
    """its data"""
    params: Tree
    seen: Moments | None
    noise: Array | None
    """`acting.first_noise`"""


@partial(jax.jit, static_argnames=("observation", "policy", "many_methods"))
def wanted_program(
    observation: Spec,
    policy: Policy,
    method: Method,
    state: TrainState,
    played: tuple[Batch, ...],
    *,
    many_methods: bool = False,
) -> Wants:
    """What the batch that comes after those in `played` is to be played with."""
    of_member = partial(_wanted, observation, policy)
    return jax.vmap(of_member, in_axes=(0 if many_methods else None, 0, 0))(method, state, played)


@partial(jax.jit, static_argnames=("observation", "policy", "many_methods"))
def update_program(
    observation: Spec,
    policy: Policy,
    method: Method,
    state: TrainState,
    played: tuple[Batch, ...],
    *,
    many_methods: bool = False,
) -> tuple[TrainState, Metrics, Wants]:
    """`training.update` for every member, all its batches having been played; and what the next update wants first."""

    def of_member(method: Method, member: TrainState, batches: tuple[Batch, ...]) -> tuple[TrainState, Metrics, Wants]:
        after, metrics = update(_played(observation, method, batches), policy, method, member)
        return after, metrics, _wanted(observation, policy, method, after, ())

    return jax.vmap(of_member, in_axes=(0 if many_methods else None, 0, 0))(method, state, played)


def _wanted(observation: Spec, policy: Policy, method: Method, member: TrainState, batches: tuple[Batch, ...]) -> Wants:
    try:
        update(_played(observation, method, batches), policy, method, member)
    except _Wanted as wanted:
        noise = first_noise(policy, method.plan.environments, wanted.key, wanted.params, method.plan.steps)
        return Wants(jax.random.key_data(wanted.key), wanted.params, wanted.seen, noise)
    raise AssertionError("an update played fewer batches than its method says")


def _played(observation: Spec, method: Method, batches: Sequence[Batch]) -> Played:
    return Played(observation, method.plan, method.weighting.rate, list(batches))


class HostTraining:
    """Opened copies, and the compiled pieces of an update; `labels` name the members in error messages."""

    def __init__(
        self,
        environment: HostEnvironment,
        policy: Policy,
        method: Method,
        labels: Sequence[str],
        *,
        many_methods: bool = False,
    ) -> None:
        self.method = jax.tree.map(jnp.asarray, method)
        self.player = HostPlayer(environment, policy, labels, method.plan.environments)
        bound = {"many_methods": many_methods}
        self._init = partial(host_init_program, environment.observation, policy, self.method, **bound)
        self._wanted = partial(wanted_program, environment.observation, policy, self.method, **bound)
        self._update = partial(update_program, environment.observation, policy, self.method, **bound)
        self._after: tuple[TrainState, Wants] | None = None
        """The state after the last update, and what the next one wants first."""

    def init(self, keys: Array) -> TrainState:
        """The state before the first update."""
        return self._init(keys)

    def step(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One update of every member."""
        known = self._after
        first = known[1] if known is not None and known[0] is state else self._wanted(state, ())
        played: tuple[Batch, ...] = (self._play(first),)
        while len(played) < self.method.batches_per_update:
            played = (*played, self._play(self._wanted(state, played)))
        state, metrics, wants = self._update(state, played)
        self._after = state, wants
        return state, metrics

    def warm(self, state: TrainState) -> Metrics:
        """Compile everything, by an update from a batch in which nothing happened; its metrics, [member, 0]."""
        played: tuple[Batch, ...] = ()
        for _ in range(self.method.batches_per_update):
            played = (*played, self._blank(self._wanted(state, played)))
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:, None][:, :0], self._update(state, played)[1])

    def close(self) -> None:
        """Close the copies."""
        self.player.close()

    def _blank(self, wants: Wants) -> Batch:
        return self.player.blank(wants.key, wants.params, wants.seen, self.method.plan.steps)

    def _play(self, wants: Wants) -> Batch:
        steps, (key, params, seen, noise) = self.method.plan.steps, wants
        if steps:
            return self.player.segments(key, params, seen, steps, noise=noise)
        return self.player.episodes(key, params, seen, noise=noise)
