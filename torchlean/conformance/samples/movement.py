"""Samples of ops that make, move, cut, join, find or spread entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from torchlean.conformance.samples.draw import F32, F64, Sample, booleans, integers, specials, uniform
from torchlean.ir.dtypes import DType
from torchlean.ir.literal import Literal
from torchlean.ir.op import Op
from torchlean.ir.ops.create import CONSTANT, FULL, IOTA, Fill, Iota
from torchlean.ir.ops.cut import CONCATENATE, PAD, SLICE, Joined, Strided, Widths
from torchlean.ir.ops.gather import GATHER, SCATTER_ADD, Along, Mode
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE, Flipped, NewShape, Permutation
from torchlean.ir.ops.random import RANDOM_BITS, Algorithm, Draw
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes, Spread


def create_samples() -> Iterator[Sample]:
    for name, array in (
        ("f64[3,5]", uniform((3, 5))),
        ("f32[]", uniform((), dtype=F32)),
        ("empty", uniform((0, 3), dtype=F32)),
        ("specials", specials()),
        ("bool[3]", booleans((3,), 0)),
        ("u64[3]", np.array([0, 1, 2**64 - 1], dtype=np.uint64)),
    ):
        yield Sample(CONSTANT, Literal(array), (), name, False)
    for dtype, value in ((DType.F32, -0.0), (DType.F64, np.nan), (DType.I8, -3), (DType.BOOL, True), (DType.F16, 0.1)):
        for shape in ((3, 5), (), (0, 3)):
            yield Sample(FULL, Fill.of(shape, dtype, value), (), f"{value} {dtype}{list(shape)}", False)
    for shape, axis in (((7,), 0), ((3, 5), 1), ((3, 5), 0), ((0, 3), 0), ((3, 0), 0)):
        for dtype in (DType.I32, DType.F64, DType.U8):
            yield Sample(IOTA, Iota(shape, dtype, axis), (), f"{dtype}{list(shape)} along {axis}", False)


def _moved(op: Op, shape: tuple[int, ...], params: Any, name: str) -> Iterator[Sample]:
    """One movement in float64, float32 and booleans."""
    yield Sample(op, params, (uniform(shape),), f"f64 {name}", True)
    yield Sample(op, params, (uniform(shape, dtype=F32),), f"f32 {name}", False)
    yield Sample(op, params, (booleans(shape, 0),), f"bool {name}", False)


def layout_samples() -> Iterator[Sample]:
    for shape, new in (((3, 4), (2, 6)), ((3, 5), (15,)), ((), (1, 1)), ((1,), ()), ((0, 3), (3, 0, 5))):
        yield from _moved(RESHAPE, shape, NewShape(new), f"{list(shape)} to {list(new)}")
    for shape, axes in (((3, 5), (1, 0)), ((2, 3, 5), (2, 0, 1)), ((), ()), ((0, 3), (1, 0)), ((3,), (0,))):
        yield from _moved(TRANSPOSE, shape, Permutation(axes), f"{list(shape)} by {list(axes)}")
    for shape, axes in (((7,), (0,)), ((3, 5), (1,)), ((3, 5), (0, 1)), ((), ()), ((0, 3), (0,)), ((3,), ())):
        yield from _moved(REVERSE, shape, Flipped(axes), f"{list(shape)} along {list(axes)}")
    yield Sample(RESHAPE, NewShape((2, 5)), (specials(),), "specials", False)
    yield Sample(TRANSPOSE, Permutation((0,)), (specials(),), "specials", False)
    yield Sample(REVERSE, Flipped((0,)), (specials(),), "specials", False)


def spread_samples() -> Iterator[Sample]:
    for shape, new, axes in (
        ((3,), (2, 3), (1,)),
        ((3,), (3, 5), (0,)),
        ((1, 3), (7, 3), (0, 1)),
        ((3, 1), (2, 3, 5), (1, 2)),
        ((), (3,), ()),
        ((), (), ()),
        ((3,), (0, 3), (1,)),
        ((0,), (0, 3), (0,)),
        ((1,), (0,), (0,)),
    ):
        yield from _moved(BROADCAST, shape, Spread(new, axes), f"{list(shape)} to {list(new)} at {list(axes)}")
    for shape, axes in (((3, 5), (0,)), ((3, 5), (1,)), ((3, 5, 7), (0, 2)), ((7,), (0,)), ((3,), ()), ((), ())):
        yield Sample(REDUCE_SUM, Axes(axes), (uniform(shape),), f"f64{list(shape)} over {list(axes)}", True)
        yield Sample(REDUCE_SUM, Axes(axes), (uniform(shape, dtype=F32),), f"f32{list(shape)} over {list(axes)}", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (uniform((0, 3), dtype=F32),), "nothing to add", False)
    yield Sample(REDUCE_SUM, Axes((1,)), (uniform((0, 3), dtype=F32),), "empty result", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (np.full(3, -0.0, dtype=F32),), "-0.0", False)
    yield Sample(REDUCE_SUM, Axes((1,)), (np.stack([specials(), specials(turn=2)]),), "specials", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (np.array([1e8, 1.0, -1e8, 1.0], dtype=F32),), "order shows", False)
    yield Sample(REDUCE_SUM, Axes((0,)), (integers((3, 5), 100, 200, np.uint8),), "u8 wraps", False)


def cut_samples() -> Iterator[Sample]:
    for shape, starts, limits, strides in (
        ((7,), (1,), (6,), (2,)),
        ((3, 5), (0, 1), (3, 4), (1, 1)),
        ((3, 5), (1, 0), (2, 5), (1, 3)),
        ((7,), (3,), (3,), (2,)),
        ((), (), (), ()),
        ((0, 3), (0, 0), (0, 3), (1, 2)),
        ((7,), (0,), (7,), (7,)),
    ):
        name = f"{list(shape)} from {list(starts)} to {list(limits)} by {list(strides)}"
        yield from _moved(SLICE, shape, Strided(starts, limits, strides), name)
    yield Sample(SLICE, Strided((1,), (9,), (2,)), (specials(),), "specials", False)
    for shape, low, high, interior in (
        ((3,), (2,), (1,), (0,)),
        ((3, 5), (1, 0), (0, 2), (0, 1)),
        ((5,), (-1,), (-2,), (0,)),
        ((5,), (-3,), (2,), (2,)),
        ((5,), (-2,), (1,), (2,)),
        ((5,), (1,), (-4,), (1,)),
        ((3,), (-4,), (5,), (0,)),
        ((3,), (5,), (-4,), (0,)),
        ((), (), (), ()),
        ((0, 3), (2, 0), (1, 0), (3, 0)),
        ((1,), (1,), (1,), (2,)),
    ):
        widths = Widths(low, high, interior)
        name = f"{list(shape)} low {list(low)} high {list(high)} interior {list(interior)}"
        yield Sample(PAD, widths, (uniform(shape), uniform((), seed=1)), f"f64 {name}", True)
        yield Sample(PAD, widths, (uniform(shape, dtype=F32), np.array(-0.0, dtype=F32)), f"f32 {name}", False)
        yield Sample(PAD, widths, (booleans(shape, 0), np.array(True)), f"bool {name}", False)
    yield Sample(PAD, Widths((1,), (0,), (1,)), (specials(), np.array(np.nan, dtype=F32)), "specials", False)
    for axis, shapes in (
        (0, ((3,), (5,), (7,))),
        (1, ((3, 2), (3, 5))),
        (0, ((3,),)),
        (0, ((0, 3), (2, 3), (0, 3))),
        (2, ((2, 3, 1), (2, 3, 4))),
        (0, ((3, 0), (5, 0))),
    ):
        name = f"{[list(shape) for shape in shapes]} along {axis}"
        arrays = [uniform(shape, seed=seed) for seed, shape in enumerate(shapes)]
        yield Sample(CONCATENATE, Joined(axis), tuple(arrays), f"f64 {name}", True)
        yield Sample(CONCATENATE, Joined(axis), tuple([a.astype(F32) for a in arrays]), f"f32 {name}", False)
    yield Sample(CONCATENATE, Joined(0), (specials(), specials(turn=1)), "specials", False)


def positions_samples() -> Iterator[Sample]:
    for shape, params, indices in (
        ((5,), Along(0, 0, Mode.FILL), np.array([4, 0, 2, 2], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.FILL), np.array(3, dtype=np.int64)),
        ((5,), Along(0, 0, Mode.FILL), np.array([-1, 5, 2, -9, 7], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.CLIP), np.array([-1, 5, 2, -9, 7], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.CLIP), np.array([2**64 - 1, 1], dtype=np.uint64)),
        ((300,), Along(0, 0, Mode.FILL), np.array([127, -1], dtype=np.int8)),
        ((3, 5), Along(1, 0, Mode.FILL), np.array([[4, 0], [1, 1], [6, 2]], dtype=np.int32)),
        ((3, 5, 2), Along(1, 0, Mode.FILL), np.array([0, 3, 3], dtype=np.uint32)),
        ((3, 5), Along(1, 1, Mode.FILL), np.array([[4, 0], [1, 1], [6, 2]], dtype=np.int32)),
        ((3, 5), Along(1, 1, Mode.CLIP), np.array([4, -3, 9], dtype=np.int32)),
        ((2, 3, 5), Along(2, 1, Mode.FILL), np.array([[4, 0, 4], [1, 1, 7]], dtype=np.int32)),
        ((2, 3, 5), Along(2, 2, Mode.CLIP), integers((2, 3, 4), -2, 8)),
        ((5,), Along(0, 0, Mode.FILL), np.zeros((0, 2), dtype=np.int32)),
        ((0,), Along(0, 0, Mode.FILL), np.array([0, 1], dtype=np.int32)),
        ((0, 3), Along(1, 1, Mode.FILL), np.zeros((0, 2), dtype=np.int32)),
        ((3, 0), Along(0, 0, Mode.FILL), np.array([2, 1], dtype=np.int32)),
    ):
        made = (*shape[: params.axis], *indices.shape[params.batch :], *shape[params.axis + 1 :])
        name = f"{list(shape)} along {params.axis} paired {params.batch} {params.mode.value} {indices.dtype}"
        name += str(indices.reshape(-1).tolist()).replace(" ", "")
        for dtype in (F64, F32):
            label = f"{np.dtype(dtype).name}{name}"
            x, updates = uniform(shape, dtype=dtype), uniform(made, dtype=dtype, seed=1)
            yield Sample(GATHER, params, (x, indices), label, dtype is F64)
            yield Sample(SCATTER_ADD, params, (x, indices, updates), label, dtype is F64)
    yield Sample(GATHER, Along(0, 0, Mode.FILL), (specials(), np.arange(-1, 11, dtype=np.int32)), "specials", False)
    yield Sample(GATHER, Along(0, 0, Mode.FILL), (booleans((5,), 0), np.array([1, 7], dtype=np.int32)), "bool", False)
    many = integers((41,), 0, 3, np.int64), uniform((41, 2), -1e6, 1e6, F32)
    yield Sample(SCATTER_ADD, Along(0, 0, Mode.FILL), (uniform((3, 2), dtype=F32), *many), "order shows", False)
    where = np.arange(10, dtype=np.int32)
    yield Sample(SCATTER_ADD, Along(0, 0, Mode.FILL), (specials(), where, specials(turn=3)), "specials", False)
    ints = integers((3,), -9, 9), np.array([0, 0, 2], dtype=np.int32), integers((3,), -9, 9, seed=1)
    yield Sample(SCATTER_ADD, Along(0, 0, Mode.CLIP), ints, "i32", False)


def random_samples() -> Iterator[Sample]:
    key = np.array([17, 42], dtype=np.uint32)
    for shape in ((7,), (3, 5), (), (0, 3)):
        yield Sample(RANDOM_BITS, Draw(shape, Algorithm.THREEFRY2X32), (key,), f"threefry {list(shape)}", False)
        seed = np.array(2**64 - 3, dtype=np.uint64)
        yield Sample(RANDOM_BITS, Draw(shape, Algorithm.SPLITMIX64), (seed,), f"splitmix {list(shape)}", False)
    keys = integers((3, 2), 0, 2**32, np.uint32)
    yield Sample(RANDOM_BITS, Draw((5,), Algorithm.THREEFRY2X32), (keys,), "three threefry keys", False)
    seeds = np.array([[0, 1], [2**63, 2026]], dtype=np.uint64)
    yield Sample(RANDOM_BITS, Draw((5,), Algorithm.SPLITMIX64), (seeds,), "four splitmix keys", False)
