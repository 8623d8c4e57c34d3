"""The functions users call to cut, join and index tensors; constant indices are checked here, when they are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.errors import OutOfRangeError, TypeRuleError, message
from torchlean.ir.builder import bind1, is_python_number, type_of
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.ops import cut, gather
from torchlean.ir.ops.create import filled
from torchlean.ir.ops.cut import CONCATENATE, PAD, SLICE, Joined, Strided, Widths, axis_of, move_axis
from torchlean.ir.ops.gather import GATHER, SCATTER_ADD, Along, Mode
from torchlean.ir.ops.layout import RESHAPE, NewShape


# -- cut and join ------------------------------------------------------------------------------------------------------
def slice_(x: Any, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None) -> Any:
    """Entries `start, start + stride, …` below `limit` of each axis; strides are positive and default to 1."""
    steps = (1,) * len(starts) if strides is None else tuple(strides)
    return bind1(SLICE, Strided(tuple(starts), tuple(limits), steps), x)


def pad(x: Any, value: Any, widths: Sequence[tuple[int, ...]]) -> Any:
    """Pad with a scalar: per axis `(low, high)` or `(low, high, interior)`; negative low and high crop.

    A Python number takes the dtype of `x`.
    """
    dtype = type_of(x).dtype
    fill = filled("pad", (), dtype, value) if is_python_number(value) else value
    each = [(*width, 0) if len(width) == 2 else width for width in widths]
    low, high, interior = (tuple([width[i] for width in each]) for i in range(3))
    return bind1(PAD, Widths(low, high, interior), x, fill)


def concatenate(xs: Sequence[Any], axis: int = 0) -> Any:
    """The operands one after another along an existing axis."""
    return bind1(CONCATENATE, Joined(axis_of(xs[0], axis, "concatenate") if xs else axis), *xs)


def stack(xs: Sequence[Any], axis: int = 0) -> Any:
    """The operands, all of one shape, along a new axis at position `axis` of the result."""
    rank = len(type_of(xs[0]).shape) + 1 if xs else 1
    if not -rank <= axis < rank:
        raise TypeRuleError(
            message(
                f"stack of {type_of(xs[0]) if xs else 'nothing'}: no new axis fits at {axis}",
                expected=f"an axis in [{-rank}, {rank})",
                got=str(axis),
                fix="name a position in the result",
                where=str(caller_location()),
            )
        )
    at = axis % rank
    shapes = [type_of(x).shape for x in xs]
    return bind1(
        CONCATENATE,
        Joined(at),
        *[bind1(RESHAPE, NewShape((*s[:at], 1, *s[at:])), x) for x, s in zip(xs, shapes, strict=True)],
    )


# -- positions ---------------------------------------------------------------------------------------------------------
def known_indices(what: str, x: Any, indices: Any, axis: int) -> Any:
    """Indices of `x`: constant ones are checked and negative ones wrapped; traced ones and arrays pass as they are."""
    if isinstance(indices, Operators):
        return indices
    array = np.asarray(indices)
    if array.size == 0 and not isinstance(indices, np.ndarray):
        array = array.astype(np.int32)
    if array.dtype.kind not in "iu":
        return array  # the type rule says why not
    size = type_of(x).shape[axis]
    outside = (array < -size) | (array >= size)
    if outside.any():
        raise OutOfRangeError(
            message(
                f"{what} of {type_of(x)}: index {array[outside][0]} is outside axis {axis}",
                expected=f"an index in [{-size}, {size})" if size else "no index: the axis is empty",
                got=str(array[outside][0]),
                fix="check the index; negative ones count from the end",
                where=str(caller_location()),
            )
        )
    wide = array.astype(np.int64)
    return np.where(wide < 0, wide + size, wide).astype(np.int32 if size <= 2**31 else np.int64)


def take(x: Any, indices: Any, axis: int = 0, mode: Mode = Mode.FILL) -> Any:
    """Entries of `x` along `axis` at integer positions: shape x.shape[:axis] + indices.shape + x.shape[axis + 1:].

    Constant indices outside the axis raise OutOfRangeError and negative ones wrap. Others follow `mode` at run time
    and do not wrap.
    """
    at = axis_of(x, axis, "take")
    return bind1(GATHER, Along(at, 0, mode), x, known_indices("take", x, indices, at))


def take_along_axis(x: Any, indices: Any, axis: int, mode: Mode = Mode.FILL) -> Any:
    """y[…, j, …] = x[…, indices[…, j, …], …]: `indices` has the shape of `x` except along `axis`."""
    at = axis_of(x, axis, "take_along_axis")
    known = known_indices("take_along_axis", x, indices, at)
    shape, others = type_of(x).shape, type_of(known).shape
    if len(others) != len(shape) or any(n != m for a, (n, m) in enumerate(zip(shape, others, strict=True)) if a != at):
        raise TypeRuleError(
            message(
                f"take_along_axis of {type_of(x)} with indices {type_of(known)}: shapes differ outside axis {at}",
                expected=f"indices of shape {[*shape[:at], 'any', *shape[at + 1 :]]}",
                got=str(list(others)),
                fix="broadcast the indices; or use ops.take, which reads whole slices",
                where=str(caller_location()),
            )
        )
    last = len(shape) - 1
    made = bind1(GATHER, Along(last, last, mode), move_axis(x, at, last), move_axis(known, at, last))
    return move_axis(made, last, at)


def scatter_add(x: Any, indices: Any, updates: Any, axis: int = 0, mode: Mode = Mode.FILL) -> Any:
    """`x` with updates added at positions along `axis`; `updates` has the shape `take(x, indices, axis)` has."""
    at = axis_of(x, axis, "scatter_add")
    return bind1(SCATTER_ADD, Along(at, 0, mode), x, known_indices("scatter_add", x, indices, at), updates)


OPS = (*cut.OPS, *gather.OPS)
