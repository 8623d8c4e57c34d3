"""Helpers of the matrix factorisations: products and triangles of traced matrices, and slices of carriers.

All take leading batch axes along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.carriers import complex_array
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import NO_PARAMS, TypeFault
from torchlean.ir.ops.create import full_like, zeros_of
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.elementwise import ADD, CONVERT, GT, MUL, NE, SELECT, Target
from torchlean.ir.ops.families import apply1, kind_fault
from torchlean.ir.ops.layout import TRANSPOSE, Permutation
from torchlean.ir.ops.parts import CONJ
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes, Spread
from torchlean.ir.types import TensorType

_ENTRIES = (DType.F32, DType.F64, DType.C64, DType.C128)


# -- types -------------------------------------------------------------------------------------------------------------
def require_matrix(x: TensorType, *, square: bool) -> None:
    """Refuse what is no (square) matrix of f32, f64 or complex numbers."""
    if x.dtype not in _ENTRIES:
        raise (
            kind_fault(x.dtype, frozenset({Kind.FLOAT, Kind.COMPLEX}))
            if not x.dtype.is_inexact
            else TypeFault(
                f"{x.dtype.short} matrices are not factorised",
                expected="f32, f64, c64 or c128",
                got=x.dtype.short,
                fix="convert the operand with ops.convert(x, 'f32')",
            )
        )
    if x.rank < 2 or (square and x.shape[-1] != x.shape[-2]):
        what = "square matrix" if square else "matrix"
        raise TypeFault(
            f"the operand is no {what}",
            expected="two axes of one size, after any batch axes" if square else "two axes, after any batch axes",
            got=str(x),
            fix="reshape the operand",
        )


# -- traced ------------------------------------------------------------------------------------------------------------
def product(x: Any, y: Any) -> Any:
    """x @ y of matrices with equal batch axes."""
    rank = len(type_of(x).shape)
    batch = tuple(range(rank - 2))
    return bind1(DOT_GENERAL, DotDims((rank - 1,), (rank - 2,), batch, batch), x, y)


def transposed(x: Any) -> Any:
    """The last two axes exchanged."""
    rank = len(type_of(x).shape)
    return bind1(TRANSPOSE, Permutation((*range(rank - 2), rank - 1, rank - 2)), x)


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    turned = transposed(x)
    return apply1(CONJ, turned) if type_of(x).dtype.is_complex else turned


def half(x: Any) -> Any:
    """x / 2, exactly."""
    return apply1(MUL, x, full_like(x, 0.5))


def masked(x: Any, mask: np.ndarray[Any, Any]) -> Any:
    """The entries of each matrix where the mask holds, zeros elsewhere."""
    shape = type_of(x).shape
    rank = len(shape)
    kept = bind1(BROADCAST, Spread(shape, (rank - 2, rank - 1)), mask)
    return bind1(SELECT, NO_PARAMS, kept, x, zeros_of(type_of(x)))


def lower_part(x: Any, offset: int = 0) -> Any:
    """The entries on and below a diagonal."""
    m, n = type_of(x).shape[-2:]
    return masked(x, np.tri(m, n, offset, dtype=np.bool_))


def upper_part(x: Any, offset: int = 0) -> Any:
    """The entries on and above a diagonal."""
    m, n = type_of(x).shape[-2:]
    return masked(x, ~np.tri(m, n, offset - 1, dtype=np.bool_))


def whole(x: Any, matrix: np.ndarray[Any, Any]) -> Any:
    """A constant matrix in the dtype and with the batch axes of `x`."""
    like = type_of(x)
    shape = (*like.shape[:-2], *matrix.shape)
    rank = len(shape)
    return bind1(BROADCAST, Spread(shape, (rank - 2, rank - 1)), matrix.astype(like.dtype.carrier))


def any_moves(moved: Sequence[Any]) -> Any:
    """For each matrix of a batch, whether any of the tangents or cotangents (None: zero) has an entry other than 0."""
    found: Any = None
    for x in moved:
        if x is None or not type_of(x).dtype.is_inexact:
            continue
        shape = type_of(x).shape
        counted = bind1(CONVERT, Target(DType.I32), apply1(NE, x, zeros_of(type_of(x))))
        count = bind1(REDUCE_SUM, Axes((len(shape) - 2, len(shape) - 1)), counted)
        found = count if found is None else apply1(ADD, found, count)
    return None if found is None else apply1(GT, found, zeros_of(type_of(found)))


def identity_unless(moves: Any, x: Any) -> Any:
    """A batch of matrices, each replaced by ones on its diagonal where nothing `moves`."""
    shape = type_of(x).shape
    batch = len(shape) - 2
    mask = bind1(BROADCAST, Spread(shape, tuple(range(batch))), moves)
    return bind1(SELECT, NO_PARAMS, mask, x, whole(x, np.eye(shape[-2], shape[-1])))


def along(x: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Vectors [batch…, k] spread along the last axis (axis -1) or the last but one of matrices of `shape`."""
    rank = len(shape)
    return bind1(BROADCAST, Spread(shape, (*range(rank - 2), rank + axis)), x)


