"""A network that standardises what it sees, with the statistics that training left."""

from dataclasses import dataclass

from jax import Array

from pgsom.normalisation import Moments, no_moments, standardise
from pgsom.policies.networks import Network, Params


@dataclass(frozen=True)
class Standardised:
    """`network`, shown (s − mean)/√variance, no further from 0 than 10.

    What becomes of a policy that was trained on normalised observations: the statistics, constants by then, stand
    beside the parameters, so that whoever uses, saves or exports the policy need not know of them.
    """

    network: Network
    shape: tuple[int, ...]
    """of an observation"""

    def init(self, key: Array) -> tuple[Params, Moments]:
        return self.network.init(key), no_moments(self.shape)

    def apply(self, params: tuple[Params, Moments], observation: Array) -> Array:
        """The outputs for one observation, as the environment gives it."""
        return self.network.apply(params[0], standardise(params[1], observation))
