"""Initial values of parameters: functions of a source, a shape and a dtype.

A source is a key u32[2] (`torchlean.random.key`) or a `SeedStream`. From a stream each stochastic initialiser takes one
seed and samples in binary64, then casts: TorchLean's published values. Zeros and ones take nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from torchlean import random
from torchlean.ir import ops
from torchlean.ir.dtypes import as_dtype
from torchlean.random import SeedStream

Source = Any  # a key u32[2], or a SeedStream
Shape = tuple[int, ...]
Initializer = Callable[[Source, Shape, int, int, Any], Any]  # (source, shape, inputs, outputs, dtype)


def child(source: Source, index: int) -> Source:
    """The source of the `index`-th part of a layer: a key folded with the index, or the same stream, which counts."""
    return source if isinstance(source, SeedStream) else random.fold_in(source, index)


def between(source: Source, shape: Sequence[int], low: float, high: float, dtype: Any = "f32") -> Any:
    """Uniform draws from [low, high)."""
    if isinstance(source, SeedStream):
        unit = random.uniform01(random.key_of(source.take(), 0), prod(shape))
        values = low + unit * (high - low)
        return ops.constant(values.astype(as_dtype(dtype).carrier).reshape(tuple(shape)))
    return random.uniform(source, shape, dtype, low, high)


def zeros(source: Source, shape: Shape, inputs: int = 0, outputs: int = 0, dtype: Any = "f32") -> Any:
    """All 0; takes nothing from the source."""
    return ops.full(shape, 0.0, dtype)


def ones(source: Source, shape: Shape, inputs: int = 0, outputs: int = 0, dtype: Any = "f32") -> Any:
    """All 1; takes nothing from the source."""
    return ops.full(shape, 1.0, dtype)


def xavier_uniform(source: Source, shape: Shape, inputs: int, outputs: int, dtype: Any = "f32") -> Any:
    """Uniform within ±√(6/(inputs + outputs)).  [Glorot & Bengio 2010]"""
    limit = math.sqrt(6.0 / (inputs + outputs))
    return between(source, shape, -limit, limit, dtype)


def kaiming_uniform(source: Source, shape: Shape, inputs: int, outputs: int = 0, dtype: Any = "f32") -> Any:
    """Uniform within ±√(6/inputs), for layers followed by relu.  [He et al. 2015]"""
    limit = math.sqrt(6.0 / inputs)
    return between(source, shape, -limit, limit, dtype)


def uniform(limit: float) -> Initializer:
    """An initialiser: uniform within ±limit."""
    return lambda source, shape, inputs, outputs, dtype: between(source, shape, -limit, limit, dtype)


def normal(deviation: float) -> Initializer:
    """An initialiser: normal with mean 0. From a stream: Box–Muller of draws 2i and 2i + 1, cosine branch, binary64."""

    def draw(source: Source, shape: Shape, inputs: int, outputs: int, dtype: Any) -> Any:
        if not isinstance(source, SeedStream):
            return random.normal(source, shape, dtype) * deviation
        words = random.draw32(random.key_of(source.take(), 0), 2 * prod(shape)).astype(np.float64)
        first, second = ((words[half::2] + 1.0) / 4294967297.0 for half in (0, 1))
        values = deviation * np.sqrt(-2.0 * np.log(first)) * np.cos(2.0 * math.pi * second)
        return ops.constant(values.astype(as_dtype(dtype).carrier).reshape(shape))

    return draw
