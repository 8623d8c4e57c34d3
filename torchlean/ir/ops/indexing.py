"""What `x[key]` means."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.errors import OutOfRangeError, TypeRuleError, message
from torchlean.ir.builder import type_of
from torchlean.ir.location import caller_location
from torchlean.ir.ops.index import slice_, take
from torchlean.ir.ops.promote import tensor
from torchlean.ir.ops.shaping import reshape, reverse


def _slice_parts(entry: slice, size: int) -> tuple[int, int, int, bool]:
    """start, limit, stride > 0 and whether the axis is reversed afterwards."""
    start, stop, step = entry.indices(size)
    count = len(range(start, stop, step))
    if count == 0:
        return 0, 0, 1, False
    if step > 0:
        return start, start + (count - 1) * step + 1, step, False
    last = start + (count - 1) * step
    return last, start + 1, -step, True


def getitem(x: Any, key: Any) -> Any:
    """What `x[key]` means: integers, slices, None, Ellipsis, and at most one integer array or list.

    A constant integer out of range raises OutOfRangeError (an IndexError); a traced integer index reads by `take`.
    """
    x = tensor(x)
    keys = list(key) if isinstance(key, tuple) else [key]
    consuming = [k for k in keys if k is not None and k is not Ellipsis]
    if len(consuming) > x.type.rank or sum(k is Ellipsis for k in keys) > 1:
        raise OutOfRangeError(
            message(
                f"indexing {x.type} with {len(consuming)} indices",
                expected=f"at most {x.type.rank} indices",
                got=str(len(consuming)),
                fix="index fewer axes",
                where=str(caller_location()),
            )
        )
    expanded: list[Any] = []
    for k in keys:
        if k is Ellipsis:
            expanded += [slice(None)] * (x.type.rank - len(consuming))
        else:
            expanded.append(k)
    expanded += [slice(None)] * (x.type.rank - len([k for k in expanded if k is not None]))
    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    flipped: list[int] = []
    shape: list[int] = []
    arrays: list[tuple[int, Any]] = []
    axis = 0
    for k in expanded:
        if k is None:
            shape.append(1)
            continue
        size = x.type.shape[axis]
        if isinstance(k, slice):
            start, limit, stride, backwards = _slice_parts(k, size)
            if backwards:
                flipped.append(axis)
            shape.append(len(range(start, limit, stride)))
        elif isinstance(k, int | np.integer) and not isinstance(k, bool):
            position = int(k)
            if not -size <= position < size:
                raise OutOfRangeError(
                    message(
                        f"indexing {x.type}: index {position} is out of range for axis {axis}",
                        expected=f"an index in [{-size}, {size})",
                        got=str(position),
                        fix="index within the axis",
                        where=str(caller_location()),
                    )
                )
            start, stride = position % size, 1
            limit = start + 1
        else:
            arrays.append((len(shape), k))
            start, limit, stride = 0, size, 1
            shape.append(size)
        starts.append(start)
        limits.append(limit)
        strides.append(stride)
        axis += 1
    whole = starts == [0] * x.type.rank and tuple(limits) == x.type.shape and strides == [1] * x.type.rank
    if not whole:
        x = slice_(x, tuple(starts), tuple(limits), tuple(strides))
    if flipped:
        x = reverse(x, tuple(flipped))
    x = reshape(x, tuple(shape))
    if len(arrays) > 1:
        raise TypeRuleError(
            message(
                f"indexing {x.type} with {len(arrays)} index arrays",
                expected="at most one integer array",
                got=str(len(arrays)),
                fix="use ops.take along one axis at a time",
                where=str(caller_location()),
            )
        )
    for at, indices in arrays:
        if (type_of(indices) if hasattr(indices, "dtype") else type_of(np.asarray(indices))).dtype.is_bool:
            raise TypeRuleError(
                message(
                    f"indexing {x.type} with a boolean mask: the size of the result would depend on values",
                    expected="integers, slices or an integer array",
                    got="a boolean array",
                    fix="use ops.select(mask, x, fill)",
                    where=str(caller_location()),
                )
            )
        x = take(x, indices, axis=at)
    return x
