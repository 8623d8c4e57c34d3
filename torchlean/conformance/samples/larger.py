"""Larger calls than the laws need: sums long enough to be split, products of every arrangement, many rows.

The conformance kit adds them to the other samples; sizes are no multiples of a vector's length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from torchlean.conformance.samples.call import Call, Case
from torchlean.conformance.samples.draw import F16, F32, F64, Array, Sample
from torchlean.conformance.samples.windows import adjoint, output_shape
from torchlean.ir import ops
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import activation, loss, neural, norm
from torchlean.ir.ops.cumulative import CUMSUM, PartialRun
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.factor import QR
from torchlean.ir.ops.fft import FFT, RFFT, RealTransform, Transform
from torchlean.ir.ops.fold import REDUCE_PROD
from torchlean.ir.ops.gather import SCATTER_ADD, Along, Mode
from torchlean.ir.ops.reduce import REDUCE_MAX, REDUCE_MIN
from torchlean.ir.ops.sorting import SORT, Sorting
from torchlean.ir.ops.spectral import SVD
from torchlean.ir.ops.spread import REDUCE_SUM, Axes
from torchlean.ir.ops.window import CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT
from torchlean.ir.ops.window_types import Window

SHAPES = ((17, 33), (1, 1000), (1000, 1), (3, 5, 7), (64, 10), (33, 2))


def normal(*shape: int, seed: int = 0, dtype: Any = F32) -> Array:
    """Seeded normal numbers."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


def _reductions() -> Iterator[Sample]:
    for shape in SHAPES:
        for axes in dict.fromkeys((tuple(range(len(shape))), (0,), (len(shape) - 1,))):
            for op in (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN):
                yield Sample(op, Axes(axes), (normal(*shape, seed=1),), f"f32{list(shape)} over {list(axes)}", False)
        for dtype in (F16, F64):
            name = f"{np.dtype(dtype).name}{list(shape)} over 0"
            yield Sample(REDUCE_SUM, Axes((0,)), (normal(*shape, seed=1, dtype=dtype),), name, False)
    for axes in ((), (1,), (0, 2), (1, 3), (0, 1, 2, 3)):
        yield Sample(REDUCE_SUM, Axes(axes), (normal(2, 3, 5, 7, seed=5),), f"f32[2,3,5,7] over {list(axes)}", False)
    tame = np.exp(normal(1000, seed=2) / 30)
    yield Sample(REDUCE_PROD, Axes((0,)), (tame,), "f32[1000]", False)
    run = PartialRun(0, reverse=False, exclusive=False)
    yield Sample(CUMSUM, run, (normal(1000, seed=3),), "f32[1000]", False)
    where = np.random.default_rng(4).integers(0, 7, 1000).astype(np.int32)
    updates = normal(1000, 3, seed=4)
    yield Sample(SCATTER_ADD, Along(0, 0, Mode.FILL), (normal(7, 3), where, updates), "1000 rows onto 7", False)


def _products() -> Iterator[Sample]:
    x, y = normal(4, 4, 4, seed=1), normal(4, 4, 4, seed=2)
    for contract in (((2,), (0,)), ((0,), (2,)), ((1,), (1,)), ((1, 2), (0, 1)), ((2, 0), (1, 0)), ((), ())):
        for batch in (((), ()), ((0,), (0,)), ((1,), (2,)), ((2, 1), (1, 2))):
            if set(contract[0]) & set(batch[0]) or set(contract[1]) & set(batch[1]):
                continue
            dims = DotDims(contract[0], contract[1], batch[0], batch[1])
            yield Sample(DOT_GENERAL, dims, (x, y), f"f32[4,4,4] {contract} {batch}", False)
    for left, right in (((5,), (5,)), ((5,), (5, 3)), ((3, 5), (5,)), ((), (3,))):
        dims = DotDims((len(left) - 1,), (0,), (), ()) if left else DotDims((), (), (), ())
        yield Sample(DOT_GENERAL, dims, (normal(*left, seed=1), normal(*right, seed=2)), f"{left}·{right}", False)
    matrix = DotDims((1,), (0,), (), ())
    for rows, folded, columns in ((17, 33, 40), (1, 300, 1), (40, 300, 50), (300, 10, 3), (9, 700, 20), (64, 64, 128)):
        arrays = normal(rows, folded, seed=1), normal(folded, columns, seed=2)
        yield Sample(DOT_GENERAL, matrix, arrays, f"f32 {rows}·{folded}·{columns}", False)
    for dtype in (F16, F32, F64, np.int8, np.int32, np.uint8):
        a = (normal(17, 33, seed=1, dtype=F64) * 50).astype(dtype)
        b = (normal(9, 33, seed=2, dtype=F64) * 50).astype(dtype)
        yield Sample(DOT_GENERAL, DotDims((1,), (1,), (), ()), (a, b), f"{np.dtype(dtype).name} 17·33·9", False)


