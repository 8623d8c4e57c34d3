"""A node outside any group, of a provider that makes groups: the group of this one node, or a view of NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.backends.handler import Expression, Group, Grouper, Kernel, Types
from torchlean.ir.graph import Node
from torchlean.ir.ops.cut import SLICE
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE
from torchlean.ir.ops.spread import BROADCAST


def kernel_alone(grouper: Grouper, capsule: str, node: Node, types: Types, functions: int = 0) -> Kernel:
    """The kernel of the node. It is given `functions` of its sub-graphs first, and has no use for them."""
    group = Group(
        nodes=(node,),
        capsules=(capsule,),
        types=types,
        inputs=tuple(dict.fromkeys(node.inputs)),
        outputs=node.outputs,
    )
    kernel = grouper.fuse(group).kernel(packs=False)
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
