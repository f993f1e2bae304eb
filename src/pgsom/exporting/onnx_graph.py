"""A recipe as an ONNX model: input ``observation`` [n, …], outputs ``action`` and ``distribution``."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgsom.exporting.onnx_traced import add_traced
from pgsom.exporting.recipe import Recipe, Step

OPSET, IR_VERSION = 18, 9
DOUBLE = 11
"""ONNX's number for 64 bits."""


class _Graph:
    """Nodes and constants, collected."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """The name of a constant; arrays of 32 bits are kept so, and widened where they are used."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        narrow = isinstance(values, np.ndarray) and values.dtype == np.float32
        array: NDArray[Any] = np.asarray(values, np.float32 if narrow else dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return self.node("Cast", name, to=DOUBLE) if narrow else name

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """The name of the operation's result."""
        from onnx import helper

        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def renamed(self, result: str, name: str, to: int) -> None:
        """`result` under the name of an output, and of its type."""
        from onnx import helper

        self.nodes.append(helper.make_node("Cast", [result], [name], to=to))


def onnx_model(recipe: Recipe) -> bytes:
    """The model, checked by ONNX's own checker."""
    import onnx
    from onnx import TensorProto, helper

    graph = _Graph()
    x = outputs = "observation" if recipe.whole_numbers else graph.node("Cast", "observation", to=DOUBLE)
    for index, step in enumerate(recipe.steps):
        if index == recipe.outputs:
            outputs = x
        x = _added(graph, step, x)
    graph.renamed(outputs, "distribution", TensorProto.FLOAT)
    seen = TensorProto.INT64 if recipe.whole_numbers else TensorProto.FLOAT
    continuous = recipe.steps[-1].do == "to_bounds"
    acted = TensorProto.FLOAT if continuous else TensorProto.INT64
    graph.renamed(x, "action", acted)
    shape = _action_shape(recipe.steps[-1])
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "policy",
            [helper.make_tensor_value_info("observation", seen, ["n", *recipe.observation_shape])],
            [
                helper.make_tensor_value_info("action", acted, ["n", *shape]),
                helper.make_tensor_value_info("distribution", TensorProto.FLOAT, ["n", None]),
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="pgsom",
    )
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def _action_shape(last: Step) -> list[Any]:
    if last.do == "to_bounds":
        return list(last.numbers["shape"])
    return [] if last.do == "argmax" else [None]


def _added(graph: _Graph, step: Step, x: str) -> str:
    """The name of the step's result."""
    arrays = {name: graph.constant(array, _kept(array)) for name, array in step.arrays.items()}
    numbers, node, constant = step.numbers, graph.node, graph.constant
    if step.do == "graph":
        return add_traced(graph, x, numbers["nodes"], numbers["result"], arrays)
    if step.do in SINGLE:
        return node(SINGLE[step.do], x)
    if step.do == "standardise":
        standard = node("Mul", node("Sub", x, arrays["mean"]), arrays["scale"])
        return node("Clip", standard, constant(-numbers["limit"]), constant(numbers["limit"]))
    if step.do == "one_hot":
        return node("Gather", constant(np.eye(numbers["width"])), x)
    if step.do == "affine":
        return node("Add", node("MatMul", x, arrays["weight"]), arrays["bias"])
    if step.do == "normalise":
        return node("LayerNormalization", x, arrays["gain"], arrays["shift"], epsilon=numbers["epsilon"])
    if step.do == "softplus":
        return _softplus(graph, x)
    if step.do == "elu":
        below = node("Sub", node("Exp", node("Min", x, constant(0))), constant(1))
        return node("Add", node("Max", x, constant(0)), below)
    if step.do == "silu":
        return node("Mul", x, node("Sigmoid", x))
    if step.do == "gelu":
        inner = node("Add", x, node("Mul", constant(0.044715), node("Mul", x, node("Mul", x, x))))
        opened = node("Add", constant(1), node("Tanh", node("Mul", constant(math.sqrt(2 / math.pi)), inner)))
        return node("Mul", node("Mul", constant(0.5), x), opened)
    return _of_head(graph, step, x, arrays)


def _kept(array: NDArray[Any]) -> Any:
    """Real numbers are reckoned with in 64 bits, everything else is kept as it is."""
    return np.float64 if array.dtype.kind == "f" else array.dtype


def _of_head(graph: _Graph, step: Step, x: str, arrays: dict[str, str]) -> str:
    node, constant = graph.node, graph.constant
    if step.do == "append":
        rows = node("Shape", x, start=0, end=1)
        shape = node("Concat", rows, constant([len(step.arrays["values"])], np.int64), axis=0)
        return node("Concat", x, node("Expand", arrays["values"], shape), axis=1)
    if step.do == "argmax":
        return node("ArgMax", x, axis=1, keepdims=0)
    if step.do == "argmax_each":
        starts = np.concatenate([[0], np.cumsum(step.numbers["choices"])])
        parts = [_columns(graph, x, int(a), int(b)) for a, b in itertools.pairwise(starts)]
        return node("Concat", *(node("ArgMax", part, axis=1, keepdims=1) for part in parts), axis=1)
    if step.do == "positive":
        return node("Greater", x, constant(0))
    if step.do == "to_bounds":
        moved = node("Add", arrays["centre"], node("Mul", arrays["half"], x))
        within = node("Max", node("Min", moved, arrays["high"]), arrays["low"])
        return node("Reshape", within, constant([-1, *step.numbers["shape"]], np.int64))
    u, v = _halves(graph, x)
    if step.do == "first_half":
        return u
    u, v = _softplus(graph, u), _softplus(graph, v)
    return node("Sub", node("Div", node("Mul", constant(2), u), node("Add", u, v)), constant(1))


def _columns(graph: _Graph, x: str, start: int, end: int) -> str:
    edges = [graph.constant([edge], np.int64) for edge in (start, end, 1)]
    return graph.node("Slice", x, *edges)


def _halves(graph: _Graph, x: str) -> tuple[str, str]:
    """The first and the second half of the columns."""
    from onnx import helper

    u, v = f"h{len(graph.nodes)}", f"k{len(graph.nodes)}"
    graph.nodes.append(helper.make_node("Split", [x], [u, v], axis=1, num_outputs=2))
    return u, v


def _softplus(graph: _Graph, x: str) -> str:
    """max(x, 0) + ln(1 + exp −|x|)."""
    node, constant = graph.node, graph.constant
    small = node("Log", node("Add", constant(1), node("Exp", node("Neg", node("Abs", x)))))
    return node("Add", node("Max", x, constant(0)), small)


SINGLE = {"tanh": "Tanh", "relu": "Relu"}
"""Steps that are one operation of ONNX."""
