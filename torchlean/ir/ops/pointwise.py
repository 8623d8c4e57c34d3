"""Elementary and special functions, rounding, remainders and bits as users call them: promotion, then a primitive."""

from __future__ import annotations

from typing import Any

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import Kind, as_dtype
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import bits, elementary, quotients, rounding, words
from torchlean.ir.ops.promote import pair, tensor
from torchlean.ir.ops.rounding import Halves, Rounded

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitcast_convert",
    "cbrt",
    "ceil",
    "clz",
    "cosh",
    "digamma",
    "erf_inv",
    "erfc",
    "exp2",
    "floor",
    "floor_divide",
    "hypot",
    "is_finite",
    "is_nan",
    "lgamma",
    "log2",
    "log10",
    "nextafter",
    "polygamma",
    "population_count",
    "reduce_precision",
    "rem",
    "remainder",
    "round",
    "shift_left",
    "shift_right",
    "shift_right_arithmetic",
    "shift_right_logical",
    "signbit",
    "sinh",
    "square",
    "tan",
    "trunc",
]


def _unary(op: Op, x: Any) -> Any:
    return bind1(op, NO_PARAMS, tensor(x))


def _binary(op: Op, x: Any, y: Any) -> Any:
    x, y = pair(op.name, x, y)
    return bind1(op, NO_PARAMS, x, y)


# -- rounding and questions --------------------------------------------------------------------------------------------
def floor(x: Any) -> Any:
    """The largest integer ≤ x, in the dtype of x."""
    return _unary(rounding.FLOOR, x)


def ceil(x: Any) -> Any:
    """The smallest integer ≥ x, in the dtype of x."""
    return _unary(rounding.CEIL, x)


def trunc(x: Any) -> Any:
    """The integer next to x on the way to 0, in the dtype of x."""
    return _unary(rounding.TRUNC, x)


def round(x: Any, *, halves: Halves = Halves.EVEN) -> Any:
    """The nearest integer; halves go to the even one, as in Python, or with `Halves.AWAY` away from zero."""
    return bind1(rounding.ROUND, Rounded(halves), tensor(x))


def is_finite(x: Any) -> Any:
    """Neither infinite nor NaN."""
    return _unary(rounding.IS_FINITE, x)


def is_nan(x: Any) -> Any:
    """Not a number."""
    return _unary(rounding.IS_NAN, x)


def signbit(x: Any) -> Any:
    """The sign bit of floats; set for -0.0."""
    return _unary(rounding.SIGNBIT, x)


# -- elementary functions ----------------------------------------------------------------------------------------------
def exp2(x: Any) -> Any:
    """2 to the power x."""
    return _unary(elementary.EXP2, x)


def log2(x: Any) -> Any:
    """Logarithm to base 2."""
    return _unary(elementary.LOG2, x)


def log10(x: Any) -> Any:
    """Logarithm to base 10."""
    return _unary(elementary.LOG10, x)


def cbrt(x: Any) -> Any:
    """Cube root."""
    return _unary(elementary.CBRT, x)


def square(x: Any) -> Any:
    """x · x."""
    return _unary(elementary.SQUARE, x)


def tan(x: Any) -> Any:
    """Tangent of radians."""
    return _unary(elementary.TAN, x)


def asin(x: Any) -> Any:
    """Arc sine."""
    return _unary(elementary.ASIN, x)


def acos(x: Any) -> Any:
    """Arc cosine."""
    return _unary(elementary.ACOS, x)


def atan(x: Any) -> Any:
    """Arc tangent."""
    return _unary(elementary.ATAN, x)


def sinh(x: Any) -> Any:
    """Hyperbolic sine."""
    return _unary(elementary.SINH, x)


def cosh(x: Any) -> Any:
    """Hyperbolic cosine."""
    return _unary(elementary.COSH, x)


def asinh(x: Any) -> Any:
    """Inverse hyperbolic sine."""
    return _unary(elementary.ASINH, x)


