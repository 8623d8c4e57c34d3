"""log and log1p by the series of the inverse hyperbolic tangent.

x = 2^k · (1 + f) with 1 + f in [√½, √2); with s = f / (2 + f), log(1 + f) = 2·artanh s, which is written
f - (f²/2 - s·(f²/2 + z·L(z))), z = s² [Abramowitz & Stegun 4.1.27 and 4.6.22; the arrangement is that of Ng in FDLIBM].
L is fitted to (2·artanh(s)/s - 2)/z with weight z: Chebyshev nodes, 200 bits, coefficients rounded in turn; its error
times z is 2⁻³⁴ (f32, degree 3) and 2⁻⁵⁸·⁴ (f64, degree 6). k·ln 2 + f is a fast two-sum, so only what is
smaller than a fifth of the result is rounded before the last sum.
"""

from __future__ import annotations

from types import MappingProxyType

from torchlean.ir.strict.formats import (
    Format,
    fast_two_sum,
    float_of,
    format_of,
    polynomial,
    two_sum,
    with_sign_of,
)
from torchlean.ir.strict.words import Recorder, Word
from torchlean.record import record


@record
class _Constants:
    root_half_bits: int  # of √½
    ln2_high: float
    ln2_low: float
    coefficients: tuple[float, ...]


CONSTANTS = MappingProxyType(
    {
        "f32": _Constants(
            root_half_bits=0x3F3504F3,
            ln2_high=0.693145751953125,
            ln2_low=1.428606765330187e-06,
            coefficients=(0.6666666269302368, 0.40000849962234497, 0.28510144352912903, 0.2402908056974411),
        ),
        "f64": _Constants(
            root_half_bits=0x3FE6A09E667F3BCD,
            ln2_high=0.6931471805592082,
            ln2_low=7.371002565167799e-13,
            coefficients=(
                0.6666666666666737,
                0.39999999999398655,
                0.2857142874554098,
                0.2222219827491206,
                0.18183578982150864,
                0.15313689990146262,
                0.14799459931696782,
            ),
        ),
    }
)


def split(x: Word) -> tuple[Word, Word]:
    """k and f with x = 2^k · (1 + f) exactly, 1 + f in [√½, √2), for normal x."""
    fmt, constants = format_of(x), CONSTANTS[x.kind]
    bits = x.bits()
    exponent = (bits - constants.root_half_bits) >> fmt.fraction
    return exponent, (bits - (exponent << fmt.fraction)).as_float() - 1.0


def normal(w: Recorder, x: Word) -> tuple[Word, Word]:
    """x times a power of two that makes a subnormal number normal, and minus its exponent (0 where x is normal)."""
    fmt = format_of(x)
    small = x < fmt.smallest_normal
    shift = fmt.fraction + 1
    lifted = w.select(small, x * 2.0**shift, x)
    return lifted, w.select(small, w.constant(fmt.integer, shift), w.constant(fmt.integer, 0))


def _of_parts(fmt: Format, exponent: Word, f: Word, tail: Word | None) -> Word:
    """k·ln 2 + log(1 + f) + tail."""
    constants = CONSTANTS[fmt.float]
    k = float_of(exponent, fmt)
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    low = k * constants.ln2_low
    if tail is not None:
        low = low + tail
    rest = half - (s * (half + z * polynomial(z, constants.coefficients)) + low)
    total, lost = fast_two_sum(k * constants.ln2_high, f)
    return total + (lost - rest)


def _special(w: Recorder, x: Word, value: Word) -> Word:
    """`value` where 0 < x < ∞; else -∞ at 0, NaN below, ∞ at ∞: √x - 1/|x| has those."""
    usual = (x > 0.0) & (x < float("inf"))
    return w.select(usual, value, x.root() - 1.0 / x.magnitude())


def log(w: Recorder, x: Word) -> Word:
    """The natural logarithm."""
    fmt = format_of(x)
    lifted, shift = normal(w, x)
    exponent, f = split(lifted)
    return _special(w, x, _of_parts(fmt, exponent - shift, f, None))


def log1p(w: Recorder, x: Word) -> Word:
    """log(1 + x): the logarithm of the rounded sum, and the rounding error over the sum to first order."""
    fmt = format_of(x)
    total, lost = two_sum(w.constant(x.kind, 1.0), x)
    exponent, f = split(total)
    value = _of_parts(fmt, exponent, f, lost / total)
    return with_sign_of(_special(w, total, value), x)
