"""Reductions that pass over NaN. Where every entry is NaN, sums are 0, products 1, and the others NaN."""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir import ops
from torchlean.numpy import quantiles, reductions, searching
from torchlean.numpy.comparison import isnan
from torchlean.numpy.cumulative import cumulative_prod, cumulative_sum
from torchlean.numpy.operands import operand, require_float

__all__ = [
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
]


def _without(name: str, x: Any, otherwise: float) -> Any:
    x = operand(name, x)
    return ops.select(isnan(x), ops.full_like(x, otherwise), x) if x.type.dtype.is_inexact else x


def nansum(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum of the entries that are numbers."""
    return reductions.sum(_without("nansum", x, 0.0), axis=axis, dtype=dtype, keepdims=keepdims)


def nanprod(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product of the entries that are numbers."""
    return reductions.prod(_without("nanprod", x, 1.0), axis=axis, dtype=dtype, keepdims=keepdims)


def nanmax(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The largest entry that is a number."""
    return _extreme(reductions.max, x, -math.inf, axis, keepdims)


def nanmin(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The smallest entry that is a number."""
    return _extreme(reductions.min, x, math.inf, axis, keepdims)


def _extreme(fold: Any, x: Any, otherwise: float, axis: Any, keepdims: bool) -> Any:
    x = operand("nanmax", x)
    found = fold(_without("nanmax", x, otherwise), axis=axis, keepdims=keepdims)
    if not x.type.dtype.is_float:
        return found
    return ops.select(reductions.all(isnan(x), axis=axis, keepdims=keepdims), math.nan, found)


def nanmean(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The mean of the entries that are numbers."""
    x = require_float("nanmean", x)
    return reductions.mean(x, axis=axis, keepdims=keepdims, where=ops.logical_not(isnan(x)))


def nanvar(
    x: Any, /, axis: Any = None, *, correction: float = 0.0, ddof: float | None = None, keepdims: bool = False
) -> Any:
    """The variance of the entries that are numbers."""
    x = require_float("nanvar", x)
    less = correction if ddof is None else ddof
    there = ops.logical_not(isnan(x))
    return reductions.var(_without("nanvar", x, 0.0), axis=axis, correction=less, keepdims=keepdims, where=there)


def nanstd(
    x: Any, /, axis: Any = None, *, correction: float = 0.0, ddof: float | None = None, keepdims: bool = False
) -> Any:
    """The standard deviation of the entries that are numbers."""
    return ops.sqrt(nanvar(x, axis=axis, correction=correction, ddof=ddof, keepdims=keepdims))


def nanargmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The position of the first largest number; 0 where all are NaN."""
    return searching.argmax(_without("nanargmax", x, -math.inf), axis=axis, keepdims=keepdims)


def nanargmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The position of the first smallest number; 0 where all are NaN."""
    return searching.argmin(_without("nanargmin", x, math.inf), axis=axis, keepdims=keepdims)


def nancumsum(x: Any, /, axis: int | None = None) -> Any:
    """Running sums, NaN counting as 0."""
    return cumulative_sum(_flat(_without("nancumsum", x, 0.0), axis), axis=axis or 0)


def nancumprod(x: Any, /, axis: int | None = None) -> Any:
    """Running products, NaN counting as 1."""
    return cumulative_prod(_flat(_without("nancumprod", x, 1.0), axis), axis=axis or 0)


def _flat(x: Any, axis: int | None) -> Any:
    return ops.reshape(x, (x.type.size,)) if axis is None else x


def nanquantile(x: Any, q: Any, /, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """`quantile` of the entries that are numbers."""
    return quantiles.of_sorted("nanquantile", x, q, axis, method, keepdims, skip_nan=True)


def nanpercentile(x: Any, q: Any, /, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Any:
    """`percentile` of the entries that are numbers."""
    return nanquantile(x, quantiles.share(q), axis=axis, method=method, keepdims=keepdims)


def nanmedian(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The median of the entries that are numbers."""
    return nanquantile(x, 0.5, axis=axis, keepdims=keepdims)