WINDOWS: tuple[tuple[Window, tuple[int, ...], tuple[int, ...]], ...] = (
    (Window((1, 1), ((0, 0), (0, 0)), (1, 1), 1), (5, 4, 7, 6), (6, 4, 3, 3)),
    (Window((2, 1), ((1, 1), (2, 0)), (1, 2), 2), (3, 4, 7, 9), (6, 2, 3, 2)),
    (Window((2,), ((-1, 0),), (1,), 1), (2, 3, 9), (5, 3, 3)),
    (Window((3,), ((0, 0),), (1,), 1), (2, 3, 12), (5, 3, 2)),
    (Window((3,), ((2, 1),), (2,), 1), (2, 3, 17), (5, 3, 3)),
    (Window((1, 1), ((1, 1), (1, 1)), (1, 1), 1), (17, 1, 8, 8), (16, 1, 3, 3)),
)


def _convolutions() -> Iterator[Sample]:
    """With infinite and NaN factors too: they do not touch results whose windows skip them."""
    for number, (window, x_shape, w_shape) in enumerate(WINDOWS):
        back, to_kernel = adjoint(window, x_shape[2:]), adjoint(window, w_shape[2:])
        for spoiled in (False, True):
            x, w = normal(*x_shape, seed=1), normal(*w_shape, seed=2)
            ct = normal(*output_shape(x_shape, w_shape, window), seed=3)
            if spoiled:
                for array in (x, w, ct):
                    array.flat[0], array.flat[-1] = np.inf, np.nan
            name = f"{list(x_shape)}*{list(w_shape)} {number}{' spoiled' * spoiled}"
            yield Sample(CONV, window, (x, w), name, False)
            yield Sample(CONV_INPUT_ADJOINT, back, (ct, w), name, False)
            yield Sample(CONV_KERNEL_ADJOINT, to_kernel, (x, ct), name, False)


def _matrices() -> Iterator[Sample]:
    yield Sample(QR, NO_PARAMS, (normal(23, 17, seed=1),), "f32[23,17]", False)
    yield Sample(SVD, NO_PARAMS, (normal(11, 7, seed=2, dtype=F64),), "f64[11,7]", False)
    for size in (30, 97):
        x = (normal(3, size, seed=1, dtype=F64) + 1j * normal(3, size, seed=2, dtype=F64)).astype(np.complex64)
        yield Sample(FFT, Transform(1, inverse=False), (x,), f"c64[3,{size}]", False)
        yield Sample(RFFT, RealTransform(1), (normal(3, size, seed=3),), f"f32[3,{size}]", False)
    yield Sample(SORT, Sorting(0, 1, descending=False), (normal(1009, seed=4),), "f32[1009]", False)


def _rectified() -> Iterator[Call]:
    """Enough entries for kernels that treat many otherwise than few, with every kind of number among them."""
    for dtype in (F16, F32, F64):
        x = normal(64, 40, seed=1).astype(dtype)
        x.flat[:8] = (np.nan, -0.0, 0.0, -np.inf, np.inf, 1.0, -1.0, 0.0)
        yield Call(activation.RELU, ops.relu, (x,), f"{np.dtype(dtype).name}[64,40]", False)
    for shape in ((), (0,), (17,), (3, 5), (25, 1)):
        x = normal(*shape, seed=1)
        x = np.where(np.abs(x) < 0.3, np.float32(-0.0), x).astype(F32)
        yield Call(activation.RELU, ops.relu, (x,), f"f32{list(shape)} with -0.0", False)
        yield Call(loss.MSE_LOSS, ops.mse_loss, (x, normal(*shape, seed=2)), f"f32{list(shape)} normal", False)


def _many_rows() -> Iterator[Call]:
    """Large logits, ties, an infinite one, and labels outside the classes."""
    for dtype in (F32, F64):
        x = (normal(64, 10, seed=1) * 30).astype(dtype)
        x[0, :], x[1, 3] = 2.0, -np.inf
        labels = np.random.default_rng(2).integers(0, 10, 64).astype(np.int32)
        bad = labels.copy()
        bad[5], bad[6] = 10, -1
        for name, chosen in (("", labels), (" with labels outside", bad)):
            label = f"{np.dtype(dtype).name}[64,10]{name}"
            yield Call(loss.CROSS_ENTROPY, lambda a, b: ops.cross_entropy(a, b), (x, chosen), label, False)
    x = normal(17, 33, seed=1)
    yield Call(activation.SOFTMAX, ops.softmax, (x,), "f32[17,33]", False)
    yield Call(activation.LOGSUMEXP, ops.logsumexp, (x,), "f32[17,33]", False)
    yield Call(norm.LAYER_NORM, ops.layer_norm, (x,), "f32[17,33]", False)
    yield Call(neural.LINEAR, ops.linear, (x, normal(9, 33, seed=2), normal(9, seed=3)), "f32[17,33]", False)


LARGER: tuple[Case, ...] = (
    *_reductions(),
    *_products(),
    *_convolutions(),
    *_matrices(),
    *_rectified(),
    *_many_rows(),
)
