"""The handler of a compiled capsule: it joins groups in lowered programs, and compiles a node alone when asked to."""

from __future__ import annotations

from dataclasses import dataclass

from torchlean.backends.compiled.grouper import CGrouper
from torchlean.backends.handler import Expression, Group, Kernel, Session, Traits, Types, guard_types
from torchlean.backends.vocabulary import Device
from torchlean.ir.graph import Node
from torchlean.ir.op import Op
from torchlean.ir.ops.cut import SLICE
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE
from torchlean.ir.ops.spread import BROADCAST

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
        group = Group(
            nodes=(node,),
            capsules=(self.capsule,),
            types=types,
            inputs=tuple(dict.fromkeys(node.inputs)),
            outputs=node.outputs,
        )
        kernel = self.grouper.fuse(group).kernel(packs=False)
        if len(group.inputs) == len(node.inputs):
            return kernel
        first = [node.inputs.index(id) for id in group.inputs]  # an operand that is given twice is passed once
        return lambda *given: kernel(*[given[position] for position in first])


def view_expression(node: Node, types: Types) -> Expression:
    """A view outside any group: NumPy's own."""
    params = node.params
    if node.op is RESHAPE:
        return Expression(f"{{0}}.reshape({params.shape!r})", {})
    if node.op is TRANSPOSE:
        return Expression(f"{{0}}.transpose({params.axes!r})", {})
    rank = types[node.inputs[0]].rank
    if node.op is REVERSE and rank:
        return Expression(f"{{0}}[{', '.join(['::-1' if a in params.axes else ':' for a in range(rank)])}]", {})
    if node.op is SLICE and rank:
        parts = zip(params.starts, params.limits, params.strides, strict=True)
        return Expression(f"{{0}}[{', '.join([f'{start}:{limit}:{step}' for start, limit, step in parts])}]", {})
    if node.op is BROADCAST:
        import numpy as np

        placed = [1] * len(params.shape)
        for axis, size in zip(params.axes, types[node.inputs[0]].shape, strict=True):
            placed[axis] = size
        text = f"broadcast_to({{0}}.reshape({tuple(placed)!r}), {params.shape!r})"
        return Expression(text, {"broadcast_to": np.broadcast_to})
    return Expression("{0}", {})
