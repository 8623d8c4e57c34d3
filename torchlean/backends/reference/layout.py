"""Kernels that make or move entries without arithmetic: constants, reshape, transpose, broadcast, slice, pad, …"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.backends.handler import CAUTIOUS, FRESH, VIEW, Expression, Kernel, Traits
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.op import Op
from torchlean.ir.ops import create, cut, gather, layout, random, spread
from torchlean.ir.types import TensorType

_ALGEBRA = NumpyAlgebra()


def constant(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """The literal's own read-only array."""
    return lambda: params.array


def full(params: create.Fill, types: tuple[TensorType, ...]) -> Kernel:
    """A new array of one number."""
    return lambda: np.full(params.shape, params.entry)


def iota(params: create.Iota, types: tuple[TensorType, ...]) -> Kernel:
    """A new counting array."""
    return lambda: create.IOTA.denote(_ALGEBRA, params)[0]


def reshape(params: layout.NewShape, types: tuple[TensorType, ...]) -> Kernel:
    """A view where strides allow, else a row-major copy."""
    return Expression(f"{{0}}.reshape({params.shape!r})", {})


def transpose(params: layout.Permutation, types: tuple[TensorType, ...]) -> Kernel:
    """A view with permuted strides."""
    axes = params.axes
    if axes == tuple(range(len(axes) - 1, -1, -1)):
        return Expression("{0}.T", {})
    return Expression(f"{{0}}.transpose({axes!r})", {})


def reverse(params: layout.Flipped, types: tuple[TensorType, ...]) -> Kernel:
    """A view with negative strides."""
    if not params.axes:
        return Expression("{0}", {})
    index = ", ".join("::-1" if axis in params.axes else ":" for axis in range(types[0].rank))
    return Expression(f"{{0}}[{index}]", {})


def broadcast(params: spread.Spread, types: tuple[TensorType, ...]) -> Kernel:
    """A view with strides of 0."""
    placed = placed_shape(params, types[0].shape)
    view = "{0}" if placed == types[0].shape else f"{{0}}.reshape({placed!r})"
    return Expression(f"broadcast_to({view}, {params.shape!r})", {"broadcast_to": np.broadcast_to})


def placed_shape(params: spread.Spread, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The operand's shape with the 1s NumPy's trailing alignment needs; unchanged if it is aligned already."""
    rank = len(params.shape)
    if params.axes == tuple(range(rank - len(shape), rank)):
        return shape
    placed = [1] * rank
    for axis, size in zip(params.axes, shape, strict=True):
        placed[axis] = size
    return tuple(placed[min(params.axes, default=rank) :])


def slice_(params: cut.Strided, types: tuple[TensorType, ...]) -> Kernel:
    """A strided view."""
    if not params.starts:
        return Expression("{0}", {})
    parts = zip(params.starts, params.limits, params.strides, types[0].shape, strict=True)
    texts = [
        ":" if (start, limit, stride) == (0, size, 1) else f"{start}:{limit}" + (f":{stride}" if stride > 1 else "")
        for start, limit, stride, size in parts
    ]
    return Expression(f"{{0}}[{', '.join(texts)}]", {})


def pad(params: cut.Widths, types: tuple[TensorType, ...]) -> Kernel:
    """A new array, filled, then written."""
    return lambda x, value: cut.padded_array(x, value, params)


def concatenate(params: cut.Joined, types: tuple[TensorType, ...]) -> Kernel:
    """A new array."""
    operands = "".join(f"{{{position}}}, " for position in range(len(types)))
    return Expression(f"concatenate(({operands}), {params.axis})", {"concatenate": np.concatenate})


def by_definition(op: Op) -> Any:
    """The op's own definition over NumPy, for ops whose definition is vectorised already."""

    def make(params: Any, types: tuple[TensorType, ...]) -> Kernel:
        def kernel(*arrays: Any) -> Any:
            made = [np.asarray(x) for x in op.denote(_ALGEBRA, params, *[np.asarray(array) for array in arrays])]
            return made[0] if len(made) == 1 else tuple(made)

        return kernel

    return make


def random_bits(params: random.Draw, types: tuple[TensorType, ...]) -> Kernel:
    """The generator, vectorised over the index."""
    return lambda key: random.random_words(params, np.asarray(key))


def table() -> dict[Op, tuple[Traits, Any]]:
    """Traits and maker of every op that moves entries. A literal's array is shared, so `constant` counts as a view."""
    return {
        create.CONSTANT: (VIEW, constant),
        create.FULL: (FRESH, full),
        create.IOTA: (FRESH, iota),
        layout.RESHAPE: (VIEW, reshape),
        layout.TRANSPOSE: (VIEW, transpose),
        layout.REVERSE: (VIEW, reverse),
        spread.BROADCAST: (VIEW, broadcast),
        cut.SLICE: (VIEW, slice_),
        cut.PAD: (FRESH, pad),
        cut.CONCATENATE: (FRESH, concatenate),
        gather.GATHER: (CAUTIOUS, by_definition(gather.GATHER)),
        random.RANDOM_BITS: (FRESH, random_bits),
    }
