"""Linear dynamics, quadratic costs, Gaussian noise: the continuous environment whose return is known exactly.

The exact return of a linear-Gaussian policy, its derivatives and the optimum are in `exact_control`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike, NDArray

from pgsom.checks import check_number, wrong
from pgsom.environments.digest import digest_of
from pgsom.environments.environment import Box, Step
from pgsom.environments.horizon import checked_horizon

_SMALLEST_EIGENVALUE = 1e-9


class LinearState(NamedTuple):
    """Where the system is, and how many steps it has taken."""

    state: Float[Array, " state"]
    time: Int[Array, ""]


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LinearQuadratic:
    """A linear system under quadratic costs.

    ::

        s_{t+1} = A s_t + B u_t + w_t,   w_t ~ N(0, W),   s_0 ~ N(m, S)
        r_t     = −(s_tᵀ Q s_t + u_tᵀ R u_t)

        dynamics A [state, state]   control B [state, action]   noise W   start_mean m   start_covariance S
        state_cost Q   action_cost R (positive definite)

    `discount` γ and `horizon` are as in `FiniteMDP`: J = E Σ_{t<H} γ^t r_t, or with ``horizon=None`` the infinite
    sum, whose sampled episodes stop after `sampling_horizon` steps. Two systems with the same contents are equal.
    """

    dynamics: NDArray[np.float64]
    control: NDArray[np.float64]
    noise: NDArray[np.float64]
    start_mean: NDArray[np.float64]
    start_covariance: NDArray[np.float64]
    state_cost: NDArray[np.float64]
    action_cost: NDArray[np.float64]
    discount: float
    horizon: int
    infinite: bool
    name: str
    digest: str

    def __init__(
        self,
        dynamics: ArrayLike,
        control: ArrayLike,
        state_cost: ArrayLike,
        action_cost: ArrayLike,
        discount: float,
        horizon: int | None,
        *,
        noise: ArrayLike | None = None,
        start_mean: ArrayLike | None = None,
        start_covariance: ArrayLike | None = None,
        sampling_horizon: int | None = None,
        name: str = "linear-quadratic",
    ) -> None:
        A = _matrix("dynamics", dynamics)
        states = A.shape[0]
        B = _matrix("control", control, (states, None))
        gamma = float(check_number("discount", discount, at_least=0, at_most=1))
        fields: dict[str, Any] = {
            "dynamics": _matrix("dynamics", A, (states, states)),
            "control": B,
            "noise": _covariance("noise", np.zeros_like(A) if noise is None else noise, states),
            "start_mean": _vector("start_mean", np.zeros(states) if start_mean is None else start_mean, states),
            "start_covariance": _covariance(
                "start_covariance", np.eye(states) if start_covariance is None else start_covariance, states
            ),
            "state_cost": _covariance("state_cost", state_cost, states),
            "action_cost": _covariance("action_cost", action_cost, B.shape[1], definite=True),
            "discount": gamma,
            "horizon": checked_horizon(horizon, sampling_horizon, gamma),
            "infinite": horizon is None,
            "name": str(name),
        }
        fields["digest"] = digest_of(fields)
        for field, value in fields.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, field, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearQuadratic) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        """The sizes, and the first digits of the digest that tells contents apart."""
        horizon = "infinite" if self.infinite else self.horizon
        sizes = f"states={self.states}, actions={self.actions}, discount={self.discount}, horizon={horizon}"
        return f"LinearQuadratic({self.name!r}, {sizes}, digest={self.digest[:8]})"

    @property
    def states(self) -> int:
        """The number of entries of a state."""
        return int(self.control.shape[0])

    @property
    def actions(self) -> int:
        """The number of entries of an action."""
        return int(self.control.shape[1])

    @property
    def observation(self) -> Box:
        """The state itself."""
        return Box((self.states,))

    @property
    def action(self) -> Box:
        """Unbounded: a clipped action would not be linear."""
        return Box((self.actions,))

    def reset(self, key: PRNGKeyArray) -> tuple[LinearState, Float[Array, " state"]]:
        """Draw s_0 ~ N(m, S)."""
        state = jnp.asarray(self.start_mean, float) + _root(self.start_covariance) @ jax.random.normal(
            key, (self.states,)
        )
        return LinearState(state, jnp.zeros((), jnp.int32)), state

    def step(self, key: PRNGKeyArray, state: LinearState, action: Float[Array, " action"]) -> Step:
        """Pay for where the system is and what is done, and move on."""
        here, time = state.state, state.time + 1
        reached = jnp.asarray(self.dynamics, float) @ here + jnp.asarray(self.control, float) @ action
        reached = reached + _root(self.noise) @ jax.random.normal(key, (self.states,))
        cost = here @ jnp.asarray(self.state_cost, float) @ here
        cost = cost + action @ jnp.asarray(self.action_cost, float) @ action
        return Step(
            state=LinearState(reached, time),
            observation=reached,
            reward=-cost,
            terminated=jnp.zeros((), bool),
            truncated=time >= self.horizon,
        )


def double_integrator(
    discount: float = 0.95, horizon: int | None = 20, noise: float = 0.01, action_cost: float = 0.1
) -> LinearQuadratic:
    """A mass pushed along a line, started at random: two states (place and speed), one action (force)."""
    return LinearQuadratic(
        [[1.0, 0.2], [0.0, 1.0]],
        [[0.02], [0.2]],
        np.diag([1.0, 0.1]),
        [[float(check_number("action_cost", action_cost, above=0))]],
        discount,
        horizon,
        noise=float(check_number("noise", noise, at_least=0)) * np.eye(2),
        name="double-integrator",
    )


def _root(covariance: NDArray[np.float64]) -> Float[Array, "state state"]:
    """L with L Lᵀ = C, computed outside of any program; of any semi-definite C."""
    values, vectors = np.linalg.eigh(covariance)
    return jnp.asarray(vectors * np.sqrt(np.maximum(values, 0)), float)


def _matrix(argument: str, value: ArrayLike, shape: tuple[int, int | None] | None = None) -> NDArray[np.float64]:
    matrix = _numbers(argument, value)
    accepted = "a matrix" if shape is None else f"a matrix with {shape[0]} rows"
    accepted += "" if shape is None or shape[1] is None else f" and {shape[1]} columns"
    fits = shape is None or (matrix.ndim == 2 and matrix.shape[0] == shape[0] and shape[1] in (None, matrix.shape[1]))
    if matrix.ndim != 2 or 0 in matrix.shape or not fits:
        raise wrong(f"{argument}.shape", matrix.shape, f"accepted is {accepted}")
    return matrix


def _vector(argument: str, value: ArrayLike, size: int) -> NDArray[np.float64]:
    vector = _numbers(argument, value)
    if vector.shape != (size,):
        raise wrong(f"{argument}.shape", vector.shape, f"accepted is ({size},)")
    return vector


def _covariance(argument: str, value: ArrayLike, size: int, *, definite: bool = False) -> NDArray[np.float64]:
    matrix = _matrix(argument, value, (size, size))
    if not np.allclose(matrix, matrix.T):
        raise wrong(argument, matrix.tolist(), "accepted is a symmetric matrix")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < (_SMALLEST_EIGENVALUE if definite else -_SMALLEST_EIGENVALUE):
        kind = "positive definite" if definite else "positive semi-definite"
        raise wrong(
            argument, matrix.tolist(), f"its smallest eigenvalue is {smallest:.3g}; accepted is a {kind} matrix"
        )
    return (matrix + matrix.T) / 2


def _numbers(argument: str, value: ArrayLike) -> NDArray[np.float64]:
    try:
        numbers = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise wrong(argument, value, "accepted is an array of numbers") from None
    if not np.all(np.isfinite(numbers)):
        raise wrong(argument, numbers.tolist(), "accepted are finite numbers")
    return numbers
