"""Graph → text: one line per value, stable, used by golden tests.

graph loss(%0: f32[3], %1: f32[]) {
  %2: f32[3] = mul(%0, %0)
  %3: f32[] = reduce_sum(%2, axes=(0,))
  return %3
}

The sub-graphs of control flow are indented below their node; bodies of composites are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph, Node, sub_graphs
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
        if isinstance(held, Graph) or (held.__class__ is tuple and held and isinstance(held[0], Graph)):
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


def _lines(graph: Graph, max_nodes: int | None, locations: bool, head: str, indent: str) -> Iterator[str]:
    inputs = ", ".join(f"%{id}: {graph.types[id]}" for id in graph.inputs)
    yield f"{indent}{head} {graph.name}({inputs}) {{"
    total = len(graph.nodes)
    limit = total if max_nodes is None else max(4, max_nodes)
    hidden = total - limit
    first = total if hidden <= 0 else limit - limit // 4
    last = total if hidden <= 0 else total - limit // 4
    for position in range(first):
        yield from _node_lines(graph, graph.nodes[position], max_nodes, locations, indent)
    if hidden > 0:
        yield f"{indent}  … {last - first} more nodes …"
        for position in range(last, total):
            yield from _node_lines(graph, graph.nodes[position], max_nodes, locations, indent)
    yield f"{indent}  return " + (", ".join(f"%{id}" for id in graph.outputs) or "nothing")
    yield f"{indent}}}"


def _node_lines(graph: Graph, node: Node, max_nodes: int | None, locations: bool, indent: str) -> Iterator[str]:
    """The node's line, then the sub-graphs of control flow, indented below it."""
    text = f"{indent}  {node_text(graph, node)}"
    of = f", derivative of {node.where.derivative_of}" if node.where.derivative_of else ""
    yield f"{text}  # {node.where}{of}" if locations else text
    if not hasattr(node.params, "attributes"):
        for field, held in sub_graphs(node.params):
            yield from _lines(held, max_nodes, locations, field, f"{indent}    ")


def graph_text(graph: Graph, *, max_nodes: int | None = MAX_NODES, locations: bool = False) -> str:
    """The graph as text; beyond `max_nodes` the middle is left out and counted (None: everything)."""
    return "\n".join(_lines(graph, max_nodes, locations, "graph", ""))


def folded_html(summary: str, text: str) -> str:
    """Text under a summary that opens, escaped, for notebooks; it refers to nothing outside."""
    import html  # notebooks only

    return f"<details open><summary>{html.escape(summary)}</summary><pre>{html.escape(text)}</pre></details>"


def graph_html(graph: Graph) -> str:
    """The text with the user's lines, for notebooks."""
    return folded_html(repr(graph).strip("<>"), graph_text(graph, locations=True))
