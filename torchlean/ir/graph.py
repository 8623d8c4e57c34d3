"""Nodes and graphs: flat typed SSA.

Invariants (checked by `ir/check.py`): every value is defined once, by an input or a node; a node's inputs have smaller
ids than its outputs; declared types are the ones the op's type rule gives; sub-graphs in params are closed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from torchlean.ir.location import SourceLocation
from torchlean.ir.op import Op
from torchlean.ir.types import TensorType


class Node(NamedTuple):
    """One application of an op. `inputs` and `outputs` are value ids; `params` an instance of `op.params`."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    params: Any
    where: SourceLocation


class Graph:
    """A closed program: `types[v]` is the type of value `v`. Treat as immutable; transforms make new graphs."""

    __slots__ = ("inputs", "name", "nodes", "outputs", "shared", "types")

    def __init__(
        self,
        *,
        inputs: tuple[int, ...],
        nodes: tuple[Node, ...],
        outputs: tuple[int, ...],
        types: tuple[TensorType, ...],
        name: str = "graph",
        shared: dict[tuple[Any, ...], tuple[int, ...]] | None = None,
    ) -> None:
        self.inputs = inputs
        self.nodes = nodes
        self.outputs = outputs
        self.types = types
        self.name = name
        self.shared = shared  # the builder's (op, params, inputs) → outputs, so that a transform need not rebuild it

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        return tuple([self.types[v] for v in self.inputs])

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        return tuple([self.types[v] for v in self.outputs])

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        # The printer lies above this file; printing is a Python protocol, so it is reached by name.
        return importlib.import_module("torchlean.ir.printer").graph_text(self)

    def __repr__(self) -> str:
        ins = ", ".join(map(str, self.input_types))
        outs = ", ".join(map(str, self.output_types))
        return f"<Graph {self.name}: ({ins}) -> ({outs}), {len(self.nodes)} nodes>"


def sub_graphs(params: Any) -> Iterator[tuple[str, Graph]]:
    """The graphs held by a node's params, with the field that holds each."""
    fields = getattr(type(params), "__dataclass_fields__", None)
    for field in fields or ():
        held = getattr(params, field)
        if isinstance(held, Graph):
            yield field, held
