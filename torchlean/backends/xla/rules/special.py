"""Elementary and special functions, and functions of two numbers: XLA's own where it has them.

digamma and polygamma are computed in float64, by the definition's recurrence, series and reflection: XLA's polygamma
knows positive numbers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlean.backends.xla.rules.elementwise import (
    Made,
    Rule,
    constant,
    is_complex,
    log1p,
    of_operands,
    widened,
    zero_of,
)
from torchlean.ir.gamma import _BERNOULLI, _LARGE, _cotangent_derivative
from torchlean.ir.op import Op
from torchlean.ir.ops import elementary as el
from torchlean.ir.ops import quotients


def _over(function: Callable[..., Any], divisor: float) -> Callable[..., Any]:
    """A function of x over a real number."""

    def of(x: Any) -> Any:
        y = function(x)
        if is_complex(y):
            return lax.complex(*[lax.div(part, constant(part, divisor)) for part in (lax.real(y), lax.imag(y))])
        return lax.div(y, constant(y, divisor))

    return of


def _without_subnormals(x: Any) -> Any:
    """Where subnormals count as zero in some places only, a quotient of two may be anything: here they all do."""
    bits = lax.bitcast_convert_type(x, np.dtype(f"u{x.dtype.itemsize}"))
    top = lax.full(bits.shape, 1 << (8 * x.dtype.itemsize - 1), bits.dtype)
    zero = lax.bitcast_convert_type(lax.bitwise_and(bits, top), x.dtype)
    return lax.select(lax.eq(x, zero_of(x)), zero, x)


def _settled(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: function(*map(_without_subnormals, xs))


def _exp2(x: Any) -> Any:
    """2^k · e^(r·log 2) with k the nearest integer: the error of x·log 2 would grow with x."""
    limit = 1100.0 if x.dtype.itemsize == 8 else 160.0
    near = lax.round(lax.clamp(constant(x, -limit), x, constant(x, limit)), lax.RoundingMethod.TO_NEAREST_EVEN)
    rest = lax.sub(x, near)
    made = lax.exp(lax.mul(rest, constant(x, math.log(2))))
    half = lax.floor(lax.mul(near, constant(x, 0.5)))
    made = lax.mul(lax.mul(made, _power_of_two(half)), _power_of_two(lax.sub(near, half)))
    far = lax.gt(lax.abs(x), constant(x, limit))
    edge = lax.select(lax.gt(x, zero_of(x)), constant(x, np.inf), zero_of(x))
    return lax.select(far, edge, made)


def _power_of_two(k: Any) -> Any:
    """2^k for whole k within the normal exponents."""
    word, stored, bias = (np.int64, 52, 1023) if k.dtype.itemsize == 8 else (np.int32, 23, 127)
    exponent = lax.add(k.astype(word), lax.full(k.shape, bias, word))
    return lax.bitcast_convert_type(lax.shift_left(exponent, lax.full(k.shape, stored, word)), k.dtype)


def _erf_inv(x: Any) -> Any:
    """XLA's, with one step of Halley's on erfc in float64, whose error is relative in the tails."""
    y = lax.erf_inv(x)
    if x.dtype.itemsize < 8:
        return y
    size, root = lax.abs(x), lax.abs(y)
    small = size < 0.5
    miss = jnp.where(small, size - lax.erf(root), lax.erfc(root) - (1.0 - size))
    error = miss * (math.sqrt(math.pi) / 2) * lax.exp(root * root)
    better = root + error / (1.0 - root * error)
    return jnp.where(size < 1, jnp.copysign(better, x), y)


def _atanh(x: Any) -> Any:
    """½·log1p(2|x| / (1 - |x|)), with the sign of x."""
    if is_complex(x):
        return lax.atanh(x)
    size = lax.abs(x)
    one, half = constant(x, 1), constant(x, 0.5)
    made = lax.mul(half, log1p(lax.div(lax.add(size, size), lax.sub(one, size))))
    return lax.select(lax.lt(x, zero_of(x)), lax.neg(made), lax.select(lax.eq(x, zero_of(x)), x, made))


def _sinh(x: Any) -> Any:
    size = lax.abs(x)
    one, half = constant(x, 1), constant(x, 0.5)
    part = lax.expm1(size)
    made = lax.mul(half, lax.add(part, lax.div(part, lax.add(part, one))))
    made = lax.select(_is_far(size), _half_of_exponential(size), made)
    return lax.select(lax.lt(x, zero_of(x)), lax.neg(made), lax.select(lax.eq(x, zero_of(x)), x, made))


def _cosh(x: Any) -> Any:
    size = lax.abs(x)
    whole = lax.exp(size)
    made = lax.mul(constant(x, 0.5), lax.add(whole, lax.div(constant(x, 1), whole)))
    return lax.select(_is_far(size), _half_of_exponential(size), made)


def _is_far(size: Any) -> Any:
    """Where e^-x is nothing beside e^x, which may be too large."""
    return lax.gt(size, constant(size, 40.0))


def _half_of_exponential(x: Any) -> Any:
    """½·eˣ, which may be a number where eˣ is none."""
    root = lax.exp(lax.mul(constant(x, 0.5), x))
    return lax.mul(lax.mul(constant(x, 0.5), root), root)


def _real_or(function: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """A function of real numbers; `other` of complex ones."""
    return lambda x: other(x) if is_complex(x) else function(x)


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of real numbers, computed in float64 and rounded."""
    return lambda *xs: function(*[x.astype(np.float64) for x in xs]).astype(xs[0].dtype)


