"""Linear algebra: the standard's linalg extension, and a few names of NumPy's. Leading axes are batches.

Matrices are float32, float64, complex64 or complex128. The definitions state their order of operations; a provider that
uses LAPACK says so. There is no `eig` of matrices that are not Hermitian.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from torchlean.ir import ops
from torchlean.numpy.complex_parts import conj
from torchlean.numpy.diagonals import diagonal as diagonal_of
from torchlean.numpy.dtypes import finfo
from torchlean.numpy.joining import concat
from torchlean.numpy.operands import axes_of, integer, operand, refused, require_float, unknown_choice
from torchlean.numpy.products import cross, matmul, outer, same_dtype, tensordot, vecdot
from torchlean.numpy.reductions import kept
from torchlean.numpy.reductions import max as largest
from torchlean.numpy.reductions import min as smallest
from torchlean.numpy.reductions import sum as sum_over
from torchlean.numpy.shapes import matrix_transpose

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


class QRResult(NamedTuple):
    """An orthonormal and an upper triangular factor."""

    Q: Any
    R: Any


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """Left vectors as columns, singular values, descending, and right vectors as conjugated rows."""

    U: Any
    S: Any
    Vh: Any


class SlogdetResult(NamedTuple):
    """The sign (or phase) of a determinant and the logarithm of its size."""

    sign: Any
    logabsdet: Any


# -- factorisations ----------------------------------------------------------------------------------------------------
def cholesky(x: Any, /, *, upper: bool = False) -> Any:
    """The lower triangular L with L·Lᴴ = x, or its conjugate transpose; NaN where x is not positive definite."""
    return ops.cholesky(operand("cholesky", x), upper=upper)


def qr(x: Any, /, mode: str = "reduced") -> QRResult:
    """Q·R = x with orthonormal columns of Q, min(m, n) of them, or with mode "complete" m."""
    if mode not in ("reduced", "complete"):
        unknown_choice("qr", "mode", mode, ("reduced", "complete"))
    x = operand("qr", x)
    if x.type.rank < 2 or not x.type.dtype.is_inexact:
        return QRResult(*ops.qr(x))  # which says why not
    unit = _unit(x)
    x = ops.div(x, unit)
    if mode == "reduced" or x.type.shape[-2] <= x.type.shape[-1]:
        q, r = ops.qr(x)
    else:
        q, r = _completed(x)
        r = r[..., : x.type.shape[-1]]
    return QRResult(q, ops.mul(r, unit))


def _unit(x: Any) -> Any:
    """A power of two near the largest entry where its square would overflow or vanish, elsewhere 1: exact so or so."""
    top = ops.stop_gradient(largest(ops.abs(x), axis=(-2, -1), keepdims=True, initial=0.0))
    bound = 2.0**40 if x.type.dtype.part.width == 32 else 2.0**400
    far = ops.logical_and(ops.logical_or(ops.gt(top, bound), ops.lt(top, 1 / bound)), ops.gt(top, 0))
    far = ops.logical_and(far, ops.is_finite(top))
    power = ops.exp2(ops.floor(ops.log2(ops.select(far, top, 1.0))))
    return ops.convert(power, x.type.dtype)


def _completed(x: Any) -> tuple[Any, Any]:
    """Q and R of [x, 1]: Q is square, and its first columns are those of x's own Q."""
    rows = x.type.shape[-2]
    unit = ops.convert(ops.eq(ops.iota((rows, rows), 0), ops.iota((rows, rows), 1)), x.type.dtype)
    q, r = ops.qr(concat((x, ops.broadcast_to(unit, (*x.type.shape[:-2], rows, rows))), axis=-1))
    return q, r


def eigh(x: Any, /) -> EighResult:
    """Eigenvalues and eigenvectors of a symmetric or Hermitian matrix."""
    return EighResult(*ops.eigh(operand("eigh", x)))


def eigvalsh(x: Any, /) -> Any:
    """Eigenvalues, ascending, of a symmetric or Hermitian matrix."""
    return eigh(x).eigenvalues


