"""A policy's forward pass and its draws in NumPy, for many members and copies at once.

A small network in NumPy takes a fraction of the time that merely calling a compiled program does, which is what
counts where a simulator on the host is stepped between two calls. The random numbers are those of the distribution's
own `noise`, so what is drawn is what `Distribution.sample` draws with the same key, to the rounding of the dtype.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgsom.normalisation import LARGEST, SMALLEST_VARIANCE, Moments
from pgsom.policies.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Gaussian,
    MultiCategorical,
    TanhGaussian,
)
from pgsom.policies.networks import MLP, Network
from pgsom.policies.standardised import Standardised

Tree = Any
Function = Callable[[NDArray[Any]], NDArray[Any]]


def _gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


ACTIVATIONS: dict[str, Function] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "gelu": _gelu,
}
"""Those of `networks.ACTIVATIONS`."""
HEADS = (Categorical, MultiCategorical, Bernoulli, Gaussian, TanhGaussian)


def goes_in_numpy(network: Network, head: Distribution) -> bool:
    """Whether both parts are of the kinds that this module knows; a class derived from one of them may do otherwise."""
    inner = network.network if type(network) is Standardised else network
    return type(inner) is MLP and type(head) in HEADS


def kind_of_outputs(network: Network, params: Tree) -> tuple[int, Any]:
    """How many outputs the network has, and their dtype."""
    inner, layers = (network.network, params[0]) if isinstance(network, Standardised) else (network, params)
    assert isinstance(inner, MLP)
    return inner.outputs, np.dtype(layers[0].weight.dtype)


def forward(network: Network, params: Tree, seen: Moments | None) -> Function:
    """Observations [member, copy, …] → outputs [member, copy, output], of parameters [member, …]."""
    if isinstance(network, Standardised):
        params, seen = params
        return forward(network.network, params, seen)
    assert isinstance(network, MLP)
    mlp, phi = network, ACTIVATIONS[network.activation]
    # Of one member without its axis, as products of two axes are the quickest.
    own: Any = (lambda x: np.asarray(x)[0]) if len(params[0].weight) == 1 else np.asarray
    weights = [own(layer.weight) for layer in params]
    biases = [None if layer.bias is None else own(np.asarray(layer.bias)[:, None]) for layer in params]
    dtype, behind, standard = weights[0].dtype, _behind(mlp, weights), _standardising(seen, own)
    table = np.eye(mlp.inputs, dtype=dtype) if mlp.one_hot else None
    layers = list(zip(weights, biases, [phi] * (mlp.depth - 1) + [None], strict=False))

    def outputs(observation: NDArray[Any]) -> NDArray[Any]:
        seen = own(observation)
        a = standard(seen.astype(dtype, copy=False)) if table is None else table[seen]
        for weight, bias, bend in layers:
            a = a @ weight
            if bias is not None:
                a += bias
            a = a if bend is None else bend(a)
        if behind is not None:
            last, a = a, np.empty((*a.shape[:-1], mlp.outputs), dtype)
            a[..., : last.shape[-1]], a[..., last.shape[-1] :] = last, behind
        return a.reshape(*observation.shape[:2], mlp.outputs)

    return outputs


def drawn(head: Distribution, outputs: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
    """What `head.sample` makes of these outputs [member, copy, output] and of its `noise`."""
    if isinstance(head, Categorical):
        return _choice(outputs, noise)
    if isinstance(head, MultiCategorical):
        parts = np.split(outputs, np.cumsum(head.choices)[:-1], axis=-1)
        return np.stack([_choice(part, noise[..., i]) for i, part in enumerate(parts)], axis=-1)
    if isinstance(head, Bernoulli):
        return (noise < 1 / (1 + np.exp(-outputs))).astype(np.int32)
    size = outputs.shape[-1] // 2
    return outputs[..., :size] + np.exp(outputs[..., size:]) * noise


def mode(head: Distribution, outputs: NDArray[Any]) -> NDArray[Any]:
    """`head.mode` of outputs [member, copy, output]."""
    if isinstance(head, Categorical):
        return outputs.argmax(axis=-1).astype(np.int32)
    if isinstance(head, MultiCategorical):
        parts = np.split(outputs, np.cumsum(head.choices)[:-1], axis=-1)
        return np.stack([part.argmax(axis=-1) for part in parts], axis=-1).astype(np.int32)
    if isinstance(head, Bernoulli):
        return (outputs > 0).astype(np.int32)
    return outputs[..., : outputs.shape[-1] // 2]


def executed(head: Distribution, dtype: Any) -> Function:
    """`head.executed` of actions [member, copy, …] of this dtype."""
    if not isinstance(head, Gaussian | TanhGaussian):
        return lambda action: action
    bounds, squashed = head.bounds, isinstance(head, TanhGaussian)
    centre, half, low, high = (np.asarray(x, dtype) for x in (bounds.centre, bounds.half, bounds.low, bounds.high))

    def of(action: NDArray[Any]) -> NDArray[Any]:
        unit = half * (np.tanh(action) if squashed else action)
        unit += centre
        return np.minimum(np.maximum(unit, low), high).reshape(*action.shape[:2], *bounds.shape)

    return of


def _choice(logits: NDArray[Any], uniform: NDArray[Any]) -> NDArray[Any]:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    below = weights.cumsum(axis=-1)
    below /= below[..., -1:]
    return (uniform[..., None] >= below[..., :-1]).sum(axis=-1, dtype=np.int32)


def _behind(mlp: MLP, weights: list[Any]) -> NDArray[Any] | None:
    """[member, 1, output], or [1, output]; the outputs that do not depend on the observation, after the others."""
    pinned = [np.zeros((*weights[0].shape[:-2], 1, 1), weights[0].dtype)] if mlp.pinned_output else []
    free = [weights[mlp.depth]] if mlp.free else []
    return np.concatenate([*pinned, *free], axis=-1) if pinned or free else None


def _standardising(seen: Moments | None, own: Any) -> Function:
    """`normalisation.standardise`."""
    if seen is None:
        return lambda x: x
    mean, kind = np.asarray(seen.mean)[:, None], seen.mean.dtype
    number = np.asarray(seen.number).reshape(-1, *[1] * (mean.ndim - 1))
    variance = np.maximum(np.asarray(seen.squares)[:, None] / np.maximum(number, 1), SMALLEST_VARIANCE)
    known = number > 0
    mean, size = own(np.where(known, mean, 0).astype(kind)), own(np.where(known, np.sqrt(variance), 1).astype(kind))
    limit = own(np.where(known, LARGEST, math.inf).astype(kind))
    return lambda x: np.minimum(np.maximum((x - mean) / size, -limit), limit)
