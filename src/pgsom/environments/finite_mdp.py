"""Finite Markov decision processes: an environment to sample from whose return is also known exactly.

The exact return, its derivatives and the values are in `exact`, the list of trajectories in `enumeration`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray
from numpy.typing import ArrayLike, NDArray

from pgsom.checks import InputError, check_number, wrong
from pgsom.environments.digest import digest_of
from pgsom.environments.environment import Discrete, Step
from pgsom.environments.horizon import checked_horizon

_SUM_TOLERANCE = 1e-6


class FiniteState(NamedTuple):
    """Where the process is, and how many steps it has taken."""

    state: Int[Array, ""]
    time: Int[Array, ""]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class FiniteMDP:
    """A finite MDP given by its arrays.

    ::

        transition  P[s, a, s'] = probability of s' after action a in state s
        reward      R[s, a]     = reward of action a in state s
        start       ρ[s]        = probability of s as first state
        discount    γ           of the exact quantities; sampling leaves rewards as they are
        terminal    entering such a state ends the episode; nothing is earned there

    With a `horizon` H the return is J = E Σ_{t<H} γ^t R[s_t, a_t], and episodes are truncated after H steps.
    With ``horizon=None`` it is the infinite sum, which needs γ < 1; sampled episodes must stop somewhere all
    the same, after `sampling_horizon` steps, by default the first H with γ^H < 1e-8. `infinite` tells the two
    cases apart; `horizon` is always the number of steps after which a sampled episode is truncated.

    The arrays are kept read-only in float64, with rows that sum to one within 1e-6 made to do so exactly. Two
    MDPs with the same contents are equal.
    """

    transition: NDArray[np.float64]
    reward: NDArray[np.float64]
    start: NDArray[np.float64]
    discount: float
    horizon: int
    infinite: bool
    terminal: NDArray[np.bool_]
    name: str
    digest: str

    def __init__(
        self,
        transition: ArrayLike,
        reward: ArrayLike,
        start: ArrayLike,
        discount: float,
        horizon: int | None,
        terminal: ArrayLike | None = None,
        *,
        sampling_horizon: int | None = None,
        name: str = "finite-mdp",
    ) -> None:
        transition = _checked_transition(_as_numbers("transition", transition))
        states, actions, _ = transition.shape
        flags = _checked_terminal(terminal, states)
        gamma = float(check_number("discount", discount, at_least=0, at_most=1))
        fields: dict[str, Any] = {
            "transition": transition,
            "reward": _checked_reward(_as_numbers("reward", reward), (states, actions)),
            "start": _checked_start(_as_numbers("start", start), flags),
            "discount": gamma,
            "horizon": checked_horizon(horizon, sampling_horizon, gamma),
            "infinite": horizon is None,
            "terminal": flags,
            "name": str(name),
        }
        fields["digest"] = digest_of(fields)
        for field, value in fields.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, field, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FiniteMDP) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        """The sizes, and the first digits of the digest that tells contents apart."""
        horizon = "infinite" if self.infinite else self.horizon
        sizes = f"states={self.states}, actions={self.actions}, discount={self.discount}, horizon={horizon}"
        return f"FiniteMDP({self.name!r}, {sizes}, digest={self.digest[:8]})"

    @property
    def states(self) -> int:
        """The number of states."""
        return int(self.transition.shape[0])

    @property
    def actions(self) -> int:
        """The number of actions."""
        return int(self.transition.shape[1])

    @property
    def observation(self) -> Discrete:
        """The state itself."""
        return Discrete(self.states)

    @property
    def action(self) -> Discrete:
        """Every action is allowed in every state."""
        return Discrete(self.actions)

    def reset(self, key: PRNGKeyArray) -> tuple[FiniteState, Int[Array, ""]]:
        """Draw s_0 from ρ."""
        return begin(tables_of(self), key)

    def step(self, key: PRNGKeyArray, state: FiniteState, action: Int[Array, ""]) -> Step:
        """Earn R[s, a] and draw the next state from P[s, a]."""
        return move(tables_of(self), self.horizon, key, state, action)


class Tables(NamedTuple):
    """What playing needs of a finite MDP, as arrays: one compiled program serves all of a shape."""

    start: Array
    """Σ_{k≤s} ρ[k]"""
    transition: Array
    """Σ_{k≤s'} P[s, a, k]"""
    reward: Array
    terminal: Array


def tables_of(mdp: FiniteMDP) -> Tables:
    """In the default float dtype."""
    return Tables(
        start=jnp.asarray(_cumulative(mdp.start), float),
        transition=jnp.asarray(_cumulative(mdp.transition), float),
        reward=jnp.asarray(mdp.reward, float),
        terminal=jnp.asarray(mdp.terminal),
    )


def begin(tables: Tables, key: PRNGKeyArray) -> tuple[FiniteState, Int[Array, ""]]:
    """`FiniteMDP.reset`, of arrays."""
    state = _draw(key, tables.start)
    return FiniteState(state, jnp.zeros((), jnp.int32)), state


def move(tables: Tables, horizon: int, key: PRNGKeyArray, state: FiniteState, action: Int[Array, ""]) -> Step:
    """`FiniteMDP.step`, of arrays."""
    here, time = state.state, state.time + 1
    reached = _draw(key, tables.transition[here, action])
    return Step(
        state=FiniteState(reached, time),
        observation=reached,
        reward=tables.reward[here, action],
        terminated=tables.terminal[reached],
        truncated=time >= horizon,
    )


def _draw(key: PRNGKeyArray, cumulative: Array) -> Int[Array, ""]:
    """The first index whose cumulative probability exceeds a uniform number."""
    uniform = jax.random.uniform(key, dtype=cumulative.dtype)
    return jnp.sum(uniform >= cumulative, dtype=jnp.int32)


def _cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums, exactly one from the last possible index on: rounding draws no impossible one."""
    size = probabilities.shape[-1]
    last = size - 1 - np.argmax(np.flip(probabilities > 0, -1), -1)
    return np.where(np.arange(size) >= last[..., None], 1.0, np.cumsum(probabilities, -1))


def _as_numbers(argument: str, value: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise wrong(argument, value, "accepted is an array of numbers") from None
    if not np.all(np.isfinite(numbers)):
        where = np.argwhere(~np.isfinite(numbers))[0].tolist()
        raise InputError(f"{argument}{where}={float(numbers[tuple(where)])}: accepted are finite numbers")
    return numbers


def _checked_transition(transition: NDArray[np.float64]) -> NDArray[np.float64]:
    shape = transition.shape
    if transition.ndim != 3 or shape[0] != shape[2] or 0 in shape:
        raise wrong("transition.shape", shape, "accepted is (states, actions, states)")
    return _checked_probabilities("transition", transition)


def _checked_reward(reward: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.float64]:
    if reward.shape != shape:
        raise wrong("reward.shape", reward.shape, f"accepted is (states, actions) = {shape}")
    return reward


def _checked_terminal(terminal: ArrayLike | None, states: int) -> NDArray[np.bool_]:
    if terminal is None:
        return np.zeros(states, bool)
    flags = np.array(terminal)
    if flags.shape != (states,) or flags.dtype != bool:
        accepted = f"accepted is None or {states} booleans, one for each state"
        raise wrong("terminal", flags.tolist(), accepted)
    return flags


def _checked_start(start: NDArray[np.float64], terminal: NDArray[np.bool_]) -> NDArray[np.float64]:
    if start.shape != terminal.shape:
        raise wrong("start.shape", start.shape, f"accepted is (states,) = {terminal.shape}")
    start = _checked_probabilities("start", start)
    for state in np.flatnonzero(terminal & (start > 0)):
        accepted = "accepted is 0, an episode cannot start in a terminal state"
        raise wrong(f"start[{state}]", float(start[state]), accepted)
    return start


def _checked_probabilities(argument: str, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    outside = np.argwhere((probabilities < 0) | (probabilities > 1 + _SUM_TOLERANCE))
    for index in outside[:1].tolist():
        value = float(probabilities[tuple(index)])
        raise wrong(f"{argument}{index}", value, "accepted are probabilities, from 0 to 1")
    sums = np.sum(probabilities, -1, keepdims=True)
    for index in np.argwhere(np.abs(sums[..., 0] - 1) > _SUM_TOLERANCE)[:1].tolist():
        row = f"{argument}{index}" if index else argument
        raise wrong(f"sum of {row}", float(sums[tuple(index)][0]), "accepted is 1")
    return np.asarray(probabilities / sums, np.float64)
