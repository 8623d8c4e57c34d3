"""dot_general: contraction over paired axes with paired batch axes in front."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import as_dtype
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.ops.elementwise import CONVERT, Target
from torchlean.ir.ops.families import FIELDS, kind_fault
from torchlean.ir.ops.layout import TRANSPOSE, Permutation, inverse_permutation
from torchlean.ir.rules import Bilinear, Rule
from torchlean.ir.types import TensorType
from torchlean.record import record


@record
class DotDims:
    """Paired axes: `contract` are summed over, `batch` are kept and come first in the result.

    The result's axes are batch, then free axes of the left operand, then of the right, each in operand order.
    """

    lhs_contract: tuple[int, ...]
    rhs_contract: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]

    def lhs_free(self, rank: int) -> tuple[int, ...]:
        return tuple([a for a in range(rank) if a not in self.lhs_contract and a not in self.lhs_batch])

    def rhs_free(self, rank: int) -> tuple[int, ...]:
        return tuple([a for a in range(rank) if a not in self.rhs_contract and a not in self.rhs_batch])


MATRICES = DotDims((1,), (0,), (), ())
_OF_MATRICES = frozenset([((c,), (d,)) for c in (0, 1) for d in (0, 1)])  # the usual contractions, typed at once
_LEFT_OF_MATRICES = DotDims((1,), (1,), (), ())
_RIGHT_OF_MATRICES = DotDims((0,), (0,), (), ())


def _dot_type(params: DotDims, lhs: TensorType, rhs: TensorType) -> tuple[TensorType, ...]:
    if lhs.dtype.kind not in FIELDS:
        raise kind_fault(lhs.dtype, FIELDS)
    if lhs.dtype is not rhs.dtype:
        raise TypeFault(
            "operand dtypes differ",
            expected=f"two {lhs.dtype.short} operands",
            got=f"{lhs} and {rhs}",
            fix="convert one operand (ops.convert); nothing is promoted here",
        )
    left, right = lhs.shape, rhs.shape
    contract = params.lhs_contract, params.rhs_contract
    if len(left) == 2 == len(right) and not params.lhs_batch and not params.rhs_batch and contract in _OF_MATRICES:
        (c,), (d,) = contract
        if left[c] == right[d]:
            return (TensorType((left[1 - c], right[1 - d]), lhs.dtype),)
    for mine, rank in (
        (params.lhs_contract + params.lhs_batch, lhs.rank),
        (params.rhs_contract + params.rhs_batch, rhs.rank),
    ):
        if len(set(mine)) != len(mine) or any(not 0 <= axis < rank for axis in mine):
            raise TypeFault(
                "the named axes are not axes of the operand",
                expected=f"unique axes in [0, {rank})",
                got=str(list(mine)),
                fix="name each contracted or batch axis once",
            )
    if len(params.lhs_contract) != len(params.rhs_contract) or len(params.lhs_batch) != len(params.rhs_batch):
        raise TypeFault(
            "axes are not paired",
            expected="as many left axes as right axes",
            got=str(params),
            fix="pair every contracted and batch axis",
        )
    for what, mine, yours in (
        ("contracted", params.lhs_contract, params.rhs_contract),
        ("batch", params.lhs_batch, params.rhs_batch),
    ):
        sizes = tuple([lhs.shape[a] for a in mine]), tuple([rhs.shape[a] for a in yours])
        if sizes[0] != sizes[1]:
            raise TypeFault(
                f"{what} sizes differ",
                expected=f"axes {list(mine)} of {lhs} equal to axes {list(yours)} of {rhs}",
                got=f"{list(sizes[0])} and {list(sizes[1])}",
                fix="transpose one operand, or check the layer's input size",
            )
    shape = [lhs.shape[a] for a in params.lhs_batch]
    shape += [lhs.shape[a] for a in params.lhs_free(lhs.rank)]
    shape += [rhs.shape[a] for a in params.rhs_free(rhs.rank)]
    return (TensorType(tuple(shape), lhs.dtype),)


def dot_operands(params: DotDims, lhs: Any, rhs: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """Views of two arrays as [B, M, K] and [B, K, N], and the result's shape; K in row-major order of the pairs."""
    left_free, right_free = params.lhs_free(lhs.ndim), params.rhs_free(rhs.ndim)
    batch = [lhs.shape[a] for a in params.lhs_batch]
    rows, columns = [lhs.shape[a] for a in left_free], [rhs.shape[a] for a in right_free]
    folded = int(np.prod([lhs.shape[a] for a in params.lhs_contract], dtype=np.int64))
    b, m, n = (int(np.prod(sizes, dtype=np.int64)) for sizes in (batch, rows, columns))
    left = np.transpose(lhs, params.lhs_batch + left_free + params.lhs_contract).reshape(b, m, folded)
    right = np.transpose(rhs, params.rhs_batch + params.rhs_contract + right_free).reshape(b, folded, n)
    return left, right, (*batch, *rows, *columns)


def _dot_value(algebra: Any, params: DotDims, lhs: Any, rhs: Any) -> tuple[Any, ...]:
    """A left fold over k from 0: each product is rounded, then added."""
    left = algebra.shape(lambda x, y: dot_operands(params, x, y)[0], lhs, rhs)
    right = algebra.shape(lambda x, y: dot_operands(params, x, y)[1], lhs, rhs)
    (b, m, folded), n = np.shape(left), np.shape(right)[2]
    shape = dot_operands(params, lhs, rhs)[2]
    total = algebra.constant(np.zeros((b, m, n), dtype=lhs.dtype))
    for k in range(folded):
        column = algebra.shape(lambda v, k=k: np.broadcast_to(v[:, :, k : k + 1], (b, m, n)), left)
        row = algebra.shape(lambda v, k=k: np.broadcast_to(v[:, k : k + 1, :], (b, m, n)), right)
        total = algebra.add(total, algebra.mul(column, row))
    return (algebra.shape(lambda v: np.reshape(v, shape), total),)


