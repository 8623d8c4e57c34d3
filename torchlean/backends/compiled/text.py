"""C spellings: types of dtypes, literals of bit patterns, and names that are safe in comments."""

from __future__ import annotations

import struct
from types import MappingProxyType

import numpy as np

from torchlean.ir.dtypes import DType

C_TYPE = MappingProxyType(
    {
        DType.BOOL: "uint8_t",
        DType.I8: "int8_t",
        DType.I16: "int16_t",
        DType.I32: "int32_t",
        DType.I64: "int64_t",
        DType.U8: "uint8_t",
        DType.U16: "uint16_t",
        DType.U32: "uint32_t",
        DType.U64: "uint64_t",
        DType.F32: "float",
        DType.F64: "double",
        DType.C64: "float _Complex",
        DType.C128: "double _Complex",
        DType.F16: "uint16_t",  # words: arithmetic is in `halves`
        DType.BF16: "uint16_t",
    }
)
SUFFIX = MappingProxyType({DType.F32: "f", DType.F64: ""})  # of literals and of built-in functions


def literal(dtype: DType, bits: int) -> str:
    """A C expression of exactly these bits (of a NaN, some NaN)."""
    if dtype is DType.F32 or dtype is DType.F64:
        value = float_of(dtype, bits)
        suffix = SUFFIX[dtype]
        if value != value:
            return f'__builtin_nan{suffix}("")'
        if value in (float("inf"), float("-inf")):
            return f"({'-' if value < 0 else ''}__builtin_inf{suffix}())"
        text = repr(float(value)) if dtype is DType.F64 else str(np.float32(value))  # the shortest that reads back
        text += "" if set(text) & set(".e") else ".0"
        return f"({text}{suffix})" if text[0] == "-" else f"{text}{suffix}"
    if dtype.is_complex:
        half = dtype.width // 2
        part = DType.F32 if half == 32 else DType.F64
        return f"__builtin_complex({literal(part, bits & ((1 << half) - 1))}, {literal(part, bits >> half)})"
    if dtype.kind.name == "SIGNED":
        value = bits - (1 << dtype.width) if bits >> (dtype.width - 1) else bits
        if value == -(2**63):
            return "INT64_MIN"
        text = f"{value}LL" if dtype.width == 64 else str(value)
        return f"(({C_TYPE[dtype]}){text})" if value >= 0 else f"(({C_TYPE[dtype]})({text}))"
    return f"(({C_TYPE[dtype]}){bits}ULL)"


def float_of(dtype: DType, bits: int) -> float:
    word, number = ("<I", "<f") if dtype is DType.F32 else ("<Q", "<d")
    return struct.unpack(number, struct.pack(word, bits))[0]


def vector_type(dtype: DType, lanes: int) -> tuple[str, str]:
    """The name of a vector of so many entries, which may lie anywhere, and its declaration."""
    name, size = f"vector_{dtype.short}_{lanes}", dtype.carrier.itemsize
    attributes = f"vector_size({lanes * size}), aligned({size}), may_alias"
    return name, f"typedef {C_TYPE[dtype]} {name} __attribute__(({attributes}));"


def zero(dtype: DType) -> str:
    return literal(dtype, 0)


def one(dtype: DType) -> str:
    return number(dtype, 1)


def number(dtype: DType, value: float) -> str:
    """A number that the dtype holds exactly."""
    if dtype.is_complex:
        part = DType.F32 if dtype is DType.C64 else DType.F64
        return f"__builtin_complex({number(part, value)}, {zero(part)})"
    if dtype is DType.F32:
        return literal(dtype, struct.unpack("<I", struct.pack("<f", value))[0])
    if dtype is DType.F64:
        return literal(dtype, struct.unpack("<Q", struct.pack("<d", value))[0])
    return literal(dtype, int(value) & ((1 << dtype.width) - 1))


def comment(text: str) -> str:
    """Text as one comment line; nothing in it can end the line or continue it."""
    kept = "".join([c if c.isprintable() and c != "\\" else "?" for c in text])
    return f"// {kept}"
