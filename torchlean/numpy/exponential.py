"""Powers, logarithms and hyperbolic functions of floating-point arrays."""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import matched, operand, operands

__all__ = [
    "acosh",
    "arccosh",
    "arcsinh",
    "arctanh",
    "asinh",
    "atanh",
    "cosh",
    "exp",
    "exp2",
    "expm1",
    "i0",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "sinh",
    "tanh",
]


def exp(x: Any, /) -> Any:
    """e to the power x."""
    return ops.exp(operand("exp", x))


def exp2(x: Any, /) -> Any:
    """2 to the power x."""
    return ops.exp2(operand("exp2", x))


def expm1(x: Any, /) -> Any:
    """exp(x) - 1, accurate near 0."""
    x = operand("expm1", x)
    return _complex_expm1(x) if x.type.dtype.is_complex else ops.expm1(x)


def _complex_expm1(z: Any) -> Any:
    """expm1(a)·cos b - 2·sin²(b/2) + i·eᵃ·sin b, with the standard's values where a part is infinite or NaN."""
    a, b = ops.real(z), ops.imag(z)
    half = ops.sin(ops.mul(b, 0.5))
    real = ops.sub(ops.mul(ops.expm1(a), ops.cos(b)), ops.mul(ops.mul(half, half), 2.0))
    imag = ops.mul(ops.exp(a), ops.sin(b))
    on_axis, turns = ops.eq(b, 0), ops.logical_not(ops.is_finite(b))
    low, high = ops.logical_and(turns, ops.eq(a, -math.inf)), ops.logical_and(turns, ops.eq(a, math.inf))
    real = ops.select(on_axis, ops.add(ops.expm1(a), 0.0), ops.select(low, -1.0, ops.select(high, math.inf, real)))
    imag = ops.select(on_axis, b, ops.select(low, 0.0, imag))
    return ops.complex(real, imag)


def log(x: Any, /) -> Any:
    """Natural logarithm."""
    return ops.log(operand("log", x))


def log1p(x: Any, /) -> Any:
    """log(1 + x), accurate near 0."""
    return ops.log1p(operand("log1p", x))


def log2(x: Any, /) -> Any:
    """Logarithm to base 2."""
    return ops.log2(operand("log2", x))


def log10(x: Any, /) -> Any:
    """Logarithm to base 10."""
    return ops.log10(operand("log10", x))


def logaddexp(x1: Any, x2: Any, /) -> Any:
    """log(exp(x1) + exp(x2)) without overflow."""
    return ops.logaddexp(*operands("logaddexp", x1, x2))


def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """log2(2^x1 + 2^x2) without overflow."""
    x1, x2 = matched("logaddexp2", x1, x2)
    scale = math.log(2)
    return ops.div(ops.logaddexp(ops.mul(x1, scale), ops.mul(x2, scale)), scale)


def sinh(x: Any, /) -> Any:
    """Hyperbolic sine."""
    return ops.sinh(operand("sinh", x))


def cosh(x: Any, /) -> Any:
    """Hyperbolic cosine."""
    return ops.cosh(operand("cosh", x))


def tanh(x: Any, /) -> Any:
    """Hyperbolic tangent."""
    x = operand("tanh", x)
    return _complex_tanh(x) if x.type.dtype.is_complex else ops.tanh(x)


def _complex_tanh(z: Any) -> Any:
    """tanh with the standard's ±1 ± 0i where the real part is infinite, however large the imaginary part."""
    a, b, made = ops.real(z), ops.imag(z), ops.tanh(z)
    ended = ops.logical_and(ops.eq(ops.abs(a), math.inf), ops.is_finite(b))
    imag = ops.select(ended, ops.mul(ops.sign(b), 0.0), ops.imag(made))
    return ops.complex(ops.real(made), imag)


def asinh(x: Any, /) -> Any:
    """Inverse hyperbolic sine."""
    return ops.asinh(operand("asinh", x))


def acosh(x: Any, /) -> Any:
    """Inverse hyperbolic cosine."""
    return ops.acosh(operand("acosh", x))


def atanh(x: Any, /) -> Any:
    """Inverse hyperbolic tangent."""
    return ops.atanh(operand("atanh", x))


arcsinh, arccosh, arctanh = asinh, acosh, atanh


def i0(x: Any, /) -> Any:
    """Modified Bessel function of order 0, by its power series for small and asymptotic fit for large |x|.

    [Abramowitz & Stegun 1964, 9.8.1 and 9.8.2; absolute error of the fits below 2·10⁻⁷ relative to exp(|x|)]
    """
    x = ops.abs(operand("i0", x))
    t = ops.div(ops.min(x, 3.75), 3.75)
    small = _polynomial(ops.mul(t, t), (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0))
    far = ops.max(x, 3.75)
    fit = (
        0.00392377,
        -0.01647633,
        0.02635537,
        -0.02057706,
        0.00916281,
        -0.00157565,
        0.00225319,
        0.01328592,
        0.39894228,
    )
    large = ops.mul(ops.div(ops.exp(far), ops.sqrt(far)), _polynomial(ops.div(3.75, far), fit))
    return ops.select(ops.lt(x, 3.75), small, large)


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's rule, highest power first."""
    total = ops.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = ops.add(ops.mul(total, x), coefficient)
    return total
