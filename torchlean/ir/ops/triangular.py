"""Triangular systems and the Cholesky factor, by plain elimination in index order.

Every entry is a left fold: the products of earlier columns are subtracted one after another, each rounded first.
Derivatives: [Giles 2008; Murray 2016].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.op import NO_PARAMS, NoParams, Op, TypeFault
from torchlean.ir.ops import matrices as mx
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.elementwise import ADD, NEG, SELECT, SUB
from torchlean.ir.ops.families import apply1
from torchlean.ir.ops.spread import BROADCAST, Spread
from torchlean.ir.rules import Custom, Pointwise
from torchlean.ir.types import TensorType
from torchlean.record import record


@record
class Triangle:
    """`lower`: the triangle of the operand that is read; `adjoint`: solve with its conjugate transpose; `unit`: the
    diagonal counts as 1 and is not read."""

    lower: bool
    adjoint: bool
    unit: bool


def _solve_type(params: Triangle, a: TensorType, b: TensorType) -> tuple[TensorType, ...]:
    mx.require_matrix(a, square=True)
    if b.dtype is not a.dtype or b.rank != a.rank or b.shape[:-1] != a.shape[:-1]:
        raise TypeFault(
            "the right-hand sides do not fit the matrix",
            expected=f"{a.dtype.short} of shape {[*a.shape[:-1]]} + [any]",
            got=f"{a}, {b}",
            fix="broadcast the batch axes; one right-hand side is a matrix of one column",
        )
    return (b,)


def _solve_value(algebra: Any, params: Triangle, a: Any, b: Any) -> tuple[Any, ...]:
    """Substitution: once xₖ is known its multiples are subtracted from the rows that remain."""
    if params.adjoint:
        a = mx.conjugate(algebra, algebra.shape(lambda v: np.swapaxes(v, -1, -2), a))
    forward = params.lower != params.adjoint
    n = np.shape(a)[-1]
    work = b
    for k in range(n) if forward else reversed(range(n)):
        row = mx.at(algebra, work, k, slice(None))
        if not params.unit:
            row = algebra.div(row, mx.columns(algebra, mx.at(algebra, a, k, k), np.shape(row)))
            work = mx.put(algebra, work, row, k, slice(None))
        rest = slice(k + 1, None) if forward else slice(None, k)
        column = mx.at(algebra, a, rest, k)
        left = algebra.sub(mx.at(algebra, work, rest, slice(None)), mx.outer(algebra, column, row))
        work = mx.put(algebra, work, left, rest, slice(None))
    return (work,)


def _triangle(params: Triangle, x: Any) -> Any:
    """The part of a matrix that the op reads."""
    offset = 1 if params.unit else 0
    return mx.lower_part(x, -offset) if params.lower else mx.upper_part(x, offset)


def _solve_jvp(params: Triangle, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """dx = op(a)⁻¹ (db - op(da)·x)."""
    a, _ = primals
    da, db = tangents
    if da is None and db is None:
        return (None,)
    source = db
    if da is not None:
        part = _triangle(params, da)
        moved = mx.product(mx.adjoint(part) if params.adjoint else part, outputs[0])
        source = apply1(NEG, moved) if db is None else apply1(SUB, db, moved)
    return (bind1(TRIANGULAR_SOLVE, params, a, source),)


def _solve_vjp(params: Triangle, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    """b̄ = op(a)⁻ᴴ ct, and ā is the triangle of -b̄·xᴴ, or of -x·b̄ᴴ when op takes the adjoint."""
    a, _ = primals
    turned = Triangle(params.lower, not params.adjoint, params.unit)
    b_ct = bind1(TRIANGULAR_SOLVE, turned, a, cotangents[0])
    left, right = (outputs[0], b_ct) if params.adjoint else (b_ct, outputs[0])
    return _triangle(params, apply1(NEG, mx.product(left, mx.adjoint(right)))), b_ct


def _solve_settled(params: Triangle, primals: Any, outputs: Any, moved: Any) -> tuple[Any, Any]:
    """A singular matrix that nothing moves is the identity, and its solution zero."""
    (a, b), (x,) = primals, outputs
    moves = mx.any_moves(moved)
    if moves is None:
        return primals, outputs
    mask = bind1(BROADCAST, Spread(type_of(x).shape, tuple(range(len(type_of(x).shape) - 2))), moves)
    return (mx.identity_unless(moves, a), b), (bind1(SELECT, NO_PARAMS, mask, x, zeros_of(type_of(x))),)


TRIANGULAR_SOLVE = Op(
    name="triangular_solve",
    params=Triangle,
    type_rule=_solve_type,
    denote=_solve_value,
    diff=Custom(jvp=_solve_jvp, vjp=_solve_vjp, settled=_solve_settled),
    batch=Pointwise(),
    reduces=True,
    doc="Solve a triangular system by substitution in index order; a zero pivot gives infinities and NaN.",
)


# -- Cholesky ----------------------------------------------------------------------------------------------------------
def _square_type(params: NoParams, x: TensorType) -> tuple[TensorType, ...]:
    mx.require_matrix(x, square=True)
    return (x,)


def _cholesky_value(algebra: Any, params: NoParams, x: Any) -> tuple[Any, ...]:
    """Column after column; the outer product of each is subtracted from what remains."""
    n = np.shape(x)[-1]
    factor = mx.constant(algebra, 0, x)
    work = x
    good: Any = None
    for j in range(n):
        pivot = mx.real_part(algebra, mx.at(algebra, work, j, j))
        positive = algebra.compare("gt", pivot, mx.constant(algebra, 0, pivot))
        good = positive if good is None else algebra.exact(np.logical_and, good, positive)
        root = algebra.sqrt(pivot)
        rest = slice(j + 1, None)
        below = mx.at(algebra, work, rest, j)
        column = mx.over_real(algebra, below, mx.columns(algebra, root, np.shape(below)))
        factor = mx.put(algebra, factor, mx.widened(algebra, root, x), j, j)
        factor = mx.put(algebra, factor, column, rest, j)
        update = mx.outer(algebra, column, mx.conjugate(algebra, column))
        work = mx.put(algebra, work, algebra.sub(mx.at(algebra, work, rest, rest), update), rest, rest)
    if good is None:
        return (factor,)
    kept = algebra.exact(lambda v: np.broadcast_to(v[..., None, None], np.shape(x)), good)
    nothing = np.where(np.tri(n, dtype=np.bool_), np.nan, 0.0).astype(x.dtype)
    return (algebra.select(kept, factor, algebra.constant(np.broadcast_to(nothing, np.shape(x)))),)


def hermitian(x: Any) -> Any:
    """The Hermitian matrix whose lower triangle is that of `x`, its diagonal made real."""
    below = mx.lower_part(x, -1)
    diagonal = mx.masked(x, np.eye(type_of(x).shape[-1], dtype=np.bool_))
    if type_of(x).dtype.is_complex:
        half = mx.half(diagonal)
        diagonal = apply1(ADD, half, mx.adjoint(half))
    return apply1(ADD, apply1(ADD, below, mx.adjoint(below)), diagonal)


def hermitian_transposed(x: Any) -> Any:
    """The transpose of `hermitian`: what is above the diagonal is folded below it, the diagonal made real."""
    folded = mx.lower_part(apply1(ADD, x, mx.adjoint(x)), -1)
    diagonal = mx.masked(x, np.eye(type_of(x).shape[-1], dtype=np.bool_))
    if type_of(x).dtype.is_complex:
        half = mx.half(diagonal)
        diagonal = apply1(ADD, half, mx.adjoint(half))
    return apply1(ADD, folded, diagonal)


def _cholesky_jvp(params: NoParams, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """dL = L·Φ(L⁻¹ dA L⁻ᴴ), Φ the lower triangle with half the diagonal."""
    (tangent,), (factor,) = tangents, outputs
    if tangent is None:
        return (None,)
    solve = Triangle(lower=True, adjoint=False, unit=False)
    half = bind1(TRIANGULAR_SOLVE, solve, factor, hermitian(tangent))
    middle = bind1(TRIANGULAR_SOLVE, solve, factor, mx.adjoint(half))
    diagonal = np.eye(type_of(factor).shape[-1], dtype=np.bool_)
    phi = apply1(ADD, mx.lower_part(middle, -1), mx.half(mx.masked(middle, diagonal)))
    return (mx.product(factor, phi),)


def settled_factors(params: Any, primals: Any, outputs: Any, moved: Any) -> tuple[Any, Any]:
    """Factors of a singular matrix that nothing moves are identities."""
    moves = mx.any_moves(moved)
    if moves is None:
        return primals, outputs
    factors = [mx.identity_unless(moves, x) if type_of(x).dtype.is_inexact else x for x in outputs]
    return primals, factors


CHOLESKY = Op(
    name="cholesky",
    params=NoParams,
    type_rule=_square_type,
    denote=_cholesky_value,
    diff=Custom(jvp=_cholesky_jvp, settled=settled_factors),
    batch=Pointwise(),
    reduces=True,
    doc="The lower L, L·Lᴴ the Hermitian matrix whose lower triangle is read; NaN if that is not positive definite.",
)

OPS = (TRIANGULAR_SOLVE, CHOLESKY)
