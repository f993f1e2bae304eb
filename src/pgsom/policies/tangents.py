"""There and back through an MLP along a direction of signs, at the price of about one more pass.

A direction whose entries for a layer are V = r cᵀ, r and c of independent signs, has entries of ±1 any two of which are
independent. That is all that random probes need: v ⊙ (H v) has the expectation diag H, and entry i the variance
Σ_{j≠i} H_ij², as for signs that are all independent. And a V = (a·r) c needs no matrix product.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.policies.distributions import Distribution
from pgsom.policies.networks import MLP, Layer


class SignPair(NamedTuple):
    """The direction r cᵀ of a layer's weight, with its bias as a last row if it has one."""

    r: Array
    c: Array

    def of_layer(self, layer: Layer) -> Layer:
        """As entries of the layer."""
        signs = jnp.outer(self.r, self.c)
        return Layer(signs, None) if layer.bias is None else Layer(signs[:-1], signs[-1])


def sign_pairs(key: Array, params: tuple[Layer, ...]) -> tuple[SignPair, ...]:
    """Independent signs for every layer."""
    sizes = [(layer.weight.shape[0] + (layer.bias is not None), layer.weight.shape[1]) for layer in params]
    signs = jax.random.rademacher(key, (sum(a + b for a, b in sizes),), params[0].weight.dtype)
    pairs, start = [], 0
    for a, b in sizes:
        pairs.append(SignPair(signs[start : start + a], signs[start + a : start + a + b]))
        start += a + b
    return tuple(pairs)


class Moved(NamedTuple):
    """Inputs a and signals δ of ln π at every layer, and how they and ln π change along the direction."""

    inputs: tuple[Array, ...]
    inputs_dot: tuple[Array, ...]
    signals: tuple[Array, ...]
    signals_dot: tuple[Array, ...]
    log_prob_dot: Array


def moved(
    network: MLP,
    head: Distribution,
    params: tuple[Layer, ...],
    direction: tuple[SignPair, ...],
    observation: Array,
    action: Array,
) -> Moved:
    """Forwards and backwards for samples [sample, …], dots for derivatives along the direction.

    ż = ȧ W + (a·r + r_b) c,                 ȧ₊ = φ′(z) ⊙ ż
    δ = φ′(z) ⊙ W₊δ₊,                        δ̇ = φ″(z) ⊙ ż ⊙ W₊δ₊ + φ′(z) ⊙ (W₊δ̇₊ + (c·δ₊) r)
    """
    trace = jax.vmap(network.forward, in_axes=(None, 0))(params, observation)
    inputs_dot, z_dot = [], []
    a_dot = None
    for index, (layer, (r, c), a) in enumerate(zip(params, direction, trace.inputs, strict=True)):
        if index == network.depth:
            a_dot = None
        along = a @ r[: a.shape[-1]] + (0 if layer.bias is None else r[-1])
        moves = along[:, None] * c
        moves = moves if a_dot is None else moves + a_dot @ layer.weight
        inputs_dot.append(jnp.zeros_like(a) if a_dot is None else a_dot)
        z_dot.append(moves)
        a_dot = network.activation_derivatives(trace.pre_activations[index])[0] * moves

    last = network.depth - 1
    exit_of = jax.vmap(lambda *z: network.exit(list(z)))
    at_exit, back_from_exit = jax.vjp(exit_of, *trace.pre_activations[last:])
    (_, outputs_dot) = jax.jvp(exit_of, tuple(trace.pre_activations[last:]), tuple(z_dot[last:]))
    slope = jax.vmap(jax.grad(head.log_prob))
    by_outputs, by_outputs_dot = jax.jvp(lambda u: slope(u, action), (at_exit,), (outputs_dot,))

    signals, signals_dot = list(back_from_exit(by_outputs)), list(back_from_exit(by_outputs_dot))
    for index in range(last - 1, -1, -1):
        weight, (r, c) = params[index + 1].weight, direction[index + 1]
        first, second = network.activation_derivatives(trace.pre_activations[index])
        back = signals[0] @ weight.T
        back_dot = signals_dot[0] @ weight.T + (signals[0] @ c)[:, None] * r[: weight.shape[0]]
        signals.insert(0, first * back)
        signals_dot.insert(0, second * z_dot[index] * back + first * back_dot)
    log_prob_dot = jnp.sum(by_outputs * outputs_dot, axis=-1)
    return Moved(trace.inputs, tuple(inputs_dot), tuple(signals), tuple(signals_dot), log_prob_dot)


def times_signs(direction: tuple[SignPair, ...], product: tuple[Layer, ...]) -> Any:
    """V ⊙ product, layer by layer."""
    signs = tuple(pair.of_layer(layer) for pair, layer in zip(direction, product, strict=True))
    return jax.tree.map(jnp.multiply, signs, product)
