"""Samples of run-time positions, scatters and sorting."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchlean.conformance.samples.bits import extremes
from torchlean.conformance.samples.draw import BF16, F32, F64, Sample, integers, spaced, specials, uniform
from torchlean.conformance.samples.running import SHAPES
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import (
    dynamic,
)
from torchlean.ir.ops import scattering as scatter_ops
from torchlean.ir.ops import sorting as sort_ops
from torchlean.ir.ops.gather import Along, Mode
from torchlean.ir.ops.sorting import Sorting


def windows_samples() -> Iterator[Sample]:
    for shape, sizes, starts in (
        ((7,), (3,), (2,)),
        ((7,), (3,), (9,)),
        ((7,), (3,), (-2,)),
        ((3, 5), (2, 2), (1, 3)),
        ((3, 5), (3, 5), (1, 1)),
        ((3, 5), (0, 2), (2, 1)),
        ((0, 3), (0, 2), (0, 5)),
        ((), (), ()),
    ):
        name = f"{list(shape)} {list(sizes)} at {list(starts)}"
        at = np.array(starts, dtype=np.int32)
        for dtype in (F64, F32):
            x, update = uniform(shape, dtype=dtype), uniform(sizes, dtype=dtype, seed=1)
            label = f"{np.dtype(dtype).name}{name}"
            yield Sample(dynamic.DYNAMIC_SLICE, dynamic.Sizes(sizes), (x, at), label, dtype is F64)
            yield Sample(dynamic.DYNAMIC_UPDATE_SLICE, NO_PARAMS, (x, update, at), label, dtype is F64)
    far = np.array([2**63 - 1, -(2**63)], dtype=np.int64)
    x = integers((3, 5), 0, 9, np.uint8)
    yield Sample(dynamic.DYNAMIC_SLICE, dynamic.Sizes((2, 2)), (x, far), "u8 far", False)
    yield Sample(dynamic.DYNAMIC_UPDATE_SLICE, NO_PARAMS, (x, x[:2, :2], far), "u8 far", False)
    one = np.array([1], dtype=np.uint8)
    yield Sample(dynamic.DYNAMIC_SLICE, dynamic.Sizes((4,)), (specials(), one), "specials", False)
    yield Sample(dynamic.DYNAMIC_UPDATE_SLICE, NO_PARAMS, (specials(), specials(turn=3)[:4], one), "specials", False)


def scatters_samples() -> Iterator[Sample]:
    every = (scatter_ops.SCATTER, scatter_ops.SCATTER_MUL, scatter_ops.SCATTER_MIN, scatter_ops.SCATTER_MAX)
    for shape, params, indices in (
        ((5,), Along(0, 0, Mode.FILL), np.array([4, 0, 2, 2], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.FILL), np.array([-1, 5, 2, 2, 2, 7], dtype=np.int32)),
        ((5,), Along(0, 0, Mode.CLIP), np.array([-1, 5, 2, -9, 7], dtype=np.int32)),
        ((3, 5), Along(1, 0, Mode.FILL), np.array([[4, 0], [1, 1], [6, 2]], dtype=np.int32)),
        ((3, 5), Along(1, 1, Mode.FILL), np.array([[4, 0], [1, 1], [6, 2]], dtype=np.int32)),
        ((2, 3, 5), Along(2, 1, Mode.CLIP), np.array([[4, 0, 4], [1, 1, 7]], dtype=np.int64)),
        ((5,), Along(0, 0, Mode.FILL), np.zeros((0, 2), dtype=np.int32)),
        ((0, 3), Along(1, 1, Mode.FILL), np.zeros((0, 2), dtype=np.int32)),
    ):
        made = (*shape[: params.axis], *indices.shape[params.batch :], *shape[params.axis + 1 :])
        count = int(np.prod(shape)) + int(np.prod(made))
        values = spaced((count,))
        x, updates = values[: int(np.prod(shape))].reshape(shape), values[int(np.prod(shape)) :].reshape(made)
        name = f"{list(shape)} along {params.axis} paired {params.batch} {params.mode.value} "
        name += str(indices.reshape(-1).tolist()).replace(" ", "")
        for op in every:
            yield Sample(op, params, (x, indices, updates), f"f64{name}", True)
            yield Sample(op, params, (x.astype(F32), indices, updates.astype(F32)), f"f32{name}", False)
    where = np.array([0, 0, 2, 2, 4], dtype=np.int32)
    ties = np.array([1.0, 2.0, 0.0, 5.0, 3.0]), where, np.array([1.0, 1.0, 0.0, -0.0, 4.0])
    for op in every:
        yield Sample(op, Along(0, 0, Mode.FILL), ties, "ties", False)
        wide = specials(), np.arange(10, dtype=np.int32), specials(turn=3)
        yield Sample(op, Along(0, 0, Mode.FILL), wide, "specials", False)
        ints = integers((3,), -9, 9), np.array([0, 0, 2], dtype=np.int32), integers((3,), -9, 9, seed=1)
        yield Sample(op, Along(0, 0, Mode.CLIP), ints, "i32", False)
    zeros = np.array([2.0, 3.0, 1.0]), np.array([0, 0, 1], dtype=np.int32), np.array([0.0, 4.0, 0.0])
    yield Sample(scatter_ops.SCATTER_MUL, Along(0, 0, Mode.FILL), zeros, "one zero", False)
    flags = integers((5,), 0, 2, np.bool_), where, integers((5,), 0, 2, np.bool_, seed=1)
    yield Sample(scatter_ops.SCATTER, Along(0, 0, Mode.FILL), flags, "bool", False)


def sorts_samples() -> Iterator[Sample]:
    for shape, axis in (*SHAPES, ((0, 3), 0)):
        for descending in (False, True):
            name = f"{list(shape)} along {axis}{' descending' * descending}"
            one = Sorting(axis, 1, descending)
            yield Sample(sort_ops.SORT, one, (spaced(shape),), f"f64{name}", True)
            pair = spaced(shape), uniform(shape, seed=1)
            yield Sample(sort_ops.SORT, one, pair, f"f64 with another {name}", True)
            keys = integers(shape, 0, 3), spaced(shape, F32), uniform(shape, dtype=F32)
            yield Sample(sort_ops.SORT, Sorting(axis, 2, descending), keys, f"two keys {name}", False)
    place = np.arange(10, dtype=np.int32)
    for descending in (False, True):
        one = Sorting(0, 1, descending)
        end = " descending" * descending
        yield Sample(sort_ops.SORT, one, (specials(), place), f"specials{end}", False)
        yield Sample(sort_ops.SORT, one, (specials(BF16), place), f"bf16 specials{end}", False)
        ties = np.array([2.0, 1.0, 2.0, -0.0, 1.0, 0.0, 0.0, 2.0, 1.0, 2.0])
        yield Sample(sort_ops.SORT, one, (ties, place), f"ties{end}", False)
        yield Sample(sort_ops.SORT, one, (place % 2 == 0, place), f"bool{end}", False)
        yield Sample(sort_ops.SORT, one, (extremes(np.uint64), place[:8]), f"u64{end}", False)
        yield Sample(sort_ops.SORT, one, (extremes(np.int64), place[:8]), f"i64{end}", False)
