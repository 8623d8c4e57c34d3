"""Convolution over any number of spatial axes, and its two adjoints.

The three ops are bilinear and closed: each one's derivative is the other two, so every order of derivative stays among
them. As in every deep learning library the kernel is not flipped. Positions outside the input contribute nothing: they
are skipped, not multiplied by 0. Layouts and params are in `window_types.py`, batching in `window_batch.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from torchlean.errors import TypeRuleError, message
from torchlean.ir.builder import bind1, type_of
from torchlean.ir.location import caller_location
from torchlean.ir.op import Op
from torchlean.ir.ops.window_batch import conv_batch, input_adjoint_batch, kernel_adjoint_batch
from torchlean.ir.ops.window_types import (
    AdjointWindow,
    Region,
    Window,
    adjoint_window,
    conv_type,
    convolved_shape,
    input_adjoint_type,
    kernel_adjoint_type,
    kernel_extent,
    lengths,
    offset_regions,
    output_regions,
    window_of,
)
from torchlean.ir.rules import Bilinear, Rule
from torchlean.ir.types import Shape, TensorType


# -- meaning: products are added to regions of the result, one kernel offset or output position at a time -------------
def _part(algebra: Any, x: Any, index: tuple[Any, ...], placed: Shape, shape: Shape) -> Any:
    """`x[index]`, reshaped to `placed`, broadcast to `shape`."""
    return algebra.shape(lambda v: np.broadcast_to(np.reshape(v[index], placed), shape), x)


def _put(total: Any, region: Region, new: Any) -> Any:
    made = np.array(total, copy=True)
    made[region] = new
    return made


def _add_to(algebra: Any, total: Any, region: Region, terms: Any) -> Any:
    """`total` with `terms` added in a region."""
    if np.shape(terms) == np.shape(total):
        return algebra.add(total, terms)
    added = algebra.add(algebra.shape(lambda v: v[region], total), terms)
    return algebra.shape(lambda v, new: _put(v, region, new), total, added)


def _split(algebra: Any, x: Any, axis: int, groups: int) -> Any:
    """Split a channel axis in [groups, channels per group]."""
    shape = np.shape(x)
    split = (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    return algebra.shape(lambda v: np.reshape(v, split), x)


_ALL = slice(None)


def _conv_value(algebra: Any, params: Window, x: Any, w: Any) -> tuple[Any, ...]:
    """Each entry is a left fold from 0 over input channel, then kernel offset in row-major order."""
    shape, g = convolved_shape(params, np.shape(x), np.shape(w)), params.groups
    inputs, kernel, outputs = np.shape(x)[2:], np.shape(w)[2:], shape[2:]
    n, per = shape[0], shape[1] // g
    xs, ws = _split(algebra, x, 1, g), _split(algebra, w, 0, g)
    total = algebra.constant(np.zeros((n, g, per, *outputs), dtype=x.dtype))
    for channel in range(np.shape(w)[1]):
        for offset in np.ndindex(*kernel):
            writes, reads = offset_regions(params, offset, outputs, inputs)
            sizes = lengths(writes)
            entries = _part(algebra, xs, (_ALL, _ALL, channel, *reads), (n, g, 1, *sizes), (n, g, per, *sizes))
            weights = _part(
                algebra, ws, (_ALL, _ALL, channel, *offset), (1, g, per, *[1] * len(sizes)), (n, g, per, *sizes)
            )
            total = _add_to(algebra, total, (_ALL, _ALL, _ALL, *writes), algebra.mul(entries, weights))
    return (algebra.shape(lambda v: np.reshape(v, shape), total),)


def _input_adjoint_value(algebra: Any, params: AdjointWindow, ct: Any, w: Any) -> tuple[Any, ...]:
    """Each entry is a left fold from 0 over output channel in its group, then kernel offset in row-major order."""
    g, per = params.groups, np.shape(w)[1]
    inputs, kernel, outputs = params.spatial, np.shape(w)[2:], np.shape(ct)[2:]
    n = np.shape(ct)[0]
    cts, ws = _split(algebra, ct, 1, g), _split(algebra, w, 0, g)
    total = algebra.constant(np.zeros((n, g, per, *inputs), dtype=ct.dtype))
    for channel in range(np.shape(w)[0] // g):
        for offset in np.ndindex(*kernel):
            reads, writes = offset_regions(params, offset, outputs, inputs)
            sizes = lengths(reads)
            entries = _part(algebra, cts, (_ALL, _ALL, channel, *reads), (n, g, 1, *sizes), (n, g, per, *sizes))
            weights = _part(
                algebra, ws, (_ALL, channel, _ALL, *offset), (1, g, per, *[1] * len(sizes)), (n, g, per, *sizes)
            )
            total = _add_to(algebra, total, (_ALL, _ALL, _ALL, *writes), algebra.mul(entries, weights))
    return (algebra.shape(lambda v: np.reshape(v, (n, g * per, *inputs)), total),)


def _kernel_adjoint_value(algebra: Any, params: AdjointWindow, x: Any, ct: Any) -> tuple[Any, ...]:
    """Each entry is a left fold from 0 over batch, then output position in row-major order."""
    g, kernel = params.groups, params.spatial
    inputs, outputs = np.shape(x)[2:], np.shape(ct)[2:]
    per_in, per_out = np.shape(x)[1] // g, np.shape(ct)[1] // g
    xs, cts = _split(algebra, x, 1, g), _split(algebra, ct, 1, g)
    total = algebra.constant(np.zeros((g, per_out, per_in, *kernel), dtype=x.dtype))
    for n in range(np.shape(x)[0]):
        for output in np.ndindex(*outputs):
            writes, reads = output_regions(params, output, kernel, inputs)
            sizes = lengths(writes)
            made = (g, per_out, per_in, *sizes)
            entries = _part(algebra, xs, (n, _ALL, _ALL, *reads), (g, 1, per_in, *sizes), made)
            cotangents = _part(algebra, cts, (n, _ALL, _ALL, *output), (g, per_out, 1, *[1] * len(sizes)), made)
            total = _add_to(algebra, total, (_ALL, _ALL, _ALL, *writes), algebra.mul(entries, cotangents))
    return (algebra.shape(lambda v: np.reshape(v, (g * per_out, per_in, *kernel)), total),)


# -- the ops -----------------------------------------------------------------------------------------------------------
def _to_input(params: Any, ct: Any, w: Any, x: Any) -> Any:
    """The cotangent of a convolution carried back to an input like `x`."""
    return bind1(CONV_INPUT_ADJOINT, adjoint_window(params, type_of(x).shape[2:]), ct, w)


def _to_kernel(params: Any, x: Any, ct: Any, w: Any) -> Any:
    """The cotangent of a convolution carried back to a kernel like `w`."""
    return bind1(CONV_KERNEL_ADJOINT, adjoint_window(params, type_of(w).shape[2:]), x, ct)


CONV = Op(
    name="conv",
    params=Window,
    type_rule=conv_type,
    denote=_conv_value,
    diff=Bilinear(
        lhs=lambda params, ct, x, w: _to_input(params, ct, w, x),
        rhs=lambda params, ct, x, w: _to_kernel(params, x, ct, w),
    ),
    batch=Rule(lambda *given: conv_batch(CONV, *given)),
    reduces=True,
    doc=(
        "Convolution (input, kernel) → output. Each entry is a left fold from 0 over input channel, then kernel offset "
        "in row-major order, products rounded, then sums; offsets outside the input are skipped."
    ),
)
CONV_INPUT_ADJOINT = Op(
    name="conv_input_adjoint",
    params=AdjointWindow,
    type_rule=input_adjoint_type,
    denote=_input_adjoint_value,
    diff=Bilinear(
        lhs=lambda params, ct, y, w: bind1(CONV, window_of(params), ct, w),
        rhs=lambda params, ct, y, w: _to_kernel(params, ct, y, w),
    ),
    batch=Rule(lambda *given: input_adjoint_batch(CONV_INPUT_ADJOINT, *given)),
    reduces=True,
    doc=(
        "Adjoint of a convolution in its input: (cotangent, kernel) → input. Each entry is a left fold from 0 over "
        "output channel in its group, then kernel offset in row-major order; offsets without an output are skipped."
    ),
)
CONV_KERNEL_ADJOINT = Op(
    name="conv_kernel_adjoint",
    params=AdjointWindow,
    type_rule=kernel_adjoint_type,
    denote=_kernel_adjoint_value,
    diff=Bilinear(
        lhs=lambda params, ct, x, y: _to_input(params, y, ct, x),
        rhs=lambda params, ct, x, y: bind1(CONV, window_of(params), x, ct),
    ),
    batch=Rule(lambda *given: kernel_adjoint_batch(CONV_KERNEL_ADJOINT, *given)),
    reduces=True,
    doc=(
        "Adjoint of a convolution in its kernel: (input, cotangent) → kernel. Each entry is a left fold from 0 over "
        "batch, then output position in row-major order; positions outside the input are skipped."
    ),
)

# -- functions ---------------------------------------------------------------------------------------------------------
Sizes = int | Sequence[int]
Paddings = int | Literal["same", "valid"] | Sequence[int] | Sequence[tuple[int, int]]


def _refusal(what: str, expected: str, got: str, fix: str) -> TypeRuleError:
    return TypeRuleError(message(what, expected=expected, got=got, fix=fix, where=str(caller_location())))


def _per_axis(what: str, name: str, given: Any, rank: int) -> tuple[Any, ...]:
    """One entry per spatial axis, from a number for all or a sequence."""
    each = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(each) != rank:
        raise _refusal(
            f"{what}: {name} {list(each)} does not fit {rank} spatial axes",
            f"a number, or {rank} of them",
            f"{len(each)} entries",
            "give one entry per spatial axis",
        )
    return each


def _same(size: int, extent: int, stride: int) -> tuple[int, int]:
    """Padding for ceil(size / stride) outputs; an odd one out goes to the high end."""
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


def _pairs(what: str, given: Any, rank: int) -> tuple[tuple[int, int], ...]:
    each = _per_axis(what, "padding", given, rank)
    return tuple([(pad, pad) if isinstance(pad, int) else (pad[0], pad[1]) for pad in each])


def _spatial_rank(what: str, x: TensorType, w: TensorType, layout: str) -> int:
    if x.rank < 2 or x.rank != w.rank:
        raise _refusal(
            f"{what} of {x} with a kernel {w}: ranks do not fit",
            f"an input [batch, channels, spatial…] and a kernel {layout} of the same rank",
            f"ranks {x.rank} and {w.rank}",
            "add a batch or channel axis of size 1",
        )
    return x.rank - 2


def conv(x: Any, w: Any, *, strides: Sizes = 1, padding: Paddings = 0, dilation: Sizes = 1, groups: int = 1) -> Any:
    """Convolve x [N, C, spatial…] with the unflipped kernel w [O, C / groups, spatial…] → [N, O, spatial…].

    `padding`: a width, one per axis, a (low, high) pair per axis, "valid" (none), or "same": ceil(size / stride)
    outputs, an odd width going to the high end. Output size: (size + low + high - (k - 1)·dilation - 1) ÷ stride + 1.
    """
    xs, ws = type_of(x), type_of(w)
    rank = _spatial_rank("conv", xs, ws, "[out, in / groups, spatial…]")
    steps, spread = _per_axis("conv", "strides", strides, rank), _per_axis("conv", "dilation", dilation, rank)
    if padding == "same":
        axes = zip(xs.shape[2:], ws.shape[2:], steps, spread, strict=True)
        pairs = tuple([_same(size, kernel_extent(k, d), s) for size, k, s, d in axes])
    elif padding == "valid":
        pairs = _pairs("conv", 0, rank)
    elif isinstance(padding, str):
        expected = '"same", "valid", or widths'
        raise _refusal(f"conv: {padding!r} is not a padding", expected, repr(padding), "give the widths as numbers")
    else:
        pairs = _pairs("conv", padding, rank)
    return bind1(CONV, Window(steps, pairs, spread, groups), x, w)


def conv_transpose(
    x: Any,
    w: Any,
    *,
    strides: Sizes = 1,
    padding: int | Sequence[int] | Sequence[tuple[int, int]] = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """The input adjoint of `conv` as a layer: x [N, C, spatial…], w [C, O / groups, spatial…] → [N, O, spatial…].

    Output size: (size - 1)·stride - low - high + (k - 1)·dilation + 1 + output_padding, as `torch.conv_transpose*d`.
    """
    xs, ws = type_of(x), type_of(w)
    rank = _spatial_rank("conv_transpose", xs, ws, "[in, out / groups, spatial…]")
    if isinstance(padding, str):
        what = f"conv_transpose: {padding!r} is not a padding"
        raise _refusal(what, "widths: an input size does not follow from the output's", repr(padding), "give numbers")
    given = (("strides", strides), ("dilation", dilation), ("output_padding", output_padding))
    steps, spread, extra = (_per_axis("conv_transpose", name, each, rank) for name, each in given)
    low_high = _pairs("conv_transpose", padding, rank)
    # Output padding is high padding taken away, so that the convolution back has exactly the input's size.
    pairs = tuple([(low, high - more) for (low, high), more in zip(low_high, extra, strict=True)])
    spatial = tuple(
        [
            (size - 1) * s + kernel_extent(k, d) - low - high
            for size, k, s, d, (low, high) in zip(xs.shape[2:], ws.shape[2:], steps, spread, pairs, strict=True)
        ]
    )
    return bind1(CONV_INPUT_ADJOINT, AdjointWindow(steps, pairs, spread, groups, spatial), x, w)


OPS = (CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT)
