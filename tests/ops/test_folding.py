"""The functions users call for folds, sorting, run-time positions, rounding, bits and transforms, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from torchlean.errors import TypeRuleError
from torchlean.ir import ops
from torchlean.ir.ops.rounding import Halves
from torchlean.runtime.array import array
from torchlean.transforms.api import grad

Array = np.ndarray[Any, Any]


def host(x: Any) -> Array:
    return np.asarray(x)


X = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)


def test_folds_take_negative_axes_and_keep_dims() -> None:
    np.testing.assert_allclose(host(ops.prod(array(X), -1, keepdims=True)), X.prod(-1, keepdims=True), rtol=1e-6)
    flags = X > 0
    np.testing.assert_array_equal(host(ops.all(array(flags), 0)), flags.all(0))
    np.testing.assert_array_equal(host(ops.any(array(flags), (0, 1))), flags.any())
    bits = np.random.default_rng(1).integers(0, 99, (3, 5))
    for ours, theirs in (
        (ops.reduce_and, np.bitwise_and),
        (ops.reduce_or, np.bitwise_or),
        (ops.reduce_xor, np.bitwise_xor),
    ):
        np.testing.assert_array_equal(host(ours(array(bits), 1)), theirs.reduce(bits, 1))


def test_running_folds() -> None:
    for ours, theirs in ((ops.cumsum, np.cumsum), (ops.cumprod, np.cumprod)):
        np.testing.assert_array_equal(host(ours(array(X), -1)), theirs(X, -1))
        turned = theirs(X[:, ::-1], -1)[:, ::-1]
        np.testing.assert_array_equal(host(ours(array(X), -1, reverse=True)), turned)
    np.testing.assert_array_equal(host(ops.cumsum(array(np.arange(4)), exclusive=True)), [0, 0, 1, 3])
    np.testing.assert_array_equal(host(ops.cumprod(array(np.arange(1, 5)), exclusive=True)), [1, 1, 2, 6])
    np.testing.assert_array_equal(host(ops.cummax(array(X), 1)), np.maximum.accumulate(X, 1))
    np.testing.assert_allclose(host(ops.cumlogsumexp(array(X), 1)), np.logaddexp.accumulate(X, 1), rtol=1e-6)
    h = host(ops.recurrence(array(np.array([9.0, 0.5, 2.0])), array(np.array([1.0, 1.0, 1.0]))))
    np.testing.assert_array_equal(h, [1.0, 1.5, 4.0])


@pytest.mark.parametrize("x", [[2.0, 0.0, 3.0, 4.0], [0.0, 2.0, 3.0], [2.0, 0.0, 0.0, 3.0]], ids=str)
def test_the_gradient_of_running_products_is_right_at_zeros(x: list[float]) -> None:
    """Against the definition: ∂/∂xᵢ Σₖ Πⱼ≤ₖ xⱼ = Σₖ≥ᵢ of the product without the i-th factor."""
    values = np.array(x)
    want = [sum(np.prod(np.delete(values[: k + 1], i)) for k in range(i, len(x))) for i in range(len(x))]
    made = grad(lambda v: ops.sum(ops.cumprod(v)))(array(values))
    np.testing.assert_array_equal(host(made), want)


def test_sorting() -> None:
    keys = np.array([2.0, np.nan, -1.0, 2.0, -0.0, 0.0])
    np.testing.assert_array_equal(host(ops.sort(array(keys))), np.sort(keys))
    np.testing.assert_array_equal(host(ops.argsort(array(keys))), np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(host(ops.argsort(array(keys), descending=True)), [1, 0, 3, 4, 5, 2])
    values, positions = ops.top_k(array(X), 2, axis=1)
    order = np.argsort(-X, 1)[:, :2]
    np.testing.assert_array_equal(host(positions), order)
    np.testing.assert_array_equal(host(values), np.take_along_axis(X, order, 1))
    first, second = np.array([1, 0, 1, 0]), np.array([3.0, 2.0, 1.0, 4.0])
    a, b = ops.sort(array(first), array(second), num_keys=2)
    np.testing.assert_array_equal(host(a), [0, 0, 1, 1])
    np.testing.assert_array_equal(host(b), [2.0, 4.0, 1.0, 3.0])
    with pytest.raises(TypeRuleError, match="the slice of axis 1 is out of range"):
        ops.top_k(array(X), 6, axis=1)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_agrees_with_numpy(side: str) -> None:
    entries = np.array([-1.0, 0.0, 0.0, 2.0, np.nan])
    values = np.array([[-5.0, -1.0, 0.0], [1.0, np.nan, 9.0]])
    want = np.searchsorted(entries, values, side=side)
    np.testing.assert_array_equal(host(ops.searchsorted(array(entries), array(values), side=side)), want)


def test_windows_at_run_time_positions() -> None:
    x = array(np.arange(15).reshape(3, 5))
    np.testing.assert_array_equal(host(ops.dynamic_slice(x, (1, 2), (2, 2))), [[7, 8], [12, 13]])
    np.testing.assert_array_equal(host(ops.dynamic_slice(x, (9, -4), (1, 2))), [[10, 11]])
    made = ops.dynamic_update_slice(x, array(np.zeros((1, 2), np.int64)), (0, 4))
    np.testing.assert_array_equal(host(made)[0], [0, 1, 2, 0, 0])


def test_scatters() -> None:
    x = array(np.ones(4, np.float32))
    where, new = np.array([1, 1, 3]), np.array([5.0, 7.0, 0.5], np.float32)
    np.testing.assert_array_equal(host(ops.scatter(x, where, new)), [1, 7, 1, 0.5])
    np.testing.assert_array_equal(host(ops.scatter_mul(x, where, new)), [1, 35, 1, 0.5])
    np.testing.assert_array_equal(host(ops.scatter_max(x, where, new)), [1, 7, 1, 1])
    np.testing.assert_array_equal(host(ops.scatter_min(x, where, new)), [1, 1, 1, 0.5])


def test_a_losing_update_receives_no_cotangent() -> None:
    made = grad(lambda u: ops.sum(ops.scatter(array(np.zeros(4)), np.array([1, 1, 3]), u) * np.arange(4.0)))(
        array(np.array([5.0, 7.0, 0.5]))
    )
    np.testing.assert_array_equal(host(made), [0.0, 1.0, 3.0])


def test_rounding_and_remainders() -> None:
    halves = array(np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5]))
    np.testing.assert_array_equal(host(ops.round(halves)), [-2, -2, -0.0, 0, 2, 2])
    np.testing.assert_array_equal(host(ops.round(halves, halves=Halves.AWAY)), [-3, -2, -1, 1, 2, 3])
    seven, three = array(np.array([7, -7, 7, -7])), array(np.array([3, 3, -3, -3]))
    np.testing.assert_array_equal(host(ops.rem(seven, three)), [1, -1, 1, -1])
    np.testing.assert_array_equal(host(ops.remainder(seven, three)), [7 % 3, -7 % 3, 7 % -3, -7 % -3])
    np.testing.assert_array_equal(host(ops.floor_divide(seven, three)), [7 // 3, -7 // 3, 7 // -3, -7 // -3])
    np.testing.assert_array_equal(host(ops.floor_divide(seven, 0)), [0, 0, 0, 0])


def test_bits() -> None:
    x = array(np.array([-8, 8], np.int32))
    np.testing.assert_array_equal(host(ops.shift_right(x, 1)), [-4, 4])
    np.testing.assert_array_equal(host(ops.shift_right_logical(x, 1)), [2**31 - 4, 4])
    np.testing.assert_array_equal(
        host(ops.shift_right(array(np.array([200], np.uint8)), np.array([3], np.uint8))), [25]
    )
    np.testing.assert_array_equal(host(ops.population_count(x)), [29, 1])
    np.testing.assert_array_equal(host(ops.clz(x)), [0, 28])
    np.testing.assert_array_equal(host(ops.bitcast_convert(array(np.float32(1.0)), "u32")), 0x3F800000)
    np.testing.assert_array_equal(host(ops.bitcast_convert(array(np.uint32(0x04030201)), "u8")), [1, 2, 3, 4])
    np.testing.assert_array_equal(host(ops.reduce_precision(array(np.float32(1 + 2**-8 + 2**-20)), 8, 7)), 1 + 2**-7)


def test_transforms_over_axes() -> None:
    z = X + 1j * X[::-1]
    np.testing.assert_allclose(host(ops.fftn(array(z))), np.fft.fftn(z), atol=1e-5)
    np.testing.assert_allclose(host(ops.ifftn(array(z), 0)), np.fft.ifft(z, axis=0), atol=1e-5)
    np.testing.assert_allclose(host(ops.rfftn(array(X))), np.fft.rfftn(X), atol=1e-5)
    np.testing.assert_allclose(host(ops.rfftn(array(X), (1, 0))), np.fft.rfftn(X, axes=(1, 0)), atol=1e-5)
    half = np.fft.rfftn(X)
    np.testing.assert_allclose(host(ops.irfftn(array(half), 5)), X, atol=1e-5)
    with pytest.raises(TypeRuleError, match="3 entries are not the half of 7"):
        ops.irfftn(array(half), 7)


def test_the_absolute_value_of_a_complex_number_is_real() -> None:
    z = np.array([3 + 4j, 0j, 1e300 + 1e300j])
    np.testing.assert_allclose(host(abs(array(z))), np.abs(z))
