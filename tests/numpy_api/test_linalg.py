"""The linalg extension against NumPy, and its factorisations against what defines them: eager, traced and lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_api.threeways import close, results

import torchlean as tl
import torchlean.numpy as tnp

RNG = np.random.default_rng(5)
Call = Callable[..., Any]


def matrices(*shape: int, dtype: str = "float64") -> np.ndarray[Any, Any]:
    made = RNG.normal(size=shape)
    return (made + 1j * RNG.normal(size=shape) if dtype.startswith("c") else made).astype(dtype)


SQUARE, STACK, COMPLEX = matrices(4, 4), matrices(2, 3, 3), matrices(3, 3, dtype="complex128")
TALL, WIDE = matrices(5, 3), matrices(2, 3, 5)
POSITIVE = SQUARE @ SQUARE.T + np.eye(4)
HERMITIAN = COMPLEX @ COMPLEX.conj().T + np.eye(3)
DEFICIENT = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])

VALUES: tuple[tuple[str, Call, tuple[Any, ...]], ...] = (
    ("det", lambda m, a: m.det(a), (STACK,)),
    ("det 4", lambda m, a: m.det(a), (SQUARE,)),
    ("inv", lambda m, a: m.inv(a), (STACK,)),
    ("inv complex", lambda m, a: m.inv(a), (COMPLEX,)),
    ("slogdet", lambda m, a: tuple(m.slogdet(a)), (SQUARE,)),
    ("solve", lambda m, a, b: m.solve(a, b), (SQUARE, SQUARE[:, :2].copy())),
    ("solve vector", lambda m, a, b: m.solve(a, b), (SQUARE, SQUARE[0].copy())),
    ("cholesky", lambda m, a: m.cholesky(a), (POSITIVE,)),
    ("cholesky complex upper", lambda m, a: m.cholesky(a, upper=True), (HERMITIAN,)),
    ("eigvalsh", lambda m, a: m.eigvalsh(a), (HERMITIAN,)),
    ("svdvals", lambda m, a: m.svdvals(a), (WIDE,)),
    ("pinv", lambda m, a: m.pinv(a), (TALL,)),
    ("pinv deficient", lambda m, a: m.pinv(a, rtol=1e-10), (DEFICIENT,)),
    ("matrix_power", lambda m, a: m.matrix_power(a, 5), (STACK,)),
    ("matrix_power 0", lambda m, a: m.matrix_power(a, 0), (STACK,)),
    ("matrix_power -2", lambda m, a: m.matrix_power(a, -2), (STACK,)),
    ("multi_dot", lambda m, a, b: m.multi_dot([a, b, a]), (TALL, TALL.T.copy())),
    ("cond", lambda m, a: m.cond(a), (SQUARE,)),
    ("cond 1", lambda m, a: m.cond(a, 1), (SQUARE,)),
    *[(f"matrix_norm {o}", lambda m, a, o=o: m.matrix_norm(a, ord=o), (WIDE,)) for o in ("fro", "nuc", 1, -1, 2, -2)],
    *[
        (f"vector_norm {o}", lambda m, a, o=o: m.vector_norm(a, ord=o, axis=-1), (WIDE,))
        for o in (0, 1, 2, 3, 0.5, -1, np.inf, -np.inf)
    ],
    ("matrix_norm inf", lambda m, a: m.matrix_norm(a, ord=np.inf, keepdims=True), (WIDE,)),
    ("norm", lambda m, a: m.norm(a), (WIDE,)),
    ("norm axis", lambda m, a: m.norm(a, axis=1, keepdims=True), (WIDE,)),
    ("norm axes", lambda m, a: m.norm(a, 1, axis=(0, 2)), (WIDE,)),
)


@pytest.mark.parametrize(("name", "call", "arrays"), VALUES, ids=[case[0] for case in VALUES])
def test_the_value_is_numpys(name: str, call: Call, arrays: tuple[Any, ...]) -> None:
    wanted = call(np.linalg, *arrays)
    made = results(lambda *xs: call(tnp.linalg, *xs), *arrays)
    for mine, theirs in zip(made, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        close(mine, theirs, ulps=2000)


def test_rank_and_least_squares() -> None:
    (rank,) = results(lambda a: tnp.linalg.matrix_rank(a), DEFICIENT)
    assert (rank.dtype, rank.tolist()) == (np.int32, 2)
    (x,) = results(lambda a, b: tnp.linalg.lstsq(a, b), TALL, TALL[:, 0] + 1)
    close(x, np.linalg.lstsq(TALL, TALL[:, 0] + 1, rcond=None)[0], ulps=2000)


@pytest.mark.parametrize(
    "x", [TALL, WIDE, STACK, COMPLEX, np.float32(TALL)], ids=["tall", "wide", "stack", "c128", "f32"]
)
@pytest.mark.parametrize("whole", [False, True])
def test_factors_multiply_to_the_matrix(x: np.ndarray[Any, Any], whole: bool) -> None:
    q, r, u, s, vh = results(
        lambda a: (
            *tnp.linalg.qr(a, mode="complete" if whole else "reduced"),
            *tnp.linalg.svd(a, full_matrices=whole),
        ),
        x,
    )
    m, n = x.shape[-2:]
    k = min(m, n)
    assert (q.shape[-2:], r.shape[-2:]) == (((m, m), (m, n)) if whole else ((m, k), (k, n)))
    assert (u.shape[-1], vh.shape[-2]) == ((m, n) if whole else (k, k))
    close(q @ r, x, ulps=200)
    np.testing.assert_array_equal(r, np.triu(r))
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x, ulps=200)
    for basis in (q, u, np.conj(np.swapaxes(vh, -1, -2))):
        unit = np.broadcast_to(np.eye(basis.shape[-1], dtype=basis.dtype), (*basis.shape[:-2], *[basis.shape[-1]] * 2))
        close(np.conj(np.swapaxes(basis, -1, -2)) @ basis, unit, ulps=200)
    assert (np.diff(s) <= 0).all()


@pytest.mark.parametrize("x", [POSITIVE, HERMITIAN], ids=["f64", "c128"])
def test_eigenvectors_are_eigenvectors(x: np.ndarray[Any, Any]) -> None:
    values, vectors = results(lambda a: tuple(tnp.linalg.eigh(a)), x)
    close(x @ vectors, vectors * values, ulps=500)
    close(values, np.linalg.eigvalsh(x), ulps=500)


@pytest.mark.parametrize("size", [1e25, 1e-25, 1.0])
def test_qr_of_huge_and_tiny_matrices_does_not_overflow(size: float) -> None:
    x = np.float32(TALL * size)
    q, r = results(lambda a: tuple(tnp.linalg.qr(a)), x)
    close(q @ r, x, ulps=50)


def test_results_have_the_names_of_the_standard() -> None:
    x = tl.array(POSITIVE)
    assert tnp.linalg.qr(x)._fields == ("Q", "R")
    assert tnp.linalg.svd(x)._fields == ("U", "S", "Vh")
    assert tnp.linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert tnp.linalg.slogdet(x)._fields == ("sign", "logabsdet")


def test_the_gradient_of_a_norm_at_zero_is_zero() -> None:
    at = np.zeros(3, np.float32)
    assert np.asarray(tl.grad(lambda v: tnp.linalg.vector_norm(v))(at)).tolist() == [0, 0, 0]
    assert np.asarray(tl.grad(lambda v: tnp.std(v))(at)).tolist() == [0, 0, 0]
    np.testing.assert_allclose(
        np.asarray(tl.grad(lambda a: tnp.linalg.det(a))(SQUARE)),
        np.linalg.det(SQUARE) * np.linalg.inv(SQUARE).T,
        rtol=1e-9,
    )
