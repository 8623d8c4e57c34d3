"""broadcast and reduce_sum: each is the other's transpose."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.ops.families import FIELDS, kind_fault
from torchlean.ir.ops.layout import RESHAPE, NewShape
from torchlean.ir.rules import Linear, Rule
from torchlean.ir.types import Shape, TensorType, drop_axes
from torchlean.record import record


@record
class Spread:
    """`shape`: the result's shape; `axes[i]`: the result axis that operand axis `i` becomes (increasing).

    An operand axis has the size of its result axis, or 1.
    """

    shape: Shape
    axes: tuple[int, ...]


def _broadcast_type(params: Spread, x: TensorType) -> tuple[TensorType, ...]:
    shape, axes = params.shape, params.axes
    fits = len(axes) == len(x.shape) and (not shape or min(shape) >= 0)
    last = -1
    for axis, size in zip(axes, x.shape, strict=False):
        if not fits or axis <= last or axis >= len(shape) or size not in (1, shape[axis]):
            fits = False
            break
        last = axis
    if not fits:
        raise TypeFault(
            f"cannot be broadcast to {list(shape)} along axes {list(axes)}",
            expected="one increasing result axis per operand axis, of equal size or from size 1",
            got=f"{x} to {list(shape)}, axes {list(axes)}",
            fix="reshape or transpose the operand first",
        )
    return (TensorType(shape, x.dtype),)


def spread_array(x: Any, shape: Shape, axes: tuple[int, ...]) -> Any:
    """NumPy view of `x` broadcast to `shape`."""
    placed = [1] * len(shape)
    for axis, size in zip(axes, np.shape(x), strict=True):
        placed[axis] = size
    return np.broadcast_to(np.reshape(x, placed), shape)


def _broadcast_transpose(params: Spread, ct: Any, x: Any) -> tuple[Any, ...]:
    shape = type_of(x).shape
    summed = tuple(
        [
            axis
            for axis in range(len(params.shape))
            if axis not in params.axes or shape[params.axes.index(axis)] != params.shape[axis]
        ]
    )
    reduced = bind1(REDUCE_SUM, Axes(summed), ct) if summed else ct
    return (reduced if type_of(reduced).shape == shape else bind1(RESHAPE, NewShape(shape), reduced),)


BROADCAST = Op(
    name="broadcast",
    params=Spread,
    type_rule=_broadcast_type,
    denote=lambda algebra, params, x: (algebra.shape(lambda v: spread_array(v, params.shape, params.axes), x),),
    diff=Linear(transpose=_broadcast_transpose),
    batch=Rule(
        lambda params, size, operands, mapped: (
            bind1(BROADCAST, Spread((size, *params.shape), (0, *[axis + 1 for axis in params.axes])), operands[0]),
        )
    ),
    reduces=False,
    doc="Repeat the operand along new axes and along axes of size 1.",
)


@record
class Axes:
    """`axes`: the axes reduced away; increasing, within the operand's rank."""

    axes: tuple[int, ...]


def check_axes(axes: tuple[int, ...], x: TensorType) -> None:
    """Refuse axes that are not increasing or not axes of `x`."""
    if any(a >= b for a, b in pairwise(axes)) or any(not 0 <= a < x.rank for a in axes):
        raise TypeFault(
            "the axes are not axes of the operand",
            expected=f"increasing axes in [0, {x.rank})",
            got=str(list(axes)),
            fix="name existing axes once, in order",
        )


def _reduce_sum_type(params: Axes, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.kind not in FIELDS:
        raise kind_fault(x.dtype, FIELDS)
    check_axes(params.axes, x)
    return (TensorType(drop_axes(x.shape, params.axes), x.dtype),)


def kept_axes(rank: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of a rank that a reduction keeps."""
    return tuple([axis for axis in range(rank) if axis not in axes])


def spread_along(x: Any, shape: Shape, axes: tuple[int, ...]) -> Any:
    """Undo the shape of a reduction over `axes`: broadcast `x` back to `shape`."""
    return bind1(BROADCAST, Spread(shape, kept_axes(len(shape), axes)), x)


def shift_axes(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Axes after a leading batch axis was added."""
    return tuple([axis + 1 for axis in axes])


REDUCE_SUM = Op(
    name="reduce_sum",
    params=Axes,
    type_rule=_reduce_sum_type,
    denote=lambda algebra, params, x: (algebra.sum(x, params.axes),),
    diff=Linear(transpose=lambda params, ct, x: (spread_along(ct, type_of(x).shape, params.axes),)),
    batch=Rule(lambda params, size, operands, mapped: (bind1(REDUCE_SUM, Axes(shift_axes(params.axes)), operands[0]),)),
    reduces=True,
    doc="Sum over `axes`: a left fold from 0 in row-major order of the axes.",
)


def reduce_sum(x: Any, axes: tuple[int, ...]) -> Any:
    """Sum over the given non-negative axes."""
    return bind1(REDUCE_SUM, Axes(tuple(sorted(axes))), x)


OPS = (BROADCAST, REDUCE_SUM)
