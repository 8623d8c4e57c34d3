"""Matrix functions against NumPy, and the determinant's derivative where matrices are singular."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from ops.numeric_samples import MATRIX_DTYPES, definite, matrix, separated

from torchlean.errors import TypeRuleError
from torchlean.ir import ops
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.evaluate import denote
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.jacobi import tournament
from torchlean.ir.ops.spectral import EIGH, SVD
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.vjp import grad_graph, vjp_graph

Array = np.ndarray[Any, Any]
STEP = float(np.finfo(np.float64).eps) ** (1 / 3)


def near(dtype: Any, n: int = 8) -> float:
    """Backward stable algorithms on well-conditioned matrices of a few rows: a few n·ε."""
    return 64 * n * float(np.finfo(dtype).eps)


def run(function: Any, *arrays: Array) -> tuple[Array, ...]:
    def flat(*xs: Any) -> tuple[Any, ...]:
        made = function(*xs)
        return made if isinstance(made, tuple) else (made,)

    return denote(trace_flat(flat, [type_of_array(array) for array in arrays]).graph, arrays)


def gradient(function: Any, *arrays: Array) -> tuple[Array, ...]:
    graph = trace_flat(lambda *xs: (function(*xs),), [type_of_array(array) for array in arrays]).graph
    return denote(grad_graph(graph, range(len(arrays))), arrays)[1:]


# -- values ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", MATRIX_DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 17])
def test_eigenvalues_are_those_of_lapack_and_vectors_diagonalise(dtype: Any, n: int) -> None:
    x = definite(n, (2,), dtype)
    values, vectors = EIGH.denote(NumpyAlgebra(), NO_PARAMS, x)
    turned = np.conj(np.swapaxes(vectors, -1, -2))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x), atol=near(dtype, n) * n)
    np.testing.assert_allclose((vectors * values[:, None, :]) @ turned, x, atol=near(dtype, n) * n)
    np.testing.assert_allclose(turned @ vectors, np.broadcast_to(np.eye(n), x.shape), atol=near(dtype, n))


@pytest.mark.parametrize("dtype", MATRIX_DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (7, 4), (4, 7), (17, 17), (1, 5), (5, 1)])
def test_singular_values_are_those_of_lapack_and_factors_multiply_back(dtype: Any, shape: tuple[int, int]) -> None:
    x = matrix(shape, dtype, 3)
    u, s, vh = SVD.denote(NumpyAlgebra(), NO_PARAMS, x)
    size = np.linalg.norm(x)
    np.testing.assert_allclose(s, np.linalg.svd(x, compute_uv=False), atol=near(dtype, max(shape)) * size)
    np.testing.assert_allclose((u * s) @ vh, x, atol=near(dtype, max(shape)) * size)
    for basis in (u, np.conj(vh.T)):
        np.testing.assert_allclose(np.conj(basis.T) @ basis, np.eye(min(shape)), atol=near(dtype, max(shape)))


def test_jacobi_finds_small_eigenvalues_of_graded_matrices_to_relative_accuracy() -> None:
    """What LAPACK's tridiagonal method loses [Demmel & Veselić 1992]."""
    scale = np.diag([1e8, 1.0, 1e-8])
    x = scale @ np.array([[1.0, 0.1, 0.1], [0.1, 1.0, 0.1], [0.1, 0.1, 1.0]]) @ scale
    (values, _) = EIGH.denote(NumpyAlgebra(), NO_PARAMS, x)
    exact = 1e-16 * (1 - 2 * 0.1**2 / (1 + 0.1))  # Schur complement of the leading part, to leading order
    assert abs(values[0] - exact) <= 1e-12 * exact


@pytest.mark.parametrize("n", range(12))
def test_a_tournament_holds_every_pair_once_in_disjoint_rounds(n: int) -> None:
    rounds = tournament(n)
    pairs = [pair for low, high in rounds for pair in zip(low.tolist(), high.tolist(), strict=True)]
    assert sorted(pairs) == [(i, j) for i in range(n) for j in range(i + 1, n)]
    for low, high in rounds:
        assert len({*low.tolist(), *high.tolist()}) == 2 * len(low)


