"""Forward mode, graph to graph: the primal nodes, then the tangents of what depends on active inputs.

An absent tangent is None (a structural zero), never an array of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlean.errors import InternalError
from torchlean.ir.builder import CURRENT, Builder, Value, bind1
from torchlean.ir.graph import Graph, Node
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.elementwise import ADD, MUL, NEG
from torchlean.ir.rules import Bilinear, Custom, Elementwise, HigherOrder, Linear, NoTangent, Unit


def jvp_graph(graph: Graph, active: Sequence[bool]) -> tuple[Graph, tuple[bool, ...]]:
    """(primals, tangents of active inputs) → (outputs, tangents of active outputs), and which outputs are active."""
    builder = Builder.continuing(graph, name=f"{graph.name}.jvp")
    token = CURRENT.set(builder)
    try:
        tangents: list[Value | None] = [None] * len(graph.types)
        for id, is_active in zip(graph.inputs, active, strict=True):
            if is_active:
                tangents[id] = builder.add_input(graph.types[id])
        for node in graph.nodes:
            ins = [tangents[id] for id in node.inputs]
            if any([tangent is not None for tangent in ins]):
                builder.where = node.where
                for id, tangent in zip(node.outputs, node_tangents(builder, node, ins), strict=True):
                    tangents[id] = tangent
        made = [tangents[id] for id in graph.outputs]
        outputs = graph.outputs + tuple([tangent.id for tangent in made if tangent is not None])
    finally:
        CURRENT.reset(token)
    return builder.finish(outputs), tuple([tangent is not None for tangent in made])


def node_tangents(builder: Builder, node: Node, tangents: list[Value | None]) -> Sequence[Any]:
    """The tangents of a node's outputs, given those of its inputs (at least one present)."""
    rule = node.op.diff
    params = node.params
    primals = [builder.value(id) for id in node.inputs]
    if isinstance(rule, Elementwise):
        y = builder.value(node.outputs[0])
        total: Any = None
        for partial, tangent in zip(rule.partials, tangents, strict=True):
            if tangent is None or partial is None:
                continue
            term = _scaled(partial if isinstance(partial, Unit) else partial(params, y, *primals), tangent)
            total = term if total is None else total if term is None else bind1(ADD, NO_PARAMS, total, term)
        return (total,)
    if isinstance(rule, Linear):
        wrt = range(len(primals)) if rule.wrt is None else rule.wrt
        if all([tangents[i] is None for i in wrt]):
            return [None] * len(node.outputs)
        operands: list[Any] = list(primals)
        for i in wrt:
            tangent = tangents[i]
            operands[i] = zeros_of(primals[i].type) if tangent is None else tangent
        return builder.bind(node.op, params, tuple(operands))
    if isinstance(rule, Bilinear):
        (x, y), (dx, dy) = primals, tangents
        left = None if dx is None else builder.bind(node.op, params, (dx, y))[0]
        right = None if dy is None else builder.bind(node.op, params, (x, dy))[0]
        if left is None or right is None:
            return (left if right is None else right,)
        return (bind1(ADD, NO_PARAMS, left, right),)
    if isinstance(rule, Custom):
        return rule.jvp(params, primals, tangents, [builder.value(id) for id in node.outputs])
    if isinstance(rule, HigherOrder):
        return rule.jvp(jvp_graph, params, primals, tangents, [builder.value(id) for id in node.outputs])
    if rule.__class__ is not NoTangent:
        raise InternalError(f"unknown derivative rule {rule!r} of {node.op.name}")
    return [None] * len(node.outputs)


def _scaled(partial: Any, tangent: Value) -> Any:
    if partial is None:
        return None
    if partial is Unit.PLUS:
        return tangent
    if partial is Unit.MINUS:
        return bind1(NEG, NO_PARAMS, tangent)
    return bind1(MUL, NO_PARAMS, partial, tangent)
