"""The layer trick: sums over samples of per-sample derivatives of an MLP, without per-sample gradients.

For one affine layer z = aᵀW + b and one sample, the derivative of any scalar with respect to W is a ⊗ δ with
δ = ∂scalar/∂z. A weighted sum over samples n of gradients, of squared gradients or of Hessian diagonals is then
one matrix product of the layer's inputs with something made from the signals:

    Σ_n a_n ⊗ δ_n = AᵀΔ,    Σ_n (a_n ⊗ δ_n)² = (A²)ᵀ(Δ²),    Σ_n a_n² ⊗ diag H_n,  H_n = ∂²scalar/∂z²

Arrays are [sample, …]; signals with several columns are [sample, column, unit].
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.policies.networks import MLP, Layer


class Slopes(NamedTuple):
    """φ′(z) and φ″(z) of one hidden layer."""

    first: Array
    second: Array


class Backward(NamedTuple):
    """One forward pass over many samples, from which output cotangents can be sent back."""

    network: MLP
    params: tuple[Layer, ...]
    outputs: Array
    inputs: tuple[Array, ...]
    pre_activations: tuple[Array, ...]
    slopes: tuple[Slopes, ...]
    from_exit: Callable[[Array], tuple[Array, ...]]
    direction: Array | None = None
    """[output], where all cotangents are multiples of one direction,"""
    along: tuple[tuple[Array, ...], tuple[Array, ...]] | None = None
    """and what it gives."""

    def signals(self, cotangents: Array) -> tuple[Array, ...]:
        """δ [sample, unit] of every layer, for `cotangents` [sample, output]: δ = φ′(z) ⊙ W₊δ₊."""
        return self.signals_and_arrivals(cotangents)[0]

    def signals_and_arrivals(self, cotangents: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """δ of every layer, and W₊δ₊ of every hidden one."""
        if self.direction is not None and self.along is not None:
            multiple = cotangents @ self.direction / jnp.sum(jnp.square(self.direction))
            signals_along, arrivals_along = self.along
            return tuple(multiple[:, None] * x for x in signals_along), tuple(
                multiple[:, None] * x for x in arrivals_along
            )
        signals = list(self.from_exit(cotangents))
        arrivals: list[Array] = []
        for index in range(self.network.depth - 2, -1, -1):
            arrivals.insert(0, signals[0] @ self.params[index + 1].weight.T)
            signals.insert(0, self.slopes[index].first * arrivals[0])
        return tuple(signals), tuple(arrivals)


def backward(network: MLP, params: tuple[Layer, ...], observations: Array) -> Backward:
    """Trace the network for observations [sample, …]."""
    trace = jax.vmap(network.forward, in_axes=(None, 0))(params, observations)
    last = network.depth - 1
    _, from_exit = jax.vjp(jax.vmap(lambda *z: network.exit(list(z))), *trace.pre_activations[last:])
    slopes = tuple(Slopes(*network.activation_derivatives(z)) for z in trace.pre_activations[:last])
    return Backward(network, params, trace.outputs, trace.inputs, trace.pre_activations, slopes, from_exit)


def along(direction: Array, passed: Backward) -> Backward:
    """The same pass for output cotangents that are all multiples of one `direction` [output].

    Signals are linear in the cotangent, so the direction is sent back once and scaled: a gradient and the columns
    of a Fisher factor share one way back.
    """
    once = passed.signals_and_arrivals(jnp.broadcast_to(direction, passed.outputs.shape))
    return passed._replace(direction=direction, along=once)


def column_signals(passed: Backward, columns: Array) -> tuple[Array, ...]:
    """δ [sample, column, unit] for several cotangents a sample, `columns` [sample, output, column]."""
    return jax.vmap(passed.signals, in_axes=2, out_axes=1)(columns)


def outer_sum(params: tuple[Layer, ...], inputs: tuple[Array, ...], deltas: tuple[Array, ...]) -> tuple[Layer, ...]:
    """Σ_n a_n ⊗ δ_n for the weights and Σ_n δ_n for the biases, in the structure of the parameters."""
    return tuple(
        Layer(a.T @ d, None if layer.bias is None else d.sum(axis=0))
        for layer, a, d in zip(params, inputs, deltas, strict=True)
    )


def outer_sums_by_episode(
    params: tuple[Layer, ...], inputs: tuple[Array, ...], deltas: tuple[Array, ...]
) -> tuple[Layer, ...]:
    """Σ_t a_t ⊗ δ_t for each episode, from arrays [time, env, …]; leaves have a leading env axis."""
    return tuple(
        Layer(jnp.einsum("tei,teo->eio", a, d), None if layer.bias is None else d.sum(axis=0))
        for layer, a, d in zip(params, inputs, deltas, strict=True)
    )


def squared_outer_sum(
    params: tuple[Layer, ...], inputs: tuple[Array, ...], squared_deltas: tuple[Array, ...]
) -> tuple[Layer, ...]:
    """Σ_n a_n² ⊗ d_n, where d_n are squared signals or diagonals of pre-activation Hessians."""
    return outer_sum(params, tuple(jnp.square(a) for a in inputs), squared_deltas)


class KroneckerFactors(NamedTuple):
    """A and G of one layer: its block of the Fisher matrix is approximately A ⊗ G, exactly so for one sample."""

    inputs: Array
    """A [input (+ 1), input (+ 1)]: the second moment of what goes in, behind it a 1 if there is a bias."""
    signals: Array
    """G [unit, unit]: the second moment of what comes back."""


def kronecker_sums(
    params: tuple[Layer, ...], passed: Backward, columns: Array, weights: Array
) -> tuple[KroneckerFactors, ...]:
    """Σ_n w_n ā_n ā_nᵀ and Σ_n w_n Σ_c δ_nc δ_ncᵀ of every layer, for the cotangents `columns`; ā = (a, 1)."""
    deltas = column_signals(passed, columns)
    repeated = jnp.repeat(weights, columns.shape[-1])
    return tuple(
        KroneckerFactors(_input_moment(a, layer, weights), _second_moment(d.reshape(-1, d.shape[-1]), repeated))
        for layer, a, d in zip(params, passed.inputs, deltas, strict=True)
    )


def _input_moment(inputs: Array, layer: Layer, weights: Array) -> Array:
    """Σ_n w_n ā_n ā_nᵀ from its blocks: those of the 1 are sums, and the matrix product keeps its round size."""
    moment = _second_moment(inputs, weights)
    if layer.bias is None:
        return moment
    beside = weights @ inputs
    return jnp.block([[moment, beside[:, None]], [beside[None], jnp.sum(weights)[None, None]]])


def _second_moment(vectors: Array, weights: Array) -> Array:
    return vectors.T @ (weights[:, None] * vectors)


def pre_activation_hessian_diagonals(
    network: MLP,
    params: tuple[Layer, ...],
    passed: Backward,
    gradient_signals: tuple[Array, ...],
    columns: Array,
    signs: Array,
) -> list[Array]:
    """diag ∂²L/∂z_l² [sample, unit] of every layer, for L with ∂²L/∂outputs² = Σ_c σ_c S_c S_cᵀ, exactly.

    The Hessian of each layer's pre-activation is carried backwards as signed columns plus a diagonal,

        H_l = C_l diag(σ) C_lᵀ + diag(v_l),     v_l = φ″(z_l) ⊙ ∂L/∂a_{l+1},
        H_{l−1} = D Wᵀ-image of H_l D + diag(v_{l−1}),      D = diag φ′(z_{l−1}).

    The columns C start as S and travel as ordinary signals. A diagonal v_l turns, one layer below, into one
    signed column a unit (W's rows times φ′), except at the first layer, where only a diagonal is asked for.
    With up to two hidden layers no such column is ever made, and the cost is that of the signals of S. The layer of
    free outputs has no layer below it: there, too, the signals of S say all.
    """
    last = network.depth - 1
    slopes = passed.slopes
    travelling = column_signals(passed, columns)
    diagonals = [jnp.einsum("nc,ncu->nu", signs, jnp.square(travelling[last]))]
    extra, extra_signs, v = None, None, None
    for index in range(last - 1, -1, -1):
        weight = params[index + 1].weight
        first, second = slopes[index]
        diagonal = jnp.einsum("nc,ncu->nu", signs, jnp.square(travelling[index]))
        if v is not None and index == 0:
            diagonal += jnp.square(first) * (v @ jnp.square(weight).T)
        if extra is not None:
            extra = (extra @ weight.T) * first[:, None, :]
        if v is not None and index > 0:
            fresh = weight.T[None] * first[:, None, :]
            extra = fresh if extra is None else jnp.concatenate([extra, fresh], axis=1)
            extra_signs = v if extra_signs is None else jnp.concatenate([extra_signs, v], axis=1)
        if extra is not None and extra_signs is not None:
            diagonal += jnp.einsum("nc,ncu->nu", extra_signs, jnp.square(extra))
        # ∂L/∂a is the signal at z before the factor φ′, so it comes from the layer above, not by a division.
        v = second * (gradient_signals[index + 1] @ weight.T)
        diagonals.append(diagonal + v)
    free = [jnp.einsum("nc,ncu->nu", signs, jnp.square(delta)) for delta in travelling[network.depth :]]
    return diagonals[::-1] + free


def propagated_diagonals(
    network: MLP,
    params: tuple[Layer, ...],
    passed: Backward,
    gradient_signals: tuple[Array, ...],
    columns: Array,
    signs: Array,
) -> list[Array]:
    """`pre_activation_hessian_diagonals` with everything beside the diagonal forgotten at every layer.

        h_L = diag of H_L, exactly;   h_{l−1} = φ′(z_{l−1})² ⊙ (W_l² h_l) + φ″(z_{l−1}) ⊙ (W_l ∂L/∂z_l)

    Exact where a layer's units do not act on each other's curvature: at the last layer, and below it if W_l has one
    unit. HesScale: Becker and LeCun's recursion with an exact last layer.
    """
    last = network.depth - 1
    of_outputs = column_signals(passed, columns)
    h = jnp.einsum("nc,ncu->nu", signs, jnp.square(of_outputs[last]))
    diagonals = [h]
    for index in range(last - 1, -1, -1):
        weight = params[index + 1].weight
        first, second = passed.slopes[index]
        h = jnp.square(first) * (h @ jnp.square(weight).T) + second * (gradient_signals[index + 1] @ weight.T)
        diagonals.append(h)
    free = [jnp.einsum("nc,ncu->nu", signs, jnp.square(delta)) for delta in of_outputs[network.depth :]]
    return diagonals[::-1] + free
