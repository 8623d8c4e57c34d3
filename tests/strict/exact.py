"""An oracle that is always there: the functions in decimal arithmetic of any precision, from their series."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from types import MappingProxyType
from typing import Any

import numpy as np

DIGITS = 60
FORMATS = MappingProxyType({"f32": np.dtype("f4"), "f64": np.dtype("f8")})


def _pi(digits: int) -> Decimal:
    """Machin: π/4 = 4·arctan(1/5) - arctan(1/239)."""

    def inverse_tangent(n: int) -> Decimal:
        power = total = Decimal(1) / n
        k = 1
        while power:
            power = -power / (n * n)
            term = power / (2 * k + 1)
            if abs(term) < Decimal(10) ** (-digits - 5):
                break
            total += term
            k += 1
        return total

    return 4 * (4 * inverse_tangent(5) - inverse_tangent(239))


def _circular(x: float, shift: int) -> Decimal:
    """sin(x + shift · π/2): reduced in as many digits as the exponent of x takes."""
    digits = DIGITS + max(0, int(math.log10(abs(x)) + 1)) if x else DIGITS
    with localcontext() as context:
        context.prec = digits + 30
        half = _pi(digits + 25) / 2
        turns = (Decimal(x) / half).to_integral_value()
        r = Decimal(x) - turns * half
        context.prec = DIGITS + 20
        quarter = (int(turns) + shift) % 4
        term = Decimal(1) if quarter % 2 else r
        total, k = term, 1 if quarter % 2 else 2
        while term and abs(term) > abs(total) * Decimal(10) ** -DIGITS:
            term = -term * r * r / (k * (k + 1))
            total += term
            k += 2
        return -total if quarter >= 2 else total


def _exponential(x: Decimal) -> Decimal:
    """e^x - 1 from the series near 0, which does not cancel, and from e^x elsewhere."""
    if abs(x) > Decimal("0.1"):
        return x.exp() - 1
    term = total = x
    k = 2
    while term and abs(term) > abs(total) * Decimal(10) ** -DIGITS:
        term = term * x / k
        total += term
        k += 1
    return total


def _logarithm(x: Decimal) -> Decimal:
    """log(1 + x): 2·artanh(x / (2 + x)) near 0."""
    if abs(x) > Decimal("0.1"):
        return (1 + x).ln()
    s = x / (2 + x)
    power = total = s
    k = 1
    while power and abs(power) > abs(total) * Decimal(10) ** -DIGITS:
        power = power * s * s
        total += power / (2 * k + 1)
        k += 1
    return 2 * total


def _erf(x: Decimal) -> Decimal:
    """2/√π · e^(-x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!, all of whose terms have one sign."""
    if abs(x) > 12:
        return Decimal(1).copy_sign(x)
    term = total = x
    n = 1
    while term and abs(term) > abs(total) * Decimal(10) ** (-DIGITS - 5):
        term = term * 2 * x * x / (2 * n + 1)
        total += term
        n += 1
    return 2 * total * (-x * x).exp() / _pi(DIGITS + 20).sqrt()


def _hyperbolic_tangent(x: Decimal) -> Decimal:
    if abs(x) > 60:
        return Decimal(1).copy_sign(x)
    m = _exponential(2 * x)
    return m / (m + 2)


_OF_DECIMALS: MappingProxyType[str, Callable[..., Decimal]] = MappingProxyType(
    {
        "exp": lambda x: x.exp(),
        "expm1": _exponential,
        "log": lambda x: x.ln(),
        "log1p": _logarithm,
        "tanh": _hyperbolic_tangent,
        "logistic": lambda x: 1 / (1 + (-x).exp()),
        "erf": _erf,
        "pow": lambda x, y: (y * x.ln()).exp(),
    }
)


def exact(name: str, *xs: float) -> Decimal:
    """The function at finite numbers inside its domain, to some 50 digits."""
    if name == "sin":
        return _circular(xs[0], 0)
    if name == "cos":
        return _circular(xs[0], 1)
    with localcontext() as context:
        context.prec = DIGITS + 20
        context.Emin, context.Emax = -999999, 999999
        if name in ("exp", "expm1", "logistic"):  # beyond, every format rounds to the same
            xs = (min(max(xs[0], -5000.0), 5000.0),)
        return _OF_DECIMALS[name](*[Decimal(float(x)) for x in xs])


def ulps(got: Any, want: Decimal) -> float:
    """|got - want| in units in the last place at `want`; ∞ counts as the power of two past the largest number."""
    carrier = np.asarray(got).dtype
    info = np.finfo(carrier)
    largest, smallest = Decimal(float(info.max)), int(info.minexp) - int(info.nmant)
    with localcontext() as context:
        context.prec = DIGITS + 20
        context.Emin, context.Emax = -999999, 999999
        limit = largest + Decimal(2) ** int(info.maxexp - info.nmant - 2)
        if abs(want) >= limit:
            return 0.0 if np.isinf(got) and (got > 0) == (want > 0) else math.inf
        number = Decimal(2) ** int(info.maxexp) * (1 if got > 0 else -1) if np.isinf(got) else Decimal(float(got))
        exponent = smallest
        if want:
            magnitude = abs(want)
            top = math.floor(float(magnitude.log10() * Decimal(10).ln() / Decimal(2).ln()))
            while Decimal(2) ** (top + 1) <= magnitude:
                top += 1
            while Decimal(2) ** top > magnitude:
                top -= 1
            exponent = max(top - int(info.nmant), smallest)
        return float(abs(number - want) / Decimal(2) ** exponent)
