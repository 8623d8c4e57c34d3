"""The handler of a compiled capsule: it joins groups in lowered programs, and compiles a node alone when asked to."""

from __future__ import annotations

from dataclasses import dataclass

from torchlean.backends.alone import kernel_alone, view_expression
from torchlean.backends.compiled.grouper import CGrouper
from torchlean.backends.handler import Kernel, Session, Traits, Types, guard_types
from torchlean.backends.vocabulary import Device
from torchlean.ir.graph import Node
from torchlean.ir.op import Op

PROVIDER = "compiled"


@dataclass(frozen=True, slots=True, kw_only=True)
class InC:
    """Code for one op, as part of a group or alone."""

    op: Op
    provider: str
    device: Device
    traits: Traits
    grouper: CGrouper
    capsule: str
    sources: tuple[str, ...] = ("torchlean/backends/compiled/stub.c", "torchlean/backends/compiled/team.c")

    def bind(self, node: Node, types: Types, session: Session | None) -> Kernel:
        operands = tuple([types[id] for id in node.inputs])
        guard_types(self.op, node, operands, tuple([types[id] for id in node.outputs]))
        if self.traits.view:
            return view_expression(node, types)
        return kernel_alone(self.grouper, self.capsule, node, types)