@pytest.mark.parametrize("dtype", MATRIX_DTYPES)
def test_systems_determinants_and_least_squares(dtype: Any) -> None:
    a, b = matrix((2, 4, 4), dtype, 1), matrix((2, 4, 3), dtype, 2)
    close = near(dtype, 4) * 10
    np.testing.assert_allclose(run(ops.solve, a, b)[0], np.linalg.solve(a, b), atol=close)
    np.testing.assert_allclose(run(ops.solve, a, b[0, :, 0])[0], np.linalg.solve(a, b[0, :, 0]), atol=close)
    np.testing.assert_allclose(run(ops.solve, a[0], b[0, :, 0])[0], np.linalg.solve(a[0], b[0, :, 0]), atol=close)
    np.testing.assert_allclose(run(ops.inv, a)[0], np.linalg.inv(a), atol=close)
    for n in range(6):
        x = matrix((2, n, n), dtype, 3)
        np.testing.assert_allclose(run(ops.det, x)[0], np.linalg.det(x), atol=close * 40)
        sign, logarithm = run(ops.slogdet, x)
        want = np.linalg.slogdet(x)
        np.testing.assert_allclose(sign, want[0], atol=close)
        np.testing.assert_allclose(logarithm, want[1], atol=close)
    for shape in ((5, 3), (3, 5), (3, 3)):
        x, y = separated(shape, dtype, 4), matrix((shape[0], 2), dtype, 5)
        np.testing.assert_allclose(run(ops.lstsq, x, y)[0], np.linalg.lstsq(x, y, rcond=None)[0], atol=close)
    np.testing.assert_allclose(
        run(lambda v: ops.cholesky(v, upper=True), definite(4, (), dtype))[0].conj().T,
        np.linalg.cholesky(definite(4, (), dtype)),
        atol=close,
    )


def test_singular_systems_show_and_slogdet_says_minus_infinity() -> None:
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert not np.isfinite(run(ops.inv, singular)[0]).any()
    sign, logarithm = run(ops.slogdet, singular)
    assert (sign, logarithm) == (0.0, -np.inf)


@pytest.mark.parametrize("function", [ops.cholesky, ops.eigh, ops.det, ops.inv, ops.slogdet])
def test_what_is_not_square_is_refused_by_name(function: Any) -> None:
    with pytest.raises(TypeRuleError, match=rf"^{function.__name__} of f32\[2,3\]: not a square matrix"):
        run(function, np.zeros((2, 3), np.float32))


def test_half_precision_matrices_are_refused_with_the_fix() -> None:
    with pytest.raises(TypeRuleError, match="f16 matrices are not factorised"):
        run(ops.qr, np.zeros((2, 2), np.float16))


# -- derivatives -------------------------------------------------------------------------------------------------------
def exact_cofactors(x: Array) -> Array:
    """Cofactors by the Leibniz sum over exact fractions."""
    n = len(x)
    entries = [[Fraction(float(v)) for v in row] for row in x]

    def determinant(rows: list[list[Fraction]]) -> Fraction:
        total = Fraction(0)
        for order in permutations(range(len(rows))):
            term = Fraction(1)
            for i, j in enumerate(order):
                term *= rows[i][j]
            inversions = sum(order[i] > order[j] for i in range(len(order)) for j in range(i + 1, len(order)))
            total += term * (-1) ** inversions
        return total

    def minor(i: int, j: int) -> Fraction:
        rest = [[v for b, v in enumerate(row) if b != j] for a, row in enumerate(entries) if a != i]
        return (-1) ** (i + j) * determinant(rest)

    return np.array([[float(minor(i, j)) for j in range(n)] for i in range(n)])


RANK_3 = np.array([[2.0, 1.0, 0.0, 1.0], [1.0, 3.0, 1.0, 0.0], [0.0, 1.0, 1.0, 2.0], [3.0, 5.0, 2.0, 3.0]])
SINGULAR = (
    np.array([[0.0]]),
    np.array([[1.0, 0.0], [0.0, 0.0]]),
    np.array([[0.0, 1.0], [0.0, 1.0]]),
    np.zeros((2, 2)),
    np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]),
    RANK_3,
    np.diag([1.0, 2.0, 3.0, 0.0]),
    np.diag([1.0, 2.0, 0.0, 0.0]),
    np.zeros((4, 4)),
    np.eye(4),
    np.diag([0.0, 3.0, 1.0, 2.0, 5.0]),
)


