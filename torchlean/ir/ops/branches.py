"""cond: one of several closed branches, chosen by a clamped index.

Reverse mode computes the chosen branch's own forward values again inside the chosen branch of the derivative, so
nothing of the branches not taken is kept. Mapped over an index, every branch runs and `select` chooses, in the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.ir.builder import bind, bind1, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.op import NO_PARAMS, Op, TypeFault
from torchlean.ir.ops.closed import (
    apply,
    arranged,
    chosen,
    inlined,
    is_graph,
    require_operands,
    spread_out,
    unwatched,
    values_read,
)
from torchlean.ir.ops.create import full_like
from torchlean.ir.ops.cut import leading
from torchlean.ir.ops.elementwise import CLAMP, EQ, SELECT, STOP_GRADIENT
from torchlean.ir.ops.spread import BROADCAST, Spread
from torchlean.ir.rules import Reverse, Structured, StructuredBatch
from torchlean.ir.types import TensorType, show_types
from torchlean.record import record

INDEX = TensorType((), DType.I32)


@record
class Branches:
    """`branches`: closed graphs of equal operand and result types."""

    branches: tuple[Graph, ...]


def _type_rule(params: Branches, *types: TensorType) -> tuple[TensorType, ...]:
    branches = params.branches
    if not branches or not all(map(is_graph, branches)):
        raise TypeFault(
            "there are no branches to choose from",
            expected="at least one graph",
            got=f"{len(branches)} branches",
            fix="give a function per branch",
        )
    if not types or types[0] != INDEX:
        raise TypeFault(
            "the index is no 32-bit integer",
            expected=str(INDEX),
            got=show_types(types[:1]) or "no operand",
            fix="convert the index with ops.convert(i, 'i32')",
        )
    first = branches[0].output_types
    for position, branch in enumerate(branches):
        require_operands(f"branch {position}", branch, types[1:])
        if branch.output_types != first:
            raise TypeFault(
                f"branch {position} returns other types than branch 0",
                expected=show_types(first) or "nothing",
                got=show_types(branch.output_types) or "nothing",
                fix="convert, broadcast or reshape a result",
            )
    return first


def _denote(algebra: Any, params: Branches, index: Any, *operands: Any) -> tuple[Any, ...]:
    last = len(params.branches) - 1
    number = int(np.asarray(algebra.exact(lambda i: np.clip(i, 0, last), index)))
    return denote(params.branches[number], operands, algebra)


def _jvp(recurse: Any, params: Branches, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    active = [tangent is not None for tangent in tangents[1:]]
    pushed = [recurse(branch, active) for branch in params.branches]
    moved = [any(flags) for flags in zip(*[flags for _, flags in pushed], strict=True)]
    types = params.branches[0].output_types
    count = len(types)
    branches: list[Graph] = []
    for graph, flags in pushed:
        found = spread_out(flags, graph.outputs[count:])
        filled = [type if id is None else id for type, id in zip(types, found, strict=True)]
        branches.append(arranged(graph, graph.inputs, [*graph.outputs[:count], *chosen(moved, filled)]))
    present = [tangent for tangent in tangents if tangent is not None]
    made = bind(COND, Branches(tuple(branches)), *primals, *present)
    return list(made[:count]), spread_out(moved, made[count:])


def _vjp(
    reverse: Reverse, params: Branches, primals: Any, cotangents: Any, wrt: tuple[int, ...], extend: Any
) -> list[Any]:
    inner = tuple([position - 1 for position in wrt])
    seeded = [at for at, ct in enumerate(cotangents) if ct is not None]
    pulled = [reverse.vjp(branch, inner, seeded=seeded) for branch in params.branches]
    read = [values_read(graph) for graph in pulled]
    given = [*primals[1:], *[cotangents[at] for at in seeded]]
    kept = [at for at in range(len(given)) if any([g.inputs[at] in r for g, r in zip(pulled, read, strict=True)])]
    branches = tuple([arranged(graph, [graph.inputs[at] for at in kept], graph.outputs) for graph in pulled])
    made = bind(COND, Branches(branches), primals[0], *[given[at] for at in kept])
    found = dict(zip(wrt, made, strict=True))
    return [found.get(position) for position in range(len(primals))]


def _active(active: Any, params: Branches, flags: Sequence[bool]) -> list[bool]:
    each = [active(branch, flags[1:]) for branch in params.branches]
    return [any(together) for together in zip(*each, strict=True)]


def _batch(recurse: Any, params: Branches, size: int, operands: Any, mapped: Any) -> tuple[list[Any], list[bool]]:
    if mapped[0]:
        return _selected(recurse, params, size, operands, mapped)
    each = [recurse(branch, size, tuple(mapped[1:])) for branch in params.branches]
    flags = [any(together) for together in zip(*[flags for _, flags in each], strict=True)]
    branches = tuple([all_mapped(graph, size, own, flags) for graph, own in each])
    return list(bind(COND, Branches(branches), *operands)), flags


def all_mapped(graph: Graph, size: int, flags: Sequence[bool], wanted: Sequence[bool]) -> Graph:
    """`graph` with the outputs that are wanted mapped, and are not yet, broadcast along a new leading axis."""
    if list(flags) == list(wanted):
        return arranged(graph, graph.inputs, graph.outputs)

    def flat(*operands: Any) -> list[Any]:
        made = apply(graph, operands)
        return [leading(x, size, own or not want) for x, own, want in zip(made, flags, wanted, strict=True)]

    return inlined(flat, graph.input_types, graph.name)


def _selected(recurse: Any, params: Branches, size: int, operands: Any, mapped: Any) -> tuple[list[Any], list[bool]]:
    """Every branch, then a choice per example. An operand reaches a branch's derivative only where it is chosen, so
    that what a branch not taken does to its gradient (0 · ∞) stays there.
    """
    index = operands[0]
    last = len(params.branches) - 1
    index = bind1(CLAMP, NO_PARAMS, full_like(index, 0), index, full_like(index, last))
    results: list[Any] = []
    for position in reversed(range(last + 1)):
        here = bind1(EQ, NO_PARAMS, index, full_like(index, position))
        seen = [
            per_example(here, leading(x, size, m), bind1(STOP_GRADIENT, NO_PARAMS, leading(x, size, m)))
            if type_of(x).dtype.is_inexact
            else leading(x, size, m)
            for x, m in zip(operands[1:], mapped[1:], strict=True)
        ]
        graph, flags = recurse(unwatched(params.branches[position]), size, (True,) * len(seen))
        made = [leading(x, size, flag) for x, flag in zip(apply(graph, seen), flags, strict=True)]
        results = [per_example(here, x, old) for x, old in zip(made, results, strict=True)] if results else made
    return results, [True] * len(results)


def per_example(chosen: Any, x: Any, y: Any) -> Any:
    """`select` by one boolean per example."""
    shape = type_of(x).shape
    full = chosen if len(shape) == 1 else bind1(BROADCAST, Spread(shape, (0,)), chosen)
    return bind1(SELECT, NO_PARAMS, full, x, y)


COND = Op(
    name="cond",
    params=Branches,
    type_rule=_type_rule,
    denote=_denote,
    diff=Structured(jvp=_jvp, vjp=_vjp, active=_active),
    batch=StructuredBatch(_batch),
    reduces=False,
    doc="The branch at an index, clamped to the branches there are, applied to the operands.",
)

OPS = (COND,)
