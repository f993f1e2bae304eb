"""What an environment on the host offers: one that Python steps, outside of any compiled program.

It has the same specs and the same time limit as an `Environment`; in place of pure functions it opens *copies* that
are stepped side by side. Whatever an autoreset does is hidden here: a `HostStep` tells the observation that a step led
to from the one that the next action answers.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from numpy.typing import NDArray

from pgsom.environments.environment import Task


class EpisodeError(RuntimeError):
    """An environment raised an exception; the message names it, the seed, the episode and the step."""

    results: tuple[Any, ...] = ()
    """What had been trained by then, if this ended a training run."""


class HostStep(NamedTuple):
    """What one action of each copy led to; arrays are [copy, …]."""

    observation: NDArray[Any]
    """What the next action answers: after the end of an episode the next one's first, if that has begun."""
    reward: NDArray[Any]
    terminated: NDArray[Any]
    truncated: NDArray[Any]
    final: NDArray[Any]
    """What the action led to, whatever was reset since."""
    taken: NDArray[Any]
    """False where no action was taken: the copy only began its next episode, or was left out."""


@runtime_checkable
class Copies(Protocol):
    """Copies of an environment, stepped together."""

    @property
    def count(self) -> int:
        """How many."""
        ...

    @property
    def dtype(self) -> Any:
        """Of observations."""
        ...

    def reset(self, seeds: Sequence[int]) -> NDArray[Any]:
        """Begin an episode in every copy, each with its seed; the first observations."""
        ...

    def step(self, actions: NDArray[Any], idle: NDArray[Any] | None = None) -> HostStep:
        """Take an action in every copy.

        Those that are `idle` may be left out, and what they say means nothing. Whoever gives `idle` plays one episode
        in each copy, so that a copy whose episode is over need not begin the next.
        """
        ...

    def close(self) -> None:
        """Let go of processes and windows."""
        ...


@runtime_checkable
class HostEnvironment(Task, Protocol):
    """An environment that is stepped on the host."""

    def open(self, labels: Sequence[str]) -> Copies:
        """A copy for each label; labels say in error messages which copy is meant."""
        ...
