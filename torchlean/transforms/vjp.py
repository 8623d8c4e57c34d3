"""Reverse mode, graph to graph: the primal nodes, then one reverse walk that emits cotangents.

`Custom` ops without a VJP are pulled back locally: their tangent map is traced for this node and transposed, which ends
because that map uses only linear ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlean.errors import GradError, InternalError, message
from torchlean.ir.builder import CURRENT, Builder, Step, Value, bind1
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


def grad_graph(
    graph: Graph, wrt: Sequence[int], *, mode: Derivatives = Derivatives.STANDARD, active: bytearray | None = None
) -> Graph:
    """primals → (outputs, gradients of the first output, a scalar, at positions `wrt`).

    `active`: what `active_values` says, where it is known already.
    """
    builder = Builder.continuing(graph, name=f"{graph.name}.grad")
    token = CURRENT.set(builder)
    try:
        out = builder.value(graph.outputs[0])
        builder.where = graph.nodes[-1].where if graph.nodes else None
        with collection_paused():
            made = pull_back(builder, graph, [(out.id, full_like(out, 1))], wrt, mode, active)
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
    active: bytearray | None = None,
) -> list[Value]:
    """Emit the reverse sweep into `builder`, whose first nodes are those of `graph`."""
    active = active_values(graph, wrt) if active is None else active
    slopes = slopes_of(graph, mode)
    pull = Pull(mode)
    repeated = Repeated(builder, graph, active, pull)
    cotangents: list[int | None] = [None] * len(graph.types)  # ids
    for id, seed in seeds:
        if active[id]:
            _add(builder, cotangents, id, seed.id)
    for node in reversed(graph.nodes):
        op, ins, outs, _, where = node
        if len(outs) == 1:
            ct = cotangents[outs[0]]
            if ct is None:
                continue
        elif all([cotangents[id] is None for id in outs]):
            continue
        else:
            ct = None
        builder.where = where.derivative(op.name)
        made: Sequence[int | None] | None = None
        if slopes is None or not slopes.heeds(op, outs[0]):
            if ct is not None and op.diff.__class__ in _REPEATED:
                made = repeated.pulled(node, ct)
            if made is None:
                given = _values(builder, cotangents, outs)
                made = _ids(builder, node_cotangents(builder, graph, node, given, active, pull))
        else:
            given = _values(builder, cotangents, outs)
            if outs[0] in slopes.squares:
                ins, values = _square_cotangents(builder, slopes.squares[outs[0]], given[0], active, mode)
            else:
                values = _watched_cotangents(builder, graph, node, given, active, slopes, pull)
            made = _ids(builder, values)
        for id, contribution in zip(ins, made, strict=True):
            if contribution is not None and active[id]:
                _add(builder, cotangents, id, contribution)
    results: list[Value] = []
    for position in wrt:
        id = graph.inputs[position]
        found = cotangents[id]
        results.append(zeros_of(graph.types[id]) if found is None else builder.value(found))
    return results


def _add(builder: Builder, cotangents: list[int | None], id: int, contribution: int) -> None:
    """Add to the cotangent of a value."""
    known = cotangents[id]
    cotangents[id] = contribution if known is None else builder.emit(ADD, NO_PARAMS, (known, contribution))[0]


def _values(builder: Builder, cotangents: list[int | None], outs: Sequence[int]) -> list[Value | None]:
    found = [cotangents[id] for id in outs]
    return [None if id is None else builder.value(id) for id in found]


def _ids(builder: Builder, values: Sequence[Any]) -> list[int | None]:
    return [None if value is None else builder.lift(value) for value in values]


# Rules that see nothing of a node but its params and the types of what they are given.
_REPEATED = frozenset({Elementwise, Linear, Bilinear})


class Repeated:
    """The pull-backs of nodes that differ in their operands alone: traced for one, emitted for the others.

    The steps are those the rule would emit again, in the same order, with the types its ops' type rules gave. A kind of
    node that comes once is pulled back by its rule.
    """

    __slots__ = ("_active", "_builder", "_graph", "_known", "_pull")

    def __init__(self, builder: Builder, graph: Graph, active: bytearray, pull: Pull) -> None:
        self._builder = builder
        self._graph = graph
        self._active = active
        self._pull = pull
        self._known: dict[Any, tuple[Sequence[Step], Sequence[int | None]] | None] = {}

    def pulled(self, node: Node, ct: int) -> Sequence[int | None] | None:
        """Contributions to the operands of a node with one result; None where its rule must be asked."""
        op, ins, outs, params, _ = node
        active, types, known = self._active, self._graph.types, self._known
        key: Any
        if len(ins) == 1:
            key = (op, params, types[ins[0]])  # active, or no cotangent would have arrived
        elif len(ins) == 2:
            left, right = ins
            key = (op, params, types[left], types[right], active[left], active[right])
        else:
            key = (op, params, *[types[id] for id in ins], *[active[id] for id in ins])
        found = known.get(key)
        if found is None:
            if key not in known:
                known[key] = None
                return None
            found = known[key] = self._traced(node)
        steps, positions = found
        builder = self._builder
        values = [*ins, outs[0], ct]
        if steps:
            builder.repeat(steps, values, builder.where or node[4])
        return [None if position is None else values[position] for position in positions]

    def _traced(self, node: Node) -> tuple[Sequence[Step], Sequence[int | None]]:
        """What the rule emits, operands being positions among the node's operands, its result, the cotangent, and the
        results of earlier steps: in a builder without other nodes these are the ids.
        """
        op, ins, outs, params, where = node
        types = self._graph.types
        builder = Builder(parent=self._builder, name=f"{op.name}.vjp")
        builder.where = self._builder.where
        token = CURRENT.set(builder)
        try:
            *primals, y, ct = [builder.add_input(types[id]) for id in (*ins, outs[0], outs[0])]
            alone = Node(op, tuple(range(len(ins))), (y.id,), params, where)
            flags = bytearray([self._active[id] for id in ins])
            made = _ids(builder, pulled_back(builder, alone, primals, [y], [ct], flags, self._pull))
        finally:
            CURRENT.reset(token)
        steps = tuple([(n[0], n[3], n[1], tuple([builder.types[id] for id in n[2]])) for n in builder.nodes])
        return steps, made


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
        return (apply1(CHAIN_MUL if slopes.backward[out] else MUL, cotangents[0], slope),)
    if not slopes.backward[out]:
        return node_cotangents(builder, graph, node, cotangents, active, pull)
    if op.diff.__class__ is not Elementwise:
        return node_cotangents(builder, graph, node, cotangents, active, _GUARDED)
    (ct,), y = cotangents, builder.value(out)
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
    """Contributions to the node's operands from the cotangents of its outputs, None where there is none."""
    _, ins, outs, _, _ = node
    types = graph.types
    primals = [Value(builder, id, types[id]) for id in ins]
    outputs = [Value(builder, id, types[id]) for id in outs]
    return pulled_back(builder, node, primals, outputs, cotangents, bytearray([active[id] for id in ins]), pull)