def _dot_lhs(params: DotDims, ct: Any, x: Any, y: Any) -> Any:
    """Cotangent of the left operand: contract ct with the right operand over the right's free axes, then reorder."""
    if params is MATRICES:
        return bind1(DOT_GENERAL, _LEFT_OF_MATRICES, ct, y)
    x_rank, y_rank = len(type_of(x).shape), len(type_of(y).shape)
    batch = len(params.lhs_batch)
    x_free, y_free = params.lhs_free(x_rank), params.rhs_free(y_rank)
    dims = DotDims(
        lhs_contract=tuple(range(batch + len(x_free), batch + len(x_free) + len(y_free))),
        rhs_contract=y_free,
        lhs_batch=tuple(range(batch)),
        rhs_batch=params.rhs_batch,
    )
    made = bind1(DOT_GENERAL, dims, ct, y)  # axes: batch, free of x, contracted in the order of y's axes
    order = sorted(range(len(params.rhs_contract)), key=lambda i: params.rhs_contract[i])
    axes = params.lhs_batch + x_free + tuple([params.lhs_contract[i] for i in order])
    return _reordered(made, axes)


def _dot_rhs(params: DotDims, ct: Any, x: Any, y: Any) -> Any:
    """Cotangent of the right operand: contract the left operand with ct over the left's free axes, then reorder."""
    if params is MATRICES:
        return bind1(DOT_GENERAL, _RIGHT_OF_MATRICES, x, ct)
    x_rank, y_rank = len(type_of(x).shape), len(type_of(y).shape)
    batch = len(params.lhs_batch)
    x_free, y_free = params.lhs_free(x_rank), params.rhs_free(y_rank)
    dims = DotDims(
        lhs_contract=x_free,
        rhs_contract=tuple(range(batch, batch + len(x_free))),
        lhs_batch=params.lhs_batch,
        rhs_batch=tuple(range(batch)),
    )
    made = bind1(DOT_GENERAL, dims, x, ct)  # axes: batch, contracted in the order of x's axes, free of y
    order = sorted(range(len(params.lhs_contract)), key=lambda i: params.lhs_contract[i])
    axes = params.rhs_batch + tuple([params.rhs_contract[i] for i in order]) + y_free
    return _reordered(made, axes)


def _reordered(x: Any, axes: tuple[int, ...]) -> Any:
    """Axis `i` of `x` becomes axis `axes[i]`."""
    if axes == tuple(range(len(axes))):
        return x
    return bind1(TRANSPOSE, Permutation(inverse_permutation(axes)), x)


def _dot_batch(params: DotDims, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    lhs, rhs = operands
    up = lambda axes: tuple([axis + 1 for axis in axes])  # noqa: E731
    if mapped[0] and mapped[1]:
        dims = DotDims(
            up(params.lhs_contract),
            up(params.rhs_contract),
            (0, *up(params.lhs_batch)),
            (0, *up(params.rhs_batch)),
        )
        return (bind1(DOT_GENERAL, dims, lhs, rhs),)
    if mapped[0]:
        dims = DotDims(up(params.lhs_contract), params.rhs_contract, up(params.lhs_batch), params.rhs_batch)
        at = len(params.lhs_batch)  # the mapped axis is the first free axis of the left operand
    else:
        dims = DotDims(params.lhs_contract, up(params.rhs_contract), params.lhs_batch, up(params.rhs_batch))
        at = len(type_of(lhs).shape) - len(params.lhs_contract)  # first free axis of the right operand
    made = bind1(DOT_GENERAL, dims, lhs, rhs)
    if at == 0:
        return (made,)
    rank = len(type_of(made).shape)
    return (bind1(TRANSPOSE, Permutation((at, *[a for a in range(rank) if a != at])), made),)


DOT_GENERAL = Op(
    name="dot_general",
    params=DotDims,
    type_rule=_dot_type,
    denote=_dot_value,
    diff=Bilinear(lhs=_dot_lhs, rhs=_dot_rhs),
    batch=Rule(_dot_batch),
    reduces=True,
    doc=(
        "Contract paired axes. Each entry is a left fold over the contracted axes in row-major order, products "
        "rounded, then sums; error at most K·u·Σ|lhs·rhs| to first order [Higham 2002, §3.5]."
    ),
)


def dot_general(
    lhs: Any,
    rhs: Any,
    *,
    contract: tuple[tuple[int, ...], tuple[int, ...]],
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    accumulator: Any = None,
) -> Any:
    """Contract `lhs` with `rhs`: f[B…, M…, K…] × f[B…, N…, K…] → f[B…, M…, N…], axes as named.

    `contract` and `batch` are pairs of axis tuples (left, right). `accumulator`: the dtype multiplied and added in; the
    operands are converted to it, exactly if it is wider, and the result is rounded back once.
    Raises TypeRuleError if sizes or dtypes differ.
    """
    dims = DotDims(tuple(contract[0]), tuple(contract[1]), tuple(batch[0]), tuple(batch[1]))
    own = type_of(lhs).dtype
    if accumulator is None or as_dtype(accumulator) is own:
        return bind1(DOT_GENERAL, dims, lhs, rhs)
    wide = Target(as_dtype(accumulator))
    return bind1(CONVERT, Target(own), bind1(DOT_GENERAL, dims, bind1(CONVERT, wide, lhs), bind1(CONVERT, wide, rhs)))


OPS = (DOT_GENERAL,)
