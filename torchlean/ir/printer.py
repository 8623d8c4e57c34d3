"""Graph → text: one line per value, stable, used by golden tests.

graph loss(%0: f32[3], %1: f32[]) {
  %2: f32[3] = mul(%0, %0)
  %3: f32[] = reduce_sum(%2, axes=(0,))
  return %3
}
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph, Node
from torchlean.ir.literal import Literal

MAX_NODES = 200
_MAX_ENTRIES = 8


def params_text(params: Any) -> list[str]:
    """`axes=(0,)` for each parameter; the body of a composite is not shown, it follows from the attributes."""
    if isinstance(params, Literal):
        return [_array_text(params.array)]
    attributes = getattr(params, "attributes", None)
    if attributes is not None:
        return [f"{key}={_plain(value)}" for key, value in attributes]
    shown: list[str] = []
    for name in getattr(type(params), "__dataclass_fields__", {}):
        held = getattr(params, name)
        if isinstance(held, Graph):
            continue
        if name == "bits":
            shown.append(f"value={_array_text(params.entry)}")
        else:
            shown.append(f"{name}={_plain(held)}")
    return shown


def _plain(value: Any) -> str:
    if isinstance(value, Enum) and not isinstance(value, DType):
        return value.name
    return repr(value) if isinstance(value, str) else str(value)


def _array_text(array: np.ndarray[Any, Any]) -> str:
    """The entries, each with as few digits as tell it apart in its dtype; only their number when there are many."""
    return f"<{array.size} entries>" if array.size > _MAX_ENTRIES else _entries(array)


def _entries(array: np.ndarray[Any, Any]) -> str:
    if array.ndim == 0:
        return str(array[()])
    return "[" + ", ".join([_entries(array[at, ...]) for at in range(len(array))]) + "]"


def node_text(graph: Graph, node: Node) -> str:
    """`%2: f32[3] = mul(%0, %0)`."""
    results = ", ".join(f"%{id}: {graph.types[id]}" for id in node.outputs)
    arguments = ", ".join([f"%{id}" for id in node.inputs] + params_text(node.params))
    return f"{results} = {node.op.name}({arguments})"


def _lines(graph: Graph, max_nodes: int, locations: bool) -> Iterator[str]:
    inputs = ", ".join(f"%{id}: {graph.types[id]}" for id in graph.inputs)
    yield f"graph {graph.name}({inputs}) {{"
    total = len(graph.nodes)
    hidden = total - max_nodes
    head = total if hidden <= 0 else max_nodes - max_nodes // 4
    tail = total if hidden <= 0 else total - max_nodes // 4
    for position in range(head):
        yield _line(graph, graph.nodes[position], locations)
    if hidden > 0:
        yield f"  … {tail - head} more nodes …"
        for position in range(tail, total):
            yield _line(graph, graph.nodes[position], locations)
    yield "  return " + (", ".join(f"%{id}" for id in graph.outputs) or "nothing")
    yield "}"


def _line(graph: Graph, node: Node, locations: bool) -> str:
    text = "  " + node_text(graph, node)
    return f"{text}  # {node.where}" if locations else text


def graph_text(graph: Graph, *, max_nodes: int | None = MAX_NODES, locations: bool = False) -> str:
    """The graph as text; beyond `max_nodes` the middle is left out and counted (None: everything)."""
    limit = len(graph.nodes) if max_nodes is None else max(4, max_nodes)
    return "\n".join(_lines(graph, limit, locations))
