"""Samples of running folds and of reductions other than sums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchlean.conformance.samples.draw import BF16, F32, Sample, integers, spaced, specials, uniform
from torchlean.ir.ops import (
    cumulative,
    fold,
)
from torchlean.ir.ops.cumulative import PartialRun, Run
from torchlean.ir.ops.spread import Axes

SHAPES = (((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 5), 1), ((1,), 0))


def running_samples() -> Iterator[Sample]:
    for op in (cumulative.CUMSUM, cumulative.CUMPROD):
        for shape, axis in SHAPES:
            for reverse in (False, True):
                for exclusive in (False, True):
                    params = PartialRun(axis, reverse, exclusive)
                    name = f"{list(shape)} along {axis}{' reversed' * reverse}{' exclusive' * exclusive}"
                    yield Sample(op, params, (uniform(shape, 0.5, 1.5),), f"f64{name}", True)
                    yield Sample(op, params, (uniform(shape, dtype=F32),), f"f32{name}", False)
        params = PartialRun(0, reverse=False, exclusive=False)
        yield Sample(op, params, (specials(),), "specials", False)
        yield Sample(op, params, (uniform((0, 3), dtype=F32),), "empty", False)
        yield Sample(op, params, (integers((3, 5), 100, 200, np.uint8),), "u8 wraps", False)
        yield Sample(op, params, (uniform((7,)).astype(BF16),), "bf16[7]", False)
        yield Sample(op, params, (np.array([-0.0, -0.0, 1e8, 1.0, -1e8], dtype=F32),), "order shows", False)
    zeros = (np.array([2.0, 0.0, 3.0, 4.0]), np.array([0.0, 2.0, 3.0]), np.array([2.0, 0.0, 0.0, 3.0]), np.zeros(3))
    for at, array in enumerate(zeros):
        for reverse in (False, True):
            params = PartialRun(0, reverse, exclusive=False)
            yield Sample(cumulative.CUMPROD, params, (array,), f"zeros {at}{' reversed' * reverse}", True)
    for op in (cumulative.CUMMAX, cumulative.CUMMIN):
        for shape, axis in SHAPES:
            for reverse in (False, True):
                name = f"{list(shape)} along {axis}{' reversed' * reverse}"
                yield Sample(op, Run(axis, reverse), (spaced(shape),), f"f64{name}", True)
                yield Sample(op, Run(axis, reverse), (spaced(shape, F32),), f"f32{name}", False)
        run = Run(0, reverse=False)
        yield Sample(op, run, (specials(),), "specials", False)
        yield Sample(op, run, (np.array([1.0, 3.0, 3.0, 1.0, 3.0, 0.0, 0.0]),), "ties", False)
        yield Sample(op, run, (np.array([0.0, -0.0, 0.0]),), "zeros", False)
        yield Sample(op, run, (np.array([1.0, 2.0, np.nan, 1.0, 5.0]),), "NaN", False)
        yield Sample(op, run, (uniform((0, 3), dtype=F32),), "empty", False)
        yield Sample(op, run, (integers((3, 5), -9, 9),), "i32[3,5]", False)
    for shape, axis in SHAPES:
        for reverse in (False, True):
            name = f"{list(shape)} along {axis}{' reversed' * reverse}"
            yield Sample(cumulative.CUMLOGSUMEXP, Run(axis, reverse), (uniform(shape),), f"f64{name}", True)
            a, b = uniform(shape, 0.5, 1.5), uniform(shape, seed=1)
            yield Sample(cumulative.RECURRENCE, Run(axis, reverse), (a, b), f"f64{name}", True)
            narrow = a.astype(F32), b.astype(F32)
            yield Sample(cumulative.RECURRENCE, Run(axis, reverse), narrow, f"f32{name}", False)
    run = Run(0, reverse=False)
    yield Sample(cumulative.CUMLOGSUMEXP, run, (specials(),), "specials", False)
    yield Sample(
        cumulative.CUMLOGSUMEXP, run, (np.array([-np.inf, -np.inf, 1.0, -np.inf, np.inf, 2.0]),), "-inf", False
    )
    yield Sample(cumulative.CUMLOGSUMEXP, run, (np.array([-1e4, 1e4, 0.0], dtype=F32),), "far", False)
    yield Sample(cumulative.CUMLOGSUMEXP, run, (uniform((0, 3), dtype=F32),), "empty", False)
    yield Sample(cumulative.RECURRENCE, run, (specials(), specials(turn=3)), "specials", False)
    yield Sample(cumulative.RECURRENCE, run, (np.zeros(5), uniform((5,))), "zeros", True)
    yield Sample(cumulative.RECURRENCE, run, (uniform((0, 3), dtype=F32),) * 2, "empty", False)
    yield Sample(cumulative.RECURRENCE, run, (integers((5,), -3, 3), integers((5,), -3, 3, seed=1)), "i32[5]", False)


def folds_samples() -> Iterator[Sample]:
    for shape, axes in (((3, 5), (0,)), ((3, 5), (1,)), ((2, 3, 5), (0, 2)), ((7,), (0,)), ((3,), ()), ((), ())):
        name = f"{list(shape)} over {list(axes)}"
        yield Sample(fold.REDUCE_PROD, Axes(axes), (uniform(shape, 0.5, 1.5),), f"f64{name}", True)
        yield Sample(fold.REDUCE_PROD, Axes(axes), (uniform(shape, dtype=F32),), f"f32{name}", False)
        for op in (fold.REDUCE_AND, fold.REDUCE_OR, fold.REDUCE_XOR):
            yield Sample(op, Axes(axes), (integers(shape, 0, 2, np.bool_),), f"bool{name}", False)
            yield Sample(op, Axes(axes), (integers(shape, -9, 9),), f"i32{name}", False)
    for at, array in enumerate((np.array([2.0, 0.0, 3.0]), np.array([0.0, 0.0, 3.0]), np.zeros(2))):
        yield Sample(fold.REDUCE_PROD, Axes((0,)), (array,), f"zeros {at}", True)
    for op in (fold.REDUCE_PROD,):
        yield Sample(op, Axes((0,)), (uniform((0, 3), dtype=F32),), "nothing", False)
        yield Sample(op, Axes((1,)), (uniform((0, 3), dtype=F32),), "empty", False)
        yield Sample(op, Axes((1,)), (np.stack([specials(), specials(turn=2)]),), "specials", False)
        yield Sample(op, Axes((0,)), (integers((3, 5), 0, 200, np.uint8),), "u8 wraps", False)
    for op in (fold.REDUCE_AND, fold.REDUCE_OR, fold.REDUCE_XOR):
        yield Sample(op, Axes((0,)), (integers((0, 3), 0, 9, np.uint8),), "nothing", False)
        yield Sample(op, Axes((0,)), (integers((0, 3), 0, 2, np.bool_),), "no booleans", False)
