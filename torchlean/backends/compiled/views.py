"""Where the entries of a value are: a stored value and, per axis, how far to step. Views cost nothing in C."""

from __future__ import annotations

from torchlean.backends.strides import Strides, contiguous, reshaped
from torchlean.ir.graph import Node
from torchlean.ir.ops.cut import SLICE
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE
from torchlean.ir.ops.spread import BROADCAST
from torchlean.ir.types import Shape
from torchlean.record import record


@record
class View:
    """`root`: the stored value; entry (i, j, …) is at `offset + i·strides[0] + j·strides[1] + …`, in entries."""

    root: int
    offset: int
    shape: Shape
    strides: Strides

    @property
    def is_whole(self) -> bool:
        """Whether it is its row-major storage from the start."""
        return self.offset == 0 and same_strides(self.shape, self.strides, contiguous(self.shape))

    def squeezed(self) -> tuple[Shape, Strides]:
        """Sizes and strides of the axes that have more than one entry."""
        kept = [(size, step) for size, step in zip(self.shape, self.strides, strict=True) if size != 1]
        return tuple([size for size, _ in kept]), tuple([step for _, step in kept])


def whole(root: int, shape: Shape) -> View:
    return View(root, 0, shape, contiguous(shape))


def same_strides(shape: Shape, left: Strides, right: Strides) -> bool:
    """Whether two strides reach the same entries: those of axes of one entry do not matter."""
    return 0 in shape or all([a == b for size, a, b in zip(shape, left, right, strict=True) if size != 1])


def viewed(node: Node, given: View) -> View | None:
    """The view that a view's node makes of its operand; None where a reshape has to copy."""
    params = node.params
    root, offset, shape, strides = given.root, given.offset, given.shape, given.strides
    if node.op is RESHAPE:
        made = reshaped(shape, strides, params.shape)
        return None if made is None else View(root, offset, params.shape, made)
    if node.op is TRANSPOSE:
        return View(root, offset, tuple([shape[a] for a in params.axes]), tuple([strides[a] for a in params.axes]))
    if node.op is REVERSE:
        if 0 in shape:
            return given
        back = sum([(shape[a] - 1) * strides[a] for a in params.axes])
        turned = tuple([-step if a in params.axes else step for a, step in enumerate(strides)])
        return View(root, offset + back, shape, turned)
    if node.op is BROADCAST:
        placed = dict(zip(params.axes, range(len(shape)), strict=True))
        steps = [strides[placed[a]] if a in placed and shape[placed[a]] != 1 else 0 for a in range(len(params.shape))]
        return View(root, offset, params.shape, tuple(steps))
    if node.op is SLICE:
        sizes = [
            -(-(limit - start) // step)
            for start, limit, step in zip(params.starts, params.limits, params.strides, strict=True)
        ]
        moved = sum([start * step for start, step in zip(params.starts, strides, strict=True)])
        steps = tuple([step * by for step, by in zip(strides, params.strides, strict=True)])
        return View(root, offset + moved, tuple(sizes), steps)
    return given


def collapsed(shape: Shape, strides: list[Strides]) -> tuple[Shape, list[Strides]]:
    """The same iteration with fewer axes: neighbours are joined where every operand steps evenly over both."""
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    sizes = [shape[axis] for axis in kept]
    steps = [[each[axis] for axis in kept] for each in strides]
    axis = len(sizes) - 2
    while axis >= 0:
        if all([each[axis] == each[axis + 1] * sizes[axis + 1] for each in steps]):
            sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
            for each in steps:
                del each[axis]
        axis -= 1
    return tuple(sizes), [tuple(each) for each in steps]
