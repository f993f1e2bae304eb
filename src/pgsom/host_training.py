"""Training with an environment on the host: everything but the environment's steps is compiled.

`training.update` is one function that plays where it wants. Here it is compiled in pieces, without being written a
second time: it is traced with the batches that have been played so far, and stops where it asks for one more. The piece
before the stop says where to play that batch; when none is wanted, the piece is the whole update. An update of one
batch is two programs, the first of which only splits keys; one of s batches computes its i-th direction s − i + 1
times, while the environment, which costs far more, is stepped once.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import Array

from pgsom.environments import EpisodeError, HostEnvironment, Spec
from pgsom.host_collector import HostCollector
from pgsom.methods import Method
from pgsom.policies import Policy
from pgsom.rollout import Rollout
from pgsom.training import Metrics, TrainState, start, update

Tree = Any


class _Wanted(Exception):  # noqa: N818 (a request, not an error)
    """A batch that has not been played."""

    def __init__(self, key: Array, params: Tree) -> None:
        super().__init__()
        self.key, self.params = key, params


class Played:
    """A collector that hands out batches already played, in order, and then says which it lacks."""

    def __init__(self, observation: Spec, batches: Sequence[Rollout]) -> None:
        self._observation, self._batches = observation, list(batches)

    @property
    def observation(self) -> Spec:
        return self._observation

    def init(self, key: Array) -> Tree:
        del key
        return ()

    def collect(self, key: Array, params: Tree, experience: Tree) -> tuple[Rollout, Tree]:
        if not self._batches:
            raise _Wanted(key, params)
        return self._batches.pop(0), experience


@partial(jax.jit, static_argnames=("observation", "policy", "many_methods"))
def host_init_program(
    observation: Spec, policy: Policy, method: Method, keys: Array, *, many_methods: bool = False
) -> TrainState:
    """`training.start` for every member."""
    begin = partial(start, Played(observation, ()), policy)
    return jax.vmap(begin, in_axes=(0 if many_methods else None, 0))(method, keys)


@partial(jax.jit, static_argnames=("observation", "policy", "many_methods"))
def wanted_program(
    observation: Spec,
    policy: Policy,
    method: Method,
    state: TrainState,
    played: tuple[Rollout, ...],
    *,
    many_methods: bool = False,
) -> tuple[Array, Tree]:
    """Key and parameters of the batch that comes after those in `played`, for every member."""

    def of_member(method: Method, member: TrainState, batches: tuple[Rollout, ...]) -> tuple[Array, Tree]:
        try:
            update(Played(observation, batches), policy, method, member)
        except _Wanted as wanted:
            return wanted.key, wanted.params
        raise AssertionError("an update played fewer batches than its method says")

    return jax.vmap(of_member, in_axes=(0 if many_methods else None, 0, 0))(method, state, played)


@partial(jax.jit, static_argnames=("observation", "policy", "many_methods"))
def update_program(
    observation: Spec,
    policy: Policy,
    method: Method,
    state: TrainState,
    played: tuple[Rollout, ...],
    *,
    many_methods: bool = False,
) -> tuple[TrainState, Metrics]:
    """`training.update` for every member, all its batches having been played."""

    def of_member(method: Method, member: TrainState, batches: tuple[Rollout, ...]) -> tuple[TrainState, Metrics]:
        return update(Played(observation, batches), policy, method, member)

    return jax.vmap(of_member, in_axes=(0 if many_methods else None, 0, 0))(method, state, played)


class HostTraining:
    """A run on the host: opened copies, and the compiled pieces of an update."""

    def __init__(
        self,
        environment: HostEnvironment,
        policy: Policy,
        method: Method,
        labels: Sequence[str],
        *,
        many_methods: bool = False,
    ) -> None:
        self.method, self.batches = method, method.batches_per_update
        self.collector = HostCollector(environment, policy, labels, method.episodes_per_batch)
        self.failure: EpisodeError | None = None
        """What the environment raised, if it did; the state is that before the update in which it did."""
        bound = {"many_methods": many_methods}
        self._init = partial(host_init_program, environment.observation, policy, method, **bound)
        self._wanted = partial(wanted_program, environment.observation, policy, method, **bound)
        self._update = partial(update_program, environment.observation, policy, method, **bound)

    def init(self, keys: Array) -> TrainState:
        """The state before the first update."""
        return self._init(keys)

    def advance(self, state: TrainState, updates: int) -> tuple[TrainState, Metrics | None, int]:
        """Up to `updates` updates, their metrics [member, update], and how many: fewer if the environment raised."""
        rows: list[Metrics] = []
        for _ in range(updates):
            try:
                state, row = self.step(state)
            except EpisodeError as failure:
                self.failure = failure
                break
            rows.append(jax.tree.map(np.asarray, row))
        if not rows:
            return state, None, 0
        return state, jax.tree.map(lambda *parts: np.stack(parts, axis=1), *rows), len(rows)

    def step(self, state: TrainState) -> tuple[TrainState, Metrics]:
        """One update of every member."""
        played: tuple[Rollout, ...] = ()
        for _ in range(self.batches):
            keys, params = self._wanted(state, played)
            played = (*played, self.collector.collect(keys, params))
        return self._update(state, played)

    def close(self) -> None:
        """Close the copies."""
        self.collector.close()
