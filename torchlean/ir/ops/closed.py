"""Closed sub-graphs of control flow: arranged anew, applied, made from functions of traced values.

The rules of `cond`, `scan`, `while` and `checkpoint` are written with these; none of them knows a transform.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from torchlean.errors import InternalError
from torchlean.ir.builder import Builder, answerer
from torchlean.ir.graph import Graph, Node, is_effect, with_fewer_effects, without_effects
from torchlean.ir.location import NOWHERE
from torchlean.ir.op import EffectOp, TypeFault
from torchlean.ir.ops.create import FULL, Fill
from torchlean.ir.ops.effect import USE_KEY
from torchlean.ir.ops.layout import RESHAPE, TRANSPOSE
from torchlean.ir.ops.spread import BROADCAST
from torchlean.ir.rules import Elementwise, Unit
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, show_types

_MOVES = frozenset({RESHAPE, TRANSPOSE, BROADCAST})


def arranged(graph: Graph, inputs: Sequence[int | TensorType], outputs: Sequence[int | TensorType]) -> Graph:
    """The part of `graph` that computes `outputs` from `inputs`, values numbered densely.

    An input given as a type is one more that nothing reads; an output given as a type is zeros. Effects stay in a part
    that is given every input of the graph.
    """
    live = bytearray(len(graph.types))
    for id in outputs:
        if not isinstance(id, TensorType):
            live[id] = 1
    kept: list[Node] = []
    made_here = {id for id in inputs if not isinstance(id, TensorType)}
    acts = graph.has_effects and made_here.issuperset(graph.inputs)
    for node in reversed(graph.nodes):
        if any([live[id] and id not in made_here for id in node.outputs]) or (acts and is_effect(node)):
            kept.append(node)
            for id in node.inputs:
                live[id] = 1
    types: list[TensorType] = []
    ids = [-1] * len(graph.types)
    for given in inputs:
        if isinstance(given, TensorType):
            types.append(given)
        else:
            ids[given] = len(types)
            types.append(graph.types[given])
    nodes: list[Node] = []
    for op, ins, outs, params, where in reversed(kept):
        read = tuple([ids[id] for id in ins])
        if -1 in read:
            raise InternalError(f"{op.name} reads %{ins[read.index(-1)]} of {graph.name}, which is not given")
        first = len(types)
        for offset, id in enumerate(outs):
            if id not in made_here:
                ids[id] = first + offset
            types.append(graph.types[id])
        nodes.append(Node(op, read, tuple(range(first, len(types))), params, where))
    results: list[int] = []
    for wanted in outputs:
        if isinstance(wanted, TensorType):
            nodes.append(Node(FULL, (), (len(types),), Fill(wanted.shape, wanted.dtype, 0), NOWHERE))
            results.append(len(types))
            types.append(wanted)
        else:
            results.append(ids[wanted])
    return Graph(
        inputs=tuple(range(len(inputs))),
        nodes=tuple(nodes),
        outputs=tuple(results),
        types=tuple(types),
        name=graph.name,
    )


def values_read(graph: Graph) -> set[int]:
    """The values some live node or the result reads."""
    read = set(graph.outputs)
    for node in reversed(graph.nodes):
        if not read.isdisjoint(node.outputs):
            read.update(node.inputs)
    return read


class Kept(NamedTuple):
    """A body and its derivative: `values`, ids in `forward`, are what the derivative reads of it.

    `forward`: operands → results. `late`: (the values kept, the seeds) → cotangents, without effects.
    """

    forward: Graph
    values: tuple[int, ...]
    late: Graph


def _moves(node: Node) -> bool:
    """Whether a node only moves entries, or is an identity: one operand, whose partial derivative is 1."""
    diff = node.op.diff
    return node.op in _MOVES or (isinstance(diff, Elementwise) and diff.partials == (Unit.PLUS,))


def unwatched(graph: Graph) -> Graph:
    """The graph without the notes that keys are used: where it also runs for examples that did not ask for it."""
    if not graph.has_effects:
        return graph
    nodes = [node for node in graph.nodes if node.op is not USE_KEY]
    for at, node in enumerate(nodes):
        if node.op.__class__ is not EffectOp and is_effect(node):
            nodes[at] = with_fewer_effects(node, unwatched, "watched")
    return Graph(inputs=graph.inputs, nodes=tuple(nodes), outputs=graph.outputs, types=graph.types, name=graph.name)


def forward_values(full: Graph, outputs: int) -> list[int]:
    """What the first `outputs` results of `full` are made of and is worth keeping: neither constants nor moves."""
    wanted = set(full.outputs[:outputs])
    found: list[int] = []
    for node in reversed(full.nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(node.inputs)
            if node.inputs and not _moves(node):
                found += reversed(node.outputs)
    found.reverse()
    return found


def keeping(body: Graph, full: Graph, kept: Sequence[int]) -> Kept:
    """Cut `full`, from (operands of `body`, seeds) to (its results, derivatives), at the operands and at `kept`."""
    count, outputs = len(body.inputs), len(body.outputs)
    operands, seeds = full.inputs[:count], full.inputs[count:]
    given = [*operands, *[id for id in dict.fromkeys(kept) if id not in operands]]
    derivatives = full.outputs[outputs:]
    quiet = without_effects(full)
    read = values_read(arranged(quiet, [*given, *seeds], derivatives))  # where given value `at` has the id `at`
    values = [id for at, id in enumerate(given) if at in read]
    known = set(operands)
    nodes: list[Node] = []
    for node in full.nodes:
        if known.issuperset(node.inputs):
            known.update(node.outputs)
            nodes.append(node)
    forward = Graph(
        inputs=operands, nodes=tuple(nodes), outputs=full.outputs[:outputs], types=full.types, name=body.name
    )
    return Kept(forward, tuple(values), arranged(quiet, [*values, *seeds], derivatives))


def are_zero(graph: Graph) -> list[bool]:
    """Which outputs are zeros whatever the inputs: those the graph fills in."""
    zeros = {node.outputs[0] for node in graph.nodes if node.op is FULL and not node.params.bits}
    return [id in zeros for id in graph.outputs]


def inlined(f: Callable[..., Sequence[Any]], types: Sequence[TensorType], name: str) -> Graph:
    """The graph of a function of traced values that uses nothing else, densely numbered; nodes have the line of now."""
    where = getattr(answerer(), "where", None)

    def located(*values: Any) -> Sequence[Any]:
        current = answerer()
        assert isinstance(current, Builder)
        current.where = where
        return f(*values)

    traced = trace_flat(located, types, name=name, check_leaks=False)
    if traced.captured:
        raise InternalError(f"{name} uses a value that is not an operand: {traced.captured[0]!r}")
    return arranged(traced.graph, traced.graph.inputs, traced.graph.outputs)


def apply(graph: Graph, operands: Iterable[Any]) -> list[Any]:
    """A closed graph applied to operands, through whatever answers ops now."""
    return list(answerer().evaluate(graph, tuple(operands)))


def is_graph(held: Any) -> bool:
    """Whether a parameter is a graph: files and tests may put anything there."""
    return isinstance(held, Graph)


def require_operands(body: str, graph: Graph, types: Sequence[TensorType]) -> None:
    """Refuse operand types that are not the inputs of a sub-graph."""
    wanted = graph.input_types
    if tuple(types) != wanted:
        raise TypeFault(
            f"the operands do not fit the {body}",
            expected=show_types(wanted) or "no operand",
            got=show_types(tuple(types)) or "none",
            fix="trace the function again for these operands",
        )


def require_carry(name: str, leaving: Sequence[TensorType], entering: Sequence[TensorType]) -> None:
    """Refuse a body whose carry leaves with other types than it enters with."""
    if tuple(leaving) != tuple(entering):
        raise TypeFault(
            "carry changes type across an iteration",
            expected=f"what enters: {show_types(tuple(entering)) or 'nothing'}",
            got=f"what leaves: {show_types(tuple(leaving)) or 'nothing'}",
            fix=f"make the body of {name} return its carry with the types it takes",
        )


def chosen(flags: Sequence[bool], entries: Sequence[Any]) -> list[Any]:
    """The entries whose flag is set."""
    return [entry for flag, entry in zip(flags, entries, strict=True) if flag]


def spread_out(flags: Sequence[bool], entries: Iterable[Any]) -> list[Any]:
    """One entry per flag: the next given one where it is set, else None."""
    remaining = iter(entries)
    return [next(remaining) if flag else None for flag in flags]
