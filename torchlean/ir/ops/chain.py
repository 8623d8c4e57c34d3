"""chain_mul: a tangent (or cotangent) times a local derivative, with the zeros of the derivative policy.

The chain rule multiplies by slopes that may be infinite or undefined. What a dead branch sends back is exactly 0, and
0 · ∞ would make it NaN. The transforms emit this product where a slope may not be finite (`Slope` in `ir/rules.py`),
and the plain one elsewhere; wherever all is finite the two have the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.op import NO_PARAMS, NoParams, Op
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.elementwise import ADD, EQ, LOGICAL_AND, MUL, NE, SELECT, stop_gradient
from torchlean.ir.ops.families import INEXACT, apply1, equal_operands, kind_fault
from torchlean.ir.ops.parts import CONJ
from torchlean.ir.rules import Custom, Pointwise
from torchlean.ir.types import TensorType


def _type(params: NoParams, t: TensorType, slope: TensorType) -> tuple[TensorType, ...]:
    if t.dtype.kind not in INEXACT:
        raise kind_fault(t.dtype, INEXACT)
    equal_operands(t, slope)
    return (t,)


def _value(algebra: Any, params: NoParams, t: Any, slope: Any) -> tuple[Any, ...]:
    zero = algebra.constant(np.zeros(np.shape(t), dtype=t.dtype))
    product = algebra.mul(t, slope)
    settled = algebra.exact(
        lambda undefined, nothing, flat, known: undefined & (nothing | (flat & known)),
        algebra.compare("ne", product, product),
        algebra.compare("eq", t, zero),
        algebra.compare("eq", slope, zero),
        algebra.compare("eq", t, t),
    )
    return (algebra.select(settled, zero, product),)


def _factors(primals: Any, outputs: Any) -> tuple[Any, Any]:
    """Both factors, and 0 for both where the rule of zeros gave the product: there its slope is declared to be 0."""
    (t, slope), (y,) = primals, outputs
    raw = apply1(MUL, stop_gradient(t), stop_gradient(slope))
    held = stop_gradient(y)
    settled = apply1(LOGICAL_AND, apply1(NE, raw, raw), apply1(EQ, held, held))
    zero = zeros_of(type_of(t))
    return (
        bind1(SELECT, NO_PARAMS, settled, zero, t),
        bind1(SELECT, NO_PARAMS, settled, zero, slope),
    )


def _jvp(params: NoParams, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    t, slope = _factors(primals, outputs)
    dt, dslope = tangents
    left = None if dt is None else apply1(CHAIN_MUL, dt, slope)
    right = None if dslope is None else apply1(CHAIN_MUL, t, dslope)  # a zero in t wins, whatever its slope does
    return (left if right is None else right if left is None else apply1(ADD, left, right),)


def _vjp(params: NoParams, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    t, slope = _factors(primals, outputs)
    (ct,) = cotangents
    return apply1(CHAIN_MUL, ct, _conjugated(slope)), apply1(CHAIN_MUL, _conjugated(t), ct)


def _conjugated(x: Any) -> Any:
    return apply1(CONJ, x) if type_of(x).dtype.is_complex else x


CHAIN_MUL = Op(
    name="chain_mul",
    params=NoParams,
    type_rule=_type,
    denote=_value,
    diff=Custom(jvp=_jvp, vjp=_vjp),
    batch=Pointwise(),
    reduces=False,
    doc="t · slope, but 0 for 0 times ∞ or NaN, and for ±∞ times a slope of 0; a t that is NaN stays NaN.",
)

OPS = (CHAIN_MUL,)
