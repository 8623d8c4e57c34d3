"""Entries and blocks repeated a static number of times."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.ir import ops
from torchlean.ir.operators import Operators
from torchlean.numpy.operands import axis_of, known, operand, refuse_traced, refused, sizes

__all__ = ["repeat", "resize", "tile"]


def repeat(x: Any, repeats: Any, /, axis: int | None = None, *, total_repeat_length: int | None = None) -> Any:
    """Each entry several times in a row along an axis (the flattened array when None).

    An array of counts must be known, since it decides the shape; in a trace give a NumPy array or a tuple.
    """
    x = operand("repeat", x)
    if axis is None:
        x, axis = ops.reshape(x, (x.type.size,)), 0
    at = axis_of("repeat", axis, x.type.rank)
    count = x.type.shape[at]
    if isinstance(repeats, Operators):
        refuse_traced("repeat", "give the counts as a Python int, a tuple or a NumPy array", repeats)
        repeats = known(repeats)
    times = np.broadcast_to(np.asarray(repeats), (count,))
    if (times < 0).any():
        raise refused("repeat a negative number of times", expected="counts ≥ 0", got=str(repeats), fix="check them")
    if np.ndim(repeats) == 0 or (count and (times == times[0]).all()):
        each = int(times[0]) if count else 0
        shape = x.type.shape
        placed = tuple([a if a <= at else a + 1 for a in range(len(shape))])
        spread = ops.broadcast(x, (*shape[: at + 1], each, *shape[at + 1 :]), placed)
        return ops.reshape(spread, (*shape[:at], count * each, *shape[at + 1 :]))
    return ops.take(x, np.repeat(np.arange(count, dtype=np.int32), times), at)


def tile(x: Any, repetitions: Any, /) -> Any:
    """The array repeated as a block along each axis."""
    x = operand("tile", x)
    times = sizes("tile", repetitions)
    rank = max(len(times), x.type.rank)
    times = (1,) * (rank - len(times)) + times
    shape = (1,) * (rank - x.type.rank) + x.type.shape
    mixed = tuple([n for pair in zip(times, shape, strict=True) for n in pair])
    spread = ops.broadcast(ops.reshape(x, shape), mixed, tuple(range(1, 2 * rank, 2)))
    return ops.reshape(spread, tuple([t * n for t, n in zip(times, shape, strict=True)]))


def resize(x: Any, new_shape: Any) -> Any:
    """Entries in row-major order, repeated from the start as often as `new_shape` needs."""
    x = operand("resize", x)
    wanted = sizes("resize", new_shape)
    count, have = prod(wanted), x.type.size
    if count and not have:
        raise refused("resize of an empty array", expected="entries to repeat", got=str(x.type), fix="use tnp.zeros")
    flat = tile(ops.reshape(x, (have,)), -(-count // have) if have else 0)
    return ops.reshape(flat[:count], wanted)
