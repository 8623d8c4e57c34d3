"""Medians, quantiles and percentiles, by sorting."""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir import ops
from torchlean.ir.builder import is_python_number
from torchlean.numpy import reductions
from torchlean.numpy.comparison import isnan
from torchlean.numpy.operands import axes_of, operand, operand_as, refused, require_float, unknown_choice

__all__ = [
    "median",
    "percentile",
    "quantile",
]

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(x: Any, q: Any, /, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """The value below which the share `q` of the entries lies; NaN if an entry is. An array `q` gives leading axes.

    Methods: linear (between the two neighbours), lower, higher, midpoint, nearest.
    """
    return of_sorted("quantile", x, q, axis, method, keepdims, skip_nan=False)


def percentile(x: Any, q: Any, /, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """`quantile` of q / 100."""
    return quantile(x, share(q), axis=axis, method=method, keepdims=keepdims)


def median(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The middle entry, or the mean of the two in the middle."""
    return quantile(x, 0.5, axis=axis, method="midpoint", keepdims=keepdims)


def share(q: Any) -> Any:
    """Hundredths as a share of one."""
    return q / 100 if is_python_number(q) else ops.div(operand("percentile", q), 100)


def of_sorted(name: str, x: Any, q: Any, axis: Any, method: str, keepdims: bool, *, skip_nan: bool) -> Any:
    """Quantiles along axes, which are moved last and flattened first."""
    if method not in METHODS:
        unknown_choice(name, "method", method, METHODS)
    x = require_float(name, x, complex_too=False)
    if is_python_number(q) and not 0 <= q <= 1:
        raise refused(
            f"{name}: q={q} is no share", expected="a number in [0, 1]", got=str(q), fix="divide by the total"
        )
    axes = axes_of(name, axis, x.type.rank)
    rest = [a for a in range(x.type.rank) if a not in axes]
    lead = tuple([x.type.shape[a] for a in rest])
    rows = ops.reshape(ops.transpose(x, (*rest, *axes)), (*lead, math.prod([x.type.shape[a] for a in axes])))
    count = rows.type.shape[-1]
    if not count:
        raise refused(f"{name} of {x.type}", expected="at least one entry", got="none", fix="check for an empty axis")
    missing = isnan(rows)
    ordered = ops.sort(rows, axis=-1)
    shares = operand_as(name, q, x.type.dtype)
    have = ops.sub(float(count), ops.convert(reductions.sum(missing, axis=-1), x.type.dtype))
    last = ops.max(ops.sub(have, 1.0), 0.0) if skip_nan else ops.full_like(have, float(count - 1))
    several = shares.type.shape
    place = ops.mul(ops.reshape(shares, (*several, *[1] * len(lead))), last)
    found = _between(ordered, place, several, method)
    poisoned = ops.eq(have, 0) if skip_nan else reductions.any(missing, axis=-1)
    found = ops.select(poisoned, math.nan, found)
    if not keepdims:
        return found
    return ops.reshape(found, (*several, *[1 if a in axes else n for a, n in enumerate(x.type.shape)]))


def _between(ordered: Any, place: Any, several: tuple[int, ...], method: str) -> Any:
    """The entries at fractional positions of sorted rows."""
    low, high = ops.floor(place), ops.ceil(place)
    if method == "nearest":
        low = high = ops.round(place)
    lead, count = place.type.shape, ordered.type.shape[-1]
    spread = ops.broadcast_to(ordered, (*lead, count))

    def at(position: Any) -> Any:
        index = ops.reshape(ops.convert(position, "i32"), (*lead, 1))
        return ops.reshape(ops.take_along_axis(spread, index, -1), lead)

    below = at(low)
    if method in ("lower", "nearest"):
        return below
    above = at(high)
    if method == "higher":
        return above
    part = ops.full_like(place, 0.5) if method == "midpoint" else ops.sub(place, low)
    apart = ops.select(ops.eq(below, above), ops.full_like(below, 0), ops.sub(above, below))
    return ops.add(below, ops.mul(apart, part))
