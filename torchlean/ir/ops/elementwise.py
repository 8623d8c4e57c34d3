"""Elementwise ops: arithmetic, transcendental functions, comparisons, logic, selection, conversion.

Derivatives at kinks: abs'(0) = 0, max and min split ties ½–½, and so does clamp, which is made of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import DType, Kind, as_dtype
from torchlean.ir.op import NO_PARAMS, NoParams, Op, TypeFault
from torchlean.ir.ops.create import full_like, zeros_of
from torchlean.ir.ops.families import (
    BOOLEANS,
    FIELDS,
    FLOATS,
    INEXACT,
    NUMBERS,
    ORDERED,
    SIGNED,
    SIGNED_FIELDS,
    apply1,
    binary,
    comparison,
    equal_operands,
    kind_fault,
    unary,
)
from torchlean.ir.ops.parts import REAL
from torchlean.ir.rules import Custom, Elementwise, Linear, NoTangent, Pointwise, Slope, Unit
from torchlean.ir.types import TensorType
from torchlean.record import record

# -- arithmetic --------------------------------------------------------------------------------------------------------
ADD = binary(
    "add",
    denote=lambda a, x, y: a.add(x, y),
    partials=(Unit.PLUS, Unit.PLUS),
    kinds=FIELDS,
    doc="x + y, rounded once.",
)
SUB = binary(
    "sub",
    denote=lambda a, x, y: a.sub(x, y),
    partials=(Unit.PLUS, Unit.MINUS),
    kinds=FIELDS,
    doc="x - y, rounded once.",
)
MUL = binary(
    "mul",
    denote=lambda a, x, y: a.mul(x, y),
    partials=(lambda p, z, x, y: y, lambda p, z, x, y: x),
    kinds=FIELDS,
    doc="x · y, rounded once.",
)
DIV = binary(
    "div",
    denote=lambda a, x, y: a.div(x, y),
    partials=(
        lambda p, z, x, y: apply1(DIV, full_like(y, 1), y),
        lambda p, z, x, y: apply1(NEG, apply1(DIV, z, y)),
    ),
    kinds=INEXACT,
    doc="x / y, rounded once; IEEE at zero.",
    slope=Slope.POLE,
)
NEG = unary("neg", denote=lambda a, x: a.neg(x), partial=Unit.MINUS, kinds=SIGNED_FIELDS, doc="-x.")
ABS = unary(
    "abs", denote=lambda a, x: a.abs(x), partial=lambda p, y, x: apply1(SIGN, x), kinds=SIGNED, doc="|x|; abs'(0) = 0."
)
SIGN = unary(
    "sign",
    denote=lambda a, x: a.sign(x),
    partial=NoTangent("sign is locally constant"),
    kinds=SIGNED,
    doc="-1, 0 or 1; NaN stays NaN.",
)
SQRT = unary(
    "sqrt",
    denote=lambda a, x: a.sqrt(x),
    partial=lambda p, y, x: apply1(DIV, full_like(y, 0.5), y),
    kinds=INEXACT,
    doc="Square root, correctly rounded.",
    slope=Slope.POLE,
)
RSQRT = unary(
    "rsqrt",
    denote=lambda a, x: a.div(a.constant(np.ones(np.shape(x), dtype=x.dtype)), a.sqrt(x)),
    partial=lambda p, y, x: apply1(DIV, apply1(MUL, full_like(y, -0.5), y), x),
    kinds=INEXACT,
    doc="1 / sqrt(x), two roundings.",
    slope=Slope.POLE,
)

# -- transcendental ----------------------------------------------------------------------------------------------------
EXP = unary(
    "exp",
    denote=lambda a, x: a.exp(x),
    partial=lambda p, y, x: y,
    kinds=INEXACT,
    doc="e to the power x.",
    slope=Slope.OVERFLOWS,
)
EXPM1 = unary(
    "expm1",
    denote=lambda a, x: a.expm1(x),
    partial=lambda p, y, x: apply1(ADD, y, full_like(y, 1)),
    kinds=INEXACT,
    doc="e to the power x, minus 1, accurate near 0.",
    slope=Slope.OVERFLOWS,
)
LOG = unary(
    "log",
    denote=lambda a, x: a.log(x),
    partial=lambda p, y, x: apply1(DIV, full_like(x, 1), x),
    kinds=INEXACT,
    doc="Natural logarithm.",
    slope=Slope.POLE,
)
LOG1P = unary(
    "log1p",
    denote=lambda a, x: a.log1p(x),
    partial=lambda p, y, x: apply1(DIV, full_like(x, 1), apply1(ADD, x, full_like(x, 1))),
    kinds=INEXACT,
    doc="log(1 + x), accurate near 0.",
    slope=Slope.POLE,
)
SIN = unary(
    "sin", denote=lambda a, x: a.sin(x), partial=lambda p, y, x: apply1(COS, x), kinds=INEXACT, doc="Sine, radians."
)
COS = unary(
    "cos",
    denote=lambda a, x: a.cos(x),
    partial=lambda p, y, x: apply1(NEG, apply1(SIN, x)),
    kinds=INEXACT,
    doc="Cosine, radians.",
)
TANH = unary(
    "tanh",
    denote=lambda a, x: a.tanh(x),
    partial=lambda p, y, x: apply1(SUB, full_like(y, 1), apply1(MUL, y, y)),
    kinds=INEXACT,
    doc="Hyperbolic tangent.",
)
LOGISTIC = unary(
    "logistic",
    denote=lambda a, x: a.logistic(x),
    partial=lambda p, y, x: apply1(MUL, y, apply1(SUB, full_like(y, 1), y)),
    kinds=FLOATS,
    doc="1 / (1 + exp(-x)), written with exp(-|x|) so that it never overflows.",
)
ERF = unary(
    "erf",
    denote=lambda a, x: a.erf(x),
    partial=lambda p, y, x: apply1(
        MUL, full_like(x, 2 / math.sqrt(math.pi)), apply1(EXP, apply1(NEG, apply1(MUL, x, x)))
    ),
    kinds=FLOATS,
    doc="Error function, 2/√π ∫₀ˣ exp(-t²) dt.",
)


def _pow_dx(params: Any, z: Any, x: Any, y: Any) -> Any:
    """y · x^(y-1), and 0 where y = 0."""
    one = full_like(y, 1)
    slope = apply1(MUL, y, apply1(POW, x, apply1(SUB, y, one)))
    zero = full_like(y, 0)
    return bind1(SELECT, NO_PARAMS, apply1(EQ, y, zero), zero, slope)


def _pow_dy(params: Any, z: Any, x: Any, y: Any) -> Any:
    """z · log x, and 0 where x = 0 and y ≥ 0 (the limit); for complex numbers where x = 0."""
    zero = full_like(x, 0)
    at_zero = apply1(EQ, x, zero)
    if not type_of(x).dtype.is_complex:
        at_zero = apply1(LOGICAL_AND, at_zero, apply1(GE, y, zero))
    slope = apply1(MUL, z, apply1(LOG, x))
    return bind1(SELECT, NO_PARAMS, at_zero, zero, slope)


POW = binary(
    "pow",
    denote=lambda a, x, y: a.pow(x, y),
    partials=(_pow_dx, _pow_dy),
    kinds=INEXACT,
    doc="x to the power y; NaN for negative x and non-integer y.",
    slope=Slope.POLE,
)


@record
class Exponent:
    """`exponent`: any Python integer; negative ones need a float operand."""

    exponent: int


def _integer_pow_type(params: Exponent, x: TensorType) -> tuple[TensorType, ...]:
    allowed = INEXACT if params.exponent < 0 else FIELDS
    if x.dtype.kind not in allowed:
        raise kind_fault(x.dtype, allowed)
    return (x,)


def _integer_pow_value(algebra: Any, params: Exponent, x: Any) -> tuple[Any, ...]:
    """Repeated squaring from the lowest bit: the multiplications and their order are part of the definition."""
    array = np.shape(x)
    remaining = abs(params.exponent)
    result: Any = None
    square = x
    while remaining:
        if remaining & 1:
            result = square if result is None else algebra.mul(result, square)
        remaining >>= 1
        if remaining:
            square = algebra.mul(square, square)
    carrier = x.dtype
    if result is None:
        return (algebra.constant(np.ones(array, dtype=carrier)),)
    if params.exponent < 0:
        return (algebra.div(algebra.constant(np.ones(array, dtype=carrier)), result),)
    return (result,)


def _integer_pow_partial(params: Exponent, y: Any, x: Any) -> Any:
    n = params.exponent
    if n == 0:
        return None
    if n == 1:
        return Unit.PLUS
    power = x if n == 2 else bind1(INTEGER_POW, Exponent(n - 1), x)
    return apply1(MUL, full_like(x, n), power)


INTEGER_POW = Op(
    name="integer_pow",
    params=Exponent,
    type_rule=_integer_pow_type,
    denote=_integer_pow_value,
    diff=Elementwise((_integer_pow_partial,), lambda params: Slope.POLE if params.exponent < 0 else Slope.OVERFLOWS),
    batch=Pointwise(),
    reduces=False,
    doc="x to a fixed integer power by repeated squaring.",
)


# -- order -------------------------------------------------------------------------------------------------------------
def _share(wins: Op) -> Any:
    """1 where x wins over y, ½ where they tie, 0 where it loses (or either is NaN)."""

    def partial(params: Any, z: Any, x: Any, y: Any) -> Any:
        zero, half, one = full_like(x, 0), full_like(x, 0.5), full_like(x, 1)
        tied = bind1(SELECT, NO_PARAMS, apply1(EQ, x, y), half, zero)
        return bind1(SELECT, NO_PARAMS, apply1(wins, x, y), one, tied)

    return partial


LT = comparison("lt", "x < y.", kinds=ORDERED)
LE = comparison("le", "x ≤ y.", kinds=ORDERED)
GT = comparison("gt", "x > y.", kinds=ORDERED)
GE = comparison("ge", "x ≥ y.", kinds=ORDERED)
EQ = comparison("eq", "x = y; NaN equals nothing.")
NE = comparison("ne", "x ≠ y; NaN differs from everything.")
_LARGER, _SMALLER = _share(GT), _share(LT)
MAX = binary(
    "max",
    denote=lambda a, x, y: a.max(x, y),
    partials=(_LARGER, _SMALLER),
    kinds=NUMBERS,
    doc="The larger; NaN if either is NaN; of equal zeros the first. Ties split the derivative ½-½.",
)
MIN = binary(
    "min",
    denote=lambda a, x, y: a.min(x, y),
    partials=(_SMALLER, _LARGER),
    kinds=NUMBERS,
    doc="The smaller; NaN if either is NaN; of equal zeros the first. Ties split the derivative ½-½.",
)


def _clamp_type(params: Any, low: TensorType, x: TensorType, high: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.kind not in NUMBERS:
        raise kind_fault(x.dtype, NUMBERS)
    equal_operands(low, x, high)
    return (x,)


def _clamp_dx(params: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    return apply1(MUL, _LARGER(params, y, x, low), _SMALLER(params, y, apply1(MAX, x, low), high))


def _clamp_dlow(params: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    return apply1(MUL, _SMALLER(params, y, x, low), _SMALLER(params, y, apply1(MAX, x, low), high))


def _clamp_dhigh(params: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    return _LARGER(params, y, apply1(MAX, x, low), high)


CLAMP = Op(
    name="clamp",
    params=NoParams,
    type_rule=_clamp_type,
    denote=lambda algebra, params, low, x, high: (algebra.min(algebra.max(x, low), high),),
    diff=Elementwise((_clamp_dlow, _clamp_dx, _clamp_dhigh)),
    batch=Pointwise(),
    reduces=False,
    doc="min(max(x, low), high), and the derivative of that: 1 inside, ½ at a bound, 0 beyond.",
)

# -- logic -------------------------------------------------------------------------------------------------------------
_LOCALLY_CONSTANT = NoTangent("a boolean has no tangent")


def _logic(name: str, function: Callable[..., Any], doc: str) -> Op:
    return binary(
        name, denote=lambda a, x, y: a.exact(function, x, y), partials=_LOCALLY_CONSTANT, kinds=BOOLEANS, doc=doc
    )


LOGICAL_AND = _logic("logical_and", np.logical_and, "x and y.")
LOGICAL_OR = _logic("logical_or", np.logical_or, "x or y.")
LOGICAL_XOR = _logic("logical_xor", np.logical_xor, "x or y, not both.")
LOGICAL_NOT = unary(
    "logical_not",
    denote=lambda a, x: a.exact(np.logical_not, x),
    partial=_LOCALLY_CONSTANT,
    kinds=BOOLEANS,
    doc="not x.",
)


def _select_type(params: Any, chosen: TensorType, x: TensorType, y: TensorType) -> tuple[TensorType, ...]:
    if chosen.dtype.kind is not Kind.BOOL:
        raise kind_fault(chosen.dtype, BOOLEANS)
    if chosen.shape != x.shape:
        raise TypeFault(
            "the condition and the branches differ in shape",
            expected=f"a condition of shape {list(x.shape)}",
            got=str(chosen),
            fix="broadcast one of them (ops.broadcast_to)",
        )
    equal_operands(x, y)
    return (x,)


def _select_transpose(params: Any, ct: Any, chosen: Any, x: Any, y: Any) -> tuple[Any, ...]:
    zero = zeros_of(type_of(ct))
    return (
        None,
        bind1(SELECT, NO_PARAMS, chosen, ct, zero),
        bind1(SELECT, NO_PARAMS, chosen, zero, ct),
    )


SELECT = Op(
    name="select",
    params=NoParams,
    type_rule=_select_type,
    denote=lambda algebra, params, chosen, x, y: (algebra.select(chosen, x, y),),
    diff=Linear(transpose=_select_transpose, wrt=(1, 2)),
    batch=Pointwise(),
    reduces=False,
    doc="x where the condition holds, else y. Only the chosen branch receives the cotangent.",
)


# -- conversion --------------------------------------------------------------------------------------------------------
@record
class Target:
    """`dtype`: the dtype of the result."""

    dtype: DType


def _convert_type(params: Target, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.is_complex and not (params.dtype.is_complex or params.dtype.is_bool):
        raise TypeFault(
            f"a complex number is not converted to {params.dtype.short}",
            expected="a complex dtype, or bool",
            got=params.dtype.short,
            fix="take a part first: ops.real(x), ops.imag(x) or ops.abs(x)",
        )
    return (TensorType(x.shape, params.dtype),)


def _convert_jvp(params: Target, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    (tangent,) = tangents
    if tangent is None or not params.dtype.is_inexact:
        return (None,)
    return (bind1(CONVERT, params, tangent),)


def _convert_vjp(params: Target, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    source = type_of(primals[0]).dtype
    if not (source.is_inexact and params.dtype.is_inexact):
        return (None,)
    ct = cotangents[0]
    if params.dtype.is_complex and not source.is_complex:
        ct = bind1(REAL, NO_PARAMS, ct)
    return (ct if type_of(ct).dtype is source else bind1(CONVERT, Target(source), ct),)


CONVERT = Op(
    name="convert",
    params=Target,
    type_rule=_convert_type,
    denote=lambda algebra, params, x: (algebra.convert(x, params.dtype.carrier),),
    diff=Custom(jvp=_convert_jvp, vjp=_convert_vjp),
    batch=Pointwise(),
    reduces=False,
    doc=(
        "Change dtype, rounding once to nearest even; float to integer truncates and saturates, NaN becomes 0; complex "
        "to real is refused. The 8-bit formats have no tangent."
    ),
)


def _stop_type(params: Any, x: TensorType) -> tuple[TensorType, ...]:
    return (x,)


STOP_GRADIENT = Op(
    name="stop_gradient",
    params=NoParams,
    type_rule=_stop_type,
    denote=lambda algebra, params, x: (x,),
    diff=NoTangent("stop_gradient was asked for"),
    batch=Pointwise(),
    reduces=False,
    doc="The identity, with no derivative.",
)


def convert(x: Any, dtype: Any) -> Any:
    """`x` as `dtype`; no node when it has that dtype already."""
    wanted = as_dtype(dtype)
    if type_of(x).dtype is wanted and hasattr(x, "type"):
        return x
    return bind1(CONVERT, Target(wanted), x)


def stop_gradient(x: Any) -> Any:
    """`x` as a constant to every derivative."""
    return bind1(STOP_GRADIENT, NO_PARAMS, x)


OPS = (
    ADD,
    SUB,
    MUL,
    DIV,
    NEG,
    ABS,
    SIGN,
    SQRT,
    RSQRT,
    EXP,
    EXPM1,
    LOG,
    LOG1P,
    SIN,
    COS,
    TANH,
    LOGISTIC,
    ERF,
    POW,
    INTEGER_POW,
    MAX,
    MIN,
    CLAMP,
    LT,
    LE,
    GT,
    GE,
    EQ,
    NE,
    LOGICAL_AND,
    LOGICAL_OR,
    LOGICAL_XOR,
    LOGICAL_NOT,
    SELECT,
    CONVERT,
    STOP_GRADIENT,
)
