"""Does the same method learn the same curve on CartPole in JAX and on Gymnasium's, which is stepped on the host?

Two samples of seeds, one a side. Training is cut into stretches; in each, a seed's number is its mean return. The rule:
in every stretch the interval of the difference of the two sides' means, bootstrapped over seeds, contains 0, at a level
at which all stretches together would raise a false alarm one time in twenty (Bonferroni). So that the rule is known to
see something, the third contestant learns half as fast, and must be told apart.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import pgsom

SEEDS, UPDATES, STRETCHES, RESAMPLES = 16, 100, 5, 20_000
LEVEL = 0.05 / STRETCHES
METHOD: dict[str, Any] = {"method": "adam", "batch": 4, "learning_rate": 0.01}


class Difference(NamedTuple):
    """Of the means of two samples of seeds, in one stretch."""

    first: float
    second: float
    low: float
    high: float

    @property
    def contains_zero(self) -> bool:
        return self.low <= 0 <= self.high


def curve(environment: str, root: int, **options: Any) -> NDArray[np.floating]:
    """Mean returns [seed, stretch] while learning."""
    result = pgsom.train(environment, seeds=SEEDS, seed=root, updates=UPDATES, **METHOD | options)
    return np.asarray(result.returns).reshape(SEEDS, STRETCHES, -1).mean(axis=2)


def differences(first: NDArray[np.floating], second: NDArray[np.floating]) -> list[Difference]:
    """Second less first in each stretch, with its interval."""
    generator = np.random.default_rng(0)

    def means(sample: NDArray[np.floating]) -> NDArray[np.floating]:
        return sample[generator.integers(0, len(sample), (RESAMPLES, len(sample)))].mean(axis=1)

    found = []
    for a, b in zip(first.T, second.T, strict=True):
        low, high = np.quantile(means(b) - means(a), [LEVEL / 2, 1 - LEVEL / 2])
        found.append(Difference(float(a.mean()), float(b.mean()), float(low), float(high)))
    return found


def measured() -> dict[str, list[Difference]]:
    """Gymnasium's CartPole beside the one in JAX, on roots of their own; and the one in JAX at half the rate."""
    in_jax = curve("CartPole-v1", 0)
    on_host = curve("gymnasium:CartPole-v1", 1)
    slower = curve("CartPole-v1", 2, learning_rate=METHOD["learning_rate"] / 2)
    return {"on the host": differences(in_jax, on_host), "half the rate": differences(in_jax, slower)}


def run() -> dict[str, float]:
    answers: dict[str, float] = {}
    print(f"\nThe same curve? {METHOD['method']} on CartPole, {SEEDS} seeds a side; returns by fifths of training")
    for name, stretches in measured().items():
        for i, found in enumerate(stretches):
            print(
                f"  {name:<14} fifth {i + 1}: in JAX {found.first:6.1f}, here {found.second:6.1f}, "
                f"difference in [{found.low:6.1f}, {found.high:6.1f}]"
            )
            numbers = {"in JAX": found.first, "here": found.second, "low": found.low, "high": found.high}
            answers |= {f"{name}, fifth {i + 1}, {what}": number for what, number in numbers.items()}
        answers[f"{name}, fifths in which 0 is within"] = sum(found.contains_zero for found in stretches)
    return answers
