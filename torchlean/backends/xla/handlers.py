"""The handler of an XLA capsule: it joins groups in lowered programs, and makes an executable of one node if asked to.

What is only another view, or depends on nothing, is NumPy's own where it stands outside any group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from torchlean.backends.handler import Expression, Group, Kernel, Session, Traits, Types, guard_types
from torchlean.backends.vocabulary import Device
from torchlean.backends.xla.grouper import XlaGrouper
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.graph import Node, sub_graphs
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.ops.cut import SLICE
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE
from torchlean.ir.ops.spread import BROADCAST

PROVIDER = "xla"


@dataclass(frozen=True, slots=True, kw_only=True)
class InXla:
    """One op, as part of a group or alone. `runs_bodies`: the sub-graphs of its nodes are part of the executable."""

    op: Op
    provider: str
    device: Device
    traits: Traits
    grouper: XlaGrouper
    capsule: str
    runs_bodies: bool = True

    def bind(self, node: Node, types: Types, session: Session | None) -> Kernel:
        operands = tuple([types[id] for id in node.inputs])
        guard_types(self.op, node, operands, tuple([types[id] for id in node.outputs]))
        if self.traits.view:
            return view_expression(node, types)
        held = [] if isinstance(node.op, Composite) else list(sub_graphs(node.params))
        if not node.inputs and not held:
            made = tuple([np.asarray(x) for x in self.op.denote(NumpyAlgebra(), node.params)])
            return lambda: made[0] if len(made) == 1 else made
        return self._alone(node, types, len(held))

    def _alone(self, node: Node, types: Types, functions: int) -> Kernel:
        """The executable of the node. It is given functions of its sub-graphs first, and has no use for them."""
        group = Group(
            nodes=(node,),
            capsules=(self.capsule,),
            types=types,
            inputs=tuple(dict.fromkeys(node.inputs)),
            outputs=node.outputs,
        )
        kernel = self.grouper.fuse(group).kernel(packs=False)
        if len(group.inputs) == len(node.inputs):
            return (lambda *given: kernel(*given[functions:])) if functions else kernel
        first = [functions + node.inputs.index(id) for id in group.inputs]  # an operand given twice is passed once
        return lambda *given: kernel(*[given[position] for position in first])


def view_expression(node: Node, types: Types) -> Expression:
    """A view as NumPy makes it."""
    params: Any = node.params
    shape = types[node.inputs[0]].shape
    if node.op is RESHAPE:
        return Expression(f"{{0}}.reshape({params.shape!r})", {})
    if node.op is TRANSPOSE:
        return Expression(f"{{0}}.transpose({params.axes!r})", {})
    if node.op is REVERSE and shape:
        marks = ["::-1" if axis in params.axes else ":" for axis in range(len(shape))]
        return Expression(f"{{0}}[{', '.join(marks)}]", {})
    if node.op is SLICE and shape:
        parts = zip(params.starts, params.limits, params.strides, strict=True)
        return Expression(f"{{0}}[{', '.join([f'{start}:{limit}:{step}' for start, limit, step in parts])}]", {})
    if node.op is BROADCAST:
        placed = [1] * len(params.shape)
        for axis, size in zip(params.axes, shape, strict=True):
            placed[axis] = size
        text = f"broadcast_to({{0}}.reshape({tuple(placed)!r}), {params.shape!r})"
        return Expression(text, {"broadcast_to": np.broadcast_to})
    return Expression("{0}", {})
