"""Sorting. NaN comes last; complex numbers are ordered by their real, then their imaginary parts."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import axis_of, integer, operand, refused

__all__ = [
    "argpartition",
    "argsort",
    "lexsort",
    "partition",
    "searchsorted",
    "sort",
    "sort_complex",
]


def sort(x: Any, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
    """Entries in order along an axis."""
    x = operand("sort", x)
    at = axis_of("sort", axis, x.type.rank)
    if descending or x.type.dtype.is_complex or x.type.dtype.is_bool:
        return ops.take_along_axis(x, argsort(x, axis=at, descending=descending), at)
    return ops.sort(x, axis=at)


def argsort(x: Any, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Any:
    """Positions (int32) that put entries in order along an axis; equal entries keep their order, also descending."""
    x = operand("argsort", x)
    at = axis_of("argsort", axis, x.type.rank)
    if x.type.dtype.is_complex:
        minor = _ordered(ops.imag(x), at, descending)
        major = _ordered(ops.take_along_axis(ops.real(x), minor, at), at, descending)
        return ops.take_along_axis(minor, major, at)
    return _ordered(x, at, descending)


def _ordered(x: Any, axis: int, descending: bool) -> Any:
    """Stable positions in order along an axis. Descending: of the reversed entries, read backwards."""
    if x.type.dtype.is_bool:
        x = ops.convert(x, "u8")
    if not descending:
        return ops.argsort(x, axis=axis)
    backwards = ops.reverse(ops.argsort(ops.reverse(x, (axis,)), axis=axis), (axis,))
    return ops.sub(x.type.shape[axis] - 1, backwards) if x.type.shape[axis] else backwards


def lexsort(keys: Any, axis: int = -1) -> Any:
    """Positions that order by the last key, then by those before it: a tuple of arrays of one shape."""
    xs = [operand("lexsort", x) for x in (keys if isinstance(keys, tuple | list) else tuple(keys))]
    if not xs:
        raise refused("lexsort without keys", expected="one key or more", got="none", fix="pass arrays")
    if any([x.type.shape != xs[0].type.shape for x in xs]):
        raise refused(
            "lexsort of keys of different shapes",
            expected="one shape",
            got=", ".join([str(x.type) for x in xs]),
            fix="broadcast them",
        )
    at = axis_of("lexsort", axis, xs[0].type.rank)
    order = argsort(xs[0], axis=at)
    for x in xs[1:]:
        order = ops.take_along_axis(order, argsort(ops.take_along_axis(x, order, at), axis=at), at)
    return order


def partition(x: Any, kth: int, axis: int = -1) -> Any:
    """Entries rearranged so that the kth is where sorting would put it: here, all are sorted."""
    _within(x, kth, axis)
    return sort(x, axis=axis)


def argpartition(x: Any, kth: int, axis: int = -1) -> Any:
    """Positions that `partition`: here, those that sort."""
    _within(x, kth, axis)
    return argsort(x, axis=axis)


def _within(x: Any, kth: int, axis: int) -> None:
    x = operand("partition", x)
    count = x.type.shape[axis_of("partition", axis, x.type.rank)]
    if not -count <= integer("partition", "kth", kth) < count:
        raise refused(
            f"partition of {x.type} at {kth}",
            expected=f"a position in [{-count}, {count})",
            got=str(kth),
            fix="check kth",
        )


def sort_complex(x: Any) -> Any:
    """Entries as complex numbers, in order along the last axis."""
    x = operand("sort_complex", x)
    return sort(x if x.type.dtype.is_complex else ops.convert(x, "c128" if x.type.dtype.width == 64 else "c64"))


def searchsorted(x1: Any, x2: Any, /, side: str = "left", *, sorter: Any = None) -> Any:
    """How many entries of the ordered vector `x1` come before each entry of `x2` (int32): a binary search.

    With side "right" equal entries count too. NaN comes last.
    """
    from torchlean.numpy.dtypes import result_type
    from torchlean.numpy.operands import unknown_choice

    if side not in ("left", "right"):
        unknown_choice("searchsorted", "side", side, ("left", "right"))
    x1, x2 = operand("searchsorted", x1), operand("searchsorted", x2)
    if x1.type.rank != 1:
        raise refused(f"searchsorted in {x1.type}", expected="a vector", got=str(x1.type), fix="use vmap for rows")
    if sorter is not None:
        x1 = ops.take(x1, operand("searchsorted", sorter))
    dtype = result_type(x1.type.dtype, x2.type.dtype)
    x1, x2 = ops.convert(x1, dtype), ops.convert(x2, dtype)
    count = x1.type.size
    low = ops.full(x2.type.shape, 0, "i32")
    high = ops.full(x2.type.shape, count, "i32")
    for _ in range(count.bit_length()):
        middle = ops.floor_divide(ops.add(low, high), 2)
        entry = ops.take(x1, ops.min(middle, count - 1))
        before = ops.logical_and(ops.lt(middle, high), _before(entry, x2, side == "right"))
        low = ops.select(before, ops.add(middle, 1), low)
        high = ops.select(before, high, ops.max(middle, low))
    return low


def _before(entry: Any, value: Any, also_equal: bool) -> Any:
    """entry < value (or ≤) in the order with NaN last."""
    ahead = ops.le(entry, value) if also_equal else ops.lt(entry, value)
    if not value.type.dtype.is_float:
        return ahead
    entry_nan, value_nan = ops.ne(entry, entry), ops.ne(value, value)
    late = value_nan if also_equal else ops.logical_and(value_nan, ops.logical_not(entry_nan))
    return ops.logical_or(ahead, late)
