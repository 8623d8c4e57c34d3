"""Reverse mode, graph to graph: the primal nodes, then one reverse walk that emits cotangents.

`Custom` ops without a VJP are pulled back locally: their tangent map is traced for this node and transposed, which ends
because that map uses only linear ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlean.errors import InternalError
from torchlean.ir.builder import CURRENT, Builder, Value, bind1
from torchlean.ir.collection import collection_paused
from torchlean.ir.graph import Graph, Node
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.create import full_like, zeros_of
from torchlean.ir.ops.elementwise import ADD, MUL, NEG
from torchlean.ir.rules import Bilinear, Custom, Elementwise, HigherOrder, Linear, NoTangent, Unit
from torchlean.ir.tracing import trace_flat
from torchlean.transforms.rewrite import dead_code_eliminated


def active_values(graph: Graph, wrt: Sequence[int]) -> bytearray:
    """1 for each float value that depends differentiably on an input whose position is in `wrt`."""
    active = bytearray(len(graph.types))
    types = graph.types
    for position in wrt:
        id = graph.inputs[position]
        active[id] = types[id].dtype.is_float
    for op, ins, outs, _, _ in graph.nodes:
        for id in ins:
            if active[id]:
                if op.diff.__class__ is not NoTangent:
                    for out in outs:
                        active[out] = types[out].dtype.is_float
                break
    return active


def vjp_graph(graph: Graph, wrt: Sequence[int], *, with_outputs: bool = False) -> Graph:
    """(primals, a cotangent per output) → ([outputs,] cotangents of the inputs at positions `wrt`)."""
    builder = Builder.continuing(graph, name=f"{graph.name}.vjp")
    token = CURRENT.set(builder)
    try:
        seeds = [builder.add_input(type) for type in graph.output_types]
        with collection_paused():
            made = pull_back(builder, graph, list(zip(graph.outputs, seeds, strict=True)), wrt)
        outputs = tuple([value.id for value in made])
    finally:
        CURRENT.reset(token)
    return dead_code_eliminated(builder.finish(graph.outputs + outputs if with_outputs else outputs))


def grad_graph(graph: Graph, wrt: Sequence[int]) -> Graph:
    """primals → (outputs, gradients of the first output, a scalar, at positions `wrt`)."""
    builder = Builder.continuing(graph, name=f"{graph.name}.grad")
    token = CURRENT.set(builder)
    try:
        out = builder.value(graph.outputs[0])
        builder.where = graph.nodes[-1].where if graph.nodes else None
        with collection_paused():
            made = pull_back(builder, graph, [(out.id, full_like(out, 1))], wrt)
        outputs = tuple([value.id for value in made])
    finally:
        CURRENT.reset(token)
    return builder.finish(graph.outputs + outputs)


def pull_back(builder: Builder, graph: Graph, seeds: list[tuple[int, Value]], wrt: Sequence[int]) -> list[Value]:
    """Emit the reverse sweep into `builder`, whose first nodes are those of `graph`."""
    active = active_values(graph, wrt)
    cotangents: list[Any] = [None] * len(graph.types)
    for id, seed in seeds:
        if active[id]:
            known = cotangents[id]
            cotangents[id] = seed if known is None else bind1(ADD, NO_PARAMS, known, seed)
    for node in reversed(graph.nodes):
        outs = node[2]
        if len(outs) == 1:
            id = outs[0]
            if cotangents[id] is None:
                continue
        elif all([cotangents[id] is None for id in outs]):
            continue
        builder.where = node[4]
        for id, contribution in zip(node[1], node_cotangents(builder, graph, node, cotangents, active), strict=True):
            if contribution is not None and active[id]:
                known = cotangents[id]
                cotangents[id] = contribution if known is None else bind1(ADD, NO_PARAMS, known, contribution)
    results: list[Value] = []
    for position in wrt:
        id = graph.inputs[position]
        found = cotangents[id]
        results.append(zeros_of(graph.types[id]) if found is None else found)
    return results


def node_cotangents(
    builder: Builder, graph: Graph, node: Node, cotangents: list[Any], active: bytearray
) -> Sequence[Any]:
    """Contributions to the node's operands from the cotangents of its outputs."""
    op, ins, outs, params, _ = node
    rule = op.diff
    types = graph.types
    primals = [Value(builder, id, types[id]) for id in ins]
    kind = rule.__class__
    if kind is Elementwise:
        ct = cotangents[outs[0]]
        y = Value(builder, outs[0], types[outs[0]])
        made: list[Any] = []
        for id, partial in zip(ins, rule.partials, strict=True):  # type: ignore[union-attr]
            made.append(_scaled(partial, ct, params, y, primals) if active[id] else None)
        return made
    if kind is Linear:
        return rule.transpose(params, _present(cotangents, outs, types)[0], *primals)  # type: ignore[union-attr]
    if kind is Bilinear:
        ct = cotangents[outs[0]]
        x, y = primals
        return (
            rule.lhs(params, ct, x, y) if active[ins[0]] else None,  # type: ignore[union-attr]
            rule.rhs(params, ct, x, y) if active[ins[1]] else None,  # type: ignore[union-attr]
        )
    if isinstance(rule, Custom):
        outputs = [Value(builder, id, types[id]) for id in outs]
        cts = _present(cotangents, outs, types)
        if rule.vjp is not None:
            return rule.vjp(params, primals, outputs, cts)
        return _transposed_tangent_map(builder, rule, params, primals, outputs, cts, [bool(active[id]) for id in ins])
    if isinstance(rule, HigherOrder):
        wrt = tuple([position for position, id in enumerate(ins) if active[id]])
        return rule.vjp(vjp_graph, op, params, primals, _present(cotangents, outs, types), wrt)
    raise InternalError(f"unknown derivative rule {rule!r} of {op.name}")


