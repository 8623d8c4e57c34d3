"""exp and expm1: Cody and Waite's reduction, a polynomial, and a sum whose large parts are added without error.

x = k·ln 2 + r with |r| ≤ ln 2 / 2, ln 2 held in two parts so that k times the first is exact [Cody & Waite 1980, §6];
e^r = 1 + r + r²·P(r), P fitted to (e^r - 1 - r)/r² with weight r on |r| ≤ ln 2 / 2 · (1 + 2⁻⁸): Chebyshev nodes, 200
bits, coefficients rounded one by one. Error of r·P: 2⁻³¹ (f32, degree 5) and 2⁻⁶¹·⁶ (f64, degree 10). 1 + r is a fast
two-sum, so what is rounded besides the last sum is below a sixth of r.
"""

from __future__ import annotations

from types import MappingProxyType

from torchlean.ir.strict.formats import (
    fast_two_sum,
    format_of,
    nearest_integer,
    polynomial,
    power_of_two,
    scaled,
    two_sum,
    with_sign_of,
)
from torchlean.ir.strict.words import Recorder, Word
from torchlean.record import record


@record
class _Constants:
    low: float  # e^x is 0 below
    high: float  # and ∞ above
    small: float  # e^x - 1 rounds to -1 below
    log2e: float
    ln2_high: float
    ln2_low: float
    coefficients: tuple[float, ...]


CONSTANTS = MappingProxyType(
    {
        "f32": _Constants(
            low=-104.5,
            high=89.5,
            small=-18.0,
            log2e=1.4426950216293335,
            ln2_high=0.693145751953125,
            ln2_low=1.428606765330187e-06,
            coefficients=(
                0.5,
                0.1666666716337204,
                0.04166647419333458,
                0.008333192206919193,
                0.0013934110756963491,
                0.00019958372286055237,
            ),
        ),
        "f64": _Constants(
            low=-746.5,
            high=710.5,
            small=-39.0,
            log2e=1.4426950408889634,
            ln2_high=0.6931471805592082,
            ln2_low=7.371002565167799e-13,
            coefficients=(
                0.5,
                0.16666666666666677,
                0.04166666666666668,
                0.008333333333321346,
                0.0013888888888877362,
                0.0001984126988699154,
                2.4801587340950895e-05,
                2.755724321415151e-06,
                2.7557258781894273e-07,
                2.5109421838952625e-08,
                2.0919672289526686e-09,
            ),
        ),
    }
)


def reduced(x: Word, tail: Word | None = None) -> tuple[Word, Word, Word]:
    """k, r and q with e^(x + tail) = 2^k · (1 + r + q), for x between the bounds; q is below a sixth of r."""
    constants = CONSTANTS[x.kind]
    k, exponent = nearest_integer(x, constants.log2e)
    high = x - k * constants.ln2_high  # exact
    low = k * constants.ln2_low
    r = high - low
    lost = (high - r) - low
    if tail is not None:
        r, lost = two_sum(r, lost + tail)
    return exponent, r, r * r * polynomial(r, constants.coefficients) + lost


def exponential(x: Word, tail: Word | None = None) -> tuple[Word, Word, Word]:
    """k, a and b with e^(x + tail) = 2^k · (a + b), b small."""
    exponent, r, q = reduced(x, tail)
    one, lost = fast_two_sum(1.0, r)
    return exponent, one, lost + q


def exp(w: Recorder, x: Word) -> Word:
    """e^x."""
    constants = CONSTANTS[x.kind]
    exponent, one, rest = exponential(x.at_most(constants.high).at_least(constants.low))
    return scaled(one + rest, exponent)


def expm1_parts(x: Word) -> tuple[Word, Word, Word]:
    """k, a and b with e^x - 1 = 2^k · (a + b), b small: 2^k · ((1 - 2^-k) + r + q), with 1 - 2^-k rounded once."""
    fmt = format_of(x)
    exponent, r, q = reduced(x)
    limited = exponent.at_most(fmt.bias)  # 2^-k is 0 there, and nothing beside 1 well before
    total, lost = fast_two_sum(1.0 - power_of_two(fmt, -limited), r)
    return exponent, total, lost + q


def expm1(w: Recorder, x: Word) -> Word:
    """e^x - 1, without cancellation."""
    constants = CONSTANTS[x.kind]
    exponent, total, rest = expm1_parts(x.at_most(constants.high).at_least(constants.small))
    return with_sign_of(scaled(total + rest, exponent), x)
