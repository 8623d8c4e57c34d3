"""Shape without arithmetic: reshaping, permuting, broadcasting, flipping, repeating."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import (
    axes_of,
    axis_of,
    common_shape,
    integer,
    operand,
    refused,
    sizes,
)

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "matrix_transpose",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "reshape",
    "roll",
    "rollaxis",
    "rot90",
    "shape",
    "size",
    "squeeze",
    "swapaxes",
    "transpose",
]


def reshape(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
    """The same entries in row-major order; one size may be -1."""
    return ops.reshape(operand("reshape", x), sizes("reshape", shape))


def ravel(x: Any, /) -> Any:
    """All entries along one axis, in row-major order."""
    return ops.reshape(operand("ravel", x), (-1,)) if operand("ravel", x).type.size else ops.reshape(x, (0,))


def shape(x: Any, /) -> tuple[int, ...]:
    """The sizes of the axes."""
    return operand("shape", x).type.shape


def ndim(x: Any, /) -> int:
    """The number of axes."""
    return operand("ndim", x).type.rank


def size(x: Any, /, axis: int | None = None) -> int:
    """The number of entries, or of those along an axis."""
    type = operand("size", x).type
    return type.size if axis is None else type.shape[axis_of("size", axis, type.rank)]


# -- axes --------------------------------------------------------------------------------------------------------------
def permute_dims(x: Any, /, axes: Any) -> Any:
    """Axis `i` of the result is axis `axes[i]` of `x`."""
    x = operand("permute_dims", x)
    order = axes_of("permute_dims", tuple(axes), x.type.rank)
    if len(order) != x.type.rank:
        raise refused(
            f"permute_dims of {x.type} to {axes}",
            expected=f"{x.type.rank} axes",
            got=str(len(order)),
            fix="name every axis once",
        )
    return ops.transpose(x, order)


def transpose(x: Any, axes: Any = None) -> Any:
    """Axes permuted; reversed when none are given."""
    return ops.transpose(operand("transpose", x)) if axes is None else permute_dims(x, axes)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    x = operand("matrix_transpose", x)
    if x.type.rank < 2:
        raise refused(
            f"matrix_transpose of {x.type}", expected="at least two axes", got=str(x.type.rank), fix="add an axis"
        )
    return swapaxes(x, -1, -2)


def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    x = operand("swapaxes", x)
    order = list(range(x.type.rank))
    a, b = axis_of("swapaxes", axis1, x.type.rank), axis_of("swapaxes", axis2, x.type.rank)
    order[a], order[b] = b, a
    return ops.transpose(x, order)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Any:
    """Axes moved to new places, the others in their order."""
    x = operand("moveaxis", x)
    rank = x.type.rank
    sources = axes_of("moveaxis", source, rank)
    places = axes_of("moveaxis", destination, rank)
    if len(sources) != len(places):
        raise refused(
            f"moveaxis of {x.type}: {len(sources)} axes to {len(places)} places",
            expected="as many places as axes",
            got=f"{source} and {destination}",
            fix="pair each axis with its place",
        )
    order = [axis for axis in range(rank) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return ops.transpose(x, order)


def rollaxis(x: Any, axis: int, start: int = 0) -> Any:
    """One axis moved before position `start`."""
    x = operand("rollaxis", x)
    at = axis_of("rollaxis", axis, x.type.rank)
    begin = start + x.type.rank if start < 0 else start
    return moveaxis(x, at, begin - 1 if at < begin else begin)


def expand_dims(x: Any, /, axis: Any) -> Any:
    """New axes of size 1 at these places of the result."""
    x = operand("expand_dims", x)
    count = len(axis) if isinstance(axis, tuple | list) else 1
    places = axes_of("expand_dims", axis, x.type.rank + count)
    rest = list(x.type.shape)
    for place in sorted(places):
        rest.insert(place, 1)
    return ops.reshape(x, tuple(rest))


def squeeze(x: Any, /, axis: Any = None) -> Any:
    """Axes of size 1 dropped: those named, or all of them."""
    x = operand("squeeze", x)
    if axis is None:
        return ops.reshape(x, tuple([n for n in x.type.shape if n != 1]))
    axes = axes_of("squeeze", axis, x.type.rank)
    for at in axes:
        if x.type.shape[at] != 1:
            fault = refused(
                f"squeeze of {x.type}: axis {at} has {x.type.shape[at]} entries",
                expected="axes of size 1",
                got=str(axis),
                fix="index the axis, or name another",
            )
            raise ValueError(str(fault))
    return ops.reshape(x, tuple([n for a, n in enumerate(x.type.shape) if a not in axes]))


# -- broadcasting ------------------------------------------------------------------------------------------------------
def broadcast_to(x: Any, /, shape: Any) -> Any:
    """Repeated to `shape`, aligned at the last axis."""
    return ops.broadcast_to(operand("broadcast_to", x), sizes("broadcast_to", shape))


def broadcast_arrays(*arrays: Any) -> list[Any]:
    """The arrays repeated to the shape they share."""
    xs = [operand("broadcast_arrays", x) for x in arrays]
    wanted = common_shape("broadcast_arrays", *[x.type for x in xs])
    return [ops.broadcast_to(x, wanted) for x in xs]


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to."""
    from torchlean.ir.dtypes import DType
    from torchlean.ir.types import TensorType

    return common_shape(
        "broadcast_shapes", *[TensorType(sizes("broadcast_shapes", each), DType.F32) for each in shapes]
    )


