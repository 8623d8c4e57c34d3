"""Exact graph rewrites: dead code elimination and the split of a graph by what is known early. No value changes."""

from __future__ import annotations

from typing import NamedTuple

from torchlean.ir.graph import Graph, Node, is_effect
from torchlean.ir.types import TensorType


def live_values(graph: Graph) -> bytearray:
    """1 for each value some output or effect depends on, and for the results of effects."""
    return _live(graph)[0]


def _live(graph: Graph) -> tuple[bytearray, list[Node]]:
    """`live_values`, and the nodes that make one, last first."""
    live = bytearray(len(graph.types))
    for id in graph.outputs:
        live[id] = 1
    if graph.has_effects:
        for node in graph.nodes:
            live[node[2][0]] |= is_effect(node)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        _, ins, outs, _, _ = node
        if live[outs[0]] or (len(outs) > 1 and any([live[id] for id in outs])):
            kept.append(node)
            for id in ins:
                live[id] = 1
    return live, kept


def extract(graph: Graph, nodes: list[Node], inputs: tuple[int, ...], outputs: tuple[int, ...], name: str) -> Graph:
    """A graph of some of the nodes (in order), values renumbered densely."""
    ids = [-1] * len(graph.types)
    types: list[TensorType] = []
    old_types = graph.types
    for old in inputs:
        ids[old] = len(types)
        types.append(old_types[old])
    kept: list[Node] = []
    for op, ins, outs, params, where in nodes:
        for old in outs:
            ids[old] = len(types)
            types.append(old_types[old])
        kept.append(Node(op, tuple([ids[i] for i in ins]), tuple([ids[o] for o in outs]), params, where))
    return Graph(
        inputs=tuple([ids[i] for i in inputs]),
        nodes=tuple(kept),
        outputs=tuple([ids[o] for o in outputs]),
        types=tuple(types),
        name=name,
    )


def dead_code_eliminated(graph: Graph) -> Graph:
    """The graph without nodes no output or effect depends on; inputs all stay and ids keep their numbers."""
    if graph.is_live:
        return graph
    nodes = _live(graph)[1]
    if len(nodes) != len(graph.nodes):
        nodes.reverse()
        inputs, outputs, types = graph.inputs, graph.outputs, graph.types
        graph = Graph(inputs=inputs, nodes=tuple(nodes), outputs=outputs, types=types, name=graph.name)
    graph.is_live = True
    return graph


def with_outputs(graph: Graph, outputs: tuple[int, ...]) -> Graph:
    """The graph with these outputs; its nodes stay."""
    return Graph(inputs=graph.inputs, nodes=graph.nodes, outputs=outputs, types=graph.types, name=graph.name)


class Split(NamedTuple):
    """`early`: known inputs → (known outputs, residuals). `late`: (residuals, unknown inputs) → unknown outputs."""

    early: Graph
    late: Graph
    early_outputs: int


def split(graph: Graph, known: int, early_outputs: int) -> Split:
    """Split by what depends only on the first `known` inputs; the first `early_outputs` outputs must."""
    is_known = bytearray(len(graph.types))
    free = bytearray(len(graph.types))  # made by nodes without inputs: repeated on both sides instead of passed
    for id in graph.inputs[:known]:
        is_known[id] = 1
    early: list[Node] = []
    late: list[Node] = []
    live = live_values(graph)
    for node in graph.nodes:
        if not any([live[id] for id in node[2]]):
            continue
        if not node[1] and not is_effect(node):
            for id in node[2]:
                free[id] = is_known[id] = 1
            early.append(node)
            late.append(node)
        elif all([is_known[id] for id in node[1]]):
            for id in node[2]:
                is_known[id] = 1
            early.append(node)
        else:
            late.append(node)
    needed = [id for node in late for id in node[1]] + list(graph.outputs[early_outputs:])
    residuals = tuple(dict.fromkeys(id for id in needed if is_known[id] and not free[id]))
    first = graph.outputs[:early_outputs]
    rest = graph.outputs[early_outputs:]
    early_graph = extract(graph, early, graph.inputs[:known], first + residuals, graph.name)
    late_graph = extract(graph, late, residuals + graph.inputs[known:], rest, graph.name)
    return Split(dead_code_eliminated(early_graph), dead_code_eliminated(late_graph), early_outputs)
