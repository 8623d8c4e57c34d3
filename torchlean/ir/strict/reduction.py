"""Reduction to a quarter turn: x = n · π/2 + r + t with |r| ≤ π/4 and t far below r, for every finite x.

Up to 6400 (f32) and 1.5 · 10⁶ (f64) by Cody and Waite's method with π/2 in four parts: n times the first three is
exact, the first two differences are too, and the third leaves its error [Cody & Waite 1980, §8; Muller, Elementary
Functions, §11]. Beyond, Payne and Hanek's [1983]: the 192 bits of 2/π that decide x · 2/π mod 4, times the 53 of x in
integers. f64 numbers come as near as 2⁻⁶¹ to a multiple of π/2, so r keeps some 64 bits.
"""

from __future__ import annotations

from types import MappingProxyType

from torchlean.ir.strict.formats import F64, fast_two_sum, format_of, nearest_integer, two_product
from torchlean.ir.strict.words import Recorder, Word
from torchlean.record import record


@record
class _Constants:
    limit: float
    two_over_pi: float
    parts: tuple[float, float, float, float]  # of π/2


CONSTANTS = MappingProxyType(
    {
        "f32": _Constants(
            limit=6400.0,
            two_over_pi=0.6366197466850281,
            parts=(1.5703125, 0.0004837512969970703, 7.549533620476723e-08, 2.5633440682570896e-12),
        ),
        "f64": _Constants(
            limit=1.5e6,
            two_over_pi=0.6366197723675814,
            parts=(1.5707963267341256, 6.077094383272197e-11, 6.12323399409214e-17, 1.6446256936324258e-26),
        ),
    }
)

# 2/π in words of 32 bits, two zero words in front.
TWO_OVER_PI = (
    0x00000000,
    0x00000000,
    0xA2F9836E,
    0x4E441529,
    0xFC2757D1,
    0xF534DDC0,
    0xDB629599,
    0x3C439041,
    0xFE5163AB,
    0xDEBBC561,
    0xB7246E3A,
    0x424DD2E0,
    0x06492EEA,
    0x09D1921C,
    0xFE1DEB1C,
    0xB129A73E,
    0xE88235F5,
    0x2EBB4484,
    0xE99C7026,
    0xB45F7E41,
    0x3991D639,
    0x835339F4,
    0x9C845F8B,
    0xBDF9283B,
    0x1FF897FF,
    0xDE05980F,
    0xEF2F118B,
    0x5A0A6D1F,
    0x6D367ECF,
    0x27CB09B7,
    0x4F463F66,
    0x9E5FEA2D,
    0x7527BAC7,
    0xEBE5F17B,
    0x3D0739F7,
    0x8A5292EA,
    0x6BFB5FB1,
    0x1F8D5D08,
    0x56033046,
)

_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_LOW = 0xFFFFFFFF


def quarter_turn(w: Recorder, x: Word) -> tuple[Word, Word, Word]:
    """n (an integer, right in its lowest two bits), r and t; NaN for infinities."""
    fmt = format_of(x)
    turns, r, t = _near(x)

    def far() -> tuple[Word, Word, Word]:
        if fmt is F64:
            return _far(w, x)
        many, high, low = _far(w, x.widen())
        narrow = high.narrow()
        return many.narrow(), narrow, ((high - narrow.widen()) + low).narrow()

    big = x.magnitude() > CONSTANTS[x.kind].limit
    turns, r, t = w.rarely(big, far, (turns, r, t))
    return turns, r, t


def _near(x: Word) -> tuple[Word, Word, Word]:
    constants = CONSTANTS[x.kind]
    first, second, third, fourth = constants.parts
    n, turns = nearest_integer(x, constants.two_over_pi)
    exact = (x - n * first) - n * second
    product = n * third
    r = exact - product
    lost = ((exact - r) - product) - n * fourth
    r, t = fast_two_sum(r, lost)
    return turns, r, t


def _far(w: Recorder, x: Word) -> tuple[Word, Word, Word]:
    bits = x.bits() & 0x7FFFFFFFFFFFFFFF
    exponent = bits >> 52
    mantissa = (bits & 0xFFFFFFFFFFFFF) | (1 << 52)
    # Bits of 2/π whose product with the mantissa is a multiple of 4 are skipped: those before `start`.
    start = (exponent - (1077 - 64)).at_least(0)  # where exponents are smaller, nobody asks
    index, shift = start >> 5, start & 31
    words = [w.lookup(TWO_OVER_PI, index + i) for i in range(7)]
    window = [(((words[i] << 32) | words[i + 1]) << shift).unsigned_shift(32) for i in range(6)]
    product = _product(mantissa, window)
    head = (product[0] << 32) | product[1]  # in units of 2^-62 quarter turns, mod 4
    quarter = (head + (1 << 61)).unsigned_shift(62)
    rest = head - (quarter << 62)
    turn, lost = fast_two_sum(_float(rest >> 32) * 2.0**-30, _unsigned(rest & _LOW) * 2.0**-62)
    turn, low = fast_two_sum(turn, lost + (_unsigned(product[2]) * 2.0**-94 + _unsigned(product[3]) * 2.0**-126))
    r, error = two_product(turn, _HALF_PI[0])
    r, t = fast_two_sum(r, error + (turn * _HALF_PI[1] + low * _HALF_PI[0]))
    negative = x.bits() >> 63  # all ones where x < 0
    sign = negative & F64.sign_mask
    finite = x - x  # NaN for infinities and NaN, else 0
    return (
        (quarter ^ negative) - negative,
        (r.bits() ^ sign).as_float() + finite,
        (t.bits() ^ sign).as_float(),
    )


def _product(mantissa: Word, window: list[Word]) -> list[Word]:
    """The lowest 192 bits of 53 bits times 192, in words of 32 bits, the first of greatest weight."""
    low, high = mantissa & _LOW, mantissa >> 32
    sums: list[Word] = []
    carry: Word | None = None
    for word in reversed(window):
        term = low * word if carry is None else low * word + carry
        sums.append(term & _LOW)
        carry = term.unsigned_shift(32)
    sums.reverse()
    carry = None
    for place in range(5, 0, -1):
        term = high * window[place] + sums[place - 1]
        if carry is not None:
            term = term + carry
        sums[place - 1] = term & _LOW
        carry = term.unsigned_shift(32)
    return sums


def _unsigned(word: Word) -> Word:
    """32 bits as a float, exactly."""
    return (word | 0x4330000000000000).as_float() - 2.0**52


def _float(word: Word) -> Word:
    """A small signed integer as a float, exactly."""
    return (word + F64.magic_bits).as_float() - F64.magic
