"""A traced network as nodes of an ONNX graph."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pgsom.exporting.traced import ROWS, Node

SAME = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "pow": "Pow",
    "max": "Max",
    "min": "Min",
    "neg": "Neg",
    "abs": "Abs",
    "sign": "Sign",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "tanh": "Tanh",
    "logistic": "Sigmoid",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "lt": "Less",
    "le": "LessOrEqual",
    "eq": "Equal",
    "and": "And",
    "or": "Or",
    "not": "Not",
}
"""Operations that ONNX has too."""
REDUCED = {"reduce_sum": "ReduceSum", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}
KINDS = {"float64": 11, "int64": 7, "bool": 9}
"""ONNX's numbers for them."""


def add_traced(graph: Any, x: str, nodes: list[Node], result: str, arrays: dict[str, str]) -> str:
    """The name of the traced network's outputs in the graph; `arrays` names the constants that are in it."""
    known = {"x": x, **arrays}
    for node in nodes:
        operands = [known[one] if isinstance(one, str) else graph.constant(one, _kind(one)) for one in node["of"]]
        known[node["to"]] = _added(graph, node, operands, x)
    return known[result]


def _kind(number: Any) -> Any:
    return np.bool_ if isinstance(number, bool) else np.float64 if isinstance(number, float) else np.int64


def _added(graph: Any, node: Node, of: list[str], x: str) -> str:
    do, made = node["do"], graph.node
    if do in SAME:
        return made(SAME[do], *of)
    if do in REDUCED:
        return made(REDUCED[do], of[0], graph.constant(node["axes"], np.int64), keepdims=0)
    return COMPOSED[do](graph, node, of, x)


def _spread(graph: Any, node: Node, of: list[str], x: str) -> str:
    """Axes of size 1 are inserted, then all are spread."""
    others = [axis for axis in range(len(node["sizes"])) if axis not in node["into"]]
    inserted = graph.node("Unsqueeze", of[0], graph.constant(others, np.int64)) if others else of[0]
    rows = graph.node("Shape", x, start=0, end=1)
    sizes = [rows if size == ROWS else graph.constant([size], np.int64) for size in node["sizes"]]
    return graph.node("Expand", inserted, graph.node("Concat", *sizes, axis=0))


def _part(graph: Any, node: Node, of: list[str], x: str) -> str:
    del x
    stop = [np.iinfo(np.int64).max if edge == ROWS else edge for edge in node["stop"]]
    edges = (node["start"], stop, list(range(len(stop))), node["step"])
    return graph.node("Slice", of[0], *(graph.constant(edge, np.int64) for edge in edges))


def _one(graph: Any) -> str:
    return graph.constant(1.0)


COMPOSED: dict[str, Callable[[Any, Node, list[str], str], str]] = {
    "ne": lambda g, n, of, x: g.node("Not", g.node("Equal", *of)),
    "expm1": lambda g, n, of, x: g.node("Sub", g.node("Exp", of[0]), _one(g)),
    "log1p": lambda g, n, of, x: g.node("Log", g.node("Add", _one(g), of[0])),
    "rsqrt": lambda g, n, of, x: g.node("Div", _one(g), g.node("Sqrt", of[0])),
    "square": lambda g, n, of, x: g.node("Mul", of[0], of[0]),
    "clamp": lambda g, n, of, x: g.node("Min", g.node("Max", of[1], of[0]), of[2]),
    "select_n": lambda g, n, of, x: g.node("Where", of[0], of[2], of[1]),
    "integer_pow": lambda g, n, of, x: g.node("Pow", of[0], g.constant(float(n["power"]))),
    "convert": lambda g, n, of, x: g.node("Cast", of[0], to=KINDS[n["kind"]]),
    "einsum": lambda g, n, of, x: g.node("Einsum", *of, equation=n["equation"]),
    "spread": _spread,
    "reshape": lambda g, n, of, x: g.node("Reshape", of[0], g.constant(n["sizes"], np.int64)),
    "transpose": lambda g, n, of, x: g.node("Transpose", of[0], perm=n["order"]),
    "part": _part,
    "concatenate": lambda g, n, of, x: g.node("Concat", *of, axis=n["axis"]),
}
