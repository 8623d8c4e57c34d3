"""Strict running folds and products. NumPy's `accumulate` is sequential by its own definition, and `multiply.reduce`
over the first axis of a C-contiguous [count, kept] array with kept ≥ 2 goes row after row, as for sums (`fold.py`).
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.backends.handler import FRESH, Kernel, Traits
from torchlean.backends.reference.fold import reduced_rows
from torchlean.backends.reference.layout import by_definition
from torchlean.ir.op import Op
from torchlean.ir.ops.cumulative import CUMPROD, CUMSUM, PartialRun, shifted_array
from torchlean.ir.ops.fold import REDUCE_PROD
from torchlean.ir.ops.spread import Axes
from torchlean.ir.types import TensorType


def running(op: Op, ufunc: np.ufunc, neutral: int) -> Any:
    """A running sum or product; complex products by the definition."""
    slow = by_definition(op)

    def make(params: PartialRun, types: tuple[TensorType, ...]) -> Kernel:
        (x,) = types
        if x.dtype.is_complex and op is CUMPROD:
            return slow(params, types)
        axis, carrier = params.axis, x.dtype.carrier

        def kernel(v: Any) -> Any:
            turned = np.flip(v, axis) if params.reverse else v
            made = ufunc.accumulate(turned, axis, carrier)
            if params.exclusive:
                made = shifted_array(made, axis, False, neutral)
            return np.flip(made, axis) if params.reverse else made

        return kernel

    return make


def reduce_prod(params: Axes, types: tuple[TensorType, ...]) -> Kernel:
    """A left fold from 1 over the axes in row-major order; complex products by the definition."""
    (x,) = types
    if x.dtype.is_complex:
        return by_definition(REDUCE_PROD)(params, types)
    carrier = x.dtype.carrier
    order, count, kept_shape = reduced_rows(x.shape, params.axes)
    kept = prod(kept_shape)

    def kernel(v: Any) -> Any:
        if count == 0 or kept == 0:
            return np.ones(kept_shape, carrier)
        rows = np.ascontiguousarray(v.transpose(order).reshape(count, kept))
        if kept == 1:
            made = np.multiply.accumulate(rows.reshape(count), 0, carrier)[-1:]
        else:
            made = np.multiply.reduce(rows, 0, carrier)
        return made.reshape(kept_shape)

    return kernel


def table() -> dict[Op, tuple[Traits, Any]]:
    """Traits and maker of the running folds that NumPy has, and of the product."""
    return {
        CUMSUM: (FRESH, running(CUMSUM, np.add, 0)),
        CUMPROD: (FRESH, running(CUMPROD, np.multiply, 1)),
        REDUCE_PROD: (FRESH, reduce_prod),
    }
