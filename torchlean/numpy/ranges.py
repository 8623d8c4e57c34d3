"""Evenly spaced numbers, and grids made of them. Bounds are Python numbers: they decide shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.ir import ops
from torchlean.ir.dtypes import as_dtype
from torchlean.ir.operators import Operators
from torchlean.numpy.creation import full
from torchlean.numpy.devices import check_device
from torchlean.numpy.dtypes import DEFAULT_FLOAT, DEFAULT_INT, default_of, result_type
from torchlean.numpy.operands import integer, operand, operand_as, refused, sizes, unknown_choice

__all__ = [
    "arange",
    "fromfunction",
    "geomspace",
    "indices",
    "linspace",
    "logspace",
    "meshgrid",
]


def _number(name: str, argument: str, value: Any) -> Any:
    """A Python number: of an eager scalar, its value."""
    if isinstance(value, Operators):
        return value.item() if not value.type.shape and hasattr(value, "item") else float(value)  # type: ignore[arg-type]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int | float):
        return value
    raise refused(
        f"{name}: {argument}={value!r} is not a number",
        expected="a Python number",
        got=type(value).__name__,
        fix="pass an int or a float",
    )


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    """start, start + step, … below stop (0 up to `start` when `stop` is None). int32 unless a bound is a float."""
    check_device("arange", device)
    first, last = (0, start) if stop is None else (start, stop)
    first, last, step = (_number("arange", n, v) for n, v in (("start", first), ("stop", last), ("step", step)))
    if step == 0:
        raise refused("arange with step=0", expected="a step other than 0", got="0", fix="give a step")
    span = (last - first) / step if any(isinstance(v, float) for v in (first, last, step)) else None
    count = max(0, math.ceil(span) if span is not None else -(-(last - first) // step))
    if dtype is not None:
        wanted = as_dtype(dtype)
    else:
        wanted = DEFAULT_INT if all(isinstance(v, int) for v in (first, last, step)) else DEFAULT_FLOAT
    if wanted.is_integer and count and isinstance(first, int) and isinstance(step, int):
        return _counted(count, first, step, wanted)
    column = ops.iota((count,), 0, "f64" if wanted.width >= 64 or wanted.is_integer else "f32")
    return ops.convert(ops.add(ops.mul(column, float(step)), float(first)), wanted)


def _counted(count: int, first: int, step: int, dtype: Any) -> Any:
    """first + step·i in integers, exactly."""
    for end in (first, first + step * (count - 1)):
        ops.full((), end, dtype)  # refuses what does not fit
    if (first, step) == (0, 1):
        return ops.iota((count,), 0, dtype)
    return ops.constant(np.array([first + step * i for i in range(count)], dtype=dtype.carrier))


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
    axis: int = 0,
) -> Any:
    """`num` evenly spaced numbers from start to stop (stop left out without `endpoint`). Bounds may be arrays."""
    check_device("linspace", device)
    count = integer("linspace", "num", num)
    if count < 0:
        raise refused("linspace of a negative count", expected="num ≥ 0", got=str(count), fix="check num")
    wanted = _spaced_dtype(start, stop, dtype)
    exact = wanted if wanted.is_float or wanted.is_complex else DEFAULT_FLOAT
    low, high = (operand_as("linspace", v, exact) for v in (start, stop))
    shape = np.broadcast_shapes(low.type.shape, high.type.shape)
    low, high = ops.broadcast_to(low, shape), ops.broadcast_to(high, shape)
    parts = count - 1 if endpoint else count
    if count == 0:
        return full((0, *shape), 0, dtype=wanted)
    real = "f64" if exact.width == (128 if exact.is_complex else 64) else "f32"
    position = ops.reshape(ops.iota((count,), 0, real), (count, *[1] * len(shape)))
    along = ops.convert(ops.div(position, float(max(parts, 1))), exact)
    made = ops.add(low, ops.mul(along, ops.sub(high, low)))
    if endpoint and count > 1:
        made = ops.concatenate([made[:-1], ops.reshape(high, (1, *shape))], axis=0)
    made = ops.convert(made, wanted)
    return made if axis == 0 else _axis_to(made, axis)


def _axis_to(x: Any, axis: int) -> Any:
    from torchlean.numpy.shapes import moveaxis

    return moveaxis(x, 0, axis)


def _spaced_dtype(start: Any, stop: Any, dtype: Any) -> Any:
    if dtype is not None:
        return as_dtype(dtype)
    found = [v.type.dtype if isinstance(v, Operators) else default_of(v) for v in (start, stop)]
    inexact = [each if each.is_float or each.is_complex else DEFAULT_FLOAT for each in found]
    if inexact[0].is_complex is inexact[1].is_complex:
        return result_type(*inexact)
    return next(each for each in inexact if each.is_complex)


def logspace(
    start: Any, stop: Any, num: int = 50, *, endpoint: bool = True, base: float = 10.0, dtype: Any = None
) -> Any:
    """`base` to evenly spaced powers from start to stop."""
    exponents = linspace(start, stop, num, endpoint=endpoint)
    powers = ops.pow(float(base), exponents)
    return powers if dtype is None else ops.convert(powers, dtype)


def geomspace(start: Any, stop: Any, num: int = 50, *, endpoint: bool = True, dtype: Any = None) -> Any:
    """Numbers evenly spaced in ratio, from a positive start to a positive stop."""
    low, high = float(_number("geomspace", "start", start)), float(_number("geomspace", "stop", stop))
    if low * high <= 0:
        raise refused(
            "geomspace needs bounds of one sign, not zero",
            expected="start · stop > 0",
            got=f"{low} and {high}",
            fix="use linspace",
        )
    side = math.copysign(1.0, low)
    exponents = linspace(math.log(abs(low)), math.log(abs(high)), num, endpoint=endpoint)
    made = ops.mul(ops.exp(exponents), side)
    return made if dtype is None else ops.convert(made, dtype)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """One grid per vector, all of the grid's shape; with `xy` the first two axes are swapped, as in plots."""
    if indexing not in ("xy", "ij"):
        unknown_choice("meshgrid", "indexing", indexing, ("xy", "ij"))
    vectors = [operand("meshgrid", x) for x in arrays]
    for x in vectors:
        if x.type.rank > 1:
            raise refused(f"meshgrid of {x.type}", expected="vectors", got=str(x.type), fix="flatten it first")
    shape = [x.type.size for x in vectors]
    order = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        order[0], order[1] = 1, 0
    size = tuple([shape[i] for i in order])
    return [ops.broadcast(ops.reshape(x, (x.type.size,)), size, (order[i],)) for i, x in enumerate(vectors)]


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The index of each position along each axis: one array [axes, …], or with `sparse` one small array per axis."""
    shape = sizes("indices", tuple(dimensions))
    wanted = as_dtype("i32" if dtype is None else dtype)
    grids = [
        ops.iota(tuple([n if a == axis or not sparse else 1 for a, n in enumerate(shape)]), axis, wanted)
        for axis in range(len(shape))
    ]
    if sparse:
        return tuple(grids)
    return ops.stack(grids) if grids else full((0,), 0, dtype=wanted)


def fromfunction(function: Any, shape: Sequence[int], *, dtype: Any = None) -> Any:
    """`function` of the index arrays of `shape`, called once."""
    grids = indices(shape, "f32" if dtype is None else dtype)
    return function(*[grids[axis] for axis in range(len(tuple(shape)))])
