"""Every trajectory of a finite MDP, so that an expectation over episodes is a plain sum.

With them the expectation of any estimator is E[f] = Σ_τ p_π(τ) f(τ), free of sampling error.
"""

from decimal import Decimal
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from pgsom.checks import check_count, wrong
from pgsom.environments.finite_mdp import FiniteMDP


class Enumeration(NamedTuple):
    """All trajectories side by side, laid out [time, trajectory] as a batch of episodes is.

    `mask` marks the steps really taken; behind the end of an episode stand its last state, action 0 and
    reward 0. `terminated` and `truncated` stand at an episode's last step. The trajectory's probability is
    `environment_probability` = ρ(s_0) Π_t P(s_{t+1}|s_t, a_t) times Π_t π(a_t|s_t).
    """

    state: NDArray[np.int32]
    action: NDArray[np.int32]
    reward: NDArray[np.float64]
    mask: NDArray[np.bool_]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final_state: NDArray[np.int32]
    environment_probability: NDArray[np.float64]


class _Successors(NamedTuple):
    """The possible (action, next state) of all states in one list; those of s start at first[s]."""

    first: NDArray[np.int64]
    ways: NDArray[np.int64]
    action: NDArray[np.int32]
    state: NDArray[np.int32]
    probability: NDArray[np.float64]


class _Expanded(NamedTuple):
    state: NDArray[np.int32]
    action: NDArray[np.int32]
    mask: NDArray[np.bool_]
    probability: NDArray[np.float64]
    final: NDArray[np.int32]


def count_trajectories(mdp: FiniteMDP) -> int:
    """How many trajectories `enumerate_trajectories` returns, without building them."""
    ways = np.sum(mdp.transition > 0, axis=1).astype(object)
    running = (mdp.start > 0).astype(object)
    ended = 0
    for _ in range(mdp.horizon):
        running = running @ ways
        ended += int(running[mdp.terminal].sum())
        running[mdp.terminal] = 0
    return ended + int(running.sum())


def enumerate_trajectories(mdp: FiniteMDP, *, limit: int = 2_000_000) -> Enumeration:
    """Every trajectory the environment allows: all actions, and all next states of non-zero probability."""
    if mdp.infinite:
        raise wrong("horizon", None, "accepted is a whole number, infinite trajectories cannot be listed")
    count = count_trajectories(mdp)
    if count > check_count("limit", limit):
        shown = str(count) if count < 10**15 else f"{Decimal(count):.3g}"
        advice = "take a shorter horizon or raise the limit"
        raise wrong("limit", limit, f"{mdp.name} has {shown} trajectories; {advice}")
    state, action, mask, probability, final = _expand(mdp)
    last = mask & ~np.vstack([mask[1:], np.zeros_like(mask[:1])])
    return Enumeration(
        state=state,
        action=action,
        reward=np.where(mask, mdp.reward[state, action], 0.0),
        mask=mask,
        terminated=last & mdp.terminal[final],
        truncated=mask & (np.arange(mdp.horizon) == mdp.horizon - 1)[:, None],
        final_state=final,
        environment_probability=probability,
    )


def trajectory_probabilities(
    enumeration: Enumeration, action_probabilities: Float[Array | np.ndarray, "state action"]
) -> Float[Array, " trajectory"]:
    """p_π(τ) = ρ(s_0) Π_t P(s_{t+1}|s_t, a_t) π(a_t|s_t), differentiable in π[s, a]."""
    chosen = jnp.asarray(action_probabilities)[enumeration.state, enumeration.action]
    of_the_policy = jnp.prod(jnp.where(enumeration.mask, chosen, 1.0), axis=0)
    return jnp.asarray(enumeration.environment_probability, float) * of_the_policy


def _expand(mdp: FiniteMDP) -> _Expanded:
    """Grow all trajectories by one step at a time; finished ones are carried along."""
    successors = _list_successors(mdp)
    here = np.flatnonzero(mdp.start > 0).astype(np.int32)
    probability = mdp.start[here]
    running = np.ones(here.size, bool)
    history = np.zeros((3, 0, here.size), np.int32)
    for _ in range(mdp.horizon):
        branches = np.where(running, successors.ways[here], 1)
        parent = np.repeat(np.arange(here.size), branches)
        branch = np.arange(parent.size) - np.repeat(np.cumsum(branches) - branches, branches)
        here, running = here[parent], running[parent]
        way = np.where(running, successors.first[here] + branch, 0)
        taken = np.stack([here, np.where(running, successors.action[way], 0), running])
        history = np.concatenate([history[:, :, parent], taken[:, None]], axis=1)
        probability = probability[parent] * np.where(running, successors.probability[way], 1.0)
        here = np.where(running, successors.state[way], here)
        running = running & ~mdp.terminal[here]
    state, action, mask = history
    return _Expanded(state, action, mask.astype(bool), probability, here)


def _list_successors(mdp: FiniteMDP) -> _Successors:
    state, action, reached = np.nonzero(mdp.transition)
    ways = np.bincount(state, minlength=mdp.states)
    return _Successors(
        first=np.cumsum(ways) - ways,
        ways=ways,
        action=action.astype(np.int32),
        state=reached.astype(np.int32),
        probability=mdp.transition[state, action, reached],
    )
