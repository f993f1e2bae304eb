"""Networks that users write are exported too: what JAX traces of them, carried out by NumPy and by onnxruntime."""

from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from pgsom.checks import InputError
from pgsom.environments import Box
from pgsom.exporting import export
from pgsom.exporting.files import load_recipe, sample_observations
from pgsom.normalisation import Moments
from pgsom.policies import FunctionNetwork, Policy, equinox_network, nnx_network, standardised

VECTOR = Box((3,), (-1.0, -9.0, -np.inf), np.inf)


class Deep(nnx.Module):
    """Most of what networks are made of: normalisation, several activations, a branch, joined and cut parts."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.norm = nnx.Linear(3, 6, rngs=rngs), nnx.LayerNorm(6, rngs=rngs)
        self.last = nnx.Linear(10, 3, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        a = self.norm(self.first(x))
        parts = [nnx.relu(a[:2]), nnx.silu(a[2:4]), nnx.gelu(a[1:3]), nnx.softplus(a[4:]), nnx.elu(x[::2])]
        return self.last(jnp.where(x.sum() > 0, 1.0, -0.5) * jnp.concatenate(parts))


def of_equinox(key: jax.Array) -> eqx.nn.MLP:
    return eqx.nn.MLP(3, 3, 8, 2, activation=jnp.tanh, key=key)


def bent(weight: jax.Array, x: jax.Array) -> jax.Array:
    return (jnp.tanh(x) ** 3 - jnp.clip(x, -1.0, 0.5)) @ weight + x.max()


TRACED = {
    "nnx": nnx_network(lambda rngs: Deep(rngs)),
    "equinox": equinox_network(of_equinox),
    "functions": FunctionNetwork(lambda key: jax.random.normal(key, (3, 3)), bent),
}


@pytest.mark.parametrize("case", TRACED)
def test_a_network_of_the_users_is_exported_as_jax_traces_it(case: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    policy = Policy(TRACED[case])
    moments = Moments(jnp.asarray(9.0), jnp.array([0.5, -1.0, 2.0]), jnp.array([9.0, 1.0, 30.0]))
    params = (policy.init(jax.random.key(0)), moments)
    whole = standardised(policy, VECTOR)
    seen = sample_observations(VECTOR, 200, seed=7)
    wanted = np.asarray(jax.vmap(whole.outputs, (None, 0))(params, seen))
    path = export(whole, params, VECTOR, tmp_path / "policy.onnx", "onnx").path
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    action, outputs = session.run(["action", "distribution"], {"observation": seen})
    np.testing.assert_allclose(outputs, wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(action, outputs.argmax(axis=1))
    for file_format, suffix in (("numpy", ".npz"), ("safetensors", ".safetensors")):
        path = export(whole, params, VECTOR, tmp_path / f"policy{suffix}", file_format).path
        np.testing.assert_allclose(load_recipe(path).run(seen)[0], wanted, rtol=1e-4, atol=1e-5)


def test_an_operation_that_cannot_be_exported_is_named(tmp_path: Path) -> None:
    sorting = Policy(FunctionNetwork(lambda key: key, lambda params, seen: jnp.sort(seen)))
    with pytest.raises(InputError, match=r"policy='sort': an operation of the network that cannot be exported; acc"):
        export(sorting, jnp.zeros(1), VECTOR, tmp_path / "policy.npz", "numpy")
    by_hand = Policy(FunctionNetwork(lambda key: key, lambda params, seen: jnp.asarray([float(seen[0])] * 3)))
    with pytest.raises(InputError, match=r"policy='FunctionNetwork': cannot be exported: not traced for any batch"):
        export(by_hand, jnp.zeros(1), VECTOR, tmp_path / "policy.npz", "numpy")
