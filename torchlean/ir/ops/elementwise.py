"""Elementwise ops: arithmetic, transcendental functions, comparisons, logic, selection, conversion.

Derivatives at kinks: abs'(0) = 0, max and min split ties ½–½, clamp' = 0 at and beyond its bounds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import DType, Kind, as_dtype
from torchlean.ir.op import NO_PARAMS, NoParams, Op, TypeFault
from torchlean.ir.ops.create import full_like, zeros_of
from torchlean.ir.ops.families import (
    BOOLEANS,
    FLOATS,
    NUMBERS,
    SIGNED,
    apply1,
    binary,
    comparison,
    equal_operands,
    kind_fault,
    unary,
)
from torchlean.ir.rules import Custom, Elementwise, Linear, NoTangent, Pointwise, Unit
from torchlean.ir.types import TensorType
from torchlean.record import record

# -- arithmetic --------------------------------------------------------------------------------------------------------
ADD = binary(
    "add",
    denote=lambda a, x, y: a.add(x, y),
    partials=(Unit.PLUS, Unit.PLUS),
    kinds=NUMBERS,
    doc="x + y, rounded once.",
)
SUB = binary(
    "sub",
    denote=lambda a, x, y: a.sub(x, y),
    partials=(Unit.PLUS, Unit.MINUS),
    kinds=NUMBERS,
    doc="x - y, rounded once.",
)
MUL = binary(
    "mul",
    denote=lambda a, x, y: a.mul(x, y),
    partials=(lambda p, z, x, y: y, lambda p, z, x, y: x),
    kinds=NUMBERS,
    doc="x · y, rounded once.",
)
DIV = binary(
    "div",
    denote=lambda a, x, y: a.div(x, y),
    partials=(
        lambda p, z, x, y: apply1(DIV, full_like(y, 1), y),
        lambda p, z, x, y: apply1(NEG, apply1(DIV, z, y)),
    ),
    kinds=FLOATS,
    doc="x / y, rounded once; IEEE at zero.",
)
NEG = unary("neg", denote=lambda a, x: a.neg(x), partial=Unit.MINUS, kinds=SIGNED, doc="-x.")
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
    kinds=FLOATS,
    doc="Square root, correctly rounded.",
)
RSQRT = unary(
    "rsqrt",
    denote=lambda a, x: a.div(a.constant(np.ones(np.shape(x), dtype=x.dtype)), a.sqrt(x)),
    partial=lambda p, y, x: apply1(DIV, apply1(MUL, full_like(y, -0.5), y), x),
    kinds=FLOATS,
    doc="1 / sqrt(x), two roundings.",
)

# -- transcendental ----------------------------------------------------------------------------------------------------
EXP = unary("exp", denote=lambda a, x: a.exp(x), partial=lambda p, y, x: y, kinds=FLOATS, doc="e to the power x.")
EXPM1 = unary(
    "expm1",
    denote=lambda a, x: a.expm1(x),
    partial=lambda p, y, x: apply1(ADD, y, full_like(y, 1)),
    kinds=FLOATS,
    doc="e to the power x, minus 1, accurate near 0.",
)
LOG = unary(
    "log",
    denote=lambda a, x: a.log(x),
    partial=lambda p, y, x: apply1(DIV, full_like(x, 1), x),
    kinds=FLOATS,
    doc="Natural logarithm.",
)
LOG1P = unary(
    "log1p",
    denote=lambda a, x: a.log1p(x),
    partial=lambda p, y, x: apply1(DIV, full_like(x, 1), apply1(ADD, x, full_like(x, 1))),
    kinds=FLOATS,
    doc="log(1 + x), accurate near 0.",
)
SIN = unary(
    "sin", denote=lambda a, x: a.sin(x), partial=lambda p, y, x: apply1(COS, x), kinds=FLOATS, doc="Sine, radians."
)
COS = unary(
    "cos",
    denote=lambda a, x: a.cos(x),
    partial=lambda p, y, x: apply1(NEG, apply1(SIN, x)),
    kinds=FLOATS,
    doc="Cosine, radians.",
)
TANH = unary(
    "tanh",
    denote=lambda a, x: a.tanh(x),
    partial=lambda p, y, x: apply1(SUB, full_like(y, 1), apply1(MUL, y, y)),
    kinds=FLOATS,
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
    """z · log x, and 0 where x = 0 and y ≥ 0 (the limit)."""
    zero = full_like(x, 0)
    at_zero = apply1(LOGICAL_AND, apply1(EQ, x, zero), apply1(GE, y, zero))
    slope = apply1(MUL, z, apply1(LOG, x))
    return bind1(SELECT, NO_PARAMS, at_zero, zero, slope)


POW = binary(
    "pow",
    denote=lambda a, x, y: a.pow(x, y),
    partials=(_pow_dx, _pow_dy),
    kinds=FLOATS,
    doc="x to the power y; NaN for negative x and non-integer y.",
)


@record
class Exponent:
    """`exponent`: any Python integer; negative ones need a float operand."""

    exponent: int


def _integer_pow_type(params: Exponent, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.is_bool or (params.exponent < 0 and not x.dtype.is_float):
        raise kind_fault(x.dtype, FLOATS if params.exponent < 0 else NUMBERS)
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
    diff=Elementwise((_integer_pow_partial,)),
    batch=Pointwise(),
    reduces=False,
    doc="x to a fixed integer power by repeated squaring.",
)


# -- order -------------------------------------------------------------------------------------------------------------
def _share(wins: Op, loses: Op) -> Any:
    """1 where the operand wins, ½ where they tie, 0 where it loses (or either is NaN)."""

    def partial(params: Any, z: Any, x: Any, y: Any) -> Any:
        zero, half, one = full_like(x, 0), full_like(x, 0.5), full_like(x, 1)
        tied = bind1(SELECT, NO_PARAMS, apply1(EQ, x, y), half, zero)
        return bind1(SELECT, NO_PARAMS, apply1(wins, x, y), one, tied)

    return partial


LT = comparison("lt", "x < y.")
LE = comparison("le", "x ≤ y.")
GT = comparison("gt", "x > y.")
GE = comparison("ge", "x ≥ y.")
EQ = comparison("eq", "x = y; NaN equals nothing.")
NE = comparison("ne", "x ≠ y; NaN differs from everything.")
MAX = binary(
    "max",
    denote=lambda a, x, y: a.max(x, y),
    partials=(_share(GT, LT), _share(LT, GT)),
    kinds=NUMBERS,
    doc="The larger; NaN if either is NaN; of equal zeros the first. Ties split the derivative ½-½.",
)
MIN = binary(
    "min",
    denote=lambda a, x, y: a.min(x, y),
    partials=(_share(LT, GT), _share(GT, LT)),
    kinds=NUMBERS,
    doc="The smaller; NaN if either is NaN; of equal zeros the first. Ties split the derivative ½-½.",
)


def _clamp_type(params: Any, low: TensorType, x: TensorType, high: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.kind not in NUMBERS:
        raise kind_fault(x.dtype, NUMBERS)
    equal_operands(low, x, high)
    return (x,)


def _clamp_dx(params: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    inside = apply1(LOGICAL_AND, apply1(GT, x, low), apply1(LT, x, high))
    return bind1(SELECT, NO_PARAMS, inside, full_like(x, 1), full_like(x, 0))


def _clamp_dlow(params: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    below = apply1(LOGICAL_AND, apply1(LT, x, low), apply1(LT, low, high))
    return bind1(SELECT, NO_PARAMS, below, full_like(x, 1), full_like(x, 0))


def _clamp_dhigh(params: Any, y: Any, low: Any, x: Any, high: Any) -> Any:
    above = apply1(LOGICAL_AND, apply1(GT, x, high), apply1(LT, low, high))
    return bind1(SELECT, NO_PARAMS, above, full_like(x, 1), full_like(x, 0))


CLAMP = Op(
    name="clamp",
    params=NoParams,
    type_rule=_clamp_type,
    denote=lambda algebra, params, low, x, high: (algebra.min(algebra.max(x, low), high),),
    diff=Elementwise((_clamp_dlow, _clamp_dx, _clamp_dhigh)),
    batch=Pointwise(),
    reduces=False,
    doc="min(max(x, low), high); the derivative is 1 strictly inside, 0 at and beyond the bounds.",
)

# -- logic -------------------------------------------------------------------------------------------------------------
_LOCALLY_CONSTANT = NoTangent("a boolean has no tangent")
LOGICAL_AND = binary(
    "logical_and",
    denote=lambda a, x, y: a.exact(np.logical_and, x, y),
    partials=_LOCALLY_CONSTANT,
    kinds=BOOLEANS,
    doc="x and y.",
)
LOGICAL_OR = binary(
    "logical_or",
    denote=lambda a, x, y: a.exact(np.logical_or, x, y),
    partials=_LOCALLY_CONSTANT,
    kinds=BOOLEANS,
    doc="x or y.",
)
LOGICAL_XOR = binary(
    "logical_xor",
    denote=lambda a, x, y: a.exact(np.logical_xor, x, y),
    partials=_LOCALLY_CONSTANT,
    kinds=BOOLEANS,
    doc="x or y, not both.",
)
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


def _convert_jvp(params: Target, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    (tangent,) = tangents
    if tangent is None or not params.dtype.is_float:
        return (None,)
    return (bind1(CONVERT, params, tangent),)


def _convert_vjp(params: Target, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    source = type_of(primals[0]).dtype
    if not (source.is_float and params.dtype.is_float):
        return (None,)
    return (bind1(CONVERT, Target(source), cotangents[0]),)


CONVERT = Op(
    name="convert",
    params=Target,
    type_rule=lambda params, x: (TensorType(x.shape, params.dtype),),
    denote=lambda algebra, params, x: (algebra.convert(x, params.dtype.carrier),),
    diff=Custom(jvp=_convert_jvp, vjp=_convert_vjp),
    batch=Pointwise(),
    reduces=False,
    doc="Change dtype, rounding to nearest even; float to integer truncates and saturates, NaN becomes 0.",
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
