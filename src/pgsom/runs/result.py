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
from pgsom.methods import Method
from pgsom.policies import Policy
from pgsom.runs.evaluations import Evaluation, fresh_returns
from pgsom.runs.failures import Failure, failures_of
from pgsom.runs.plan import Settings
from pgsom.statistics import Interval, bootstrap_mean
from pgsom.training import Metrics, TrainState

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
        shape = self.observation_shape
        try:
            seen = np.asarray(observation)
        except ValueError:
            raise wrong("observation", observation, "accepted is an array, all rows of one length") from None
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
    notes: tuple[str, ...] = ()
    """What happened to the run: damage that was mended, simulators that could not be taken up again."""
    evaluations: tuple[Evaluation, ...] = ()
    """Those made on the way (`evaluate_every`), since the run was last taken up."""
    reached_target: bool = False
    """Whether the run ended because an evaluation reached the target return."""

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
        """Mean undiscounted return of the episodes played at θ, before each update [seed, update].

        Of segments that of the episodes that ended in the update's batch; the last known where none did, NaN before
        the first. NaN once a seed is frozen.
        """
        seen = np.asarray(self.metrics.episode_return)
        if not self.method.plan.steps:
            return seen
        known = np.maximum.accumulate(np.where(np.isnan(seen), 0, np.arange(seen.shape[1])), axis=1)
        return np.where(np.asarray(self.metrics.frozen) > 0, np.nan, np.take_along_axis(seen, known, axis=1))

    @property
    def episodes(self) -> NDArray[np.integer]:
        """Episodes played up to and including each update, all stages counted [update].

        Of segments those that ended, where seeds differ the most of them.
        """
        # A frozen seed plays no more.
        return np.asarray(self.metrics.episodes).max(axis=0)

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
    def frozen(self) -> NDArray[np.bool_]:
        """Which seeds failed too often in a row and made no more updates [seed]."""
        return np.asarray(self.metrics.frozen)[:, -1] > 0

    @property
    def sound(self) -> NDArray[np.bool_]:
        """The seeds that means and curves are over: those not frozen, or all if there are none such [seed]."""
        return np.ones_like(self.frozen) if self.frozen.all() else ~self.frozen

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The first update that was left out, of every seed that has one; the earliest first."""
        return failures_of(self.metrics, self.seeds)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader of the numbers should know; empty if all is well."""
        curvature = np.asarray(self.metrics.negative_curvature)
        share = float(curvature[np.isfinite(curvature)].mean()) if np.isfinite(curvature).any() else 0.0
        found = []
        if share > MOST_NEGATIVE:
            found.append(
                f"{share:.0%} of the curvature's entries were negative (said from {MOST_NEGATIVE:.0%}): "
                "where P is made from them, the direction depends on the rule's shape"
            )
        if self.failures:
            ill = np.count_nonzero(self.skipped)
            among = f", of {ill:,} seed{'s' if ill > 1 else ''}" if len(self.seeds) > 1 else ""
            found.append(f"{self.failures[0]} (the first of {self.skipped.sum():,} updates that were skipped{among})")
        if self.frozen.any():
            numbers = [seed for seed, frozen in zip(self.seeds, self.frozen, strict=True) if frozen]
            left = "no seed went on" if self.frozen.all() else "means and curves are over the others"
            failed = f"{float(self.method.freeze_after):g} updates in a row that were not finite"
            found.append(f"frozen after {failed}: seed {_listing(tuple(numbers))}; {left}")
        if self.declined.any():
            found.append(f"{self.declined.sum():,} updates were declined: the rule found no step it could answer for")
        return tuple(found)

    @cached_property
    def curve(self) -> Interval:
        """Mean return over the sound seeds with its 95 % interval [update]."""
        return bootstrap_mean(self.returns[self.sound])

    @property
    def final(self) -> Interval:
        """Mean of the sound seeds' final returns with its 95 % interval."""
        return bootstrap_mean(self.final_returns()[self.sound])

    def final_returns(self, share: float = 0.1) -> NDArray[np.floating]:
        """Each seed's mean return over the last `share` of the updates, those that have one; NaN if none has [seed]."""
        last = self.returns[:, -max(1, round(self.returns.shape[1] * share)) :]
        known = np.isfinite(last)
        mean = np.where(known, last, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
        return np.where(known.any(axis=1), mean, np.nan)

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
        parts = (self.environment, self.policy_definition, self.params, self.seeds)
        return fresh_returns(*parts, episodes, deterministic=deterministic, seed=seed)

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
