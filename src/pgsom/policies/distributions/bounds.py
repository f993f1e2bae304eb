"""The affine map between a bounded action and the unit in which a distribution draws it."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
from jax import Array

from pgsom.checks import wrong
from pgsom.environments import Box


@dataclass(frozen=True)
class Bounds:
    """For each entry of an action, flat, its least and its largest value; `shape` is the environment's."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        for low, high in zip(self.low, self.high, strict=True):
            if not low < high:
                raise wrong("low", low, f"accepted is a number below high={high:g}")

    @property
    def size(self) -> int:
        """The number of entries."""
        return len(self.low)

    @property
    def finite(self) -> bool:
        """Whether every entry is bounded on both sides."""
        return all(map(math.isfinite, (*self.low, *self.high)))

    @property
    def centre(self) -> tuple[float, ...]:
        """(low + high)/2, and 0 for an entry that is not bounded on both sides."""
        return tuple((a + b) / 2 if math.isfinite(b - a) else 0.0 for a, b in self._pairs())

    @property
    def half(self) -> tuple[float, ...]:
        """(high − low)/2, and 1 for an entry that is not bounded on both sides."""
        return tuple((b - a) / 2 if math.isfinite(b - a) else 1.0 for a, b in self._pairs())

    @property
    def log_volume(self) -> float:
        """Σ ln half: what the map takes off every log-density."""
        return sum(map(math.log, self.half))

    def from_unit(self, x: Array) -> Array:
        """centre + half x, in the environment's shape: [−1, 1] becomes [low, high]."""
        return (jnp.asarray(self.centre, x.dtype) + jnp.asarray(self.half, x.dtype) * x).reshape(self.shape)

    def clip(self, action: Array) -> Array:
        """The nearest action within the bounds."""
        low, high = (jnp.asarray(bound, action.dtype).reshape(self.shape) for bound in (self.low, self.high))
        return jnp.clip(action, low, high)

    def _pairs(self) -> tuple[tuple[float, float], ...]:
        return tuple(zip(self.low, self.high, strict=True))


def bounds_of(box: Box) -> Bounds:
    """Those of an action space, number by number."""

    def each(bound: float | tuple[float, ...]) -> tuple[float, ...]:
        return bound if isinstance(bound, tuple) else (bound,) * box.size

    return Bounds(each(box.low), each(box.high), box.shape)


def unbounded(size: int) -> Bounds:
    """A vector of `size` numbers of any value."""
    return Bounds((-math.inf,) * size, (math.inf,) * size, (size,))
