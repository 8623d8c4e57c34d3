"""The strict functions against decimal arithmetic, and against ball arithmetic where it is installed."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from strict.exact import FORMATS, exact, ulps
from strict.points import BOUNDS, UNARY, every_exponent, inside, moderate, neighbours, pairs, random_words

from torchlean.ir.strict.functions import FUNCTIONS

Array = np.ndarray[Any, Any]
CASES = [(name, format) for name in UNARY for format in FORMATS]


def worst(name: str, xs: tuple[Array, ...]) -> tuple[float, tuple[float, ...]]:
    got = FUNCTIONS[name](*xs)
    found = [(ulps(y, exact(name, *at)), at) for y, *at in zip(got, *[x.tolist() for x in xs], strict=True)]
    return max(found, key=lambda pair: pair[0], default=(0.0, []))


@pytest.mark.parametrize(("name", "format"), CASES)
def test_every_exponent_and_every_special_place(name: str, format: str) -> None:
    carrier = FORMATS[format]
    thin = every_exponent(carrier)[:: 6 if format == "f64" else 1]
    x = inside(name, np.concatenate([thin, neighbours(carrier)]))
    error, at = worst(name, (x,))
    assert error <= BOUNDS[name], (name, format, [v.hex() for v in at])


@pytest.mark.parametrize(("name", "format"), CASES)
def test_random_numbers(name: str, format: str) -> None:
    carrier = FORMATS[format]
    x = inside(name, np.concatenate([moderate(carrier, 100, seed=1), random_words(carrier, 60, seed=2)]))
    error, at = worst(name, (x,))
    assert error <= BOUNDS[name], (name, format, [v.hex() for v in at])


@pytest.mark.parametrize("format", FORMATS)
def test_powers(format: str) -> None:
    error, at = worst("pow", pairs(FORMATS[format], 120, seed=3))
    assert error <= BOUNDS["pow"], [v.hex() for v in at]


@pytest.mark.parametrize("name", UNARY)
def test_many_f32_against_f64(name: str) -> None:
    """What the Python interpreter's own functions give in f64 is some 2⁻²⁹ ulp of f32 away from exact."""
    x = inside(
        name, np.concatenate([moderate(FORMATS["f32"], 20000, seed=4), random_words(FORMATS["f32"], 20000, seed=5)])
    )
    reference = {
        "logistic": lambda v: 1 / (1 + math.exp(-v)) if v > -700 else 0.0,
        "exp": lambda v: math.exp(v) if v < 700 else math.inf,
        "expm1": lambda v: math.expm1(v) if v < 700 else math.inf,
    }.get(name) or getattr(math, name)
    want = np.array([reference(v) for v in x.tolist()])
    got = FUNCTIONS[name](x).astype(np.float64)
    limit = 2.0**128 * (1 - 2.0**-25)
    beyond = np.abs(want) >= limit
    assert np.all(np.isinf(got[beyond]))
    got, want, x = got[~beyond], want[~beyond], x[~beyond]
    spacing = np.ldexp(1.0, np.maximum(np.frexp(want)[1] - 24, -149))
    error = np.abs(np.where(np.isinf(got), np.copysign(2.0**128, got), got) - want) / spacing
    assert error.max() <= BOUNDS[name], x[np.argmax(error)].item().hex()


@pytest.mark.skipif(find_spec("flint") is None, reason="python-flint (the extra `arb`) is not installed")
@pytest.mark.parametrize("name", BOUNDS)
def test_many_f64_against_balls(name: str) -> None:
    import flint

    functions: dict[str, Any] = {"logistic": lambda x: 1 / (1 + (-x).exp()), "pow": lambda x, y: x**y}
    function = functions.get(name) or (lambda x: getattr(x, name)())
    carrier = FORMATS["f64"]
    if name == "pow":
        xs = pairs(carrier, 2000, seed=6)
    else:
        x = inside(name, np.concatenate([moderate(carrier, 2000, seed=6), random_words(carrier, 2000, seed=7)]))
        xs = (x if name in ("log", "log1p", "sin", "cos") else x[np.abs(x) < 1e5],)  # balls give up on e^(10^200)
    got = FUNCTIONS[name](*xs)
    largest = 0.0
    before, flint.ctx.prec = flint.ctx.prec, 300
    try:
        for y, *at in zip(got.tolist(), *[x.tolist() for x in xs], strict=True):
            want = function(*[flint.arb(v) for v in at])
            size = abs(float(want))
            if not math.isfinite(y) or not math.isfinite(size):
                assert size > 1.797693e308
                continue
            exponent = max(math.frexp(size)[1] - 53, -1074) if size else -1074
            error = float(abs(flint.arb(y) - want) * flint.arb(2) ** -exponent)
            assert error <= BOUNDS[name], (name, [v.hex() for v in at])
            largest = max(largest, error)
    finally:
        flint.ctx.prec = before
    assert largest > 0.4  # something was compared