# -- carriers ----------------------------------------------------------------------------------------------------------
def at(algebra: Any, x: Any, *index: Any) -> Any:
    """x[…, index]."""
    return algebra.shape(lambda v: v[(..., *index)], x)


def put(algebra: Any, x: Any, new: Any, *index: Any) -> Any:
    """A copy of x with x[…, index] = new."""
    return algebra.shape(lambda v, n: put_array(v, n, index), x, new)


def put_array(v: Any, new: Any, index: tuple[Any, ...]) -> Any:
    made = np.array(v, copy=True)
    made[(..., *index)] = new
    return made


def spread(algebra: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """x broadcast to `shape`, aligned at the last axis."""
    return x if np.shape(x) == shape else algebra.shape(lambda v: np.broadcast_to(v, shape), x)


def columns(algebra: Any, x: Any, shape: tuple[int, ...]) -> Any:
    """Numbers x[…] repeated along a last axis."""
    return algebra.shape(lambda v: np.broadcast_to(v[..., None], shape), x)


def conjugate(algebra: Any, x: Any) -> Any:
    return algebra.shape(np.conjugate, x) if x.dtype.kind == "c" else x


def real_part(algebra: Any, x: Any) -> Any:
    return algebra.shape(np.real, x) if x.dtype.kind == "c" else x


def constant(algebra: Any, value: Any, like: Any, shape: tuple[int, ...] | None = None) -> Any:
    """A constant in the carrier of `like`."""
    return algebra.constant(np.full(np.shape(like) if shape is None else shape, value, dtype=like.dtype))


def widened(algebra: Any, x: Any, like: Any) -> Any:
    """Real numbers in the carrier of `like`."""
    return algebra.convert(x, like.dtype) if like.dtype.kind == "c" else x


def outer(algebra: Any, x: Any, y: Any) -> Any:
    """x[…, i]·y[…, j]."""
    shape = (*np.shape(x), np.shape(y)[-1])
    return algebra.mul(
        algebra.shape(lambda v: np.broadcast_to(v[..., :, None], shape), x),
        algebra.shape(lambda v: np.broadcast_to(v[..., None, :], shape), y),
    )


def over_real(algebra: Any, z: Any, d: Any) -> Any:
    """z / d for real d of the same shape: each part is rounded once."""
    if z.dtype.kind != "c":
        return algebra.div(z, d)
    parts = [algebra.div(algebra.shape(part, z), d) for part in (np.real, np.imag)]
    return algebra.shape(complex_array, *parts)


def squared_size(algebra: Any, z: Any) -> Any:
    """|z|², real."""
    if z.dtype.kind != "c":
        return algebra.mul(z, z)
    x, y = algebra.shape(np.real, z), algebra.shape(np.imag, z)
    return algebra.add(algebra.mul(x, x), algebra.mul(y, y))
