"""Rounding. Integers are returned as they are."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import matched, operand, require_float

__all__ = [
    "around",
    "ceil",
    "copysign",
    "fix",
    "floor",
    "modf",
    "nan_to_num",
    "nextafter",
    "rint",
    "round",
    "signbit",
    "trunc",
]


def _rounded(name: str, op: Any, x: Any) -> Any:
    x = operand(name, x)
    return x if x.type.dtype.is_integer else op(x)


def floor(x: Any, /) -> Any:
    """Towards minus infinity."""
    return _rounded("floor", ops.floor, x)


def ceil(x: Any, /) -> Any:
    """Towards plus infinity."""
    return _rounded("ceil", ops.ceil, x)


def trunc(x: Any, /) -> Any:
    """Towards zero."""
    return _rounded("trunc", ops.trunc, x)


fix = trunc


def round(x: Any, /, decimals: int = 0) -> Any:
    """To the nearest, halves to even; with `decimals` places after the point (before it when negative)."""
    x = operand("round", x)
    if x.type.dtype.is_complex:
        return ops.complex(round(ops.real(x), decimals), round(ops.imag(x), decimals))
    if decimals == 0 or (x.type.dtype.is_integer and decimals > 0):
        return _rounded("round", ops.round, x)
    if x.type.dtype.is_integer:
        unit = 10**-decimals
        wide = ops.convert(x, "f64")
        return ops.convert(ops.mul(ops.round(ops.div(wide, float(unit))), float(unit)), x.type.dtype)
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        return ops.div(ops.round(ops.mul(x, scale)), scale)
    return ops.mul(ops.round(ops.div(x, scale)), scale)


around = round
rint = round


def nextafter(x1: Any, x2: Any, /) -> Any:
    """The next representable number after x1 towards x2."""
    return ops.nextafter(*matched("nextafter", x1, x2))


def copysign(x1: Any, x2: Any, /) -> Any:
    """|x1| with the sign of x2, that of a zero or NaN included."""
    x1, x2 = matched("copysign", x1, x2)
    size = ops.abs(x1)
    return ops.select(signbit(x2), ops.neg(size), size)


def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set: true of -0.0 and of a NaN with that bit."""
    return ops.signbit(require_float("signbit", x, complex_too=False))


def modf(x: Any, /) -> tuple[Any, Any]:
    """The fraction and the whole part, both with the sign of x."""
    x = require_float("modf", x, complex_too=False)
    whole = ops.trunc(x)
    infinite = ops.eq(ops.abs(x), float("inf"))
    return copysign(ops.select(infinite, ops.full_like(x, 0), ops.sub(x, whole)), x), whole


def nan_to_num(x: Any, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    """NaN and the infinities replaced by numbers; by the largest finite ones unless others are given."""
    from torchlean.numpy.dtypes import finfo

    x = operand("nan_to_num", x)
    if x.type.dtype.is_complex:
        parts = [nan_to_num(part(x), nan=nan, posinf=posinf, neginf=neginf) for part in (ops.real, ops.imag)]
        return ops.complex(*parts)
    if not x.type.dtype.is_float:
        return x
    limits = finfo(x.type.dtype)
    high = limits.max if posinf is None else float(posinf)
    low = limits.min if neginf is None else float(neginf)
    x = ops.select(ops.eq(x, float("inf")), high, ops.select(ops.eq(x, float("-inf")), low, x))
    return ops.select(ops.ne(x, x), nan, x)
