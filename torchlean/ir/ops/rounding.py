"""Rounding to whole numbers, and questions about one number: floor, ceil, trunc, round, is_finite, is_nan, signbit."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import NoParams, Op
from torchlean.ir.ops.families import FLOATS, INEXACT, kind_fault, unary
from torchlean.ir.rules import NoTangent, Pointwise
from torchlean.ir.types import TensorType
from torchlean.record import record

_STEP = NoTangent("rounding to a whole number is locally constant")
_QUESTION = NoTangent("a boolean has no tangent")

FLOOR = unary(
    "floor", denote=lambda a, x: a.function("floor", x), partial=_STEP, kinds=FLOATS, doc="Largest integer ≤ x."
)
CEIL = unary(
    "ceil", denote=lambda a, x: a.function("ceil", x), partial=_STEP, kinds=FLOATS, doc="Smallest integer ≥ x."
)
TRUNC = unary("trunc", denote=lambda a, x: a.function("trunc", x), partial=_STEP, kinds=FLOATS, doc="x towards zero.")


class Halves(Enum):
    """Where a number halfway between two integers goes."""

    EVEN = "even"
    AWAY = "away from zero"

    __hash__ = object.__hash__


@record
class Rounded:
    """`halves`: to the even neighbour (Python, NumPy, IEEE's default), or away from zero (C's round)."""

    halves: Halves


def _float_type(params: Any, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.kind is not Kind.FLOAT:
        raise kind_fault(x.dtype, FLOATS)
    return (x,)


def _round_value(algebra: Any, params: Rounded, x: Any) -> tuple[Any, ...]:
    if params.halves is Halves.EVEN:
        return (algebra.function("rint", x),)
    down = algebra.function("trunc", x)
    half = algebra.constant(np.full(np.shape(x), 0.5, dtype=x.dtype))
    far = algebra.compare("ge", algebra.abs(algebra.sub(x, down)), half)  # the difference is exact
    return (algebra.select(far, algebra.add(down, algebra.sign(x)), down),)


ROUND = Op(
    name="round",
    params=Rounded,
    type_rule=_float_type,
    denote=_round_value,
    diff=_STEP,
    batch=Pointwise(),
    reduces=False,
    doc="The nearest integer.",
)


def _question(name: str, denote: Callable[..., Any], kinds: frozenset[Kind], doc: str) -> Op:
    def rule(params: NoParams, x: TensorType) -> tuple[TensorType, ...]:
        if x.dtype.kind not in kinds:
            raise kind_fault(x.dtype, kinds)
        return (TensorType(x.shape, DType.BOOL),)

    return Op(
        name=name,
        params=NoParams,
        type_rule=rule,
        denote=lambda algebra, params, x: (denote(algebra, x),),
        diff=_QUESTION,
        batch=Pointwise(),
        reduces=False,
        doc=doc,
    )


IS_FINITE = _question("is_finite", lambda a, x: a.shape(np.isfinite, x), INEXACT, "Neither infinite nor NaN.")
IS_NAN = _question("is_nan", lambda a, x: a.shape(np.isnan, x), INEXACT, "Not a number; complex: either part.")
SIGNBIT = _question("signbit", lambda a, x: a.shape(np.signbit, x), FLOATS, "The sign bit, of -0.0 and NaN too.")

OPS = (FLOOR, CEIL, TRUNC, ROUND, IS_FINITE, IS_NAN, SIGNBIT)
