"""Reverse over reverse, two and three deep: gradients of gradients, pullbacks of pullbacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compose.twins import TWINS, Twin, direction, jax_derivatives, jax_third, near

import torchlean as tl
from torchlean import ops

F64 = np.float64


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_the_gradient_of_a_gradient_along_a_direction_is_jaxs(twin: Twin) -> None:
    want = jax_derivatives(twin)
    ct, v = direction(5, len(want.value)), direction(1)
    made = tl.grad(lambda x: ops.sum(tl.grad(lambda x: ops.sum(twin.ours(x) * ct))(x) * v))(twin.point)
    near(made, np.einsum("m,mij,j->i", ct, want.second, v))


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_the_pullback_of_a_pullback_is_jaxs(twin: Twin) -> None:
    """(x, ct) ↦ Jᵀ·ct has the cotangents H[·, v]·ct for x and J·v for ct."""
    want = jax_derivatives(twin)
    ct, v = direction(5, len(want.value)), direction(1)
    value, pullback = tl.vjp(lambda x, ct: tl.vjp(twin.ours, x)[1](ct)[0], twin.point, ct)
    near(value, ct @ want.first)
    to_point, to_cotangent = pullback(v)
    near(to_point, np.einsum("m,mij,j->i", ct, want.second, v))
    near(to_cotangent, want.first @ v)


THIRD = ("softmax", "layer_norm", "attention", "cross_entropy", "conv in input and kernel", "pooling", "activations")


@pytest.mark.parametrize("twin", [twin for twin in TWINS if twin.name in THIRD], ids=repr)
def test_a_gradient_three_deep_is_jaxs(twin: Twin) -> None:
    third = jax_third(twin)
    ct, u, v = direction(5, len(third)), direction(1), direction(2)

    def first(x: Any) -> Any:
        return tl.grad(lambda x: ops.sum(twin.ours(x) * ct))(x)

    def second(x: Any) -> Any:
        return tl.grad(lambda x: ops.sum(first(x) * u))(x)

    made = tl.grad(lambda x: ops.sum(second(x) * v))(twin.point)
    near(made, np.einsum("m,mijk,j,k->i", ct, third, u, v))


@pytest.mark.parametrize(
    ("f", "third"),
    [
        (lambda x: x**5, lambda x: 60 * x**2),
        (ops.sin, lambda x: -np.cos(x)),
        (ops.exp, np.exp),
        (lambda x: 1.0 / x, lambda x: -6 / x**4),
        (ops.log, lambda x: 2 / x**3),
        (ops.tanh, lambda x: (1 - np.tanh(x) ** 2) * (6 * np.tanh(x) ** 2 - 2)),
        (lambda x: ops.sum(ops.softmax(ops.stack([x, -x])) * np.array([1.0, 0.0])), None),
    ],
)
def test_a_scalar_gradient_three_deep_is_the_textbooks(f: Any, third: Any) -> None:
    x = F64(0.8)
    made = tl.grad(tl.grad(tl.grad(f)))(x)
    if third is None:  # softmax of (x, −x) is logistic(2x): s‴ = 8·s·(1 − s)·(1 − 6s + 6s²)
        s = 1 / (1 + np.exp(-2 * x))
        near(made, np.asarray(8 * s * (1 - s) * (1 - 6 * s + 6 * s * s)))
    else:
        near(made, np.asarray(third(x)))


def test_gradients_six_deep_stay_exact_for_a_polynomial() -> None:
    """d⁶/dx⁶ x⁶ = 720, and d⁷/dx⁷ x⁶ = 0."""
    f: Any = lambda x: x**6  # noqa: E731
    for _ in range(6):
        f = tl.grad(f)
    near(f(F64(1.25)), np.asarray(720.0))
    near(tl.grad(f)(F64(1.25)), np.asarray(0.0))


def test_softmax_cross_entropy_has_the_textbook_gradient_and_hessian() -> None:
    """∇ = softmax − one_hot, H = diag(p) − p·pᵀ."""
    logits, label = np.array([0.3, -1.2, 2.0, 0.1]), np.array(2)
    p = np.exp(logits) / np.exp(logits).sum()

    def loss(x: Any) -> Any:
        return ops.cross_entropy(x, label)

    near(tl.grad(loss)(logits), p - np.eye(4)[2])
    near(tl.hessian(loss)(logits), np.diag(p) - np.outer(p, p))


def test_the_gradient_of_a_bilinear_form_has_a_constant_hessian() -> None:
    a = np.random.default_rng(0).uniform(-1, 1, (5, 5))
    x = direction(0, 5)
    near(tl.grad(lambda x: x @ a @ x)(x), (a + a.T) @ x)
    near(tl.hessian(lambda x: x @ a @ x)(x), a + a.T)
    near(tl.grad(lambda x: ops.sum(tl.grad(lambda x: x @ a @ x)(x) ** 2))(x), 2 * (a + a.T) @ (a + a.T) @ x)


def test_the_gradient_penalty_of_a_network_is_the_difference_quotient_of_its_own_value() -> None:
    """∇ of ‖∇ₓ f(w, x)‖² with respect to w, as in a Wasserstein critic, against central differences."""
    w, x = np.random.default_rng(3).uniform(-1, 1, (4, 3)), direction(4, 3)

    def penalty(w: Any) -> Any:
        g = tl.grad(lambda x: ops.sum(ops.softplus(w @ x)))(x)
        return ops.sum(g * g)

    made = np.asarray(tl.grad(penalty)(w))
    step = float(np.finfo(F64).eps) ** (1 / 3)
    for at in np.ndindex(*w.shape):
        up, down = w.copy(), w.copy()
        up[at] += step
        down[at] -= step
        assert abs(made[at] - (float(penalty(up)) - float(penalty(down))) / (2 * step)) <= 1e-8
