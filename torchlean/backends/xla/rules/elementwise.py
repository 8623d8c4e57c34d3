"""Arithmetic, functions, comparisons, logic, selection, conversion, parts of complex numbers: XLA's own ops.

`rule(params, made, *operands)`: `made` are the result types. Functions of 16-bit floats are computed in float32 and
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import chain, parts, remat, rounding
from torchlean.ir.ops import elementary as el
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.rounding import Halves
from torchlean.ir.types import TensorType

Made = tuple[TensorType, ...]
Rule = Callable[..., Any]


def of_operands(function: Callable[..., Any]) -> Rule:
    """The rule of an op without params that a function of the operands computes."""
    return lambda params, made, *xs: function(*xs)


def is_complex(x: Any) -> bool:
    return bool(np.issubdtype(x.dtype, np.complexfloating))


def constant(x: Any, value: Any) -> Any:
    """`value` in the type of `x`."""
    return lax.full(x.shape, value, x.dtype)


def zero_of(x: Any) -> Any:
    return constant(x, 0)


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats, those of 16 bits computed in float32."""

    def of(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype.itemsize > 2:
            return function(*xs)
        return function(*[x.astype(np.float32) for x in xs]).astype(dtype)

    return of


# -- arithmetic --------------------------------------------------------------------------------------------------------
def _integer_pow(params: Any, made: Made, x: Any) -> Any:
    """Repeated squaring from the lowest bit, as the definition. Where a power that is divided by has become 0 on the
    way, the reciprocal is raised instead.
    """
    one = constant(x, 1)
    if not params.exponent:
        return one
    power = _power(x, abs(params.exponent))
    if params.exponent > 0:
        return power
    zero = zero_of(x)
    vanished = lax.bitwise_and(lax.eq(power, zero), lax.ne(x, zero))
    return lax.select(vanished, _power(lax.div(one, x), -params.exponent), lax.div(one, power))


def _power(x: Any, remaining: int) -> Any:
    result, square = None, x
    while remaining:
        if remaining & 1:
            result = square if result is None else lax.mul(result, square)
        remaining >>= 1
        if remaining:
            square = lax.mul(square, square)
    return result


def log1p(x: Any) -> Any:
    """log(1 + x) and what the sum lost, over it: XLA's own is 60 ulp off in float64."""
    if is_complex(x):
        return lax.log1p(x)
    one = constant(x, 1)
    whole = lax.add(one, x)
    small = lax.lt(lax.abs(x), one)
    large, little = lax.select(small, one, x), lax.select(small, x, one)
    lost = lax.sub(little, lax.sub(whole, large))
    made = lax.add(lax.log(whole), lax.div(lost, whole))
    plain = lax.bitwise_or(lax.eq(whole, zero_of(x)), lax.eq(whole, constant(x, np.inf)))
    made = lax.select(plain, lax.log(whole), made)
    return lax.select(lax.eq(x, zero_of(x)), x, made)


def chain_mul(t: Any, slope: Any) -> Any:
    """t · slope with the zeros of the derivative policy."""
    zero, product = zero_of(t), lax.mul(t, slope)
    undefined = lax.ne(product, product)
    nothing, flat = lax.eq(t, zero), lax.eq(slope, zero)
    settled = lax.bitwise_and(undefined, lax.bitwise_or(nothing, lax.bitwise_and(flat, lax.eq(t, t))))
    return lax.select(settled, zero, product)


def _clamp(low: Any, x: Any, high: Any) -> Any:
    return lax.min(lax.max(x, low), high)


def _sign(x: Any) -> Any:
    zero = zero_of(x)
    return lax.select(lax.eq(x, zero), zero, lax.sign(x))


# -- comparisons -------------------------------------------------------------------------------------------------------
def _compared(function: Callable[..., Any]) -> Rule:
    def of(params: Any, made: Made, x: Any, y: Any) -> Any:
        if x.dtype.itemsize == 1 and x.dtype.kind not in "biu":  # formats that only store
            x, y = x.astype(np.float32), y.astype(np.float32)
        return function(x, y)

    return of


# -- conversion --------------------------------------------------------------------------------------------------------
def _convert(params: Any, made: Made, x: Any) -> Any:
    """One rounding. What is wider than float32 goes to a narrower format than that by way of an odd float32."""
    target: DType = params.dtype
    carrier = target.carrier
    if x.dtype == carrier:
        return x
    if target.is_bool:
        return lax.ne(x, zero_of(x)) if x.dtype.kind in "iufc" else lax.ne(x.astype(np.float32), np.float32(0))
    if target.is_integer and x.dtype.kind not in "biu":
        return _to_integer(x, carrier)
    if target.width <= 16 and (target.is_float or target.is_storage) and x.dtype.kind in "iuf" and x.dtype.itemsize > 2:
        if x.dtype.kind in "iu" and x.dtype.itemsize == 4:
            x = x.astype(np.float64)
        if x.dtype.itemsize == 8:
            x = _rounded_to_odd(x)
    elif target.is_storage:
        x = x.astype(np.float32)
    return x.astype(carrier)


def _to_integer(x: Any, carrier: np.dtype[Any]) -> Any:
    """Truncated and saturated; NaN gives 0."""
    if x.dtype.itemsize < 4:
        x = x.astype(np.float32)
    limits = np.iinfo(carrier)
    low = lax.le(x, constant(x, float(limits.min)))
    high = lax.ge(x, constant(x, float(limits.max)))
    inside = lax.bitwise_not(lax.bitwise_or(lax.bitwise_or(low, high), lax.ne(x, x)))
    made = lax.select(inside, x, zero_of(x)).astype(carrier)
    made = lax.select(high, lax.full(x.shape, limits.max, carrier), made)
    return lax.select(low, lax.full(x.shape, limits.min, carrier), made)


def _rounded_to_odd(x: Any) -> Any:
    """A float64 or 64-bit integer as a float32 whose last bit is odd where it is not exact, so that a further rounding
    is that of the exact value [Boldo & Melquiond 2008].
    """
    if x.dtype.kind in "iu":
        low = lax.bitwise_and(x, constant(x, 0xFFF))
        sticky = lax.select(lax.ne(low, zero_of(x)), lax.add(lax.sub(x, low), constant(x, 0x800)), x)
        small = lax.lt(lax.abs(x.astype(np.float64)), lax.full(x.shape, 2.0**52, np.float64))
        x = lax.select(small, x, sticky).astype(np.float64)
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    exact = lax.bitwise_or(lax.eq(back, x), lax.ne(x, x))
    beyond = lax.gt(lax.abs(back), lax.abs(x))
    bits = lax.bitcast_convert_type(near, np.uint32)
    below = lax.select(beyond, lax.sub(bits, constant(bits, 1)), bits)
    odd = lax.bitcast_convert_type(lax.bitwise_or(below, constant(bits, 1)), np.float32)
    return lax.select(exact, near, odd)


# -- rounding to whole numbers, questions ------------------------------------------------------------------------------
def _trunc(x: Any) -> Any:
    return lax.select(lax.lt(x, zero_of(x)), lax.ceil(x), lax.floor(x))


def _round(params: Any, made: Made, x: Any) -> Any:
    if params.halves is Halves.EVEN:
        return widened(lambda v: lax.round(v, lax.RoundingMethod.TO_NEAREST_EVEN))(x)
    return widened(lambda v: lax.round(v, lax.RoundingMethod.AWAY_FROM_ZERO))(x)


def _is_finite(x: Any) -> Any:
    if is_complex(x):
        return lax.bitwise_and(lax.is_finite(lax.real(x)), lax.is_finite(lax.imag(x)))
    return lax.is_finite(x)


def _signbit(x: Any) -> Any:
    bits = lax.bitcast_convert_type(x, np.dtype(f"i{x.dtype.itemsize}"))
    return lax.lt(bits, zero_of(bits))


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    one = of_operands
    return {
        ew.ADD: one(lax.add),
        ew.SUB: one(lax.sub),
        ew.MUL: one(lax.mul),
        ew.DIV: one(lax.div),
        ew.NEG: one(lax.neg),
        ew.ABS: one(lax.abs),
        ew.SIGN: one(_sign),
        ew.SQRT: one(lax.sqrt),
        ew.RSQRT: one(lambda x: lax.div(constant(x, 1), lax.sqrt(x))),
        ew.EXP: one(widened(lax.exp)),
        ew.EXPM1: one(widened(lax.expm1)),
        ew.LOG: one(widened(lax.log)),
        ew.LOG1P: one(widened(log1p)),
        ew.SIN: one(widened(lax.sin)),
        ew.COS: one(widened(lax.cos)),
        ew.TANH: one(widened(lax.tanh)),
        ew.LOGISTIC: one(widened(lax.logistic)),
        ew.ERF: one(widened(lax.erf)),
        ew.POW: one(widened(lax.pow)),
        ew.INTEGER_POW: _integer_pow,
        ew.MAX: one(lax.max),
        ew.MIN: one(lax.min),
        ew.CLAMP: one(_clamp),
        ew.LT: _compared(lax.lt),
        ew.LE: _compared(lax.le),
        ew.GT: _compared(lax.gt),
        ew.GE: _compared(lax.ge),
        ew.EQ: _compared(lax.eq),
        ew.NE: _compared(lax.ne),
        ew.LOGICAL_AND: one(lax.bitwise_and),
        ew.LOGICAL_OR: one(lax.bitwise_or),
        ew.LOGICAL_XOR: one(lax.bitwise_xor),
        ew.LOGICAL_NOT: one(lax.bitwise_not),
        ew.SELECT: one(lax.select),
        ew.CONVERT: _convert,
        ew.STOP_GRADIENT: one(lambda x: x),
        remat.CHECKPOINT_NAME: lambda params, made, x: checkpoint_name(x, params.name),
        parts.REAL: one(lax.real),
        parts.IMAG: one(lax.imag),
        parts.COMPLEX: one(lax.complex),
        parts.CONJ: one(lax.conj),
        chain.CHAIN_MUL: one(chain_mul),
        el.SQUARE: one(lambda x: lax.mul(x, x)),
        rounding.FLOOR: one(lax.floor),
        rounding.CEIL: one(lax.ceil),
        rounding.TRUNC: one(_trunc),
        rounding.ROUND: _round,
        rounding.IS_FINITE: one(_is_finite),
        rounding.IS_NAN: one(lambda x: lax.ne(x, x)),
        rounding.SIGNBIT: one(_signbit),
    }
