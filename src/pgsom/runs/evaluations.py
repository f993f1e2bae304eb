"""How good the policies are at some moment of a run."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from pgsom.environments import Environment, HostEnvironment
from pgsom.host_play import host_score
from pgsom.policies import Policy
from pgsom.training import evaluate_program


class Evaluation(NamedTuple):
    """Fresh episodes of the policies after an update, apart from training and its counters."""

    updates: int
    """Made by then."""
    returns: NDArray[np.floating]
    """Undiscounted [seed, episode]."""
    sound: NDArray[np.bool_]
    """The seeds that are not frozen [seed]."""

    @property
    def by_seed(self) -> NDArray[np.floating]:
        """Each seed's mean return."""
        return np.asarray(self.returns.mean(axis=1))

    @property
    def mean(self) -> float:
        """Over the seeds that are not frozen, or all if there are none such."""
        return float(self.by_seed[self.sound].mean() if self.sound.any() else self.by_seed.mean())


def fresh_returns(
    environment: Environment | HostEnvironment,
    policy: Policy,
    params: Any,
    seeds: Sequence[int],
    episodes: int,
    *,
    deterministic: bool = False,
    seed: int,
) -> NDArray[np.floating]:
    """Undiscounted returns of policies that are ready for use [seed, episode]; `seed` is the root of the episodes."""
    # A stream of its own: no key of training, whatever its root, is used again.
    root = jax.random.fold_in(jax.random.key(seed), 0x65766C)
    keys = jax.vmap(jax.random.fold_in, in_axes=(None, 0))(root, np.asarray(seeds))
    if isinstance(environment, HostEnvironment):
        labels = [f"seed {seed}" for seed in seeds]
        outcome = host_score(environment, policy, params, keys, labels, episodes, deterministic=deterministic)
    else:
        outcome = evaluate_program(environment, policy, params, keys, episodes=episodes, deterministic=deterministic)
    return np.asarray(outcome.episode_return)
