"""vmap with reverse mode, inside and outside: per-example gradients against JAX and against the loop."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compose.twins import TWINS, Twin, direction, jax_derivatives, near

import torchlean as tl
from torchlean import ops


def weights(twin: Twin) -> np.ndarray[Any, Any]:
    return direction(5, len(jax_derivatives(twin).value))


def rolled(twin: Twin, count: int) -> np.ndarray[Any, Any]:
    """The twin's point first, then the same entries in other orders."""
    return np.stack([np.roll(twin.point, i) for i in range(count)])


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_per_example_gradients_are_the_loop_and_the_first_is_jaxs(twin: Twin) -> None:
    ct, points = weights(twin), rolled(twin, 3)
    gradient = tl.grad(lambda x: ops.sum(twin.ours(x) * ct))
    made = np.asarray(tl.vmap(gradient)(points))
    near(made[0], ct @ jax_derivatives(twin).first)
    for i in range(3):
        near(made[i], np.asarray(gradient(points[i])))


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_the_gradient_of_a_mapped_sum_is_the_mapped_gradient(twin: Twin) -> None:
    ct, points = weights(twin), rolled(twin, 3)
    whole = tl.grad(lambda xs: ops.sum(tl.vmap(twin.ours)(xs) * ct))(points)
    near(whole, np.asarray(tl.vmap(tl.grad(lambda x: ops.sum(twin.ours(x) * ct)))(points)))


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_a_mapped_pullback_gives_the_rows_of_the_jacobian(twin: Twin) -> None:
    want = jax_derivatives(twin)
    value, pullback = tl.vjp(twin.ours, twin.point)
    near(value, want.value)
    (rows,) = tl.vmap(pullback)(np.eye(len(want.value)))
    near(rows, want.first)


def network(params: Any, x: Any, y: Any, m: Any) -> Any:
    hidden = m.tanh(params["w1"] @ x + params["b1"])
    out = params["w2"] @ hidden
    return (out - y) ** 2


def test_per_example_gradients_of_shared_parameters_are_jaxs() -> None:
    random = np.random.default_rng(0)
    params = {"w1": random.normal(size=(4, 3)), "b1": random.normal(size=4), "w2": random.normal(size=4)}
    xs, ys = random.normal(size=(5, 3)), random.normal(size=5)
    made = tl.vmap(tl.grad(lambda p, x, y: network(p, x, y, ops)), in_axes=(None, 0, 0))(params, xs, ys)
    with jax.enable_x64(True):
        want = jax.vmap(jax.grad(lambda p, x, y: network(p, x, y, jnp)), in_axes=(None, 0, 0))(params, xs, ys)
        want = {name: np.asarray(array) for name, array in want.items()}
    assert sorted(made) == sorted(want)
    for name, array in want.items():
        near(made[name], array)
    whole = tl.grad(lambda p: ops.mean(tl.vmap(lambda x, y: network(p, x, y, ops))(xs, ys)))(params)
    for name, array in want.items():
        near(whole[name], array.mean(0))


def test_a_gradient_with_respect_to_what_a_mapped_function_captures_is_summed() -> None:
    """w is captured by the mapped function, one level up; every example contributes."""
    xs, w = np.random.default_rng(1).uniform(-1, 1, (5, 3)), direction(2, 3)
    made = tl.grad(lambda w: ops.sum(tl.vmap(lambda x: ops.sin(x @ w))(xs)))(w)
    near(made, np.cos(xs @ w) @ xs)


def test_values_captured_at_two_levels_by_a_mapped_gradient() -> None:
    """x, scale and w come from three enclosing functions."""
    xs, w = np.random.default_rng(1).uniform(-1, 1, (5, 3)), direction(2, 3)

    def outer(w: Any) -> Any:
        scale = ops.sum(w * w)

        def per_example(x: Any) -> Any:
            return tl.grad(lambda y: ops.sum(ops.sin(y * w)) * scale)(x)

        return tl.vmap(per_example)(xs)

    near(outer(w), np.cos(xs * w) * w * (w @ w))
    made = tl.jacrev(outer)(w)
    near(made, np.asarray(tl.jacfwd(outer)(w)))
    s = w @ w
    diagonal = -np.sin(xs * w) * xs * w * s + np.cos(xs * w) * s
    want = np.einsum("ni,ij->nij", diagonal, np.eye(3)) + np.einsum("ni,j->nij", np.cos(xs * w) * w, 2 * w)
    near(made, want)


def test_in_axes_of_a_mapped_gradient_place_the_examples() -> None:
    xs = np.random.default_rng(3).uniform(-1, 1, (3, 5))
    made = tl.vmap(tl.grad(lambda x: ops.sum(x**3)), in_axes=1, out_axes=1)(xs)
    near(made, 3 * xs**2)


def test_a_mapped_value_and_grad_with_aux() -> None:
    xs = np.random.default_rng(4).uniform(-1, 1, (3, 5))
    (value, aux), gradient = tl.vmap(tl.value_and_grad(lambda x: (ops.sum(x * x), {"y": x + 1.0}), has_aux=True))(xs)
    near(value, (xs * xs).sum(1))
    near(aux["y"], xs + 1.0)
    near(gradient, 2 * xs)
