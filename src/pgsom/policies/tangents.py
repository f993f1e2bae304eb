"""There and back through an MLP along a direction of signs, at the price of about one more pass.

A direction whose entries for a layer are V = r cᵀ, r and c of independent signs, has entries of ±1 any two of which are
independent. That is all that random probes need: v ⊙ (H v) has the expectation diag H, and entry i the variance
Σ_{j≠i} H_ij², as for signs that are all independent. And a V = (a·r) c needs no matrix product.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from pgsom.policies import layers
from pgsom.policies.distributions import Distribution
from pgsom.policies.networks import Layer


class SignPair(NamedTuple):
    """The direction r cᵀ of a layer's weight, with its bias as a last row if it has one."""

    r: Array
    c: Array

    def of_layer(self, layer: Layer) -> Layer:
        """As entries of the layer."""
        signs = jnp.outer(self.r, self.c)
        return Layer(signs, None) if layer.bias is None else Layer(signs[:-1], signs[-1])


def sign_pairs(key: Array, params: tuple[Layer, ...], probes: int) -> tuple[SignPair, ...]:
    """Independent signs [probe, …] for every layer."""
    sizes = [(layer.weight.shape[0] + (layer.bias is not None), layer.weight.shape[1]) for layer in params]
    signs = random_signs(key, (probes, sum(a + b for a, b in sizes)), params[0].weight.dtype)
    pairs, start = [], 0
    for a, b in sizes:
        pairs.append(SignPair(signs[:, start : start + a], signs[:, start + a : start + a + b]))
        start += a + b
    return tuple(pairs)


def random_signs(key: Array, shape: tuple[int, int], dtype: Any) -> Array:
    """Independent signs ±1, each bit of a random word being one."""
    words = jax.random.bits(key, (shape[0], -(-shape[1] // 32)), jnp.uint32)
    bits = (words[..., None] >> jnp.arange(32, dtype=jnp.uint32)) & 1
    return 1 - 2 * bits.reshape(shape[0], -1)[:, : shape[1]].astype(dtype)


class Moved(NamedTuple):
    """Inputs a and signals δ of ln π at every layer, and how they and ln π change along the direction."""

    inputs: tuple[Array, ...]
    inputs_dot: tuple[Array | None, ...]
    """None where nothing moves: what comes from outside."""
    signals: tuple[Array, ...]
    signals_dot: tuple[Array, ...]
    log_prob_dot: Array


def moved(passed: layers.Backward, head: Distribution, direction: tuple[SignPair, ...], action: Array) -> Moved:
    """Forwards and backwards with a pass over samples [sample, …], dots for derivatives along the direction.

    ż = ȧ W + (a·r + r_b) c,                 ȧ₊ = φ′(z) ⊙ ż
    δ = φ′(z) ⊙ W₊δ₊,                        δ̇ = φ″(z) ⊙ ż ⊙ W₊δ₊ + φ′(z) ⊙ (W₊δ̇₊ + (c·δ₊) r)
    """
    network, params = passed.network, passed.params
    inputs_dot: list[Array | None] = []
    z_dot = []
    a_dot = None
    for index, (layer, (r, c), a) in enumerate(zip(params, direction, passed.inputs, strict=True)):
        if index == network.depth:
            a_dot = None
        along = a @ r[: a.shape[-1]] + (0 if layer.bias is None else r[-1])
        moves = along[:, None] * c
        moves = moves if a_dot is None else moves + a_dot @ layer.weight
        inputs_dot.append(a_dot)
        z_dot.append(moves)
        a_dot = passed.slopes[index].first * moves if index < network.depth - 1 else None

    last = network.depth - 1
    exit_of = jax.vmap(lambda *z: network.exit(list(z)))
    (_, outputs_dot) = jax.jvp(exit_of, tuple(passed.pre_activations[last:]), tuple(z_dot[last:]))
    slope = jax.vmap(jax.grad(head.log_prob))
    by_outputs, by_outputs_dot = jax.jvp(lambda u: slope(u, action), (passed.outputs,), (outputs_dot,))

    signals, arrivals = passed.signals_and_arrivals(by_outputs)
    signals_dot = list(passed.from_exit(by_outputs_dot))
    for index in range(last - 1, -1, -1):
        weight, (r, c) = params[index + 1].weight, direction[index + 1]
        first, second = passed.slopes[index]
        back_dot = signals_dot[0] @ weight.T + (signals[index + 1] @ c)[:, None] * r[: weight.shape[0]]
        signals_dot.insert(0, second * z_dot[index] * arrivals[index] + first * back_dot)
    log_prob_dot = jnp.sum(by_outputs * outputs_dot, axis=-1)
    return Moved(passed.inputs, tuple(inputs_dot), signals, tuple(signals_dot), log_prob_dot)


def times_signs(direction: tuple[SignPair, ...], product: tuple[Layer, ...]) -> Any:
    """V ⊙ product, layer by layer."""
    signs = tuple(pair.of_layer(layer) for pair, layer in zip(direction, product, strict=True))
    return jax.tree.map(jnp.multiply, signs, product)
