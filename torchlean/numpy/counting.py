"""Counts of entries in bins. The number of bins is static."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.ir.builder import Value
from torchlean.numpy.cumulative import diff
from torchlean.numpy.operands import known, operand, refuse_traced, refused
from torchlean.numpy.ranges import linspace
from torchlean.numpy.reductions import max as largest
from torchlean.numpy.reductions import min as smallest
from torchlean.numpy.reductions import sum as sum_over
from torchlean.numpy.sorting import searchsorted

__all__ = [
    "bincount",
    "corrcoef",
    "cov",
    "digitize",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
]


def bincount(x: Any, /, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """How often each integer from 0 occurs in a vector (or the sum of its weights).

    Without `length` there are max(x) + 1 counts, which needs an array; in a trace give `length`: others are left out.
    """
    x = operand("bincount", x)
    if x.type.rank != 1 or not x.type.dtype.is_integer:
        raise refused(
            f"bincount of {x.type}", expected="a vector of integers", got=str(x.type), fix="flatten or convert it"
        )
    if length is None:
        refuse_traced("bincount", "give length=, the number of counts", x)
        if x.type.size and int(smallest(x)) < 0:
            least = str(int(smallest(x)))
            raise refused("bincount of negative integers", expected="integers ≥ 0", got=least, fix="shift them")
        length = max(minlength, int(largest(x)) + 1 if x.type.size else 0)
    added = ops.full(x.type.shape, 1, "i32") if weights is None else operand("bincount", weights)
    return ops.scatter_add(ops.full((length,), 0, added.type.dtype), x, added)


def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The number of the bin each entry falls in (int32): `bins[i-1] <= x < bins[i]`, or `<` and `<=` with `right`.

    Bins may descend, if they are known: `bins[i-1] > x >= bins[i]`, or `>=` and `>` with `right`.
    """
    numbers = None if isinstance(bins, Value) else known(bins)
    bins = operand("digitize", bins)
    side = "left" if right else "right"
    if numbers is not None and numbers.ndim == 1 and numbers.size and numbers[0] > numbers[-1]:
        _require_rising("digitize", numbers[::-1])
        return ops.sub(bins.type.size, searchsorted(ops.reverse(bins, (0,)), x, side=side))
    _require_rising("digitize", numbers)
    return searchsorted(bins, x, side=side)


def _require_rising(name: str, edges: Any) -> None:
    """Refuse known edges that are not in order."""
    if edges is not None and edges.ndim == 1 and bool((edges[1:] < edges[:-1]).any()):
        raise refused(
            f"{name}: the edges of the bins are not in order",
            expected="each edge at least the one before it",
            got=str(edges.tolist())[:60],
            fix="sort them",
        )


def histogram_bin_edges(x: Any, bins: Any = 10, range: tuple[float, float] | None = None) -> Any:
    """Edges of equal bins from the smallest to the largest entry, or over `range`; or the edges given."""
    x = operand("histogram_bin_edges", x)
    if not isinstance(bins, int):
        _require_rising("histogram", None if isinstance(bins, Value) else known(bins))
        return operand("histogram_bin_edges", bins)
    if bins < 1:
        raise refused("a histogram without bins", expected="one bin or more", got=str(bins), fix="check bins")
    if range is not None and not range[0] <= range[1]:
        raise refused("a histogram over no range", expected="low ≤ high", got=str(range), fix="check range")
    dtype = x.type.dtype if x.type.dtype.is_float else "f32"
    if range is not None or not x.type.size:
        low, high = (0.0, 1.0) if range is None else (float(range[0]), float(range[1]))
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        return linspace(low, high, bins + 1, dtype=dtype)
    low, high = ops.convert(smallest(x), dtype), ops.convert(largest(x), dtype)
    same = ops.eq(low, high)
    half = ops.select(same, ops.full((), 0.5, dtype), ops.full((), 0.0, dtype))
    return linspace(ops.sub(low, half), ops.add(high, half), bins + 1)


def histogram(
    x: Any, bins: Any = 10, range: tuple[float, float] | None = None, density: bool = False, weights: Any = None
) -> tuple[Any, Any]:
    """Counts of the entries (or sums of weights) in each bin, and the bins' edges; the last bin is closed above."""
    x = operand("histogram", x)
    edges = histogram_bin_edges(x, bins, range)
    count = edges.type.size - 1
    flat = ops.reshape(x, (x.type.size,))
    if not flat.type.dtype.is_float:
        flat = ops.convert(flat, edges.type.dtype)
    inside = ops.logical_and(ops.ge(flat, edges[0]), ops.le(flat, edges[-1]))
    place = ops.min(ops.sub(searchsorted(edges, flat, side="right"), 1), count - 1)
    place = ops.select(inside, place, -1)
    added = (
        ops.full(flat.type.shape, 1, "i32")
        if weights is None
        else ops.reshape(operand("histogram", weights), flat.type.shape)
    )
    counts = ops.scatter_add(ops.full((count,), 0, added.type.dtype), place, added)
    if not density:
        return counts, edges
    wide = ops.convert(counts, edges.type.dtype)
    return ops.div(ops.div(wide, diff(edges)), sum_over(wide)), edges


def histogram2d(x: Any, y: Any, bins: int = 10, range: Any = None) -> tuple[Any, Any, Any]:
    """Counts of points in a grid of equal bins, and the edges of both axes."""
    x, y = operand("histogram2d", x), operand("histogram2d", y)
    x, y = (v if v.type.dtype.is_float else ops.convert(v, "f32") for v in (x, y))
    edges = [histogram_bin_edges(v, bins, None if range is None else range[i]) for i, v in enumerate((x, y))]
    place, inside = None, None
    for v, edge in zip((x, y), edges, strict=True):
        here = ops.logical_and(ops.ge(v, edge[0]), ops.le(v, edge[-1]))
        at = ops.min(ops.sub(searchsorted(edge, v, side="right"), 1), bins - 1)
        place = at if place is None else ops.add(ops.mul(place, bins), at)
        inside = here if inside is None else ops.logical_and(inside, here)
    counts = ops.scatter_add(
        ops.full((bins * bins,), 0, "i32"), ops.select(inside, place, -1), ops.full(x.type.shape, 1, "i32")
    )
    return ops.reshape(counts, (bins, bins)), edges[0], edges[1]


def cov(m: Any, y: Any = None, rowvar: bool = True, ddof: int = 1) -> Any:
    """The covariance matrix of variables in rows (columns without `rowvar`)."""
    from torchlean.numpy.joining import concat
    from torchlean.numpy.reductions import mean
    from torchlean.numpy.shapes import atleast_2d

    parts = [atleast_2d(operand("cov", part)) for part in (m, y) if part is not None]
    parts = [part if rowvar or part.type.shape[0] == 1 else ops.transpose(part) for part in parts]
    rows = concat(parts) if len(parts) > 1 else parts[0]
    apart = ops.sub(rows, mean(rows, axis=1, keepdims=True))
    product = ops.matmul(apart, ops.transpose(apart))
    made = ops.div(product, float(max(rows.type.shape[1] - ddof, 0)))
    return ops.reshape(made, ()) if made.type.shape == (1, 1) else made


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """The correlation matrix of variables in rows (columns without `rowvar`)."""
    from torchlean.numpy.diagonals import diagonal

    c = cov(x, y, rowvar)
    if not c.type.rank:
        return ops.div(c, c)
    spread = ops.sqrt(diagonal(c))
    scaled = ops.div(ops.div(c, ops.expand_dims(spread, 1)), ops.expand_dims(spread, 0))
    return ops.max(ops.min(scaled, 1.0), -1.0)
