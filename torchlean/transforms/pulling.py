"""Gradients a backend takes itself: a function and its pullback as one node, `function.vjp`.

The node's meaning is our backward graph with IEEE products. What is handed to the backend is the function, composites
written out; a part whose derivative is not the backend's (a user's rule, an op it has no derivative of) is handed over
with its own pullback, and the node says which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from torchlean.errors import GradError, message
from torchlean.ir.builder import CURRENT, Builder, answerer, bind, bind1
from torchlean.ir.graph import Graph, Node, sub_graphs, with_sub_graphs
from torchlean.ir.location import caller_location
from torchlean.ir.ops.activation import RELU
from torchlean.ir.ops.composite import Composed, Composite
from torchlean.ir.ops.create import FULL, Fill, zeros_of
from torchlean.ir.ops.pulling import FUNCTION_VJP, TAPED, Owner, Pulled, Taped
from torchlean.ir.ops.repeating import WHILE
from torchlean.ir.ops.scanning import SCAN
from torchlean.ir.rules import Structured
from torchlean.transforms.rewrite import dead_code_eliminated, split
from torchlean.transforms.slopes import Derivatives
from torchlean.transforms.trees import function_name
from torchlean.transforms.vjp import active_outputs, active_values, grad_graph, vjp_graph

MODE = Derivatives.IEEE  # a backend multiplies as its arithmetic does
_STANDARD = frozenset({op.diff.vjp for op in (RELU, RELU.gradient)})  # type: ignore[union-attr]


def owned(f: Callable[..., Any], owner: Owner | None) -> Callable[..., Any]:
    """`f`, whose gradients, taken inside the trace that calls it, are the owner's; None: they become nodes."""

    @wraps(f)
    def marked(*arguments: Any, **keywords: Any) -> Any:
        current = answerer()
        if isinstance(current, Builder):
            current.owner = owner
        return f(*arguments, **keywords)

    marked.__name__ = function_name(f)  # for graphs and messages
    return marked


def owner_here() -> Owner | None:
    """Who differentiates in the innermost trace, if that is a backend."""
    current = CURRENT.get()
    return current.owner if isinstance(current, Builder) else None


def gradient(
    graph: Graph, operands: Sequence[Any], wrt: Sequence[int], mode: Derivatives, active: bytearray
) -> Sequence[Any]:
    """The results of a graph on operands, then the gradients of the first, a scalar, at positions `wrt`.

    `active`: what `active_values` says of the graph.
    """
    owner, current = owner_here(), answerer()
    if owner is None:
        return current.evaluate(dead_code_eliminated(grad_graph(graph, wrt, mode=mode, active=active)), tuple(operands))
    if not active[graph.outputs[0]]:
        zeros = [zeros_of(graph.input_types[position]) for position in wrt]
        return [*current.evaluate(graph, tuple(operands)), *zeros]
    type = graph.output_types[0]
    return bind(
        FUNCTION_VJP, _pulled(graph, wrt, (0,), owner), *operands, bind1(FULL, Fill.of(type.shape, type.dtype, 1))
    )


def pulled_apart(
    graph: Graph, operands: Sequence[Any], count: int, mode: Derivatives
) -> tuple[Sequence[Any], Callable[[Sequence[Any]], Sequence[Any]]]:
    """The results of a graph, and a function from cotangents of these to those of the first `count` operands."""
    owner, current = owner_here(), answerer()
    if owner is not None:
        return current.evaluate(graph, tuple(operands)), _pullback(graph, operands, count, owner)
    full = vjp_graph(graph, range(count), with_outputs=True, mode=mode)
    outs = len(graph.outputs)
    parts = split(full, len(operands), outs)
    early = current.evaluate(parts.early, tuple(operands))
    residuals = early[outs:]
    return early[:outs], lambda cotangents: answerer().evaluate(parts.late, (*residuals, *cotangents))


