"""erf: an odd polynomial up to ¾, and 1 - e^(-L(x)) beyond, L(x) = -log(1 - erf x) written L(1) + t·Q(t), t = x - 1.

x + x·R(x²) on [0, ¾] with R fitted to erf(√z)/√z - 1: error 2⁻²⁹ (f32, degree 5) and 2⁻⁵⁶ (f64, degree 10), relative.
Q on [-¼, 3] (f32, degree 6) and [-¼, 5] (f64, degree 18), weighted with |t| · (1 - erf), so the result errs by 2⁻³⁰·⁷
and 2⁻⁶⁰·⁴. L(1) is held in two words and the error of the sum goes into the exponential. Chebyshev nodes, 200 bits,
coefficients rounded one by one. That an exponential of a polynomial serves so well beyond 1 is an observation of
N. Juffa's; series and asymptotics are in Abramowitz & Stegun, §7.1.
"""

from __future__ import annotations

from types import MappingProxyType

from torchlean.ir.strict.exponential import exponential
from torchlean.ir.strict.formats import fast_two_sum, format_of, polynomial, power_of_two, with_sign_of
from torchlean.ir.strict.words import Recorder, Word
from torchlean.record import record


@record
class _Constants:
    certain: float  # erf rounds to 1 from here on
    small: tuple[float, ...]
    log_high: float  # of L(1)
    log_low: float
    large: tuple[float, ...]


_SPLIT = 0.75
_CONSTANTS = MappingProxyType(
    {
        "f32": _Constants(
            certain=4.0,
            small=(
                0.12837916612625122,
                -0.376126229763031,
                0.11283428221940994,
                -0.02683696523308754,
                0.005118804518133402,
                -0.0006779764662496746,
            ),
            log_high=1.8496055603027344,
            log_low=-5.03694863596138e-08,
            large=(
                2.638967514038086,
                0.8431071639060974,
                0.041560202836990356,
                -0.010031231679022312,
                0.0019866465590894222,
                -0.0002721586206462234,
                1.753330070641823e-05,
            ),
        ),
        "f64": _Constants(
            certain=6.0,
            small=(
                0.1283791670955126,
                -0.3761263890318389,
                0.11283791670959394,
                -0.026866170645630866,
                0.005223977627094013,
                -0.0008548326869457295,
                0.00012055314433198944,
                -1.4924769655419248e-05,
                1.643878759640448e-06,
                -1.600415393887972e-07,
                1.1689687745599457e-08,
            ),
            log_high=1.8496055099332482,
            log_low=1.1145214635639343e-17,
            large=(
                2.6389675142347913,
                0.8431072563584846,
                0.0415610980465204,
                -0.01003382543422741,
                0.001977903021195601,
                -0.0002373247100044227,
                -2.6270367725738417e-05,
                2.714112184054363e-05,
                -9.57742402185695e-06,
                2.0188500357662577e-06,
                -1.0291473507098751e-07,
                -1.2699338076590938e-07,
                6.838635338349463e-08,
                -2.169183572385728e-08,
                4.927489794804515e-09,
                -8.145547602435264e-10,
                9.363700189462952e-11,
                -6.697145692076146e-12,
                2.2395969253763382e-13,
            ),
        ),
    }
)


def erf(w: Recorder, x: Word) -> Word:
    """The error function."""
    fmt, constants = format_of(x), _CONSTANTS[x.kind]
    size = x.magnitude().at_most(constants.certain)
    small = size + size * polynomial(size * size, constants.small)
    t = size - 1.0
    high, low = fast_two_sum(constants.log_high, t * polynomial(t, constants.large))
    exponent, one, rest = exponential(-high)
    rest = rest - (low + constants.log_low)  # to first order: e^r is within a half of 1
    factor = power_of_two(fmt, exponent)
    total, lost = fast_two_sum(1.0, -(one * factor))
    large = total + (lost - rest * factor)
    return with_sign_of(w.select(size < _SPLIT, small, large), x)
