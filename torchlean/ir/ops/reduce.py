"""Extremes along axes: reduce_max, reduce_min, argmax, argmin.

Entries that tie for the extreme share its derivative evenly, forward and reverse alike. NaN is every extreme: it
propagates, and argmax and argmin point at the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.op import NO_PARAMS, Op, TypeFault
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.elementwise import CONVERT, DIV, EQ, LOGICAL_OR, NE, SELECT, Target
from torchlean.ir.ops.families import NUMBERS, apply1, kind_fault
from torchlean.ir.ops.spread import REDUCE_SUM, Axes, check_axes, shift_axes, spread_along
from torchlean.ir.rules import Custom, NoTangent, Rule
from torchlean.ir.types import TensorType, drop_axes
from torchlean.record import record


def _empty_fault(axes: tuple[int, ...], x: TensorType) -> TypeFault:
    return TypeFault(
        "no entry to choose from",
        expected=f"at least one entry along axes {list(axes)}",
        got=str(x),
        fix="check for an empty axis; ops.pad can add an entry to stand for it",
    )


def _extreme_type(params: Axes, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.kind not in NUMBERS:
        raise kind_fault(x.dtype, NUMBERS)
    check_axes(params.axes, x)
    if any(x.shape[axis] == 0 for axis in params.axes):
        raise _empty_fault(params.axes, x)
    return (TensorType(drop_axes(x.shape, params.axes), x.dtype),)


def _winners(params: Axes, x: Any, y: Any) -> tuple[Any, Any]:
    """Which entries are the extreme (where it is NaN: the NaNs), and how many there are, in the dtype of shares.

    The count is an integer sum, so it is exact for any number of ties, and a share is a float32 at least, so that many
    ties of 16-bit numbers do not overflow it.
    """
    equal = apply1(EQ, x, spread_along(y, type_of(x).shape, params.axes))
    here = apply1(LOGICAL_OR, equal, apply1(NE, x, x))
    count = bind1(REDUCE_SUM, params, bind1(CONVERT, Target(DType.I32), here))
    return here, bind1(CONVERT, Target(_share_dtype(x)), count)


def _share_dtype(x: Any) -> DType:
    dtype = type_of(x).dtype
    return DType.F32 if dtype.width < 32 else dtype


def _as(x: Any, dtype: DType) -> Any:
    return x if type_of(x).dtype is dtype else bind1(CONVERT, Target(dtype), x)


def _extreme_jvp(params: Axes, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    (x,), (y,), (tangent,) = primals, outputs, tangents
    if tangent is None:
        return (None,)
    here, count = _winners(params, x, y)
    kept = bind1(SELECT, NO_PARAMS, here, tangent, zeros_of(type_of(x)))
    total = bind1(REDUCE_SUM, params, _as(kept, _share_dtype(x)))
    return (_as(apply1(DIV, total, count), type_of(x).dtype),)


def _extreme_vjp(params: Axes, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    (x,), (y,), (ct,) = primals, outputs, cotangents
    here, count = _winners(params, x, y)
    share = _as(apply1(DIV, _as(ct, _share_dtype(x)), count), type_of(x).dtype)
    share = spread_along(share, type_of(x).shape, params.axes)
    return (bind1(SELECT, NO_PARAMS, here, share, zeros_of(type_of(x))),)


REDUCE_MAX = Op(
    name="reduce_max",
    params=Axes,
    type_rule=_extreme_type,
    denote=lambda algebra, params, x: (algebra.extreme(x, params.axes, True),),
    diff=Custom(jvp=_extreme_jvp, vjp=_extreme_vjp),
    batch=Rule(lambda params, size, operands, mapped: (bind1(REDUCE_MAX, Axes(shift_axes(params.axes)), operands[0]),)),
    reduces=False,
    doc="Largest entry over `axes`; NaN if any is NaN, of equal zeros the first. Ties share the derivative evenly.",
)
REDUCE_MIN = Op(
    name="reduce_min",
    params=Axes,
    type_rule=_extreme_type,
    denote=lambda algebra, params, x: (algebra.extreme(x, params.axes, False),),
    diff=Custom(jvp=_extreme_jvp, vjp=_extreme_vjp),
    batch=Rule(lambda params, size, operands, mapped: (bind1(REDUCE_MIN, Axes(shift_axes(params.axes)), operands[0]),)),
    reduces=False,
    doc="Smallest entry over `axes`; NaN if any is NaN, of equal zeros the first. Ties share the derivative evenly.",
)


@record
class ArgAxis:
    """`axis`: the axis searched; `dtype`: the integer dtype of the result."""

    axis: int
    dtype: DType = DType.I32


def _position_type(params: ArgAxis, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.kind not in NUMBERS:
        raise kind_fault(x.dtype, NUMBERS)
    check_axes((params.axis,), x)
    size = x.shape[params.axis]
    if size == 0:
        raise _empty_fault((params.axis,), x)
    if not params.dtype.is_integer or size - 1 > np.iinfo(params.dtype.carrier).max:
        raise TypeFault(
            f"{params.dtype.short} cannot number the positions of axis {params.axis}",
            expected=f"an integer dtype that holds {size - 1}",
            got=params.dtype.short,
            fix="use i32 or i64",
        )
    return (TensorType(drop_axes(x.shape, (params.axis,)), params.dtype),)


def _position_value(relation: str) -> Callable[..., tuple[Any, ...]]:
    """A left fold that moves on only to a strictly better entry, or to the first NaN."""

    def value(algebra: Any, params: ArgAxis, x: Any) -> tuple[Any, ...]:
        def entry(k: int) -> Any:
            return algebra.shape(lambda v: np.take(v, k, axis=params.axis), x)

        best = entry(0)
        position = algebra.constant(np.zeros(np.shape(best), dtype=params.dtype.carrier))
        for k in range(1, np.shape(x)[params.axis]):
            best, position = better(algebra, best, entry(k), position, k)
        return (position,)

    def better(algebra: Any, best: Any, new: Any, position: Any, k: int) -> tuple[Any, Any]:
        wins = algebra.compare(relation, new, best)
        new_nan, best_nan = algebra.compare("ne", new, new), algebra.compare("ne", best, best)
        chosen = algebra.exact(lambda w, n, b: (w | n) & ~b, wins, new_nan, best_nan)
        moved = algebra.exact(lambda c, p: np.where(c, p.dtype.type(k), p), chosen, position)
        return algebra.select(chosen, new, best), moved

    return value


ARGMAX = Op(
    name="argmax",
    params=ArgAxis,
    type_rule=_position_type,
    denote=_position_value("gt"),
    diff=NoTangent("a position is locally constant"),
    batch=Rule(
        lambda params, size, operands, mapped: (bind1(ARGMAX, ArgAxis(params.axis + 1, params.dtype), operands[0]),)
    ),
    reduces=False,
    doc="Position of the first largest entry along an axis; of the first NaN if there is one.",
)
ARGMIN = Op(
    name="argmin",
    params=ArgAxis,
    type_rule=_position_type,
    denote=_position_value("lt"),
    diff=NoTangent("a position is locally constant"),
    batch=Rule(
        lambda params, size, operands, mapped: (bind1(ARGMIN, ArgAxis(params.axis + 1, params.dtype), operands[0]),)
    ),
    reduces=False,
    doc="Position of the first smallest entry along an axis; of the first NaN if there is one.",
)

OPS = (REDUCE_MAX, REDUCE_MIN, ARGMAX, ARGMIN)
