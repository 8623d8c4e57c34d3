"""Eigenvalues of Hermitian matrices and singular values, with their vectors, by Jacobi's method (`jacobi.py`).

Vectors are determined up to a phase; the first entry of largest absolute value is made positive. Derivatives [Giles
2008]: those of vectors hold for distinct values and, for complex matrices, up to that phase, so a loss may use them
only in ways the phase does not change. Where two values are equal the derivative of their vectors is infinite, unless
nothing that is asked for depends on it: an exact 0 stays 0 (`chain.py`), so Σ λ² has its gradient everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.op import NO_PARAMS, NoParams, Op
from torchlean.ir.ops import jacobi
from torchlean.ir.ops import matrices as mx
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.create import full_like, zeros_of
from torchlean.ir.ops.elementwise import ADD, DIV, MUL, SUB
from torchlean.ir.ops.factor import QR
from torchlean.ir.ops.families import apply1
from torchlean.ir.ops.parts import COMPLEX, REAL
from torchlean.ir.ops.spread import REDUCE_SUM, Axes
from torchlean.ir.ops.triangular import hermitian, hermitian_transposed
from torchlean.ir.rules import Custom, Pointwise
from torchlean.ir.types import TensorType


def _widened(real: Any, like: Any) -> Any:
    """A real tensor in the dtype of `like`."""
    return apply1(COMPLEX, real, zeros_of(type_of(real))) if type_of(like).dtype.is_complex else real


def _diagonal(x: Any) -> Any:
    """The real diagonal of each square matrix: a sum in which every other term is 0."""
    real = apply1(REAL, x) if type_of(x).dtype.is_complex else x
    rank, n = len(type_of(x).shape), type_of(x).shape[-1]
    return bind1(REDUCE_SUM, Axes((rank - 1,)), mx.masked(real, np.eye(n, dtype=np.bool_)))


def _inverse(x: Any) -> Any:
    return apply1(DIV, full_like(x, 1), x)


def _off_diagonal(x: Any) -> Any:
    """Zeros on the diagonal of each square matrix."""
    return mx.masked(x, ~np.eye(type_of(x).shape[-1], dtype=np.bool_))


def _gap_weights(values: Any, like: Any) -> Any:
    """1/(v_j - v_i) off the diagonal, 0 on it, in the dtype of the matrices `like`; infinite where values coincide."""
    shape = type_of(like).shape
    gaps = apply1(SUB, mx.along(values, shape, -1), mx.along(values, shape, -2))
    return _widened(_off_diagonal(_inverse(gaps)), like)


def _on_diagonal(real: Any, like: Any) -> Any:
    """Diagonal matrices in the dtype and shape of `like`."""
    spread = _widened(mx.along(real, type_of(like).shape, -1), like)
    return mx.masked(spread, np.eye(type_of(like).shape[-1], dtype=np.bool_))


# -- Hermitian eigenvalues ---------------------------------------------------------------------------------------------
def _eigh_type(params: NoParams, x: TensorType) -> tuple[TensorType, ...]:
    mx.require_matrix(x, square=True)
    return TensorType(x.shape[:-1], x.dtype.part), x


def _eigh_value(algebra: Any, params: NoParams, x: Any) -> tuple[Any, ...]:
    values, vectors = jacobi.eigen(algebra, algebra.shape(hermitian_array, x))
    order = np.asarray(algebra.order((values,), np.ndim(values) - 1))
    values, vectors = jacobi.reordered(algebra, order, values, vectors)
    return values, jacobi.with_fixed_phase(algebra, vectors)[0]


def hermitian_array(v: Any) -> Any:
    """The Hermitian matrix whose lower triangle is that of `v`: entries are moved and conjugated only."""
    n = v.shape[-1]
    made = np.where(np.tri(n, k=-1, dtype=np.bool_), v, np.conjugate(np.swapaxes(v, -1, -2)))
    diagonal = np.arange(n)
    made[..., diagonal, diagonal] = v[..., diagonal, diagonal].real
    return made


def _eigh_jvp(params: NoParams, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """With M = Vᴴ dA V: dλ = diag M and dV = V·(F ∘ M), F_ij = 1/(λ_j - λ_i)."""
    (tangent,), (values, vectors) = tangents, outputs
    if tangent is None:
        return None, None
    middle = mx.product(mx.adjoint(vectors), mx.product(hermitian(tangent), vectors))
    turn = apply1(CHAIN_MUL, middle, _gap_weights(values, middle))
    return _diagonal(middle), mx.product(vectors, turn)


def _eigh_vjp(params: NoParams, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    """V·(diag λ̄ + F ∘ (Vᴴ V̄))·Vᴴ, folded onto the lower triangle."""
    values, vectors = outputs
    values_ct, vectors_ct = cotangents
    turn = mx.product(mx.adjoint(vectors), vectors_ct)
    turn = apply1(CHAIN_MUL, turn, _gap_weights(values, turn))
    middle = apply1(ADD, _on_diagonal(values_ct, turn), turn)
    whole = mx.product(vectors, mx.product(middle, mx.adjoint(vectors)))
    return (hermitian_transposed(whole),)


EIGH = Op(
    name="eigh",
    params=NoParams,
    type_rule=_eigh_type,
    denote=_eigh_value,
    diff=Custom(jvp=_eigh_jvp, vjp=_eigh_vjp),
    batch=Pointwise(),
    reduces=True,
    doc="Ascending eigenvalues and orthonormal eigenvectors of the Hermitian matrix whose lower triangle is read.",
)


# -- singular values ---------------------------------------------------------------------------------------------------
def _svd_type(params: NoParams, x: TensorType) -> tuple[TensorType, ...]:
    mx.require_matrix(x, square=False)
    *batch, m, n = x.shape
    k = min(m, n)
    return (
        TensorType((*batch, m, k), x.dtype),
        TensorType((*batch, k), x.dtype.part),
        TensorType((*batch, k, n), x.dtype),
    )


def _turned(algebra: Any, x: Any) -> Any:
    return mx.conjugate(algebra, algebra.shape(lambda v: np.swapaxes(v, -1, -2), x))


def _svd_value(algebra: Any, params: NoParams, x: Any) -> tuple[Any, ...]:
    if np.shape(x)[-2] < np.shape(x)[-1]:
        u, s, vh = _tall_svd(algebra, _turned(algebra, x))
        u, v = jacobi.with_fixed_phase(algebra, _turned(algebra, vh), u)
        return u, s, _turned(algebra, v)
    u, s, vh = _tall_svd(algebra, x)
    u, v = jacobi.with_fixed_phase(algebra, u, _turned(algebra, vh))
    return u, s, _turned(algebra, v)


def _tall_svd(algebra: Any, x: Any) -> tuple[Any, Any, Any]:
    """Rotate the columns until they are orthogonal, sort them by length, and let QR complete what vanished."""
    batch, n = np.shape(x)[:-2], np.shape(x)[-1]
    if n == 0:
        nothing = mx.constant(algebra, 0, mx.real_part(algebra, x), (*batch, 0))
        return x, nothing, algebra.shape(lambda v: v[..., :0, :], x)
    w, v = jacobi.orthogonalised(algebra, x)
    lengths = algebra.sqrt(algebra.sum(mx.squared_size(algebra, w), (len(batch),)))
    order = np.asarray(algebra.order((algebra.neg(lengths),), len(batch)))
    lengths, w, v = jacobi.reordered(algebra, order, lengths, w, v)
    q, r = QR.denote(algebra, NO_PARAMS, w)
    diagonal = mx.real_part(algebra, algebra.shape(lambda u: np.diagonal(u, axis1=-2, axis2=-1), r))
    zero, one = mx.constant(algebra, 0, diagonal), mx.constant(algebra, 1, diagonal)
    sign = algebra.select(algebra.compare("lt", diagonal, zero), algebra.neg(one), one)
    over = algebra.shape(lambda u: np.broadcast_to(u[..., None, :], np.shape(q)), mx.widened(algebra, sign, q))
    return algebra.mul(q, over), lengths, _turned(algebra, v)


def _svd_jvp(params: NoParams, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """With M = Uᴴ dA V, F_ij = 1/(s_j² - s_i²): dU = U·(F ∘ (M S + S Mᴴ)), dV = V·(F ∘ (S M + Mᴴ S)), and what lies
    outside the spans of U and V."""
    (tangent,), (u, s, vh) = tangents, outputs
    if tangent is None:
        return None, None, None
    v = mx.adjoint(vh)
    m, n = type_of(tangent).shape[-2:]
    middle = mx.product(mx.adjoint(u), mx.product(tangent, v))
    weights = _gap_weights(apply1(MUL, s, s), middle)
    right, left = _times(middle, s, -1), _times(middle, s, -2)
    turn_u = apply1(CHAIN_MUL, apply1(ADD, right, mx.adjoint(right)), weights)
    turn_v = apply1(CHAIN_MUL, apply1(ADD, left, mx.adjoint(left)), weights)
    if type_of(middle).dtype.is_complex:
        turn_u = apply1(ADD, turn_u, _divided(_skew_diagonal(middle), s))
    du, dv = mx.product(u, turn_u), mx.product(v, turn_v)
    if m > n:
        du = apply1(ADD, du, _divided(_outside(u, mx.product(tangent, v)), s))
    if n > m:
        dv = apply1(ADD, dv, _divided(_outside(v, mx.product(mx.adjoint(tangent), u)), s))
    return du, _diagonal(middle), mx.adjoint(dv)


def _svd_vjp(params: NoParams, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    """The transpose of the above: with X = F ∘ (Uᴴ Ū), Y = F ∘ (Vᴴ V̄) the middle is (X + Xᴴ) S + S (Y + Yᴴ) + s̄."""
    u, s, vh = outputs
    u_ct, s_ct, vh_ct = cotangents
    v, v_ct = mx.adjoint(vh), mx.adjoint(vh_ct)
    m, n = type_of(primals[0]).shape[-2:]
    onto_u, onto_v = mx.product(mx.adjoint(u), u_ct), mx.product(vh, v_ct)
    weights = _gap_weights(apply1(MUL, s, s), onto_u)
    x, y = apply1(CHAIN_MUL, onto_u, weights), apply1(CHAIN_MUL, onto_v, weights)
    middle = apply1(
        ADD,
        _times(apply1(ADD, x, mx.adjoint(x)), s, -1),
        _times(apply1(ADD, y, mx.adjoint(y)), s, -2),
    )
    middle = apply1(ADD, middle, _on_diagonal(s_ct, middle))
    if type_of(middle).dtype.is_complex:
        middle = apply1(ADD, middle, _skew_diagonal(_divided(onto_u, s)))
    made = mx.product(u, mx.product(middle, vh))
    if m > n:
        made = apply1(ADD, made, mx.product(_divided(_outside(u, u_ct), s), vh))
    if n > m:
        made = apply1(ADD, made, mx.product(u, mx.adjoint(_divided(_outside(v, v_ct), s))))
    return (made,)


def _times(x: Any, s: Any, axis: int) -> Any:
    """Columns (axis -1) or rows (axis -2) of x times s."""
    return apply1(MUL, x, _widened(mx.along(s, type_of(x).shape, axis), x))


def _divided(x: Any, s: Any) -> Any:
    """Columns of x over s; an exact 0 over 0 is 0."""
    return apply1(CHAIN_MUL, x, _widened(mx.along(_inverse(s), type_of(x).shape, -1), x))


def _skew_diagonal(x: Any) -> Any:
    """(x - xᴴ)/2 on the diagonal: i times its imaginary part."""
    return mx.masked(mx.half(apply1(SUB, x, mx.adjoint(x))), np.eye(type_of(x).shape[-1], dtype=np.bool_))


def _outside(basis: Any, x: Any) -> Any:
    """(I - B·Bᴴ)·x."""
    return apply1(SUB, x, mx.product(basis, mx.product(mx.adjoint(basis), x)))


SVD = Op(
    name="svd",
    params=NoParams,
    type_rule=_svd_type,
    denote=_svd_value,
    diff=Custom(jvp=_svd_jvp, vjp=_svd_vjp),
    batch=Pointwise(),
    reduces=True,
    doc="A = U·diag(s)·Vᴴ, reduced: orthonormal columns of U and rows of Vᴴ, s descending. Returns U, s, Vᴴ.",
)

OPS = (EIGH, SVD)
