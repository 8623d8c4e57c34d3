"""Reading and adding at positions known only at run time: gather and scatter_add, each the other's transpose.

One form serves `take`, `take_along_axis`, integer indexing and their batched versions: positions along one axis, with
leading axes paired between operand and indices. A position outside the axis follows a stated `Mode`; only constant
indices can be refused, and the functions users call (`index.py`) do so.
"""

from __future__ import annotations

from enum import Enum
from math import prod
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import Kind
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.cut import leading, move_axis
from torchlean.ir.ops.families import FIELDS, kind_fault
from torchlean.ir.rules import Linear, Rule
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record

INTEGERS = frozenset({Kind.SIGNED, Kind.UNSIGNED})


class Mode(Enum):
    """What an index outside [0, size) does at run time. A negative one is outside: it does not wrap."""

    FILL = "fill"  # it reads 0 (False), and an update there adds nothing
    CLIP = "clip"  # it counts as the nearest position, 0 or size - 1

    __hash__ = object.__hash__


@record
class Along:
    """`axis`: the operand's indexed axis; `batch`: how many leading axes operand and indices share (batch ≤ axis).

    Gathered shape: operand.shape[:axis] + indices.shape[batch:] + operand.shape[axis + 1:].
    """

    axis: int
    batch: int
    mode: Mode


def _gathered(params: Along, x: TensorType, indices: TensorType) -> TensorType:
    axis, batch = params.axis, params.batch
    if indices.dtype.kind not in INTEGERS:
        raise kind_fault(indices.dtype, INTEGERS)
    if not 0 <= batch <= axis < x.rank:
        raise TypeFault(
            f"axis {axis} with {batch} paired axes does not fit the operand",
            expected=f"0 ≤ paired axes ≤ axis < {x.rank}",
            got=f"axis {axis}, {batch} paired",
            fix="index an existing axis that comes after the paired ones",
        )
    if indices.shape[:batch] != x.shape[:batch]:
        raise TypeFault(
            "the paired leading axes differ",
            expected=f"indices of shape {[*x.shape[:batch]]} + any",
            got=str(indices),
            fix="broadcast one operand",
        )
    if params.mode is Mode.CLIP and x.shape[axis] == 0 and indices.size > 0:
        raise TypeFault(
            f"axis {axis} is empty, so no index can be clipped to it",
            expected="an axis of at least one entry",
            got=str(x),
            fix="use Mode.FILL, which reads 0",
        )
    return TensorType((*x.shape[:axis], *indices.shape[batch:], *x.shape[axis + 1 :]), x.dtype)


# -- meaning: both ops work on rows, with the paired axes folded into the row number -----------------------------------
def _operand_rows(params: Along, v: Any) -> Any:
    """[batch · size, other axes…] of the operand."""
    axis, batch = params.axis, params.batch
    rest = [a for a in range(batch, v.ndim) if a != axis]
    shape = [v.shape[a] for a in rest]
    return np.transpose(v, (*range(batch), axis, *rest)).reshape((prod(v.shape[:batch]) * v.shape[axis], *shape))


def _rows_operand(params: Along, rows: Any, shape: Shape) -> Any:
    """Undo `_operand_rows`."""
    axis, batch = params.axis, params.batch
    rest = [a for a in range(batch, len(shape)) if a != axis]
    return np.moveaxis(rows.reshape([shape[a] for a in (*range(batch), axis, *rest)]), batch, axis)


def _update_rows(params: Along, v: Any, index_rank: int) -> Any:
    """[batch · indices, other axes…] of an array of the gathered shape."""
    axis, batch = params.axis, params.batch
    moved = np.moveaxis(v, range(axis, axis + index_rank), range(batch, batch + index_rank))
    return moved.reshape((prod(moved.shape[: batch + index_rank]), *moved.shape[batch + index_rank :]))


def _rows_gathered(params: Along, rows: Any, indices: Shape, shape: Shape) -> Any:
    """Undo `_update_rows`: `indices` is the shape of the indices, `shape` the operand's."""
    axis, batch = params.axis, params.batch
    rest = [shape[a] for a in range(batch, len(shape)) if a != axis]
    count = len(indices) - batch
    return np.moveaxis(rows.reshape((*indices, *rest)), range(batch, batch + count), range(axis, axis + count))


def row_numbers(params: Along, indices: Any, size: int) -> np.ndarray[Any, Any]:
    """The operand row of each index, in row-major order of the indices; -1 where `Mode.FILL` skips it."""
    paired = prod(indices.shape[: params.batch])
    inside = (indices >= 0) & (indices < size)
    position = np.where(inside, indices, 0).astype(np.int64)
    if params.mode is Mode.CLIP:
        position = np.where(indices >= size, size - 1, position)
        inside = np.ones_like(inside)
    offset = np.arange(paired, dtype=np.int64).reshape(indices.shape[: params.batch]) * size
    offset = offset.reshape(offset.shape + (1,) * (indices.ndim - params.batch))
    return np.where(inside, position + offset, -1).reshape(indices.size)


