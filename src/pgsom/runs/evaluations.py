"""How good the policies are at some moment of a run."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
