"""Re-type a graph and report the first fault with its neighbourhood.

`check` accepting a graph means: each value is defined once, inputs precede uses, every size is a natural number, every
declared type is the one the op's type rule gives, params are of the op's class, and sub-graphs hold the same. The law
tests show that evaluation of an accepted graph returns exactly the declared types.
"""

from __future__ import annotations

from torchlean.errors import GraphError, message
from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.op import TypeFault
from torchlean.ir.printer import node_text
from torchlean.ir.types import TensorType, show_types

_NEIGHBOURS = 2


def check(graph: Graph) -> None:
    """Raise GraphError naming the first node at fault; return None when the graph is sound."""
    work = [graph]
    seen = {id(graph)}
    while work:
        current = work.pop()
        _check_one(current)
        for node in current.nodes:
            for _, held in sub_graphs(node.params):
                if id(held) not in seen:
                    seen.add(id(held))
                    work.append(held)


def _check_one(graph: Graph) -> None:
    count = len(graph.types)
    defined = bytearray(count)
    for position, id in enumerate(graph.inputs):
        fault = _definition_fault(graph, id, defined)
        if fault is not None:
            raise GraphError(message(f"input {position} of graph {graph.name}: {fault}"))
        defined[id] = 1
    for position, node in enumerate(graph.nodes):
        fault = _node_fault(graph, node, defined)
        if fault is not None:
            raise GraphError(_report(graph, position, fault))
    for position, id in enumerate(graph.outputs):
        if not 0 <= id < count or not defined[id]:
            raise GraphError(message(f"output {position} of graph {graph.name}: %{id} is never defined"))


def _definition_fault(graph: Graph, id: int, defined: bytearray) -> str | None:
    """Why `id` cannot be defined here, or None."""
    if not 0 <= id < len(defined):
        return f"%{id} has no declared type"
    if defined[id]:
        return f"%{id} is defined already"
    if any(size < 0 for size in graph.types[id].shape):
        return f"%{id} is declared {graph.types[id]}, which has a negative size"
    return None


def _node_fault(graph: Graph, node: Node, defined: bytearray) -> str | None:
    """Why the node is not sound, or None; then its outputs are marked as defined."""
    for id in node.inputs:
        if not 0 <= id < len(defined) or not defined[id]:
            return f"uses %{id} before it is defined"
    if not isinstance(node.params, node.op.params):
        return f"has params of class {type(node.params).__name__}, expected {node.op.params.__name__}"
    made = _ruled_types(node, [graph.types[id] for id in node.inputs])
    if isinstance(made, str):
        return made
    if not node.outputs:
        return "defines no value"
    for id in node.outputs:
        fault = _definition_fault(graph, id, defined)
        if fault is not None:
            return f"cannot define it: {fault}"
        if any(id <= used for used in node.inputs):
            return f"defines %{id} from a value of a larger id"
        defined[id] = 1
    declared = tuple([graph.types[id] for id in node.outputs])
    if made != declared:
        return f"declares {show_types(declared)}, but its type rule gives {show_types(made)}"
    return None


def _ruled_types(node: Node, operands: list[TensorType]) -> tuple[TensorType, ...] | str:
    """The types the rule gives, or why it gives none."""
    try:
        return node.op.type_rule(node.params, *operands)
    except TypeFault as fault:
        return f"is ill-typed: {fault.what}; expected {fault.expected}, got {fault.got}"
    except (TypeError, ValueError, IndexError, ArithmeticError) as error:
        # Type rules take well-formed params and the right number of operands for granted; a graph may have neither.
        return f"has operands or params its type rule does not take: {show_types(tuple(operands))} ({error})"


def _report(graph: Graph, position: int, fault: str) -> str:
    node = graph.nodes[position]
    names = ", ".join([f"%{id}" for id in node.outputs]) or "nothing"
    first = max(0, position - _NEIGHBOURS)
    nearby = [
        ("> " if at == position else "  ") + _text(graph, graph.nodes[at])
        for at in range(first, min(len(graph.nodes), position + _NEIGHBOURS + 1))
    ]
    head = message(f"node {names} = {node.op.name} {fault}", where=str(node.where))
    return "\n".join([head, *nearby])


def _text(graph: Graph, node: Node) -> str:
    """The node as the printer shows it, or its op alone where its ids or params make no sense."""
    try:
        return node_text(graph, node)
    except (TypeError, ValueError, IndexError, AttributeError, ArithmeticError):
        return f"{node.op.name} of {', '.join([f'%{id}' for id in node.inputs])}"