def _present(cotangents: list[Any], outs: tuple[int, ...], types: Any) -> list[Any]:
    """The cotangents of all outputs, zeros where none arrived."""
    return [zeros_of(types[id]) if cotangents[id] is None else cotangents[id] for id in outs]


def _scaled(partial: Any, ct: Any, params: Any, y: Value, primals: list[Value]) -> Any:
    """partial · ct, without a multiplication for ±1 and without a node for 0."""
    if partial.__class__ is not Unit and partial is not None:
        partial = partial(params, y, *primals)
    if partial is None:
        return None
    if partial is Unit.PLUS:
        return ct
    if partial is Unit.MINUS:
        return bind1(NEG, NO_PARAMS, ct)
    return bind1(MUL, NO_PARAMS, ct, partial)


def _transposed_tangent_map(
    builder: Builder,
    rule: Custom,
    params: Any,
    primals: list[Value],
    outputs: list[Value],
    cts: list[Any],
    active: list[bool],
) -> list[Any]:
    """Trace tangents ↦ rule.jvp(…, tangents), transpose that linear graph, apply it to the cotangents."""
    positions = [position for position, is_active in enumerate(active) if is_active]

    def tangent_map(*present: Value) -> list[Any]:
        tangents: list[Any] = [None] * len(primals)
        for position, tangent in zip(positions, present, strict=True):
            tangents[position] = tangent
        made = rule.jvp(params, primals, tangents, outputs)
        return [zeros_of(out.type) if t is None else t for out, t in zip(outputs, made, strict=True)]

    types = [primals[position].type for position in positions]
    traced = trace_flat(tangent_map, types, name="tangent_map", check_leaks=False)
    pulled = vjp_graph(traced.graph, range(len(types)))
    zeros = [zeros_of(type) for type in types]  # the map is linear: its own operands are never read
    made = builder.evaluate(pulled, (*zeros, *traced.captured, *cts))
    found = dict(zip(positions, made, strict=True))
    return [found.get(position) for position in range(len(primals))]