def svd(x: Any, /, *, full_matrices: bool = True) -> SVDResult:
    """U·diag(S)·Vh = x; with `full_matrices` U and Vh are square."""
    x = operand("svd", x)
    u, s, vh = ops.svd(x)
    if full_matrices:
        rows, columns = x.type.shape[-2:]
        if rows > columns:
            u = _square(u)
        elif columns > rows:
            vh = _adjoint(_square(_adjoint(vh)))
    return SVDResult(u, s, vh)


def _square(u: Any) -> Any:
    """Orthonormal columns with others put beside them until there are as many as rows."""
    q, _ = _completed(u)
    return concat((u, q[..., u.type.shape[-1] :]), axis=-1)


def _adjoint(x: Any) -> Any:
    return conj(matrix_transpose(x))


def svdvals(x: Any, /) -> Any:
    """Singular values, descending."""
    return ops.svd(operand("svdvals", x))[1]


# -- systems -----------------------------------------------------------------------------------------------------------
def solve(x1: Any, x2: Any, /) -> Any:
    """The x with x1·x = x2, by LU with partial pivoting; `x2` is a vector only when it has one axis."""
    return ops.solve(*same_dtype("solve", x1, x2))


def inv(x: Any, /) -> Any:
    """The inverse; infinities and NaN where x is singular."""
    return ops.inv(operand("inv", x))


