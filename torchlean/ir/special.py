"""Relatives of the error function, which NumPy lacks, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlean.ir.strict.functions import ERF, EXP, LOG1P


def erfc(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """1 - erf(x) without cancellation: `math.erfc` entry by entry, in the dtype of `x`."""
    given = np.asarray(x)
    return _erfc(given.astype(np.float64)).astype(given.dtype)


def _erfc(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(np.frompyfunc(math.erfc, 1, 1)(x)).astype(np.float64)


def erf_inv(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The y with erf(y) = x: NaN outside [-1, 1], in the dtype of `x`.

    Winitzki's approximation, then Halley steps on erfc, whose error is relative in the tails; each step cubes it.
    """
    given = np.asarray(x)
    wide = given.astype(np.float64)
    size = np.minimum(np.abs(wide), np.nextafter(1.0, 0.0))
    log = LOG1P(-size * size)
    half = 2.0 / (math.pi * 0.147) + log / 2.0
    y = np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    y = np.where(size < 1e-3, size * (math.sqrt(math.pi) / 2), y)
    for _ in range(3):
        miss = np.where(size < 0.5, size - ERF(y), _erfc(y) - (1.0 - size))
        error = miss * (math.sqrt(math.pi) / 2) * EXP(y * y)
        y = y + error / (1.0 - y * error)
    y = np.where(np.abs(wide) == 1.0, np.inf, np.where(np.abs(wide) <= 1.0, y, np.nan))
    return np.copysign(y, wide).astype(given.dtype)
