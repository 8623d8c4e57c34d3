"""What `x[key]` means."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.errors import OutOfRangeError, TypeRuleError, message, shown
from torchlean.ir.builder import Value
from torchlean.ir.dtypes import Kind
from torchlean.ir.location import caller_location
from torchlean.ir.ops.advanced import kind_of, mask_positions, settled, take_points
from torchlean.ir.ops.gather import Mode
from torchlean.ir.ops.index import slice_
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


def _is_integer(key: Any) -> bool:
    return isinstance(key, int | np.integer) and not isinstance(key, bool)


def _is_array(key: Any) -> bool:
    return not (key is None or key is Ellipsis or isinstance(key, slice) or _is_integer(key))


def _checked_array(x: Any, key: Any, mode: Mode | None) -> Any:
    """An index array or a known boolean mask; TypeRuleError for anything else."""
    kind = kind_of(key)
    if kind not in (Kind.SIGNED, Kind.UNSIGNED, Kind.BOOL):
        raise TypeRuleError(
            message(
                f"indexing {x.type} with a {type(key).__name__}",
                expected="integers, slices, None, Ellipsis, integer arrays or lists, or a boolean mask",
                got=shown(key),
                fix="convert the index to an integer",
                where=str(caller_location()),
            )
        )
    if kind is Kind.BOOL and (isinstance(key, Value) or isinstance(x, Value)):
        raise TypeRuleError(
            message(
                f"indexing {x.type} with a boolean mask: the size of the result would depend on values",
                expected="integers, slices or an integer array",
                got="a boolean array",
                fix="use ops.select(mask, x, fill)",
                where=str(caller_location()),
            )
        )
    return settled(key, None if kind is Kind.BOOL else mode)


def _expanded(x: Any, key: Any, mode: Mode | None) -> list[Any]:
    """One entry per axis, besides None: Ellipsis written out, masks as the index vectors of their true entries."""
    keys = [_checked_array(x, k, mode) if _is_array(k) else k for k in (key if isinstance(key, tuple) else (key,))]
    masks = [isinstance(k, np.ndarray) and k.dtype == np.bool_ for k in keys]
    taken = [
        0 if k is None or k is Ellipsis else k.ndim if is_mask else 1 for k, is_mask in zip(keys, masks, strict=True)
    ]
    ellipses = sum([k is Ellipsis for k in keys])
    if ellipses > 1:
        raise OutOfRangeError(
            message(
                f"indexing {x.type} with two ellipses",
                expected="one at most",
                got=f"{ellipses}",
                fix="write : for the axes one of them stands for",
                where=str(caller_location()),
            )
        )
    if sum(taken) > x.type.rank:
        raise OutOfRangeError(
            message(
                f"indexing {x.type} with {sum(taken)} indices",
                expected=f"at most {x.type.rank} indices",
                got=str(sum(taken)),
                fix="index fewer axes",
                where=str(caller_location()),
            )
        )
    rest = [slice(None)] * (x.type.rank - sum(taken))
    made: list[Any] = []
    axis = 0
    for k, is_mask, count in zip(keys, masks, taken, strict=True):
        if k is Ellipsis:
            made += rest
            axis += len(rest)
            continue
        made += list(mask_positions(x.type, k, axis)) if is_mask and k.ndim else [k]
        axis += count
    return made if ellipses else made + rest


def _static(x: Any, keys: list[Any]) -> tuple[Any, list[int], list[Any]]:
    """`x` cut by the integers and slices, None inserted, with which of its axes the index arrays are for."""
    starts: list[int] = []
    limits: list[int] = []
    strides: list[int] = []
    flipped: list[int] = []
    shape: list[int] = []
    axes: list[int] = []
    arrays: list[Any] = []
    axis = 0
    for k in keys:
        if k is None:
            shape.append(1)
            continue
        size = x.type.shape[axis]
        if isinstance(k, slice):
            start, limit, stride, backwards = _slice_parts(k, size)
            if backwards:
                flipped.append(axis)
            shape.append(len(range(start, limit, stride)))
        elif _is_integer(k):
            start, stride = _position(x, int(k), axis), 1
            limit = start + 1
        else:
            axes.append(len(shape))
            arrays.append(k)
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
    return reshape(x, tuple(shape)), axes, arrays


def _position(x: Any, position: int, axis: int) -> int:
    size = x.type.shape[axis]
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
    return position % size


def _place(keys: list[Any]) -> int:
    """Where the axes of the index arrays go: to the first of them, or in front when a slice or None parts them.

    Beside an index array, integers count as index arrays too, as in NumPy.
    """
    pointed = [not (k is None or isinstance(k, slice)) for k in keys]
    first = pointed.index(True)
    last = len(pointed) - 1 - pointed[::-1].index(True)
    return first if all(pointed[first : last + 1]) else 0


def getitem(x: Any, key: Any, mode: Mode | None = None) -> Any:
    """What `x[key]` means: integers, slices, None, Ellipsis, index arrays that broadcast, and boolean masks.

    Known positions out of range raise OutOfRangeError (an IndexError); traced ones wrap where negative and then follow
    `mode`, as those of eager arrays do when one is given. A mask needs known numbers: in a trace it is refused.
    """
    x = tensor(x)
    keys = _expanded(x, key, mode)
    if any([isinstance(k, np.ndarray) and k.dtype == np.bool_ for k in keys]):  # a mask without axes
        return _scalar_masks(x, keys, mode)
    x, axes, arrays = _static(x, keys)
    return take_points(x, tuple(axes), tuple(arrays), _place(keys), mode) if arrays else x


def _scalar_masks(x: Any, keys: list[Any], mode: Mode | None) -> Any:
    """A mask without axes adds an axis of one entry, or of none."""
    chosen = True
    made: list[Any] = []
    for k in keys:
        if isinstance(k, np.ndarray) and k.dtype == np.bool_:
            chosen = chosen and bool(k)
            made += [] if any([each is None for each in made]) else [None]
        else:
            made.append(k)
    found = getitem(x, tuple(made), mode)
    return found if chosen else getitem(found, (slice(0, 0),))
