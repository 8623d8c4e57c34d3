"""lgamma, digamma and polygamma in plain NumPy float64.

lgamma is `math.lgamma` entry by entry. ψ⁽ⁿ⁾ for x > 0: recurrence up to x ≥ 16, then the asymptotic series in Bernoulli
numbers [A&S 6.3.18, 6.4.11]; for x < 0 the reflection formula [A&S 6.4.7], whose derivatives of π·cot(πx) are
polynomials in cot(πx). Poles: lgamma is +∞ there, ψ⁽ⁿ⁾ NaN (at ±0: ∓∞ for even n, +∞ for odd n).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B₂, B₄, …
_LARGE = 16  # from here on the series is good to float64


def lgamma(x: Array) -> Array:
    """log |Γ(x)|, elementwise, in the dtype of `x`."""
    given = np.asarray(x)
    return np.asarray(np.frompyfunc(_lgamma, 1, 1)(given.astype(np.float64))).astype(np.float64).astype(given.dtype)


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # a pole, or too large
        return math.inf


def digamma(x: Array) -> Array:
    """ψ(x) = d/dx log Γ(x), elementwise, in the dtype of `x`."""
    return polygamma(0, x)


def polygamma(n: int, x: Array) -> Array:
    """ψ⁽ⁿ⁾(x), the n-th derivative of ψ, elementwise, in the dtype of `x`."""
    given = np.asarray(x)
    wide = given.astype(np.float64)
    negative = wide < 0
    above = _polygamma_above(n, np.where(negative, 1.0 - wide, wide))
    fraction = wide - np.round(wide)
    pole = negative & (fraction == 0)
    cotangent = 1.0 / np.tan(np.pi * np.where(fraction == 0, 0.5, fraction))
    reflected = (-1.0) ** n * above - np.pi ** (n + 1) * np.polyval(_cotangent_derivative(n), cotangent)
    value = np.where(negative, np.where(pole, np.nan, reflected), above)
    return value.astype(given.dtype)


def _polygamma_above(n: int, x: Array) -> Array:
    """For x ≥ 0: Σ of the terms below `_LARGE`, then the series."""
    sign = -1.0 if n % 2 == 0 else 1.0  # of ψ⁽ⁿ⁾ at large n ≥ 1, and of each term 1/xⁿ⁺¹
    total = np.zeros_like(x)
    at = x.copy()
    for _ in range(_LARGE):
        below = at < _LARGE
        total = total + np.where(below, sign * math.factorial(n) / np.where(below, at, 1.0) ** (n + 1), 0.0)
        at = np.where(below, at + 1.0, at)
    inverse = 1.0 / at
    if n == 0:
        series = np.log(at) - 0.5 * inverse
        for k, b in enumerate(_BERNOULLI, start=1):
            series = series - b / (2 * k) * inverse ** (2 * k)
        return np.where(np.isposinf(x), np.inf, total + series)
    series = math.factorial(n - 1) * inverse**n + 0.5 * math.factorial(n) * inverse ** (n + 1)
    for k, b in enumerate(_BERNOULLI, start=1):
        series = series + b * math.factorial(2 * k + n - 1) / math.factorial(2 * k) * inverse ** (2 * k + n)
    return np.where(np.isposinf(x), 0.0, total + sign * series)


def _cotangent_derivative(n: int) -> Array:
    """Coefficients P, highest power first: dⁿ/dxⁿ π·cot(πx) = πⁿ⁺¹ · P(cot πx)."""
    made = np.array([1.0, 0.0])
    for _ in range(n):
        made = np.polymul(-np.polyder(made), np.array([1.0, 0.0, 1.0]))
    return made
