"""The emitted C has the bits of the NumPy code, at every vector width the machine has."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from strict.compiled import call, library, needs_compiler
from strict.exact import FORMATS
from strict.points import BOUNDS, every_exponent, moderate, neighbours, pairs, random_words

from torchlean.ir.strict.functions import FUNCTIONS, emit_c

pytestmark = needs_compiler

Array = np.ndarray[Any, Any]
NAMES = tuple(BOUNDS)
WIDTHS = {
    "baseline": (),
    "avx2": ("-mavx2", "-mfma"),
    "avx512": ("-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl", "-mfma"),
}


def supported(width: str) -> bool:
    if width == "baseline":
        return True
    if platform.machine() != "x86_64":
        return False
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
    return all(flag.removeprefix("-m") in flags for flag in WIDTHS[width])


@pytest.fixture(scope="module", params=list(WIDTHS))
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if not supported(request.param):
        pytest.skip(f"this machine's processor has no {request.param}")
    return library(tmp_path_factory.mktemp(request.param), NAMES, *WIDTHS[request.param])


def operands(name: str, carrier: np.dtype[Any]) -> tuple[Array, ...]:
    x = np.concatenate(
        [
            neighbours(carrier, 8),
            every_exponent(carrier),
            moderate(carrier, 3000, seed=21),
            random_words(carrier, 20000, seed=22),
            np.array([0.0, -0.0, np.inf, -np.inf, np.nan], carrier),
        ]
    )
    if name != "pow":
        return (x,)
    base, exponent = pairs(carrier, 3000, seed=23)
    other = np.random.default_rng(24).permutation(x)
    return np.concatenate([base, x]), np.concatenate([exponent, other])


def same_bits(one: Array, other: Array) -> Array:
    """Entries with the same bits; NaN is NaN, whatever its payload."""
    integer = f"u{one.dtype.itemsize}"
    return (one.view(integer) == other.view(integer)) | (np.isnan(one) & np.isnan(other))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_c_and_numpy_have_the_same_bits(held: ctypes.CDLL, name: str, format: str) -> None:
    xs = operands(name, FORMATS[format])
    got, want = call(held, name, *xs), FUNCTIONS[name](*xs)
    wrong = ~same_bits(got, want)
    assert not wrong.any(), [x[wrong][:3] for x in (*xs, got, want)]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_where_nothing_is_rare_the_common_part_is_the_function(held: ctypes.CDLL, name: str, format: str) -> None:
    (x,) = operands(name, FORMATS[format])
    rare = call(held, name, x, suffix="_is_rare") != 0
    assert 0 < rare.sum() < x.size
    assert same_bits(call(held, name, x[~rare], suffix="_common"), FUNCTIONS[name](x[~rare])).all()


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_the_text_has_no_call_no_branch_and_no_library_function(name: str, format: str) -> None:
    text = emit_c(name, format)
    assert f"tl_{name}_{format}(" in text
    for word in ("if (", "for (", "while (", "fma(", "goto", "exp(", "log(", "math.h"):
        assert word not in text.replace(f"tl_{name}_{format}(", "")
    assert "static inline" in text
