"""pow: e^(y · log x), the logarithm carried in as many bits as the exponent of the result can cost.

f32: logarithm, product and exponential in f64, rounded once at the end: nothing in f32 reaches the bound.
f64: log x = k·ln 2 + s·(2 + z·(2/3 + z·P(z))), s = f / (2 + f), z = s², in sums of two words (Dekker's arithmetic):
some 68 bits. P is fitted to artanh's series with weight z²: error 2⁻⁷² (degree 7, Chebyshev nodes, 200 bits).
Special cases are those of IEEE 754-2019, §9.2.1, and of C's Annex F.
"""

from __future__ import annotations

from torchlean.ir.strict.exponential import CONSTANTS as EXPONENTIAL
from torchlean.ir.strict.exponential import exponential
from torchlean.ir.strict.formats import (
    F64,
    fast_two_sum,
    float_of,
    format_of,
    polynomial,
    quotient,
    scaled,
    select_any,
    two_product,
    two_sum,
)
from torchlean.ir.strict.logarithm import normal, split
from torchlean.ir.strict.words import Recorder, Word

_LN2 = (0.6931471805592082, 7.371002565167799e-13)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_COEFFICIENTS = (
    0.39999999999999974,
    0.28571428571446694,
    0.22222222217211107,
    0.18181818905007371,
    0.1538455477217666,
    0.13336390141015575,
    0.11673472634472509,
    0.11999334142506497,
)
_BEYOND = 2.0**65  # |y · log x| is over 4000 for such y, unless x is 1


def _log(w: Recorder, x: Word) -> tuple[Word, Word]:
    """log x in two words, for 0 < x < ∞ in f64."""
    lifted, shift = normal(w, x)
    exponent, f = split(lifted)
    k = float_of(exponent - shift, F64)
    divisor, lost = two_sum(f, w.constant("f64", 2.0))
    sh, sl = fast_two_sum(*quotient(f, None, divisor, lost))
    z, zl = two_product(sh, sh)
    zl = zl + 2.0 * sh * sl
    # t = z · (2/3 + z·P), u = s · (2 + t)
    inner, il = fast_two_sum(w.constant("f64", _TWO_THIRDS[0]), z * polynomial(z, _COEFFICIENTS))
    t, tl = two_product(z, inner)
    tl = tl + (z * (il + _TWO_THIRDS[1]) + zl * inner)
    factor, fl = fast_two_sum(w.constant("f64", 2.0), t)
    u, ul = two_product(sh, factor)
    ul = ul + (sh * (fl + tl) + sl * factor)
    total, rest = fast_two_sum(k * _LN2[0], u)
    return fast_two_sum(total, rest + (ul + k * _LN2[1]))


def _magnitude(w: Recorder, x: Word, y: Word) -> Word:
    """x to the power y for 0 < x < ∞ and |y| below `_BEYOND`, both in f64, before the last rounding of f64."""
    bounds = EXPONENTIAL["f64"]
    high, low = _log(w, x)
    product, error = two_product(y, high)
    product, tail = fast_two_sum(product, error + y * low)
    inside = product.at_most(bounds.high).at_least(bounds.low)
    tail = w.select(inside.same(product), tail, w.constant("f64", 0.0))
    exponent, one, rest = exponential(inside, tail)
    return scaled(one + rest, exponent)


def pow(w: Recorder, x: Word, y: Word) -> Word:
    """x to the power y."""
    fmt = format_of(x)
    size, steps = x.magnitude(), y.magnitude()
    limited = y.at_most(_BEYOND).at_least(-_BEYOND)
    value = _magnitude(w, size, limited) if fmt is F64 else _magnitude(w, size.widen(), limited.widen()).narrow()
    infinity = float("inf")
    # Extreme operands: 0 or ∞, as the exponent's sign and the base's size say.
    extreme = size.same(0.0) | size.same(infinity) | steps.same(infinity)
    grows = (size > 1.0) ^ (y < 0.0)
    value = select_any(w, ((extreme, 0.0), (extreme & grows, infinity)), value)
    # Negative bases: the sign for odd exponents, NaN for those that are no integers.
    whole = 2.0**fmt.fraction
    half = steps * 0.5
    even = (steps >= 2.0 * whole) | ((half + whole) - whole).same(half)
    integer = even | (steps >= whole) | ((steps + whole) - whole).same(steps)
    negative = x.bits() < 0
    value = w.select(negative & integer & even.opposite(), -value, value)
    undefined = negative & integer.opposite() & (size > 0.0) & (size < infinity)
    value = select_any(w, ((undefined, float("nan")),), value)
    value = w.select(x.same(x) & y.same(y), value, x + y)
    one = x.same(1.0) | y.same(0.0) | (size.same(1.0) & steps.same(infinity))
    return select_any(w, ((one, 1.0),), value)
