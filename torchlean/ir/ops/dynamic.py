"""Windows whose position is known only at run time: dynamic_slice and dynamic_update_slice.

A start outside the operand is clamped, so that the window of the stated size lies inside it (as in JAX).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.op import NO_PARAMS, NoParams, Op, TypeFault
from torchlean.ir.ops.create import FULL, IOTA, Fill, Iota, zeros_of
from torchlean.ir.ops.cut import CONCATENATE, SLICE, Joined, Strided, leading
from torchlean.ir.ops.elementwise import ADD, CLAMP, CONVERT, GE, LOGICAL_AND, LT, SELECT, SUB, Target
from torchlean.ir.ops.families import apply1, kind_fault
from torchlean.ir.ops.gather import GATHER, INTEGERS, Along, Mode
from torchlean.ir.ops.layout import RESHAPE, NewShape
from torchlean.ir.ops.spread import BROADCAST, Spread
from torchlean.ir.rules import Linear, Rule
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record


@record
class Sizes:
    """`sizes`: the shape of the window."""

    sizes: Shape


def _require_starts(x: TensorType, starts: TensorType) -> None:
    if starts.dtype.kind not in INTEGERS:
        raise kind_fault(starts.dtype, INTEGERS)
    if starts.shape != (x.rank,):
        raise TypeFault(
            "the starts do not match the operand",
            expected=f"one start per axis: integers of shape [{x.rank}]",
            got=str(starts),
            fix="stack one integer per axis",
        )


def _fits(x: TensorType, sizes: Shape) -> None:
    if len(sizes) != x.rank or any(not 0 <= size <= have for size, have in zip(sizes, x.shape, strict=False)):
        raise TypeFault(
            "the window does not fit the operand",
            expected=f"one size per axis of {x}, none larger than the axis",
            got=str(list(sizes)),
            fix="make the window smaller",
        )


def window_at(starts: Any, sizes: Shape, shape: Shape) -> tuple[slice, ...]:
    """The window as slices, each start clamped."""
    clamped = [min(max(int(s), 0), have - size) for s, size, have in zip(starts, sizes, shape, strict=True)]
    return tuple([slice(at, at + size) for at, size in zip(clamped, sizes, strict=True)])


def _slice_type(params: Sizes, x: TensorType, starts: TensorType) -> tuple[TensorType, ...]:
    _require_starts(x, starts)
    _fits(x, params.sizes)
    return (TensorType(params.sizes, x.dtype),)


def _update_type(params: NoParams, x: TensorType, update: TensorType, starts: TensorType) -> tuple[TensorType, ...]:
    _require_starts(x, starts)
    if update.dtype is not x.dtype:
        raise TypeFault(
            "the update has another dtype",
            expected=f"an update of dtype {x.dtype.short}",
            got=str(update),
            fix="convert the update (ops.convert)",
        )
    _fits(x, update.shape)
    return (x,)


def _slice_value(algebra: Any, params: Sizes, x: Any, starts: Any) -> tuple[Any, ...]:
    return (algebra.shape(lambda v, s: v[window_at(s, params.sizes, v.shape)], x, starts),)


def _put(v: Any, u: Any, starts: Any) -> Any:
    made = np.array(v, copy=True)
    made[window_at(starts, u.shape, v.shape)] = u
    return made


# -- batching: when the starts are mapped, axis after axis is gathered -------------------------------------------------
def _clamped_starts(starts: Any, shape: Shape, sizes: Shape) -> Any:
    """Starts i64[size, rank] inside their axes."""
    wide = starts if type_of(starts).dtype is DType.I64 else bind1(CONVERT, Target(DType.I64), starts)
    low = zeros_of(type_of(wide))
    room = np.array([have - size for have, size in zip(shape, sizes, strict=True)], dtype=np.int64)
    high = bind1(BROADCAST, Spread(type_of(wide).shape, (1,)), room)
    return bind1(CLAMP, NO_PARAMS, low, wide, high)


def _column(starts: Any, axis: int, count: int) -> Any:
    """The starts of one axis, i64[size, count]."""
    size = type_of(starts).shape[0]
    one = bind1(SLICE, Strided((0, axis), (size, axis + 1), (1, 1)), starts)
    return bind1(BROADCAST, Spread((size, count), (0,)), bind1(RESHAPE, NewShape((size,)), one))


def _slice_batch(params: Sizes, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    x, starts = operands
    if not mapped[1]:
        zero = bind1(FULL, Fill.of((1,), type_of(starts).dtype, 0))
        return (bind1(DYNAMIC_SLICE, Sizes((size, *params.sizes)), x, bind1(CONCATENATE, Joined(0), zero, starts)),)
    made = leading(x, size, mapped[0])
    starts = _clamped_starts(starts, type_of(made).shape[1:], params.sizes)
    for axis, count in enumerate(params.sizes):
        counted = bind1(IOTA, Iota((size, count), DType.I64, 1))
        positions = apply1(ADD, _column(starts, axis, count), counted)
        made = bind1(GATHER, Along(axis + 1, 1, Mode.FILL), made, positions)
    return (made,)


def _update_batch(params: NoParams, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    x, update, starts = operands
    x, update = leading(x, size, mapped[0]), leading(update, size, mapped[1])
    if not mapped[2]:
        zero = bind1(FULL, Fill.of((1,), type_of(starts).dtype, 0))
        joined = bind1(CONCATENATE, Joined(0), zero, starts)
        return (bind1(DYNAMIC_UPDATE_SLICE, NO_PARAMS, x, update, joined),)
    shape, sizes = type_of(x).shape, type_of(update).shape[1:]
    starts = _clamped_starts(starts, shape[1:], sizes)
    inside: Any = bind1(FULL, Fill.of(shape, DType.BOOL, True))
    for axis, count in enumerate(sizes):
        have = shape[axis + 1]
        places = apply1(SUB, bind1(IOTA, Iota((size, have), DType.I64, 1)), _column(starts, axis, have))
        update = bind1(GATHER, Along(axis + 1, 1, Mode.FILL), update, places)
        low = apply1(GE, places, zeros_of(type_of(places)))
        high = apply1(LT, places, bind1(FULL, Fill.of((size, have), DType.I64, count)))
        here = bind1(BROADCAST, Spread(shape, (0, axis + 1)), apply1(LOGICAL_AND, low, high))
        inside = apply1(LOGICAL_AND, inside, here)
    return (bind1(SELECT, NO_PARAMS, inside, update, x),)


def _update_transpose(params: NoParams, ct: Any, x: Any, update: Any, starts: Any) -> tuple[Any, ...]:
    hole = zeros_of(type_of(update))
    return (
        bind1(DYNAMIC_UPDATE_SLICE, NO_PARAMS, ct, hole, starts),
        bind1(DYNAMIC_SLICE, Sizes(type_of(update).shape), ct, starts),
        None,
    )


DYNAMIC_SLICE = Op(
    name="dynamic_slice",
    params=Sizes,
    type_rule=_slice_type,
    denote=_slice_value,
    diff=Linear(
        transpose=lambda params, ct, x, starts: (
            bind1(DYNAMIC_UPDATE_SLICE, NO_PARAMS, zeros_of(type_of(x)), ct, starts),
            None,
        ),
        wrt=(0,),
    ),
    batch=Rule(_slice_batch),
    reduces=False,
    doc="The window of the stated size that begins at run-time positions, clamped to lie inside.",
)
DYNAMIC_UPDATE_SLICE = Op(
    name="dynamic_update_slice",
    params=NoParams,
    type_rule=_update_type,
    denote=lambda algebra, params, x, update, starts: (algebra.shape(_put, x, update, starts),),
    diff=Linear(transpose=_update_transpose, wrt=(0, 1)),
    batch=Rule(_update_batch),
    reduces=False,
    doc="The operand with a window at run-time positions, clamped to lie inside, replaced.",
)

OPS = (DYNAMIC_SLICE, DYNAMIC_UPDATE_SLICE)
