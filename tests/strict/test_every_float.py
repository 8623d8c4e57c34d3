"""All 2³² float32 through each function of one operand: the bound, and no step down where the function rises.

The oracle is NumPy in float64, some 2⁻²⁹ ulp of float32 away from exact. The C is run where there is a compiler,
the NumPy code elsewhere; `test_c` shows that they are one function. Minutes a function: `pytest -m slow tests/strict`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from strict.compiled import COMPILER, call, library
from strict.points import BOUNDS, UNARY
from strict.test_monotone import RISING

from torchlean.ir.strict.functions import FUNCTIONS

Array = np.ndarray[Any, Any]
STEP = 2**22
INFINITY = 0x7F800000


def logistic(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(np.float64)


ORACLES: MappingProxyType[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "exp": np.exp,
        "expm1": np.expm1,
        "log": np.log,
        "log1p": np.log1p,
        "sin": np.sin,
        "cos": np.cos,
        "tanh": np.tanh,
        "logistic": logistic,
        "erf": erf,
    }
)


def errors(got: Array, want: Array) -> Array:
    """In ulp of float32 at the exact value; ∞ where one of two is NaN or an infinity is missing or too much."""
    overflows = np.abs(want) >= 2.0**128 * (1 - 2.0**-25)
    number = np.where(np.isinf(got), np.copysign(2.0**128, got), got.astype(np.float64))
    spacing = np.ldexp(1.0, np.maximum(np.frexp(want)[1] - 24, -149))
    found = np.where(
        overflows, np.where(np.isinf(got) & (got * want > 0), 0.0, np.inf), np.abs(number - want) / spacing
    )
    found = np.where(np.isnan(want), np.where(np.isnan(got), 0.0, np.inf), found)
    return np.where(np.isnan(found), np.inf, found)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", UNARY)
def test_every_float32(name: str, tmp_path: Path) -> None:
    if COMPILER is None:
        function: Callable[[Array], Array] = FUNCTIONS[name]
    else:
        held = library(tmp_path, (name,), "-march=native")

        def function(x: Array) -> Array:
            return call(held, name, x)

    worst, where, tried = 0.0, 0, 0
    for sign in (0, 1 << 31):
        last = -math.inf
        for low in range(0, INFINITY + 1, STEP):
            words = np.arange(low, min(low + STEP, INFINITY + 1), dtype=np.int64)
            x = (words | sign).astype(np.uint32).view(np.float32)
            got = function(x)
            with np.errstate(all="ignore"):
                found = errors(got, ORACLES[name](x.astype(np.float64)))
                if name in RISING and not (sign and name in ("log", "log1p")):
                    rising = np.concatenate([[last], got if not sign else -got])
                    assert np.all(rising[1:] >= rising[:-1]), x[np.argmax(rising[1:] < rising[:-1])].item().hex()
                    last = float(rising[-1])
            tried += x.size
            top = int(np.argmax(found))
            if found[top] > worst:
                worst, where = float(found[top]), int(words[top] | sign)
    print(f"{name}: {worst:.4f} ulp at {where:#010x}, {tried} numbers")
    assert tried == 2 * (INFINITY + 1)
    assert 0.5 <= worst <= BOUNDS[name], hex(where)
