"""Calls of control flow, as users make them: every loop ends whatever its operands are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from torchlean.conformance.samples.draw import F32, F64, integers, uniform
from torchlean.ir import ops
from torchlean.ir.op import Op
from torchlean.ir.ops.branches import COND
from torchlean.ir.ops.remat import CHECKPOINT, CHECKPOINT_NAME
from torchlean.ir.ops.repeating import WHILE
from torchlean.ir.ops.scanning import SCAN

Row = tuple[Op, Callable[..., Any], tuple[np.ndarray[Any, Any], ...], str, bool]


def _both(op: Op, function: Callable[..., Any], arrays: tuple[Any, ...], name: str) -> Iterator[Row]:
    """In float64 (smooth) and in float32."""
    yield op, function, arrays, f"f64 {name}", True
    narrow = tuple([array.astype(F32) if array.dtype == F64 else array for array in arrays])
    yield op, function, narrow, f"f32 {name}", False


def _branches() -> Iterator[Row]:
    def choose(index: Any, x: Any, y: Any) -> Any:
        return ops.switch(index, (lambda a, b: a * b, lambda a, b: ops.sin(a), lambda a, b: a + b * b), x, y)

    for index in (0, 1, 2, -7, 9):
        i = np.array(index, dtype=np.int32)
        yield from _both(COND, choose, (i, uniform((3,)), uniform((3,), seed=1)), f"switch {index}")
    for shape in ((), (0, 2)):
        yield from _both(
            COND, choose, (np.int32(1) + np.zeros((), np.int32), uniform(shape), uniform(shape, seed=1)), str(shape)
        )
    for p in (True, False):
        pred = np.array(p)

        def pair(pred: Any, x: Any, n: Any) -> Any:
            return ops.cond(pred, lambda x, n: (ops.exp(x), n + 1), lambda x, n: (x * 0.0 + 2.0, n), x, n)

        yield from _both(COND, pair, (pred, uniform((2, 3)), integers((2,), -5, 5)), f"cond {p} with integers")

        def capturing(pred: Any, x: Any, w: Any) -> Any:
            return ops.cond(pred, lambda: ops.matmul(w, x), lambda: ops.tanh(x))

        yield from _both(COND, capturing, (pred, uniform((2,)), uniform((2, 2), seed=3)), f"cond {p} capturing")


def _rnn(save: str = "carries", reverse: bool = False) -> Callable[..., Any]:
    def function(w: Any, carry: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            new = ops.tanh(ops.matmul(w, h) + x)
            return new, (new * x, h)

        last, (a, b) = ops.scan(step, carry, xs, reverse=reverse, save=save)
        return last, a, b

    return function


def _counting(x: Any, n: Any, xs: Any) -> Any:
    """An integer carry beside a float one; a carry that starts without a tangent when only `xs` moves."""

    def step(carry: Any, x: Any) -> Any:
        total, count = carry
        return (total * x + 1.0, count + 1), (count, total)

    (total, count), (counts, totals) = ops.scan(step, (x, n), xs)
    return total, count, counts, totals


def _nested(rate: Any, w: Any, start: Any, xs: Any) -> Any:
    def outer(carry: Any, x: Any) -> Any:
        def inner(c: Any, y: Any) -> Any:
            return c * 0.5 + ops.sin(y * rate) * x, None

        last, _ = ops.scan(inner, carry, w)
        return last, last * x

    return ops.scan(outer, start, xs)


def _branching(x: Any, xs: Any) -> Any:
    def step(carry: Any, y: Any) -> Any:
        new = ops.cond(carry > y, lambda c, y: c * y, lambda c, y: ops.sin(c) + y, carry, y)
        return new, new

    return ops.scan(step, x, xs)


def _scans() -> Iterator[Row]:
    for save in ("carries", "residuals"):
        arrays = (uniform((3, 3)), uniform((3,), seed=1), uniform((5, 3), seed=2))
        yield from _both(SCAN, _rnn(save), arrays, f"tanh, {save}")
        yield from _both(SCAN, _rnn(save, reverse=True), arrays, f"tanh in reverse, {save}")
    empty = (uniform((3, 3)), uniform((3,), seed=1), uniform((0, 3), seed=2))
    yield from _both(SCAN, _rnn(), empty, "of no steps")
    yield from _both(SCAN, _rnn("residuals"), empty, "of no steps, residuals")
    yield from _both(SCAN, _counting, (uniform(()), integers((), 0, 4), uniform((7,), seed=1)), "counting")
    yield from _both(SCAN, _nested, (uniform((), seed=3), uniform((3,)), uniform(()), uniform((2,))), "nested")
    yield from _both(SCAN, _branching, (uniform(()), uniform((5,), seed=1)), "with branches")
    yield from _both(SCAN, lambda xs: ops.map(lambda x: ops.exp(x) * x, xs), (uniform((3, 2)),), "map")
    words = (integers((3,), 0, 9), integers((4, 3), 0, 9))
    yield SCAN, lambda c, xs: ops.scan(lambda c, x: (c + x, c * x), c, xs), words, "i32", False
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], dtype=F32)
    yield (
        SCAN,
        lambda c, xs: ops.scan(lambda c, x: (c + x, c * x), c, xs),
        (np.array(0.5, dtype=F32), special),
        "specials",
        False,
    )


def _loops() -> Iterator[Row]:
    def powers(n: Any, x: Any, w: Any) -> Any:
        return ops.while_loop(
            lambda c: ops.logical_and(c[0] < 5, ops.sum(c[1]) < 50.0),
            lambda c: (c[0] + 1, ops.sin(c[1]) * w + c[1]),
            (n, x),
        )

    for start in (0, 3, 9):
        n = np.array(start, dtype=np.int32)
        yield from _both(WHILE, powers, (n, uniform((2,)), uniform((2,), seed=1)), f"from {start}")

    def bounded(first: Any, limit: Any, x: Any) -> Any:
        return ops.fori_loop(first, limit, lambda i, c: c * 0.5 + ops.convert(i, c.dtype), x)

    bounds = np.array(1, dtype=np.int32), np.array(4, dtype=np.int32)
    yield from _both(WHILE, bounded, (*bounds, uniform((3,))), "fori with traced bounds")


def _checkpoints() -> Iterator[Row]:
    def layer(x: Any, w: Any) -> Any:
        h = ops.checkpoint_name(ops.tanh(ops.matmul(x, w)), "h")
        return ops.sin(h) * x, ops.sum(h)

    for policy in ("nothing", "dots", "everything", ops.save_names("h"), ops.save_names("absent")):
        arrays = (uniform((2, 3)), uniform((3, 3), seed=1))
        yield from _both(CHECKPOINT, ops.checkpoint(layer, policy), arrays, f"policy {policy}")
    for shape in ((3,), (), (0, 2)):
        yield from _both(CHECKPOINT_NAME, lambda x: ops.checkpoint_name(x, "x"), (uniform(shape),), str(shape))


def control_rows() -> Iterator[Row]:
    """(op, function, arrays, name, smooth) of every call."""
    yield from _branches()
    yield from _scans()
    yield from _loops()
    yield from _checkpoints()
