"""Samples of ops on bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from torchlean.conformance.samples.draw import BF16, F16, F32, F64, Array, Sample, integers, specials, uniform
from torchlean.ir.dtypes import DType
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import (
    bits,
    words,
)
from torchlean.ir.ops.bits import Places

INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def extremes(dtype: Any, seed: int = 0) -> Array:
    """The smallest and largest integers, small ones, and random ones."""
    limits = np.iinfo(dtype)
    random = np.random.default_rng(seed).integers(limits.min, limits.max, 4, dtype=dtype, endpoint=True)
    return np.array([limits.min, limits.max, 0, 1, *random.tolist()], dtype=dtype)


def words_samples() -> Iterator[Sample]:
    for dtype in INTEGERS:
        name = np.dtype(dtype).name
        x, y = extremes(dtype), np.roll(extremes(dtype, 1), 3)
        for op in (words.AND, words.OR, words.XOR):
            yield Sample(op, NO_PARAMS, (x, y), name, False)
        for op in (words.NOT, words.POPULATION_COUNT, words.CLZ):
            yield Sample(op, NO_PARAMS, (x,), name, False)
        width = np.dtype(dtype).itemsize * 8
        places = np.array([0, 1, 2, 3, width // 2, width - 1, width % 127, 7], dtype=dtype)
        outside = np.array([width % 127, 3, -1 if np.dtype(dtype).kind == "i" else 100, 0] * 2).astype(dtype)
        for op in (words.SHIFT_LEFT, words.SHIFT_RIGHT_LOGICAL, words.SHIFT_RIGHT_ARITHMETIC):
            yield Sample(op, NO_PARAMS, (x, places), name, False)
            yield Sample(op, NO_PARAMS, (x, outside), f"{name} beyond", False)
    for op in (words.AND, words.NOT, words.SHIFT_LEFT, words.CLZ):
        count = len([None for kind in ("and", "shift_left") if op.name == kind]) + 1
        for shape in ((), (0, 3)):
            arrays = tuple([integers(shape, 0, 9, np.int32, seed) for seed in range(count)])
            yield Sample(op, NO_PARAMS, arrays, f"int32{list(shape)}", False)
    for source, target in (
        (F32, DType.I32),
        (np.int32, DType.F32),
        (np.uint64, DType.F64),
        (F64, DType.U32),
        (F16, DType.BF16),
        (BF16, DType.U8),
        (F32, DType.F16),
    ):
        for shape in ((3, 5), (), (0, 3)):
            array = uniform(shape, 0, 100).astype(source)
            name = f"{np.dtype(source)}{list(shape)} to {target}"
            yield Sample(words.BITCAST_CONVERT, words.Bitcast(target), (array,), name, False)
    pairs = integers((3, 2), 0, 2**31, np.uint32)
    yield Sample(words.BITCAST_CONVERT, words.Bitcast(DType.F64), (pairs,), "u32[3,2] to f64", False)
    yield Sample(words.BITCAST_CONVERT, words.Bitcast(DType.I32), (specials(),), "specials", False)
    for exponent, mantissa in ((8, 7), (5, 10), (8, 23), (5, 2), (4, 3), (11, 52), (8, 0)):
        params = words.Precision(exponent, mantissa)
        name = f"e{exponent}m{mantissa}"
        yield Sample(words.REDUCE_PRECISION, params, (uniform((3, 5), dtype=F32),), f"{name} f32[3,5]", False)
        yield Sample(words.REDUCE_PRECISION, params, (specials(),), f"{name} specials", False)
        yield Sample(words.REDUCE_PRECISION, params, (specials(F64),), f"{name} specials-f64", False)
        yield Sample(words.REDUCE_PRECISION, params, (specials(BF16),), f"{name} specials-bf16", False)
    exact = words.Precision(11, 52)
    yield Sample(words.REDUCE_PRECISION, exact, (uniform((3, 5)),), "f64[3,5]", True)
    yield Sample(words.REDUCE_PRECISION, exact, (uniform(()),), "f64[]", True)
    yield Sample(words.REDUCE_PRECISION, exact, (uniform((0, 3)),), "empty", False)


def generators_samples() -> Iterator[Sample]:
    for shape in ((3, 5), (), (0, 3)):
        name = str(list(shape))
        yield Sample(bits.SHIFT_RIGHT, Places(5), (integers(shape, 0, 2**32, np.uint32),), f"u32{name} by 5", False)
        yield Sample(bits.SHIFT_RIGHT, Places(64), (integers(shape, 0, 2**62, np.uint64),), f"u64{name} by 64", False)
        yield Sample(bits.SPLITMIX64, NO_PARAMS, (integers(shape, 0, 2**62, np.uint64),), name, False)
        pair = integers((*shape, 2), 0, 2**32, np.uint32), integers((*shape, 2), 0, 2**32, np.uint32, seed=1)
        yield Sample(bits.THREEFRY2X32, NO_PARAMS, pair, name, False)
