"""Batching, graph to graph: replay with a leading axis on every mapped value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torchlean.errors import InternalError
from torchlean.ir.builder import CURRENT, Builder, Value, bind1
from torchlean.ir.graph import Graph
from torchlean.ir.ops.spread import BROADCAST, Spread
from torchlean.ir.rules import HigherOrderBatch, Pointwise, Rule, StructuredBatch
from torchlean.ir.types import TensorType


def with_leading_axis(x: Value, size: int) -> Any:
    """Repeat an unmapped value along a new leading axis."""
    shape = x.type.shape
    return bind1(BROADCAST, Spread((size, *shape), tuple(range(1, len(shape) + 1))), x)


def vmap_graph(graph: Graph, size: int, mapped: Sequence[bool]) -> Graph:
    """`graph` over a batch of `size`: mapped inputs gain a leading axis, and so does every output."""
    made, out_mapped, builder = _replay(graph, size, mapped)
    token = CURRENT.set(builder)
    try:
        ids = tuple(
            [
                value.id if is_mapped else with_leading_axis(value, size).id
                for value, is_mapped in zip(made, out_mapped, strict=True)
            ]
        )
    finally:
        CURRENT.reset(token)
    return builder.finish(ids)


def vmap_graph_partial(graph: Graph, size: int, mapped: Sequence[bool]) -> tuple[Graph, tuple[bool, ...]]:
    """As `vmap_graph`, but outputs that depend on no mapped input stay as they are; says which are mapped."""
    made, out_mapped, builder = _replay(graph, size, mapped)
    return builder.finish(tuple([value.id for value in made])), out_mapped


def _replay(graph: Graph, size: int, mapped: Sequence[bool]) -> tuple[list[Value], tuple[bool, ...], Builder]:
    builder = Builder(name=f"{graph.name}.vmap")
    types = graph.types
    values: list[Any] = [None] * len(types)
    flags = bytearray(len(types))
    token = CURRENT.set(builder)
    try:
        for id, is_mapped in zip(graph.inputs, mapped, strict=True):
            type = types[id]
            values[id] = builder.add_input(TensorType((size, *type.shape), type.dtype) if is_mapped else type)
            flags[id] = is_mapped
        for node in graph.nodes:
            op, ins, outs, params, where = node
            operands = [values[id] for id in ins]
            builder.where = where
            if not any([flags[id] for id in ins]):
                made: Sequence[Any] = builder.bind(op, params, tuple(operands))
            else:
                rule = op.batch
                marks = [bool(flags[id]) for id in ins]
                reached: Sequence[bool] = (True,) * len(outs)
                if isinstance(rule, Pointwise):
                    full = [x if m else with_leading_axis(x, size) for x, m in zip(operands, marks, strict=True)]
                    made = builder.bind(op, params, tuple(full))
                elif isinstance(rule, Rule):
                    made = rule.batch(params, size, operands, marks)
                elif rule.__class__ is HigherOrderBatch:
                    made = rule.batch(vmap_graph, params, size, operands, marks)
                elif isinstance(rule, StructuredBatch):
                    made, reached = rule.batch(vmap_graph_partial, params, size, operands, marks)
                else:
                    raise InternalError(f"unknown batching rule {rule!r} of {op.name}")
                for id, flag in zip(outs, reached, strict=True):
                    flags[id] = flag
            for id, value in zip(outs, made, strict=True):
                values[id] = value
    finally:
        CURRENT.reset(token)
    return [values[id] for id in graph.outputs], tuple([bool(flags[id]) for id in graph.outputs]), builder
