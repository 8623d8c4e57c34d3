"""Matrix factorisations by LAPACK and Fourier transforms by pocketfft, through NumPy.

Entries that are not finite, empty operands and what LAPACK refuses (a matrix that is not positive definite) send the
call to the definition. Vectors get the definition's phase.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.backends.handler import Kernel
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import fft
from torchlean.ir.ops.determinant import DET
from torchlean.ir.ops.factor import QR
from torchlean.ir.ops.jacobi import with_fixed_phase
from torchlean.ir.ops.spectral import EIGH, SVD
from torchlean.ir.ops.triangular import CHOLESKY
from torchlean.ir.types import TensorType

_ALGEBRA = NumpyAlgebra()


def _where_possible(op: Op, function: Callable[[Any], Any]) -> Any:
    """`function` of one matrix operand, or the definition where LAPACK cannot help."""

    def kernel(x: Any) -> Any:
        if x.size and np.isfinite(x).all():
            try:
                return function(x)
            except np.linalg.LinAlgError:
                pass
        made = op.denote(_ALGEBRA, NO_PARAMS, np.asarray(x))
        return made[0] if len(made) == 1 else made

    return lambda params, types: kernel


def _eigh(x: Any) -> Any:
    values, vectors = np.linalg.eigh(x)
    return values, with_fixed_phase(_ALGEBRA, vectors)[0]


def _svd(x: Any) -> Any:
    """Turned by the side the definition turns: the left vectors of tall matrices, the right ones of wide ones."""
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    v = np.conj(np.swapaxes(vh, -1, -2))
    if x.shape[-2] < x.shape[-1]:
        v, u = with_fixed_phase(_ALGEBRA, v, u)
    else:
        u, v = with_fixed_phase(_ALGEBRA, u, v)
    return u, s, np.conj(np.swapaxes(v, -1, -2))


cholesky = _where_possible(CHOLESKY, np.linalg.cholesky)
qr = _where_possible(QR, lambda x: tuple(np.linalg.qr(x)))
eigh = _where_possible(EIGH, _eigh)
svd = _where_possible(SVD, _svd)
det = _where_possible(DET, lambda x: np.asarray(np.linalg.det(x)))


def _transform(op: Op, params: Any, function: Callable[[Any], Any]) -> Kernel:
    def kernel(x: Any) -> Any:
        if x.size and np.isfinite(x).all():
            return function(x)
        return op.denote(_ALGEBRA, params, np.asarray(x))[0]

    return kernel


def complex_transform(params: fft.Transform, types: tuple[TensorType, ...]) -> Kernel:
    """The transform of complex entries, or its inverse."""
    function = np.fft.ifft if params.inverse else np.fft.fft
    return _transform(fft.FFT, params, lambda x: function(x, axis=params.axis))


def real_transform(params: fft.RealTransform, types: tuple[TensorType, ...]) -> Kernel:
    """The first half of the transform of real entries."""
    return _transform(fft.RFFT, params, lambda x: np.fft.rfft(x, axis=params.axis))


def real_inverse(params: fft.RealInverse, types: tuple[TensorType, ...]) -> Kernel:
    """Real entries from the first half of their transform."""
    return _transform(fft.IRFFT, params, lambda x: np.fft.irfft(x, n=params.length, axis=params.axis))
