"""Bitwise operations on integers; on booleans they are logic."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import matched, operand

__all__ = [
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
]


def bitwise_and(x1: Any, x2: Any, /) -> Any:
    """Bits set in both."""
    return ops.bitwise_and(*matched("bitwise_and", x1, x2))


def bitwise_or(x1: Any, x2: Any, /) -> Any:
    """Bits set in either."""
    return ops.bitwise_or(*matched("bitwise_or", x1, x2))


def bitwise_xor(x1: Any, x2: Any, /) -> Any:
    """Bits set in one of the two."""
    return ops.bitwise_xor(*matched("bitwise_xor", x1, x2))


def bitwise_invert(x: Any, /) -> Any:
    """Every bit turned over."""
    return ops.bitwise_not(operand("bitwise_invert", x))


bitwise_not = invert = bitwise_invert


def bitwise_left_shift(x1: Any, x2: Any, /) -> Any:
    """x1 · 2^x2 modulo the width; 0 when shifted by the width or more."""
    return ops.shift_left(*matched("bitwise_left_shift", x1, x2))


def bitwise_right_shift(x1: Any, x2: Any, /) -> Any:
    """⌊x1 / 2^x2⌋; the sign is kept."""
    return ops.shift_right(*matched("bitwise_right_shift", x1, x2))


left_shift, right_shift = bitwise_left_shift, bitwise_right_shift


def bitwise_count(x: Any, /) -> Any:
    """How many bits of |x| are set, as uint8."""
    return ops.convert(
        ops.population_count(ops.abs(x) if operand("bitwise_count", x).type.dtype.short[0] == "i" else x), "u8"
    )
