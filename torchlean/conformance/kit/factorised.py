"""What factorisations and determinants promise where no distance to the definition is claimed: backward stability.

Residuals, orthogonality and (by Weyl) eigenvalues and singular values lie within 16·ε·n·|A|, the usual bound with room
for its constant [Higham 2002, ch. 10, 19]. Factors themselves may lie apart as far as the condition number allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from torchlean.conformance.samples.draw import Array
from torchlean.ir.op import Op
from torchlean.ir.ops.determinant import DET
from torchlean.ir.ops.factor import LU, QR
from torchlean.ir.ops.spectral import EIGH, SVD
from torchlean.ir.ops.triangular import CHOLESKY

FACTORED = (CHOLESKY, QR, EIGH, SVD, DET)
PROMISED = (*FACTORED, LU)
CONSTANT = 16


def _adjoint(m: Any) -> Any:
    return np.conj(np.swapaxes(m, -1, -2))


def broken_promises(op: Op, x: Array, got: Sequence[Array], want: Sequence[Array]) -> Iterator[str]:
    """What does not hold for a finite, non-empty matrix, in words."""
    size = np.linalg.norm(x, axis=(-2, -1), keepdims=True)
    near = CONSTANT * np.finfo(x.dtype).eps * max(x.shape[-2:])
    if not all([np.isfinite(part).all() for part in want]):
        if not all([np.array_equal(np.isnan(mine), np.isnan(theirs)) for mine, theirs in zip(got, want, strict=True)]):
            yield "NaN where the definition has none, or none where it has NaN"
        return
    if op is DET:
        if not np.all(np.abs(got[0] - want[0]) <= (near * size ** x.shape[-1])[..., 0, 0]):
            yield f"a determinant further than {CONSTANT}·ε·n·|A|ⁿ from the definition's"
        return
    if op is LU:
        yield from _broken_lu(x, got, near * size)
        return
    made, bases, values = _parts(op, got)
    if values is not None and not np.all(np.abs(values - want[0 if op is EIGH else 1]) <= near * size[..., 0]):
        yield f"values further than {CONSTANT}·ε·n·|A| from the definition's"
    if not np.all(np.abs(made - _whole(op, x)) <= near * size):
        yield f"factors whose product is further than {CONSTANT}·ε·n·|A| from the matrix"
    for basis in bases:
        if not np.all(np.abs(_adjoint(basis) @ basis - np.eye(basis.shape[-1])) <= near):
            yield f"vectors further than {CONSTANT}·ε·n from orthonormal"


def _broken_lu(x: Array, got: Sequence[Array], allowed: Array) -> Iterator[str]:
    """Growth of the pivots is at most 2ⁿ⁻¹ and for other than contrived matrices small [Higham 2002, §9.4]."""
    packed, _, order = got
    m, n = x.shape[-2:]
    k = min(m, n)
    lower = np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=x.dtype)
    if not np.array_equal(np.sort(order, axis=-1), np.broadcast_to(np.arange(m), order.shape)):
        yield "an order of rows that is no permutation"
    elif not np.all(np.abs(lower) <= 2):
        yield "multiples of rows larger than partial pivoting gives"
    elif not np.all(
        np.abs(lower @ np.triu(packed[..., :k, :]) - np.take_along_axis(x, order[..., None], axis=-2)) <= allowed
    ):
        yield f"factors whose product is further than {CONSTANT}·ε·n·|A| from the permuted matrix"


def _parts(op: Op, got: Sequence[Array]) -> tuple[Any, tuple[Any, ...], Any]:
    """The product of the factors, those that are orthonormal, and the eigenvalues or singular values."""
    if op is CHOLESKY:
        return got[0] @ _adjoint(got[0]), (), None
    if op is QR:
        return got[0] @ got[1], (got[0],), None
    if op is EIGH:
        return (got[1] * got[0][..., None, :]) @ _adjoint(got[1]), (got[1],), got[0]
    return (got[0] * got[1][..., None, :]) @ got[2], (got[0], _adjoint(got[2])), got[1]


def _whole(op: Op, x: Array) -> Any:
    """The matrix that was factored: of Hermitian ones the lower triangle is read."""
    if op not in (CHOLESKY, EIGH):
        return x
    return np.tril(x, -1) + _adjoint(np.tril(x, -1)) + np.eye(x.shape[-1]) * np.real(x)
