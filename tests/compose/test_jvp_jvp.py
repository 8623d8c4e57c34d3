"""Forward over forward: second and third directional derivatives, and the programs that confuse perturbations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from compose.twins import TWINS, Twin, direction, jax_derivatives, jax_third, near

import torchlean as tl
from torchlean import ops

F64 = np.float64


def along(f: Callable[[Any], Any], v: Any) -> Callable[[Any], Any]:
    """x ↦ Df(x)·v."""
    return lambda x: tl.jvp(f, (x,), (v,))[1]


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_value_and_directional_derivatives_are_jaxs(twin: Twin) -> None:
    v, w = direction(1), direction(2)
    want = jax_derivatives(twin)
    (value, first), (moved, second) = tl.jvp(lambda x: tl.jvp(twin.ours, (x,), (v,)), (twin.point,), (w,))
    near(value, want.value)
    near(first, want.first @ v)
    near(moved, want.first @ w)
    near(second, want.second @ w @ v)


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_the_order_of_the_two_directions_does_not_matter(twin: Twin) -> None:
    v, w = direction(1), direction(2)
    near(along(along(twin.ours, v), w)(twin.point), np.asarray(along(along(twin.ours, w), v)(twin.point)))


@pytest.mark.parametrize("twin", [t for t in TWINS if t.name in ("softmax", "tanh and powers", "attention")], ids=repr)
def test_the_third_directional_derivative_is_jaxs(twin: Twin) -> None:
    u, v, w = direction(1), direction(2), direction(3)
    near(along(along(along(twin.ours, u), v), w)(twin.point), jax_third(twin) @ w @ v @ u)


def test_a_tangent_may_depend_on_the_point() -> None:
    """d/dx [f′(x)·x] = f″(x)·x + f′(x)."""
    x = F64(0.7)
    _, made = tl.jvp(lambda x: tl.jvp(ops.sin, (x,), (x,))[1], (x,), (F64(1),))
    near(made, np.asarray(-np.sin(x) * x + np.cos(x)))


# -- perturbation confusion --------------------------------------------------------------------------------------------
def d(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The derivative of a scalar function by forward mode."""
    return lambda x: tl.jvp(f, (x,), (F64(1),))[1]


def test_the_inner_derivative_does_not_see_the_outer_perturbation() -> None:
    """d/dx [x · d/dy (x + y)] = 1; a confused tool answers 2.  [Siskind & Pearlmutter 2005]"""
    near(d(lambda x: x * d(lambda y: x + y)(F64(1)))(F64(1)), np.asarray(1.0))


def test_a_product_of_both_variables_is_told_apart() -> None:
    """d/dx [x · d/dy (x·y)] = d/dx x² = 2x; confused: x² has been perturbed twice."""
    near(d(lambda x: x * d(lambda y: x * y)(F64(5)))(F64(3)), np.asarray(6.0))


def test_a_shift_differentiated_twice_is_the_second_derivative() -> None:
    """D̂ f = x ↦ d/du f(x + u) at 0, so D̂(D̂ h) = h″; the amazing bug gives 0.  [Manzyuk et al. 2019, §2]"""

    def shift_derivative(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: d(lambda u: f(x + u))(F64(0))

    near(shift_derivative(shift_derivative(ops.exp))(F64(1)), np.asarray(np.exp(1.0)))
    near(shift_derivative(shift_derivative(lambda x: x**3))(F64(2)), np.asarray(12.0))


def test_the_same_value_at_two_levels_keeps_two_tangents() -> None:
    """x is captured by the inner function and also its point: d/dx [d/dy (x·y²) at y = x] = d/dx 2x² = 4x."""
    near(d(lambda x: d(lambda y: x * y * y)(x))(F64(3)), np.asarray(12.0))


def test_three_levels_of_capture() -> None:
    """d/dx d/dy d/dz (x²·y²·z²) at x = 2, y = 3, z = 5 is 8·30 = 240."""
    found = d(lambda x: d(lambda y: d(lambda z: x * x * y * y * z * z)(F64(5)))(F64(3)))(F64(2))
    near(found, np.asarray(240.0))
