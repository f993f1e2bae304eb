"""Networks of the user's as recipes: what JAX traces of a function, in a few dozen operations that any library has.

The function is traced once for a batch of unknown size n; what depends on its parameters alone is worked out then.
What is left is a list of nodes in plain data, ``{"do": "add", "of": ["v3", "a1"], "to": "v4"}``: operands are ``"x"``
(the observations), arrays ``"a0"``, earlier nodes ``"v0"``, or numbers; a size of −1 is n. `carry_out` reckons them in
NumPy, and `onnx_traced` writes them as a graph.
"""

from typing import Any

import jax
import numpy as np
from jax import export
from jax.extend import core
from numpy.typing import NDArray

from pgsom.checks import wrong
from pgsom.environments import Spec
from pgsom.policies.networks import Network

Tree = Any
Node = dict[str, Any]
ROWS = -1
"""Stands for n in the sizes of a node."""
INLINE = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}
INLINE |= {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr"}
UNCHANGED = ("copy", "copy_p", "stop_gradient", "optimization_barrier", "reduce_precision")


def _einsum(a: Any, b: Any, equation: str) -> Any:
    return np.einsum(equation, a, b)


def _spread(x: Any, sizes: list[int], into: list[int], rows: int) -> Any:
    shape = [rows if size == ROWS else size for size in sizes]
    inserted = [1] * len(shape)
    for axis, size in zip(into, np.shape(x), strict=True):
        inserted[axis] = size
    return np.broadcast_to(np.reshape(x, inserted), shape)


def _part(x: Any, start: list[int], stop: list[int], step: list[int]) -> Any:
    edges = zip(start, stop, step, strict=True)
    return x[tuple(slice(a, None if b == ROWS else b, c) for a, b, c in edges)]


DO: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "square": np.square,
    "tanh": np.tanh,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "clamp": lambda low, x, high: np.clip(x, low, high),
    "select_n": lambda which, first, second: np.where(which, second, first),
    "integer_pow": lambda x, power: x ** float(power),
    "convert": lambda x, kind: np.asarray(x, kind),
    "einsum": _einsum,
    "spread": _spread,
    "reshape": lambda x, sizes: np.reshape(x, sizes),
    "transpose": lambda x, order: np.transpose(x, order),
    "part": _part,
    "concatenate": lambda *parts, axis: np.concatenate(parts, axis),
    "reduce_sum": lambda x, axes: np.sum(x, axis=tuple(axes)),
    "reduce_max": lambda x, axes: np.max(x, axis=tuple(axes)),
    "reduce_min": lambda x, axes: np.min(x, axis=tuple(axes)),
}
"""Every operation in NumPy."""


def carry_out(x: NDArray[Any], nodes: list[Node], result: str, **arrays: NDArray[Any]) -> NDArray[Any]:
    """The outputs [n, output] of a traced network for observations [n, …]."""
    known: dict[str, Any] = {"x": x, **arrays}
    for node in nodes:
        numbers = {key: value for key, value in node.items() if key not in ("do", "of", "to")}
        numbers |= {"rows": len(x)} if node["do"] == "spread" else {}
        operands = [known[one] if isinstance(one, str) else one for one in node["of"]]
        with np.errstate(all="ignore"):  # in branches that are not taken
            known[node["to"]] = DO[node["do"]](*operands, **numbers)
    return np.asarray(known[result])


def traced(network: Network, params: Tree, observation: Spec) -> tuple[list[Node], str, dict[str, NDArray[Any]]]:
    """Nodes, which of them is the result, and the arrays that they use."""
    (rows,) = export.symbolic_shape("n")
    kind = np.int32 if np.issubdtype(observation.dtype, np.integer) else np.float32
    seen = jax.ShapeDtypeStruct((rows, *observation.shape), kind)
    try:
        closed = jax.make_jaxpr(jax.vmap(lambda one: network.apply(params, one)))(seen)
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise wrong(
            "policy", type(network).__name__, f"cannot be exported: not traced for any batch ({reason})"
        ) from None
    tracing = _Tracing()
    (result,) = tracing.inlined(closed.jaxpr, closed.consts, ["x"])
    return tracing.nodes, tracing.named(result), tracing.arrays


