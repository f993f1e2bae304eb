"""Baselines: what is subtracted from the return-to-go before it multiplies anything.

A baseline has a state that travels from update to update and a rule ``values(state, returns, mask)`` for
b [time, env]. The objective subtracts b in every term it appears in, gradient and curvature alike; as long as b_t
does not depend on the episode's own actions from t on, all of them stay unbiased (`unbiased`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_choice, check_number, wrong

Tree = Any


@runtime_checkable
class Baseline(Protocol):
    """What every baseline offers. `returns` are returns-to-go G [time, env], `mask` is 1 where a step was taken."""

    unbiased: ClassVar[bool]
    least_episodes: ClassVar[int]

    def init(self) -> Tree:
        """The state before any episode."""
        ...

    def values(self, state: Tree, returns: Array, mask: Array) -> Array:
        """b, broadcastable to [time, env]."""
        ...

    def update(self, state: Tree, returns: Array) -> Tree:
        """The state after these episodes."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class NoBaseline:
    """b = 0."""

    unbiased: ClassVar[bool] = True
    least_episodes: ClassVar[int] = 1

    def init(self) -> Tree:
        return ()

    def values(self, state: Tree, returns: Array, mask: Array) -> Array:
        del state, mask
        return jnp.zeros_like(returns)

    def update(self, state: Tree, returns: Array) -> Tree:
        del returns
        return state


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ConstantBaseline:
    """b = `value`, the same for every step of every episode."""

    value: Any
    unbiased: ClassVar[bool] = True
    least_episodes: ClassVar[int] = 1

    def init(self) -> Tree:
        return ()

    def values(self, state: Tree, returns: Array, mask: Array) -> Array:
        del state, mask
        return jnp.full_like(returns, self.value)

    def update(self, state: Tree, returns: Array) -> Tree:
        del returns
        return state


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MovingAverageBaseline:
    """b = an exponential average of the mean episode return G_0 of earlier updates, corrected for its start at 0.

    m ← β m + (1−β) mean G_0,  W ← β W + (1−β),  b = m / W. Before the first update b = 0.
    """

    decay: Any
    unbiased: ClassVar[bool] = True
    least_episodes: ClassVar[int] = 1

    def init(self) -> Tree:
        return (jnp.zeros(()), jnp.zeros(()))

    def values(self, state: Tree, returns: Array, mask: Array) -> Array:
        del mask
        mean, weight = state
        return jnp.full_like(returns, jnp.where(weight > 0, mean / jnp.where(weight > 0, weight, 1), 0))

    def update(self, state: Tree, returns: Array) -> Tree:
        mean, weight = state
        return (
            self.decay * mean + (1 - self.decay) * jnp.mean(returns[0]),
            self.decay * weight + (1 - self.decay),
        )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TimeStepBaseline:
    """b_t = mean of G_t over the episodes still running at t, the episode itself among them.

    Biased: with N running episodes its share of the own return shrinks the expected gradient by (N − 1)/N.
    """

    unbiased: ClassVar[bool] = False
    least_episodes: ClassVar[int] = 2

    def init(self) -> Tree:
        return ()

    def values(self, state: Tree, returns: Array, mask: Array) -> Array:
        del state
        running = mask.sum(axis=1, keepdims=True)
        mean = (returns * mask).sum(axis=1, keepdims=True) / jnp.maximum(running, 1)
        return jnp.broadcast_to(mean, returns.shape)

    def update(self, state: Tree, returns: Array) -> Tree:
        del returns
        return state


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LeaveOneOutBaseline:
    """b_t = mean of G_t over the *other* episodes still running at t; 0 when there is none."""

    unbiased: ClassVar[bool] = True
    least_episodes: ClassVar[int] = 2

    def init(self) -> Tree:
        return ()

    def values(self, state: Tree, returns: Array, mask: Array) -> Array:
        del state
        own = returns * mask
        others = mask.sum(axis=1, keepdims=True) - mask
        return (own.sum(axis=1, keepdims=True) - own) / jnp.maximum(others, 1)

    def update(self, state: Tree, returns: Array) -> Tree:
        del returns
        return state


@dataclass(frozen=True)
class BaselineEntry:
    """A row of `BASELINES`."""

    summary: str
    make: Callable[[float, float], Baseline] = field(repr=False)


BASELINES: dict[str, BaselineEntry] = {
    "none": BaselineEntry("b = 0", lambda value, decay: NoBaseline()),
    "constant": BaselineEntry("b = --baseline-value", lambda value, decay: ConstantBaseline(value)),
    "moving-average": BaselineEntry(
        "average return of earlier updates, decay --baseline-decay", lambda value, decay: MovingAverageBaseline(decay)
    ),
    "time-step": BaselineEntry("mean over running episodes at each step (biased)", lambda v, d: TimeStepBaseline()),
    "leave-one-out": BaselineEntry("mean over the other running episodes", lambda v, d: LeaveOneOutBaseline()),
}
LEARNED: dict[str, str] = {"critic": "V(s), learned beside the policy; cut-off episodes are worth what it says"}
"""Names of baselines that are no functions of the batch's returns; see `pgsom.critic`."""


def make_baseline(baseline: str | Baseline, *, value: float, decay: float, episodes: int) -> Baseline:
    """The named baseline, fit for `episodes` episodes an update; a ready-made one is only checked."""
    if isinstance(baseline, str):
        check_choice("baseline", baseline, (*BASELINES, *LEARNED))
        check_number("baseline_value", value)
        check_number("baseline_decay", decay, at_least=0, below=1)
        made = BASELINES[baseline].make(value, decay)
    elif isinstance(baseline, Baseline):
        made = baseline
    else:
        raise wrong("baseline", baseline, f"accepted are {', '.join((*BASELINES, *LEARNED))} and objects like them")
    if episodes < made.least_episodes:
        raise wrong("batch", episodes, f"the baseline {baseline!r} compares episodes; accepted is >= 2")
    return made
