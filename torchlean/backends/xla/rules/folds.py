"""Reductions and running folds. XLA chooses their order; linear recurrences run in index order, as a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import lax

from torchlean.backends.xla.rules.elementwise import Made, Rule, constant
from torchlean.ir.op import Op
from torchlean.ir.ops import cumulative, fold, reduce, spread


def _reduced(fold: Callable[..., Any]) -> Rule:
    """By an op of its own: for `lax.reduce` jax traces the combining function each time."""
    return lambda params, made, x: fold(x, params.axes) if params.axes else x


def _position(find: Callable[..., Any]) -> Rule:
    def rule(params: Any, made: Made, x: Any) -> Any:
        wide = np.int64 if x.shape[params.axis] >= 2**31 else np.int32
        return find(x, params.axis, wide).astype(params.dtype.carrier)

    return rule


# -- running -----------------------------------------------------------------------------------------------------------
def _shifted(x: Any, axis: int, reverse: bool, first: Any) -> Any:
    """Entries moved one place on, `first` put before them."""
    widths = [(0, 0, 0)] * x.ndim
    widths[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    return lax.pad(x, np.asarray(first, x.dtype), widths)


def _partial(run: Callable[..., Any], neutral: int) -> Rule:
    def rule(params: Any, made: Made, x: Any) -> Any:
        if 0 in x.shape:
            return x
        whole = run(x, axis=params.axis, reverse=params.reverse)
        return _shifted(whole, params.axis, params.reverse, neutral) if params.exclusive else whole

    return rule


def _run(run: Callable[..., Any]) -> Rule:
    def rule(params: Any, made: Made, x: Any) -> Any:
        return x if 0 in x.shape else run(x, axis=params.axis, reverse=params.reverse)

    return rule


def _recurrence(params: Any, made: Made, a: Any, b: Any) -> Any:
    """hₖ = aₖ·hₖ₋₁ + bₖ in index order: pairs of steps joined in a tree may overflow where the recurrence does not."""
    axis = params.axis
    if 0 in a.shape or a.shape[axis] == 1:
        return b
    rows = [lax.transpose(x, (axis, *[d for d in range(x.ndim) if d != axis])) for x in (a, b)]
    count = a.shape[axis]
    first = count - 1 if params.reverse else 0
    rest = [row[:-1] if params.reverse else row[1:] for row in rows]

    def step(h: Any, row: Any) -> Any:
        following = lax.add(lax.mul(row[0], h), row[1])
        return following, following

    start = rows[1][first]
    _, stacked = lax.scan(step, start, tuple(rest), reverse=params.reverse)
    parts = [stacked, start[None]] if params.reverse else [start[None], stacked]
    whole = lax.concatenate(parts, 0)
    return lax.transpose(whole, (*range(1, axis + 1), 0, *range(axis + 1, a.ndim)))


def _log_sum(y: Any, x: Any) -> Any:
    """log(e^y + e^x) = max + log1p(e^-|y - x|); an infinite maximum is the result."""
    top = lax.max(y, x)
    rest = lax.log1p(lax.exp(lax.neg(lax.abs(lax.sub(y, x)))))
    return lax.select(lax.eq(lax.abs(top), constant(top, np.inf)), top, lax.add(top, rest))


def _cumlogsumexp(x: Any, *, axis: int, reverse: bool) -> Any:
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    return lax.associative_scan(_log_sum, wide, reverse=reverse, axis=axis).astype(x.dtype)


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    return {
        spread.REDUCE_SUM: _reduced(lax.reduce_sum),
        fold.REDUCE_PROD: _reduced(lax.reduce_prod),
        fold.REDUCE_AND: _reduced(lax.reduce_and),
        fold.REDUCE_OR: _reduced(lax.reduce_or),
        fold.REDUCE_XOR: _reduced(lax.reduce_xor),
        reduce.REDUCE_MAX: _reduced(lax.reduce_max),
        reduce.REDUCE_MIN: _reduced(lax.reduce_min),
        reduce.ARGMAX: _position(lax.argmax),
        reduce.ARGMIN: _position(lax.argmin),
        cumulative.RECURRENCE: _recurrence,
        cumulative.CUMSUM: _partial(lax.cumsum, 0),
        cumulative.CUMPROD: _partial(lax.cumprod, 1),
        cumulative.CUMMAX: _run(lax.cummax),
        cumulative.CUMMIN: _run(lax.cummin),
        cumulative.CUMLOGSUMEXP: _run(_cumlogsumexp),
    }