class _Tracing:
    """Nodes and arrays, collected. A value is a name, or an array that does not depend on the observations."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.arrays: dict[str, NDArray[Any]] = {}

    def inlined(self, jaxpr: Any, constants: Any, given: list[Any]) -> list[Any]:
        """The results of the equations for these arguments."""
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, map(np.asarray, constants), strict=True))
        known |= dict(zip(jaxpr.invars, given, strict=True))

        def value(atom: Any) -> Any:
            return np.asarray(atom.val) if isinstance(atom, core.Literal) else known[atom]

        for equation in jaxpr.eqns:
            operands = [value(atom) for atom in equation.invars]
            known |= dict(zip(equation.outvars, self._results(equation, operands), strict=True))
        return [value(atom) for atom in jaxpr.outvars]

    def named(self, value: Any) -> Any:
        """As a node refers to it."""
        if isinstance(value, str):
            return value
        if value.ndim == 0:
            return value.item()
        name = f"a{len(self.arrays)}"
        self.arrays[name] = value.astype(np.float32) if value.dtype.kind == "f" else value
        return name

    def _results(self, equation: Any, operands: list[Any]) -> list[Any]:
        name, params = equation.primitive.name, equation.params
        if not any(isinstance(operand, str) for operand in operands) and _sizes_known(equation):
            worked_out = equation.primitive.bind(*operands, **params)
            return [np.asarray(x) for x in (worked_out if equation.primitive.multiple_results else [worked_out])]
        if name in INLINE:
            inner = params[INLINE[name]]
            return self.inlined(inner.jaxpr, inner.consts, operands)
        if name in UNCHANGED:
            return operands
        return [self._node(*_described(equation, name, params), operands)]

    def _node(self, do: str, numbers: dict[str, Any], operands: list[Any]) -> str:
        to = f"v{len(self.nodes)}"
        self.nodes.append({"do": do, "of": [self.named(operand) for operand in operands], "to": to, **numbers})
        return to


def _sizes_known(equation: Any) -> bool:
    return all(isinstance(size, int) for variable in equation.outvars for size in variable.aval.shape)


def _described(equation: Any, name: str, params: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The operation and its numbers, in the terms of `DO`."""
    if name == "dot_general":
        shapes = [variable.aval.ndim for variable in equation.invars]
        return "einsum", {"equation": _equation(params["dimension_numbers"], shapes)}
    if name == "broadcast_in_dim":
        return "spread", {"sizes": _sizes(params["shape"]), "into": list(map(int, params["broadcast_dimensions"]))}
    if name in ("reshape", "squeeze", "expand_dims"):
        return "reshape", {"sizes": _sizes(equation.outvars[0].aval.shape, merged=True)}
    if name == "transpose":
        return name, {"order": list(map(int, params["permutation"]))}
    if name == "slice":
        steps = params["strides"] or (1,) * len(params["start_indices"])
        return "part", {
            "start": list(params["start_indices"]),
            "stop": _sizes(params["limit_indices"]),
            "step": list(steps),
        }
    if name == "concatenate":
        return name, {"axis": int(params["dimension"])}
    if name in ("reduce_sum", "reduce_max", "reduce_min"):
        return name, {"axes": list(map(int, params["axes"]))}
    if name == "integer_pow":
        return name, {"power": int(params["y"])}
    if name == "convert_element_type":
        kind = np.dtype(params["new_dtype"]).kind
        return "convert", {"kind": {"f": "float64", "b": "bool"}.get(kind, "int64")}
    plain = name in DO and not (name == "select_n" and len(equation.invars) != 3)
    if not plain:
        raise wrong(
            "policy", name, "an operation of the network that cannot be exported; accepted are " + ", ".join(DO)
        )
    return name, {}


def _equation(dimensions: Any, shapes: list[int]) -> str:
    """Of `numpy.einsum`: batch axes first, then what is left of the one, then of the other."""
    (one, other), (batch, batch_other) = dimensions
    names = [[""] * shapes[0], [""] * shapes[1]]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for pairs in (zip(batch, batch_other, strict=True), zip(one, other, strict=True)):
        for i, j in pairs:
            names[0][i] = names[1][j] = next(letters)
    shared, rest = [names[0][i] for i in batch], []
    for own in names:
        for axis, name in enumerate(own):
            if not name:
                own[axis] = next(letters)
                rest.append(own[axis])
    return f"{''.join(names[0])},{''.join(names[1])}->{''.join([*shared, *rest])}"


def _sizes(shape: Any, *, merged: bool = False) -> list[int]:
    """With −1 for n, and with `merged` for whatever one size depends on it."""
    found = [int(size) if isinstance(size, int | np.integer) else ROWS for size in shape]
    symbolic = [size for size in shape if not isinstance(size, int | np.integer)]
    if len(symbolic) > 1 or (symbolic and not merged and str(symbolic[0]) != "n"):
        raise wrong("policy", str(tuple(map(str, shape))), "sizes that mix the batch with others cannot be exported")
    return found
