"""Nodes and graphs: flat typed SSA.

Invariants (checked by `ir/check.py`): every value is defined once, by an input or a node; a node's inputs have smaller
ids than its outputs; declared types are the ones the op's type rule gives; sub-graphs in params are closed.

Graphs are equal when they do the same: names and source locations do not count. So nodes whose params hold equal
sub-graphs are shared, and what is planned for one serves the other.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from torchlean.ir.location import SourceLocation
from torchlean.ir.op import EffectOp, Op
from torchlean.ir.rules import HigherOrder, Structured
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

    __slots__ = (
        "_content",
        "_has_effects",
        "_hash",
        "_input_types",
        "_output_types",
        "inputs",
        "is_live",
        "name",
        "nodes",
        "outputs",
        "shared",
        "types",
    )

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
        self._hash = 0
        self._content: tuple[Any, ...] | None = None  # what is compared; made with the hash, when first asked for
        self._has_effects: bool | None = None  # likewise
        self._input_types: tuple[TensorType, ...] | None = None
        self._output_types: tuple[TensorType, ...] | None = None
        self.is_live = False  # whether it is known that every node counts; `dead_code_eliminated` sets it

    def __hash__(self) -> int:
        if self._content is None:
            content = (self.inputs, self.outputs, self.types, tuple([node[:4] for node in self.nodes]))
            self._hash = hash(content)
            self._content = content
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Graph):
            return NotImplemented
        return hash(self) == hash(other) and self._content == other._content

    @property
    def input_types(self) -> tuple[TensorType, ...]:
        found = self._input_types
        if found is None:
            found = self._input_types = tuple([self.types[v] for v in self.inputs])
        return found

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        found = self._output_types
        if found is None:
            found = self._output_types = tuple([self.types[v] for v in self.outputs])
        return found

    @property
    def has_effects(self) -> bool:
        """Whether a node here, or in a graph that a node holds, is run for what it does."""
        known = self._has_effects
        if known is None:
            ops = {node[0] for node in self.nodes}
            suspects = {op for op in ops if op.__class__ is EffectOp or op.diff.__class__ in _HOLDING}
            known = bool(suspects) and any([is_effect(node) for node in self.nodes if node[0] in suspects])
            self._has_effects = known
        return known

    def __len__(self) -> int:
        return len(self.nodes)

    def __str__(self) -> str:
        # The printer lies above this file; printing is a Python protocol, so it is reached by name.
        return importlib.import_module("torchlean.ir.printer").graph_text(self)

    def _repr_html_(self) -> str:
        return importlib.import_module("torchlean.ir.printer").graph_html(self)

    def __repr__(self) -> str:
        ins = ", ".join(map(str, self.input_types))
        outs = ", ".join(map(str, self.output_types))
        return f"<Graph {self.name}: ({ins}) -> ({outs}), {len(self.nodes)} nodes>"


def sub_graphs(params: Any) -> Iterator[tuple[str, Graph]]:
    """The graphs held by a node's params, each with its field: `body`, or `branches[1]` in a tuple of graphs."""
    fields = getattr(type(params), "__dataclass_fields__", None)
    for field in fields or ():
        held = getattr(params, field)
        if isinstance(held, Graph):
            yield field, held
        elif held.__class__ is tuple and held and isinstance(held[0], Graph):
            for position, graph in enumerate(held):
                yield f"{field}[{position}]", graph


def with_sub_graphs(params: Any, graphs: Sequence[Graph]) -> Any:
    """The same params holding other graphs, given in the order of `sub_graphs`."""
    remaining = iter(graphs)
    changed: dict[str, Any] = {}
    for field in type(params).__dataclass_fields__:
        held = getattr(params, field)
        if isinstance(held, Graph):
            changed[field] = next(remaining)
        elif held.__class__ is tuple and held and isinstance(held[0], Graph):
            changed[field] = tuple([next(remaining) for _ in held])
    return dataclasses.replace(params, **changed)


# -- effects -----------------------------------------------------------------------------------------------------------
_HOLDING = frozenset({HigherOrder, Structured})  # derivative rules of ops whose params hold graphs


def is_effect(node: Node) -> bool:
    """Whether a node is run for what it does: an effect itself, or one that holds a graph with effects."""
    op = node[0]
    if op.__class__ is EffectOp:
        return True
    return op.diff.__class__ in _HOLDING and any([held.has_effects for _, held in sub_graphs(node[3])])


def without_effects(graph: Graph, *, in_bodies: bool = True) -> Graph:
    """The graph without its effects and what only they needed; those of the graphs its nodes hold too, or not.

    Transforms use it where a body is computed again beside a node that performs its effects, and files hold graphs in
    this form.
    """
    if not graph.has_effects:
        return graph
    needed, wanted = bytearray(len(graph.types)), bytearray(len(graph.types))  # by effects; by anything else
    for id in graph.outputs:
        wanted[id] = 1
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node[0].__class__ is EffectOp:
            for id in node[1]:
                needed[id] = 1
        elif any([wanted[id] for id in node[2]]) or not any([needed[id] for id in node[2]]):
            kept.append(quiet(node) if in_bodies and is_effect(node) else node)
            for id in node[1]:
                wanted[id] = 1
        else:
            for id in node[1]:
                needed[id] = 1
    kept.reverse()
    return Graph(inputs=graph.inputs, nodes=tuple(kept), outputs=graph.outputs, types=graph.types, name=graph.name)


def quiet(node: Node) -> Node:
    """A node whose graphs have no effects. A composite is marked, which keeps it apart from the one that has them."""
    return with_fewer_effects(node, without_effects, "effects")


def with_fewer_effects(node: Node, fewer: Callable[[Graph], Graph], mark: str) -> Node:
    """A node whose graphs have been through `fewer`. A composite gets the attribute `mark`, False."""
    params = with_sub_graphs(node.params, [fewer(held) for _, held in sub_graphs(node.params)])
    if "attributes" in params.__dataclass_fields__:
        params = dataclasses.replace(params, attributes=(*params.attributes, (mark, False)))
    return node._replace(params=params)
