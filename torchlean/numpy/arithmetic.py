"""Arithmetic, entry by entry. Operands broadcast; Python numbers are weak; mixed kinds are refused."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.ir.builder import is_python_number
from torchlean.numpy.operands import matched, operand, operands, require_float

__all__ = [
    "abs",
    "absolute",
    "add",
    "cbrt",
    "clip",
    "divide",
    "divmod",
    "fabs",
    "float_power",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "gcd",
    "heaviside",
    "lcm",
    "maximum",
    "minimum",
    "mod",
    "multiply",
    "negative",
    "positive",
    "pow",
    "power",
    "reciprocal",
    "remainder",
    "sign",
    "sqrt",
    "square",
    "subtract",
    "true_divide",
]


# -- the four operations and what is made of them ----------------------------------------------------------------------
def add(x1: Any, x2: Any, /) -> Any:
    """x1 + x2."""
    return ops.add(*operands("add", x1, x2))


def subtract(x1: Any, x2: Any, /) -> Any:
    """x1 - x2; unsigned integers wrap."""
    return ops.sub(*operands("subtract", x1, x2))


def multiply(x1: Any, x2: Any, /) -> Any:
    """x1 · x2."""
    return ops.mul(*operands("multiply", x1, x2))


def divide(x1: Any, x2: Any, /) -> Any:
    """x1 / x2 of floating-point operands; integers are refused (use floor_divide, or convert)."""
    return ops.div(*operands("divide", x1, x2))


true_divide = divide


def floor_divide(x1: Any, x2: Any, /) -> Any:
    """⌊x1 / x2⌋ as Python's `//`: rounded towards minus infinity."""
    return ops.floor_quotient(*operands("floor_divide", x1, x2))


def remainder(x1: Any, x2: Any, /) -> Any:
    """x1 - ⌊x1 / x2⌋ · x2 as Python's `%`: the sign is that of the divisor."""
    return ops.remainder(*operands("remainder", x1, x2))


mod = remainder


def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """The quotient and the remainder of Python's `divmod`."""
    return floor_divide(x1, x2), remainder(x1, x2)


def fmod(x1: Any, x2: Any, /) -> Any:
    """The remainder of a division rounded towards zero: the sign is that of x1."""
    return ops.rem(*operands("fmod", x1, x2))


def pow(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2; integers to a non-negative integer power wrap."""
    return ops.raised(*operands("pow", x1, x2))


power = pow


def float_power(x1: Any, x2: Any, /) -> Any:
    """x1 to the power x2 in floating point, never by repeated multiplication."""
    x1, x2 = operands("float_power", x1, x2)
    return ops.pow(x1, float(x2) if is_python_number(x2) and isinstance(x2, int) else x2)


# -- one operand -------------------------------------------------------------------------------------------------------
def positive(x: Any, /) -> Any:
    """x."""
    return operand("positive", x)


def negative(x: Any, /) -> Any:
    """-x; unsigned integers wrap."""
    return ops.negative(operand("negative", x))


def abs(x: Any, /) -> Any:
    """|x|; real for complex x; derivative 0 at 0."""
    return ops.absolute(operand("abs", x))


absolute = abs


def fabs(x: Any, /) -> Any:
    """The absolute value of real floating-point numbers."""
    return ops.abs(require_float("fabs", x, complex_too=False))


def sign(x: Any, /) -> Any:
    """-1, 0 or 1 (of complex numbers, x / |x|); NaN stays NaN."""
    x = operand("sign", x)
    if _is_unsigned(x):
        return ops.convert(ops.gt(x, 0), x.type.dtype)
    if x.type.dtype.is_complex:
        size = ops.abs(x)
        nothing = ops.eq(size, 0)
        unit = ops.div(x, ops.convert(ops.select(nothing, 1.0, size), x.type.dtype))
        return ops.select(nothing, ops.full_like(x, 0), unit)
    return ops.sign(x)


def square(x: Any, /) -> Any:
    """x · x."""
    x = operand("square", x)
    return ops.mul(x, x)


def reciprocal(x: Any, /) -> Any:
    """1 / x of floating-point x."""
    x = operand("reciprocal", x)
    return ops.div(1, x)


def sqrt(x: Any, /) -> Any:
    """Square root."""
    return ops.sqrt(operand("sqrt", x))


def cbrt(x: Any, /) -> Any:
    """Real cube root."""
    return ops.cbrt(operand("cbrt", x))


# -- extremes ----------------------------------------------------------------------------------------------------------
def maximum(x1: Any, x2: Any, /) -> Any:
    """The larger; NaN if either is; ties split the derivative."""
    return ops.max(*operands("maximum", x1, x2))


def minimum(x1: Any, x2: Any, /) -> Any:
    """The smaller; NaN if either is; ties split the derivative."""
    return ops.min(*operands("minimum", x1, x2))


def fmax(x1: Any, x2: Any, /) -> Any:
    """The larger; a NaN counts only if both are."""
    x1, x2 = matched("fmax", x1, x2)
    return ops.select(ops.ne(x2, x2), x1, ops.select(ops.ne(x1, x1), x2, ops.max(x1, x2)))


def fmin(x1: Any, x2: Any, /) -> Any:
    """The smaller; a NaN counts only if both are."""
    x1, x2 = matched("fmin", x1, x2)
    return ops.select(ops.ne(x2, x2), x1, ops.select(ops.ne(x1, x1), x2, ops.min(x1, x2)))


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """`x` held between two bounds, either of which may be left out; derivative 0 at and beyond them.

    The dtype of `x` is kept: a bound that it cannot hold is refused. Where min > max the result is max.
    """
    x = operand("clip", x)
    dtype = x.type.dtype
    for bound in (min, max):
        if bound is not None and not is_python_number(bound):
            operand("clip", bound)
    if min is not None:
        x = maximum(x, min)
    if max is not None:
        x = minimum(x, max)
    return ops.convert(x, dtype)


def _is_unsigned(x: Any) -> bool:
    dtype = x.type.dtype
    return dtype.is_integer and dtype.short.startswith("u")


def heaviside(x1: Any, x2: Any, /) -> Any:
    """0 below zero, 1 above, x2 at zero; NaN where x1 is."""
    x1, x2 = matched("heaviside", x1, x2)
    step = ops.convert(ops.gt(x1, 0), x1.type.dtype)
    return ops.select(ops.ne(x1, x1), x1, ops.select(ops.eq(x1, 0), x2, step))


def gcd(x1: Any, x2: Any, /) -> Any:
    """Greatest common divisor of integers, by as many steps of Euclid's algorithm as the dtype can need."""
    x1, x2 = matched("gcd", x1, x2)
    a, b = abs(x1), abs(x2)
    for _ in range(_euclid_steps(x1.type.dtype.width)):
        done = ops.eq(b, 0)
        rest = ops.remainder(a, ops.select(done, ops.full_like(b, 1), b))
        a, b = ops.select(done, a, b), ops.select(done, b, rest)
    return a


def _euclid_steps(width: int) -> int:
    """Steps that suffice for integers of `width` bits: 1.45 a bit.  [Lamé 1844; Knuth vol. 2, §4.5.3]"""
    return int(1.45 * width) + 2


def lcm(x1: Any, x2: Any, /) -> Any:
    """Least common multiple of integers; 0 if one is 0."""
    x1, x2 = matched("lcm", x1, x2)
    common = gcd(x1, x2)
    divisor = ops.select(ops.eq(common, 0), ops.full_like(common, 1), common)
    return abs(ops.mul(ops.floor_divide(x1, divisor), x2))
