"""Strict convolution and its two adjoints: patches are gathered, then products are folded in the definition's order.

A position outside the input is skipped by the definition. Here it holds 0, whose product with a finite factor changes
no fold; when a factor is infinite or NaN those terms are cleared explicitly.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.backends.handler import FRESH, Kernel, Traits
from torchlean.backends.reference.fold import Array, fold_products
from torchlean.backends.reference.layout import by_definition
from torchlean.ir.op import Op
from torchlean.ir.ops import window
from torchlean.ir.ops.window_types import AdjointWindow, Params, Window, convolved_shape, offset_regions
from torchlean.ir.types import Shape, TensorType


def read_patches(params: Params, x: Array, kernel: Shape, outputs: Shape) -> Array:
    """[N, C, kernel…, outputs…]: the input entry that each kernel offset meets at each output, 0 outside."""
    made = np.zeros((*x.shape[:2], *kernel, *outputs), dtype=x.dtype)
    for offset in np.ndindex(*kernel):
        writes, reads = offset_regions(params, offset, outputs, x.shape[2:])
        made[(slice(None), slice(None), *offset, *writes)] = x[(slice(None), slice(None), *reads)]
    return made


def spread_patches(params: Params, ct: Array, kernel: Shape, inputs: Shape) -> Array:
    """[N, O, kernel…, inputs…]: the output cotangent that each input receives through each kernel offset, 0 if none."""
    made = np.zeros((*ct.shape[:2], *kernel, *inputs), dtype=ct.dtype)
    for offset in np.ndindex(*kernel):
        reads, writes = offset_regions(params, offset, ct.shape[2:], inputs)
        made[(slice(None), slice(None), *offset, *writes)] = ct[(slice(None), slice(None), *reads)]
    return made


def _skipped(met: Array, factors: Array) -> Array | None:
    """Where nothing meets, if that matters: a factor is not finite. `met` is 1 where something does."""
    if factors.dtype.kind in "biu" or np.isfinite(factors).all():
        return None
    missing = met == 0
    return missing if missing.any() else None


def conv(params: Window, types: tuple[TensorType, ...]) -> Kernel:
    """Fold over input channel, then kernel offset."""
    x, w = types
    shape, g = convolved_shape(params, x.shape, w.shape), params.groups
    kernel, outputs = w.shape[2:], shape[2:]
    n, per_out, per_in = shape[0], shape[1] // g, w.shape[1]
    k, m = prod(kernel), prod(outputs)

    def run(v: Any, weights: Any) -> Any:
        left = weights.reshape(g, per_out, per_in * k).transpose(2, 0, 1)
        patches = read_patches(params, v, kernel, outputs).reshape(n, g, per_in, k, m)
        right = patches.transpose(2, 3, 1, 0, 4).reshape(per_in * k, g, n * m)
        total = fold_products(left, right, _missing(weights, x.shape[2:], read_patches, (per_in, n)))
        return total.reshape(g, per_out, n, m).transpose(2, 0, 1, 3).reshape(shape)

    def _missing(factors: Array, inputs: Shape, gathered: Any, repeats: tuple[int, int]) -> Array | None:
        met = gathered(params, np.ones((1, 1, *inputs), dtype=np.int8), kernel, outputs).reshape(k, m)
        skipped = _skipped(met, factors)
        return None if skipped is None else np.tile(skipped, repeats)[:, None, :]

    return run


def conv_input_adjoint(params: AdjointWindow, types: tuple[TensorType, ...]) -> Kernel:
    """Fold over output channel in its group, then kernel offset."""
    ct, w = types
    g, per_in, per_out = params.groups, w.shape[1], w.shape[0] // params.groups
    inputs, kernel = params.spatial, w.shape[2:]
    n, k, m = ct.shape[0], prod(kernel), prod(inputs)

    def run(cotangent: Any, weights: Any) -> Any:
        opened = weights.reshape(g, per_out, per_in, k)
        left = opened.transpose(1, 3, 0, 2).reshape(per_out * k, g, per_in)
        patches = spread_patches(params, cotangent, kernel, inputs).reshape(n, g, per_out, k, m)
        right = patches.transpose(2, 3, 1, 0, 4).reshape(per_out * k, g, n * m)
        met = spread_patches(params, np.ones((1, 1, *ct.shape[2:]), dtype=np.int8), kernel, inputs).reshape(k, m)
        skipped = _skipped(met, weights)
        total = fold_products(left, right, None if skipped is None else np.tile(skipped, (per_out, n))[:, None, :])
        return total.reshape(g, per_in, n, m).transpose(2, 0, 1, 3).reshape(n, g * per_in, *inputs)

    return run


def conv_kernel_adjoint(params: AdjointWindow, types: tuple[TensorType, ...]) -> Kernel:
    """Fold over batch, then output position."""
    x, ct = types
    g, kernel, outputs = params.groups, params.spatial, ct.shape[2:]
    n, per_in, per_out = x.shape[0], x.shape[1] // g, ct.shape[1] // g
    k, m = prod(kernel), prod(outputs)

    def run(v: Any, cotangent: Any) -> Any:
        left = cotangent.reshape(n, g, per_out, m).transpose(0, 3, 1, 2).reshape(n * m, g, per_out)
        patches = read_patches(params, v, kernel, outputs).reshape(n, g, per_in, k, m)
        right = patches.transpose(0, 4, 1, 2, 3).reshape(n * m, g, per_in * k)
        met = read_patches(params, np.ones((1, 1, *x.shape[2:]), dtype=np.int8), kernel, outputs).reshape(k, m)
        skipped = _skipped(met, cotangent)
        hidden = None if skipped is None else np.tile(skipped.T, (n, per_in))[:, None, :]
        return fold_products(left, right, hidden).reshape(g * per_out, per_in, *kernel)

    return run


def _real(make: Any, op: Op) -> Any:
    """The kernel for real types, the definition for complex ones."""
    slow = by_definition(op)
    return lambda params, types: slow(params, types) if types[0].dtype.is_complex else make(params, types)


def table() -> dict[Op, tuple[Traits, Any]]:
    """Traits and maker of the three convolution ops."""
    return {
        window.CONV: (FRESH, _real(conv, window.CONV)),
        window.CONV_INPUT_ADJOINT: (FRESH, _real(conv_input_adjoint, window.CONV_INPUT_ADJOINT)),
        window.CONV_KERNEL_ADJOINT: (FRESH, _real(conv_kernel_adjoint, window.CONV_KERNEL_ADJOINT)),
    }