def det(x: Any, /) -> Any:
    """The determinant."""
    return ops.det(operand("det", x))


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value."""
    return SlogdetResult(*ops.slogdet(operand("slogdet", x)))


def lstsq(a: Any, b: Any) -> Any:
    """The x that makes |a·x - b| least; `a` must have full rank. Only the solution is returned."""
    return ops.lstsq(*same_dtype("lstsq", a, b))


def pinv(x: Any, /, *, rtol: Any = None) -> Any:
    """The Moore–Penrose inverse: singular values up to `rtol` times the largest count as 0."""
    x = require_float("pinv", x)
    u, s, vh = ops.svd(x)
    limit = _limit(x, s, rtol)
    large = ops.gt(s, limit)
    inverse = ops.select(large, ops.div(1.0, ops.select(large, s, 1.0)), 0.0)
    inverse = ops.convert(ops.expand_dims(inverse, inverse.type.rank - 1), x.type.dtype)
    return matmul(ops.mul(_adjoint(vh), inverse), _adjoint(u))


def _limit(x: Any, s: Any, rtol: Any) -> Any:
    """The size up to which singular values count as 0, with an axis of one entry."""
    if rtol is None:
        rtol = max(x.type.shape[-2:]) * finfo(x.type.dtype).eps
    top = largest(s, axis=-1, keepdims=True, initial=0.0)
    if isinstance(rtol, int | float):
        return ops.mul(top, float(rtol))
    share = operand("pinv", rtol)
    return ops.mul(top, ops.expand_dims(ops.convert(share, s.type.dtype), share.type.rank))


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Any:
    """How many singular values (int32) exceed `rtol` times the largest."""
    x = require_float("matrix_rank", x)
    s = svdvals(x)
    return sum_over(ops.gt(s, _limit(x, s, rtol)), axis=-1)


def matrix_power(x: Any, n: int, /) -> Any:
    """x multiplied by itself n times, by repeated squaring; its inverse for negative n."""
    x = operand("matrix_power", x)
    count = integer("matrix_power", "n", n)
    if x.type.rank < 2 or x.type.shape[-1] != x.type.shape[-2]:
        raise refused(f"matrix_power of {x.type}", expected="square matrices", got=str(x.type), fix="reshape it")
    if count < 0:
        x, count = inv(x), -count
    rows = x.type.shape[-1]
    unit = ops.convert(ops.eq(ops.iota((rows, rows), 0), ops.iota((rows, rows), 1)), x.type.dtype)
    made = None if count else ops.broadcast_to(unit, x.type.shape)
    while count:
        if count & 1:
            made = x if made is None else matmul(made, x)
        count >>= 1
        x = matmul(x, x) if count else x
    return made


def multi_dot(arrays: Any) -> Any:
    """The product of several matrices, from left to right."""
    made = operand("multi_dot", arrays[0])
    for x in arrays[1:]:
        made = matmul(made, x)
    return made


# -- norms -------------------------------------------------------------------------------------------------------------
def vector_norm(x: Any, /, axis: Any = None, *, keepdims: bool = False, ord: Any = 2) -> Any:
    """(Σ|x|^ord)^(1/ord) over axes; the largest |x| for inf, the smallest for -inf, how many differ from 0 for 0."""
    x = require_float("vector_norm", x)
    if ord == 2 and not x.type.dtype.is_complex:
        return _euclidean(x, axis, keepdims)
    size = ops.abs(x)
    if not isinstance(ord, int | float):
        unknown_choice("vector_norm", "ord", ord, (math.inf, -math.inf, "a number"))
    if ord == math.inf:
        return largest(size, axis=axis, keepdims=keepdims, initial=0.0)
    if ord == -math.inf:
        return smallest(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return sum_over(ops.convert(ops.ne(size, 0), size.type.dtype), axis=axis, keepdims=keepdims)
    if ord == 1:
        return sum_over(size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return _euclidean(size, axis, keepdims)
    return ops.pow(sum_over(ops.pow(size, float(ord)), axis=axis, keepdims=keepdims), 1.0 / float(ord))


def _euclidean(size: Any, axis: Any, keepdims: bool) -> Any:
    """√Σx²; the derivative at 0 is 0."""
    axes = tuple(sorted(axes_of("vector_norm", axis, size.type.rank)))
    return kept(ops.euclidean_norm(size, axes), size.type, axes, keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Norms of matrices: fro, nuc (the sum of singular values), 1, -1, inf, -inf (of rows and columns), 2 and -2."""
    x = require_float("matrix_norm", x)
    if x.type.rank < 2:
        raise refused(
            f"matrix_norm of {x.type}", expected="at least two axes", got=str(x.type.rank), fix="use vector_norm"
        )
    size, last = ops.abs(x), (x.type.rank - 2, x.type.rank - 1)
    if ord == "fro":
        return vector_norm(x, axis=last, keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        s = svdvals(x)
        fold = {"nuc": sum_over, 2: largest, -2: smallest}[ord]
        return kept(fold(s, axis=-1), x.type, last, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        sums = sum_over(size, axis=-2 if abs(ord) == 1 else -1)
        fold = largest if ord > 0 else smallest
        return kept(fold(sums, axis=-1), x.type, last, keepdims)
    unknown_choice("matrix_norm", "ord", ord, ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """NumPy's norm: of vectors along one axis, of matrices along two; of all entries when neither is named."""
    x = require_float("norm", x)
    if axis is None and ord is None:
        return vector_norm(x, keepdims=keepdims)
    axes = axes_of("norm", axis, x.type.rank)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise refused(f"norm of {x.type}", expected="one axis or two", got=str(axis), fix="name the axes")
    rest = [a for a in range(x.type.rank) if a not in axes]
    made = matrix_norm(ops.transpose(x, (*rest, *axes)), ord="fro" if ord is None else ord)
    return kept(made, x.type, axes, keepdims)


def cond(x: Any, p: Any = None) -> Any:
    """The condition number: the largest singular value over the smallest, or norm(x, p) · norm(inv(x), p)."""
    x = require_float("cond", x)
    if p in (None, 2):
        s = svdvals(x)
        return ops.div(s[..., 0], s[..., -1])
    return ops.mul(matrix_norm(x, ord=p), matrix_norm(inv(x), ord=p))


# -- diagonals ---------------------------------------------------------------------------------------------------------
def diagonal(x: Any, /, offset: int = 0) -> Any:
    """A diagonal of the last two axes."""
    return diagonal_of(x, offset=offset, axis1=-2, axis2=-1)


def trace(x: Any, /, offset: int = 0, *, dtype: Any = None) -> Any:
    """The sum of a diagonal of the last two axes."""
    return sum_over(diagonal(x, offset=offset), axis=-1, dtype=dtype)
