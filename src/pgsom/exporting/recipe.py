"""A policy as a recipe: a short list of steps from an observation to the action, numbers and arrays included.

A recipe knows nothing of JAX. `Recipe.act` carries it out in NumPy, and `onnx_graph` writes it as a graph; a file in
the formats numpy and safetensors is the recipe itself. Numbers are kept as they were trained, in 32 bits, and reckoned
with in 64, so that files agree with each other and with the policy however a library orders its sums.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from pgsom.checks import wrong
from pgsom.environments import Discrete, Spec
from pgsom.exporting.traced import carry_out, traced
from pgsom.normalisation import LARGEST
from pgsom.policies import (
    MLP,
    Bernoulli,
    Beta,
    Categorical,
    Gaussian,
    LayerNormMLP,
    MultiCategorical,
    Policy,
    TanhGaussian,
)
from pgsom.policies.in_numpy import ACTIVATIONS
from pgsom.policies.layer_norm import EPSILON
from pgsom.policies.networks import Layer, Network
from pgsom.policies.standardised import Standardised

Tree = Any


class Step(NamedTuple):
    """One step: what is done, with which numbers and which arrays."""

    do: str
    numbers: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Recipe:
    """Steps from observations [n, …] to actions [n, …]; `outputs` of them end with the distribution's parameters."""

    steps: tuple[Step, ...]
    outputs: int
    observation_shape: tuple[int, ...]
    whole_numbers: bool
    """Whether an observation is one whole number."""

    def act(self, observations: NDArray[Any]) -> NDArray[Any]:
        """The most probable action for each observation."""
        return self.run(observations)[1]

    def run(self, observations: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The distribution's parameters, and the action."""
        x: NDArray[Any] = np.asarray(observations, np.int64 if self.whole_numbers else np.float64)
        outputs = x
        for index, step in enumerate(self.steps):
            if index == self.outputs:
                outputs = x
            x = DO[step.do](x, **step.numbers, **step.arrays)
        return outputs, x


def recipe_of(policy: Policy, params: Tree, observation: Spec) -> Recipe:
    """The policy's recipe: of a network of the package's own layer by layer, of any other as JAX traces it."""
    steps = _network(policy.network, params, observation)
    return Recipe((*steps, *_head(policy)), len(steps), observation.shape, isinstance(observation, Discrete))


def _network(network: Network, params: Tree, observation: Spec) -> list[Step]:
    if isinstance(network, Standardised):
        inner, seen = params
        scale = np.float32(1) / np.sqrt(_array(seen.variance))
        known = bool(np.asarray(seen.number) > 0)
        first = [Step("standardise", {"limit": LARGEST}, {"mean": _array(seen.mean), "scale": scale})] if known else []
        return first + _network(network.network, inner, observation)
    if isinstance(network, LayerNormMLP):
        return _mlp(network.mlp, *params)
    if isinstance(network, MLP):
        return _mlp(network, params, ())
    nodes, result, arrays = traced(network, params, observation)
    return [Step("graph", {"nodes": nodes, "result": result}, arrays)]


def _mlp(mlp: MLP, layers: tuple[Layer, ...], norms: tuple[Any, ...]) -> list[Step]:
    steps = [Step("one_hot", {"width": mlp.inputs}, {})] if mlp.one_hot else []
    for index, layer in enumerate(layers[: mlp.depth]):
        bias = np.zeros(layer.weight.shape[1], np.float32) if layer.bias is None else _array(layer.bias)
        steps.append(Step("affine", {}, {"weight": _array(layer.weight), "bias": bias}))
        if index < len(norms):
            of_norm = {"gain": _array(norms[index].gain), "shift": _array(norms[index].shift)}
            steps.append(Step("normalise", {"epsilon": EPSILON}, of_norm))
        if index < mlp.depth - 1:
            steps.append(Step(mlp.activation, {}, {}))
    behind = [np.zeros(1, np.float32)] if mlp.pinned_output else []
    behind += [_array(layers[mlp.depth].weight)[0]] if mlp.free else []
    return [*steps, Step("append", {}, {"values": np.concatenate(behind)})] if behind else steps


def _head(policy: Policy) -> list[Step]:
    """The mode, and what the environment is given for it."""
    head = policy.distribution
    if isinstance(head, Categorical):
        return [Step("argmax", {}, {})]
    if isinstance(head, MultiCategorical):
        return [Step("argmax_each", {"choices": list(head.choices)}, {})]
    if isinstance(head, Bernoulli):
        return [Step("positive", {}, {})]
    if not isinstance(head, Gaussian | TanhGaussian | Beta):
        raise wrong("policy", type(head).__name__, "accepted are the package's own action distributions")
    unit = [Step("beta_mode", {}, {})] if isinstance(head, Beta) else [Step("first_half", {}, {})]
    unit += [Step("tanh", {}, {})] if isinstance(head, TanhGaussian) else []
    bounds = head.bounds
    names = {"centre": bounds.centre, "half": bounds.half, "low": bounds.low, "high": bounds.high}
    arrays = {name: np.asarray(numbers, np.float32) for name, numbers in names.items()}
    return [*unit, Step("to_bounds", {"shape": list(bounds.shape)}, arrays)]


def _array(leaf: Any) -> NDArray[np.float32]:
    return np.asarray(jax.device_get(leaf), np.float32)


def _normalise(x: Any, epsilon: float, gain: Any, shift: Any) -> Any:
    apart = x - x.mean(axis=-1, keepdims=True)
    return gain * apart / np.sqrt(np.square(apart).mean(axis=-1, keepdims=True) + epsilon) + shift


def _argmax_each(x: Any, choices: list[int]) -> Any:
    return np.stack([part.argmax(-1) for part in np.split(x, np.cumsum(choices)[:-1], axis=-1)], axis=-1)


def _beta_mode(x: Any) -> Any:
    u, v = map(ACTIVATIONS["softplus"], np.split(x, 2, axis=-1))
    return 2 * u / (u + v) - 1


def _to_bounds(x: Any, shape: list[int], centre: Any, half: Any, low: Any, high: Any) -> Any:
    return np.clip(centre + half * x, low, high).reshape(-1, *shape)


DO: dict[str, Any] = {
    "standardise": lambda x, limit, mean, scale: np.clip((x - mean) * scale, -limit, limit),
    "one_hot": lambda x, width: np.eye(width)[x],
    "affine": lambda x, weight, bias: x @ weight + bias,
    "normalise": _normalise,
    **ACTIVATIONS,
    "graph": carry_out,
    "append": lambda x, values: np.concatenate([x, np.broadcast_to(values, (len(x), len(values)))], axis=-1),
    "argmax": lambda x: x.argmax(-1),
    "argmax_each": _argmax_each,
    "positive": lambda x: (x > 0).astype(np.int64),
    "first_half": lambda x: x[:, : x.shape[1] // 2],
    "beta_mode": _beta_mode,
    "to_bounds": _to_bounds,
}
"""Every step in NumPy."""
