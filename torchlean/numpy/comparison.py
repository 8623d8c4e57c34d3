"""Comparisons, tests of numbers, and logic."""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import operand, operands, refused

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "iscomplex",
    "iscomplexobj",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "isscalar",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
]


def equal(x1: Any, x2: Any, /) -> Any:
    """x1 = x2; NaN equals nothing."""
    return ops.eq(*operands("equal", x1, x2))


def not_equal(x1: Any, x2: Any, /) -> Any:
    """x1 ≠ x2; NaN differs from everything."""
    return ops.ne(*operands("not_equal", x1, x2))


def less(x1: Any, x2: Any, /) -> Any:
    """x1 < x2."""
    return ops.lt(*operands("less", x1, x2))


def less_equal(x1: Any, x2: Any, /) -> Any:
    """x1 ≤ x2."""
    return ops.le(*operands("less_equal", x1, x2))


def greater(x1: Any, x2: Any, /) -> Any:
    """x1 > x2."""
    return ops.gt(*operands("greater", x1, x2))


def greater_equal(x1: Any, x2: Any, /) -> Any:
    """x1 ≥ x2."""
    return ops.ge(*operands("greater_equal", x1, x2))


# -- logic -------------------------------------------------------------------------------------------------------------
def truth(name: str, x: Any) -> Any:
    """`x` as booleans: whether each entry differs from 0."""
    x = operand(name, x)
    return x if x.type.dtype.is_bool else ops.ne(x, ops.full_like(x, 0))


def logical_and(x1: Any, x2: Any, /) -> Any:
    """x1 and x2; numbers count as true unless 0."""
    return ops.logical_and(truth("logical_and", x1), truth("logical_and", x2))


def logical_or(x1: Any, x2: Any, /) -> Any:
    """x1 or x2; numbers count as true unless 0."""
    return ops.logical_or(truth("logical_or", x1), truth("logical_or", x2))


def logical_xor(x1: Any, x2: Any, /) -> Any:
    """One of x1 and x2, not both; numbers count as true unless 0."""
    return ops.logical_xor(truth("logical_xor", x1), truth("logical_xor", x2))


def logical_not(x: Any, /) -> Any:
    """not x; numbers count as true unless 0."""
    return ops.logical_not(truth("logical_not", x))


# -- tests of numbers --------------------------------------------------------------------------------------------------
def _tested(name: str, x: Any, test: Any, otherwise: bool, combine: Any) -> Any:
    """`test` of floating-point entries, of both parts of complex ones; `otherwise` of integers and booleans."""
    x = operand(name, x)
    dtype = x.type.dtype
    if dtype.is_complex:
        return combine(test(ops.real(x)), test(ops.imag(x)))
    return test(x) if dtype.is_float else ops.full(x.type.shape, otherwise)


def isnan(x: Any, /) -> Any:
    """Whether an entry is NaN (for complex entries, whether a part is)."""
    return _tested("isnan", x, ops.is_nan, False, ops.logical_or)


def isinf(x: Any, /) -> Any:
    """Whether an entry is infinite (for complex entries, whether a part is)."""
    return _tested("isinf", x, lambda v: ops.eq(ops.abs(v), math.inf), False, ops.logical_or)


def isfinite(x: Any, /) -> Any:
    """Whether an entry is neither infinite nor NaN (for complex entries, whether no part is)."""
    return _tested("isfinite", x, ops.is_finite, True, ops.logical_and)


def isposinf(x: Any, /) -> Any:
    """Whether an entry is +∞; of real numbers."""
    return _is_number("isposinf", x, math.inf)


def isneginf(x: Any, /) -> Any:
    """Whether an entry is -∞; of real numbers."""
    return _is_number("isneginf", x, -math.inf)


def _is_number(name: str, x: Any, number: float) -> Any:
    """Whether entries are an infinity, which no integer is."""
    x = operand(name, x)
    if x.type.dtype.is_complex:
        raise refused(f"{name} of {x.type}", expected="real numbers", got=x.type.dtype.short, fix="use isinf")
    return ops.eq(x, number) if x.type.dtype.is_float else ops.full(x.type.shape, False)


def isreal(x: Any, /) -> Any:
    """Whether the imaginary part is 0."""
    x = operand("isreal", x)
    return ops.eq(ops.imag(x), 0) if x.type.dtype.is_complex else ops.full(x.type.shape, True)


def iscomplex(x: Any, /) -> Any:
    """Whether the imaginary part differs from 0."""
    return ops.logical_not(isreal(x))


def isrealobj(x: Any) -> bool:
    """Whether the dtype is real."""
    return not operand("isrealobj", x).type.dtype.is_complex


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex."""
    return operand("iscomplexobj", x).type.dtype.is_complex


def isscalar(x: Any) -> bool:
    """Whether `x` is a Python number or an array without axes."""
    return isinstance(x, bool | int | float | complex) or getattr(x, "shape", None) == ()
