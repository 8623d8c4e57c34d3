"""LU with partial pivoting and QR by Householder reflections, in LAPACK's conventions for pivots and signs.

The steps, their order and their roundings are the definition; sums are left folds. Derivatives: [Giles 2008; Walter &
Lehmann 2012]; they need square-or-tall matrices of full rank (QR of a wide one is that of its square part).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.op import NoParams, Op
from torchlean.ir.ops import matrices as mx
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.cut import CONCATENATE, PAD, SLICE, Joined, Strided, Widths
from torchlean.ir.ops.elementwise import ADD, SUB
from torchlean.ir.ops.families import apply1
from torchlean.ir.ops.gather import GATHER, Along, Mode
from torchlean.ir.ops.parts import COMPLEX, IMAG
from torchlean.ir.ops.triangular import TRIANGULAR_SOLVE, Triangle, settled_factors
from torchlean.ir.rules import Custom, Pointwise
from torchlean.ir.types import TensorType

_ALL = slice(None)


# -- LU ----------------------------------------------------------------------------------------------------------------
def _lu_type(params: NoParams, x: TensorType) -> tuple[TensorType, ...]:
    mx.require_matrix(x, square=False)
    *batch, m, n = x.shape
    return x, TensorType((*batch, min(m, n)), DType.I32), TensorType((*batch, m), DType.I32)


def _size(algebra: Any, z: Any) -> Any:
    """|z|, or |re| + |im| for complex numbers: what LAPACK picks pivots by."""
    if z.dtype.kind != "c":
        return algebra.abs(z)
    return algebra.add(algebra.abs(algebra.shape(np.real, z)), algebra.abs(algebra.shape(np.imag, z)))


def _lu_value(algebra: Any, params: NoParams, x: Any) -> tuple[Any, ...]:
    *batch, m, n = np.shape(x)
    order = np.broadcast_to(np.arange(m, dtype=np.int32), (*batch, m))
    pivots = np.zeros((*batch, min(m, n)), dtype=np.int32)
    work = x
    for j in range(min(m, n)):
        sizes = _size(algebra, mx.at(algebra, work, slice(j, None), j))
        best = mx.columns(algebra, algebra.extreme(sizes, (len(batch),), True), np.shape(sizes))
        chosen = np.asarray(algebra.compare("eq", sizes, best)).argmax(-1) + j  # the first; row j if all are NaN
        swap = np.broadcast_to(np.arange(m), (*batch, m)).copy()
        swap[..., j] = chosen
        np.put_along_axis(swap, chosen[..., None], j, axis=-1)
        pivots[..., j] = chosen
        order = np.take_along_axis(order, swap, axis=-1)
        work = algebra.shape(lambda v, swap=swap: np.take_along_axis(v, swap[..., None], axis=-2), work)
        work = _eliminated(algebra, work, j)
    return work, algebra.constant(pivots), algebra.constant(np.ascontiguousarray(order))


def _eliminated(algebra: Any, work: Any, j: int) -> Any:
    """Column j divided by its pivot (left alone if that is 0), its multiples subtracted from the rest."""
    rest = slice(j + 1, None)
    below = mx.at(algebra, work, rest, j)
    pivot = algebra.shape(lambda v: np.broadcast_to(v[..., j, j, None], np.shape(below)), work)
    none = algebra.compare("eq", pivot, mx.constant(algebra, 0, pivot))
    column = algebra.select(none, below, algebra.div(below, pivot))
    work = mx.put(algebra, work, column, rest, j)
    update = mx.outer(algebra, column, mx.at(algebra, work, j, rest))
    return mx.put(algebra, work, algebra.sub(mx.at(algebra, work, rest, rest), update), rest, rest)


def unit_lower(packed: Any) -> Any:
    """L of a packed LU as an [m, m] matrix, the identity beyond its columns."""
    m, n = type_of(packed).shape[-2:]
    below = mx.lower_part(packed, -1)
    below = _resized(below, m, m) if m != n else below
    return apply1(ADD, below, mx.whole(packed, np.eye(m)))


def _whole_upper(packed: Any) -> Any:
    """U of a packed LU as an [n, n] matrix, the identity beyond its rows."""
    m, n = type_of(packed).shape[-2:]
    above = mx.upper_part(packed)
    if m == n:
        return above
    beyond = np.diag((np.arange(n) >= m).astype(np.float64))
    return apply1(ADD, _resized(above, n, n), mx.whole(packed, beyond))


def _resized(x: Any, m: int, n: int) -> Any:
    """Rows and columns cut off or added as zeros at the end."""
    shape = type_of(x).shape
    high = (*[0] * (len(shape) - 2), m - shape[-2], n - shape[-1])
    none = (0,) * len(shape)
    return bind1(PAD, Widths(none, high, none), x, zeros_of(TensorType((), type_of(x).dtype)))


def permuted(x: Any, order: Any) -> Any:
    """The rows of each matrix in another order."""
    axis = len(type_of(x).shape) - 2
    return bind1(GATHER, Along(axis, axis, Mode.FILL), x, order)


def _lu_jvp(params: NoParams, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """With M = L⁻¹·P dA·U⁻¹: dL = L·(M below the diagonal), dU = (M on and above it)·U."""
    packed, _, order = outputs
    (tangent,) = tangents
    if tangent is None:
        return None, None, None
    left, right = unit_lower(packed), _whole_upper(packed)
    half = bind1(TRIANGULAR_SOLVE, Triangle(lower=True, adjoint=False, unit=True), left, permuted(tangent, order))
    solve = Triangle(lower=False, adjoint=True, unit=False)
    middle = mx.adjoint(bind1(TRIANGULAR_SOLVE, solve, right, mx.adjoint(half)))
    below = mx.product(left, mx.lower_part(middle, -1))
    above = mx.product(mx.upper_part(middle), right)
    return apply1(ADD, below, above), None, None


LU = Op(
    name="lu",
    params=NoParams,
    type_rule=_lu_type,
    denote=_lu_value,
    diff=Custom(jvp=_lu_jvp, settled=settled_factors),
    batch=Pointwise(),
    reduces=True,
    doc=(
        "P·A = L·U with partial pivoting: L and U packed in one matrix, the row swapped with each row in turn, and the "
        "order of the rows. The first of equally large pivots is taken."
    ),
)


# -- QR ----------------------------------------------------------------------------------------------------------------
def _qr_type(params: NoParams, x: TensorType) -> tuple[TensorType, ...]:
    mx.require_matrix(x, square=False)
    *batch, m, n = x.shape
    k = min(m, n)
    return TensorType((*batch, m, k), x.dtype), TensorType((*batch, k, n), x.dtype)


def _reflector(algebra: Any, column: Any) -> tuple[Any, Any, Any]:
    """(v, τ, β) with (I - τ·v·vᴴ)ᴴ·column = β·e₁, v₀ = 1 and β real; τ = 0 where the column is β·e₁ already."""
    alpha = mx.at(algebra, column, 0)
    real = mx.real_part(algebra, alpha)
    axis = len(np.shape(column)) - 1
    total = algebra.sum(mx.squared_size(algebra, column), (axis,))
    rest = algebra.sum(mx.squared_size(algebra, mx.at(algebra, column, slice(1, None))), (axis,))
    zero = mx.constant(algebra, 0, rest)
    done = algebra.compare("eq", rest, zero)
    if column.dtype.kind == "c":
        flat = algebra.compare("eq", algebra.shape(np.imag, alpha), zero)
        done = algebra.exact(np.logical_and, done, flat)
    norm = algebra.sqrt(total)
    beta = algebra.select(algebra.compare("ge", real, zero), algebra.neg(norm), norm)
    beta = algebra.select(done, real, beta)
    wide = mx.widened(algebra, beta, column)
    safe = algebra.select(done, mx.constant(algebra, 1, beta), beta)
    tau = algebra.select(done, mx.constant(algebra, 0, alpha), mx.over_real(algebra, algebra.sub(wide, alpha), safe))
    divisor = algebra.select(done, mx.constant(algebra, 1, alpha), algebra.sub(alpha, wide))
    divisor = algebra.shape(lambda v: np.broadcast_to(v[..., None], np.shape(column)), divisor)
    v = algebra.div(column, divisor)
    return mx.put(algebra, v, mx.constant(algebra, 1, alpha), 0), tau, wide


def _reflected(algebra: Any, v: Any, tau: Any, x: Any) -> Any:
    """(I - τ·v·vᴴ)·x for matrices x."""
    axis = len(np.shape(x)) - 2
    shape = np.shape(x)
    spread_v = algebra.shape(lambda u: np.broadcast_to(u[..., :, None], shape), mx.conjugate(algebra, v))
    row = algebra.sum(algebra.mul(spread_v, x), (axis,))
    factor = algebra.shape(lambda t: np.broadcast_to(t[..., None], np.shape(v)), tau)
    return algebra.sub(x, mx.outer(algebra, algebra.mul(factor, v), row))


def _qr_value(algebra: Any, params: NoParams, x: Any) -> tuple[Any, ...]:
    *batch, m, n = np.shape(x)
    k = min(m, n)
    work = x
    held: list[tuple[Any, Any]] = []
    for j in range(k):
        down, right = slice(j, None), slice(j + 1, None)
        v, tau, beta = _reflector(algebra, mx.at(algebra, work, down, j))
        held.append((v, tau))
        turned = _reflected(algebra, v, mx.conjugate(algebra, tau), mx.at(algebra, work, down, right))
        work = mx.put(algebra, work, turned, down, right)
        work = mx.put(algebra, work, mx.constant(algebra, 0, v), down, j)
        work = mx.put(algebra, work, beta, j, j)
    q = algebra.constant(np.broadcast_to(np.eye(m, k, dtype=x.dtype), (*batch, m, k)))
    for j in reversed(range(k)):
        part = slice(j, None)
        q = mx.put(algebra, q, _reflected(algebra, *held[j], mx.at(algebra, q, part, part)), part, part)
    return q, mx.at(algebra, work, slice(0, k), _ALL)


def _columns(x: Any, start: int, stop: int) -> Any:
    shape = type_of(x).shape
    lead = len(shape) - 1
    return bind1(SLICE, Strided((0,) * lead + (start,), (*shape[:-1], stop), (1,) * len(shape)), x)


def _qr_jvp(params: NoParams, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """With M = Qᴴ dA R⁻¹ and Ω its antihermitian lower part: dQ = dA R⁻¹ - Q·(M - Ω), dR = (M - Ω)·R."""
    (x,), (tangent,), (q, r) = primals, tangents, outputs
    if tangent is None:
        return None, None
    m, n = type_of(x).shape[-2:]
    square, moved = (r, tangent) if m >= n else (_columns(r, 0, m), _columns(tangent, 0, m))
    solve = Triangle(lower=False, adjoint=True, unit=False)
    over = mx.adjoint(bind1(TRIANGULAR_SOLVE, solve, square, mx.adjoint(moved)))
    middle = mx.product(mx.adjoint(q), over)
    below = mx.lower_part(middle, -1)
    omega = apply1(SUB, below, mx.adjoint(below))
    if type_of(x).dtype.is_complex:
        size = np.eye(type_of(middle).shape[-1], dtype=np.bool_)
        turn = mx.masked(apply1(IMAG, middle), size)
        omega = apply1(ADD, omega, apply1(COMPLEX, zeros_of(type_of(turn)), turn))
    inner = apply1(SUB, middle, omega)
    dq = apply1(SUB, over, mx.product(q, inner))
    dr = mx.product(inner, square)
    if m < n:
        beyond = apply1(
            ADD,
            mx.product(mx.adjoint(dq), _columns(x, m, n)),
            mx.product(mx.adjoint(q), _columns(tangent, m, n)),
        )
        dr = bind1(CONCATENATE, Joined(len(type_of(x).shape) - 1), dr, beyond)
    return dq, dr


QR = Op(
    name="qr",
    params=NoParams,
    type_rule=_qr_type,
    denote=_qr_value,
    diff=Custom(jvp=_qr_jvp, settled=settled_factors),
    batch=Pointwise(),
    reduces=True,
    doc="A = Q·R, reduced: Q has orthonormal columns, R is upper triangular with a real diagonal of LAPACK's signs.",
)

OPS = (LU, QR)
