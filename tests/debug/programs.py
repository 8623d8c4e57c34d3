"""Programs whose lines the golden files of this folder name: add below, so that lines keep their numbers."""

from __future__ import annotations

from typing import Any

import torchlean as tl
from torchlean import debug, ops


def loss(w: Any, x: Any) -> Any:
    y = ops.tanh(x @ w)
    return (ops.softmax(y) * ops.log(y)).sum()


def other_loss(w: Any, x: Any) -> Any:
    y = ops.sin(x @ w)
    z = ops.softmax(y, axis=0)
    return (z * ops.log(y)).sum() + 1.0


def remarked(x: Any) -> Any:
    y = x * 2
    debug.print("y = {y}", y=y)
    debug.check(y > 0, "y is {y}", y=y)
    return y.sum()


def in_order(x: Any, y: Any) -> Any:
    first = ops.sin(x)
    second = ops.cos(y)
    return first + second


def in_other_order(x: Any, y: Any) -> Any:
    second = ops.cos(y)
    first = ops.sin(x)
    return first + second


def sine_loop(x: Any) -> Any:
    return tl.scan(lambda carry, entry: (carry * ops.sin(entry), None), x[0], x)[0]


def cosine_loop(x: Any) -> Any:
    return tl.scan(lambda carry, entry: (carry * ops.cos(entry), None), x[0], x)[0]
