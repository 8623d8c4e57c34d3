"""Composites whose plain formula has a wrong slope somewhere: logaddexp, log1mexp, xlogy, entr, sinc, euclidean_norm.

Each states its derivative, made of ops that are right again, so every order follows: an even tie of logaddexp, the
removable singularity of sinc, the limit x·log x → 0, the kink of a norm at 0.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from torchlean.ir.builder import bind1
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import functions as f
from torchlean.ir.ops import shaping
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.composite import Composed, Composite, call, composite
from torchlean.ir.ops.cut import leading
from torchlean.ir.ops.elementwise import stop_gradient
from torchlean.ir.ops.pointwise import round
from torchlean.ir.ops.promote import pair, tensor
from torchlean.ir.ops.spread import kept_axes, shift_axes
from torchlean.ir.rules import Custom, Elementwise, Partial, Rule, Slope


def _stated(
    name: str, function: Callable[..., Any], partials: tuple[Partial, ...], slope: Slope, doc: str
) -> Composite:
    """An elementwise composite with its own partials instead of those of its body.

    Mapping calls it again for the larger operands, so that its partials outlive the mapping.
    """
    derived = composite(name, function, reduces=False, reduces_in_gradient=False, doc=doc)

    def batch(params: Composed, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
        spread = [leading(x, size, here) for x, here in zip(operands, mapped, strict=True)]
        return (call(made, *spread, **dict(params.attributes)),)

    made = dataclasses.replace(derived, diff=Elementwise(partials, slope), batch=Rule(batch), gradient=None)
    return made


# -- sums of exponentials ----------------------------------------------------------------------------------------------
def _logaddexp(x: Any, y: Any) -> Any:
    apart = f.select(f.eq(x, y), 0, f.neg(f.abs(x - y)))
    return f.max(x, y) + f.log1p(f.exp(apart))


def _share(params: Any, z: Any, x: Any, y: Any) -> Any:
    """e^x / (e^x + e^y), ½ for equal infinities, and 0 where both are -∞: nothing added to nothing has no influence."""
    same = f.logical_and(f.eq(x, y), f.eq(f.abs(x), math.inf))
    return f.select(f.eq(z, -math.inf), 0, f.logistic(f.select(same, 0, x - y)))


LOGADDEXP = _stated(
    "logaddexp",
    _logaddexp,
    (_share, lambda params, z, x, y: _share(params, z, y, x)),
    Slope.FINITE,
    "log(e^x + e^y) without overflow; the derivatives are the shares of the two in the sum.",
)


def logaddexp(x: Any, y: Any) -> Any:
    """log(e^x + e^y), broadcast; both slopes ½ where x = y, 0 where both are -∞."""
    return call(LOGADDEXP, *pair("logaddexp", x, y))


def _log1mexp(x: Any) -> Any:
    """Of the two formulas the one that does not cancel [Mächler 2012, eq. 7]."""
    near = f.lt(x, math.log(2))
    small = f.log(f.neg(f.expm1(f.neg(f.select(near, x, 1)))))
    return f.select(near, small, f.log1p(f.neg(f.exp(f.neg(f.select(near, 1, x))))))


LOG1MEXP = _stated(
    "log1mexp",
    _log1mexp,
    (lambda params, y, x: f.div(1, f.expm1(x)),),
    Slope.POLE,
    "log(1 - e^-x) for x > 0, accurate at both ends; -∞ at 0.",
)


def log1mexp(x: Any) -> Any:
    """log(1 − e^−x) elementwise, for x ≥ 0 (NaN below)."""
    return call(LOG1MEXP, tensor(x))


# -- entropies ---------------------------------------------------------------------------------------------------------
def _xlogy(x: Any, y: Any) -> Any:
    nothing = f.logical_and(f.eq(x, 0), f.eq(y, y))
    return f.select(nothing, 0, x * f.log(y))


def _xlogy_dy(params: Any, z: Any, x: Any, y: Any) -> Any:
    """x / y, and 0 at the origin."""
    return x / f.select(f.logical_and(f.eq(x, 0), f.eq(y, 0)), 1, y)


XLOGY = _stated(
    "xlogy",
    _xlogy,
    (lambda params, z, x, y: f.log(y), _xlogy_dy),
    Slope.POLE,
    "x · log y, and 0 where x = 0 whatever y is (NaN stays).",
)


def xlogy(x: Any, y: Any) -> Any:
    """x · log y, broadcast; 0 where x = 0."""
    return call(XLOGY, *pair("xlogy", x, y))


def _entr(x: Any) -> Any:
    return f.select(f.lt(x, 0), -math.inf, f.neg(_xlogy(x, x)))


ENTR = _stated(
    "entr",
    _entr,
    (lambda params, y, x: f.neg(f.log(x)) - 1.0,),
    Slope.POLE,
    "-x · log x, 0 at 0, -∞ below; the slope at 0 is ∞.",
)


def entr(x: Any) -> Any:
    """−x · log x elementwise: the summand of an entropy."""
    return call(ENTR, tensor(x))


# -- sinc --------------------------------------------------------------------------------------------------------------
_TERMS = 14  # of the series for |x| < ½: the last is below 2⁻⁶⁰ of the first for every order up to 6
_NEAR = 0.5


def _sinc(x: Any, *, order: int) -> Any:
    """The derivative of that order of sin(πx)/(πx).

    Near 0 its power series, Σ (-1)ʲ π²ʲ x²ʲ⁻ᵏ (2j)! / ((2j+1)! (2j-k)!). Elsewhere, from x·S₀ = sin(πx)/π by Leibniz'
    rule, Sₖ = (πᵏ⁻¹ sin(πx + kπ/2) - k·Sₖ₋₁) / x.
    """
    near = f.lt(f.abs(x), _NEAR)
    inside, outside = f.select(near, x, 0), f.select(near, 1, x)
    angle = (outside - 2.0 * round(outside * 0.5)) * math.pi  # within a period, exactly: πx may overflow
    waves = (f.sin(angle), f.cos(angle), f.neg(f.sin(angle)), f.neg(f.cos(angle)))
    far = waves[0] / math.pi / outside
    for k in range(1, order + 1):
        far = (waves[k % 4] * math.pi ** (k - 1) - far * float(k)) / outside
    return f.select(near, _sinc_series(inside, order), far)


def _sinc_series(x: Any, order: int) -> Any:
    first = (order + 1) // 2
    factors = [
        (-1) ** j * math.pi ** (2 * j) / ((2 * j + 1) * math.factorial(2 * j - order))
        for j in range(first, first + _TERMS)
    ]
    squared = x * x
    total: Any = f.mul(squared, 0.0) + factors[-1]
    for factor in reversed(factors[:-1]):
        total = total * squared + factor
    return total * x if order % 2 else total


def _sinc_slope(params: Composed, y: Any, x: Any) -> Any:
    return call(SINC, x, order=params.attribute("order") + 1)


SINC = _stated(
    "sinc",
    _sinc,
    (_sinc_slope,),
    Slope.FINITE,
    "A derivative (`order`) of sin(πx)/(πx), which is 1 at 0; smooth there to every order.",
)


def sinc(x: Any) -> Any:
    """sin(πx) / (πx) elementwise, 1 at 0."""
    return call(SINC, tensor(x), order=0)


# -- norm --------------------------------------------------------------------------------------------------------------
def _euclidean_norm(x: Any, *, axes: tuple[int, ...]) -> Any:
    shape = x.type.shape
    kept = kept_axes(len(shape), axes)
    if any([shape[axis] == 0 for axis in axes]):
        return shaping.sum(x, axes)
    top = stop_gradient(shaping.amax(f.abs(x), axes))
    scale = f.select(f.logical_and(f.lt(top, math.inf), f.gt(top, 0)), top, 1)
    scaled = x / shaping.broadcast(scale, shape, kept)
    return f.sqrt(shaping.sum(scaled * scaled, axes)) * scale


def _direction(params: Composed, x: Any, norm: Any) -> Any:
    """x / ‖x‖, and 0 where x is 0: the least element of the subdifferential, which is the unit ball."""
    shape, axes = x.type.shape, params.attribute("axes")
    nothing = f.eq(norm, 0)
    spread = shaping.broadcast(f.select(nothing, 1, norm), shape, kept_axes(len(shape), axes))
    return f.select(shaping.broadcast(nothing, shape, kept_axes(len(shape), axes)), 0, x / spread)


def _norm_jvp(params: Composed, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    (x,), (norm,), (tangent,) = primals, outputs, tangents
    if tangent is None:
        return (None,)
    return (shaping.sum(_direction(params, x, norm) * tangent, params.attribute("axes")),)


def _norm_vjp(params: Composed, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    (x,), (norm,), (ct,) = primals, outputs, cotangents
    shape = x.type.shape
    spread = shaping.broadcast(ct, shape, kept_axes(len(shape), params.attribute("axes")))
    return (bind1(CHAIN_MUL, NO_PARAMS, spread, _direction(params, x, norm)),)


EUCLIDEAN_NORM = dataclasses.replace(
    composite(
        "euclidean_norm",
        _euclidean_norm,
        reduces=True,
        reduces_in_gradient=True,
        doc="√Σx² over `axes`, its terms scaled by the largest, so that nothing overflows on the way; slope 0 at 0.",
    ),
    diff=Custom(jvp=_norm_jvp, vjp=_norm_vjp),
    batch=Rule(
        lambda params, size, operands, mapped: (
            call(EUCLIDEAN_NORM, operands[0], axes=shift_axes(params.attribute("axes"))),
        )
    ),
    gradient=None,
)


def euclidean_norm(x: Any, axis: int | tuple[int, ...] | None = None) -> Any:
    """√Σx² over `axis` (all axes when None) of real numbers. Its square has the derivatives of Σx², at 0 too."""
    x = tensor(x)
    return call(EUCLIDEAN_NORM, x, axes=shaping.normal_axes("euclidean_norm", axis, x.type))


COMPOSITES = (LOGADDEXP, LOG1MEXP, XLOGY, ENTR, SINC, EUCLIDEAN_NORM)
