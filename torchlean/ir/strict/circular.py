"""sin and cos: reduction to a quarter turn, and a polynomial for either of the two functions there.

sin(r + t) = r + (r³·S(r²) + t) and cos(r + t) = 1 - r²/2 + (r⁴·C(r²) - r·t), to first order in t. S and C are fitted on
|r| ≤ π/4 · (1 + 2⁻⁸): Chebyshev nodes, 200 bits, coefficients rounded one by one. Errors: sin 2⁻²⁷·⁸ relative (f32,
degree 2) and 2⁻⁵⁷·⁹ (f64, degree 5); cos 2⁻³³ absolute (f32, degree 2) and 2⁻⁶⁴ (f64, degree 5).
"""

from __future__ import annotations

from types import MappingProxyType

from torchlean.ir.strict.formats import fast_two_sum, format_of, polynomial
from torchlean.ir.strict.reduction import quarter_turn
from torchlean.ir.strict.words import Recorder, Word
from torchlean.record import record


@record
class _Coefficients:
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


_COEFFICIENTS = MappingProxyType(
    {
        "f32": _Coefficients(
            sine=(-0.16666653752326965, 0.008332118391990662, -0.00019510336278472096),
            cosine=(0.04166664555668831, -0.0013887309469282627, 2.443225821480155e-05),
        ),
        "f64": _Coefficients(
            sine=(
                -0.1666666666666663,
                0.008333333333321851,
                -0.00019841269829363645,
                2.7557313537852015e-06,
                -2.5050733836929182e-08,
                1.589537454431313e-10,
            ),
            cosine=(
                0.041666666666666595,
                -0.001388888888887335,
                2.4801587288998894e-05,
                -2.7557314211808136e-07,
                2.0875703988147165e-09,
                -1.135863801479245e-11,
            ),
        ),
    }
)


def _sine(r: Word, t: Word, z: Word) -> Word:
    return r + (r * z * polynomial(z, _COEFFICIENTS[r.kind].sine) + t)


def _cosine(r: Word, t: Word, z: Word) -> Word:
    total, lost = fast_two_sum(1.0, -(z * 0.5))
    return total + (lost + (z * z * polynomial(z, _COEFFICIENTS[r.kind].cosine) - r * t))


def _of_turns(w: Recorder, turns: Word, r: Word, t: Word) -> Word:
    """sin(turns · π/2 + r + t)."""
    fmt = format_of(r)
    z = r * r
    odd = (turns & 1).same(1)
    value = w.select(odd, _cosine(r, t, z), _sine(r, t, z))
    return (value.bits() ^ ((turns & 2) << (fmt.width - 2))).as_float()


def sin(w: Recorder, x: Word) -> Word:
    """The sine of x radians."""
    turns, r, t = quarter_turn(w, x)
    value = _of_turns(w, turns, r, t)
    return w.select(x.same(0.0), x, value)


def cos(w: Recorder, x: Word) -> Word:
    """The cosine of x radians."""
    turns, r, t = quarter_turn(w, x.magnitude())
    return _of_turns(w, turns + 1, r, t)
