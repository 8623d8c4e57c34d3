"""Composites: max and average pooling over the spatial axes of f[N, C, spatial…], as folds of strided slices.

The fold visits the entries of a window in row-major order, so the first largest entry gets max_pool's gradient.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, prod
from typing import Any

import numpy as np

from torchlean.errors import TypeRuleError, message
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.ops import functions as f
from torchlean.ir.ops import shaping
from torchlean.ir.ops.composite import Composite, call, composite
from torchlean.ir.ops.create import iota
from torchlean.ir.ops.elementwise import convert
from torchlean.ir.ops.index import pad, slice_
from torchlean.ir.ops.promote import tensor
from torchlean.ir.types import TensorType

Pairs = tuple[tuple[int, int], ...]


def _views(x: Any, window: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[Any]:
    """For each place in the window, in row-major order, the entries of `x` it meets: f[N, C, out…]."""
    shape = x.type.shape
    out = [(size - k) // stride + 1 for size, k, stride in zip(shape[2:], window, strides, strict=True)]
    for position in range(prod(window)):  # not listed first: a window in a file may be of any size
        place = [position // prod(window[axis + 1 :]) % k for axis, k in enumerate(window)]
        limits = [at + (count - 1) * stride + 1 for at, count, stride in zip(place, out, strides, strict=True)]
        yield slice_(x, (0, 0, *place), (*shape[:2], *limits), (1, 1, *strides))


def _padded(x: Any, fill: float, padding: Pairs) -> Any:
    if not any(low or high for low, high in padding):
        return x
    return pad(x, fill, ((0, 0), (0, 0), *padding))


def _max_pool(x: Any, *, window: tuple[int, ...], strides: tuple[int, ...], padding: Pairs) -> Any:
    views = _views(_padded(x, _lowest(x.type.dtype), padding), window, strides)
    best = next(views)
    for entry in views:
        larger = f.gt(entry, best)
        if x.type.dtype.is_float:
            larger = f.logical_or(larger, f.ne(entry, entry))  # NaN propagates
        best = f.select(larger, entry, best)
    return best


def _lowest(dtype: DType) -> float:
    return -inf if dtype.is_float else int(np.iinfo(dtype.carrier).min)


MAX_POOL = composite(
    "max_pool",
    _max_pool,
    reduces=False,
    reduces_in_gradient=True,
    doc="Largest entry of each window; NaN propagates; the first in row-major order receives the gradient.",
)


def _avg_pool(x: Any, *, window: tuple[int, ...], strides: tuple[int, ...], padding: Pairs, count_padding: bool) -> Any:
    total: Any = None
    for entry in _views(_padded(x, 0, padding), window, strides):
        total = entry if total is None else total + entry
    if count_padding or not any(low or high for low, high in padding):
        return total / float(prod(window))
    return total / convert(_counts(x.type, window, strides, padding), x.type.dtype)


def _counts(x: TensorType, window: tuple[int, ...], strides: tuple[int, ...], padding: Pairs) -> Any:
    """How many entries of each window are not padding: i64[out…]."""
    counts: Any = None
    for size, k, stride, (low, high) in zip(x.shape[2:], window, strides, padding, strict=True):
        starts = iota(((size + low + high - k) // stride + 1,), 0, DType.I64) * stride - low
        along = f.min(starts + k, size) - f.max(starts, 0)
        counts = along if counts is None else shaping.reshape(counts, (*counts.type.shape, 1)) * along
    return counts


AVG_POOL = composite(
    "avg_pool",
    _avg_pool,
    reduces=True,
    reduces_in_gradient=True,
    doc="Mean of each window: a left fold in row-major order of the window, then one division.",
)


def max_pool(
    x: Any, window: int | tuple[int, ...], strides: int | tuple[int, ...] | None = None, padding: Any = 0
) -> Any:
    """Largest entry of each window. Shapes: [N, C, size…] → [N, C, out…], out = ⌊(size + low + high − k)/stride⌋ + 1.

    `strides` default to the window; `padding` is one number, one per spatial axis, or (low, high) pairs, less than the
    window. Raises TypeRuleError for windows that do not fit.
    """
    x = tensor(x)
    sizes, steps, pairs = _geometry(MAX_POOL, x.type, window, strides, padding)
    return call(MAX_POOL, x, window=sizes, strides=steps, padding=pairs)


def avg_pool(
    x: Any,
    window: int | tuple[int, ...],
    strides: int | tuple[int, ...] | None = None,
    padding: Any = 0,
    count_padding: bool = True,
) -> Any:
    """Mean of each window; arguments and shapes as in `max_pool`. Padding counts as zeros, or not at all."""
    x = tensor(x)
    sizes, steps, pairs = _geometry(AVG_POOL, x.type, window, strides, padding)
    return call(AVG_POOL, x, window=sizes, strides=steps, padding=pairs, count_padding=bool(count_padding))


def _geometry(
    op: Composite, x: TensorType, window: Any, strides: Any, padding: Any
) -> tuple[tuple[int, ...], tuple[int, ...], Pairs]:
    rank = x.rank - 2
    sizes = _per_axis(window, rank)
    steps = sizes if strides is None else _per_axis(strides, rank)
    given = _per_axis(padding, rank)
    pairs: Pairs = tuple([(int(p), int(p)) if isinstance(p, int) else (int(p[0]), int(p[1])) for p in given])
    fits = (
        rank >= 1
        and len(sizes) == len(steps) == len(pairs) == rank
        and all(k >= 1 for k in sizes)
        and all(step >= 1 for step in steps)
        and all(0 <= side < k for k, pair in zip(sizes, pairs, strict=True) for side in pair)
        and all(k <= n + sum(pair) for k, n, pair in zip(sizes, x.shape[2:], pairs, strict=True))
        and not x.dtype.is_bool
    )
    if not fits:
        raise TypeRuleError(
            message(
                f"{op.name} of {x} with window {window}, strides {strides}, padding {padding}",
                expected="[N, C, spatial…], per spatial axis a window within the padded size, stride ≥ 1, "
                "0 ≤ padding < window",
                got=f"{max(rank, 0)} spatial axes of sizes {list(x.shape[2:])}",
                fix="give one number, or one per spatial axis",
                where=str(caller_location()),
            )
        )
    return sizes, steps, pairs


def _per_axis(given: Any, rank: int) -> tuple[Any, ...]:
    return (given,) * max(rank, 0) if isinstance(given, int) else tuple(given)


COMPOSITES = (MAX_POOL, AVG_POOL)
