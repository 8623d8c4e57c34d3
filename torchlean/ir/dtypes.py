"""The scalar types a tensor may hold.

Decides names, widths, kinds and the NumPy carrier of each. Nothing here promotes: an op's type rule asks for equal
dtypes, and the functions users call (`ir/ops/promote.py`) insert `convert` nodes where the Array API standard says so.

The carriers of bfloat16 and of the 8-bit formats come from ml_dtypes, which is imported when the first is asked for.
The 8-bit formats only store: they are moved, compared and converted, and every arithmetic op refuses them.
"""

from __future__ import annotations

import importlib
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.errors import TypeRuleError, message
from torchlean.ir.location import caller_location


class Kind(Enum):
    """What a dtype counts as: promotion and derivatives look only at this."""

    BOOL = "bool"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    FLOAT = "floating point"
    COMPLEX = "complex"
    STORAGE = "8-bit float storage"

    __hash__ = object.__hash__


class DType(Enum):
    """A scalar type. `str(dtype)` is the short print form (`f32`); `dtype.label` the NumPy name (`float32`)."""

    BOOL = ("bool", "bool", 1, Kind.BOOL)
    I8 = ("i8", "int8", 8, Kind.SIGNED)
    I16 = ("i16", "int16", 16, Kind.SIGNED)
    I32 = ("i32", "int32", 32, Kind.SIGNED)
    I64 = ("i64", "int64", 64, Kind.SIGNED)
    U8 = ("u8", "uint8", 8, Kind.UNSIGNED)
    U16 = ("u16", "uint16", 16, Kind.UNSIGNED)
    U32 = ("u32", "uint32", 32, Kind.UNSIGNED)
    U64 = ("u64", "uint64", 64, Kind.UNSIGNED)
    F16 = ("f16", "float16", 16, Kind.FLOAT)
    F32 = ("f32", "float32", 32, Kind.FLOAT)
    F64 = ("f64", "float64", 64, Kind.FLOAT)
    BF16 = ("bf16", "bfloat16", 16, Kind.FLOAT)
    C64 = ("c64", "complex64", 64, Kind.COMPLEX)
    C128 = ("c128", "complex128", 128, Kind.COMPLEX)
    F8E4M3FN = ("f8e4m3fn", "float8_e4m3fn", 8, Kind.STORAGE)
    F8E5M2 = ("f8e5m2", "float8_e5m2", 8, Kind.STORAGE)
    F8E4M3 = ("f8e4m3", "float8_e4m3", 8, Kind.STORAGE)
    F8E3M4 = ("f8e3m4", "float8_e3m4", 8, Kind.STORAGE)
    F8E4M3FNUZ = ("f8e4m3fnuz", "float8_e4m3fnuz", 8, Kind.STORAGE)
    F8E5M2FNUZ = ("f8e5m2fnuz", "float8_e5m2fnuz", 8, Kind.STORAGE)
    F8E4M3B11FNUZ = ("f8e4m3b11fnuz", "float8_e4m3b11fnuz", 8, Kind.STORAGE)
    F8E8M0FNU = ("f8e8m0fnu", "float8_e8m0fnu", 8, Kind.STORAGE)

    def __init__(self, short: str, label: str, width: int, kind: Kind) -> None:
        self.short = short
        self.label = label
        self.width = width
        self.kind = kind
        self.is_float = kind is Kind.FLOAT
        self.is_complex = kind is Kind.COMPLEX
        self.is_inexact = kind in (Kind.FLOAT, Kind.COMPLEX)  # what derivatives are taken of
        self.is_integer = kind in (Kind.SIGNED, Kind.UNSIGNED)
        self.is_bool = kind is Kind.BOOL
        self.is_storage = kind is Kind.STORAGE
        self.is_extended = label == "bfloat16" or kind is Kind.STORAGE  # carried by ml_dtypes
        if not self.is_extended:
            self.carrier = np.dtype(label)

    @cached_property
    def carrier(self) -> np.dtype[Any]:
        """The NumPy dtype; ml_dtypes is imported for those NumPy lacks."""
        return np.dtype(getattr(importlib.import_module("ml_dtypes"), self.label))

    @property
    def part(self) -> DType:
        """The dtype of the real and the imaginary part; the dtype itself unless it is complex."""
        return {"c64": DType.F32, "c128": DType.F64}.get(self.short, self)

    __hash__ = object.__hash__  # identity: a dtype sits in every cache key

    def __str__(self) -> str:
        return self.short

    def __repr__(self) -> str:
        return self.short


_BY_CARRIER = MappingProxyType({dtype.carrier: dtype for dtype in DType if not dtype.is_extended})
_EXTENDED = MappingProxyType({dtype.label: dtype for dtype in DType if dtype.is_extended})
_BY_NAME = MappingProxyType({name: dtype for dtype in DType for name in (dtype.short, dtype.label)})


def dtype_of_carrier(carrier: np.dtype[Any]) -> DType:
    """The dtype carried by a NumPy dtype; TypeRuleError for one we do not hold (object, strings)."""
    found = _BY_CARRIER.get(carrier)
    if found is None:
        found = _EXTENDED.get(carrier.name)
        if found is not None and found.carrier == carrier:
            return found
        found = _BY_CARRIER.get(carrier.newbyteorder("="))
    if found is None:
        raise TypeRuleError(
            message(
                f"arrays of NumPy dtype {carrier} are not tensors here",
                expected=", ".join(dtype.label for dtype in DType),
                got=str(carrier),
                fix="convert the array first, e.g. x.astype(np.float32)",
                where=str(caller_location()),
            )
        )
    return found


def as_dtype(spec: Any) -> DType:
    """A dtype from a `DType`, a short name (`"f32"`), a NumPy name, dtype or scalar type. No name is narrowed."""
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in _BY_NAME:
        return _BY_NAME[spec]
    try:
        carrier = np.dtype(spec)
    except TypeError:
        raise TypeRuleError(
            message(
                f"{spec!r} does not name a dtype",
                expected=", ".join(dtype.short for dtype in DType),
                got=repr(spec),
                fix="use a short name such as 'f32', or a NumPy dtype",
                where=str(caller_location()),
            )
        ) from None
    return dtype_of_carrier(carrier)
