"""Samples of convolutions and their adjoints."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from torchlean.conformance.samples.draw import F32, F64, Sample, integers, specials, uniform
from torchlean.ir.ops.window import CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT
from torchlean.ir.ops.window_types import AdjointWindow, Window

CONVOLUTIONS = (
    ((2, 3, 7), (5, 3, 3), Window((1,), ((0, 0),), (1,), 1)),
    ((2, 2, 7), (3, 2, 3), Window((2,), ((1, 2),), (1,), 1)),
    ((1, 4, 5, 7), (6, 2, 3, 2), Window((1, 2), ((1, 0), (0, 1)), (1, 2), 2)),
    ((2, 3, 5, 5), (3, 1, 3, 3), Window((2, 2), ((1, 1), (1, 1)), (1, 1), 3)),
    ((1, 2, 7), (2, 2, 2), Window((3,), ((0, 0),), (2,), 1)),
    ((1, 1, 3, 2, 3), (2, 1, 2, 1, 2), Window((1, 1, 2), ((0, 1), (0, 0), (1, 0)), (1, 1, 1), 1)),
    ((1, 2, 5), (2, 2, 3), Window((1,), ((-1, 2),), (1,), 1)),
    ((1, 1, 2), (1, 1, 3), Window((1,), ((4, 4),), (2,), 1)),
    ((3, 2), (5, 2), Window((), (), (), 1)),
    ((0, 2, 5), (3, 2, 3), Window((1,), ((0, 0),), (1,), 1)),
    ((2, 0, 5), (3, 0, 3), Window((1,), ((0, 0),), (1,), 1)),
)


def output_shape(x: tuple[int, ...], w: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """The textbook formula."""
    spatial = [
        (n + low + high - (k - 1) * d - 1) // s + 1
        for n, k, s, (low, high), d in zip(x[2:], w[2:], window.strides, window.padding, window.dilation, strict=True)
    ]
    return (x[0], w[0], *spatial)


def adjoint(window: Window, spatial: tuple[int, ...]) -> AdjointWindow:
    """The params of an adjoint of the convolution."""
    return AdjointWindow(window.strides, window.padding, window.dilation, window.groups, spatial)


def window_samples() -> Iterator[Sample]:
    for x_shape, w_shape, window in CONVOLUTIONS:
        to_input, to_kernel = adjoint(window, x_shape[2:]), adjoint(window, w_shape[2:])
        for dtype in (F64, F32):
            x, w = uniform(x_shape, dtype=dtype), uniform(w_shape, dtype=dtype, seed=1)
            ct = uniform(output_shape(x_shape, w_shape, window), dtype=dtype, seed=2)
            name = f"{np.dtype(dtype).name} {list(x_shape)}*{list(w_shape)} pad {list(window.padding)}"
            yield Sample(CONV, window, (x, w), name, dtype is F64)
            yield Sample(CONV_INPUT_ADJOINT, to_input, (ct, w), name, dtype is F64)
            yield Sample(CONV_KERNEL_ADJOINT, to_kernel, (x, ct), name, dtype is F64)
    window = Window((1,), ((1, 1),), (1,), 1)
    x, w = specials().reshape(1, 1, 10), np.array([[[np.inf, -0.0, 1e-40]]], dtype=F32)
    yield Sample(CONV, window, (x, w), "specials", False)
    yield Sample(CONV_INPUT_ADJOINT, adjoint(window, (10,)), (x, w), "specials", False)
    yield Sample(CONV_KERNEL_ADJOINT, adjoint(window, (3,)), (x, x), "specials", False)
    ints = integers((1, 2, 5), -9, 9), integers((3, 2, 3), -9, 9, seed=1)
    yield Sample(CONV, Window((1,), ((0, 0),), (1,), 1), ints, "i32", False)
