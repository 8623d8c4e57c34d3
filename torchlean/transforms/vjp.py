"""Reverse mode, graph to graph: the primal nodes, then one reverse walk that emits cotangents.

`Custom` ops without a VJP are pulled back locally: their tangent map is traced for this node and transposed, which ends
because that map uses only linear ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlean.errors import GradError, InternalError, message
from torchlean.ir.builder import CURRENT, Builder, Value, bind1
from torchlean.ir.collection import collection_paused
from torchlean.ir.graph import Graph, Node, without_effects
from torchlean.ir.location import caller_location
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.create import full_like, zeros_of
from torchlean.ir.ops.elementwise import ADD, MUL, NEG, SQRT
from torchlean.ir.ops.families import apply1
from torchlean.ir.ops.parts import CONJ
from torchlean.ir.rules import (
    Bilinear,
    Custom,
    Elementwise,
    HigherOrder,
    Linear,
    NoReverse,
    NoTangent,
    Reverse,
    Structured,
    Unit,
)
from torchlean.ir.tracing import trace_flat
from torchlean.record import record
from torchlean.transforms.rewrite import dead_code_eliminated
from torchlean.transforms.slopes import Derivatives, Slopes, Square, even_root_slope, power_slope, slopes_of


def active_values(graph: Graph, wrt: Sequence[int]) -> bytearray:
    """1 for each float or complex value that depends differentiably on an input whose position is in `wrt`."""
    active = bytearray(len(graph.types))
    types = graph.types
    for position in wrt:
        id = graph.inputs[position]
        active[id] = types[id].dtype.is_inexact
    for op, ins, outs, params, _ in graph.nodes:
        for id in ins:
            if active[id]:
                if isinstance(op.diff, Structured):
                    flags = op.diff.active(active_outputs, params, [bool(active[id]) for id in ins])
                    for out, flag in zip(outs, flags, strict=True):
                        active[out] = flag
                elif op.diff.__class__ is not NoTangent:
                    for out in outs:
                        active[out] = types[out].dtype.is_inexact
                break
    return active


def active_outputs(graph: Graph, flags: Sequence[bool]) -> list[bool]:
    """Which outputs depend differentiably on the flagged inputs."""
    active = active_values(graph, [position for position, flag in enumerate(flags) if flag])
    return [bool(active[id]) for id in graph.outputs]


def vjp_graph(
    graph: Graph,
    wrt: Sequence[int],
    *,
    with_outputs: bool = False,
    seeded: Sequence[int] | None = None,
    mode: Derivatives = Derivatives.STANDARD,
) -> Graph:
    """(primals, a cotangent per output) → ([outputs,] cotangents of the inputs at positions `wrt`).

    With `seeded`, only the outputs at these positions have a cotangent; that of the others is zero.
    """
    builder = Builder.continuing(graph, name=f"{graph.name}.vjp")
    token = CURRENT.set(builder)
    try:
        chosen = graph.outputs if seeded is None else [graph.outputs[position] for position in seeded]
        seeds = [(id, builder.add_input(graph.types[id])) for id in chosen]
        with collection_paused():
            made = pull_back(builder, graph, seeds, wrt, mode)
        outputs = tuple([value.id for value in made])
    finally:
        CURRENT.reset(token)
    return dead_code_eliminated(builder.finish(graph.outputs + outputs if with_outputs else outputs))


def grad_graph(graph: Graph, wrt: Sequence[int], *, mode: Derivatives = Derivatives.STANDARD) -> Graph:
    """primals → (outputs, gradients of the first output, a scalar, at positions `wrt`)."""
    builder = Builder.continuing(graph, name=f"{graph.name}.grad")
    token = CURRENT.set(builder)
    try:
        out = builder.value(graph.outputs[0])
        builder.where = graph.nodes[-1].where if graph.nodes else None
        with collection_paused():
            made = pull_back(builder, graph, [(out.id, full_like(out, 1))], wrt, mode)
        outputs = tuple([value.id for value in made])
    finally:
        CURRENT.reset(token)
    return builder.finish(graph.outputs + outputs)


def pull_back(
    builder: Builder,
    graph: Graph,
    seeds: list[tuple[int, Value]],
    wrt: Sequence[int],
    mode: Derivatives = Derivatives.STANDARD,
) -> list[Value]:
    """Emit the reverse sweep into `builder`, whose first nodes are those of `graph`."""
    active = active_values(graph, wrt)
    slopes = slopes_of(graph, mode)
    pull = Pull(mode)
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
        builder.where = node[4].derivative(node[0].name)
        ins: Sequence[int] = node[1]
        if slopes is None:
            made = node_cotangents(builder, graph, node, cotangents, active, pull)
        elif outs[0] in slopes.squares:
            ins, made = _square_cotangents(builder, slopes.squares[outs[0]], cotangents[outs[0]], active, mode)
        else:
            made = _watched_cotangents(builder, graph, node, cotangents, active, slopes, pull)
        for id, contribution in zip(ins, made, strict=True):
            if contribution is not None and active[id]:
                known = cotangents[id]
                cotangents[id] = contribution if known is None else bind1(ADD, NO_PARAMS, known, contribution)
    results: list[Value] = []
    for position in wrt:
        id = graph.inputs[position]
        found = cotangents[id]
        results.append(zeros_of(graph.types[id]) if found is None else found)
    return results


@record
class Pull:
    """`vjp_graph` as rules of higher-order ops receive it; `variant` tells what it derives from the standard result.

    Without its outputs a graph stands beside the node that performs its effects, so it is taken without them.
    """

    mode: Derivatives

    def __call__(
        self,
        graph: Graph,
        wrt: Sequence[int],
        *,
        with_outputs: bool = False,
        seeded: Sequence[int] | None = None,
        with_effects: bool = False,
    ) -> Graph:
        given = graph if with_outputs or with_effects else without_effects(graph)
        return vjp_graph(given, wrt, with_outputs=with_outputs, seeded=seeded, mode=self.mode)

    @property
    def variant(self) -> tuple[tuple[str, str], ...]:
        return self.mode.variant


_GUARDED = Pull(Derivatives.GUARDED)


def _watched_cotangents(
    builder: Builder,
    graph: Graph,
    node: Node,
    cotangents: list[Any],
    active: bytearray,
    slopes: Slopes,
    pull: Pull,
) -> Sequence[Any]:
    """`node_cotangents` where a slope of the graph may be infinite."""
    op, ins, outs, params, _ = node
    out = outs[0]
    if op is SQRT and out in slopes.even_roots:
        slope = even_root_slope(builder.value(out))
        return (apply1(CHAIN_MUL if slopes.backward[out] else MUL, cotangents[out], slope),)
    if not slopes.backward[out]:
        return node_cotangents(builder, graph, node, cotangents, active, pull)
    if op.diff.__class__ is not Elementwise:
        return node_cotangents(builder, graph, node, cotangents, active, _GUARDED)
    ct, y = cotangents[out], builder.value(out)
    primals = [builder.value(id) for id in ins]
    made: list[Any] = []
    for id, partial in zip(ins, op.diff.partials, strict=True):  # type: ignore[union-attr]
        made.append(_scaled(partial, ct, params, y, primals, CHAIN_MUL) if active[id] else None)
    return made


def _square_cotangents(
    builder: Builder, square: Square, ct: Any, active: bytearray, mode: Derivatives
) -> tuple[tuple[int, ...], Sequence[Any]]:
    """What r²ᵏ = sᵏ sends to the values s is made of."""
    radicand, operands, half = square
    wrt = tuple([position for position, id in enumerate(operands) if active[id]])
    primals = tuple([builder.value(id) for id in operands])
    if half > 1:
        ct = apply1(MUL, ct, power_slope(builder.evaluate(radicand, primals)[0], half))
    pulled = vjp_graph(radicand, wrt, mode=mode)
    return tuple([operands[position] for position in wrt]), builder.evaluate(pulled, (*primals, ct))


def node_cotangents(
    builder: Builder, graph: Graph, node: Node, cotangents: list[Any], active: bytearray, pull: Pull
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
        x, y = [_conjugated(primal) for primal in primals]
        return (
            rule.lhs(params, ct, x, y) if active[ins[0]] else None,  # type: ignore[union-attr]
            rule.rhs(params, ct, x, y) if active[ins[1]] else None,  # type: ignore[union-attr]
        )
    if isinstance(rule, Custom):
        outputs = [Value(builder, id, types[id]) for id in outs]
        cts = _present(cotangents, outs, types)
        if rule.settled is not None and pull.mode is not Derivatives.IEEE:
            primals, outputs = (list(values) for values in rule.settled(params, primals, outputs, cts))
        if rule.vjp is not None:
            return rule.vjp(params, primals, outputs, cts)
        return _transposed_tangent_map(builder, rule, params, primals, outputs, cts, [bool(active[id]) for id in ins])
    if isinstance(rule, HigherOrder):
        wrt = tuple([position for position, id in enumerate(ins) if active[id]])
        return rule.vjp(pull, op, params, primals, _present(cotangents, outs, types), wrt)
    if isinstance(rule, Structured):
        wrt = tuple([position for position, id in enumerate(ins) if active[id]])
        if isinstance(rule.vjp, NoReverse):
            raise _no_reverse(rule.vjp, node)
        given = [cotangents[id] for id in outs]
        return rule.vjp(
            REVERSE._replace(vjp=pull), params, primals, given, wrt, lambda changed: _extended(builder, node, changed)
        )
    raise InternalError(f"unknown derivative rule {rule!r} of {op.name}")


def _extended(builder: Builder, node: Node, params: Any) -> list[Value]:
    """Put other params, which give more results, in the place of a node's own; the values of the other results."""
    made = node.op.type_rule(params, *[builder.types[id] for id in node.inputs])
    first = len(builder.types)
    builder.types.extend(made[len(node.outputs) :])
    more = tuple(range(first, len(builder.types)))
    at = next(position for position, held in enumerate(builder.nodes) if held is node)
    builder.nodes[at] = node._replace(outputs=node.outputs + more, params=params)
    return [builder.value(id) for id in more]