@pytest.mark.parametrize("x", SINGULAR, ids=lambda x: str(x.tolist()).replace(" ", ""))
def test_the_gradient_of_a_determinant_is_its_cofactors(x: Array) -> None:
    (made,) = gradient(ops.det, x)
    np.testing.assert_allclose(made, exact_cofactors(x), atol=1e-13 * (1 + np.linalg.norm(x)) ** (len(x) - 1))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_second_derivative_of_a_determinant_is_right_where_singular_values_coincide(n: int) -> None:
    """At the identity: d²det = tr(A)·tr(B) - tr(A·B)."""
    graph = trace_flat(lambda v: (ops.det(v),), [type_of_array(np.eye(n))]).graph
    pulled = grad_graph(graph, (0,))
    pushed, _ = jvp_graph(pulled, [True])
    a = np.random.default_rng(0).uniform(-1, 1, (n, n))
    made = denote(pushed, (np.eye(n), a))[-1]
    np.testing.assert_allclose(made, np.trace(a) * np.eye(n) - a.T, atol=1e-12)


def test_functions_of_eigenvalues_alone_have_gradients_where_they_coincide() -> None:
    """Σ λ² at the identity, and Σ s⁴ of orthonormal columns: nothing asks for the derivative of the vectors."""
    (made,) = gradient(lambda x: ops.sum(ops.square(ops.eigh(x)[0])), np.eye(3))
    np.testing.assert_allclose(made, 2 * np.eye(3), atol=1e-14)
    x = np.eye(4, 3)
    (made,) = gradient(lambda x: ops.sum(ops.integer_pow(ops.svd(x)[1], 4)), x)
    np.testing.assert_allclose(made, 4 * x, atol=1e-14)


def test_vectors_of_coinciding_eigenvalues_have_no_finite_derivative() -> None:
    """Silence would be wrong: they turn by any angle. The infinity is visible, in both modes."""
    graph = trace_flat(lambda v: ops.eigh(v), [type_of_array(np.eye(2))]).graph
    direction = np.array([[0.0, 1.0], [1.0, 0.0]])
    pushed, _ = jvp_graph(graph, [True])
    assert not np.isfinite(denote(pushed, (np.eye(2), direction))[-1]).all()
    back = denote(vjp_graph(graph, (0,)), (np.eye(2), np.zeros(2), direction))
    assert not np.isfinite(back[0]).all()


LOSSES: dict[str, tuple[Any, tuple[Array, ...]]] = {
    "solve": (lambda a, b: ops.sum(ops.square(ops.solve(a, b))), (matrix((3, 3)), matrix((3, 2), seed=1))),
    "inv": (lambda a: ops.sum(ops.square(ops.inv(a))), (matrix((2, 3, 3)),)),
    "slogdet": (lambda a: ops.sum(ops.slogdet(a)[1]), (matrix((2, 3, 3)),)),
    "det of four rows": (lambda a: ops.sum(ops.det(a)), (matrix((2, 4, 4)),)),
    "lstsq tall": (lambda a, b: ops.sum(ops.square(ops.lstsq(a, b))), (separated((4, 2)), matrix((4, 2), seed=1))),
    "lstsq wide": (lambda a, b: ops.sum(ops.square(ops.lstsq(a, b))), (separated((2, 4)), matrix((2, 2), seed=1))),
    "cholesky": (lambda a: ops.sum(ops.square(ops.cholesky(a)) * np.arange(9.0).reshape(3, 3)), (definite(3),)),
    "nuclear norm": (lambda a: ops.sum(ops.svd(a)[1]), (separated((4, 3)),)),
    "root by eigh": (
        lambda a: ops.sum(ops.square((ops.eigh(a)[1] * ops.sqrt(ops.eigh(a)[0])) @ ops.eigh(a)[1].T)),
        (definite(3),),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_through_systems_are_the_limits_of_differences(name: str) -> None:
    function, arrays = LOSSES[name]
    made = gradient(function, *arrays)
    random = np.random.default_rng(5)
    for at, slope in enumerate(made):
        direction = random.uniform(-1, 1, arrays[at].shape)
        moved = [[*arrays[:at], arrays[at] + step * direction, *arrays[at + 1 :]] for step in (STEP, -STEP)]
        high, low = (run(function, *each)[0] for each in moved)
        quotient = float(high - low) / (2 * STEP)
        assert abs(float(np.sum(slope * direction)) - quotient) <= 1e-7 * (1 + abs(quotient))


def test_the_gradients_of_symmetric_functions_are_symmetric() -> None:
    for function in (lambda a: ops.sum(ops.cholesky(a)), lambda a: ops.sum(ops.eigh(a)[0] * np.arange(3.0))):
        (made,) = gradient(function, definite(3))
        np.testing.assert_allclose(made, made.T, atol=1e-14)
