"""Composites inside a group become the nodes of their bodies, so that these are fused like any others."""

from __future__ import annotations

from torchlean.backends.handler import Group
from torchlean.ir.graph import Graph, Node
from torchlean.ir.ops.composite import Composite
from torchlean.ir.types import TensorType


def expanded(group: Group) -> Group:
    """The group without composites; values of bodies get ids after all others."""
    if not any([isinstance(node.op, Composite) for node in group.nodes]):
        return group
    return _Expansion(group).made()


class _Expansion:
    def __init__(self, group: Group) -> None:
        self.group = group
        self.types: list[TensorType] = list(group.types)
        self.nodes: list[Node] = []
        self.capsules: list[str] = []
        self.renamed: dict[int, int] = {}

    def made(self) -> Group:
        for node, capsule in zip(self.group.nodes, self.group.capsules, strict=True):
            self._add(node._replace(inputs=self._ids(node.inputs)), capsule)
        return Group(
            nodes=tuple(self.nodes),
            capsules=tuple(self.capsules),
            types=tuple(self.types),
            inputs=self.group.inputs,
            outputs=self._ids(self.group.outputs),
        )

    def _ids(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([self.renamed.get(id, id) for id in ids])

    def _add(self, node: Node, capsule: str) -> None:
        if not isinstance(node.op, Composite):
            self.nodes.append(node)
            self.capsules.append(capsule)
            return
        body: Graph = node.params.body
        ids = dict(zip(body.inputs, node.inputs, strict=True))
        for inner in body.nodes:
            for id in inner.outputs:
                ids[id] = len(self.types)
                self.types.append(body.types[id])
            self._add(
                Node(
                    inner.op,
                    tuple([self.renamed.get(ids[id], ids[id]) for id in inner.inputs]),
                    tuple([ids[id] for id in inner.outputs]),
                    inner.params,
                    node.where,
                ),
                capsule,
            )
        for id, inner_id in zip(node.outputs, body.outputs, strict=True):
            self.renamed[id] = self.renamed.get(ids[inner_id], ids[inner_id])
