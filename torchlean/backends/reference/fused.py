"""Strict kernels for composites: the bits of the body, in fewer calls. Every other composite is expanded."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.backends.handler import FRESH, SPREADING, Expression, Kernel, Traits
from torchlean.backends.reference.elementwise import scalar
from torchlean.ir.op import Op
from torchlean.ir.ops import activation, loss
from torchlean.ir.types import TensorType


def relu(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """0 where x ≤ 0, else x. The maximum may keep either zero; adding +0 makes it +0 and changes nothing else."""
    names = {"add": np.add, "maximum": np.maximum, "zero": scalar(0, types[0].dtype.carrier)}
    return Expression("add(maximum({0}, zero), zero)", names)


def mse_loss(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """(Σ (prediction - target)²) / n, the sum a left fold over all entries in row-major order."""
    carrier = types[0].dtype.carrier
    count = prod(types[0].shape)
    zero, divisor = scalar(0, carrier), scalar(float(count), carrier)
    subtract, multiply, add, divide, accumulate = np.subtract, np.multiply, np.add, np.divide, np.add.accumulate
    if count == 0:
        return lambda prediction, target: divide(zero, divisor)

    def kernel(prediction: Any, target: Any) -> Any:
        d = subtract(prediction, target)
        return divide(add(accumulate(multiply(d, d).reshape(-1))[-1], zero), divisor)

    return kernel


def table() -> dict[Op, tuple[Traits, Any]]:
    """Traits and maker of the fused composites."""
    return {activation.RELU: (SPREADING, relu), loss.MSE_LOSS: (FRESH, mse_loss)}
