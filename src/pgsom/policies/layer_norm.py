"""A multilayer perceptron with layer normalisation."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.policies.networks import ACTIVATIONS, MLP, Layer

EPSILON = 1e-6


class Norm(NamedTuple):
    """Gain and shift of one normalised layer."""

    gain: Array
    shift: Array


@dataclass(frozen=True)
class LayerNormMLP:
    """`mlp` with every hidden pre-activation normalised: a ← φ(gain ⊙ (z − mean z)/√(var z + ε) + shift).

    Mean and variance are over the units of the layer, for one observation. Units of a layer are then no longer
    independent given the layer below, so curvature does not go the layer way but sample by sample: the same numbers,
    more slowly.
    """

    mlp: MLP

    def init(self, key: Array) -> tuple[tuple[Layer, ...], tuple[Norm, ...]]:
        norms = tuple(Norm(jnp.ones(width), jnp.zeros(width)) for width in self.mlp.hidden)
        return self.mlp.init(key), norms

    def apply(self, params: tuple[tuple[Layer, ...], tuple[Norm, ...]], observation: Array) -> Array:
        """The outputs for one observation."""
        layers, norms = params
        phi = ACTIVATIONS[self.mlp.activation]
        a = self.mlp.entry(observation, layers[0].weight.dtype)
        for layer, norm in zip(layers, norms, strict=False):
            z = layer.affine(a)
            normal = (z - z.mean()) * jax.lax.rsqrt(z.var() + EPSILON)
            a = phi(norm.gain * normal + norm.shift)
        behind = layers[len(norms) :]
        return self.mlp.exit([layer.affine(x) for layer, x in zip(behind, (a, jnp.ones(1, a.dtype)), strict=False)])
