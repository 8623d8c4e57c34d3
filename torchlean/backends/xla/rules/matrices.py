"""Factorisations and triangular systems: LAPACK's, with the definition's choices of phase."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlean.backends.xla.rules.elementwise import Made, Rule
from torchlean.ir.op import Op
from torchlean.ir.ops import determinant, factor, spectral, triangular


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


def _empty(made: Made) -> Any:
    """Results when a matrix has no entries."""
    parts = [lax.full(type.shape, 0, type.dtype.carrier) for type in made]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _triangular_solve(params: Any, made: Made, a: Any, b: Any) -> Any:
    if 0 in b.shape:
        return b
    return lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=params.lower,
        transpose_a=params.adjoint,
        conjugate_a=params.adjoint and a.dtype.kind == "c",
        unit_diagonal=params.unit,
    )


def _cholesky(params: Any, made: Made, x: Any) -> Any:
    if 0 in x.shape:
        return x
    n = x.shape[-1]
    factor = lax.linalg.cholesky(x, symmetrize_input=False)
    return jnp.where(np.tri(n, dtype=np.bool_), factor, np.zeros((), x.dtype))


def _lu(params: Any, made: Made, x: Any) -> Any:
    if 0 in x.shape:
        packed, pivots, order = _empty(made)
        return packed, pivots, lax.broadcasted_iota(np.int32, order.shape, order.ndim - 1)
    return lax.linalg.lu(x)


def _qr(params: Any, made: Made, x: Any) -> Any:
    if 0 in x.shape:
        return _empty(made)
    q, r = lax.linalg.qr(x, full_matrices=False)
    return q, r


def _first_largest(x: Any) -> Any:
    """The phase that turns the first entry of largest absolute value of each column to a positive number."""
    where = jnp.argmax(jnp.abs(x), axis=-2, keepdims=True)
    top = jnp.take_along_axis(x, where, axis=-2)
    length = jnp.abs(top)
    none = length == 0
    safe = jnp.where(none, np.ones((), length.dtype), length)
    return jnp.where(none, np.ones((), x.dtype), jnp.conj(top) / safe.astype(x.dtype))


def _eigh(params: Any, made: Made, x: Any) -> Any:
    if 0 in x.shape:
        return _empty(made)
    vectors, values = lax.linalg.eigh(x, lower=True, symmetrize_input=False)
    return values, vectors * _first_largest(vectors)


def _svd(params: Any, made: Made, x: Any) -> Any:
    if 0 in x.shape:
        return _empty(made)
    u, s, vh = lax.linalg.svd(x, full_matrices=False)
    v = _adjoint(vh)
    phase = _first_largest(v if x.shape[-2] < x.shape[-1] else u)
    return u * phase, s, _adjoint(v * phase)


def _det(params: Any, made: Made, x: Any) -> Any:
    """The product of the pivots of LU, in order, with the sign of the row swaps."""
    one = np.ones((), x.dtype)
    if 0 in x.shape:
        return lax.full(made[0].shape, one, x.dtype)
    packed, pivots, _ = lax.linalg.lu(x)
    total: Any = one
    for k in range(x.shape[-1]):
        total = total * packed[..., k, k]
    swaps = (pivots != np.arange(x.shape[-1], dtype=np.int32)).sum(-1)
    return jnp.where(swaps % 2 == 1, -total, total)


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    return {
        triangular.TRIANGULAR_SOLVE: _triangular_solve,
        triangular.CHOLESKY: _cholesky,
        factor.LU: _lu,
        factor.QR: _qr,
        spectral.EIGH: _eigh,
        spectral.SVD: _svd,
        determinant.DET: _det,
    }