def acosh(x: Any) -> Any:
    """Inverse hyperbolic cosine."""
    return _unary(elementary.ACOSH, x)


def atanh(x: Any) -> Any:
    """Inverse hyperbolic tangent."""
    return _unary(elementary.ATANH, x)


def erfc(x: Any) -> Any:
    """1 - erf(x), without cancellation."""
    return _unary(elementary.ERFC, x)


def erf_inv(x: Any) -> Any:
    """The y with erf(y) = x."""
    return _unary(elementary.ERF_INV, x)


def lgamma(x: Any) -> Any:
    """log |Γ(x)|."""
    return _unary(elementary.LGAMMA, x)


def digamma(x: Any) -> Any:
    """The derivative of log Γ(x)."""
    return _unary(elementary.DIGAMMA, x)


def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma, n a Python integer ≥ 0."""
    return elementary.polygamma(n, tensor(x))


# -- of two numbers ----------------------------------------------------------------------------------------------------
def hypot(x: Any, y: Any) -> Any:
    """sqrt(x² + y²) without overflow; derivative 0 at the origin."""
    return _binary(quotients.HYPOT, x, y)


def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y); derivative 0 at the origin."""
    return _binary(quotients.ATAN2, y, x)


def nextafter(x: Any, y: Any) -> Any:
    """The representable number next to x on the way to y."""
    return _binary(quotients.NEXTAFTER, x, y)


def rem(x: Any, y: Any) -> Any:
    """x - trunc(x/y)·y: the sign of the dividend, as in C; integers modulo 0 give 0."""
    return _binary(quotients.REM, x, y)


def remainder(x: Any, y: Any) -> Any:
    """x - floor(x/y)·y: the sign of the divisor, as in Python; integers modulo 0 give 0."""
    return _binary(quotients.REMAINDER, x, y)


def floor_divide(x: Any, y: Any) -> Any:
    """floor(x/y), as in Python; integers divided by 0 give 0."""
    return _binary(quotients.FLOOR_DIVIDE, x, y)


# -- bits --------------------------------------------------------------------------------------------------------------
def shift_left(x: Any, y: Any) -> Any:
    """x moved up by y bits; 0 where y is negative or the width and more."""
    return _binary(words.SHIFT_LEFT, x, y)


def shift_right(x: Any, y: Any) -> Any:
    """floor(x / 2^y): an arithmetic shift of signed integers, a logical one of unsigned."""
    x = tensor(x)
    unsigned = type_of(x).dtype.kind is Kind.UNSIGNED
    if unsigned and isinstance(y, int) and 0 <= y <= type_of(x).dtype.width:
        return bits.shift_right(x, y)
    return shift_right_logical(x, y) if unsigned else shift_right_arithmetic(x, y)


def shift_right_logical(x: Any, y: Any) -> Any:
    """x moved down by y bits, zeros coming in."""
    return _binary(words.SHIFT_RIGHT_LOGICAL, x, y)


def shift_right_arithmetic(x: Any, y: Any) -> Any:
    """x moved down by y bits, copies of the highest bit coming in (of unsigned integers too)."""
    return _binary(words.SHIFT_RIGHT_ARITHMETIC, x, y)


def population_count(x: Any) -> Any:
    """How many bits are set."""
    return _unary(words.POPULATION_COUNT, x)


def clz(x: Any) -> Any:
    """How many zero bits come before the highest set one."""
    return _unary(words.CLZ, x)


def bitcast_convert(x: Any, dtype: Any) -> Any:
    """The same bits under another dtype; the last axis holds the parts when widths differ, lowest first."""
    return bind1(words.BITCAST_CONVERT, words.Bitcast(as_dtype(dtype)), tensor(x))


def reduce_precision(x: Any, exponent: int, mantissa: int) -> Any:
    """x rounded to a format with fewer exponent and mantissa bits, in the dtype of x."""
    return bind1(words.REDUCE_PRECISION, words.Precision(int(exponent), int(mantissa)), tensor(x))
