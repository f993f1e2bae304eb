"""What every environment offers: two specs, a time limit and two pure functions.

An environment is a *static* argument of the compiled training program. It must therefore be hashable, and two
environments that behave alike must compare equal, or each training would compile anew.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from pgsom.checks import check_count, wrong


@dataclass(frozen=True)
class Box:
    """Arrays of one shape with bounds.

    `low` and `high` are one number for all entries or a flat tuple with one number per entry (row-major).
    `dtype` is what NumPy accepts; Python's `float` means JAX's default: float32, or float64 with 64 bits on.
    """

    shape: tuple[int, ...]
    low: float | tuple[float, ...] = -math.inf
    high: float | tuple[float, ...] = math.inf
    dtype: Any = float

    def __post_init__(self) -> None:
        shape = tuple(check_count("shape", side, at_least=0) for side in self.shape)
        object.__setattr__(self, "shape", shape)
        for argument in ("low", "high"):
            bound = getattr(self, argument)
            if isinstance(bound, tuple) and len(bound) != self.size:
                raise wrong(argument, bound, f"accepted is one number or a tuple of {self.size}")

    @property
    def size(self) -> int:
        """The number of entries of one array."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Discrete:
    """The integers 0, …, n − 1, as int32 scalars."""

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count("n", self.n))

    @property
    def shape(self) -> tuple[int, ...]:
        """A single integer has no axes."""
        return ()

    @property
    def dtype(self) -> Any:
        """States and actions are int32 with and without 64 bits."""
        return "int32"


@dataclass(frozen=True)
class MultiDiscrete:
    """Several integers at once, the i-th one of 0, …, n[i] − 1, as an int32 vector."""

    n: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.n:
            raise wrong("n", self.n, "accepted is at least one number of choices")
        object.__setattr__(self, "n", tuple(check_count("n", choices) for choices in self.n))

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry for each choice."""
        return (len(self.n),)

    @property
    def dtype(self) -> Any:
        """Like `Discrete`'s."""
        return "int32"


@dataclass(frozen=True)
class MultiBinary:
    """`n` switches, each 0 or 1, as an int32 vector."""

    n: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", check_count("n", self.n))

    @property
    def shape(self) -> tuple[int, ...]:
        """One entry for each switch."""
        return (self.n,)

    @property
    def dtype(self) -> Any:
        """Like `Discrete`'s."""
        return "int32"


Spec = Box | Discrete | MultiDiscrete | MultiBinary


class Step(NamedTuple):
    """What one action leads to. Nothing is reset: `state` and `observation` are those reached by the action.

    `terminated` says that the episode came to its natural end, `truncated` that the time limit was reached.
    Both may hold at once, on the last step allowed.
    """

    state: Any
    observation: Array
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@runtime_checkable
class Task(Protocol):
    """What must be known of an environment before it is played, wherever it runs."""

    @property
    def name(self) -> str:
        """The name results are filed under."""
        ...

    @property
    def observation(self) -> Spec:
        """What a policy sees."""
        ...

    @property
    def action(self) -> Spec:
        """What a policy chooses."""
        ...

    @property
    def horizon(self) -> int:
        """The number of steps after which an episode is truncated."""
        ...


@runtime_checkable
class Environment(Task, Protocol):
    """A Markov decision process to sample from, one copy at a time; `jax.vmap` makes it many.

    `reset` and `step` are pure, may be traced, and return the same pytree structure, shapes and dtypes on
    every call, so that they can stand in `jax.lax.scan`. The state may be any pytree.
    """

    def reset(self, key: PRNGKeyArray) -> tuple[Any, Array]:
        """Draw a first state; returns ``(state, observation)``."""
        ...

    def step(self, key: PRNGKeyArray, state: Any, action: jax.Array) -> Step:
        """Take `action` in `state`."""
        ...