def _gather_value(algebra: Any, params: Along, x: Any, indices: Any) -> tuple[Any, ...]:
    shape, index_shape = np.shape(x), np.shape(indices)
    numbers = algebra.exact(lambda i: row_numbers(params, i, shape[params.axis]), indices)
    made = (*shape[: params.axis], *index_shape[params.batch :], *shape[params.axis + 1 :])
    zeros = algebra.constant(np.zeros(made, dtype=x.dtype))
    if prod(shape) == 0:
        return (zeros,)
    gathered = algebra.shape(
        lambda v, n: _rows_gathered(params, _operand_rows(params, v)[n], index_shape, shape), x, numbers
    )
    if params.mode is Mode.CLIP:
        return (gathered,)
    rest = tuple([size for a, size in enumerate(shape) if a >= params.batch and a != params.axis])
    inside = algebra.exact(
        lambda n: _rows_gathered(
            params, np.broadcast_to((n >= 0).reshape(-1, *[1] * len(rest)), (n.size, *rest)), index_shape, shape
        ),
        numbers,
    )
    return (algebra.select(inside, gathered, zeros),)


def rounds_of(numbers: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Update numbers in rounds: round `r` holds the r-th update of every row, so no row occurs twice in one."""
    order = np.argsort(numbers, kind="stable")
    order = order[numbers[order] >= 0]
    rows = numbers[order]
    place = np.arange(rows.size)
    begins = np.maximum.accumulate(np.where(np.diff(rows, prepend=-1) != 0, place, 0))
    turn = place - begins
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn)) if rows.size else np.zeros(0, dtype=np.int64)
    return [order[chosen] for chosen in np.split(by_turn, ends)[: len(ends)]]


def _put(rows: Any, where: Any, new: Any) -> Any:
    made = np.array(rows, copy=True)
    made[where] = new
    return made


def _scatter_value(algebra: Any, params: Along, x: Any, indices: Any, updates: Any) -> tuple[Any, ...]:
    """Each entry is a left fold from the operand's over its updates, in row-major order of the indices."""
    shape, index_rank = np.shape(x), len(np.shape(indices)) - params.batch
    numbers = np.asarray(algebra.exact(lambda i: row_numbers(params, i, shape[params.axis]), indices))
    rows = algebra.shape(lambda v: _operand_rows(params, v), x)
    terms = algebra.shape(lambda v: _update_rows(params, v, index_rank), updates)
    for chosen in rounds_of(numbers):
        rows = _scatter_round(algebra, rows, terms, numbers[chosen], chosen)
    return (algebra.shape(lambda v: _rows_operand(params, v, shape), rows),)


def _scatter_round(algebra: Any, rows: Any, terms: Any, where: Any, chosen: Any) -> Any:
    """Add the chosen terms to as many different rows."""
    held = algebra.shape(lambda v: v[where], rows)
    added = algebra.add(held, algebra.shape(lambda v: v[chosen], terms))
    return algebra.shape(lambda v, new: _put(v, where, new), rows, added)


# -- rules -------------------------------------------------------------------------------------------------------------
def _gather_batch(params: Along, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    x, indices = operands
    axis, batch, mode = params.axis, params.batch, params.mode
    if mapped[0] and mapped[1]:
        return (bind1(GATHER, Along(axis + 1, batch + 1, mode), x, indices),)
    if mapped[0]:  # one more axis that the indices do not see, after the paired ones
        made = bind1(GATHER, Along(axis + 1, batch, mode), move_axis(x, 0, batch), indices)
        return (move_axis(made, batch, 0),)
    made = bind1(GATHER, params, x, move_axis(indices, 0, batch))  # one more axis of the indices
    return (move_axis(made, axis, 0),)


GATHER = Op(
    name="gather",
    params=Along,
    type_rule=lambda params, x, indices: (_gathered(params, x, indices),),
    denote=_gather_value,
    diff=Linear(
        transpose=lambda params, ct, x, indices: (
            bind1(SCATTER_ADD, params, zeros_of(type_of(x)), indices, ct),
            None,
        ),
        wrt=(0,),
    ),
    batch=Rule(_gather_batch),
    reduces=False,
    doc="Read entries along one axis at integer positions; outside the axis, as the mode says.",
)


def scattered_type(
    kinds: frozenset[Kind], params: Along, x: TensorType, indices: TensorType, updates: TensorType
) -> tuple[TensorType, ...]:
    """The result type of an op that writes updates into `x`, whose dtype must be of `kinds`."""
    if x.dtype.kind not in kinds:
        raise kind_fault(x.dtype, kinds)
    wanted = _gathered(params, x, indices)
    if updates != wanted:
        raise TypeFault(
            "the updates do not fit operand and indices",
            expected=str(wanted),
            got=str(updates),
            fix="give one update per gathered entry, of the operand's dtype",
        )
    return (x,)


def _scatter_batch(params: Along, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    x, indices, updates = operands
    axis, batch, mode = params.axis, params.batch, params.mode
    x, updates = leading(x, size, mapped[0]), leading(updates, size, mapped[2])
    if mapped[1]:
        return (bind1(SCATTER_ADD, Along(axis + 1, batch + 1, mode), x, indices, updates),)
    made = bind1(
        SCATTER_ADD,
        Along(axis + 1, batch, mode),
        move_axis(x, 0, batch),
        indices,
        move_axis(updates, 0, batch),
    )
    return (move_axis(made, batch, 0),)


SCATTER_ADD = Op(
    name="scatter_add",
    params=Along,
    type_rule=lambda params, x, indices, updates: scattered_type(FIELDS, params, x, indices, updates),
    denote=_scatter_value,
    diff=Linear(
        transpose=lambda params, ct, x, indices, updates: (ct, None, bind1(GATHER, params, ct, indices)), wrt=(0, 2)
    ),
    batch=Rule(_scatter_batch),
    reduces=True,
    doc="Add updates at integer positions along one axis: a left fold in row-major order of the indices.",
)

OPS = (GATHER, SCATTER_ADD)
