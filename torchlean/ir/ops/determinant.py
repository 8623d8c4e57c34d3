"""The determinant, with a derivative that is right for singular matrices: the cofactors, from a singular value
decomposition [Giles 2008, §2.2.4].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind, bind1, type_of
from torchlean.ir.op import NO_PARAMS, NoParams, Op
from torchlean.ir.ops import matrices as mx
from torchlean.ir.ops.create import full_like, zeros_of
from torchlean.ir.ops.cumulative import CUMPROD, PartialRun
from torchlean.ir.ops.cut import SLICE, Strided
from torchlean.ir.ops.elementwise import GT, MUL, SELECT, SIGN
from torchlean.ir.ops.factor import LU, permuted
from torchlean.ir.ops.families import apply1
from torchlean.ir.ops.layout import RESHAPE, NewShape
from torchlean.ir.ops.parts import COMPLEX
from torchlean.ir.ops.spectral import SVD
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes, Spread
from torchlean.ir.ops.triangular import TRIANGULAR_SOLVE, Triangle
from torchlean.ir.rules import Custom, Pointwise
from torchlean.ir.types import TensorType


def _det_type(params: NoParams, x: TensorType) -> tuple[TensorType, ...]:
    mx.require_matrix(x, square=True)
    return (TensorType(x.shape[:-2], x.dtype),)


def odd_permutation(pivots: Any) -> Any:
    """Whether the swaps of an LU are odd in number."""
    return (pivots != np.arange(pivots.shape[-1])).sum(-1) % 2 == 1


def _det_value(algebra: Any, params: NoParams, x: Any) -> tuple[Any, ...]:
    packed, pivots, _ = LU.denote(algebra, NO_PARAMS, x)
    total = mx.constant(algebra, 1, x, np.shape(x)[:-2])
    for k in range(np.shape(x)[-1]):
        total = algebra.mul(total, mx.at(algebra, packed, k, k))
    return (algebra.select(algebra.exact(odd_permutation, pivots), algebra.neg(total), total),)


def cofactors(x: Any) -> Any:
    """The matrix C with d det(x) = Σ C ∘ dx: det(x)·x⁻ᵀ, or where x is nearly singular from its singular values.

    The former has derivatives of every order; that of the latter needs distinct singular values.
    """
    u, s, vh = bind(SVD, NO_PARAMS, x)
    like = type_of(s)
    n = like.shape[-1]
    largest, smallest = [_entry(s, at) for at in (0, n - 1)]
    limit = full_like(largest, float(np.sqrt(np.finfo(like.dtype.carrier).eps)))
    regular = apply1(GT, smallest, apply1(MUL, limit, largest))
    shape = type_of(x).shape
    batch = tuple(range(len(shape) - 2))
    kept = bind1(BROADCAST, Spread(shape, batch), regular)
    safe = bind1(SELECT, NO_PARAMS, kept, x, mx.whole(x, np.eye(n)))
    total = bind1(BROADCAST, Spread(shape, batch), bind1(DET, NO_PARAMS, x))
    return bind1(SELECT, NO_PARAMS, kept, apply1(MUL, total, _inverse_transposed(safe)), _from_svd(u, s, vh))


def _entry(s: Any, at: int) -> Any:
    shape = type_of(s).shape
    lead = (0,) * (len(shape) - 1)
    one = bind1(SLICE, Strided((*lead, at), (*shape[:-1], at + 1), (1,) * len(shape)), s)
    return bind1(RESHAPE, NewShape(shape[:-1]), one)


def _inverse_transposed(x: Any) -> Any:
    packed, _, order = bind(LU, NO_PARAMS, x)
    half = permuted(mx.whole(x, np.eye(type_of(x).shape[-1])), order)
    half = bind1(TRIANGULAR_SOLVE, Triangle(lower=True, adjoint=False, unit=True), packed, half)
    return mx.transposed(bind1(TRIANGULAR_SOLVE, Triangle(lower=False, adjoint=False, unit=False), packed, half))


def _from_svd(u: Any, s: Any, vh: Any) -> Any:
    """det(U)·det(Vᴴ)·conj(U)·diag(Π of the other s)·conj(Vᴴ), the transpose of V·diag(…)·Uᴴ."""
    last = len(type_of(s).shape) - 1
    before = bind1(CUMPROD, PartialRun(last, reverse=False, exclusive=True), s)
    others = apply1(MUL, before, bind1(CUMPROD, PartialRun(last, reverse=True, exclusive=True), s))
    phase = apply1(MUL, bind1(DET, NO_PARAMS, u), bind1(DET, NO_PARAMS, vh))
    if type_of(u).dtype.is_complex:
        others = apply1(COMPLEX, others, zeros_of(type_of(others)))
    else:
        phase = apply1(SIGN, phase)  # ±1, so that it has no derivative
    shape = type_of(u).shape
    phase = bind1(BROADCAST, Spread(shape[:-1], tuple(range(len(shape) - 2))), phase)
    weights = mx.along(apply1(MUL, others, phase), shape, -2)
    return mx.transposed(mx.product(mx.adjoint(vh), apply1(MUL, weights, mx.adjoint(u))))


def _det_jvp(params: NoParams, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    (x,), (tangent,) = primals, tangents
    if tangent is None:
        return (None,)
    if type_of(x).shape[-1] == 0:
        return (zeros_of(type_of(outputs[0])),)
    rank = len(type_of(x).shape)
    return (bind1(REDUCE_SUM, Axes((rank - 2, rank - 1)), apply1(MUL, cofactors(x), tangent)),)


DET = Op(
    name="det",
    params=NoParams,
    type_rule=_det_type,
    denote=_det_value,
    diff=Custom(jvp=_det_jvp),
    batch=Pointwise(),
    reduces=True,
    doc="The determinant: the product of the pivots of LU in order, with the sign of the row swaps.",
)

OPS = (DET,)
