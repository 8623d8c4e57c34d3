"""Batching of convolution and its adjoints: the mapped axis joins the batch, the channels of each group, or the groups.

No pattern loops, and each entry keeps its fold, so mapping changes no bits. Every rule receives its own op, whose
record lies above this file.
"""

from __future__ import annotations

from typing import Any

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.op import Op
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.layout import RESHAPE, TRANSPOSE, NewShape, Permutation
from torchlean.ir.ops.window_types import AdjointWindow, Window, adjoint_window, window_of
from torchlean.ir.types import Shape, TensorType


def _arranged(x: Any, split: Shape, order: tuple[int, ...], joined: Shape, spatial: Shape) -> Any:
    """Reshape the axes before the spatial ones to `split`, permute those by `order`, reshape them to `joined`."""
    opened = bind1(RESHAPE, NewShape((*split, *spatial)), x)
    axes = (*order, *range(len(order), len(order) + len(spatial)))
    return bind1(RESHAPE, NewShape((*joined, *spatial)), bind1(TRANSPOSE, Permutation(axes), opened))


def _nothing(op: Op, params: Any, operands: Any, mapped: Any) -> Any:
    """The result of mapping over no examples."""
    types = [type_of(x) for x in operands]
    types = [t.with_shape(t.shape[1:]) if here else t for t, here in zip(types, mapped, strict=True)]
    (made,) = op.type_rule(params, *types)
    return zeros_of(TensorType((0, *made.shape), made.dtype))


def conv_batch(op: Op, params: Window, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    if size == 0:
        return (_nothing(op, params, operands, mapped),)
    (x, w), g = operands, params.groups
    xs, ws = type_of(x).shape, type_of(w).shape
    n, c = xs[1:3] if mapped[0] else xs[:2]
    o, i = ws[1:3] if mapped[1] else ws[:2]
    inputs, kernel = xs[2 + mapped[0] :], ws[2 + mapped[1] :]
    if not mapped[1]:  # more examples
        made = bind1(op, params, bind1(RESHAPE, NewShape((size * n, c, *inputs)), x), w)
        return (bind1(RESHAPE, NewShape((size, n, o, *type_of(made).shape[2:])), made),)
    if not mapped[0]:  # more output channels in each group
        w = _arranged(w, (size, g, o // g, i), (1, 0, 2, 3), (g * size * (o // g), i), kernel)
        made = bind1(op, params, x, w)
        outputs = type_of(made).shape[2:]
        return (_arranged(made, (n, g, size, o // g), (2, 0, 1, 3), (size, n, o), outputs),)
    x = _arranged(x, (size, n, c), (1, 0, 2), (n, size * c), inputs)  # more groups
    w = bind1(RESHAPE, NewShape((size * o, i, *kernel)), w)
    made = bind1(op, window_of(params, size * g), x, w)
    return (_arranged(made, (n, size, o), (1, 0, 2), (size, n, o), type_of(made).shape[2:]),)


def input_adjoint_batch(op: Op, params: AdjointWindow, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    if size == 0:
        return (_nothing(op, params, operands, mapped),)
    (ct, w), g, spatial = operands, params.groups, params.spatial
    cts, ws = type_of(ct).shape, type_of(w).shape
    n = cts[1] if mapped[0] else cts[0]
    o, i = ws[1:3] if mapped[1] else ws[:2]
    outputs, kernel = cts[2 + mapped[0] :], ws[2 + mapped[1] :]
    if not mapped[1]:  # more examples
        made = bind1(op, params, bind1(RESHAPE, NewShape((size * n, o, *outputs)), ct), w)
        return (bind1(RESHAPE, NewShape((size, n, g * i, *spatial)), made),)
    if not mapped[0]:  # more input channels in each group
        w = _arranged(w, (size, o, i), (1, 0, 2), (o, size * i), kernel)
        made = bind1(op, params, ct, w)
        return (_arranged(made, (n, g, size, i), (2, 0, 1, 3), (size, n, g * i), spatial),)
    ct = _arranged(ct, (size, n, o), (1, 0, 2), (n, size * o), outputs)  # more groups
    w = bind1(RESHAPE, NewShape((size * o, i, *kernel)), w)
    made = bind1(op, adjoint_window(params, spatial, size * g), ct, w)
    return (_arranged(made, (n, size, g * i), (1, 0, 2), (size, n, g * i), spatial),)


def kernel_adjoint_batch(op: Op, params: AdjointWindow, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    if size == 0:
        return (_nothing(op, params, operands, mapped),)
    (x, ct), g, spatial = operands, params.groups, params.spatial
    xs, cts = type_of(x).shape, type_of(ct).shape
    n, c = xs[1:3] if mapped[0] else xs[:2]
    o = cts[2] if mapped[1] else cts[1]
    inputs, outputs = xs[2 + mapped[0] :], cts[2 + mapped[1] :]
    per_in, per_out = c // g, o // g
    if not mapped[1]:  # more input channels in each group
        x = _arranged(x, (size, n, g, per_in), (1, 2, 0, 3), (n, g * size * per_in), inputs)
        made = bind1(op, params, x, ct)
        return (_arranged(made, (o, size, per_in), (1, 0, 2), (size, o, per_in), spatial),)
    if not mapped[0]:  # more output channels in each group
        ct = _arranged(ct, (size, n, g, per_out), (1, 2, 0, 3), (n, g * size * per_out), outputs)
        made = bind1(op, params, x, ct)
        return (_arranged(made, (g, size, per_out, per_in), (1, 0, 2, 3), (size, o, per_in), spatial),)
    x = _arranged(x, (size, n, c), (1, 0, 2), (n, size * c), inputs)  # more groups
    ct = _arranged(ct, (size, n, o), (1, 0, 2), (n, size * o), outputs)
    made = bind1(op, adjoint_window(params, spatial, size * g), x, ct)
    return (bind1(RESHAPE, NewShape((size, o, per_in, *spatial)), made),)
