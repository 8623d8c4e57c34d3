"""Strict reductions: sums as left folds, extremes with the definition's NaN and zeros, dot_general, scatter_add."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.backends.handler import FRESH, Expression, Kernel, Traits
from torchlean.backends.reference.elementwise import scalar
from torchlean.backends.reference.fold import fold_products, reduced_rows
from torchlean.backends.reference.layout import by_definition
from torchlean.ir.op import Op
from torchlean.ir.ops import gather, reduce, spread
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.types import TensorType


def reduce_sum(params: spread.Axes, types: tuple[TensorType, ...]) -> Kernel:
    """A left fold over the axes in row-major order; how it is vectorised depends on the shape only."""
    (x,) = types
    carrier = x.dtype.carrier
    order, count, kept_shape = reduced_rows(x.shape, params.axes)
    kept = prod(kept_shape)
    names: dict[str, Any] = {"add": np.add, "zero": scalar(0, carrier), "dtype": carrier}
    if count == 0 or kept == 0:
        return Expression(f"zeros({kept_shape!r}, dtype)", {"zeros": np.zeros, "dtype": carrier})
    if not params.axes:
        return Expression("add({0}, zero)", names)
    if kept == 1:
        names["accumulate"] = np.add.accumulate
        last = "[-1]" if kept_shape == () else "[-1:]"
        shaped = "" if len(kept_shape) < 2 else f".reshape({kept_shape!r})"
        return Expression(f"add(accumulate({{0}}.reshape(-1), 0, dtype){last}, zero){shaped}", names)
    names |= {"reduce": np.add.reduce, "contiguous": np.ascontiguousarray}
    moved = "{0}" if order == tuple(range(x.rank)) else f"{{0}}.transpose({order!r})"
    rows = f"contiguous({moved})"
    if (x.rank, len(params.axes)) != (2, 1):
        rows += f".reshape({(count, kept)!r})"
    shaped = "" if len(kept_shape) == 1 else f".reshape({kept_shape!r})"
    return Expression(f"add(reduce({rows}, 0, dtype), zero){shaped}", names)


def extreme(largest: bool) -> Any:
    """NaN wins; of equal zeros the first in row-major order of the axes."""
    reduced = np.maximum.reduce if largest else np.minimum.reduce

    def make(params: spread.Axes, types: tuple[TensorType, ...]) -> Kernel:
        (x,) = types
        order, count, kept_shape = reduced_rows(x.shape, params.axes)
        kept = prod(kept_shape)
        if not x.dtype.is_float:
            return Expression(f"reduced({{0}}, {params.axes!r})", {"reduced": reduced})

        def kernel(v: Any) -> Any:
            rows = np.transpose(v, order).reshape(count, kept)
            best = reduced(rows, 0)
            zeros = best == 0
            if zeros.any():
                first = (rows == 0).argmax(0)
                best = np.where(zeros, rows[first, np.arange(kept)], best)
            return best.reshape(kept_shape)

        return kernel

    return make


def position(largest: bool) -> Any:
    """The first extreme, or the first NaN: NumPy's own convention."""
    name, found = ("argmax", np.argmax) if largest else ("argmin", np.argmin)

    def make(params: reduce.ArgAxis, types: tuple[TensorType, ...]) -> Kernel:
        return Expression(f"{name}({{0}}, {params.axis}).astype(dtype)", {name: found, "dtype": params.dtype.carrier})

    return make


def dot_general(params: DotDims, types: tuple[TensorType, ...]) -> Kernel:
    """A left fold over the contracted axes in row-major order of the pairs; complex products by the definition."""
    lhs, rhs = types
    if lhs.dtype.is_complex:
        return by_definition(DOT_GENERAL)(params, types)
    left_free, right_free = params.lhs_free(lhs.rank), params.rhs_free(rhs.rank)
    folded = prod([lhs.shape[axis] for axis in params.lhs_contract])
    batch = tuple([lhs.shape[axis] for axis in params.lhs_batch])
    rows, columns = [lhs.shape[axis] for axis in left_free], [rhs.shape[axis] for axis in right_free]
    left_order = params.lhs_contract + params.lhs_batch + left_free
    right_order = params.rhs_contract + params.rhs_batch + right_free
    left_shape = (folded, prod(batch), prod(rows))
    right_shape = (folded, prod(batch), prod(columns))
    made = (*batch, *rows, *columns)

    def kernel(x: Any, y: Any) -> Any:
        left = x.transpose(left_order).reshape(left_shape)
        right = y.transpose(right_order).reshape(right_shape)
        return fold_products(left, right).reshape(made)

    return kernel


def scatter_add(params: gather.Along, types: tuple[TensorType, ...]) -> Kernel:
    """`np.add.at` adds one update after another in index order, which is the definition's fold for every entry."""
    x, indices, _ = types
    index_rank = indices.rank - params.batch
    size = x.shape[params.axis]

    def kernel(v: Any, positions: Any, updates: Any) -> Any:
        numbers = gather.row_numbers(params, np.asarray(positions), size)
        rows = np.array(gather._operand_rows(params, v), copy=True, order="C")
        terms = gather._update_rows(params, np.asarray(updates), index_rank)
        inside = numbers >= 0
        if not inside.all():
            numbers, terms = numbers[inside], terms[inside]
        np.add.at(rows, numbers, terms)
        return gather._rows_operand(params, rows, x.shape)

    return kernel


def table() -> dict[Op, tuple[Traits, Any]]:
    """Traits and maker of every reduction."""
    return {
        spread.REDUCE_SUM: (FRESH, reduce_sum),
        reduce.REDUCE_MAX: (FRESH, extreme(True)),
        reduce.REDUCE_MIN: (FRESH, extreme(False)),
        reduce.ARGMAX: (FRESH, position(True)),
        reduce.ARGMIN: (FRESH, position(False)),
        DOT_GENERAL: (FRESH, dot_general),
        gather.SCATTER_ADD: (FRESH, scatter_add),
    }
