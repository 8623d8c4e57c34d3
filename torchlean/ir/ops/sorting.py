"""Stable sorting of several operands together.

The order is total: numbers ascend (descend), -0.0 equals 0.0, NaN is the largest, and equal keys keep their order. The
derivative is that of the permutation; where keys are equal it is that of the order they came in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind, bind1, type_of
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.ops.create import IOTA, Iota
from torchlean.ir.ops.cut import leading, move_axis
from torchlean.ir.ops.families import kind_fault
from torchlean.ir.ops.gather import GATHER, Along, Mode
from torchlean.ir.rules import Custom, Rule
from torchlean.ir.types import TensorType, show_types
from torchlean.record import record

_KEYS = frozenset({Kind.BOOL, Kind.SIGNED, Kind.UNSIGNED, Kind.FLOAT, Kind.STORAGE})


@record
class Sorting:
    """`axis`: sorted along; `keys`: how many leading operands decide, the first foremost; `descending`: the largest
    first (NaN before all), equal keys still in the order they came in."""

    axis: int
    keys: int
    descending: bool


def _sort_type(params: Sorting, *types: TensorType) -> tuple[TensorType, ...]:
    if not 1 <= params.keys <= len(types):
        raise TypeFault(
            f"{params.keys} of {len(types)} operands cannot be keys",
            expected=f"a number of keys in [1, {len(types)}]",
            got=str(params.keys),
            fix="pass the keys first, then what is sorted with them",
        )
    first = types[0]
    for type in types[: params.keys]:
        if type.dtype.kind not in _KEYS:
            raise kind_fault(type.dtype, _KEYS)
    if any(type.shape != first.shape for type in types):
        raise TypeFault(
            "the operands differ in shape",
            expected=f"operands of shape {list(first.shape)}",
            got=show_types(types),
            fix="broadcast them first (ops.broadcast_to)",
        )
    if not 0 <= params.axis < first.rank:
        raise TypeFault(
            f"there is no axis {params.axis} to sort along",
            expected=f"an axis in [0, {first.rank})",
            got=str(params.axis),
            fix="name an existing axis",
        )
    return types


def _sort_value(algebra: Any, params: Sorting, *xs: Any) -> tuple[Any, ...]:
    """Descending is the ascending order of the reversed axis, reversed: equal keys come back to their order."""
    axis = params.axis
    keys = xs[: params.keys]
    if params.descending:
        keys = tuple([algebra.shape(lambda v: np.flip(v, axis), key) for key in keys])
    order = algebra.order(keys, axis)
    if params.descending:
        order = np.flip(np.shape(xs[0])[axis] - 1 - order, axis)
    return tuple([algebra.shape(lambda v: np.take_along_axis(v, order, axis), x) for x in xs])


def _sort_jvp(params: Sorting, primals: Any, tangents: Any, outputs: Any) -> list[Any]:
    """Every tangent moves as its operand did; the positions are found by sorting them along."""
    shape = type_of(primals[0]).shape
    positions = bind1(IOTA, Iota(shape, DType.I32 if shape[params.axis] < 2**31 else DType.I64, params.axis))
    order = bind(SORT, params, *primals, positions)[-1]
    last = len(shape) - 1

    def moved(tangent: Any) -> Any:
        inner = [move_axis(x, params.axis, last) for x in (tangent, order)]
        return move_axis(bind1(GATHER, Along(last, last, Mode.FILL), *inner), last, params.axis)

    return [None if tangent is None else moved(tangent) for tangent in tangents]


def _sort_batch(params: Sorting, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    spread = [leading(x, size, here) for x, here in zip(operands, mapped, strict=True)]
    return bind(SORT, Sorting(params.axis + 1, params.keys, params.descending), *spread)


SORT = Op(
    name="sort",
    params=Sorting,
    type_rule=_sort_type,
    denote=_sort_value,
    diff=Custom(jvp=_sort_jvp),
    batch=Rule(_sort_batch),
    reduces=False,
    doc="Sort operands together along an axis by the first of them: stable, NaN largest, -0.0 equal to 0.0.",
)

OPS = (SORT,)
