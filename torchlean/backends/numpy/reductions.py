"""NumPy's own reductions, and the order functions with NumPy's choice between equal zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.backends.handler import Expression, Kernel
from torchlean.ir.ops.gather import Along, Mode
from torchlean.ir.ops.spread import Axes
from torchlean.ir.types import TensorType


def axis_text(axes: tuple[int, ...], rank: int) -> str:
    """The axis argument that NumPy reduces fastest."""
    if len(axes) == rank and rank > 0:
        return "None"
    return repr(axes[0]) if len(axes) == 1 else repr(axes)


def _turned(params: Axes, x: TensorType) -> bool:
    """Whether it pays to copy a matrix's transpose first: NumPy is slow along many short rows."""
    return x.rank == 2 and params.axes == (1,) and x.shape[1] <= 32 <= x.shape[0]


def reduce_sum(params: Axes, types: tuple[TensorType, ...]) -> Kernel:
    """Pairwise along a contiguous axis, row after row across one; a matrix's columns through BLAS."""
    (x,) = types
    axis = axis_text(params.axes, x.rank)
    if not x.dtype.is_float:
        return Expression(f"reduce({{0}}, {axis}, dtype)", {"reduce": np.add.reduce, "dtype": x.dtype.carrier})
    if x.rank == 2 and params.axes == (0,) and x.dtype.width >= 32:
        return Expression("dot(ones, {0})", {"dot": np.dot, "ones": read_only(np.ones(x.shape[0], x.dtype.carrier))})
    if _turned(params, x):
        return Expression("reduce(contiguous({0}.T), 0)", {"reduce": np.add.reduce, "contiguous": np.ascontiguousarray})
    return Expression(f"reduce({{0}}, {axis})", {"reduce": np.add.reduce})


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array, frozen: a constant of a kernel."""
    array.flags.writeable = False
    return array


def extreme(reduce: Any) -> Any:
    """NaN propagates; of equal zeros either may win."""

    def make(params: Axes, types: tuple[TensorType, ...]) -> Kernel:
        (x,) = types
        if _turned(params, x):
            return Expression("reduce(contiguous({0}.T), 0)", {"reduce": reduce, "contiguous": np.ascontiguousarray})
        return Expression(f"reduce({{0}}, {axis_text(params.axes, x.rank)})", {"reduce": reduce})

    return make


def clamp(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """min(max(x, low), high)."""
    return Expression("minimum(maximum({1}, {0}), {2})", {"minimum": np.minimum, "maximum": np.maximum})


def gather(params: Along, types: tuple[TensorType, ...]) -> Kernel:
    """`np.take`, with entries outside the axis clipped or set to 0."""
    size, axis = types[0].shape[params.axis], params.axis
    trailing = (1,) * (types[0].rank - axis - 1)

    def kernel(x: Any, indices: Any) -> Any:
        made = np.take(x, indices, axis, mode="clip")
        if params.mode is Mode.FILL:
            outside = np.asarray((indices < 0) | (indices >= size))
            if outside.any():
                made = np.where(outside.reshape(outside.shape + trailing), made.dtype.type(0), made)
        return made

    return kernel


def gather_refuses(params: Along, types: tuple[TensorType, ...]) -> str | None:
    """Paired leading axes, unsigned 64-bit positions and empty axes are left to the definition."""
    if params.batch:
        return "operand and indices share leading axes"
    if types[0].shape[params.axis] == 0:
        return "the axis is empty"
    return "positions of 64 unsigned bits" if types[1].dtype.short == "u64" else None
