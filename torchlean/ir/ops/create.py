"""Ops with no operands: constant, full, iota."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import DType, as_dtype
from torchlean.ir.literal import CONSTANT, Literal
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.rules import NoTangent, Pointwise
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record


@record
class Fill:
    """`bits`: the entry as the unsigned integer of its bit pattern, so that -0.0 is not 0.0 and NaN equals itself."""

    shape: Shape
    dtype: DType
    bits: int

    @staticmethod
    def of(shape: Shape, dtype: DType, value: Any) -> Fill:
        entry = np.array(value).astype(dtype.carrier)
        return Fill(shape, dtype, int(entry.view(np.dtype(f"u{entry.itemsize}"))))

    @property
    def entry(self) -> np.ndarray[Any, Any]:
        """The value as a 0-d array."""
        carrier = self.dtype.carrier
        return np.array(self.bits, dtype=f"u{carrier.itemsize}").view(carrier)


def _require_sizes(shape: Shape) -> None:
    if any(size < 0 for size in shape):
        raise TypeFault(
            "the shape has a negative size", expected="sizes ≥ 0", got=str(list(shape)), fix="check the shape"
        )


def _full_type(params: Fill) -> tuple[TensorType, ...]:
    _require_sizes(params.shape)
    if params.bits >> params.dtype.width:
        raise TypeFault(
            f"the bits are not those of a {params.dtype.short}",
            expected=f"an integer in [0, 2**{params.dtype.width})",
            got=str(params.bits),
            fix="make the parameters with Fill.of(shape, dtype, value)",
        )
    return (TensorType(params.shape, params.dtype),)


FULL = Op(
    name="full",
    params=Fill,
    type_rule=_full_type,
    denote=lambda algebra, params: (algebra.constant(np.full(params.shape, params.entry)),),
    diff=NoTangent("a constant depends on nothing"),
    batch=Pointwise(),
    reduces=False,
    doc="A tensor whose entries are one number.",
)


@record
class Iota:
    """`axis`: the axis along which the entries count 0, 1, 2, …"""

    shape: Shape
    dtype: DType
    axis: int


def _iota_type(params: Iota) -> tuple[TensorType, ...]:
    _require_sizes(params.shape)
    if params.dtype.is_bool or not 0 <= params.axis < len(params.shape):
        raise TypeFault(
            "the axis or dtype is out of range",
            expected=f"an axis in [0, {len(params.shape)}) and a number dtype",
            got=f"axis {params.axis}, {params.dtype.short}",
            fix="count along an existing axis",
        )
    return (TensorType(params.shape, params.dtype),)


def _iota_value(algebra: Any, params: Iota) -> tuple[Any, ...]:
    count = np.arange(params.shape[params.axis]).astype(params.dtype.carrier)
    column = count.reshape([-1 if axis == params.axis else 1 for axis in range(len(params.shape))])
    return (algebra.constant(np.ascontiguousarray(np.broadcast_to(column, params.shape))),)


IOTA = Op(
    name="iota",
    params=Iota,
    type_rule=_iota_type,
    denote=_iota_value,
    diff=NoTangent("a constant depends on nothing"),
    batch=Pointwise(),
    reduces=False,
    doc="Entries count up along one axis.",
)


def constant(array: Any) -> Any:
    """The given array as a tensor; its dtype is kept (a Python float is float32, an int int32)."""
    return bind1(CONSTANT, Literal(array if isinstance(array, np.ndarray | np.generic) else _as_array(array)))


def _as_array(data: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(data)
    if isinstance(data, bool | int | float | list | tuple):
        if array.dtype == np.float64:
            return array.astype(np.float32)
        if array.dtype == np.int64 and (array.size == 0 or (array.min() >= -(2**31) and array.max() < 2**31)):
            return array.astype(np.int32)
    return array


def full(shape: Shape, value: bool | int | float, dtype: Any = None) -> Any:
    """A tensor of `shape` whose entries are `value`; dtype defaults to float32, int32 or bool by the Python type."""
    if dtype is None:
        dtype = DType.BOOL if isinstance(value, bool) else DType.I32 if isinstance(value, int) else DType.F32
    return bind1(FULL, Fill.of(tuple(shape), as_dtype(dtype), value))


def full_like(x: Any, value: bool | int | float) -> Any:
    """A tensor of the type of `x` whose entries are `value`."""
    like = type_of(x)
    return bind1(FULL, Fill.of(like.shape, like.dtype, value))


def zeros_of(type: TensorType) -> Any:
    """Zeros of a type."""
    return bind1(FULL, Fill(type.shape, type.dtype, 0))


def iota(shape: Shape, axis: int = 0, dtype: Any = DType.I32) -> Any:
    """0, 1, 2, … along `axis`."""
    return bind1(IOTA, Iota(tuple(shape), as_dtype(dtype), axis))


OPS = (CONSTANT, FULL, IOTA)
