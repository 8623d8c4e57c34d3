"""Writing at positions known only at run time: scatter, scatter_mul, scatter_min, scatter_max.

They share positions, modes and layout with gather and scatter_add (`gather.py`); updates come in row-major order of the
indices. Of several updates of one entry `scatter` keeps the last, and only that one receives a cotangent. Entries
and updates that tie for an extreme share its derivative evenly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.create import FULL, Fill, full_like, zeros_of
from torchlean.ir.ops.cut import leading, move_axis
from torchlean.ir.ops.elementwise import ADD, CONVERT, DIV, EQ, LOGICAL_OR, MUL, NE, SELECT, SUB, Target
from torchlean.ir.ops.families import ANYTHING, FIELDS, NUMBERS, apply1
from torchlean.ir.ops.gather import (
    GATHER,
    SCATTER_ADD,
    Along,
    _operand_rows,
    _put,
    _rows_operand,
    _update_rows,
    rounds_of,
    row_numbers,
    scattered_type,
)
from torchlean.ir.ops.parts import CONJ
from torchlean.ir.rules import Custom, DiffRule, Linear, Rule
from torchlean.ir.types import TensorType

Combine = Callable[[Any, Any, Any], Any]


def _scatter_op(name: str, combine: Combine, kinds: frozenset[Kind], diff: DiffRule, reduces: bool, doc: str) -> Op:
    """`combine(algebra, held, new)`: what an update makes of the entry."""

    def rule(params: Along, x: TensorType, indices: TensorType, updates: TensorType) -> tuple[TensorType, ...]:
        return scattered_type(kinds, params, x, indices, updates)

    def value(algebra: Any, params: Along, x: Any, indices: Any, updates: Any) -> tuple[Any, ...]:
        shape, index_rank = np.shape(x), len(np.shape(indices)) - params.batch
        numbers = np.asarray(algebra.exact(lambda i: row_numbers(params, i, shape[params.axis]), indices))
        rows = algebra.shape(lambda v: _operand_rows(params, v), x)
        terms = algebra.shape(lambda v: _update_rows(params, v, index_rank), updates)
        for chosen in rounds_of(numbers):
            where = numbers[chosen]
            held = algebra.shape(lambda v, where=where: v[where], rows)
            new = algebra.shape(lambda v, chosen=chosen: v[chosen], terms)
            rows = algebra.shape(lambda v, n, where=where: _put(v, where, n), rows, combine(algebra, held, new))
        return (algebra.shape(lambda v: _rows_operand(params, v, shape), rows),)

    def batch(params: Along, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
        x, indices, updates = operands
        axis, paired, mode = params.axis, params.batch, params.mode
        x, updates = leading(x, size, mapped[0]), leading(updates, size, mapped[2])
        if mapped[1]:
            return (bind1(made, Along(axis + 1, paired + 1, mode), x, indices, updates),)
        inner = bind1(
            made, Along(axis + 1, paired, mode), move_axis(x, 0, paired), indices, move_axis(updates, 0, paired)
        )
        return (move_axis(inner, paired, 0),)

    made = Op(
        name=name,
        params=Along,
        type_rule=rule,
        denote=value,
        diff=diff,
        batch=Rule(batch),
        reduces=reduces,
        doc=doc,
    )
    return made


# -- scatter -----------------------------------------------------------------------------------------------------------
def _is_last(params: Along, x: Any, indices: Any, updates: Any) -> Any:
    """Which updates stay: number them, scatter the numbers, and read them back."""
    like = type_of(updates)
    numbers = np.arange(like.size, dtype=np.int64).reshape(like.shape)
    nobody = bind1(FULL, Fill.of(type_of(x).shape, DType.I64, -1))
    kept = bind1(GATHER, params, bind1(SCATTER, params, nobody, indices, numbers), indices)
    return apply1(EQ, kept, numbers)


def _scatter_transpose(params: Along, ct: Any, x: Any, indices: Any, updates: Any) -> tuple[Any, ...]:
    hole = zeros_of(type_of(updates))
    read = bind1(GATHER, params, ct, indices)
    return (
        bind1(SCATTER, params, ct, indices, hole),
        None,
        bind1(SELECT, NO_PARAMS, _is_last(params, x, indices, updates), read, hole),
    )


SCATTER = _scatter_op(
    "scatter",
    lambda algebra, held, new: new,
    ANYTHING,
    Linear(transpose=_scatter_transpose, wrt=(0, 2)),
    False,
    "Replace entries at integer positions along one axis; of several updates of one entry the last stays.",
)


# -- extremes ----------------------------------------------------------------------------------------------------------
def _winners(params: Along, primals: Any, y: Any) -> tuple[Any, Any, Any]:
    """Which entries and updates are the result (or NaN), and how many there are for each entry."""
    x, indices, updates = primals
    reached = bind1(GATHER, params, y, indices)
    mine = apply1(LOGICAL_OR, apply1(EQ, x, y), apply1(NE, x, x))
    theirs = apply1(LOGICAL_OR, apply1(EQ, updates, reached), apply1(NE, updates, updates))
    whole = Target(DType.I32)
    count = bind1(SCATTER_ADD, params, bind1(CONVERT, whole, mine), indices, bind1(CONVERT, whole, theirs))
    return mine, theirs, bind1(CONVERT, Target(type_of(x).dtype), count)


def _extreme_jvp(params: Along, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    x, indices, updates = primals
    dx, _, du = tangents
    if dx is None and du is None:
        return (None,)
    mine, theirs, count = _winners(params, primals, outputs[0])
    none_x, none_u = zeros_of(type_of(x)), zeros_of(type_of(updates))
    start = none_x if dx is None else bind1(SELECT, NO_PARAMS, mine, dx, none_x)
    added = none_u if du is None else bind1(SELECT, NO_PARAMS, theirs, du, none_u)
    return (apply1(DIV, bind1(SCATTER_ADD, params, start, indices, added), count),)


def _extreme_vjp(params: Along, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    x, indices, updates = primals
    mine, theirs, count = _winners(params, primals, outputs[0])
    share = apply1(DIV, cotangents[0], count)
    read = bind1(GATHER, params, share, indices)
    return (
        bind1(SELECT, NO_PARAMS, mine, share, zeros_of(type_of(x))),
        None,
        bind1(SELECT, NO_PARAMS, theirs, read, zeros_of(type_of(updates))),
    )


_EXTREME = Custom(jvp=_extreme_jvp, vjp=_extreme_vjp)
SCATTER_MAX = _scatter_op(
    "scatter_max",
    lambda algebra, held, new: algebra.max(held, new),
    NUMBERS,
    _EXTREME,
    False,
    "The larger of entry and updates at integer positions along one axis; NaN if one is.",
)
SCATTER_MIN = _scatter_op(
    "scatter_min",
    lambda algebra, held, new: algebra.min(held, new),
    NUMBERS,
    _EXTREME,
    False,
    "The smaller of entry and updates at integer positions along one axis; NaN if one is.",
)


# -- products ----------------------------------------------------------------------------------------------------------
def _other_factors(params: Along, primals: Any) -> Any:
    """For each update the entry times the other updates, from the nonzero factors and a count of the zeros."""
    x, indices, updates = primals
    is_zero = apply1(EQ, updates, zeros_of(type_of(updates)))
    factor = bind1(SELECT, NO_PARAMS, is_zero, full_like(updates, 1), updates)
    zero = bind1(CONVERT, Target(DType.I32), is_zero)
    none = zeros_of(TensorType(type_of(x).shape, DType.I32))
    zeros = bind1(GATHER, params, bind1(SCATTER_ADD, params, none, indices, zero), indices)
    product = bind1(GATHER, params, bind1(SCATTER_MUL, params, x, indices, factor), indices)
    alone = apply1(EQ, apply1(SUB, zeros, zero), zeros_of(type_of(zeros)))
    return bind1(SELECT, NO_PARAMS, alone, apply1(DIV, product, factor), zeros_of(type_of(updates)))


def _product_jvp(params: Along, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """dx · Πu + Σ du · x · product of the other updates."""
    x, indices, updates = primals
    dx, _, du = tangents
    made = None if dx is None else bind1(SCATTER_MUL, params, dx, indices, updates)
    if du is None:
        return (made,)
    terms = apply1(MUL, du, _other_factors(params, primals))
    term = bind1(SCATTER_ADD, params, zeros_of(type_of(x)), indices, terms)
    return (term if made is None else apply1(ADD, made, term),)


def _product_vjp(params: Along, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    _, indices, updates = primals
    (ct,) = cotangents
    read = bind1(GATHER, params, ct, indices)
    return (
        bind1(SCATTER_MUL, params, ct, indices, _conjugate(updates)),
        None,
        apply1(MUL, read, _conjugate(_other_factors(params, primals))),
    )


def _conjugate(x: Any) -> Any:
    return apply1(CONJ, x) if type_of(x).dtype.is_complex else x


SCATTER_MUL = _scatter_op(
    "scatter_mul",
    lambda algebra, held, new: algebra.mul(held, new),
    FIELDS,
    Custom(jvp=_product_jvp, vjp=_product_vjp),
    True,
    "Multiply entries by updates at integer positions along one axis: a left fold in row-major order of the indices. "
    "A second derivative where two updates of one entry are 0 is taken as 0.",
)

OPS = (SCATTER, SCATTER_MUL, SCATTER_MIN, SCATTER_MAX)
