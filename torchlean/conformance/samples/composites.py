"""Calls of every composite, as users make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from torchlean.conformance.samples.call import Arrays, Call
from torchlean.conformance.samples.draw import F16, F32, F64, integers, spaced, specials, uniform
from torchlean.ir import ops
from torchlean.ir.op import Op
from torchlean.ir.ops import activation, loss, neural, norm, pool, stable


def _both(op: Op, function: Callable[..., Any], arrays: Arrays, name: str) -> Iterator[Call]:
    """The call in float64 (smooth) and in float32."""
    yield Call(op, function, arrays, f"f64 {name}", True)
    narrow = tuple([array.astype(F32) if array.dtype == F64 else array for array in arrays])
    yield Call(op, function, narrow, f"f32 {name}", False)


def activations_samples() -> Iterator[Call]:
    each: tuple[tuple[Op, str, Callable[..., Any]], ...] = (
        (activation.RELU, "", ops.relu),
        (activation.GELU, "tanh ", ops.gelu),
        (activation.GELU, "erf ", lambda x: ops.gelu(x, approximate=False)),
        (activation.SILU, "", ops.silu),
        (activation.SOFTPLUS, "", ops.softplus),
        (activation.LOG_SIGMOID, "", ops.log_sigmoid),
        (stable.SINC, "", ops.sinc),
    )
    for op, name, function in each:
        for shape in ((3, 5), (1,), ()):
            x = spaced(shape) if op is activation.RELU else uniform(shape)
            yield from _both(op, function, (x,), f"{name}{list(shape)}")
        yield Call(op, function, (uniform((3,), dtype=F16),), f"{name}f16", False)
        yield Call(op, function, (uniform((0, 3), dtype=F32),), f"{name}empty", False)
        yield Call(op, function, (specials(),), f"{name}specials", False)
        yield Call(op, function, (np.zeros(3),), f"{name}at 0", False)
    for op, function in (
        (activation.SOFTMAX, ops.softmax),
        (activation.LOG_SOFTMAX, ops.log_softmax),
        (activation.LOGSUMEXP, ops.logsumexp),
    ):
        for shape, axis in (((7,), 0), ((3, 5), 1), ((3, 5), 0), ((2, 3, 5), 1), ((1,), -1)):
            yield from _both(
                op, lambda x, f=function, a=axis: f(x, a), (uniform(shape),), f"{list(shape)} along {axis}"
            )
        yield Call(op, lambda x, f=function: f(x, 1), (uniform((0, 3), dtype=F32),), "empty", False)
        yield Call(op, function, (specials(),), "specials", False)
        yield Call(op, function, (np.array([1.0, 3.0, 3.0]),), "ties", False)
        yield Call(op, function, (np.full(3, -np.inf),), "all -inf", False)
        yield Call(op, function, (np.array([1e4, -1e4, 0.0], dtype=F32),), "far", False)


def stable_samples() -> Iterator[Call]:
    pairs: tuple[tuple[Op, Callable[..., Any]], ...] = (
        (stable.LOGADDEXP, ops.logaddexp),
        (stable.XLOGY, ops.xlogy),
    )
    for op, function in pairs:
        for shape in ((3, 5), (1,), ()):
            arrays = (uniform(shape, 0.5, 2.0), uniform(shape, 0.5, 2.0, seed=1))
            yield from _both(op, function, arrays, f"{list(shape)}")
        yield Call(op, function, (uniform((0, 3), dtype=F32),) * 2, "empty", False)
        yield Call(op, function, (specials(), specials(turn=3)), "specials", False)
        yield Call(
            op, function, (np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 3.0])), "specials: ties and zeros", False
        )
    for op, function in ((stable.LOG1MEXP, ops.log1mexp), (stable.ENTR, ops.entr)):
        for shape in ((3, 5), (1,), ()):
            yield from _both(op, function, (uniform(shape, 0.1, 2.0),), f"{list(shape)}")
        yield Call(op, function, (uniform((3,), 0.1, 2.0, dtype=F16),), "f16", False)
        yield Call(op, function, (uniform((0, 3), dtype=F32),), "empty", False)
        yield Call(op, function, (specials(),), "specials", False)
    norms: Callable[..., Any] = ops.euclidean_norm
    for shape, axis in (((7,), 0), ((3, 5), 1), ((3, 5), None), ((2, 3, 5), (0, 2)), ((), None)):
        name = f"{list(shape)} over {axis}"
        yield from _both(stable.EUCLIDEAN_NORM, lambda x, a=axis: norms(x, a), (uniform(shape),), name)
    for name, x in (("at 0", np.zeros(3)), ("empty", np.zeros((0, 3), F32)), ("specials", specials())):
        yield Call(stable.EUCLIDEAN_NORM, norms, (x,), name, False)
    far = np.array([[1e200, -1e200], [1e-200, 1e-200]])
    yield Call(stable.EUCLIDEAN_NORM, lambda x: norms(x, 1), (far,), "far and near", False)


def norms_samples() -> Iterator[Call]:
    for shape, axis in (((3, 5), -1), ((2, 3, 5), (1, 2)), ((7,), 0)):
        x = uniform(shape)
        axes = tuple(sorted(a % len(shape) for a in ((axis,) if isinstance(axis, int) else axis)))
        sizes = tuple(shape[a] for a in axes)
        scale, shift = uniform(sizes, 0.5, 1.5, seed=1), uniform(sizes, seed=2)
        name = f"{list(shape)} over {axis}"
        yield from _both(norm.LAYER_NORM, lambda x, a=axis: ops.layer_norm(x, axis=a), (x,), name)
        yield from _both(
            norm.LAYER_NORM, lambda x, s, t, a=axis: ops.layer_norm(x, s, t, a), (x, scale, shift), f"affine {name}"
        )
        yield from _both(
            norm.LAYER_NORM, lambda x, t, a=axis: ops.layer_norm(x, shift=t, axis=a), (x, shift), f"shifted {name}"
        )
    yield Call(norm.LAYER_NORM, ops.layer_norm, (np.full((2, 3), 4.0),), "constant rows", False)
    yield Call(norm.LAYER_NORM, ops.layer_norm, (uniform((0, 3), dtype=F32),), "empty", False)
    yield Call(norm.LAYER_NORM, ops.layer_norm, (specials(),), "specials", False)
    for shape, axis in (((3, 2), 1), ((2, 3, 4), 1), ((2, 4, 3), 2)):
        channels = (shape[axis],)
        x, scale, shift = uniform(shape), uniform(channels, 0.5, 1.5, seed=1), uniform(channels, seed=2)
        mean, variance = uniform(channels, seed=3), uniform(channels, 0.5, 2.0, seed=4)
        name = f"{list(shape)} channels {axis}"
        yield from _both(
            norm.BATCH_NORM, lambda *xs, a=axis: ops.batch_norm(*xs, axis=a), (x, scale, shift, mean, variance), name
        )
        yield from _both(
            norm.BATCH_NORM_TRAIN, lambda *xs, a=axis: ops.batch_norm_train(*xs, axis=a), (x, scale, shift), name
        )
    ones = np.ones(2, dtype=F32)
    yield Call(norm.BATCH_NORM, ops.batch_norm, (uniform((0, 2), dtype=F32), ones, ones, ones, ones), "empty", False)


def neural_samples() -> Iterator[Call]:
    for lead in ((3,), (), (2, 3), (0,)):
        x, w, b = uniform((*lead, 5)), uniform((2, 5), seed=1), uniform((2,), seed=2)
        yield from _both(neural.LINEAR, ops.linear, (x, w), f"{[*lead, 5]} no bias")
        yield from _both(neural.LINEAR, ops.linear, (x, w, b), f"{[*lead, 5]}")
    for shape, rate in (((3, 5), 0.25), ((), 0.5), ((7,), 0.0), ((0, 3), 0.5)):
        kept = integers(shape, 0, 2, np.bool_)
        yield from _both(
            neural.DROPOUT, lambda x, k, r=rate: ops.dropout(x, k, r), (uniform(shape), kept), f"{list(shape)} {rate}"
        )
    for lead, queries, keys, width, out in (((), 3, 5, 2, 4), ((2,), 3, 3, 2, 1), ((2, 1), 1, 2, 3, 2)):
        q, k = uniform((*lead, queries, width)), uniform((*lead, keys, width), seed=1)
        v = uniform((*lead, keys, out), seed=2)
        mask = integers((queries, keys), 0, 2, np.bool_, seed=5)
        mask[0] = False  # a query that sees nothing
        name = f"{[*lead, queries, keys, width, out]}"
        yield from _both(neural.ATTENTION, ops.attention, (q, k, v), name)
        yield from _both(
            neural.ATTENTION, lambda q, k, v: ops.attention(q, k, v, causal=True), (q, k, v), f"causal {name}"
        )
        yield from _both(neural.ATTENTION, ops.attention, (q, k, v, mask), f"masked {name}")


def losses_samples() -> Iterator[Call]:
    for shape in ((7,), (3, 5), (), (1, 1)):
        yield from _both(loss.MSE_LOSS, ops.mse_loss, (uniform(shape), uniform(shape, seed=1)), f"{list(shape)}")
    for shape, axis in (((3, 5), -1), ((5,), 0), ((2, 5, 3), 1)):
        rest = tuple(size for a, size in enumerate(shape) if a != axis % len(shape))
        labels = integers(rest, 0, shape[axis])
        name = f"{list(shape)} along {axis}"
        for op, function in ((loss.CROSS_ENTROPY, ops.cross_entropy), (loss.NLL_LOSS, ops.nll_loss)):
            yield from _both(op, lambda x, y, f=function, a=axis: f(x, y, a), (uniform(shape), labels), name)
        soft = uniform(shape, 0.1, 1.0, seed=1)
        yield from _both(
            loss.CROSS_ENTROPY_ONE_HOT,
            lambda x, y, a=axis: ops.cross_entropy_one_hot(x, y, a),
            (uniform(shape), soft),
            name,
        )
    outside = np.array([0, 9, -1], dtype=np.int32)
    yield Call(loss.CROSS_ENTROPY, ops.cross_entropy, (uniform((3, 5)), outside), "a label outside", False)
    bytes_ = np.array([0, 4, 1], dtype=np.uint8)
    yield Call(loss.CROSS_ENTROPY, ops.cross_entropy, (uniform((3, 5)), bytes_), "u8 labels", False)


def pools_samples() -> Iterator[Call]:
    each: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
        ((1, 2, 7), {"window": 3}),
        ((2, 1, 5, 6), {"window": (2, 3), "strides": (1, 2)}),
        ((1, 1, 5), {"window": 3, "strides": 2, "padding": 1}),
        ((1, 2, 4, 4), {"window": 2, "strides": 1, "padding": ((1, 0), (0, 1))}),
        ((0, 2, 4), {"window": 2}),
    )
    for shape, arguments in each:
        name = f"{list(shape)} {arguments}"
        yield from _both(pool.MAX_POOL, lambda x, a=arguments: ops.max_pool(x, **a), (spaced(shape),), name)
        yield from _both(pool.AVG_POOL, lambda x, a=arguments: ops.avg_pool(x, **a), (uniform(shape),), name)
        without = {**arguments, "count_padding": False}
        yield from _both(pool.AVG_POOL, lambda x, a=without: ops.avg_pool(x, **a), (uniform(shape),), f"real {name}")
    ties = np.array([[[1.0, 1.0, 0.0, 2.0, 2.0, 2.0]]])
    yield Call(pool.MAX_POOL, lambda x: ops.max_pool(x, 3), (ties,), "ties", False)
    yield Call(pool.MAX_POOL, lambda x: ops.max_pool(x, 2), (specials().reshape(1, 1, 10),), "specials", False)
    yield Call(pool.MAX_POOL, lambda x: ops.max_pool(x, 2, padding=1), (integers((1, 2, 4), -9, 9),), "i32", False)
