"""complex_grad, holomorphic=True, and the refusals that point from one to the other.

The oracle is the difference quotient along 1 and i, in complex128.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import ops
from torchlean.errors import GradError, TypeRuleError

Z = np.array([0.3 - 0.7j, 1.1 + 0.4j, -0.5 + 0.2j])
W = np.array([0.2 + 0.1j, -0.4 + 0.9j, 0.7 - 0.3j])
STEP = 1e-6


def size(z: Any) -> Any:
    return ops.sum(ops.square(ops.real(z)) + ops.square(ops.imag(z)))


LOSSES: dict[str, Callable[[Any], Any]] = {
    "Σ|z|²": size,
    "Σ|z|": lambda z: ops.sum(ops.abs(z)),
    "Σ|z|² by conj": lambda z: ops.real(ops.sum(z * ops.conj(z))),
    "linear": lambda z: size(z * W - 1.0),
    "quotient": lambda z: size(z / W + W / z),
    "exp and sin": lambda z: size(ops.exp(z) * ops.sin(z)),
    "log and sqrt": lambda z: size(ops.log(z) + ops.sqrt(z)),
    "power": lambda z: size(z**3),
    "matmul": lambda z: size(ops.matmul(ops.reshape(z, (1, 3)), np.outer(W, W))),
    "parts": lambda z: ops.sum(ops.real(z) * ops.imag(z)),
    "angle": lambda z: ops.sum(ops.atan2(ops.imag(z), ops.real(z))),
    "split tanh": lambda z: size(ops.complex(ops.tanh(ops.real(z)), ops.tanh(ops.imag(z)))),
    "masked": lambda z: size(ops.select(ops.real(z) > 0, z, z * z)),
}


def quotient(f: Callable[[Any], Any], z: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """∂L/∂re + i·∂L/∂im by central differences."""
    made = np.zeros_like(z)
    for place in np.ndindex(z.shape):
        for unit in (1.0, 1j):
            above, below = z.copy(), z.copy()
            above[place] += STEP * unit
            below[place] -= STEP * unit
            made[place] += unit * (float(np.asarray(f(above))) - float(np.asarray(f(below)))) / (2 * STEP)
    return made


@pytest.mark.parametrize("name", list(LOSSES))
def test_complex_grad_is_the_difference_quotient_by_either_part(name: str) -> None:
    f = LOSSES[name]
    made = np.asarray(tl.complex_grad(f)(Z))
    assert made.dtype == np.complex128
    np.testing.assert_allclose(made, quotient(f, Z), rtol=1e-6, atol=1e-7)
    lowered = tl.lower(tl.complex_grad(f), Z, profile=tl.profiles.fast_cpu)
    np.testing.assert_allclose(np.asarray(lowered(Z)), made, rtol=1e-12)


def test_a_step_against_it_descends() -> None:
    for f in LOSSES.values():
        before = float(np.asarray(f(Z)))
        after = float(np.asarray(f(Z - 1e-4 * np.asarray(tl.complex_grad(f)(Z)))))
        assert after < before


def test_it_takes_real_arguments_trees_aux_and_argnums() -> None:
    def f(p: Any, x: Any) -> Any:
        value = size(p["w"] * x + p["b"])
        return value, value

    p = {"w": Z, "b": np.array([0.5, 0.25, -1.0])}
    gradient, aux = tl.complex_grad(f, has_aux=True)({"w": Z, "b": ops.complex(p["b"], 0.0 * p["b"])}, W)
    assert gradient["w"].type.dtype.short == "c128"
    assert float(np.asarray(aux)) > 0
    both = tl.complex_grad(lambda z, x: size(z * ops.complex(x, x)), argnums=(0, 1))(Z, np.ones(3))
    assert [g.type.dtype.short for g in both] == ["c128", "f64"]
    made = tl.complex_grad(lambda x: ops.sum(x * x))(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(made), [2, 4])


# -- holomorphic -------------------------------------------------------------------------------------------------------
ANALYTIC: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "z³": (lambda z: z**3, lambda z: 3 * z**2),
    "exp": (ops.exp, np.exp),
    "sin": (ops.sin, np.cos),
    "1/z": (lambda z: 1.0 / z, lambda z: -1 / z**2),
    "log": (ops.log, lambda z: 1 / z),
    "sqrt": (ops.sqrt, lambda z: 0.5 / np.sqrt(z)),
    "tanh": (ops.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "with a constant": (lambda z: z * ops.stop_gradient(ops.conj(z)), np.conj),
}


@pytest.mark.parametrize("name", list(ANALYTIC))
def test_a_holomorphic_derivative_is_the_textbooks(name: str) -> None:
    f, slope = ANALYTIC[name]
    for z in Z:
        want = slope(z)
        for made in (
            tl.grad(f, holomorphic=True)(z),
            tl.jacfwd(f, holomorphic=True)(z),
            tl.jacrev(f, holomorphic=True)(z),
        ):
            np.testing.assert_allclose(np.asarray(made), want, rtol=1e-12)
    rows = np.asarray(tl.jacrev(f, holomorphic=True)(Z))
    np.testing.assert_allclose(rows, np.diag(slope(Z)), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.asarray(tl.jacfwd(f, holomorphic=True)(Z)), rows, rtol=1e-12, atol=1e-12)


def test_holomorphic_second_derivatives_compose() -> None:
    twice = tl.grad(tl.grad(lambda z: z**4, holomorphic=True), holomorphic=True)
    np.testing.assert_allclose(np.asarray(twice(Z[0])), 12 * Z[0] ** 2, rtol=1e-12)


NOT_ANALYTIC: dict[str, tuple[Callable[[Any], Any], str]] = {
    "conj": (lambda z: z * ops.conj(z), "conj"),
    "real": (lambda z: z * ops.complex(ops.real(z), ops.imag(z)), "real"),
    "imag": (lambda z: ops.complex(ops.imag(z), ops.imag(z)), "imag"),
    "abs": (lambda z: z * ops.convert(ops.abs(z), "c128"), "real"),
    "comparison": (lambda z: ops.select(ops.eq(z, 0), z, z * z), "eq"),
    "inside jit": (lambda z: tl.jit(lambda z: ops.conj(z))(z), "conj"),
    "inside scan": (lambda z: ops.scan(lambda c, _: (ops.conj(c), None), z, None, 2)[0], "conj"),
}


@pytest.mark.parametrize("name", list(NOT_ANALYTIC))
def test_what_is_not_holomorphic_is_refused_naming_the_op_and_the_line(name: str) -> None:
    f, op = NOT_ANALYTIC[name]
    for derivative in (tl.grad, tl.jacfwd, tl.jacrev):
        with pytest.raises(GradError, match="is not holomorphic") as caught:
            derivative(f, holomorphic=True)(Z[0])
        text = str(caught.value)
        assert f"it applies {op} to c128[]" in text
        assert "Cauchy-Riemann" in text
        assert "complex_grad" in text
        assert "test_complex.py" in text


def test_each_refusal_points_to_the_right_function() -> None:
    for run, words in (
        (lambda: tl.grad(size)(Z), ("args[0]: c128[3]", "complex_grad(f)", "holomorphic=True")),
        (lambda: tl.grad(lambda z: z, holomorphic=True)(1.0), ("args[0]: f32[]", "drop holomorphic=True")),
        (lambda: tl.grad(size, holomorphic=True)(Z), ("returns f64[]", "complex_grad(f)")),
        (lambda: tl.complex_grad(lambda z: z)(Z[0]), ("complex_grad of", "returns c128[]", "real loss")),
        (lambda: tl.grad(lambda x: ops.complex(x, x))(1.0), ("returns c64[]", "real loss")),
        (lambda: tl.complex_grad(lambda z: size(z))(np.arange(3)), ("args[0]: i64[3]", "floating point or complex")),
        (lambda: tl.jacrev(size, holomorphic=True)(Z), ("returns f64[]", "complex_grad(f)")),
        (lambda: tl.jacfwd(lambda z: z)(Z), ("args[0]: c128[3]", "complex_grad(f)")),
    ):
        with pytest.raises(GradError) as caught:
            run()
        for word in words:
            assert word in str(caught.value), str(caught.value)


def test_tangents_and_cotangents_of_complex_functions() -> None:
    """jvp is the derivative along a direction; vjp its transpose under Re(conj(a)·b)."""
    f = lambda z: z * z * W  # noqa: E731
    direction, ct = W[::-1].copy(), np.array([1.0, 1j, 0.5 - 0.5j])
    value, tangent = tl.jvp(f, (Z,), (direction,))
    np.testing.assert_allclose(np.asarray(tangent), 2 * Z * W * direction, rtol=1e-12)
    (pulled,) = tl.vjp(f, Z)[1](ct)
    assert value.type == tangent.type
    left = np.real(np.vdot(np.asarray(tangent), ct))
    right = np.real(np.vdot(direction, np.asarray(pulled)))
    np.testing.assert_allclose(left, right, rtol=1e-12)
    with pytest.raises(TypeRuleError, match="the tangent of"):
        tl.jvp(f, (Z,), (np.ones(3),))


def test_a_python_complex_number_is_complex64() -> None:
    assert tl.complex_grad(size)(1 + 2j).type.dtype.short == "c64"
    np.testing.assert_allclose(np.asarray(tl.complex_grad(size)(1 + 2j)), 2 + 4j)


# -- optimizers --------------------------------------------------------------------------------------------------------
def test_sgd_moves_complex_parameters_and_the_others_refuse_them() -> None:
    params = {"w": Z}
    gradient = tl.complex_grad(lambda p: size(p["w"]))(params)
    moved, _ = tl.optim.SGD(0.25).update(gradient, (), params)
    np.testing.assert_allclose(np.asarray(moved["w"]), Z - 0.25 * 2 * Z, rtol=1e-12)
    for optimizer in (tl.optim.Adam(0.1), tl.optim.Momentum(0.1), tl.optim.RMSProp(0.1), tl.optim.AdaGrad(0.1)):
        with pytest.raises(TypeRuleError, match=r"params\['w'\] is c128\[3\]: this rule is one for real parameters"):
            optimizer.init(params)
