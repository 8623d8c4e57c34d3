"""Matrix factorisations and what follows from them, as users call them. All take leading batch axes along.

Those read from one triangle (cholesky, eigh) average it with the other first unless told not to, so that gradients are
symmetric.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.errors import TypeRuleError, message
from torchlean.ir.builder import bind, bind1
from torchlean.ir.location import caller_location
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import matrices as mx
from torchlean.ir.ops.determinant import DET
from torchlean.ir.ops.factor import LU, QR, permuted
from torchlean.ir.ops.fold import REDUCE_PROD, REDUCE_XOR
from torchlean.ir.ops.functions import abs, add, complex, div, eq, imag, log, mul, ne, neg, real, select, sign, sub
from torchlean.ir.ops.pointwise import hypot
from torchlean.ir.ops.promote import common_dtype, tensor
from torchlean.ir.ops.shaping import broadcast_to, reshape, sum
from torchlean.ir.ops.spectral import EIGH, SVD
from torchlean.ir.ops.spread import Axes
from torchlean.ir.ops.triangular import CHOLESKY, TRIANGULAR_SOLVE, Triangle
from torchlean.ir.types import broadcast_shapes

__all__ = ["cholesky", "det", "eigh", "inv", "lstsq", "lu", "qr", "slogdet", "solve", "svd", "triangular_solve"]


def _matrix(name: str, x: Any, *, square: bool) -> Any:
    x = tensor(x)
    if x.type.rank < 2 or (square and x.type.shape[-1] != x.type.shape[-2]):
        raise TypeRuleError(
            message(
                f"{name} of {x.type}: not a {'square ' if square else ''}matrix",
                expected="two axes of one size, after any batch axes" if square else "two axes, after any batch axes",
                got=str(x.type),
                fix="reshape the operand",
                where=str(caller_location()),
            )
        )
    return x


def _symmetrized(x: Any) -> Any:
    return mx.half(add(x, mx.adjoint(x)))


# -- factorisations ----------------------------------------------------------------------------------------------------
def cholesky(x: Any, *, upper: bool = False, symmetrize: bool = True) -> Any:
    """The lower L with L·Lᴴ = x (or the upper Lᴴ); NaN where x is not positive definite."""
    x = _matrix("cholesky", x, square=True)
    made = bind1(CHOLESKY, NO_PARAMS, _symmetrized(x) if symmetrize else x)
    return mx.adjoint(made) if upper else made


def lu(x: Any) -> tuple[Any, Any, Any]:
    """Packed L and U, the row swapped with each row in turn, and the order of the rows: x[order] = L·U."""
    packed, pivots, order = bind(LU, NO_PARAMS, _matrix("lu", x, square=False))
    return packed, pivots, order


def qr(x: Any) -> tuple[Any, Any]:
    """Q with orthonormal columns and upper triangular R of min(m, n) rows, Q·R = x."""
    q, r = bind(QR, NO_PARAMS, _matrix("qr", x, square=False))
    return q, r


def eigh(x: Any, *, symmetrize: bool = True) -> tuple[Any, Any]:
    """Ascending eigenvalues and eigenvectors (columns) of a Hermitian matrix."""
    x = _matrix("eigh", x, square=True)
    values, vectors = bind(EIGH, NO_PARAMS, _symmetrized(x) if symmetrize else x)
    return values, vectors


def svd(x: Any) -> tuple[Any, Any, Any]:
    """U, s (descending), Vᴴ with U·diag(s)·Vᴴ = x, of min(m, n) columns and rows."""
    u, s, vh = bind(SVD, NO_PARAMS, _matrix("svd", x, square=False))
    return u, s, vh


# -- systems -----------------------------------------------------------------------------------------------------------
def _batched(name: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Two matrices in one dtype and with one batch shape."""
    if a.type.dtype is not b.type.dtype:
        a, b = common_dtype(name, a, b)
    batch = broadcast_shapes(a.type.shape[:-2], b.type.shape[:-2])
    if batch is None or a.type.shape[-2] != b.type.shape[-2]:
        raise TypeRuleError(
            message(
                f"{name} of {a.type}, {b.type}: the sides do not fit",
                expected="equally many rows, and batch axes that broadcast",
                got=f"{a.type.shape[-2]} and {b.type.shape[-2]} rows",
                fix="transpose or reshape one of them",
                where=str(caller_location()),
            )
        )
    return broadcast_to(a, (*batch, *a.type.shape[-2:])), broadcast_to(b, (*batch, *b.type.shape[-2:]))