def pulled_back(
    builder: Builder,
    node: Node,
    primals: list[Value],
    outputs: list[Value],
    cotangents: list[Any],
    active: bytearray,
    pull: Pull,
) -> Sequence[Any]:
    """What the op's rule says of these values; `active` has an entry per operand."""
    op, _, _, params, _ = node
    rule = op.diff
    kind = rule.__class__
    if kind is Elementwise:
        (ct,), (y,) = cotangents, outputs
        made: list[Any] = []
        for partial, is_active in zip(rule.partials, active, strict=True):  # type: ignore[union-attr]
            made.append(_scaled(partial, ct, params, y, primals) if is_active else None)
        return made
    if kind is Linear:
        return rule.transpose(params, _present(cotangents, outputs)[0], *primals)  # type: ignore[union-attr]
    if kind is Bilinear:
        (ct,) = cotangents
        x, y = [_conjugated(primal) for primal in primals]
        return (
            rule.lhs(params, ct, x, y) if active[0] else None,  # type: ignore[union-attr]
            rule.rhs(params, ct, x, y) if active[1] else None,  # type: ignore[union-attr]
        )
    if isinstance(rule, Custom):
        cts = _present(cotangents, outputs)
        if rule.settled is not None and pull.mode is not Derivatives.IEEE:
            primals, outputs = (list(values) for values in rule.settled(params, primals, outputs, cts))
        if rule.vjp is not None:
            return rule.vjp(params, primals, outputs, cts)
        return _transposed_tangent_map(builder, rule, params, primals, outputs, cts, [bool(flag) for flag in active])
    if isinstance(rule, HigherOrder):
        wrt = tuple([position for position, flag in enumerate(active) if flag])
        return rule.vjp(pull, op, params, primals, _present(cotangents, outputs), wrt)
    if isinstance(rule, Structured):
        wrt = tuple([position for position, flag in enumerate(active) if flag])
        if isinstance(rule.vjp, NoReverse):
            raise _no_reverse(rule.vjp, node)
        return rule.vjp(
            REVERSE._replace(vjp=pull),
            params,
            primals,
            cotangents,
            wrt,
            lambda changed: _extended(builder, node, changed),
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


def _present(cotangents: list[Any], outputs: list[Value]) -> list[Any]:
    """The cotangents of all outputs, zeros where none arrived."""
    return [zeros_of(y.type) if ct is None else ct for ct, y in zip(cotangents, outputs, strict=True)]


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