# -- gamma functions ---------------------------------------------------------------------------------------------------
def _polygamma(n: int, x: Any) -> Any:
    negative = x < 0
    above = _polygamma_above(n, jnp.where(negative, 1.0 - x, x))
    fraction = x - lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)
    pole = negative & (fraction == 0)
    angle = np.pi * jnp.where(fraction == 0, 0.5, fraction)
    cotangent = 1.0 / lax.tan(angle)
    polynomial: Any = jnp.zeros_like(x)
    for coefficient in _cotangent_derivative(n):
        polynomial = polynomial * cotangent + float(coefficient)
    reflected = (-1.0) ** n * above - np.pi ** (n + 1) * polynomial
    return jnp.where(negative, jnp.where(pole, np.nan, reflected), above)


def _polygamma_above(n: int, x: Any) -> Any:
    """For x ≥ 0: the terms below a large number, then the asymptotic series [A&S 6.3.18, 6.4.11]."""
    sign = -1.0 if n % 2 == 0 else 1.0
    total, at = jnp.zeros_like(x), x
    for _ in range(_LARGE):
        below = at < _LARGE
        base = jnp.where(below, at, 1.0)
        power = lax.integer_pow(base, n + 1)
        inverted = jnp.where(power == 0, lax.integer_pow(1.0 / base, n + 1), 1.0 / power)  # 0: flushed
        term = sign * math.factorial(n) * inverted
        total = total + jnp.where(below, term, 0.0)
        at = jnp.where(below, at + 1.0, at)
    inverse = 1.0 / at
    if n == 0:
        series = lax.log(at) - 0.5 * inverse
        for k, b in enumerate(_BERNOULLI, start=1):
            series = series - b / (2 * k) * lax.integer_pow(inverse, 2 * k)
        return jnp.where(x == np.inf, np.inf, total + series)
    series = math.factorial(n - 1) * lax.integer_pow(inverse, n)
    series = series + 0.5 * math.factorial(n) * lax.integer_pow(inverse, n + 1)
    for k, b in enumerate(_BERNOULLI, start=1):
        weight = b * math.factorial(2 * k + n - 1) / math.factorial(2 * k)
        series = series + weight * lax.integer_pow(inverse, 2 * k + n)
    return jnp.where(x == np.inf, 0.0, total + sign * series)


# -- functions of two numbers ------------------------------------------------------------------------------------------
def _hypot(x: Any, y: Any) -> Any:
    """Of float32 the rounded root in float64; of float64 scaled by the larger."""
    if x.dtype.itemsize < 8:
        a, b = x.astype(np.float64), y.astype(np.float64)
        made = lax.sqrt(a * a + b * b).astype(x.dtype)
    else:
        a, b = lax.abs(x), lax.abs(y)
        large, small = lax.max(a, b), lax.min(a, b)
        nothing = lax.eq(large, zero_of(x))
        ratio = lax.div(small, lax.select(nothing, constant(x, 1), large))
        made = lax.mul(large, lax.sqrt(lax.add(constant(x, 1), lax.mul(ratio, ratio))))
    infinite = lax.bitwise_or(lax.eq(lax.abs(x), constant(x, np.inf)), lax.eq(lax.abs(y), constant(x, np.inf)))
    return lax.select(infinite, constant(x, np.inf), made)


def _is_integer(x: Any) -> bool:
    return x.dtype.kind in "iu"


def _safe(y: Any) -> tuple[Any, Any]:
    """Where an integer divisor is 0, and the divisor with 1 there."""
    none = lax.eq(y, zero_of(y))
    return none, lax.select(none, constant(y, 1), y)


def _rem(x: Any, y: Any) -> Any:
    if _is_integer(x):
        none, safe = _safe(y)
        return lax.select(none, zero_of(x), lax.rem(x, safe))
    return lax.rem(x, y)


