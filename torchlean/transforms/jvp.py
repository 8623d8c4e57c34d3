"""Forward mode, graph to graph: the primal nodes, then the tangents of what depends on active inputs.

An absent tangent is None (a structural zero), never an array of zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlean.errors import InternalError
from torchlean.ir.builder import CURRENT, Builder, Value, bind1
from torchlean.ir.graph import Graph, Node, without_effects
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.elementwise import ADD, MUL, NEG
from torchlean.ir.ops.families import apply1
from torchlean.ir.rules import Bilinear, Custom, Elementwise, HigherOrder, Linear, NoTangent, Structured, Unit
from torchlean.record import record
from torchlean.transforms.slopes import Derivatives, Slopes, Square, even_root_slope, power_slope, slopes_of


def jvp_graph(
    graph: Graph, active: Sequence[bool], *, apart: bool = False, mode: Derivatives = Derivatives.STANDARD
) -> tuple[Graph, tuple[bool, ...]]:
    """(primals, tangents of active inputs) → (outputs, tangents of active outputs), and which outputs are active.

    Control flow carries its tangents beside its primals, in one node. With `apart`, the primal nodes stay as they are,
    so that they can be computed before any tangent is known, and control flow runs its primals again with the tangents.
    """
    if not apart and any([isinstance(node.op.diff, Structured) for node in graph.nodes]):
        return _replayed(graph, active, mode)
    builder = Builder.continuing(graph, name=f"{graph.name}.jvp")
    slopes = slopes_of(graph, mode)
    push = Push(mode)
    token = CURRENT.set(builder)
    try:
        tangents: list[Value | None] = [None] * len(graph.types)
        for id, is_active in zip(graph.inputs, active, strict=True):
            if is_active:
                tangents[id] = builder.add_input(graph.types[id])
        for node in graph.nodes:
            ins = [tangents[id] for id in node.inputs]
            if any([tangent is not None for tangent in ins]):
                builder.where = node.where.derivative(node.op.name)
                if slopes is not None and node.outputs[0] in slopes.squares:
                    square = slopes.squares[node.outputs[0]]
                    values = [builder.value(id) for id in square.operands]
                    moved = _square_tangents(builder, square, values, [tangents[id] for id in square.operands], mode)
                else:
                    moved = node_tangents(builder, node, ins, node.outputs[0], slopes, push)
                for id, tangent in zip(node.outputs, moved, strict=True):
                    tangents[id] = tangent
        made = [tangents[id] for id in graph.outputs]
        outputs = graph.outputs + tuple([tangent.id for tangent in made if tangent is not None])
    finally:
        CURRENT.reset(token)
    return builder.finish(outputs), tuple([tangent is not None for tangent in made])


def _replayed(graph: Graph, active: Sequence[bool], mode: Derivatives) -> tuple[Graph, tuple[bool, ...]]:
    """`jvp_graph` emitting every primal node anew: a node of control flow is replaced by the one with tangents."""
    builder = Builder(name=f"{graph.name}.jvp")
    slopes = slopes_of(graph, mode)
    push = Push(mode)
    token = CURRENT.set(builder)
    try:
        types = graph.types
        ids = [-1] * len(types)
        tangents: list[Any] = [None] * len(types)
        for id in graph.inputs:
            ids[id] = builder.add_input(types[id]).id
        for id, is_active in zip(graph.inputs, active, strict=True):
            if is_active:
                tangents[id] = builder.add_input(types[id])
        for node in graph.nodes:
            builder.where = node.where
            ins = [tangents[id] for id in node.inputs]
            moves = any([tangent is not None for tangent in ins])
            inputs = tuple([ids[id] for id in node.inputs])
            rule = node.op.diff
            if moves and isinstance(rule, Structured):
                primals = [builder.value(id) for id in inputs]
                values, moved = rule.jvp(push, node.params, primals, ins)
                outputs = tuple([value.id for value in values])
            else:
                outputs = builder.emit_typed(node, inputs, tuple([types[id] for id in node.outputs]))
                placed = Node(node.op, inputs, outputs, node.params, node.where)
                moved = [None] * len(outputs)
                builder.where = node.where.derivative(node.op.name) if moves else node.where
                if moves and slopes is not None and node.outputs[0] in slopes.squares:
                    square = slopes.squares[node.outputs[0]]
                    values = [builder.value(ids[id]) for id in square.operands]
                    moved = _square_tangents(builder, square, values, [tangents[id] for id in square.operands], mode)
                elif moves:
                    moved = node_tangents(builder, placed, ins, node.outputs[0], slopes, push)
            for id, made, tangent in zip(node.outputs, outputs, moved, strict=True):
                ids[id] = made
                tangents[id] = tangent
        made = [tangents[id] for id in graph.outputs]
        found = tuple([ids[id] for id in graph.outputs])
    finally:
        CURRENT.reset(token)
    flags = tuple([tangent is not None for tangent in made])
    return builder.finish(found + tuple([tangent.id for tangent in made if tangent is not None])), flags


@record
class Push:
    """`jvp_graph` as rules of higher-order ops receive it; `variant` tells what it derives from the standard result.

    `quiet`: the node stays beside what the rule makes, so the graphs given are taken without their effects.
    """

    mode: Derivatives
    quiet: bool = False

    def __call__(self, graph: Graph, active: Sequence[bool], *, apart: bool = False) -> tuple[Graph, tuple[bool, ...]]:
        return jvp_graph(without_effects(graph) if self.quiet else graph, active, apart=apart, mode=self.mode)

    @property
    def variant(self) -> tuple[tuple[str, str], ...]:
        return self.mode.variant


_GUARDED = Push(Derivatives.GUARDED)


def _square_tangents(
    builder: Builder, square: Square, primals: Sequence[Any], tangents: Sequence[Any], mode: Derivatives
) -> Sequence[Any]:
    """The tangent of r²ᵏ = sᵏ."""
    graph, active = jvp_graph(square.radicand, [tangent is not None for tangent in tangents], mode=mode)
    if not active[0]:
        return (None,)
    s, moved = builder.evaluate(graph, (*primals, *[tangent for tangent in tangents if tangent is not None]))
    return (moved if square.half == 1 else apply1(MUL, moved, power_slope(s, square.half)),)


def node_tangents(
    builder: Builder, node: Node, tangents: list[Value | None], id: int, slopes: Slopes | None, push: Push
) -> Sequence[Any]:
    """The tangents of a node's outputs, given those of its inputs (at least one present).

    `id` names the node's first output in the graph that `slopes` is about.
    """
    rule = node.op.diff
    params = node.params
    primals = [builder.value(id) for id in node.inputs]
    product = MUL
    if slopes is not None:
        if slopes.forward[id]:
            product, push = CHAIN_MUL, _GUARDED
        if id in slopes.even_roots:
            return (apply1(product, tangents[0], even_root_slope(builder.value(node.outputs[0]))),)
    if isinstance(rule, Elementwise):
        y = builder.value(node.outputs[0])
        total: Any = None
        for partial, tangent in zip(rule.partials, tangents, strict=True):
            if tangent is None or partial is None:
                continue
            term = _scaled(partial if isinstance(partial, Unit) else partial(params, y, *primals), tangent, product)
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
        outputs: Sequence[Any] = [builder.value(id) for id in node.outputs]
        if rule.settled is not None and push.mode is not Derivatives.IEEE:
            primals, outputs = rule.settled(params, primals, outputs, tangents)
        return rule.jvp(params, primals, tangents, outputs)
    if isinstance(rule, HigherOrder):
        return rule.jvp(Push(push.mode, True), params, primals, tangents, [builder.value(id) for id in node.outputs])
    if isinstance(rule, Structured):
        return rule.jvp(Push(push.mode, True), params, primals, tangents)[1]
    if rule.__class__ is not NoTangent:
        raise InternalError(f"unknown derivative rule {rule!r} of {node.op.name}")
    return [None] * len(node.outputs)


def _scaled(partial: Any, tangent: Value, product: Op) -> Any:
    if partial is None:
        return None
    if partial is Unit.PLUS:
        return tangent
    if partial is Unit.MINUS:
        return bind1(NEG, NO_PARAMS, tangent)
    return bind1(MUL, NO_PARAMS, partial, tangent) if product is MUL else bind1(product, NO_PARAMS, tangent, partial)
