"""Facts about the two float formats, and the exact building blocks that every definition uses.

Sums and products without error: Knuth's two-sum, Dekker's fast two-sum and product [Dekker 1971; Knuth TAOCP 2, §4.2.2;
Muller et al., Handbook of Floating-Point Arithmetic, §4]. Factors are cut in two by masking bits: nothing overflows.
"""

from __future__ import annotations

import math
from types import MappingProxyType

from torchlean.ir.strict.words import Kind, Recorder, Word
from torchlean.record import record


@record
class Format:
    """An IEEE binary format: `fraction` bits after the leading one, `magic` = 1.5 · 2^fraction."""

    float: Kind
    integer: Kind
    width: int
    fraction: int
    bias: int
    magic: float
    magic_bits: int
    half_mask: int  # keeps the leading half of the bits of a number
    sign_mask: int
    infinity_bits: int
    smallest_normal: float


F32 = Format(
    float="f32",
    integer="i32",
    width=32,
    fraction=23,
    bias=127,
    magic=1.5 * 2.0**23,
    magic_bits=0x4B400000,
    half_mask=-(1 << 12),
    sign_mask=-(1 << 31),
    infinity_bits=0x7F800000,
    smallest_normal=2.0**-126,
)
F64 = Format(
    float="f64",
    integer="i64",
    width=64,
    fraction=52,
    bias=1023,
    magic=1.5 * 2.0**52,
    magic_bits=0x4338000000000000,
    half_mask=-(1 << 27),
    sign_mask=-(1 << 63),
    infinity_bits=0x7FF0000000000000,
    smallest_normal=2.0**-1022,
)
_FORMATS = MappingProxyType({"f32": F32, "f64": F64})


def format_of(x: Word) -> Format:
    """The format of a float."""
    return _FORMATS[x.kind]


def polynomial(x: Word, coefficients: tuple[float, ...]) -> Word:
    """Horner's scheme; `coefficients` are those of 1, x, x², …"""
    value = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        value = value * x + coefficient
    return value


def two_sum(x: Word, y: Word) -> tuple[Word, Word]:
    """The rounded sum and its error, exactly."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def fast_two_sum(x: Word | float, y: Word) -> tuple[Word, Word]:
    """As `two_sum`, where x is 0 or |x| ≥ |y|."""
    total = x + y
    return total, (x - total) + y


def leading_half(x: Word) -> Word:
    """`x` with the lower half of its bits cleared: products of two such numbers are exact."""
    return (x.bits() & format_of(x).half_mask).as_float()


def two_product(x: Word, y: Word | float) -> tuple[Word, Word]:
    """The rounded product and its error, exactly unless something underflows. A float is in the format of x."""
    xh = leading_half(x)
    xl = x - xh
    yh = leading_half(y) if isinstance(y, Word) else _leading_half_of(y, format_of(x))
    yl = y - yh
    product = x * y
    return product, (((xh * yh - product) + xh * yl) + xl * yh) + xl * yl


def _leading_half_of(number: float, fmt: Format) -> float:
    """A constant with the lower half of its bits cleared."""
    mantissa, exponent = math.frexp(number)
    kept = fmt.fraction + 1 - (-fmt.half_mask).bit_length() + 1
    return math.ldexp(math.trunc(math.ldexp(mantissa, kept)), exponent - kept)


def quotient(high: Word | float, low: Word | None, divisor: Word, divisor_low: Word) -> tuple[Word, Word]:
    """(high + low) / (divisor + divisor_low) as a sum: its half-precision head, and the rest, good to some 2p bits.

    The head has half the bits, so its products with the halves of the divisor are exact and the remainder is too.
    """
    head = leading_half(high / divisor)
    divisor_head = leading_half(divisor)
    remainder = (high - head * divisor_head) - head * (divisor - divisor_head)
    correction = head * divisor_low
    remainder = remainder - correction if low is None else remainder + (low - correction)
    return head, remainder / divisor


def with_sign_of(value: Word, signed: Word) -> Word:
    """|value| with the sign of `signed`."""
    mask = format_of(value).sign_mask
    return ((value.bits() & ~mask) | (signed.bits() & mask)).as_float()


def power_of_two(fmt: Format, exponent: Word) -> Word:
    """2^exponent, for exponents of normal numbers."""
    return ((exponent + fmt.bias) << fmt.fraction).as_float()


def scaled(value: Word, exponent: Word) -> Word:
    """value · 2^exponent in two multiplications, the first of which is exact; overflows and rounds as IEEE says."""
    fmt = format_of(value)
    half = exponent >> 1
    return value * power_of_two(fmt, half) * power_of_two(fmt, exponent - half)


def nearest_integer(x: Word, factor: float) -> tuple[Word, Word]:
    """The integer next to x · factor, as a float and as an integer, for |x · factor| < 2^(fraction - 2).

    Adding 1.5 · 2^fraction leaves no fraction, and the integer in the lowest bits [Dekker 1971's trick].
    """
    fmt = format_of(x)
    shifted = x * factor + fmt.magic
    return shifted - fmt.magic, shifted.bits() - fmt.magic_bits


def float_of(integer: Word, fmt: Format) -> Word:
    """A small integer as a float, exactly."""
    return (integer + fmt.magic_bits).as_float() - fmt.magic


def select_any(w: Recorder, choices: tuple[tuple[Word, float], ...], otherwise: Word) -> Word:
    """`otherwise`, replaced by the number of every mask in turn that holds: the last one wins."""
    for mask, number in choices:
        otherwise = w.select(mask, w.constant(otherwise.kind, number), otherwise)
    return otherwise