def _float_remainder(x: Any, y: Any) -> Any:
    """The remainder with the divisor's sign, as NumPy's. In float64 nothing of narrower formats is lost on the way."""
    zero = zero_of(x)
    rest = lax.rem(x, y)
    exact = lax.eq(rest, zero)
    turned = lax.bitwise_and(lax.bitwise_not(exact), lax.ne(lax.lt(y, zero), lax.lt(rest, zero)))
    made = lax.select(turned, lax.add(rest, y), lax.select(exact, _with_sign(zero, y), rest))
    return lax.select(lax.eq(y, zero), constant(x, np.nan), made)


def _float_quotient(x: Any, y: Any) -> Any:
    """The quotient towards -∞, as NumPy's: from the remainder, which float64 holds exactly."""
    zero, one = zero_of(x), constant(x, 1)
    wide = lax.rem(x.astype(np.float64), y.astype(np.float64))
    nothing = zero_of(wide)
    exact, below = lax.eq(wide, nothing), lax.lt(wide, nothing)
    turned = lax.bitwise_and(lax.bitwise_not(exact), lax.ne(lax.lt(y, zero), below))
    quotient = lax.div(lax.sub(x, wide.astype(x.dtype)), y)
    quotient = lax.select(turned, lax.sub(quotient, one), quotient)
    floored = lax.floor(quotient)
    far = lax.gt(lax.sub(quotient, floored), constant(x, 0.5))
    floored = lax.select(far, lax.add(floored, one), floored)
    floored = lax.select(lax.eq(quotient, zero), _with_sign(zero, lax.div(x, y)), floored)
    return lax.select(lax.eq(y, zero), lax.div(x, y), floored)


def _with_sign(size: Any, sign: Any) -> Any:
    """`size` ≥ 0 with the sign bit of `sign`."""
    bits = np.dtype(f"u{sign.dtype.itemsize}")
    top = lax.bitwise_and(
        lax.bitcast_convert_type(sign, bits), lax.full(sign.shape, 1 << (8 * sign.dtype.itemsize - 1), bits)
    )
    return lax.bitcast_convert_type(lax.bitwise_or(lax.bitcast_convert_type(size, bits), top), sign.dtype)


def _integer_quotient(x: Any, y: Any) -> tuple[Any, Any]:
    none, safe = _safe(y)
    quotient, rest = lax.div(x, safe), lax.rem(x, safe)
    zero = zero_of(x)
    if x.dtype.kind == "i":
        turned = lax.bitwise_and(lax.ne(rest, zero), lax.ne(lax.lt(safe, zero), lax.lt(rest, zero)))
        quotient = lax.select(turned, lax.sub(quotient, constant(x, 1)), quotient)
        rest = lax.select(turned, lax.add(rest, safe), rest)
    return lax.select(none, zero, quotient), lax.select(none, zero, rest)


def _remainder(x: Any, y: Any) -> Any:
    return _integer_quotient(x, y)[1] if _is_integer(x) else _in_double(_float_remainder)(x, y)


def _floor_divide(x: Any, y: Any) -> Any:
    return _integer_quotient(x, y)[0] if _is_integer(x) else widened(_float_quotient)(x, y)


def _order_of(params: Any, made: Made, x: Any) -> Any:
    return _in_double(lambda v: _polygamma(params.order, v))(x)


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    one = of_operands
    return {
        el.EXP2: one(widened(_real_or(_exp2, lax.exp2))),
        el.LOG2: one(widened(_over(lax.log, math.log(2)))),
        el.LOG10: one(widened(_over(lax.log, math.log(10)))),
        el.CBRT: one(widened(_settled(lax.cbrt))),
        el.TAN: one(widened(lax.tan)),
        el.ASIN: one(widened(lax.asin)),
        el.ACOS: one(widened(lax.acos)),
        el.ATAN: one(widened(lax.atan)),
        el.SINH: one(widened(_real_or(_sinh, lax.sinh))),
        el.COSH: one(widened(_real_or(_cosh, lax.cosh))),
        el.ASINH: one(widened(lax.asinh)),
        el.ACOSH: one(widened(lax.acosh)),
        el.ATANH: one(widened(_atanh)),
        el.ERFC: one(widened(lax.erfc)),
        el.ERF_INV: one(widened(_erf_inv)),
        el.LGAMMA: one(_in_double(lax.lgamma)),
        el.DIGAMMA: one(_in_double(lambda x: _polygamma(0, x))),
        el.POLYGAMMA: _order_of,
        quotients.HYPOT: one(_hypot),
        quotients.ATAN2: one(widened(_settled(lax.atan2))),
        quotients.NEXTAFTER: one(lax.nextafter),
        quotients.REM: one(lambda x, y: _rem(x, y) if _is_integer(x) else widened(_rem)(x, y)),
        quotients.REMAINDER: one(_remainder),
        quotients.FLOOR_DIVIDE: one(_floor_divide),
    }
