"""Samples of arithmetic, choices, comparisons and conversions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchlean.conformance.samples.draw import F16, F32, F64, Sample, booleans, elementwise, integral, specials, uniform
from torchlean.ir.dtypes import DType
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.chain import CHAIN_MUL


def arithmetic_samples() -> Iterator[Sample]:
    wide = (-2.0, 2.0)
    away = (0.5, 2.0)
    for op in (ew.ADD, ew.SUB, ew.MUL):
        yield from elementwise(op, wide, wide)
        yield from integral(op, 2, dtypes=(np.int32, np.uint8, np.int64))
        wrap = np.array([2**31 - 1, -(2**31), 7], dtype=np.int32)
        yield Sample(op, NO_PARAMS, (wrap, wrap), "wraps", False)
    yield from elementwise(ew.DIV, wide, away)
    yield from elementwise(CHAIN_MUL, wide, wide)
    zero, pole = np.array([0.0, -0.0, np.nan, 1.0, 0.0, np.inf]), np.array([np.inf, np.nan, 0.0, np.inf, 2.0, 0.0])
    yield Sample(CHAIN_MUL, NO_PARAMS, (zero, pole), "zeros meet poles", False)
    for op, places in ((ew.NEG, wide), (ew.ABS, away)):
        yield from elementwise(op, places)
        yield from integral(op, 1)
    yield from elementwise(ew.SIGN, wide, smooth=False)
    yield from integral(ew.SIGN, 1)
    for op in (ew.SQRT, ew.RSQRT, ew.LOG):
        yield from elementwise(op, away)
    yield from elementwise(ew.LOG1P, (-0.5, 2.0))
    for op in (ew.EXP, ew.EXPM1, ew.SIN, ew.COS, ew.TANH, ew.LOGISTIC, ew.ERF):
        yield from elementwise(op, wide)
        yield Sample(op, NO_PARAMS, (np.array([-90.0, -20.0, 20.0, 90.0], dtype=F32),), "far", False)
    yield from elementwise(ew.POW, away, wide)
    zeros = np.array([0.0, 0.0, 0.0, -2.0, -2.0], dtype=F64), np.array([0.0, 1.0, 2.0, 3.0, 0.5], dtype=F64)
    yield Sample(ew.POW, NO_PARAMS, zeros, "zero and negative base", False)
    for exponent in (-2, -1, 0, 1, 2, 3, 7):
        params = ew.Exponent(exponent)
        yield Sample(ew.INTEGER_POW, params, (uniform((3, 5), 0.5, 2.0),), f"f64[3,5]^{exponent}", True)
        yield Sample(ew.INTEGER_POW, params, (specials(),), f"specials^{exponent}", False)
    yield Sample(ew.INTEGER_POW, ew.Exponent(3), (uniform((), dtype=F32),), "f32[]", False)
    yield Sample(ew.INTEGER_POW, ew.Exponent(2), (uniform((0, 3), dtype=F32),), "empty", False)
    yield from integral(ew.INTEGER_POW, 1, ew.Exponent(3))


def choices_samples() -> Iterator[Sample]:
    wide = (-2.0, 2.0)
    for op in (ew.MAX, ew.MIN):
        yield from elementwise(op, wide, wide)
        yield from integral(op, 2)
        ties = np.array([1.0, 0.0, -0.0, 3.0]), np.array([1.0, -0.0, 0.0, 2.0])
        yield Sample(op, NO_PARAMS, ties, "ties", False)
    yield from elementwise(ew.CLAMP, (-1.0, -0.6), (-2.0, 2.0), (0.6, 1.0))
    yield Sample(
        ew.CLAMP, NO_PARAMS, (np.full(3, -1.0), np.array([-1.0, 0.0, 1.0]), np.full(3, 1.0)), "at the bounds", False
    )
    yield from integral(ew.CLAMP, 3)
    for op in (ew.LT, ew.LE, ew.GT, ew.GE, ew.EQ, ew.NE):
        yield from elementwise(op, wide, wide, smooth=False)
        yield from integral(op, 2, dtypes=(np.int32, np.uint64))
        yield Sample(op, NO_PARAMS, (booleans((3,), 0), booleans((3,), 1)), "bool[3]", False)
    for op in (ew.LOGICAL_AND, ew.LOGICAL_OR, ew.LOGICAL_XOR):
        for shape in ((3, 5), (), (0, 3)):
            yield Sample(op, NO_PARAMS, (booleans(shape, 0), booleans(shape, 1)), f"bool{list(shape)}", False)
    for shape in ((3, 5), (), (0, 3)):
        yield Sample(ew.LOGICAL_NOT, NO_PARAMS, (booleans(shape, 0),), f"bool{list(shape)}", False)
        for dtype in (F64, F32, np.int32):
            arrays = (booleans(shape, 0), uniform(shape, dtype=dtype), uniform(shape, dtype=dtype, seed=1))
            name = f"{np.dtype(dtype).name}{list(shape)}"
            yield Sample(ew.SELECT, NO_PARAMS, arrays, name, dtype is F64)
    yield Sample(ew.SELECT, NO_PARAMS, (booleans((10,), 2), specials(), specials(turn=3)), "specials", False)
    for target in DType:
        for source in (F16, F32, F64, np.int32, np.uint64, np.bool_):
            array = uniform((3, 5), 0.0, 4.0).astype(source)
            smooth = source is F64 and target is DType.F64
            yield Sample(ew.CONVERT, ew.Target(target), (array,), f"{np.dtype(source).name} to {target}", smooth)
        yield Sample(ew.CONVERT, ew.Target(target), (specials(),), f"specials to {target}", False)
    yield Sample(ew.CONVERT, ew.Target(DType.I32), (uniform((0, 3)),), "empty", False)
    yield from elementwise(ew.STOP_GRADIENT, wide, smooth=False)
    yield from integral(ew.STOP_GRADIENT, 1)
