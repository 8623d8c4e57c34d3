"""Positions of extremes and of entries that differ from 0. What has a data-dependent size needs known numbers."""

from __future__ import annotations

from math import prod
from typing import Any

from torchlean.ir import ops
from torchlean.numpy.comparison import truth
from torchlean.numpy.operands import axis_of, operand, refuse_traced, refused, require_known_below
from torchlean.numpy.reductions import sum as sum_over

__all__ = [
    "argmax",
    "argmin",
    "argwhere",
    "flatnonzero",
    "nonzero",
    "ravel_multi_index",
    "unravel_index",
]


def argmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The position (int32) of the first largest entry; of the first NaN, if there is one."""
    return _position("argmax", ops.argmax, x, axis, keepdims)


def argmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The position (int32) of the first smallest entry; of the first NaN, if there is one."""
    return _position("argmin", ops.argmin, x, axis, keepdims)


def _position(name: str, fold: Any, x: Any, axis: int | None, keepdims: bool) -> Any:
    x = operand(name, x)
    type = x.type
    if type.dtype.is_bool:
        x = ops.convert(x, "u8")
    if axis is None:
        found = fold(ops.reshape(x, (type.size,)), 0)
        return ops.reshape(found, (1,) * type.rank) if keepdims else found
    at = axis_of(name, axis, type.rank)
    found = fold(x, at)
    return ops.expand_dims(found, at) if keepdims else found


def true_positions(name: str, x: Any, fix: str) -> Any:
    """Row-major positions (int32) of the true entries of an eager array: they are counted, then sorted to the front."""
    flat = truth(name, x)
    refuse_traced(name, fix, flat)
    flat = ops.reshape(flat, (flat.type.size,))
    count = int(sum_over(flat))
    return ops.argsort(ops.convert(ops.logical_not(flat), "u8"), axis=0)[:count]


def unraveled(positions: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Positions in row-major order as one index per axis."""
    made: list[Any] = []
    for axis, size in enumerate(shape):
        stride = prod(shape[axis + 1 :])
        along = positions if stride == 1 else ops.floor_divide(positions, max(stride, 1))
        made.append(along if axis == 0 else ops.remainder(along, max(size, 1)))
    return tuple(made)


_MASK = "use tnp.where(condition, x, fill), or tnp.nonzero(x) outside the trace"


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """Positions of the entries that differ from 0, one int32 vector per axis. Refused in a trace."""
    x = operand("nonzero", x)
    if not x.type.rank:
        raise refused("nonzero of a scalar", expected="at least one axis", got=str(x.type), fix="use tnp.atleast_1d")
    return unraveled(true_positions("nonzero", x, _MASK), x.type.shape)


def argwhere(x: Any) -> Any:
    """Positions of the entries that differ from 0, one row each. Refused in a trace."""
    x = operand("argwhere", x)
    if not x.type.rank:
        return ops.full((int(truth("argwhere", x)), 0), 0, "i32")
    return ops.stack(list(nonzero(x)), 1)


def flatnonzero(x: Any) -> Any:
    """Positions in the flattened array of the entries that differ from 0. Refused in a trace."""
    return true_positions("flatnonzero", operand("flatnonzero", x), _MASK)


def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Row-major positions as one index per axis. Known ones out of range raise OutOfRangeError."""
    from torchlean.numpy.operands import sizes

    shape = sizes("unravel_index", shape)
    require_known_below("unravel_index", indices, prod(shape), "positions")
    return unraveled(operand("unravel_index", indices), shape)


def ravel_multi_index(multi_index: Any, dims: Any) -> Any:
    """One index per axis as row-major positions. Known ones out of range raise OutOfRangeError."""
    if len(multi_index) != len(dims):
        raise refused(
            f"ravel_multi_index of {len(multi_index)} indices in {len(dims)} axes",
            expected="one index per axis",
            got=str(len(multi_index)),
            fix="pair them",
        )
    total: Any = None
    for axis, index in enumerate(multi_index):
        require_known_below("ravel_multi_index", index, dims[axis], f"positions along axis {axis}")
        part = ops.mul(operand("ravel_multi_index", index), prod(dims[axis + 1 :]))
        total = part if total is None else ops.add(total, part)
    return total
