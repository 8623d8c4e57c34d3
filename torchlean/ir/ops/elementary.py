"""Elementary and special functions of one number beyond those in `elementwise.py`.

Those of complex numbers are NumPy's principal branches. Derivatives at poles are infinite, and annihilated by a zero
(docs/derivatives.md); at a complex branch point they are IEEE's (0/0 is NaN).
"""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir.builder import bind1
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.ops.create import full_like
from torchlean.ir.ops.elementwise import ADD, DIV, EXP, MUL, NEG, SQRT, SUB
from torchlean.ir.ops.families import FIELDS, FLOATS, INEXACT, apply1, kind_fault, unary
from torchlean.ir.rules import Elementwise, Partial, Pointwise, Slope
from torchlean.ir.types import TensorType
from torchlean.record import record


def _one(x: Any) -> Any:
    return full_like(x, 1)


def _over(x: Any, y: Any) -> Any:
    return apply1(DIV, x, y)


def _squared(x: Any) -> Any:
    return apply1(MUL, x, x)


def _scaled(x: Any, factor: float) -> Any:
    return apply1(MUL, x, full_like(x, factor))


def _function(name: str, partial: Partial, doc: str, *, complex: bool = True, slope: Slope = Slope.FINITE) -> Op:
    """An op whose meaning is the algebra's function of that name."""
    return unary(
        name,
        denote=lambda a, x: a.function(name, x),
        partial=partial,
        kinds=INEXACT if complex else FLOATS,
        doc=doc,
        slope=slope,
    )


def _root_of(x: Any, shift: float, sign: Op) -> Any:
    """sqrt(shift ± x²), factored so that x² does not overflow: sqrt(1 - x)·sqrt(1 + x) and sqrt(x - 1)·sqrt(x + 1)."""
    one = _one(x)
    first = apply1(SUB, one, x) if shift > 0 else apply1(SUB, x, one)
    return apply1(MUL, apply1(SQRT, first), apply1(SQRT, apply1(sign, one, x)))


EXP2 = _function("exp2", lambda p, y, x: _scaled(y, math.log(2)), "2 to the power x.", slope=Slope.OVERFLOWS)
LOG2 = _function(
    "log2", lambda p, y, x: _over(full_like(x, 1 / math.log(2)), x), "Logarithm to base 2.", slope=Slope.POLE
)
LOG10 = _function(
    "log10", lambda p, y, x: _over(full_like(x, 1 / math.log(10)), x), "Logarithm to base 10.", slope=Slope.POLE
)
CBRT = _function(
    "cbrt", lambda p, y, x: _over(full_like(y, 1 / 3), _squared(y)), "Cube root.", complex=False, slope=Slope.POLE
)
TAN = _function("tan", lambda p, y, x: apply1(ADD, _one(y), _squared(y)), "Tangent, radians.", slope=Slope.OVERFLOWS)
ASIN = _function(
    "asin", lambda p, y, x: _over(_one(x), _root_of(x, 1, ADD)), "Arc sine, in [-π/2, π/2].", slope=Slope.POLE
)
ACOS = _function(
    "acos", lambda p, y, x: _over(full_like(x, -1), _root_of(x, 1, ADD)), "Arc cosine, in [0, π].", slope=Slope.POLE
)
ATAN = _function(
    "atan", lambda p, y, x: _over(_one(x), apply1(ADD, _one(x), _squared(x))), "Arc tangent, in [-π/2, π/2]."
)
SINH = _function("sinh", lambda p, y, x: apply1(COSH, x), "Hyperbolic sine.", slope=Slope.OVERFLOWS)
COSH = _function("cosh", lambda p, y, x: apply1(SINH, x), "Hyperbolic cosine.", slope=Slope.OVERFLOWS)
ASINH = _function(
    "asinh",
    lambda p, y, x: _over(_one(x), apply1(SQRT, apply1(ADD, _one(x), _squared(x)))),
    "Inverse hyperbolic sine.",
)
ACOSH = _function(
    "acosh", lambda p, y, x: _over(_one(x), _root_of(x, -1, ADD)), "Inverse hyperbolic cosine.", slope=Slope.POLE
)
ATANH = _function(
    "atanh",
    lambda p, y, x: _over(_one(x), apply1(SUB, _one(x), _squared(x))),
    "Inverse hyperbolic tangent.",
    slope=Slope.POLE,
)
ERFC = _function(
    "erfc",
    lambda p, y, x: _scaled(apply1(EXP, apply1(NEG, _squared(x))), -2 / math.sqrt(math.pi)),
    "1 - erf(x), without cancellation.",
    complex=False,
)
ERF_INV = _function(
    "erf_inv",
    lambda p, y, x: _scaled(apply1(EXP, _squared(y)), math.sqrt(math.pi) / 2),
    "The y with erf(y) = x; NaN outside [-1, 1].",
    complex=False,
    slope=Slope.POLE,
)
LGAMMA = _function(
    "lgamma", lambda p, y, x: apply1(DIGAMMA, x), "log |Γ(x)|; +∞ at the poles.", complex=False, slope=Slope.POLE
)
DIGAMMA = _function(
    "digamma",
    lambda p, y, x: bind1(POLYGAMMA, Order(1), x),
    "d/dx log Γ(x); NaN at negative poles.",
    complex=False,
    slope=Slope.POLE,
)
SQUARE = unary(
    "square",
    denote=lambda a, x: a.mul(x, x),
    partial=lambda p, y, x: _scaled(x, 2),
    kinds=FIELDS,
    doc="x · x.",
    slope=Slope.OVERFLOWS,
)


@record
class Order:
    """`order`: how often digamma is differentiated; from 1 to 64."""

    order: int


def _polygamma_type(params: Order, x: TensorType) -> tuple[TensorType, ...]:
    if not x.dtype.is_float:
        raise kind_fault(x.dtype, FLOATS)
    if not 1 <= params.order <= 64:
        raise TypeFault(
            f"the order {params.order} is out of range",
            expected="an order in [1, 64]",
            got=str(params.order),
            fix="order 0 is ops.digamma",
        )
    return (x,)


POLYGAMMA = Op(
    name="polygamma",
    params=Order,
    type_rule=_polygamma_type,
    denote=lambda algebra, params, x: (algebra.polygamma(params.order, x),),
    diff=Elementwise((lambda params, y, x: bind1(POLYGAMMA, Order(params.order + 1), x),), Slope.POLE),
    batch=Pointwise(),
    reduces=False,
    doc="The derivative of digamma of the given order.",
)

OPS = (
    EXP2,
    LOG2,
    LOG10,
    CBRT,
    TAN,
    ASIN,
    ACOS,
    ATAN,
    SINH,
    COSH,
    ASINH,
    ACOSH,
    ATANH,
    ERFC,
    ERF_INV,
    LGAMMA,
    DIGAMMA,
    POLYGAMMA,
    SQUARE,
)


def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma, n ≥ 0."""
    return apply1(DIGAMMA, x) if n == 0 else bind1(POLYGAMMA, Order(int(n)), x)