def _pullback(
    graph: Graph, operands: Sequence[Any], count: int, owner: Owner
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """Cotangents as the owner computes them; zeros where none arrives."""
    types = graph.input_types[:count]
    wrt = tuple([position for position, type in enumerate(types) if type.dtype.is_inexact])
    active = active_outputs(graph, _flags(graph, wrt))
    seeded = tuple([at for at, is_active in enumerate(active) if is_active])
    held = _pulled(graph, wrt, seeded, owner) if seeded else None

    def pull(cotangents: Sequence[Any]) -> list[Any]:
        if held is None:
            return [zeros_of(type) for type in types]
        made = bind(FUNCTION_VJP, held, *operands, *[cotangents[at] for at in seeded])
        found = dict(zip(wrt, made[len(graph.outputs) :], strict=True))
        return [found[at] if at in found else zeros_of(type) for at, type in enumerate(types)]

    return pull


def _flags(graph: Graph, wrt: Sequence[int]) -> list[bool]:
    return [position in wrt for position in range(len(graph.inputs))]


def _pulled(graph: Graph, wrt: Sequence[int], seeded: tuple[int, ...], owner: Owner) -> Pulled:
    """The params of the node. The body comes first: it refuses what has no reverse derivative at all."""
    wrt = tuple(wrt)
    body = vjp_graph(graph, wrt, with_outputs=True, seeded=seeded, mode=MODE)
    handing = _Handing(owner)
    primal = handing.graph(graph, _flags(graph, wrt))
    taped = tuple([f"{name} ×{count}" for name, count in handing.taped.items()])
    if taped and owner.alone:
        raise GradError(
            message(
                f"the gradient of {graph.name} is not the backend's alone",
                expected="a derivative of the backend's for every part: the policy asks for backend-vjp",
                got=f"parts by torchlean-tape: {', '.join(taped)}",
                fix="let the policy ask for torchlean-tape, which admits both, or write the part otherwise",
                where=str(caller_location()),
            )
        )
    attributes: list[tuple[str, Any]] = [("function", graph.name), ("wrt", wrt), ("seeded", seeded)]
    attributes += [*MODE.variant, *[("taped", text) for text in taped]]
    return Pulled(tuple(attributes), primal, body, wrt, seeded, (), taped)


class _Handing:
    """Writes a function for its owner. `taped`: the parts that keep pullbacks of ours, and how many there are."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.taped: Counter[str] = Counter()

    def graph(self, graph: Graph, flags: Sequence[bool]) -> Graph:
        """The graph, differentiated at the flagged inputs."""
        builder = Builder(name=graph.name)
        inputs = tuple([builder.add_input(type).id for type in graph.input_types])
        return builder.finish(self._copied(builder, graph, inputs, flags))

    def _copied(
        self, builder: Builder, graph: Graph, inputs: tuple[int, ...], flags: Sequence[bool]
    ) -> tuple[int, ...]:
        ids = dict(zip(graph.inputs, inputs, strict=True))
        active = active_values(graph, [position for position, flag in enumerate(flags) if flag])
        for node in graph.nodes:
            operands = tuple([ids[id] for id in node.inputs])
            given = [bool(active[id]) for id in node.inputs]
            if any(given) and any([active[id] for id in node.outputs]):
                if _is_plain(node):
                    ids.update(zip(node.outputs, self._copied(builder, node.params.body, operands, given), strict=True))
                    continue
                node = self._handed(graph, node, given)
            types = tuple([graph.types[id] for id in node.outputs])
            ids.update(zip(node.outputs, builder.emit_typed(node, operands, types), strict=True))
        return tuple([ids[id] for id in graph.outputs])

    def _handed(self, graph: Graph, node: Node, given: list[bool]) -> Node:
        op = node.op
        if op is WHILE or (op is FUNCTION_VJP and not node.params.taped):
            return node
        if isinstance(op.diff, Structured):
            held = [self.graph(body, flags) for body, flags in _bodies(node, given)]
            return node._replace(params=with_sub_graphs(node.params, held))
        if op in self.owner.ops and not isinstance(op, Composite):
            return node
        inside = f" ({', '.join(node.params.taped)})" if op is FUNCTION_VJP else ""
        self.taped[" ".join([op.name, getattr(node.params, "label", "")]).strip() + inside] += 1
        return node._replace(op=TAPED, params=_taped(graph, node, given))


def _is_plain(node: Node) -> bool:
    """Whether a node is a composite whose derivative is that of its body."""
    rule = getattr(node.op.diff, "vjp", None)
    return isinstance(node.op, Composite) and isinstance(node.params, Composed) and rule in _STANDARD


def _bodies(node: Node, given: list[bool]) -> list[tuple[Graph, list[bool]]]:
    """The sub-graphs of control flow, and which of their inputs are differentiated."""
    held = [graph for _, graph in sub_graphs(node.params)]
    if node.op is not SCAN:
        return [(graph, given[len(given) - len(graph.inputs) :]) for graph in held]
    (body,) = held
    first = node.params.consts
    last = first + node.params.carries
    flags = given
    while True:
        outs = active_outputs(body, flags)[: node.params.carries]
        carried = [one or other for one, other in zip(flags[first:last], outs, strict=True)]
        if carried == flags[first:last]:
            return [(body, flags)]
        flags = [*flags[:first], *carried, *flags[last:]]


def _taped(graph: Graph, node: Node, given: list[bool]) -> Taped:
    """A node on its own with our pullback of it."""
    ins = [graph.types[id] for id in node.inputs]
    outs = [graph.types[id] for id in node.outputs]
    last = len(ins) + len(outs)
    alone = node._replace(inputs=tuple(range(len(ins))), outputs=tuple(range(len(ins), last)))
    body = Graph(inputs=alone.inputs, nodes=(alone,), outputs=alone.outputs, types=(*ins, *outs), name=node.op.name)
    wrt = tuple([position for position, flag in enumerate(given) if flag])
    seeded = tuple([at for at, is_active in enumerate(active_outputs(body, given)) if is_active])
    return Taped(body, vjp_graph(body, wrt, seeded=seeded, mode=MODE), wrt, seeded)
