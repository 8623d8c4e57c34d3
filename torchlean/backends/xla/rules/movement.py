"""Constants, and ops that move entries: reshape, transpose, reverse, broadcast, slice, pad, concatenate, windows at
run-time positions, sorting.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlean.backends.xla.rules.elementwise import Made, Rule
from torchlean.ir.op import Op
from torchlean.ir.ops import create, cut, dynamic, layout, sorting, spread


# -- constants ---------------------------------------------------------------------------------------------------------
def _constant(params: Any, made: Made) -> Any:
    return jnp.asarray(params.array)


def _full(params: Any, made: Made) -> Any:
    return lax.full(params.shape, params.entry[()], params.dtype.carrier)


def _iota(params: Any, made: Made) -> Any:
    carrier = params.dtype.carrier
    if params.dtype.is_complex:
        counted = lax.broadcasted_iota(params.dtype.part.carrier, params.shape, params.axis)
        return counted.astype(carrier)
    return lax.broadcasted_iota(np.int32, params.shape, params.axis).astype(carrier)


# -- cuts --------------------------------------------------------------------------------------------------------------
def _pad(params: Any, made: Made, x: Any, value: Any) -> Any:
    shape = made[0].shape
    if 0 in x.shape or 0 in shape:
        return lax.broadcast_in_dim(value, shape, ())
    return lax.pad(x, value, tuple(zip(params.low, params.high, params.interior, strict=True)))


# -- windows at run-time positions -------------------------------------------------------------------------------------
def _starts(starts: Any, room: tuple[int, ...]) -> list[Any]:
    """One index per axis, none beyond its room: jax would count a negative one from the end."""
    made: list[Any] = []
    for axis, most in enumerate(room):
        start = starts[axis]
        limit = np.asarray(min(most, np.iinfo(start.dtype).max), start.dtype)
        made.append(lax.clamp(np.zeros((), start.dtype), start, limit).astype(np.int64))
    return made


def _dynamic_slice(params: Any, made: Made, x: Any, starts: Any) -> Any:
    room = tuple([have - size for have, size in zip(x.shape, params.sizes, strict=True)])
    return lax.dynamic_slice(x, _starts(starts, room), params.sizes)


def _dynamic_update_slice(params: Any, made: Made, x: Any, update: Any, starts: Any) -> Any:
    room = tuple([have - size for have, size in zip(x.shape, update.shape, strict=True)])
    return lax.dynamic_update_slice(x, update, _starts(starts, room)) if x.shape else update


# -- sorting -----------------------------------------------------------------------------------------------------------
def _sort(params: Any, made: Made, *xs: Any) -> Any:
    """Descending is the ascending order of the reversed axis, reversed, as the definition."""
    axis, count = params.axis, params.keys
    turn = (lambda x: lax.rev(x, (axis,))) if params.descending else (lambda x: x)
    keys = [
        turn(x.astype(np.float32) if x.dtype.itemsize == 1 and x.dtype.kind not in "biu" else x) for x in xs[:count]
    ]
    order = lax.sort([*keys, *[turn(x) for x in xs]], dimension=axis, is_stable=True, num_keys=count)
    results = [turn(x) for x in order[count:]]
    return results[0] if len(results) == 1 else tuple(results)


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    return {
        create.CONSTANT: _constant,
        create.FULL: _full,
        create.IOTA: _iota,
        layout.RESHAPE: lambda params, made, x: lax.reshape(x, params.shape),
        layout.TRANSPOSE: lambda params, made, x: lax.transpose(x, params.axes),
        layout.REVERSE: lambda params, made, x: lax.rev(x, params.axes),
        spread.BROADCAST: lambda params, made, x: lax.broadcast_in_dim(x, params.shape, params.axes),
        cut.SLICE: lambda params, made, x: lax.slice(x, params.starts, params.limits, params.strides),
        cut.PAD: _pad,
        cut.CONCATENATE: lambda params, made, *xs: lax.concatenate(xs, params.axis),
        dynamic.DYNAMIC_SLICE: _dynamic_slice,
        dynamic.DYNAMIC_UPDATE_SLICE: _dynamic_update_slice,
        sorting.SORT: _sort,
    }
