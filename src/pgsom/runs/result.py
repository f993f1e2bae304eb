"""What a training run leaves: curves, counters, policies."""

from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from pgsom.checks import check_choice, check_count, wrong
from pgsom.environments import Environment, HostEnvironment
from pgsom.host_play import host_score
from pgsom.methods import Method
from pgsom.policies import Policy
from pgsom.runs.plan import Settings
from pgsom.statistics import Interval, bootstrap_mean
from pgsom.training import Metrics, TrainState, evaluate_program

Tree = Any
MOST_NEGATIVE = 0.25
"""A run whose curvature is negative in a larger share of its entries says so."""


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy with its parameters."""

    policy: Policy
    params: Tree
    observation_shape: tuple[int, ...]
    _generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0), repr=False, compare=False)

    def act(self, observation: Any, *, key: Array | None = None) -> NDArray[Any] | np.generic:
        """The most probable action, or with a key a drawn one; leading axes of the observation are a batch."""
        seen = np.asarray(observation)
        shape = self.observation_shape
        batch = seen.shape[: seen.ndim - len(shape)]
        if seen.shape != (*batch, *shape):
            raise wrong("observation", seen.shape, f"accepted are arrays whose last axes have the shape {shape}")
        flat = seen.reshape(-1, *shape)
        if key is None:
            actions = _modes(self.policy, self.params, flat)
        else:
            actions = _samples(self.policy, self.params, flat, jax.random.split(key, flat.shape[0]))
        return np.asarray(actions).reshape((*batch, *actions.shape[1:]))[()]

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        *,
        key: Array | None = None,
    ) -> tuple[NDArray[Any] | np.generic, Any]:
        """As in Stable-Baselines3: (action, state); the policies here have no state, so it comes back as it was.

        Draws follow from `key`; without one, they go on where the last call ended.
        """
        del episode_start
        if deterministic:
            return self.act(observation), state
        if key is None:
            key = jax.random.key(int(self._generator.integers(2**31)))
        return self.act(observation, key=key), state


@dataclass(frozen=True)
class Result:
    """A finished training run of one method over several seeds; arrays are [seed, update]."""

    settings: Settings
    environment: Environment | HostEnvironment
    policy_definition: Policy
    method: Method
    params: Tree
    metrics: Metrics
    compile_seconds: float
    run_seconds: float
    state: TrainState | None = None
    """After the last update: all that training on would need. None where only the policies were kept."""

    @property
    def updates(self) -> int:
        """How many updates were made; fewer than planned if the run was stopped."""
        return int(self.metrics.episodes.shape[1])

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds, in the order of the first axis."""
        return self.settings.seeds

    @property
    def returns(self) -> NDArray[np.floating]:
        """Mean undiscounted return of the episodes played at θ, before each update [seed, update]."""
        return np.asarray(self.metrics.episode_return)

    @property
    def episodes(self) -> NDArray[np.integer]:
        """Episodes played up to and including each update, all stages counted [update]."""
        return np.asarray(self.metrics.episodes)[0]

    @property
    def env_steps(self) -> NDArray[np.integer]:
        """Environment steps taken up to and including each update, all stages counted [seed, update]."""
        return np.asarray(self.metrics.env_steps)

    @property
    def skipped(self) -> NDArray[np.integer]:
        """How many updates were left out because something was not finite [seed]."""
        return np.asarray(self.metrics.skipped).sum(axis=1)

    @property
    def declined(self) -> NDArray[np.integer]:
        """In how many updates the rule found no step that it could answer for [seed]."""
        return np.asarray(self.metrics.declined).sum(axis=1)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the numbers should know; empty if all is well."""
        share = float(np.mean(self.metrics.negative_curvature))
        found = []
        if share > MOST_NEGATIVE:
            found.append(
                f"{share:.0%} of the curvature's entries were negative (said from {MOST_NEGATIVE:.0%}): "
                "where P is made from them, the direction depends on the rule's shape"
            )
        if self.skipped.any():
            found.append(f"{self.skipped.sum():,} updates were skipped: something in them was not finite")
        if self.declined.any():
            found.append(f"{self.declined.sum():,} updates were declined: the rule found no step it could answer for")
        return tuple(found)

    @cached_property
    def curve(self) -> Interval:
        """Mean return over seeds with its 95 % interval [update]."""
        return bootstrap_mean(self.returns)

    def final_returns(self, share: float = 0.1) -> NDArray[np.floating]:
        """Each seed's mean return over the last `share` of its updates [seed]."""
        last = max(1, round(self.returns.shape[1] * share))
        return self.returns[:, -last:].mean(axis=1)

    @property
    def steps_per_second(self) -> float:
        """Environment steps of all seeds over the time spent running, compilation apart."""
        return float(self.env_steps[:, -1].sum()) / self.run_seconds if self.run_seconds > 0 else float("inf")

    def policy(self, seed: int = 0) -> TrainedPolicy:
        """The trained policy of one seed."""
        if seed not in self.seeds:
            raise wrong("seed", seed, f"accepted are the trained seeds {_listing(self.seeds)}")
        params = jax.tree.map(lambda leaf: leaf[self.seeds.index(seed)], self.params)
        return TrainedPolicy(self.policy_definition, params, self.environment.observation.shape)

    def evaluate(self, episodes: int = 100, *, deterministic: bool = False, seed: int = 1) -> NDArray[np.floating]:
        """Undiscounted returns of fresh episodes [seed, episode], apart from training and its counters."""
        check_count("episodes", episodes)
        # A stream of its own: no key of training, whatever its root, is used again.
        root = jax.random.fold_in(jax.random.key(seed), 0x65766C)
        keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(root, np.asarray(self.seeds))
        environment, policy = self.environment, self.policy_definition
        if isinstance(environment, HostEnvironment):
            labels = [f"seed {seed}" for seed in self.seeds]
            outcome = host_score(environment, policy, self.params, keys, labels, episodes, deterministic=deterministic)
        else:
            outcome = evaluate_program(
                environment, policy, self.params, keys, episodes=episodes, deterministic=deterministic
            )
        return np.asarray(outcome.episode_return)

    def save(self, path: str | Path) -> Path:
        """Write settings, metrics, policies and summary into a folder; see `pgsom.load`."""
        from pgsom.runs.store import save

        return save(self, Path(path))


def metric_names() -> tuple[str, ...]:
    """The metrics that every update reports."""
    return Metrics._fields


def metric(result: Result, name: str) -> NDArray[Any]:
    """One metric [seed, update] by name."""
    return np.asarray(getattr(result.metrics, check_choice("metric", name, metric_names())))


def _listing(seeds: tuple[int, ...]) -> str:
    return ", ".join(map(str, seeds)) if len(seeds) <= 8 else f"{seeds[0]} … {seeds[-1]}"


@partial(jax.jit, static_argnames="policy")
def _modes(policy: Policy, params: Tree, observations: Array) -> Array:
    return jax.vmap(policy.act, in_axes=(None, 0))(params, observations)


@partial(jax.jit, static_argnames="policy")
def _samples(policy: Policy, params: Tree, observations: Array, keys: Array) -> Array:
    return jax.vmap(policy.act, in_axes=(None, 0, 0))(params, observations, keys)
