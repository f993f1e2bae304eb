"""Flax NNX and Equinox modules are the functions they were, and everything about them is what it is for an MLP."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import pgsom
from pgsom.checks import InputError
from pgsom.policies import MLP, Layer, Network, Policy
from pgsom.policies.derivatives import Chunk, fisher_diagonal, score_sum
from tests.exact.oracle import flat, quick_jit

SEEN, HIDDEN, ACTIONS = 3, 5, 2


class Small(nnx.Module):
    def __init__(self, rngs: nnx.Rngs, *, noisy: bool = False) -> None:
        self.hidden = nnx.Linear(SEEN, HIDDEN, rngs=rngs)
        self.last = nnx.Linear(HIDDEN, ACTIONS, rngs=rngs)
        self.noise = nnx.Dropout(0.5, rngs=rngs) if noisy else None

    def __call__(self, observation: Any) -> Any:
        return self.last(nnx.tanh(self.hidden(observation)))


def of_equinox(key: Any) -> Any:
    return eqx.nn.MLP(SEEN, ACTIONS, HIDDEN, 1, activation=jnp.tanh, key=key)


def layers_of(params: Any) -> tuple[Layer, ...]:
    """The parameters in the form of ours."""
    if isinstance(params, dict):
        return tuple(Layer(params[name]["kernel"], params[name]["bias"]) for name in ("hidden", "last"))
    return tuple(Layer(layer.weight.T, layer.bias) for layer in params.layers)


NETWORKS = {"nnx": pgsom.nnx_network(lambda rngs: Small(rngs)), "equinox": pgsom.equinox_network(of_equinox)}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_outputs_gradient_and_curvature_are_those_of_our_own_network(network: Network) -> None:
    ours, theirs = Policy(MLP(SEEN, ACTIONS, (HIDDEN,))), Policy(network)
    params = theirs.init(jax.random.key(0))
    chunk = Chunk(jnp.asarray(np.random.default_rng(0).normal(size=(4, 2, SEEN))), jnp.ones((4, 2), int))
    weights = jnp.arange(8.0).reshape(4, 2)

    def three(policy: Policy, params: Any) -> Any:
        outputs = jax.vmap(jax.vmap(lambda seen: policy.outputs(params, seen)))(chunk.observation)
        return outputs, *(f(policy, params, chunk, weights) for f in (score_sum, fisher_diagonal))

    found = quick_jit(three, static_argnums=0)(theirs, params)
    expected = quick_jit(three, static_argnums=0)(ours, layers_of(params))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-6)
    for own, other in zip(found[1:], expected[1:], strict=True):
        for a, b in zip(jax.tree.leaves(layers_of(own)), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_first_weights_are_the_modules_own_and_follow_the_key(network: Network) -> None:
    first, again, other = (flat(network.init(jax.random.key(k))) for k in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.usefixtures("unchecked")
def test_a_module_that_changes_while_it_is_used_is_refused() -> None:
    with pytest.raises(InputError, match=r"make=.*RngCount, RngKey; accepted are modules with nnx\.Param alone"):
        pgsom.nnx_network(lambda rngs: Small(rngs, noisy=True))

    class Counting(eqx.Module):
        steps: Any

    with pytest.raises(InputError, match=r"the module holds .*int32.*; accepted are modules whose arrays are floating"):
        pgsom.equinox_network(lambda key: Counting(jnp.zeros(2, int)))


def test_the_example_runs() -> None:
    namespace: dict[str, Any] = {"__name__": "example"}
    path = Path(__file__).parents[2] / "examples" / "own_networks.py"
    exec(compile(path.read_text("utf-8"), "own_networks", "exec"), namespace)
    results = namespace["main"](updates=1, batch=2)
    assert {name: result.policy_definition.parameter_count() for name, result in results.items()} == {
        "flax": 4 * 32 + 32 + 32 * 2 + 2,
        "equinox": 4 * 32 + 32 + 32 * 2 + 2,
    }
