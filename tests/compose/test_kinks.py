"""Derivatives where there is none: the conventions at kinks, ties, bounds and cuts, in both modes and under vmap.

relu′(0) = 0, abs′(0) = 0, sign′ = 0; ties of max, min, clamp and reductions share the derivative evenly; max-pool's
first largest entry takes all. `tests/edge` has the cases people reported, and every op at its poles and kinks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import ops

HALF, ONE = 0.5, 1.0


def slopes(f: Callable[..., Any], *xs: Any) -> list[np.ndarray[Any, Any]]:
    """∂Σf/∂x for each argument, by reverse mode; forward mode and vmap must give the same bits."""
    arguments = [np.asarray(x, dtype=np.float64) for x in xs]
    every = tuple(range(len(arguments)))
    reverse = [np.asarray(g) for g in tl.grad(lambda *xs: ops.sum(f(*xs)), argnums=every)(*arguments)]
    for at, x in enumerate(arguments):
        basis = np.eye(max(x.size, 1)).reshape((max(x.size, 1), *x.shape))

        def pushed(v: Any, at: int = at) -> Any:
            tangents = tuple([v if i == at else np.zeros_like(a) for i, a in enumerate(arguments)])
            return ops.sum(tl.jvp(f, tuple(arguments), tangents)[1])

        forward = np.asarray(tl.vmap(pushed)(basis)).reshape(x.shape)
        np.testing.assert_array_equal(forward, reverse[at], strict=True)
    return reverse


@pytest.mark.parametrize(
    ("f", "at", "slope"),
    [
        (ops.relu, 0.0, 0.0),
        (ops.relu, -0.0, 0.0),
        (ops.relu, 1e-300, 1.0),
        (ops.abs, 0.0, 0.0),
        (ops.abs, -0.0, 0.0),
        (ops.abs, -2.0, -1.0),
        (lambda x: x * ops.sign(x), 0.0, 0.0),
        (ops.softplus, 0.0, 0.5),
        (ops.gelu, 0.0, 0.5),
        (ops.silu, 0.0, 0.5),
        (lambda x: ops.max(x, x), 1.0, 1.0),
        (lambda x: ops.min(x, x), 1.0, 1.0),
        (lambda x: ops.max(x, 0.0), 0.0, HALF),
        (lambda x: ops.min(x, 0.0), 0.0, HALF),
        (lambda x: ops.max(x, 1.0), 0.0, 0.0),
        (lambda x: ops.clamp(x, -1.0, 1.0), -1.0, HALF),
        (lambda x: ops.clamp(x, -1.0, 1.0), 1.0, HALF),
        (lambda x: ops.clamp(x, -1.0, 1.0), 0.999, 1.0),
        (lambda x: ops.clamp(x, -1.0, 1.0), 7.0, 0.0),
        (lambda x: ops.select(x > 0.0, x, 3.0 * x), 0.0, 3.0),
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: x**1, 0.0, 1.0),
        (lambda x: x**2, 0.0, 0.0),
        (lambda x: ops.pow(x, ops.full_like(x, 2.0)), 0.0, 0.0),
        (lambda x: ops.pow(x, ops.full_like(x, 1.0)), 0.0, 1.0),
        (lambda x: ops.pow(x, ops.full_like(x, 0.0)), 0.0, 0.0),
    ],
)
def test_the_slope_at_a_kink(f: Callable[[Any], Any], at: float, slope: float) -> None:
    for x in (np.float64(at), np.full((2, 3), at)):
        (made,) = slopes(f, x)
        np.testing.assert_array_equal(made, np.full(np.shape(x), slope))


def test_ties_of_two_operands_split_in_half() -> None:
    a, b = np.array([1.0, 2.0, 2.0, np.nan]), np.array([2.0, 2.0, 1.0, 1.0])
    to_a, to_b = slopes(ops.max, a, b)
    np.testing.assert_array_equal(to_a, [0, HALF, 1, 0])
    np.testing.assert_array_equal(to_b, [1, HALF, 0, 0])
    to_a, to_b = slopes(ops.min, a, b)
    np.testing.assert_array_equal(to_a, [1, HALF, 0, 0])
    np.testing.assert_array_equal(to_b, [0, HALF, 1, 0])


def test_zeros_of_either_sign_tie() -> None:
    to_a, to_b = slopes(ops.max, np.array([0.0, -0.0]), np.array([-0.0, 0.0]))
    np.testing.assert_array_equal(to_a, [HALF, HALF])
    np.testing.assert_array_equal(to_b, [HALF, HALF])


def test_entries_that_tie_in_a_reduction_share_evenly() -> None:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    np.testing.assert_array_equal(slopes(lambda x: ops.amax(x, 1), x)[0], [[0, HALF, HALF], [1 / 3] * 3])
    np.testing.assert_array_equal(slopes(lambda x: ops.amin(x, 1), x)[0], [[1, 0, 0], [1 / 3] * 3])
    np.testing.assert_array_equal(slopes(ops.amax, x)[0], [[0, HALF, HALF], [0, 0, 0]])


def test_the_bounds_of_a_clamp_take_what_lies_beyond_them() -> None:
    low, x, high = np.full(5, -1.0), np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), np.full(5, 1.0)
    to_x, to_low, to_high = slopes(ops.clamp, x, low, high)
    np.testing.assert_array_equal(to_x, [0, HALF, 1, HALF, 0])
    np.testing.assert_array_equal(to_low, [1, HALF, 0, 0, 0])
    np.testing.assert_array_equal(to_high, [0, 0, 0, HALF, 1])


def test_max_pools_first_largest_entry_takes_the_whole_gradient() -> None:
    x = np.array([[[1.0, 1.0, 0.0, 2.0, 2.0, 2.0]]])
    np.testing.assert_array_equal(slopes(lambda x: ops.max_pool(x, 3), x)[0], [[[1, 0, 0, 1, 0, 0]]])
    square = np.ones((1, 1, 2, 2))
    np.testing.assert_array_equal(slopes(lambda x: ops.max_pool(x, 2), square)[0], [[[[1, 0], [0, 0]]]])


def test_second_derivatives_at_kinks_are_those_of_the_chosen_branch() -> None:
    for f, at, want in (
        (ops.relu, 0.0, 0.0),
        (ops.abs, 0.0, 0.0),
        (lambda x: ops.max(x * x, 0.0), 0.0, 1.0),  # ½·(x²)″
        (lambda x: ops.clamp(x * x, 0.0, 1.0), 0.5, 2.0),
        (lambda x: ops.select(x > 0.0, x**3, x**2), 0.0, 2.0),
    ):
        np.testing.assert_array_equal(np.asarray(tl.hessian(f)(np.float64(at))), want)
        np.testing.assert_array_equal(np.asarray(tl.jacrev(tl.jacrev(f))(np.float64(at))), want)


def test_the_branch_not_chosen_receives_an_exact_zero_though_its_own_slope_is_infinite() -> None:
    """With the safe operand inside there is no 0·∞ for arithmetic to meet."""
    x = np.array([0.0, 4.0])
    safe = lambda x: ops.select(x > 0.0, ops.sqrt(ops.select(x > 0.0, x, 1.0)), 0.0)  # noqa: E731
    np.testing.assert_array_equal(slopes(safe, x)[0], [0, 0.25])


def test_a_fully_masked_attention_row_is_zero_and_sends_finite_zero_gradients() -> None:
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=(3, 2)) for _ in range(3))
    mask = np.array([[True, True, False], [False, False, False], [True, False, True]])
    np.testing.assert_array_equal(np.asarray(ops.attention(q, k, v, mask))[1], [0, 0])
    to_q, to_k, to_v = (
        np.asarray(g)
        for g in tl.grad(lambda q, k, v: ops.sum(ops.attention(q, k, v, mask) ** 2), argnums=(0, 1, 2))(q, k, v)
    )
    np.testing.assert_array_equal(to_q[1], [0, 0])
    for made in (to_q, to_k, to_v):
        assert np.isfinite(made).all()
    only_masked = np.zeros((3, 3), dtype=bool)
    for made in tl.grad(lambda q, k, v: ops.sum(ops.attention(q, k, v, only_masked)), argnums=(0, 1, 2))(q, k, v):
        np.testing.assert_array_equal(np.asarray(made), np.zeros((3, 2)))


def test_gathered_positions_outside_the_axis_send_nothing_back() -> None:
    x, index = np.arange(4.0), np.array([-1, 0, 9], dtype=np.int32)

    def read(x: Any, i: Any) -> Any:
        return ops.sum(ops.take(x, i))

    np.testing.assert_array_equal(np.asarray(tl.jit(tl.grad(read))(x, index)), [1, 0, 0, 0])


# -- cuts --------------------------------------------------------------------------------------------------------------
def test_stop_gradient_is_the_identity_without_a_derivative() -> None:
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(np.asarray(ops.stop_gradient(x)), x)
    np.testing.assert_array_equal(np.asarray(tl.grad(lambda x: ops.sum(x * tl.stop_gradient(x)))(x)), x)
    _, tangent = tl.jvp(lambda x: x * tl.stop_gradient(x), (x,), (np.ones(2),))
    np.testing.assert_array_equal(np.asarray(tangent), x)
    np.testing.assert_array_equal(np.asarray(tl.grad(lambda x: ops.sum(tl.stop_gradient(x)))(x)), [0, 0])
    np.testing.assert_array_equal(
        np.asarray(tl.hessian(lambda x: ops.sum(x * x * tl.stop_gradient(x)))(x)), np.diag(2 * x)
    )
    np.testing.assert_array_equal(np.asarray(tl.vmap(tl.grad(lambda x: x * tl.stop_gradient(x * x)))(x)), x * x)


def test_a_straight_through_estimator_has_the_slope_of_its_smooth_part() -> None:
    x = np.array([0.2, 0.9])

    def quantised(x: Any) -> Any:
        hard = ops.select(x > 0.5, ops.full_like(x, 1.0), 0.0)
        return x + tl.stop_gradient(hard - x)

    np.testing.assert_array_equal(np.asarray(quantised(x)), [0, 1])
    np.testing.assert_array_equal(np.asarray(tl.grad(lambda x: ops.sum(quantised(x)))(x)), [1, 1])


def test_nothing_flows_through_integers_booleans_and_positions() -> None:
    x = np.array([0.3, 2.7, 1.1])

    def f(x: Any) -> Any:
        return ops.sum(x * ops.convert(ops.convert(x, "i32"), "f64")) + ops.sum(x * ops.convert(x > 1.0, "f64"))

    np.testing.assert_array_equal(np.asarray(tl.grad(f)(x)), [0, 3, 2])
    np.testing.assert_array_equal(np.asarray(tl.grad(lambda x: x[ops.argmax(x)] ** 2)(x)), [0, 2 * 2.7, 0])
