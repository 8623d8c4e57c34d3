"""Composites in fewer NumPy calls than their bodies: relu, the squared error, and their gradients."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.backends.handler import Expression, Kernel
from torchlean.backends.numpy.reductions import read_only
from torchlean.ir.types import TensorType


def _scalar(value: float, type: TensorType) -> np.ndarray[Any, Any]:
    return read_only(np.array(value, dtype=type.dtype.carrier))


def relu(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """max(x, 0): NaN passes, the sign of a zero is NumPy's choice."""
    return Expression("maximum({0}, zero)", {"maximum": np.maximum, "zero": _scalar(0, types[0])})


_LARGE = 1 << 10


def relu_vjp(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """The cotangent, and 0 where x ≤ 0. Many entries are cleared by their bits: choosing one by one mispredicts."""
    zero = _scalar(0, types[0])
    if types[0].size < _LARGE:
        return Expression(
            "where(less_equal({0}, zero), zero, {1})",
            {"where": np.where, "less_equal": np.less_equal, "zero": zero},
        )
    width = types[0].dtype.width
    integer, carrier = np.dtype(f"i{width // 8}"), types[0].dtype.carrier
    less_equal, subtract, one = np.less_equal, np.subtract, np.array(1, dtype=integer)

    def kernel(x: Any, ct: Any) -> Any:
        kept = less_equal(x, zero).astype(integer)
        subtract(kept, one, kept)  # all bits where x > 0 or NaN, none where x ≤ 0
        kept &= ct.view(integer)
        return kept.view(carrier)

    return kernel


def mse_loss(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """d·d / n by BLAS, d the difference of all entries."""
    count = _scalar(float(prod(types[0].shape)), types[0])
    subtract, dot, divide = np.subtract, np.dot, np.divide

    def kernel(prediction: Any, target: Any) -> Any:
        d = subtract(prediction, target).reshape(-1)
        return divide(dot(d, d), count)

    return kernel


def mse_loss_vjp(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """(prediction - target) · (2·ct / n), and its negative for the target."""
    count, two = _scalar(float(prod(types[0].shape)), types[0]), _scalar(2, types[0])
    wrt = params.attribute("wrt")
    names = {"multiply": np.multiply, "subtract": np.subtract, "divide": np.divide, "two": two, "n": count}
    factor = "divide(multiply({2}, two), n)"
    if wrt == (0,):
        return Expression(f"multiply(subtract({{0}}, {{1}}), {factor})", names)
    if wrt == (1,):
        return Expression(f"multiply(subtract({{1}}, {{0}}), {factor})", names)
    multiply, subtract, divide, negative = np.multiply, np.subtract, np.divide, np.negative

    def kernel(prediction: Any, target: Any, ct: Any) -> Any:
        slope = multiply(subtract(prediction, target), divide(multiply(ct, two), count))
        return slope, negative(slope)

    return kernel
