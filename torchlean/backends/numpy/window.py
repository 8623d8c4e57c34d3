"""Convolution and its adjoints as one matrix product over gathered patches.

Padding is a gathered 0. The definition skips those positions, which differs only when the other factor is infinite or
NaN; then (and only then) the product is taken offset by offset, over the positions that exist.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.backends.handler import Kernel
from torchlean.ir.ops.window_types import AdjointWindow, Params, Window, convolved_shape, offset_regions
from torchlean.ir.types import Shape, TensorType

Array = np.ndarray[Any, Any]
_ALL = slice(None)


def _is_whole(params: Params, kernel: Shape, outputs: Shape, inputs: Shape) -> bool:
    """Whether every kernel offset meets an input at every output."""
    for axis, (k, o, size) in enumerate(zip(kernel, outputs, inputs, strict=True)):
        reach = (o - 1) * params.strides[axis] + (k - 1) * params.dilation[axis] - params.padding[axis][0]
        if o > 0 and (params.padding[axis][0] > 0 or reach >= size):
            return False
    return True


def _patches(params: Params, x: Array, kernel: Shape, outputs: Shape, whole: bool) -> Array:
    """[N, C, kernel…, outputs…] of `x`, 0 where there is nothing."""
    if whole and all(low == 0 for low, _ in params.padding) and x.size and prod(outputs):
        steps = x.strides[2:]
        strides = (
            *x.strides[:2],
            *[step * d for step, d in zip(steps, params.dilation, strict=True)],
            *[step * s for step, s in zip(steps, params.strides, strict=True)],
        )
        return np.lib.stride_tricks.as_strided(x, (*x.shape[:2], *kernel, *outputs), strides, writeable=False)
    made = np.zeros((*x.shape[:2], *kernel, *outputs), dtype=x.dtype)
    for offset in np.ndindex(*kernel):
        writes, reads = offset_regions(params, offset, outputs, x.shape[2:])
        made[(_ALL, _ALL, *offset, *writes)] = x[(_ALL, _ALL, *reads)]
    return made


def conv(params: Window, types: tuple[TensorType, ...]) -> Kernel:
    """[g, out, in·kernel] × [g, in·kernel, N·outputs]."""
    x, w = types
    shape, g = convolved_shape(params, x.shape, w.shape), params.groups
    kernel, outputs = w.shape[2:], shape[2:]
    n, per_out, per_in = shape[0], shape[1] // g, w.shape[1]
    k, m = prod(kernel), prod(outputs)
    whole = _is_whole(params, kernel, outputs, x.shape[2:])
    spatial = len(kernel)
    order = (1, 2, *range(3, 3 + spatial), 0, *range(3 + spatial, 3 + 2 * spatial))

    def run(v: Any, weights: Any) -> Any:
        if not whole and not np.isfinite(weights).all():
            return _conv_by_offset(params, v, weights, shape)
        patches = _patches(params, v, kernel, outputs, whole)
        right = patches.reshape(n, g, per_in, *kernel, *outputs).transpose(order).reshape(g, per_in * k, n * m)
        total = np.matmul(weights.reshape(g, per_out, per_in * k), right)
        return total.reshape(g, per_out, n, *outputs).transpose(2, 0, 1, *range(3, 3 + spatial)).reshape(shape)

    return run


def _conv_by_offset(params: Window, v: Array, weights: Array, shape: Shape) -> Array:
    g, kernel = params.groups, weights.shape[2:]
    xs = v.reshape(v.shape[0], g, v.shape[1] // g, *v.shape[2:])
    ws = weights.reshape(g, shape[1] // g, weights.shape[1], *kernel)
    total = np.zeros((shape[0], g, shape[1] // g, *shape[2:]), dtype=v.dtype)
    for offset in np.ndindex(*kernel):
        writes, reads = offset_regions(params, offset, shape[2:], v.shape[2:])
        part = xs[(_ALL, _ALL, _ALL, *reads)]
        flat = part.reshape(*part.shape[:3], -1)
        term = np.matmul(ws[(_ALL, _ALL, _ALL, *offset)], flat)
        total[(_ALL, _ALL, _ALL, *writes)] += term.reshape(*term.shape[:3], *part.shape[3:])
    return total.reshape(shape)


def conv_input_adjoint(params: AdjointWindow, types: tuple[TensorType, ...]) -> Kernel:
    """[g, in·kernel, out] × [g, out, N·outputs], then each offset's products are added where it reads.

    Only positions that exist are written, so nothing is skipped that a factor could spoil.
    """
    ct, w = types
    g, per_in, per_out = params.groups, w.shape[1], w.shape[0] // params.groups
    inputs, kernel, outputs = params.spatial, w.shape[2:], ct.shape[2:]
    n, k, m = ct.shape[0], prod(kernel), prod(outputs)

    def run(cotangent: Any, weights: Any) -> Any:
        left = weights.reshape(g, per_out, per_in * k).transpose(0, 2, 1)
        right = cotangent.reshape(n, g, per_out, m).transpose(1, 2, 0, 3).reshape(g, per_out, n * m)
        terms = np.matmul(left, right).reshape(g, per_in, *kernel, n, *outputs)
        total = np.zeros((g, per_in, n, *inputs), dtype=cotangent.dtype)
        for offset in np.ndindex(*kernel):
            reads, writes = offset_regions(params, offset, outputs, inputs)
            total[(_ALL, _ALL, _ALL, *writes)] += terms[(_ALL, _ALL, *offset, _ALL, *reads)]
        moved = total.transpose(2, 0, 1, *range(3, 3 + len(inputs)))
        return moved.reshape(n, g * per_in, *inputs)

    return run


def conv_kernel_adjoint(params: AdjointWindow, types: tuple[TensorType, ...]) -> Kernel:
    """[g, out, N·outputs] × [g, N·outputs, in·kernel]."""
    x, ct = types
    g, kernel, outputs = params.groups, params.spatial, ct.shape[2:]
    n, per_in, per_out = x.shape[0], x.shape[1] // g, ct.shape[1] // g
    k, m = prod(kernel), prod(outputs)
    whole = _is_whole(params, kernel, outputs, x.shape[2:])
    spatial = len(kernel)
    order = (1, 0, *range(3 + spatial, 3 + 2 * spatial), 2, *range(3, 3 + spatial))
    made = (g * per_out, per_in, *kernel)

    def run(v: Any, cotangent: Any) -> Any:
        left = cotangent.reshape(n, g, per_out, m).transpose(1, 2, 0, 3)
        if not whole and not np.isfinite(cotangent).all():
            return _kernel_by_offset(params, v, cotangent, made)
        patches = _patches(params, v, kernel, outputs, whole)
        right = patches.reshape(n, g, per_in, *kernel, *outputs).transpose(order).reshape(g, n * m, per_in * k)
        return np.matmul(left.reshape(g, per_out, n * m), right).reshape(made)

    return run


def _kernel_by_offset(params: AdjointWindow, v: Array, cotangent: Array, shape: Shape) -> Array:
    g, kernel, outputs = params.groups, params.spatial, cotangent.shape[2:]
    xs = v.reshape(v.shape[0], g, v.shape[1] // g, *v.shape[2:])
    cts = cotangent.reshape(cotangent.shape[0], g, cotangent.shape[1] // g, *outputs)
    total = np.zeros((g, cts.shape[2], xs.shape[2], *kernel), dtype=v.dtype)
    for offset in np.ndindex(*kernel):
        writes, reads = offset_regions(params, offset, outputs, v.shape[2:])
        read, met = xs[(_ALL, _ALL, _ALL, *reads)], cts[(_ALL, _ALL, _ALL, *writes)]
        read, met = read.reshape(*read.shape[:3], -1), met.reshape(*met.shape[:3], -1)
        total[(_ALL, _ALL, _ALL, *offset)] = np.matmul(met, read.transpose(0, 1, 3, 2)).sum(0, dtype=v.dtype)
    return total.reshape(shape)
