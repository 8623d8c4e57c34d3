"""pad: entries put around an array, by five modes. Widths are static."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.errors import shown
from torchlean.ir import ops
from torchlean.ir.builder import is_python_number
from torchlean.numpy.operands import operand, refused, unknown_choice

__all__ = [
    "pad",
]

MODES = ("constant", "edge", "reflect", "symmetric", "wrap", "empty", "linear_ramp", "maximum", "minimum", "mean")


def pad(x: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, end_values: Any = 0) -> Any:
    """Entries before and after along each axis: `pad_width` is n, (before, after), or one pair per axis.

    Modes: constant, edge (the nearest entry), reflect (mirrored at the edge entry), symmetric (mirrored beyond it),
    wrap, linear_ramp (to `end_values`), maximum, minimum and mean (of the axis), empty (zeros).
    """
    x = operand("pad", x)
    if mode not in MODES:
        unknown_choice("pad", "mode", mode, MODES)
    widths = _pairs("pad_width", pad_width, x.type.rank)
    if any([n < 0 or not isinstance(n, int) for pair in widths for n in pair]):
        raise refused("pad by a negative width", expected="integers ≥ 0", got=str(pad_width), fix="slice to crop")
    if mode in ("constant", "empty"):
        return _constant(x, widths, 0 if mode == "empty" else constant_values)
    ends = _pairs("end_values", end_values, x.type.rank)
    for axis, (low, high) in enumerate(widths):
        if low or high:
            x = _along(x, axis, low, high, mode, ends[axis])
    return x


def _pairs(name: str, given: Any, rank: int) -> list[tuple[Any, Any]]:
    """One (before, after) per axis."""
    if not isinstance(given, tuple | list | np.ndarray):
        return [(given, given)] * rank
    try:
        table = np.broadcast_to(np.asarray(given), (rank, 2))
    except ValueError:
        raise refused(
            f"pad: {name}={given!r} does not fit {rank} axes",
            expected="n, (before, after), or one pair per axis",
            got=shown(given),
            fix="give one pair for every axis",
        ) from None
    return [(low, high) for low, high in table.tolist()]


def _constant(x: Any, widths: list[tuple[int, int]], values: Any) -> Any:
    if is_python_number(values) or getattr(values, "shape", None) == ():
        value = values if is_python_number(values) else ops.convert(operand("pad", values), x.type.dtype)
        return ops.pad(x, value, widths)
    for axis, ((low, high), (before, after)) in enumerate(
        zip(widths, _pairs("constant_values", values, x.type.rank), strict=True)
    ):
        one = [(0, 0)] * x.type.rank
        x = ops.pad(x, before, [*one[:axis], (low, 0), *one[axis + 1 :]])
        x = ops.pad(x, after, [*one[:axis], (0, high), *one[axis + 1 :]])
    return x


def _along(x: Any, axis: int, low: int, high: int, mode: str, ends: tuple[Any, Any]) -> Any:
    count = x.type.shape[axis]
    if not count:
        raise refused(
            f"pad of {x.type} with mode {mode!r}: axis {axis} is empty",
            expected="at least one entry to repeat",
            got=str(x.type),
            fix="use mode='constant'",
        )
    if mode in ("maximum", "minimum", "mean"):
        return _summarised(x, axis, low, high, mode)
    if mode == "linear_ramp":
        return _ramped(x, axis, low, high, ends)
    return ops.take(x, source_positions(mode, count, low, high), axis)


def source_positions(mode: str, count: int, low: int, high: int) -> np.ndarray[Any, Any]:
    """Which entry each place of a padded axis shows."""
    places = np.arange(-low, count + high)
    if mode == "edge":
        found = np.clip(places, 0, count - 1)
    elif mode == "wrap":
        found = places % count
    elif mode == "symmetric":
        turned = places % (2 * count)
        found = np.where(turned < count, turned, 2 * count - 1 - turned)
    elif count == 1:
        found = np.zeros_like(places)
    else:
        turned = places % (2 * count - 2)
        found = np.where(turned < count, turned, 2 * count - 2 - turned)
    return found.astype(np.int32)


def _summarised(x: Any, axis: int, low: int, high: int, mode: str) -> Any:
    from torchlean.numpy import reductions

    summary = {"maximum": reductions.max, "minimum": reductions.min, "mean": reductions.mean}[mode]
    value = summary(x, axis=axis, keepdims=True)
    shape = x.type.shape
    sides = [ops.broadcast_to(value, (*shape[:axis], n, *shape[axis + 1 :])) for n in (low, high)]
    return ops.concatenate([sides[0], x, sides[1]], axis)


def _ramped(x: Any, axis: int, low: int, high: int, ends: tuple[Any, Any]) -> Any:
    """Straight lines from the edge entries to the end values, which are reached at the outermost place."""
    shape, rank = x.type.shape, x.type.rank
    parts = [x]
    for side, (count, end) in enumerate(((low, ends[0]), (high, ends[1]))):
        if not count:
            continue
        edge = ops.take(x, [0 if side == 0 else shape[axis] - 1], axis)
        share = ops.convert(ops.iota((count,), 0), x.type.dtype)
        share = ops.div(share if side == 0 else ops.sub(float(count - 1), share), float(count))
        along = ops.reshape(share, tuple([count if a == axis else 1 for a in range(rank)]))
        ramp = ops.add(ops.mul(ops.sub(edge, float(end)), along), float(end))
        parts = [ramp, *parts] if side == 0 else [*parts, ramp]
    return ops.concatenate(parts, axis)