def _no_reverse(refusal: NoReverse, node: Node) -> GradError:
    return GradError(
        message(
            f"reverse-mode derivative of {node.op.name}",
            expected="forward mode (jvp, jacfwd, linearize), or an op that can be reversed",
            got=f"grad, vjp or jacrev: {refusal.reason}",
            fix=refusal.fix,
            where=str(node.where if node.where.filename else caller_location()),
        )
    )


def _present(cotangents: list[Any], outs: tuple[int, ...], types: Any) -> list[Any]:
    """The cotangents of all outputs, zeros where none arrived."""
    return [zeros_of(types[id]) if cotangents[id] is None else cotangents[id] for id in outs]


def _scaled(partial: Any, ct: Any, params: Any, y: Value, primals: list[Value], product: Op = MUL) -> Any:
    """partial · ct, without a multiplication for ±1 and without a node for 0."""
    if partial.__class__ is not Unit and partial is not None:
        partial = partial(params, y, *primals)
    if partial is None:
        return None
    if partial is Unit.PLUS:
        return ct
    if partial is Unit.MINUS:
        return bind1(NEG, NO_PARAMS, ct)
    return bind1(product, NO_PARAMS, ct, _conjugated(partial))


def _conjugated(factor: Value) -> Any:
    """What multiplies a cotangent where `factor` multiplies a tangent: the inner product is Re(conj(a)·b)."""
    return bind1(CONJ, NO_PARAMS, factor) if factor.type.dtype.is_complex else factor


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


REVERSE = Reverse(vjp=vjp_graph, active=active_outputs)
