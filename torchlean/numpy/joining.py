"""Joining arrays. Operands are promoted to one dtype by the standard's table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.errors import OutOfRangeError, message, shown
from torchlean.ir import ops
from torchlean.ir.builder import is_python_number
from torchlean.ir.location import caller_location
from torchlean.numpy.dtypes import result_type
from torchlean.numpy.operands import axis_of, operand, operand_as, refuse_traced, refused
from torchlean.numpy.shapes import atleast_1d, atleast_2d, atleast_3d

__all__ = [
    "append",
    "array_split",
    "block",
    "column_stack",
    "concat",
    "concatenate",
    "delete",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "insert",
    "row_stack",
    "split",
    "stack",
    "unstack",
    "vsplit",
    "vstack",
]


def gathered(name: str, arrays: Any) -> list[Any]:
    """The operands of a join, of one dtype."""
    if not isinstance(arrays, tuple | list):
        raise refused(
            f"{name} of one {type(arrays).__name__}",
            expected="a tuple or list of arrays",
            got=shown(arrays),
            fix=f"write tnp.{name}((x, y))",
        )
    if not arrays:
        raise refused(f"{name} of nothing", expected="one array or more", got="none", fix="pass arrays")
    xs = [operand(name, x) for x in arrays]
    dtype = result_type(*[x.type.dtype for x in xs])
    return [ops.convert(x, dtype) for x in xs]


def concat(arrays: Any, /, axis: int | None = 0) -> Any:
    """The arrays one after another along an axis; flattened first when it is None."""
    xs = gathered("concat", arrays)
    if axis is None:
        xs, axis = [ops.reshape(x, (x.type.size,)) for x in xs], 0
    return ops.concatenate(xs, axis_of("concat", axis, xs[0].type.rank))


def concatenate(arrays: Any, axis: int | None = 0, *, dtype: Any = None) -> Any:
    """`concat` with NumPy's arguments."""
    made = concat(arrays, axis=axis)
    return made if dtype is None else ops.convert(made, dtype)


def stack(arrays: Any, /, axis: int = 0) -> Any:
    """The arrays, all of one shape, along a new axis."""
    xs = gathered("stack", arrays)
    return ops.stack(xs, axis_of("stack", axis, xs[0].type.rank + 1))


def vstack(arrays: Any) -> Any:
    """Rows below one another."""
    return concat([atleast_2d(x) for x in gathered("vstack", arrays)])


row_stack = vstack


def hstack(arrays: Any) -> Any:
    """Side by side: along the second axis, vectors along the first."""
    xs = [atleast_1d(x) for x in gathered("hstack", arrays)]
    return concat(xs, axis=0 if xs[0].type.rank == 1 else 1)


def dstack(arrays: Any) -> Any:
    """Along the third axis."""
    return concat([atleast_3d(x) for x in gathered("dstack", arrays)], axis=2)


def column_stack(arrays: Any) -> Any:
    """Vectors as columns beside matrices."""
    xs = gathered("column_stack", arrays)
    return concat([ops.reshape(x, (x.type.size, 1)) if x.type.rank < 2 else x for x in xs], axis=1)


def append(x: Any, values: Any, axis: int | None = None) -> Any:
    """`values` after `x` along an axis; both flattened when it is None."""
    return concat((operand("append", x), operand("append", values)), axis=axis)


def block(arrays: Any) -> Any:
    """An array from nested lists of blocks: the innermost lists join along the last axis, and so outwards."""
    depth = _depth(arrays)
    rank = max(depth, *[operand("block", x).type.rank for x in _leaves(arrays)], 0)

    def joined(part: Any, level: int) -> Any:
        if level == 0:
            x = operand("block", part)
            return ops.reshape(x, (1,) * (rank - x.type.rank) + x.type.shape)
        return concat([joined(each, level - 1) for each in part], axis=-level)

    return joined(arrays, depth)


def _depth(part: Any) -> int:
    return 1 + _depth(part[0]) if isinstance(part, list) else 0


def _leaves(part: Any) -> list[Any]:
    return [leaf for each in part for leaf in _leaves(each)] if isinstance(part, list) else [part]


