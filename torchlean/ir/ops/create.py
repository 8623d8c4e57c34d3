"""Ops with no operands: constant, full, iota."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from torchlean.errors import TraceError, TypeRuleError, message, shown
from torchlean.ir.builder import bind1, is_python_number, no_operand, type_of
from torchlean.ir.carriers import convert as convert_array
from torchlean.ir.dtypes import DType, as_dtype
from torchlean.ir.literal import CONSTANT, Literal
from torchlean.ir.location import caller_location
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.rules import NoTangent, Pointwise
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record


@record
class Fill:
    """`bits`: the entry as the unsigned integer of its bit pattern, so that -0.0 is not 0.0 and NaN equals itself.

    A complex entry has the bits of its imaginary part above those of its real part.
    """

    shape: Shape
    dtype: DType
    bits: int

    @staticmethod
    def of(shape: Shape, dtype: DType, value: Any) -> Fill:
        entry = convert_array(np.array(value), dtype.carrier)
        if dtype.is_complex:
            real, imag = (int(part.view(f"u{part.itemsize}")) for part in (entry.real, entry.imag))
            return Fill(shape, dtype, real | imag << dtype.width // 2)
        return Fill(shape, dtype, int(entry.view(np.dtype(f"u{entry.itemsize}"))))

    @property
    def entry(self) -> np.ndarray[Any, Any]:
        """The value as a 0-d array."""
        carrier = self.dtype.carrier
        if self.dtype.is_complex:
            half = self.dtype.width // 2
            parts = np.array([self.bits & ((1 << half) - 1), self.bits >> half], dtype=f"u{half // 8}")
            return parts.view(carrier).reshape(())
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
    if params.dtype.is_bool or params.dtype.is_storage or not 0 <= params.axis < len(params.shape):
        raise TypeFault(
            "the axis or dtype is out of range",
            expected=f"an axis in [0, {len(params.shape)}) and a number dtype",
            got=f"axis {params.axis}, {params.dtype.short}",
            fix="count along an existing axis",
        )
    last = params.shape[params.axis] - 1
    if params.dtype.is_integer and last > np.iinfo(params.dtype.carrier).max:
        raise TypeFault(
            f"the last entry, {last}, does not fit",
            expected=f"at most {np.iinfo(params.dtype.carrier).max + 1} entries of {params.dtype.short}",
            got=f"{last + 1} entries",
            fix="count in a wider dtype",
        )
    return (TensorType(params.shape, params.dtype),)


def _iota_value(algebra: Any, params: Iota) -> tuple[Any, ...]:
    count = convert_array(np.arange(params.shape[params.axis]), params.dtype.carrier)
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
    """The given array as a tensor; its dtype is kept (a Python float is float32, an int int32, a complex complex64)."""
    return bind1(CONSTANT, Literal(array if isinstance(array, np.ndarray | np.generic) else _as_array(array)))


def _as_array(data: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(data)
    except ValueError as error:  # a list whose rows differ in length
        raise no_operand(data) from error
    if array.dtype.kind not in "biufc":
        raise no_operand(data)
    if _is_plain(data):
        if array.dtype == np.complex128:
            return array.astype(np.complex64)
        if array.dtype == np.float64:
            return array.astype(np.float32)
        if array.dtype == np.int64 and (array.size == 0 or (array.min() >= -(2**31) and array.max() < 2**31)):
            return array.astype(np.int32)
    return array


def _is_plain(data: Any) -> bool:
    """Whether data is Python numbers only, whose dtypes are weak; one NumPy scalar or array among them is not."""
    return all(map(_is_plain, data)) if isinstance(data, list | tuple) else is_python_number(data)


def sizes(name: str, shape: Any) -> Shape:
    """A shape as Python ints, from an integer or a sequence of them. TypeRuleError naming the op for anything else."""
    given = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    for size in given:
        if size.__class__ is not int:
            break
    else:
        return given
    try:
        return tuple([operator.index(size) for size in given])
    except TraceError:
        raise  # a traced size says so itself
    except TypeError:
        raise TypeRuleError(
            message(
                f"{name}: {shown(shape)} is not a shape",
                expected="a tuple of integers",
                got=", ".join([type(size).__name__ for size in given]),
                fix="convert the sizes with int(...)",
                where=str(caller_location()),
            )
        ) from None


def misfit(dtype: DType, number: Any) -> str | None:
    """Why a dtype cannot hold a number (but for rounding), or None when it can."""
    if not isinstance(number, bool | int | float | complex | np.generic):
        return f"a {type(number).__name__} is no number"
    if isinstance(number, complex | np.complexfloating):
        number = complex(number)
        return (
            (misfit(dtype.part, number.real) or misfit(dtype.part, number.imag))
            if dtype.is_complex
            else "it is complex"
        )
    if dtype.is_inexact:
        try:
            with np.errstate(over="ignore"):
                held = convert_array(np.array(float(number)), dtype.part.carrier)
        except OverflowError:
            return "it is too large"
        return "it is too large" if np.isinf(held) and not math.isinf(float(number)) else None
    if dtype.is_storage:
        return None  # what happens beyond the range is part of the format
    if not math.isfinite(number) or number != int(number):
        return "it is no integer"
    low, high = (0, 1) if dtype.is_bool else (int(np.iinfo(dtype.carrier).min), int(np.iinfo(dtype.carrier).max))
    return None if low <= int(number) <= high else f"it is not in [{low}, {high}]"


def filled(name: str, shape: Shape, dtype: DType, value: Any) -> Any:
    """The node of `full`, for a number its dtype can hold."""
    fault = misfit(dtype, value)
    if fault is not None:
        raise TypeRuleError(
            message(
                f"{name} of {TensorType(shape, dtype)} with {shown(value)}: {fault}",
                expected=f"a number that {dtype.short} can hold",
                got=shown(value),
                fix="name a dtype that holds it",
                where=str(caller_location()),
            )
        )
    return bind1(FULL, Fill.of(shape, dtype, value))


def _default_dtype(value: Any) -> DType:
    return DType.I32 if isinstance(value, int) else DType.C64 if isinstance(value, complex) else DType.F32


def full(shape: Shape, value: Any, dtype: Any = None) -> Any:
    """A tensor of `shape` whose entries are `value`; dtype defaults to f32, i32, c64 or bool by the Python type."""
    if isinstance(value, np.ndarray) and not value.shape:
        value = value[()]
    if dtype is None and isinstance(value, np.generic):
        dtype = value.dtype
    if dtype is None:
        dtype = DType.BOOL if isinstance(value, bool) else _default_dtype(value)
    return filled("full", sizes("full", shape), as_dtype(dtype), value)


def full_like(x: Any, value: bool | int | float | complex) -> Any:
    """A tensor of the type of `x` whose entries are `value`."""
    like = type_of(x)
    if not like.dtype.is_inexact and value not in (0, 1):
        return filled("full_like", like.shape, like.dtype, value)  # an integer is never wrapped, nor a fraction dropped
    return bind1(FULL, Fill.of(like.shape, like.dtype, value))


def zeros_of(type: TensorType) -> Any:
    """Zeros of a type."""
    return bind1(FULL, Fill(type.shape, type.dtype, 0))


def iota(shape: Shape, axis: int = 0, dtype: Any = DType.I32) -> Any:
    """0, 1, 2, … along `axis`."""
    return bind1(IOTA, Iota(sizes("iota", shape), as_dtype(dtype), axis))


OPS = (CONSTANT, FULL, IOTA)
