"""The scalar types a tensor may hold.

Decides names, widths, kinds and the NumPy carrier of each. Nothing here promotes: an op's type rule asks for equal
dtypes, and the functions users call (`ir/ops/promote.py`) insert `convert` nodes where the Array API standard says so.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.errors import TypeRuleError, message


class Kind(Enum):
    """What a dtype counts as: promotion and derivatives look only at this."""

    BOOL = "bool"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    FLOAT = "floating point"

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

    def __init__(self, short: str, label: str, width: int, kind: Kind) -> None:
        self.short = short
        self.label = label
        self.width = width
        self.kind = kind
        self.carrier: np.dtype[Any] = np.dtype(label)
        self.is_float = kind is Kind.FLOAT
        self.is_integer = kind in (Kind.SIGNED, Kind.UNSIGNED)
        self.is_bool = kind is Kind.BOOL

    __hash__ = object.__hash__  # identity: a dtype sits in every cache key

    def __str__(self) -> str:
        return self.short

    def __repr__(self) -> str:
        return self.short


_BY_CARRIER = MappingProxyType({dtype.carrier: dtype for dtype in DType})
_BY_NAME = MappingProxyType({name: dtype for dtype in DType for name in (dtype.short, dtype.label)})


def dtype_of_carrier(carrier: np.dtype[Any]) -> DType:
    """The dtype carried by a NumPy dtype; TypeRuleError for one we do not hold (complex, object, strings)."""
    found = _BY_CARRIER.get(carrier)
    if found is None:
        found = _BY_CARRIER.get(carrier.newbyteorder("="))
    if found is None:
        raise TypeRuleError(
            message(
                f"arrays of NumPy dtype {carrier} are not tensors here",
                expected=", ".join(dtype.label for dtype in DType),
                got=str(carrier),
                fix="convert the array first, e.g. x.astype(np.float32)",
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
            )
        ) from None
    return dtype_of_carrier(carrier)
