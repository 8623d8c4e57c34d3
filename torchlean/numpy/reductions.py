"""Sums, products, extremes, means, variances, and tests of all entries, over axes.

Sums fold left in index order in the dtype of the result; sums of integers narrower than int32 are int32 (uint32), as
the standard asks. `where` leaves entries out and `initial` starts the fold, as in NumPy.
"""

from __future__ import annotations

import builtins
from math import prod as product_of
from typing import Any

from torchlean.ir import ops
from torchlean.ir.dtypes import DType, Kind, as_dtype
from torchlean.numpy.comparison import truth
from torchlean.numpy.operands import axes_of, common_shape, operand, refused, require_float

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "average",
    "count_nonzero",
    "max",
    "mean",
    "min",
    "prod",
    "ptp",
    "std",
    "sum",
    "var",
]


def kept(x: Any, type: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """A reduction's result with its axes of size 1, when they are to be kept."""
    if not keepdims:
        return x
    return ops.reshape(x, tuple([1 if axis in axes else n for axis, n in enumerate(type.shape)]))


def chosen(name: str, x: Any, where: Any, otherwise: Any) -> Any:
    """`x` with the entries outside `where` replaced by what leaves the fold alone."""
    if where is None:
        return x
    where = truth(name, where)
    shape = common_shape(name, x.type, where.type)
    return ops.select(where, ops.broadcast_to(x, shape), ops.full(shape, otherwise, x.type.dtype))


def sum_dtype(dtype: DType, wanted: Any) -> DType:
    """The dtype a sum or product is taken in."""
    if wanted is not None:
        return as_dtype(wanted)
    if dtype.is_bool or (dtype.kind is Kind.SIGNED and dtype.width < 32):
        return DType.I32
    return DType.U32 if dtype.kind is Kind.UNSIGNED and dtype.width < 32 else dtype


def sum(
    x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False, where: Any = None, initial: Any = None
) -> Any:
    """The sum over axes (all when None); 0 over none."""
    x = operand("sum", x)
    x = chosen("sum", ops.convert(x, sum_dtype(x.type.dtype, dtype)), where, 0)
    axes = axes_of("sum", axis, x.type.rank)
    total = kept(ops.reduce_sum(x, axes), x.type, axes, keepdims)
    return total if initial is None else ops.add(total, initial)


def prod(
    x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False, where: Any = None, initial: Any = None
) -> Any:
    """The product over axes (all when None); 1 over none."""
    x = operand("prod", x)
    x = chosen("prod", ops.convert(x, sum_dtype(x.type.dtype, dtype)), where, 1)
    axes = axes_of("prod", axis, x.type.rank)
    total = kept(ops.reduce_prod(x, tuple(sorted(axes))), x.type, axes, keepdims)
    return total if initial is None else ops.mul(total, initial)


def max(x: Any, /, axis: Any = None, *, keepdims: bool = False, where: Any = None, initial: Any = None) -> Any:
    """The largest entry over axes; NaN if one is. No entries and no `initial` is refused."""
    return _extreme("max", ops.amax, ops.max, x, axis, keepdims, where, initial)


def min(x: Any, /, axis: Any = None, *, keepdims: bool = False, where: Any = None, initial: Any = None) -> Any:
    """The smallest entry over axes; NaN if one is. No entries and no `initial` is refused."""
    return _extreme("min", ops.amin, ops.min, x, axis, keepdims, where, initial)


amax, amin = max, min


def _extreme(name: str, fold: Any, pick: Any, x: Any, axis: Any, keepdims: bool, where: Any, initial: Any) -> Any:
    x = operand(name, x)
    if where is not None and initial is None:
        raise refused(
            f"{name} with where= and no initial=", expected="a value for no entries", got="none", fix="give initial"
        )
    if where is not None:
        x = ops.select(truth(name, where), x, initial)
    axes = axes_of(name, axis, x.type.rank)
    if initial is not None and builtins.any([x.type.shape[a] == 0 for a in axes]):
        shape = [n for a, n in enumerate(x.type.shape) if a not in axes]
        return kept(ops.full(tuple(shape), initial, x.type.dtype), x.type, axes, keepdims)
    if x.type.dtype.is_bool:
        found = ops.ne(fold(ops.convert(x, "u8"), axes, keepdims=keepdims), 0)
    else:
        found = fold(x, axes, keepdims=keepdims)
    return found if initial is None else pick(found, initial)


def ptp(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The largest minus the smallest entry."""
    return ops.sub(max(x, axis=axis, keepdims=keepdims), min(x, axis=axis, keepdims=keepdims))


# -- moments -----------------------------------------------------------------------------------------------------------
def mean(x: Any, /, axis: Any = None, *, dtype: Any = None, keepdims: bool = False, where: Any = None) -> Any:
    """The sum over axes divided by the number of entries; NaN over none. Integers need a `dtype`."""
    x = operand("mean", x) if dtype is None else ops.convert(operand("mean", x), dtype)
    x = require_float("mean", x)
    axes = axes_of("mean", axis, x.type.rank)
    if x.type.dtype.is_float and x.type.dtype.width < 32:  # the sum may overflow where the mean does not
        wide = mean(ops.convert(x, DType.F32), axis=axis, keepdims=keepdims, where=where)
        return ops.convert(wide, x.type.dtype)
    total = sum(x, axis=axis, keepdims=keepdims, where=where)
    return ops.div(total, _count("mean", x, axes, keepdims, where))


def _count(name: str, x: Any, axes: tuple[int, ...], keepdims: bool, where: Any) -> Any:
    """How many entries each result is made of."""
    if where is None:
        return float(product_of([x.type.shape[a] for a in axes]))
    shape = common_shape(name, x.type, truth(name, where).type)
    counted = sum(ops.broadcast_to(truth(name, where), shape), axis=axes, keepdims=keepdims)
    return ops.convert(counted, x.type.dtype)


def var(
    x: Any,
    /,
    axis: Any = None,
    *,
    correction: float = 0.0,
    ddof: float | None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The sum of squared distances from the mean, divided by the number of entries less `correction` (or `ddof`)."""
    x = require_float("var", x)
    axes = axes_of("var", axis, x.type.rank)
    apart = ops.sub(x, mean(x, axis=axis, keepdims=True, where=where))
    squares = _squared(apart)
    total = sum(squares, axis=axis, keepdims=keepdims, where=where)
    less = float(correction if ddof is None else ddof)
    count = _count("var", squares, axes, keepdims, where)
    if isinstance(count, float):
        return ops.div(total, count - less if count > less else 0.0)
    return ops.div(total, ops.max(ops.sub(count, less), 0.0))


def _squared(x: Any) -> Any:
    """|x|², real."""
    if x.type.dtype.is_complex:
        return ops.add(_squared(ops.real(x)), _squared(ops.imag(x)))
    return ops.mul(x, x)


def std(
    x: Any,
    /,
    axis: Any = None,
    *,
    correction: float = 0.0,
    ddof: float | None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The square root of `var`; its derivative is 0 where all entries are equal."""
    spread = var(x, axis=axis, correction=correction, ddof=ddof, keepdims=keepdims, where=where)
    return ops.sqrt(spread)


def average(x: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The mean, or with `weights` (of the shape of `x`, or a vector along one axis) the weighted mean."""
    x = require_float("average", x)
    axes = axes_of("average", axis, x.type.rank)
    if weights is None:
        made, scale = mean(x, axis=axis, keepdims=keepdims), None
    else:
        weights = operand("average", weights)
        if weights.type.shape != x.type.shape:
            if weights.type.rank != 1 or len(axes) != 1:
                raise refused(
                    f"average of {x.type} with weights {weights.type}",
                    expected="weights of the same shape, or a vector along the one axis",
                    got=str(weights.type),
                    fix="reshape the weights",
                )
            n = weights.type.size
            weights = ops.reshape(weights, tuple([n if a == axes[0] else 1 for a in range(x.type.rank)]))
        weights = ops.broadcast_to(ops.convert(weights, x.type.dtype), x.type.shape)
        scale = sum(weights, axis=axis, keepdims=keepdims)
        made = ops.div(sum(ops.mul(x, weights), axis=axis, keepdims=keepdims), scale)
    if not returned:
        return made
    if scale is None:
        scale = ops.full(made.type.shape, product_of([x.type.shape[a] for a in axes]), made.type.dtype)
    return made, scale


# -- tests of all entries ----------------------------------------------------------------------------------------------
def all(x: Any, /, axis: Any = None, *, keepdims: bool = False, where: Any = None) -> Any:
    """Whether every entry is true (differs from 0); true over none."""
    x = chosen("all", truth("all", x), where, True)
    axes = axes_of("all", axis, x.type.rank)
    return kept(ops.reduce_and(x, tuple(sorted(axes))), x.type, axes, keepdims)


def any(x: Any, /, axis: Any = None, *, keepdims: bool = False, where: Any = None) -> Any:
    """Whether some entry is true (differs from 0); false over none."""
    x = chosen("any", truth("any", x), where, False)
    axes = axes_of("any", axis, x.type.rank)
    return kept(ops.reduce_or(x, tuple(sorted(axes))), x.type, axes, keepdims)


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many entries differ from 0, as int32."""
    return sum(truth("count_nonzero", x), axis=axis, keepdims=keepdims)
