"""What holds between results: no step down where the function rises, and symmetries to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from strict.exact import FORMATS
from strict.points import every_exponent, inside, moderate, neighbours, random_words

from torchlean.ir.strict.functions import FUNCTIONS

Array = np.ndarray[Any, Any]
RISING = ("exp", "expm1", "log", "log1p", "tanh", "logistic", "erf")


def starts(name: str, carrier: np.dtype[Any]) -> Array:
    x = np.concatenate(
        [neighbours(carrier), every_exponent(carrier), moderate(carrier, 1500, seed=11), random_words(carrier, 500, 12)]
    )
    return inside(name, x)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", RISING)
def test_runs_of_adjacent_numbers_rise(name: str, format: str) -> None:
    """33 neighbours of each of some thousand numbers, and all of those in order."""
    carrier = FORMATS[format]
    x = np.abs(starts(name, carrier))
    integer = np.dtype(f"i{carrier.itemsize}")
    words = np.minimum(x.view(integer), np.array(np.finfo(carrier).max).view(integer) - integer.type(33))
    run = (words[:, None] + np.arange(33, dtype=integer)).view(carrier)
    for sign in (1, -1) if name not in ("log", "log1p") else (1,):
        made = FUNCTIONS[name](np.ascontiguousarray(sign * run))
        assert np.all(sign * made[:, 1:] >= sign * made[:, :-1])
    ordered = np.sort(starts(name, carrier))
    made = FUNCTIONS[name](ordered)
    assert np.all(made[1:] >= made[:-1])


@pytest.mark.parametrize(("name", "low", "high"), [("tanh", 5.75, 6.5), ("logistic", 11.5, 13.0), ("erf", 0.74, 1.01)])
def test_every_f32_rises_where_steps_are_far_below_an_ulp(name: str, low: float, high: float) -> None:
    """Near 1, and where erf changes its formula: a tanh of one formula fell 24 times in all f32, most of them here."""
    ends = np.array([low, high], np.float32).view(np.int32)
    made = FUNCTIONS[name](np.arange(*ends, dtype=np.int32).view(np.float32))
    assert np.all(made[1:] >= made[:-1])
    assert made[-1] > made[0]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["sin", "tanh", "erf"])
def test_odd_functions_are_odd(name: str, format: str) -> None:
    x = starts(name, FORMATS[format])
    assert FUNCTIONS[name](-x).tobytes() == (-FUNCTIONS[name](x)).tobytes()


@pytest.mark.parametrize("format", FORMATS)
def test_cosine_is_even(format: str) -> None:
    x = starts("cos", FORMATS[format])
    assert FUNCTIONS["cos"](-x).tobytes() == FUNCTIONS["cos"](x).tobytes()


@pytest.mark.parametrize("format", FORMATS)
def test_bounded_functions_stay_within_their_bounds(format: str) -> None:
    for name in ("sin", "cos", "tanh", "erf"):
        assert np.max(np.abs(FUNCTIONS[name](starts(name, FORMATS[format])))) <= 1
    made = FUNCTIONS["logistic"](starts("logistic", FORMATS[format]))
    assert 0 <= made.min() <= made.max() <= 1
