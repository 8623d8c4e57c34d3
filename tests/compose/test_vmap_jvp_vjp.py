"""vmap, forward and reverse mode in every order of nesting, against JAX's second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from compose.twins import TWINS, Twin, direction, jax_derivatives, near

import torchlean as tl
from torchlean import ops


def rolled(twin: Twin, count: int) -> np.ndarray[Any, Any]:
    return np.stack([np.roll(twin.point, i) for i in range(count)])


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_mapped_hessian_vector_products_are_jaxs_in_every_order(twin: Twin) -> None:
    """vmap of forward over reverse, forward over vmap of reverse, forward over reverse of vmap."""
    want = jax_derivatives(twin)
    ct, v, points = direction(5, len(want.value)), direction(1), rolled(twin, 3)
    vs = np.stack([v, v, 2 * v])

    def f(x: Any) -> Any:
        return ops.sum(twin.ours(x) * ct)

    def gradients(xs: Any) -> Any:
        return tl.grad(lambda xs: ops.sum(tl.vmap(f)(xs)))(xs)

    inside = np.asarray(tl.vmap(lambda x, v: tl.jvp(tl.grad(f), (x,), (v,))[1])(points, vs))
    between = np.asarray(tl.jvp(tl.vmap(tl.grad(f)), (points,), (vs,))[1])
    outside = np.asarray(tl.jvp(gradients, (points,), (vs,))[1])
    backward = np.asarray(tl.vmap(tl.grad(lambda x, v: tl.jvp(f, (x,), (v,))[1]))(points, vs))
    near(inside[0], np.einsum("m,mij,j->i", ct, want.second, v))
    near(between, inside)
    near(outside, inside)
    near(backward, inside)


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_a_mapped_pushforward_gives_the_columns_of_the_jacobian(twin: Twin) -> None:
    want = jax_derivatives(twin)
    value, pushforward = tl.linearize(twin.ours, twin.point)
    near(value, want.value)
    near(np.asarray(tl.vmap(pushforward)(np.eye(12))).T, want.first)
    near(np.asarray(tl.vmap(lambda v: tl.jvp(twin.ours, (twin.point,), (v,))[1])(np.eye(12))).T, want.first)


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_mapped_second_derivatives_over_a_basis_are_the_hessian(twin: Twin) -> None:
    want = jax_derivatives(twin)
    ct = direction(5, len(want.value))
    gradient = tl.grad(lambda x: ops.sum(twin.ours(x) * ct))
    rows = tl.vmap(lambda v: tl.jvp(gradient, (twin.point,), (v,))[1])(np.eye(12))
    near(rows, np.einsum("m,mij->ij", ct, want.second))


def _forward(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """x ↦ the derivative of Σ f(x) along (1, …, 1), spread back over the entries so that it composes."""
    return lambda x: tl.jvp(f, (x,), (x * 0.0 + 1.0,))[1]


def _reverse(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: tl.grad(lambda x: ops.sum(f(x)))(x)


def _mapped(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return tl.vmap(f)


# For an elementwise f each of the three is exact on its own: forward and reverse give f′ entry by entry, vmap nothing.
ELEMENTWISE = (
    (ops.sin, lambda x: -np.sin(x)),
    (ops.exp, np.exp),
    (lambda x: x**4, lambda x: 12 * x**2),
    (ops.tanh, lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2)),
)


@pytest.mark.parametrize("order", list(permutations(("forward", "reverse", "map"))))
@pytest.mark.parametrize("index", range(len(ELEMENTWISE)))
def test_all_orders_of_three_transforms_agree_with_the_textbook(order: tuple[str, ...], index: int) -> None:
    f, second = ELEMENTWISE[index]
    x = np.random.default_rng(index).uniform(-1, 1, (3, 2))
    transforms = {"forward": _forward, "reverse": _reverse, "map": _mapped}
    made: Any = f
    for name in order:
        made = transforms[name](made)
    near(made(x), second(x))


def test_four_deep_with_captured_values_at_each_level() -> None:
    """vmap(jvp(grad(vmap))) where each level captures the argument of the one outside it."""
    xs, w = np.random.default_rng(1).uniform(-1, 1, (3, 4)), direction(2, 4)

    def outer(x: Any) -> Any:
        def middle(w: Any) -> Any:
            return tl.grad(lambda y: ops.sum(tl.vmap(lambda a, b: ops.sin(a * b))(y, w * x)))(x)

        return tl.jvp(middle, (w,), (np.ones(4),))[1]

    made = tl.vmap(outer)(xs)
    # inner: d/dy Σ sin(y·w·x) = cos(y·w·x)·w·x at y = x, then the derivative in w along ones
    c, s = np.cos(xs * xs * w), np.sin(xs * xs * w)
    near(made, xs * c - xs * xs * xs * w * s)
