"""Softmax cross-entropy and its gradient in a dozen NumPy calls each, for logits [rows, classes].

Extremes along the short last axis are taken on a transposed copy and sums by a product with ones: NumPy's own
reductions along a short axis cost three to four times as much. A label outside the classes sends the call to the
definition, which gives NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.backends.handler import Kernel
from torchlean.ir.evaluate import denote
from torchlean.ir.types import TensorType


def refuses(params: Any, types: tuple[TensorType, ...]) -> str | None:
    """Only f32 or f64 logits of rank 2 with int32 or int64 labels, classes last."""
    logits, labels = types[0], types[1]
    if logits.rank != 2 or params.attribute("axis") != 1:
        return "serves logits of rank 2 with the classes last"
    if 0 in logits.shape:
        return "serves no empty logits"
    if logits.dtype.width < 32 or labels.dtype.width < 32:
        return f"serves no {logits.dtype} logits with {labels.dtype} labels"
    return None


def _parts(types: tuple[TensorType, ...]) -> tuple[Any, ...]:
    rows, classes = types[0].shape
    carrier = types[0].dtype.carrier
    starts = np.arange(rows, dtype=np.intp) * classes
    ones = np.ones((classes, 1), dtype=carrier)
    unsigned = np.dtype(f"u{types[1].dtype.carrier.itemsize}")
    count = np.array(rows, dtype=carrier)
    for made in (starts, ones, count):
        made.flags.writeable = False
    return rows, classes, starts, ones, unsigned, count


def cross_entropy(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """mean(log Σ exp(x - top) - (x - top)[label]), top the row's largest logit."""
    rows, classes, starts, ones, unsigned, count = _parts(types)
    maximum, subtract, add = np.maximum.reduce, np.subtract, np.add.reduce
    exp, log, divide, dot, contiguous = np.exp, np.log, np.divide, np.dot, np.ascontiguousarray
    body = params.body

    def kernel(logits: Any, labels: Any) -> Any:
        if maximum(labels.view(unsigned)) >= classes:
            return denote(body, (logits, labels))[0]
        top = maximum(contiguous(logits.T), 0).reshape(rows, 1)
        shifted = subtract(logits, top)
        total = log(dot(exp(shifted), ones)).reshape(rows)
        return divide(add(subtract(total, shifted.reshape(-1).take(starts + labels))), count)

    return kernel


def cross_entropy_vjp(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """(softmax(x) - one_hot(label)) · ct / rows."""
    rows, classes, starts, ones, unsigned, count = _parts(types)
    maximum, subtract, multiply = np.maximum.reduce, np.subtract, np.multiply
    exp, divide, dot, contiguous = np.exp, np.divide, np.dot, np.ascontiguousarray
    body = params.body
    one = np.array(1, dtype=types[0].dtype.carrier)

    def kernel(logits: Any, labels: Any, ct: Any) -> Any:
        if maximum(labels.view(unsigned)) >= classes:
            return denote(body, (logits, labels, ct))[0]
        top = maximum(contiguous(logits.T), 0).reshape(rows, 1)
        made = subtract(logits, top, order="C")  # entries are found by their row-major number below
        exp(made, made)
        divide(made, dot(made, ones), made)
        flat = made.reshape(-1)
        chosen = starts + labels
        flat[chosen] = subtract(flat.take(chosen), one)
        return multiply(made, divide(ct, count), made)

    return kernel
