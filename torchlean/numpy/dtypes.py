"""Data types and what may be asked of them."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.ir import ops
from torchlean.ir.builder import is_python_number
from torchlean.ir.dtypes import DType, Kind, as_dtype
from torchlean.ir.operators import Operators
from torchlean.ir.ops.promote import promote_dtypes
from torchlean.numpy.devices import check_device
from torchlean.numpy.operands import operand, refused, unknown_choice
from torchlean.record import record

__all__ = [
    "astype",
    "bfloat16",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "promote_types",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool = DType.BOOL
int8 = DType.I8
int16 = DType.I16
int32 = DType.I32
int64 = DType.I64
uint8 = DType.U8
uint16 = DType.U16
uint32 = DType.U32
uint64 = DType.U64
float16 = DType.F16
bfloat16 = DType.BF16
float32 = DType.F32
float64 = DType.F64
complex64 = DType.C64
complex128 = DType.C128

STANDARD = (bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float32, float64, complex64, complex128)
DEFAULT_FLOAT, DEFAULT_INT, DEFAULT_COMPLEX, DEFAULT_INDEX = float32, int32, complex64, int32

KINDS: MappingProxyType[str, Callable[[DType], Any]] = MappingProxyType(
    {
        "bool": lambda dtype: dtype.is_bool,
        "signed integer": lambda dtype: dtype.kind is Kind.SIGNED,
        "unsigned integer": lambda dtype: dtype.kind is Kind.UNSIGNED,
        "integral": lambda dtype: dtype.is_integer,
        "real floating": lambda dtype: dtype.is_float,
        "complex floating": lambda dtype: dtype.is_complex,
        "numeric": lambda dtype: dtype.is_integer or dtype.is_float or dtype.is_complex,
    }
)


def dtype_of(name: str, given: Any) -> DType:
    """The dtype of an array, or the dtype given."""
    return given.type.dtype if isinstance(given, Operators) else as_dtype(given)


def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    """`x` converted: floats round to nearest even; float to integer truncates and saturates, NaN gives 0.

    Arrays are immutable, so `copy` changes nothing a program can see. Complex to real is refused (tnp.real says which).
    """
    check_device("astype", device)
    x = operand("astype", x)
    wanted = as_dtype(dtype)
    if x.type.dtype.is_complex and not wanted.is_complex:
        if wanted.is_bool:
            return ops.ne(x, 0)
        raise refused(
            f"astype of {x.type} to {wanted.short} would drop the imaginary part",
            expected="a complex dtype",
            got=wanted.short,
            fix="take tnp.real(x) first",
        )
    return ops.convert(x, wanted)


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether the standard's table leads from one dtype to the other."""
    source, target = dtype_of("can_cast", from_), as_dtype(to)
    return source is target or promote_dtypes(source, target) is target


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype an operation on these gives; Python numbers are weak. What the standard leaves open is refused."""
    if not arrays_and_dtypes:
        raise refused("result_type of nothing", expected="an array or a dtype", got="no argument", fix="pass one")
    typed = [dtype_of("result_type", each) for each in arrays_and_dtypes if not is_python_number(each)]
    numbers = [each for each in arrays_and_dtypes if is_python_number(each)]
    found = typed[0] if typed else default_of(numbers[0])
    for other in typed[1:]:
        common = promote_dtypes(found, other)
        if common is None:
            raise _no_common(found, other)
        found = common
    for number in numbers:
        found = _with_number(found, number)
    return found


def _no_common(x: DType, y: Any) -> Exception:
    shown = y.short if isinstance(y, DType) else repr(y)
    return refused(
        f"result_type of {x.short} and {shown}: they have no common dtype",
        expected="dtypes of one kind (the Array API standard defines no mixed promotion)",
        got=f"{x.short} and {shown}",
        fix="convert one of them with tnp.astype",
    )


def default_of(number: Any) -> DType:
    """The dtype of a Python number on its own."""
    if isinstance(number, int):
        return DType.BOOL if number is True or number is False else DEFAULT_INT
    return DEFAULT_COMPLEX if isinstance(number, complex) else DEFAULT_FLOAT


def _with_number(found: DType, number: Any) -> DType:
    """The dtype of an array of dtype `found` with a Python number."""
    kind = default_of(number)
    if kind.is_bool:
        fits = found.is_bool
    elif kind.is_integer:
        fits = not found.is_bool
    elif kind.is_complex:
        if found.is_float:
            return complex128 if found is float64 else complex64
        fits = found.is_complex
    else:
        fits = found.is_float or found.is_complex
    if not fits:
        raise _no_common(found, number)
    return found


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is, or is of, a kind: a dtype, a name of the standard's, or a tuple of these."""
    wanted = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any([isdtype(wanted, each) for each in kind])
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind](wanted)
    if isinstance(kind, str):
        unknown_choice("isdtype", "kind", kind, tuple(KINDS))
    return wanted is as_dtype(kind)


@record
class FloatLimits:
    """Limits of a floating-point dtype (of the parts of a complex one), as Python floats."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType

    @property
    def tiny(self) -> float:
        return self.smallest_normal


@record
class IntegerLimits:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo(type: Any, /) -> FloatLimits:
    """Limits of a floating-point dtype or array."""
    dtype = dtype_of("finfo", type)
    if dtype.is_complex:
        dtype = float32 if dtype is complex64 else float64
    if not dtype.is_float:
        raise refused(
            f"finfo of {dtype.short}", expected="a floating-point dtype", got=dtype.short, fix="use tnp.iinfo"
        )
    if dtype is bfloat16:
        return FloatLimits(16, 2.0**-7, float.fromhex("0x1.fep127"), -float.fromhex("0x1.fep127"), 2.0**-126, dtype)
    limits = np.finfo(dtype.carrier)
    return FloatLimits(
        dtype.width,
        float(limits.eps),
        float(limits.max),
        float(limits.min),
        float(limits.smallest_normal),
        dtype,
    )


def iinfo(type: Any, /) -> IntegerLimits:
    """Limits of an integer dtype or array."""
    dtype = dtype_of("iinfo", type)
    if not dtype.is_integer:
        raise refused(f"iinfo of {dtype.short}", expected="an integer dtype", got=dtype.short, fix="use tnp.finfo")
    limits = np.iinfo(dtype.carrier)
    return IntegerLimits(dtype.width, int(limits.max), int(limits.min), dtype)


def promote_types(type1: Any, type2: Any) -> DType:
    """`result_type` of two dtypes."""
    return result_type(as_dtype(type1), as_dtype(type2))