# -- taking apart ------------------------------------------------------------------------------------------------------
def unstack(x: Any, /, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, without it."""
    x = operand("unstack", x)
    at = axis_of("unstack", axis, x.type.rank)
    return tuple([x[(*[slice(None)] * at, i)] for i in range(x.type.shape[at])])


def array_split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    """Parts along an axis: so many nearly equal ones (the first ones longer), or cut at these positions."""
    x = operand("array_split", x)
    at = axis_of("array_split", axis, x.type.rank)
    count = x.type.shape[at]
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts < 1:
            raise refused("array_split into no parts", expected="one part or more", got=str(parts), fix="check it")
        each, longer = divmod(count, parts)
        ends = [0]
        for part in range(parts):
            ends.append(ends[-1] + each + (part < longer))
    else:
        ends = [0, *[int(cut) for cut in indices_or_sections], count]
    lead = (slice(None),) * at
    return [x[(*lead, slice(begin, end))] for begin, end in itertools.pairwise(ends)]


def split(x: Any, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Any]:
    """`array_split` into equal parts; an unequal division is refused."""
    x = operand("split", x)
    count = x.type.shape[axis_of("split", axis, x.type.rank)]
    if isinstance(indices_or_sections, int) and (indices_or_sections < 1 or count % indices_or_sections):
        raise refused(
            f"split of {count} entries into {indices_or_sections} equal parts",
            expected="a number of parts that divides the axis",
            got=str(indices_or_sections),
            fix="use tnp.array_split for nearly equal parts",
        )
    return array_split(x, indices_or_sections, axis)


def hsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """`split` along the second axis, of vectors along the first."""
    return split(x, indices_or_sections, 0 if operand("hsplit", x).type.rank == 1 else 1)


def vsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """`split` along the first axis."""
    return split(x, indices_or_sections, 0)


def dsplit(x: Any, indices_or_sections: int | Sequence[int]) -> list[Any]:
    """`split` along the third axis."""
    return split(x, indices_or_sections, 2)


# -- inserting and leaving out -----------------------------------------------------------------------------------------
def delete(x: Any, obj: Any, axis: int | None = None) -> Any:
    """`x` without the entries at static positions along an axis (of the flattened array when None).

    Positions: an integer, a slice, several integers, or a boolean for each entry.
    """
    x = operand("delete", x)
    if axis is None:
        x, axis = ops.reshape(x, (x.type.size,)), 0
    at = axis_of("delete", axis, x.type.rank)
    count = x.type.shape[at]
    if isinstance(obj, slice):
        left_out = set(range(count)[obj])
    else:
        refuse_traced("delete", "multiply by a mask, or take the entries to keep", obj)
        given = np.asarray(obj)
        if given.dtype == np.bool_ and given.shape != (count,):
            raise refused(
                f"delete: {given.size} booleans for {count} entries",
                expected="one per entry along the axis",
                got=str(list(given.shape)),
                fix="make the mask as long as the axis",
            )
        chosen = np.flatnonzero(given) if given.dtype == np.bool_ else given.reshape(-1)
        left_out = {_place("delete", each, x, at, count) for each in chosen.tolist()}
    return ops.take(x, [place for place in range(count) if place not in left_out], at)


def _place(name: str, obj: Any, x: Any, at: int, count: int) -> int:
    """A static position below `count`, counted from 0."""
    if isinstance(obj, bool) or not isinstance(obj, int | np.integer) or not -x.type.shape[at] <= obj < count:
        raise OutOfRangeError(
            message(
                f"{name}: {obj!r} is no position along axis {at} of {x.type}",
                expected=f"an integer in [{-x.type.shape[at]}, {count})",
                got=repr(obj),
                fix="check the index",
                where=str(caller_location()),
            )
        )
    return int(obj) + x.type.shape[at] if obj < 0 else int(obj)


def insert(x: Any, obj: int, values: Any, axis: int | None = None) -> Any:
    """`values` put before one static position along an axis (of the flattened array when None)."""
    x = operand("insert", x)
    values = operand_as("insert", values, x.type.dtype) if is_python_number(values) else operand("insert", values)
    if axis is None:
        x, axis = ops.reshape(x, (x.type.size,)), 0
    at = axis_of("insert", axis, x.type.rank)
    place = _place("insert", obj, x, at, x.type.shape[at] + 1)
    rest = (*x.type.shape[:at], *x.type.shape[at + 1 :])
    if values.type.rank < x.type.rank:
        values = (
            ops.broadcast_to(ops.reshape(values, (values.type.size,)), (*rest, values.type.size))
            if values.type.rank <= 1 and not rest
            else ops.broadcast_to(
                ops.expand_dims(ops.broadcast_to(values, rest), at), (*x.type.shape[:at], 1, *x.type.shape[at + 1 :])
            )
        )
    lead = (slice(None),) * at
    return concat((x[(*lead, slice(None, place))], values, x[(*lead, slice(place, None))]), axis=at)
