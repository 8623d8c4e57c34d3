"""Index arrays: reading several axes at positions that tensors name, as NumPy's advanced indexing.

Known positions are checked and negative ones wrap, as Python's do; traced ones wrap where they are negative and follow
a `Mode` where they lie outside even then.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.errors import OutOfRangeError, TypeRuleError, message, shown
from torchlean.ir.builder import Value, type_of
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.ops import functions as f
from torchlean.ir.ops.create import full
from torchlean.ir.ops.elementwise import convert
from torchlean.ir.ops.gather import Mode
from torchlean.ir.ops.index import known_indices, take
from torchlean.ir.ops.promote import tensor
from torchlean.ir.ops.shaping import broadcast_to, reshape, transpose
from torchlean.ir.types import TensorType, broadcast_shapes


def index_mode(name: str, mode: str | Mode | None) -> Mode:
    """The `Mode` that a name of JAX's and NumPy's stands for; "fill" when there is none."""
    if isinstance(mode, Mode):
        return mode
    if mode in (None, "fill", "drop", "promise_in_bounds"):
        return Mode.FILL
    if mode == "clip":
        return Mode.CLIP
    raise TypeRuleError(
        message(
            f"{name}: there is no mode {shown(mode)}",
            expected="'fill', 'clip', 'drop' or 'promise_in_bounds'",
            got=shown(mode),
            fix="use one of those listed",
            where=str(caller_location()),
        )
    )


def kind_of(indices: Any) -> Kind | None:
    """The kind of an index array or list; None for what is neither. An empty list counts as integers."""
    if isinstance(indices, Operators):
        return indices.type.dtype.kind
    try:
        array = np.asarray(indices)
    except ValueError:
        return None
    if array.size == 0 and isinstance(indices, list):
        return Kind.SIGNED
    return type_of(array).dtype.kind if array.dtype.kind in "biufc" else None


def settled(indices: Any, mode: Mode | None) -> Any:
    """Index arrays whose numbers are known as NumPy arrays, traced ones as they are.

    Where a mode was asked for, eager arrays stay too: they then follow it, as traced ones do.
    """
    if isinstance(indices, Value) or (mode is not None and isinstance(indices, Operators)):
        return indices
    array = np.asarray(indices)
    return array.astype(np.int32) if array.size == 0 and not isinstance(indices, Operators | np.ndarray) else array


def mask_positions(x: TensorType, mask: Any, axis: int) -> tuple[np.ndarray[Any, Any], ...]:
    """The positions of the true entries of a known mask that covers axes of `x` from `axis` on, one vector per axis.

    As in NumPy a mask without entries fits any sizes.
    """
    covered = x.shape[axis : axis + mask.ndim]
    if len(mask.shape) != len(covered) or any(
        [n not in (size, 0) for n, size in zip(mask.shape, covered, strict=True)]
    ):
        raise OutOfRangeError(
            message(
                f"indexing {x} with a boolean mask of shape {list(mask.shape)}",
                expected=f"a mask of shape {list(covered)}, as axes {axis} and on",
                got=str(list(mask.shape)),
                fix="broadcast the mask to the axes it selects from",
                where=str(caller_location()),
            )
        )
    return tuple([np.asarray(found, dtype=np.int32) for found in np.nonzero(mask)])


def wrapped_indices(indices: Any, size: int) -> Any:
    """Traced positions with negative ones counted from the end, in a dtype that holds them; known ones unchanged."""
    if not isinstance(indices, Operators):
        return indices
    dtype = indices.type.dtype
    if not dtype.is_integer:
        return indices  # the type rule says why not
    if dtype is DType.U64:
        indices = convert(f.min(indices, 2**63 - 1), DType.I64)
    elif dtype.width < 32 or dtype is DType.U32:
        indices = convert(indices, DType.I64 if dtype is DType.U32 else DType.I32)
    if dtype.kind is Kind.UNSIGNED:
        return indices
    if size >= 2**31 and indices.type.dtype is DType.I32:
        indices = convert(indices, DType.I64)
    return f.select(f.lt(indices, 0), f.add(indices, size), indices)


def take_at(x: Any, indices: Any, axis: int, mode: Mode | None = None) -> Any:
    """`take` of one index array, known or traced; without a mode, a known position outside is refused."""
    found = wrapped_indices(settled(indices, mode), type_of(x).shape[axis])
    return take(x, found, axis, mode or Mode.FILL)


def take_points(x: Any, axes: tuple[int, ...], arrays: tuple[Any, ...], place: int, mode: Mode | None) -> Any:
    """Entries at points: index arrays, which broadcast, one for each of the axes; their axes go to `place`."""
    if len(axes) == 1:
        found, lead = take_at(x, arrays[0], axes[0], mode), axes[0]
        count = len(type_of(arrays[0]).shape) if isinstance(arrays[0], Operators) else np.ndim(arrays[0])
    else:
        rest = [a for a in range(x.type.rank) if a not in axes]
        sizes = tuple([x.type.shape[a] for a in axes])
        x = transpose(x, (*axes, *rest))
        flat = reshape(x, (prod(sizes), *x.type.shape[len(axes) :]))
        positions = _row_major(x, arrays, sizes, mode)
        found, lead, count = take(flat, positions, 0), 0, len(type_of(positions).shape)
    if lead == place:
        return found
    order = list(range(found.type.rank))
    block = order[lead : lead + count]
    rest = order[:lead] + order[lead + count :]
    return transpose(found, (*rest[:place], *block, *rest[place:]))


def _row_major(x: Any, arrays: tuple[Any, ...], sizes: tuple[int, ...], mode: Mode | None) -> Any:
    """Points as positions in the flattened axes; -1 where one of their indices lies outside."""
    known = [settled(each, mode) for each in arrays]
    shape = broadcast_shapes(*[type_of(each).shape for each in known])
    if shape is None:
        raise OutOfRangeError(
            message(
                f"indexing {x.type} with {len(arrays)} index arrays whose shapes do not broadcast",
                expected="sizes that are equal or 1, aligned at the last axis",
                got=", ".join([str(list(type_of(each).shape)) for each in known]),
                fix="reshape the index arrays, e.g. with [:, None]",
                where=str(caller_location()),
            )
        )
    wide = DType.I64 if prod(sizes) >= 2**31 else DType.I32
    if all([not isinstance(each, Operators) for each in known]):
        total = np.zeros(shape, dtype=np.int64)
        for axis, (each, size) in enumerate(zip(known, sizes, strict=True)):
            total = total * size + known_indices("indexing", x, each, axis)
        return total.astype(wide.carrier)
    position: Any = None
    inside: Any = None
    for axis, (each, size) in enumerate(zip(known, sizes, strict=True)):
        traced = isinstance(each, Operators)
        index = wrapped_indices(each, size) if traced else tensor(known_indices("indexing", x, each, axis))
        if mode is Mode.CLIP:
            index = f.min(f.max(index, 0), max(size - 1, 0))
        elif traced:
            here = f.logical_and(f.ge(index, 0), f.lt(index, size))
            inside = here if inside is None else f.logical_and(inside, here)
            index = f.min(f.max(index, 0), max(size - 1, 0))
        index = convert(index, wide)
        position = index if position is None else f.add(f.mul(position, size), index)
    position = broadcast_to(position, shape)
    return position if inside is None else f.select(inside, position, full((), -1, wide))
