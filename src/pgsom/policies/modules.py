"""Networks written with Flax NNX or Equinox: taken apart into parameters and the function of them.

Both libraries keep parameters inside of modules; everything here wants them outside. Either is needed only by those who
pass a module of it. A module's own way to draw its first weights is kept.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax import Array

from pgsom.checks import wrong
from pgsom.policies.networks import FunctionNetwork, Params


def nnx_network(make: Callable[[Any], Any]) -> FunctionNetwork:
    """A Flax NNX module: ``nnx_network(lambda rngs: MyModule(rngs=rngs))``, called with one observation.

    Its state must be parameters alone (`nnx.Param`); what else changes while it is used, such as the statistics of a
    batch norm or a dropout's random numbers, has no place in a policy that is one function of what it sees.
    """
    from flax import nnx

    shapes = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    parts: Any = nnx.split(shapes, nnx.Param, ...)
    graph, params, rest = parts
    if jax.tree.leaves(rest):
        kinds = sorted({type(variable).__name__ for _, variable in nnx.to_flat_state(rest)})
        raise wrong("make", make, f"the module has {', '.join(kinds)}; accepted are modules with nnx.Param alone")

    def init(key: Array) -> Params:
        return nnx.to_pure_dict(nnx.state(make(nnx.Rngs(key)), nnx.Param))

    def apply(values: Params, observation: Array) -> Array:
        state = jax.tree.map(lambda leaf: leaf, params)
        nnx.replace_by_pure_dict(state, values)
        outputs: Array = nnx.merge(graph, state)(observation)
        return outputs

    return FunctionNetwork(init, apply)


def equinox_network(make: Callable[[Array], Any]) -> FunctionNetwork:
    """An Equinox module: ``equinox_network(lambda key: eqx.nn.MLP(4, 2, 64, 2, key=key))``.

    It is called with one observation. Its floating-point arrays are the parameters; all else in it is constant.
    """
    import equinox

    _, constant = equinox.partition(equinox.filter_eval_shape(make, jax.random.key(0)), _is_parameter)
    held = [leaf for leaf in jax.tree.leaves(constant) if isinstance(leaf, jax.ShapeDtypeStruct)]
    if held:
        raise wrong("make", make, f"the module holds {held[0]}; accepted are modules whose arrays are floating-point")

    def init(key: Array) -> Params:
        return equinox.filter(make(key), equinox.is_inexact_array)

    def apply(params: Params, observation: Array) -> Array:
        outputs: Array = equinox.combine(params, constant)(observation)
        return outputs

    return FunctionNetwork(init, apply)


def _is_parameter(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct) and jax.numpy.issubdtype(leaf.dtype, jax.numpy.inexact)
