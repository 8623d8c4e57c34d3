"""Samples of Fourier transforms, factorisations and triangular systems."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from torchlean.conformance.samples.draw import (
    C64,
    C128,
    F32,
    F64,
    Array,
    Sample,
    complex_specials,
    disc,
    specials,
    uniform,
)
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import (
    determinant,
    factor,
    fft,
    spectral,
    triangular,
)
from torchlean.ir.ops.triangular import Triangle


def fourier_samples() -> Iterator[Sample]:
    for shape, axis in (((8,), 0), ((3, 7), 1), ((5, 2), 0), ((2, 3, 4), 1), ((1,), 0), ((0, 3), 1)):
        name = f"{list(shape)} along {axis}"
        for dtype in (C128, C64):
            for inverse in (False, True):
                label = f"{np.dtype(dtype).name}{name}{' inverse' * inverse}"
                yield Sample(fft.FFT, fft.Transform(axis, inverse), (disc(shape, dtype=dtype),), label, False)
        for dtype in (F64, F32):
            label = f"{np.dtype(dtype).name}{name}"
            yield Sample(fft.RFFT, fft.RealTransform(axis), (uniform(shape, dtype=dtype),), label, False)
        n = shape[axis]
        half = (*shape[:axis], n // 2 + 1, *shape[axis + 1 :])
        for dtype in (C128, C64):
            label = f"{np.dtype(dtype).name}{name}"
            yield Sample(fft.IRFFT, fft.RealInverse(axis, n), (disc(half, dtype=dtype),), label, False)
    yield Sample(fft.FFT, fft.Transform(0, inverse=False), (complex_specials(),), "specials", False)
    yield Sample(fft.RFFT, fft.RealTransform(0), (specials(),), "specials", False)


def definite(n: int, batch: tuple[int, ...] = (), dtype: Any = F64, seed: int = 0) -> Array:
    """Well-conditioned Hermitian positive definite matrices with well separated eigenvalues."""
    base = matrix((*batch, n, n), dtype, seed)
    turned, _ = np.linalg.qr(base.astype(C128 if np.dtype(dtype).kind == "c" else F64))
    made = (turned * (1.0 + np.arange(n))) @ np.conj(np.swapaxes(turned, -1, -2))
    return made.astype(dtype)


def matrix(shape: tuple[int, ...], dtype: Any = F64, seed: int = 0) -> Array:
    """Seeded entries; diagonally heavy, so that triangles and the whole are well conditioned."""
    made = disc(shape, seed) if np.dtype(dtype).kind == "c" else uniform(shape, -1, 1, seed=seed)
    return (made + 2.0 * np.eye(shape[-2], shape[-1])).astype(dtype)


def separated(shape: tuple[int, ...], dtype: Any = F64, seed: int = 0) -> Array:
    """Matrices with singular values 1, 2, 3, …"""
    wide = C128 if np.dtype(dtype).kind == "c" else F64
    u, _, vh = np.linalg.svd(matrix(shape, wide, seed), full_matrices=False)
    return ((u * (1.0 + np.arange(min(shape[-2:])))) @ vh).astype(dtype)


MATRIX_DTYPES = (F64, F32, C128, C64)


def matrices_samples() -> Iterator[Sample]:
    for dtype in MATRIX_DTYPES:
        smooth = dtype is F64
        label = np.dtype(dtype).name
        for shape in ((3, 3), (2, 3, 3), (1, 1)):
            name = f"{label}{list(shape)}"
            square = definite(shape[-1], shape[:-2], dtype)
            yield Sample(triangular.CHOLESKY, NO_PARAMS, (square,), name, smooth)
            yield Sample(spectral.EIGH, NO_PARAMS, (square,), name, smooth)
            yield Sample(determinant.DET, NO_PARAMS, (matrix(shape, dtype),), name, smooth)
            b = matrix((*shape[:-1], 2), dtype, 5)
            for lower in (False, True):
                for turned in (False, True):
                    for unit in (False, True):
                        params = Triangle(lower, turned, unit)
                        how = f"{'lower' if lower else 'upper'}{' adjoint' * turned}{' unit' * unit}"
                        operands = matrix(shape, dtype), b
                        yield Sample(triangular.TRIANGULAR_SOLVE, params, operands, f"{name} {how}", smooth)
        for shape in ((3, 3), (4, 2), (2, 3, 2), (2, 4), (1, 1), (1, 3), (3, 1)):
            name = f"{label}{list(shape)}"
            yield Sample(factor.LU, NO_PARAMS, (matrix(shape, dtype, 3),), name, smooth)
            yield Sample(factor.QR, NO_PARAMS, (separated(shape, dtype, 4),), name, smooth)
            yield Sample(spectral.SVD, NO_PARAMS, (separated(shape, dtype, 6),), name, smooth)
    for op in (triangular.CHOLESKY, spectral.EIGH, spectral.SVD, factor.QR, factor.LU, determinant.DET):
        yield Sample(op, NO_PARAMS, (np.zeros((0, 0), F32),), "f32[0,0]", False)
        yield Sample(op, NO_PARAMS, (np.zeros((0, 3, 3), F32),), "f32[0,3,3]", False)
        yield Sample(op, NO_PARAMS, (np.zeros((3, 3)),), "degenerate: zeros", False)
        yield Sample(op, NO_PARAMS, (np.ones((3, 3)),), "degenerate: rank one", False)
        yield Sample(op, NO_PARAMS, (np.full((2, 2), np.nan),), "NaN", False)
        yield Sample(op, NO_PARAMS, (np.array([[1.0, 0.0], [0.0, -1.0]]),), "degenerate: indefinite", False)
        yield Sample(op, NO_PARAMS, (np.eye(3),), "degenerate: identity", False)
    for op in (spectral.SVD, factor.QR, factor.LU):
        yield Sample(op, NO_PARAMS, (np.zeros((0, 3), F32),), "f32[0,3]", False)
        yield Sample(op, NO_PARAMS, (np.zeros((3, 0), F32),), "f32[3,0]", False)
    singular = np.array([[1.0, 2.0], [0.0, 0.0]]), np.ones((2, 1))
    yield Sample(triangular.TRIANGULAR_SOLVE, Triangle(False, False, False), singular, "degenerate: singular", False)
    nothing = np.zeros((0, 0), F32), np.zeros((0, 2), F32)
    yield Sample(triangular.TRIANGULAR_SOLVE, Triangle(True, False, False), nothing, "f32[0,0]", False)
