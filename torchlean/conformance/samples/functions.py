"""Samples of functions of one and two numbers: rounding, elementary and special functions, remainders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchlean.conformance.samples.draw import (
    BF16,
    F32,
    Sample,
    complex_specials,
    elementwise,
    integers,
    integral,
    specials,
    uniform,
)
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import (
    elementary,
    quotients,
    rounding,
)
from torchlean.ir.ops.rounding import Halves, Rounded


def rounding_samples() -> Iterator[Sample]:
    wide = (-3.0, 3.0)
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.49999999999999994, -0.49999999999999994, 4503599627370497.5])
    for op in (rounding.FLOOR, rounding.CEIL, rounding.TRUNC):
        yield from elementwise(op, wide, smooth=False)
        yield Sample(op, NO_PARAMS, (halves,), "halves", False)
        yield Sample(op, NO_PARAMS, (uniform((3,), -3, 3).astype(BF16),), "bf16[3]", False)
    for way in Halves:
        for sample in elementwise(rounding.ROUND, wide, params=Rounded(way), smooth=False):
            yield Sample(sample.op, sample.params, sample.arrays, f"{way.name} {sample.name}", False)
        yield Sample(rounding.ROUND, Rounded(way), (halves,), f"{way.name} halves", False)
        yield Sample(rounding.ROUND, Rounded(way), (uniform((3,), -3, 3).astype(BF16),), f"{way.name} bf16[3]", False)
    for op in (rounding.IS_FINITE, rounding.IS_NAN, rounding.SIGNBIT):
        yield from elementwise(op, wide, smooth=False)
        yield Sample(op, NO_PARAMS, (specials(BF16),), "bf16 specials", False)
    for op in (rounding.IS_FINITE, rounding.IS_NAN):
        yield Sample(op, NO_PARAMS, (complex_specials(),), "c64 specials", False)


ELEMENTARY: tuple[tuple[Op, tuple[float, float]], ...] = (
    (elementary.EXP2, (-2.0, 2.0)),
    (elementary.LOG2, (0.5, 2.0)),
    (elementary.LOG10, (0.5, 2.0)),
    (elementary.CBRT, (0.5, 2.0)),
    (elementary.TAN, (-1.0, 1.0)),
    (elementary.ASIN, (-0.7, 0.7)),
    (elementary.ACOS, (-0.7, 0.7)),
    (elementary.ATAN, (-2.0, 2.0)),
    (elementary.SINH, (-2.0, 2.0)),
    (elementary.COSH, (-2.0, 2.0)),
    (elementary.ASINH, (-2.0, 2.0)),
    (elementary.ACOSH, (1.6, 3.0)),
    (elementary.ATANH, (-0.6, 0.6)),
    (elementary.ERFC, (-2.0, 2.0)),
    (elementary.ERF_INV, (-0.7, 0.7)),
    (elementary.LGAMMA, (1.2, 4.0)),
    (elementary.DIGAMMA, (1.2, 4.0)),
    (elementary.SQUARE, (-2.0, 2.0)),
)


def elementary_samples() -> Iterator[Sample]:
    for op, place in ELEMENTARY:
        yield from elementwise(op, place)
        yield Sample(op, NO_PARAMS, (uniform((7,), *place).astype(BF16),), "bf16[7]", False)
        far = np.array([-90.0, -20.0, -3.5, -1.0, 1.0, 3.5, 20.0, 90.0], dtype=F32)
        yield Sample(op, NO_PARAMS, (far,), "out of range", False)
    yield from integral(elementary.SQUARE, 1, dtypes=(np.int32, np.uint8))
    for order in (1, 2, 3):
        params = elementary.Order(order)
        yield Sample(elementary.POLYGAMMA, params, (uniform((3, 5), 1.5, 4.0),), f"{order} f64[3,5]", order < 3)
        yield Sample(elementary.POLYGAMMA, params, (uniform((), 1.5, 4.0),), f"{order} f64[]", order < 3)
        yield Sample(elementary.POLYGAMMA, params, (specials(),), f"{order} specials", False)
        yield Sample(elementary.POLYGAMMA, params, (uniform((0, 3), dtype=F32),), f"{order} empty", False)
        below = np.array([-0.5, -1.0, -2.25, -7.75])
        yield Sample(elementary.POLYGAMMA, params, (below,), f"{order} out of range", False)
    poles = np.array([0.0, -0.0, -1.0, -2.5, 1e300, 171.7])
    for op in (elementary.LGAMMA, elementary.DIGAMMA):
        yield Sample(op, NO_PARAMS, (poles,), "out of its range", False)
    ends = np.array([1.0, -1.0, 1.5, 0.999999, -0.999999, 1e-30, 0.0, -0.0])
    yield Sample(elementary.ERF_INV, NO_PARAMS, (ends,), "out of its range", False)


def quotients_samples() -> Iterator[Sample]:
    away, wide = (0.5, 2.0), (-2.0, 2.0)
    yield from elementwise(quotients.HYPOT, away, away)
    yield from elementwise(quotients.ATAN2, away, away)
    yield from elementwise(quotients.NEXTAFTER, wide, wide, smooth=False)
    yield Sample(quotients.NEXTAFTER, NO_PARAMS, (uniform((3,)), uniform((3,), seed=1)), "f64[3]", True)
    tiny = np.array([0.0, 0.0, 1e-30, -1e-30, 1e38]), np.array([0.0, -0.0, 1e-30, 1e-30, 1e38])
    for op in (quotients.HYPOT, quotients.ATAN2):
        yield Sample(op, NO_PARAMS, tuple([array.astype(F32) for array in tiny]), "origin", False)
    for op in (quotients.REM, quotients.REMAINDER, quotients.FLOOR_DIVIDE):
        smooth = op is not quotients.FLOOR_DIVIDE
        yield from elementwise(op, wide, away, smooth=False)
        x, y = np.array([5.3, -5.3, 5.3, -5.3, 0.7]), np.array([2.0, 2.0, -2.0, -2.0, 3.0])
        yield Sample(op, NO_PARAMS, (x, y), "signs", smooth)
        signs = np.array([7, -7, 7, -7, 5, -(2**31), 0]), np.array([3, 3, -3, -3, 0, -1, 0])
        yield Sample(op, NO_PARAMS, tuple([array.astype(np.int32) for array in signs]), "integer signs", False)
        unsigned = integers((3, 5), 0, 200, np.uint8), integers((3, 5), 0, 9, np.uint8, seed=1)
        yield Sample(op, NO_PARAMS, unsigned, "u8[3,5]", False)
        whole = np.array([0.0, -0.0, 6.0, -6.0]), np.array([3.0, 3.0, 3.0, 3.0])
        yield Sample(op, NO_PARAMS, whole, "multiples", False)