def _column(x: Any) -> tuple[Any, bool]:
    """A vector as a matrix of one column, and whether it was one."""
    x = tensor(x)
    return (reshape(x, (*x.type.shape, 1)), True) if x.type.rank == 1 else (x, False)


def _as_given(x: Any, vector: bool) -> Any:
    return reshape(x, x.type.shape[:-1]) if vector else x


def triangular_solve(a: Any, b: Any, *, lower: bool = True, adjoint: bool = False, unit: bool = False) -> Any:
    """x with a·x = b, or aᴴ·x = b; only one triangle of `a` is read, and with `unit` not its diagonal."""
    b, vector = _column(b)
    a, b = _batched("triangular_solve", _matrix("triangular_solve", a, square=True), b)
    return _as_given(bind1(TRIANGULAR_SOLVE, Triangle(lower, adjoint, unit), a, b), vector)


def solve(a: Any, b: Any) -> Any:
    """x with a·x = b, by LU with partial pivoting; a vector `b` gives a vector."""
    b, vector = _column(b)
    a, b = _batched("solve", _matrix("solve", a, square=True), b)
    packed, _, order = bind(LU, NO_PARAMS, a)
    half = bind1(TRIANGULAR_SOLVE, Triangle(lower=True, adjoint=False, unit=True), packed, permuted(b, order))
    return _as_given(bind1(TRIANGULAR_SOLVE, Triangle(lower=False, adjoint=False, unit=False), packed, half), vector)


def inv(a: Any) -> Any:
    """The inverse, by LU; infinities and NaN when singular."""
    a = _matrix("inv", a, square=True)
    return solve(a, mx.whole(a, np.eye(a.type.shape[-1])))


def lstsq(a: Any, b: Any) -> Any:
    """The x of least norm among those that make |a·x - b| least, by QR; `a` must have full rank."""
    b, vector = _column(b)
    a, b = _batched("lstsq", _matrix("lstsq", a, square=False), b)
    m, n = a.type.shape[-2:]
    if m >= n:
        q, r = bind(QR, NO_PARAMS, a)
        made = bind1(
            TRIANGULAR_SOLVE, Triangle(lower=False, adjoint=False, unit=False), r, mx.product(mx.adjoint(q), b)
        )
    else:
        q, r = bind(QR, NO_PARAMS, mx.adjoint(a))
        made = mx.product(q, bind1(TRIANGULAR_SOLVE, Triangle(lower=False, adjoint=True, unit=False), r, b))
    return _as_given(made, vector)


# -- determinants ------------------------------------------------------------------------------------------------------
def det(a: Any) -> Any:
    """The determinant. Up to three rows it is the polynomial itself; beyond, the product of the pivots of LU."""
    a = _matrix("det", a, square=True)
    n = a.type.shape[-1]
    if not 1 <= n <= 3:
        return bind1(DET, NO_PARAMS, a)

    def entry(i: int, j: int) -> Any:
        return a[..., i, j]

    def minor(i: int, j: int) -> Any:
        return sub(mul(entry(1, i), entry(2, j)), mul(entry(1, j), entry(2, i)))

    if n == 1:
        return entry(0, 0)
    if n == 2:
        return sub(mul(entry(0, 0), entry(1, 1)), mul(entry(0, 1), entry(1, 0)))
    return add(sub(mul(entry(0, 0), minor(1, 2)), mul(entry(0, 1), minor(0, 2))), mul(entry(0, 2), minor(0, 1)))


def slogdet(a: Any) -> tuple[Any, Any]:
    """The sign (for complex matrices the phase) of the determinant and the logarithm of its absolute value."""
    a = _matrix("slogdet", a, square=True)
    packed, pivots, _ = bind(LU, NO_PARAMS, a)
    n = a.type.shape[-1]
    diagonal = sum(mx.masked(packed, np.eye(n, dtype=np.bool_)), -1)
    if a.type.dtype.is_complex:
        size = hypot(real(diagonal), imag(diagonal))
        safe = select(eq(size, 0), 1, size)
        phases = div(diagonal, complex(safe, 0))
    else:
        size, phases = abs(diagonal), sign(diagonal)
    last = (a.type.rank - 2,)
    swapped = ne(pivots, broadcast_to(np.arange(n, dtype=np.int32), pivots.type.shape))
    odd = bind1(REDUCE_XOR, Axes(last), swapped)
    phase = bind1(REDUCE_PROD, Axes(last), phases)
    return select(odd, neg(phase), phase), sum(log(size), -1)
