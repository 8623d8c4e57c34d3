"""Special functions against SciPy (installed with JAX), and the identities that define them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from torchlean.ir import gamma, special

scipy_special = pytest.importorskip("scipy.special")

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float64).eps)


def assert_close(got: Array, want: Array, ulps: Any) -> None:
    """Within some units in the last place; NaN and infinities where they belong."""
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= ulps * EPS * np.abs(want)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    assert np.all(near | same), (got[~(near | same)][:5], want[~(near | same)][:5])


SPREAD = np.concatenate([np.linspace(-30, 30, 4001), np.logspace(-300, 300, 601), -np.logspace(-300, 2, 301)])


def test_erfc_does_not_cancel() -> None:
    ordinary = SPREAD[SPREAD < 26]  # beyond, the result is subnormal
    assert_close(special.erfc(ordinary), scipy_special.erfc(ordinary), 8 + np.clip(ordinary, 0, None) ** 2)  # of e^-x²
    assert special.erfc(np.array(10.0)) > 0


def test_erf_inv_undoes_erf_in_the_tails_too() -> None:
    x = np.concatenate([np.linspace(-1, 1, 4001), 1 - np.logspace(-16, -1, 200), np.logspace(-300, -1, 200)])
    with np.errstate(all="ignore"):
        assert_close(special.erf_inv(x), scipy_special.erfinv(x), 16)
        ends = special.erf_inv(np.array([1.0, -1.0, 1.5, -2.0, np.nan, 0.0, -0.0]))
    np.testing.assert_array_equal(ends, [np.inf, -np.inf, np.nan, np.nan, np.nan, 0.0, -0.0])
    assert math.copysign(1, ends[-1]) == -1


def test_lgamma_at_poles_and_far_away() -> None:
    ordinary = SPREAD[(np.abs(SPREAD) < 1e305) & (np.round(SPREAD) != SPREAD)]
    want = scipy_special.gammaln(ordinary)
    far = np.abs(want) > 0.1  # near its zeros only an absolute error is small
    assert_close(gamma.lgamma(ordinary)[far], want[far], 64)
    ends = gamma.lgamma(np.array([0.0, -0.0, -1.0, -7.0, np.inf, -np.inf, np.nan]))
    np.testing.assert_array_equal(ends, [np.inf] * 6 + [np.nan])


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma_above_zero(n: int) -> None:
    x = np.concatenate([np.linspace(0.01, 40, 3000), np.logspace(-3, 5, 200)])
    want = scipy_special.digamma(x) if n == 0 else scipy_special.polygamma(n, x)
    far = np.abs(want) > 0.1 if n == 0 else np.ones(x.shape, bool)
    assert_close(gamma.polygamma(n, x)[far], want[far], 256)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_polygamma_below_zero_obeys_its_recurrence(n: int) -> None:
    """ψ⁽ⁿ⁾(x + 1) = ψ⁽ⁿ⁾(x) + (-1)ⁿ n!/xⁿ⁺¹ across the reflection, away from poles."""
    x = -np.arange(1, 12)[:, None] - np.linspace(0.2, 0.8, 7)
    left = gamma.polygamma(n, x + 1)
    right = gamma.polygamma(n, x) + (-1) ** n * math.factorial(n) / x ** (n + 1)
    np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-12)


def test_dtypes_and_shapes_are_kept() -> None:
    for function in (special.erfc, special.erf_inv, gamma.lgamma, gamma.digamma):
        for dtype in (np.float16, np.float32, np.float64):
            for shape in ((), (0, 3), (2, 1)):
                made = function(np.full(shape, 0.5, dtype))
                assert (made.shape, made.dtype) == (shape, dtype)
