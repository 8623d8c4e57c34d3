"""tanh and the logistic function: quotients of sums that are carried in two words, so that one rounding remains.

tanh x = m / (m + 2) with m = e^(2x) - 1 below 1, and 1 - 2 / (m + 2) beyond; logistic(-x) = 2^-k / (2^-k + e^r) for
x = k·ln 2 + r ≥ 0, which neither overflows nor cancels, and logistic(x) = 1 - logistic(-x). Near 1 only the small
quotient is rounded, so results rise with x. A quotient has a head of half the bits, whose remainder is exact
[Dekker 1971, §5].
"""

from __future__ import annotations

from types import MappingProxyType

from torchlean.ir.strict.exponential import CONSTANTS, expm1_parts, exponential
from torchlean.ir.strict.formats import (
    fast_two_sum,
    format_of,
    power_of_two,
    quotient,
    scaled,
    two_sum,
    with_sign_of,
)
from torchlean.ir.strict.words import Recorder, Word

_CERTAIN = MappingProxyType({"f32": 9.5, "f64": 20.0})  # tanh rounds to 1 from here on


def tanh(w: Recorder, x: Word) -> Word:
    """The hyperbolic tangent."""
    fmt = format_of(x)
    size = x.magnitude().at_most(_CERTAIN[x.kind])
    exponent, total, rest = expm1_parts(size + size)
    high, low = fast_two_sum(total, rest)
    factor = power_of_two(fmt, exponent)
    high, low = high * factor, low * factor
    two = w.constant(x.kind, 2.0)
    divisor, lost = two_sum(high, two)
    near_one = size >= 1.0
    dividend, dividend_low = w.select(near_one, two, high), w.select(near_one, w.constant(x.kind, 0.0), low)
    head, tail = quotient(dividend, dividend_low, divisor, lost + low)
    total, lost = fast_two_sum(1.0, -head)
    return with_sign_of(w.select(near_one, total + (lost - tail), head + tail), x)


def logistic(w: Recorder, x: Word) -> Word:
    """1 / (1 + e^-x)."""
    fmt, constants = format_of(x), CONSTANTS[x.kind]
    exponent, one, rest = exponential(x.magnitude().at_most(-constants.low))
    high, low = fast_two_sum(one, rest)
    opposite = power_of_two(fmt, -exponent.at_most(2 * fmt.fraction))  # nothing beside e^r from there on
    divisor, lost = two_sum(high, opposite)
    head, tail = quotient(1.0, None, divisor, lost + low)
    total, lost = fast_two_sum(1.0, -(head * opposite))
    return w.select(x < 0.0, scaled(head + tail, -exponent), total + (lost - tail * opposite))
