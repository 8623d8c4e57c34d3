"""Forward over reverse and reverse over forward: Hessian-vector products in both orders, and mixed confusions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compose.twins import TWINS, Twin, direction, jax_derivatives, near

import torchlean as tl
from torchlean import ops

F64 = np.float64


def weighted(twin: Twin) -> tuple[Any, np.ndarray[Any, Any]]:
    """A scalar function ct·f and its weights."""
    ct = direction(5, len(jax_derivatives(twin).value))
    return lambda x: ops.sum(twin.ours(x) * ct), ct


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_the_tangent_of_a_gradient_is_jaxs_hessian_vector_product(twin: Twin) -> None:
    f, ct = weighted(twin)
    v, want = direction(1), jax_derivatives(twin)
    gradient, product = tl.jvp(tl.grad(f), (twin.point,), (v,))
    near(gradient, ct @ want.first)
    near(product, np.einsum("m,mij,j->i", ct, want.second, v))


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_the_gradient_of_a_tangent_is_the_same_product(twin: Twin) -> None:
    f, ct = weighted(twin)
    v, want = direction(1), jax_derivatives(twin)
    value, product = tl.value_and_grad(lambda x: tl.jvp(f, (x,), (v,))[1])(twin.point)
    near(value, np.asarray(ct @ want.first @ v))
    near(product, np.einsum("m,mij,j->i", ct, want.second, v))


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_a_pullback_moves_with_its_point_and_its_cotangent(twin: Twin) -> None:
    """d/dt Jᵀ(x + t·v)·(ct + t·w) = H[v]ᵀ·ct + Jᵀ·w."""
    want = jax_derivatives(twin)
    count = len(want.value)
    v, ct, w = direction(1), direction(5, count), direction(6, count)

    def pulled(x: Any, ct: Any) -> Any:
        return tl.vjp(twin.ours, x)[1](ct)[0]

    first, moved = tl.jvp(pulled, (twin.point, ct), (v, w))
    near(first, ct @ want.first)
    near(moved, np.einsum("m,mij,j->i", ct, want.second, v) + w @ want.first)


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_reverse_mode_through_linearize(twin: Twin) -> None:
    """The pushforward of linearize is itself differentiable, in the point and in the tangent."""
    f, ct = weighted(twin)
    v, want = direction(1), jax_derivatives(twin)
    made = tl.grad(lambda x, v: tl.linearize(f, x)[1](v), argnums=(0, 1))(twin.point, v)
    near(made[0], np.einsum("m,mij,j->i", ct, want.second, v))
    near(made[1], ct @ want.first)


def test_perturbation_confusion_between_modes() -> None:
    """d/dx [x · d/dy (x + y)] = 1 and d/dx [x · d/dy (x·y)] = 2x, with one derivative forward and one reverse."""

    def forward(f: Any) -> Any:
        return lambda x: tl.jvp(f, (x,), (F64(1),))[1]

    for outer, inner in ((forward, tl.grad), (tl.grad, forward), (tl.grad, tl.grad)):
        near(outer(lambda x, inner=inner: x * inner(lambda y: x + y)(F64(1)))(F64(1)), np.asarray(1.0))
        near(outer(lambda x, inner=inner: x * inner(lambda y: x * y)(F64(5)))(F64(3)), np.asarray(6.0))


def test_a_gradient_with_respect_to_a_captured_value_is_zero_inside_and_whole_outside() -> None:
    """The inner gradient holds x fixed; the outer one moves it: d/dx [d/dy sin(x·y)] = cos(xy) − xy·sin(xy)."""
    x, y = F64(0.6), F64(1.1)
    made = tl.grad(lambda x: tl.grad(lambda y: ops.sin(x * y))(y))(x)
    near(made, np.asarray(np.cos(x * y) - x * y * np.sin(x * y)))
