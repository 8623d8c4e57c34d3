"""NaN, infinities, zeros, thresholds, exact cases: what IEEE 754-2019 §9.2 and C's Annex F ask of each function."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from strict.exact import FORMATS
from strict.points import UNARY

from torchlean.ir.strict.functions import FUNCTIONS

INF, NAN = math.inf, math.nan

SPECIALS = {
    "exp": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (-1e4, 0.0), (1e4, INF)],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (-1e4, -1.0), (1e4, INF)],
    "log": [(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (-1e-40, NAN)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1.0, -INF), (INF, INF), (-1.5, NAN), (-INF, NAN)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (1e4, 1.0), (-1e4, -1.0)],
    "logistic": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (1e4, 1.0), (-1e4, 0.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (30.0, 1.0), (-30.0, -1.0)],
}


def same(got: float, want: float) -> bool:
    """Equal, the sign of zero included; NaN is NaN."""
    return (math.isnan(got) and math.isnan(want)) or (got == want and math.copysign(1, got) == math.copysign(1, want))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", UNARY)
def test_special_numbers(name: str, format: str) -> None:
    cases = [*SPECIALS[name], (NAN, NAN)]
    got = FUNCTIONS[name](np.array([x for x, _ in cases], FORMATS[format])).tolist()
    assert [x for (x, want), y in zip(cases, got, strict=True) if not same(y, want)] == []


@pytest.mark.parametrize("format", FORMATS)
def test_where_exp_leaves_the_format(format: str) -> None:
    """The last finite result and the first infinite one; the last that is not 0 and the first that is."""
    carrier = FORMATS[format]
    info = np.finfo(carrier)
    top = carrier.type(int(info.maxexp) * math.log(2))
    bottom = carrier.type((int(info.minexp) - int(info.nmant) - 1) * math.log(2))
    above = np.array([np.nextafter(top, 0), top, np.nextafter(top, carrier.type(INF))], carrier)
    below = np.array([np.nextafter(bottom, 0), bottom, np.nextafter(bottom, carrier.type(-INF))], carrier)
    exp = FUNCTIONS["exp"]
    finite = [math.log(float(info.max)) >= float(x) for x in above]  # log of the largest number is just below top
    assert np.isfinite(exp(above)).tolist() == finite
    assert set(finite) == {True, False}
    positive = [float(x) > (int(info.minexp) - int(info.nmant) - 1) * math.log(2) for x in below]
    assert (exp(below) > 0).tolist() == positive
    assert exp(below[:1])[0] == info.smallest_subnormal


@pytest.mark.parametrize("format", FORMATS)
def test_small_numbers_are_their_own_sine_and_so_on(format: str) -> None:
    info = np.finfo(FORMATS[format])
    x = np.array([info.smallest_subnormal, info.smallest_normal, 2.0 ** -(info.nmant + 10)], FORMATS[format])
    x = np.concatenate([x, -x])
    for name in ("sin", "tanh", "expm1", "log1p"):
        np.testing.assert_array_equal(FUNCTIONS[name](x), x)


def power(x: float, y: float) -> float:
    """C's pow, which Python turns into errors and complex numbers."""
    try:
        return math.pow(x, y)
    except ValueError:
        return NAN if x != 0 else (-INF if math.copysign(1, x) < 0 and y % 2 == 1 else INF)
    except OverflowError:
        return -INF if x < 0 and y % 2 == 1 else INF


@pytest.mark.parametrize("format", FORMATS)
def test_powers_of_special_numbers(format: str) -> None:
    whole = 2.0 ** np.finfo(FORMATS[format]).nmant
    numbers = [
        0.0,
        1.0,
        2.0,
        0.5,
        3.0,
        2.5,
        1.5,
        INF,
        whole - 1,
        whole,
        whole + 1,
        2 * whole,
        4 * whole,
        1e30,
        whole - 0.5,
    ]
    numbers = [*numbers, *[-x for x in numbers], NAN]
    tried = [tuple(float(v) for v in np.array(pair, FORMATS[format])) for pair in product(numbers, numbers)]
    x, y = (np.array(side, FORMATS[format]) for side in zip(*tried, strict=True))
    got = FUNCTIONS["pow"](x, y).tolist()
    with np.errstate(over="ignore", under="ignore"):
        want = [float(FORMATS[format].type(power(*pair))) for pair in tried]
    settled = [w == 0 or not math.isfinite(w) or abs(w) == 1 for w in want]
    wrong = [pair for pair, g, w, sure in zip(tried, got, want, settled, strict=True) if sure and not same(g, w)]
    assert wrong == []
    assert sum(settled) > 500


@pytest.mark.parametrize("format", FORMATS)
def test_powers_that_are_exact(format: str) -> None:
    """Small integer powers, and halves of squares, are what multiplication gives."""
    x = np.array([3.0, 7.0, 10.0, 12.0, 1.5, -3.0, -2.0, 2.0], FORMATS[format])
    for n in (1, 2, 3, 5):
        np.testing.assert_array_equal(FUNCTIONS["pow"](x, np.full_like(x, n)), [v**n for v in x.tolist()])
    squares = np.array([4.0, 9.0, 144.0, 2.25, 2.0**-100], FORMATS[format])
    np.testing.assert_array_equal(FUNCTIONS["pow"](squares, np.full_like(squares, 0.5)), np.sqrt(squares))
