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

from pgsom.checks import check_choice, check_count, wrong
from pgsom.linear_algebra import orthonormal

Params = Any
Initial = Literal["orthogonal", "uniform", "unit", "zeros"]
INITIALS: dict[str, str] = {
    "orthogonal": "orthonormal columns, times √2 in hidden layers and 0.01 in the last",
    "uniform": "U(−1/√inputs, 1/√inputs), times 0.01 in the last",
    "unit": "U[0, 1), the paper's",
    "zeros": "0",
}

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": jnp.tanh,
    "relu": jax.nn.relu,
    "silu": jax.nn.silu,
    "softplus": jax.nn.softplus,
    "elu": jax.nn.elu,
    "gelu": jax.nn.gelu,
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

    def affine(self, a: Array) -> Array:
        """z."""
        z = a @ self.weight
        return z if self.bias is None else z + self.bias


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

    The last `free` outputs do not depend on the observation (logarithms of scales, for instance). They are the weight
    of a layer of their own, the last, whose input is the constant 1; they start at 0. So the layer trick holds for
    them as for any other layer.
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
    free: int = 0

    def __post_init__(self) -> None:
        check_count("inputs", self.inputs)
        check_count("outputs", self.outputs, at_least=2 if self.pinned_output else 1)
        object.__setattr__(self, "hidden", tuple(check_count("hidden", width) for width in self.hidden))
        check_choice("activation", self.activation, ACTIVATIONS)
        check_choice("initial", self.initial, INITIALS)
        if check_count("free", self.free, at_least=0) >= self.outputs - self.pinned_output:
            raise wrong("free", self.free, f"accepted is below the number of outputs, {self.outputs}")

    @property
    def widths(self) -> tuple[int, ...]:
        """The number of units from the input to the last affine layer that sees it."""
        return (self.inputs, *self.hidden, self.outputs - self.pinned_output - self.free)

    @property
    def units(self) -> tuple[int, ...]:
        """The number of units of every affine layer, that of the free outputs included."""
        return (*self.widths[1:], self.free) if self.free else self.widths[1:]

    def init(self, key: Array) -> tuple[Layer, ...]:
        """Draw the weights; biases start at zero."""
        shapes = tuple(itertools.pairwise(self.widths))
        sizes = [a * b for a, b in shapes]
        draw = jax.random.uniform if self.initial in ("uniform", "unit") else jax.random.normal
        drawn = jnp.split(draw(key, (sum(sizes),)), list(itertools.accumulate(sizes))[:-1])
        scales = [math.sqrt(2)] * len(self.hidden) + [self.last_scale]
        layers = tuple(
            Layer(self._weight(part.reshape(a, b), scale), jnp.zeros(b) if self.bias else None)
            for part, (a, b), scale in zip(drawn, shapes, scales, strict=True)
        )
        return (*layers, Layer(jnp.zeros((1, self.free)), None)) if self.free else layers

    def _weight(self, drawn: Array, scale: float) -> Array:
        """A first weight from independent draws: normal for an orthogonal one, from [0, 1) for the uniform ones."""
        if self.initial == "orthogonal":
            return scale * orthonormal(drawn)
        if self.initial == "uniform":
            return min(scale, 1.0) * (2 * drawn - 1) / math.sqrt(drawn.shape[0])
        return drawn if self.initial == "unit" else jnp.zeros_like(drawn)

    def apply(self, params: tuple[Layer, ...], observation: Array) -> Array:
        """The outputs alone."""
        return self.forward(params, observation).outputs

    def forward(self, params: tuple[Layer, ...], observation: Array, taps: tuple[Array, ...] | None = None) -> Trace:
        """z_l = a_lᵀ W_l + b_l + tap_l,  a_{l+1} = φ(z_l)."""
        phi = ACTIVATIONS[self.activation]
        dtype = params[0].weight.dtype
        a = self.entry(observation, dtype)
        inputs, pre_activations = [], []
        for index, layer in enumerate(params):
            a = jnp.ones(1, dtype) if index == self.depth else a
            z = layer.affine(a)
            z = z if taps is None else z + taps[index]
            inputs.append(a)
            pre_activations.append(z)
            a = phi(z) if index < self.depth - 1 else z
        return Trace(self.exit(pre_activations[self.depth - 1 :]), tuple(inputs), tuple(pre_activations))

    @property
    def depth(self) -> int:
        """The number of affine layers that see the observation."""
        return len(self.hidden) + 1

    def entry(self, observation: Array, dtype: Any) -> Array:
        """The first layer's input."""
        if self.one_hot:
            return jax.nn.one_hot(observation, self.inputs, dtype=dtype)
        return jnp.asarray(observation, dtype)

    def exit(self, last: list[Array]) -> Array:
        """The outputs: the last pre-activation, behind it the pinned zero and the free outputs if there are any."""
        pinned = [jnp.zeros(1, last[0].dtype)] if self.pinned_output else []
        return jnp.concatenate([last[0], *pinned, *last[1:]])

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
    return MLP(inputs, actions, hidden=(), bias=False, pinned_output=True, initial="unit")


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