def atleast_1d(*arrays: Any) -> Any:
    """Scalars as vectors of one entry."""
    return _each(arrays, lambda x: ops.reshape(x, (1,)) if x.type.rank == 0 else x)


def atleast_2d(*arrays: Any) -> Any:
    """Scalars and vectors as matrices of one row."""
    return _each(arrays, lambda x: x if x.type.rank > 1 else ops.reshape(x, (1, x.type.size)))


def atleast_3d(*arrays: Any) -> Any:
    """Three axes at least: vectors become [1, n, 1], matrices [m, n, 1]."""

    def made(x: Any) -> Any:
        lead = {0: (1, 1, 1), 1: (1, x.type.size, 1), 2: (*x.type.shape, 1)}.get(x.type.rank)
        return x if lead is None else ops.reshape(x, lead)

    return _each(arrays, made)


def _each(arrays: tuple[Any, ...], function: Any) -> Any:
    results = [function(operand("atleast", x)) for x in arrays]
    return results[0] if len(results) == 1 else results


# -- order -------------------------------------------------------------------------------------------------------------
def flip(x: Any, /, axis: Any = None) -> Any:
    """Entries in reverse along these axes; all of them when none is named."""
    x = operand("flip", x)
    axes = axes_of("flip", axis, x.type.rank)
    return ops.reverse(x, axes) if axes else x


def fliplr(x: Any) -> Any:
    """The second axis reversed."""
    return flip(x, axis=1)


def flipud(x: Any) -> Any:
    """The first axis reversed."""
    return flip(x, axis=0)


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Turned by k right angles in the plane of two axes, from the first towards the second."""
    x = operand("rot90", x)
    first, second = axes_of("rot90", axes, x.type.rank)
    match k % 4:
        case 0:
            return x
        case 1:
            return swapaxes(flip(x, axis=second), first, second)
        case 2:
            return flip(x, axis=(first, second))
        case _:
            return flip(swapaxes(x, first, second), axis=second)


def roll(x: Any, /, shift: Any, axis: Any = None) -> Any:
    """Entries moved along axes by static shifts, those beyond the end coming back in front."""
    x = operand("roll", x)
    if axis is None:
        total = sum([integer("roll", "shift", s) for s in (shift if isinstance(shift, tuple | list) else (shift,))])
        return ops.reshape(_rolled(ops.reshape(x, (x.type.size,)), total, 0), x.type.shape)
    axes = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    shifts = tuple(shift) if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = axes * len(shifts)
    if len(axes) != len(shifts):
        raise refused(
            f"roll: {len(shifts)} shifts for {len(axes)} axes",
            expected="one shift, or one per axis",
            got=f"{shift} and {axis}",
            fix="pair shifts and axes",
        )
    for places, at in zip(shifts, axes, strict=True):
        x = _rolled(x, integer("roll", "shift", places), axis_of("roll", at, x.type.rank))
    return x


def _rolled(x: Any, places: int, axis: int) -> Any:
    count = x.type.shape[axis]
    cut = -places % count if count else 0
    if not cut:
        return x
    key = (slice(None),) * axis
    return ops.concatenate([x[(*key, slice(cut, None))], x[(*key, slice(None, cut))]], axis)
