"""Samples of matrix products and of reductions to an extreme or its position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchlean.conformance.samples.draw import F32, Sample, integers, integral, spaced, specials, uniform
from torchlean.ir.dtypes import DType
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.reduce import ARGMAX, ARGMIN, REDUCE_MAX, REDUCE_MIN, ArgAxis
from torchlean.ir.ops.spread import Axes


def dot_samples() -> Iterator[Sample]:
    for left, right, dims in (
        ((3, 5), (5, 7), DotDims((1,), (0,), (), ())),
        ((3, 5), (7, 5), DotDims((1,), (1,), (), ())),
        ((5,), (5,), DotDims((0,), (0,), (), ())),
        ((3,), (5,), DotDims((), (), (), ())),
        ((), (), DotDims((), (), (), ())),
        ((2, 3, 5), (2, 5, 7), DotDims((2,), (1,), (0,), (0,))),
        ((3, 2, 5), (5, 7, 2), DotDims((2,), (0,), (1,), (2,))),
        ((2, 3, 5), (5, 7, 3), DotDims((1, 2), (2, 0), (), ())),
        ((2, 3, 5, 7), (7, 3, 2), DotDims((3, 1), (0, 1), (0,), (2,))),
        ((3, 0), (0, 5), DotDims((1,), (0,), (), ())),
        ((0, 3), (3, 5), DotDims((1,), (0,), (), ())),
        ((3, 5), (3, 5), DotDims((), (), (0, 1), (0, 1))),
    ):
        name = f"{list(left)}·{list(right)} {dims.lhs_contract}{dims.lhs_batch}"
        arrays = uniform(left), uniform(right, seed=1)
        yield Sample(DOT_GENERAL, dims, arrays, f"f64 {name}", True)
        yield Sample(DOT_GENERAL, dims, tuple([a.astype(F32) for a in arrays]), f"f32 {name}", False)
    rows = np.stack([specials(), specials(turn=1)])
    yield Sample(DOT_GENERAL, DotDims((1,), (1,), (), ()), (rows, rows), "specials", False)
    ints = integers((3, 5), -9, 9), integers((5, 2), -9, 9, seed=1)
    yield Sample(DOT_GENERAL, DotDims((1,), (0,), (), ()), ints, "i32", False)


def reduce_samples() -> Iterator[Sample]:
    for op in (REDUCE_MAX, REDUCE_MIN):
        for shape, axes in (((7,), (0,)), ((3, 5), (1,)), ((3, 5), (0, 1)), ((2, 3, 5), (0, 2)), ((3,), ()), ((), ())):
            yield Sample(op, Axes(axes), (spaced(shape),), f"f64{list(shape)} over {list(axes)}", True)
            yield Sample(op, Axes(axes), (spaced(shape, F32),), f"f32{list(shape)} over {list(axes)}", False)
        yield Sample(op, Axes((1,)), (uniform((0, 3), dtype=F32),), "empty result", False)
        yield Sample(op, Axes((0,)), (specials(),), "specials", False)
        yield Sample(op, Axes((1,)), (np.array([[0.0, -0.0], [-0.0, 0.0]]),), "zeros", False)
        ties = np.array([[1.0, 3.0, 3.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0]])
        yield Sample(op, Axes((1,)), (ties,), "ties", False)
        yield Sample(op, Axes((0,)), (np.array([1.0, np.nan, 2.0, np.nan]),), "two NaN", False)
        yield Sample(op, Axes((0,)), (np.array([np.inf, -np.inf, 1.0]),), "infinities", False)
        yield from integral(op, 1, Axes((1,)), (np.int32, np.uint8))
    for op in (ARGMAX, ARGMIN):
        for shape, axis in (((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 5), 1), ((0, 3), 1), ((1,), 0)):
            yield Sample(op, ArgAxis(axis), (spaced(shape, F32),), f"f32{list(shape)} along {axis}", False)
        yield Sample(op, ArgAxis(0), (spaced((7,)),), "f64[7]", False)
        yield Sample(op, ArgAxis(0, DType.I64), (specials(),), "specials", False)
        yield Sample(op, ArgAxis(1, DType.U8), (np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]),), "ties", False)
        yield Sample(op, ArgAxis(0), (np.array([1.0, np.nan, 9.0, np.nan, -9.0]),), "two NaN", False)
        yield Sample(op, ArgAxis(0), (np.array([np.nan, 1.0]),), "NaN first", False)
        yield Sample(op, ArgAxis(0), (np.array([-0.0, 0.0, -0.0]),), "zeros", False)
        yield from integral(op, 1, ArgAxis(1), (np.int32, np.uint8))
