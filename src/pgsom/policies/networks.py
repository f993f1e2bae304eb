"""Networks: from an observation to the parameters of an action distribution.

A network is any object with ``init(key) -> params`` and ``apply(params, observation) -> outputs``, both for one
observation (batching is `jax.vmap`'s work). `MLP` says more: `MLP.forward` also returns the input and the
pre-activation of every layer and accepts *taps*, zeros that are added to the pre-activations. A derivative with
respect to a tap is the signal δ that arrives at that layer for one sample, and with the layer's input a the
per-sample gradient of its weight is a ⊗ δ, without one gradient per sample (see `pgsom.policies.layers`).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.checks import check_choice, check_count
from pgsom.linear_algebra import orthonormal

Params = Any
Initial = Literal["orthogonal", "uniform", "zeros"]

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
}


@runtime_checkable
class Network(Protocol):
    """What every network offers."""

    def init(self, key: Array) -> Params:
        """Draw the parameters at which training starts."""
        ...

    def apply(self, params: Params, observation: Array) -> Array:
        """The distribution parameters for one observation."""
        ...


class Layer(NamedTuple):
    """One affine layer, z = aᵀ·weight + bias."""

    weight: Array
    bias: Array | None


class Trace(NamedTuple):
    """A forward pass, layer by layer: the input a and the pre-activation z of each layer."""

    outputs: Array
    inputs: tuple[Array, ...]
    pre_activations: tuple[Array, ...]


@dataclass(frozen=True)
class MLP:
    """A multilayer perceptron, and with no hidden layer a linear or tabular policy.

    With `pinned_output` the last output is the constant 0, so that `outputs` − 1 weights describe as many
    actions without redundancy: with two actions this is logistic regression. With `one_hot` the observation is
    a whole number below `inputs`, and the first weight is a table with a row for each.
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "tanh"
    bias: bool = True
    pinned_output: bool = False
    one_hot: bool = False
    initial: Initial = "orthogonal"
    last_scale: float = 0.01

    def __post_init__(self) -> None:
        check_count("inputs", self.inputs)
        check_count("outputs", self.outputs, at_least=2 if self.pinned_output else 1)
        object.__setattr__(self, "hidden", tuple(check_count("hidden", width) for width in self.hidden))
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("initial", self.initial, ("orthogonal", "uniform", "zeros"))

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of units from the input to the last affine layer."""
        return (self.inputs, *self.hidden, self.outputs - self.pinned_output)

    def init(self, key: Array) -> tuple[Layer, ...]:
        """Draw the weights; biases start at zero."""
        shapes = tuple(itertools.pairwise(self.widths))
        sizes = [a * b for a, b in shapes]
        draw = jax.random.uniform if self.initial == "uniform" else jax.random.normal
        drawn = jnp.split(draw(key, (sum(sizes),)), list(itertools.accumulate(sizes))[:-1])
        scales = [math.sqrt(2)] * len(self.hidden) + [self.last_scale]
        return tuple(
            Layer(self._weight(part.reshape(a, b), scale), jnp.zeros(b) if self.bias else None)
            for part, (a, b), scale in zip(drawn, shapes, scales, strict=True)
        )

    def _weight(self, drawn: Array, scale: float) -> Array:
        """A first weight from independent draws: normal for an orthogonal one, uniform for a uniform one."""
        if self.initial == "orthogonal":
            return scale * orthonormal(drawn)
        return drawn if self.initial == "uniform" else jnp.zeros_like(drawn)

    def apply(self, params: tuple[Layer, ...], observation: Array) -> Array:
        """The outputs alone."""
        return self.forward(params, observation).outputs

    def forward(self, params: tuple[Layer, ...], observation: Array, taps: tuple[Array, ...] | None = None) -> Trace:
        """z_l = a_lᵀ W_l + b_l + tap_l,  a_{l+1} = φ(z_l)."""
        phi = ACTIVATIONS[self.activation]
        dtype = params[0].weight.dtype
        a = jax.nn.one_hot(observation, self.inputs, dtype=dtype) if self.one_hot else jnp.asarray(observation, dtype)
        inputs, pre_activations = [], []
        for index, layer in enumerate(params):
            z = a @ layer.weight
            z = z if layer.bias is None else z + layer.bias
            z = z if taps is None else z + taps[index]
            inputs.append(a)
            pre_activations.append(z)
            a = phi(z) if index < len(params) - 1 else z
        return Trace(self.outputs_from(a), tuple(inputs), tuple(pre_activations))

    def outputs_from(self, last: Array) -> Array:
        """The outputs from the last pre-activation: itself, with the pinned zero behind it if there is one."""
        if not self.pinned_output:
            return last
        return jnp.concatenate([last, jnp.zeros((*last.shape[:-1], 1), last.dtype)], axis=-1)

    def activation_derivatives(self, z: Array) -> tuple[Array, Array]:
        """φ′(z) and φ″(z), element by element."""
        phi, one = ACTIVATIONS[self.activation], jnp.ones_like(z)

        def slope(x: Array) -> Array:
            return jax.jvp(phi, (x,), (one,))[1]

        return jax.jvp(slope, (z,), (one,))


def linear_logistic(inputs: int, actions: int) -> MLP:
    """The paper's policy: π(a) ∝ exp(θ_aᵀ s), the last action's θ pinned to 0, no bias, θ₀ ~ U[0, 1).

    With two actions π(0) = σ(θᵀ s), and CartPole has four parameters.
    """
    return MLP(inputs, actions, hidden=(), bias=False, pinned_output=True, initial="uniform")


def tabular_softmax(states: int, actions: int) -> MLP:
    """One logit for each state and action, all zero at the start: the uniform policy."""
    return MLP(states, actions, hidden=(), bias=False, one_hot=True, initial="zeros")


@dataclass(frozen=True)
class FunctionNetwork:
    """Any pair of functions of the user's, for instance a Flax or Equinox module taken apart."""

    init_function: Callable[[Array], Params]
    apply_function: Callable[[Params, Array], Array]

    def init(self, key: Array) -> Params:
        """Call the user's initialiser."""
        return self.init_function(key)

    def apply(self, params: Params, observation: Array) -> Array:
        """Call the user's function."""
        return self.apply_function(params, observation)
