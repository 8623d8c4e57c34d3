"""Samplers against JAX's values and their own moments."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torchlean import random

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
COUNT = 20_000


def array(x: Any) -> np.ndarray[Any, Any]:
    return np.asarray(x)


# -- JAX ---------------------------------------------------------------------------------------------------------------
AS_JAX: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("exponential", lambda r, k: r.exponential(k, (50,))),
    ("gumbel", lambda r, k: r.gumbel(k, (50,))),
    ("laplace", lambda r, k: r.laplace(k, (50,))),
    ("logistic", lambda r, k: r.logistic(k, (50,))),
    ("cauchy", lambda r, k: r.cauchy(k, (50,))),
    ("rademacher", lambda r, k: r.rademacher(k, (50,))),
    ("truncated_normal", lambda r, k: r.truncated_normal(k, -1.5, 0.5, (50,))),
    ("permutation", lambda r, k: r.permutation(k, 40)),
    ("permutation of rows", lambda r, k: r.permutation(k, np.arange(30, dtype=np.float32).reshape(10, 3))),
    ("choice without replacement", lambda r, k: r.choice(k, 30, (7,), replace=False)),
    ("categorical", lambda r, k: r.categorical(k, np.float32([[0.1, 2.0, -1.0], [1.0, 1.0, 1.0]]))),
    ("categorical shaped", lambda r, k: r.categorical(k, np.float32([[0.1, 2.0, -1.0]]), axis=1, shape=(9, 1))),
)


@needs_jax
@pytest.mark.parametrize(("name", "draw"), AS_JAX, ids=[case[0] for case in AS_JAX])
def test_the_values_are_jaxs(name: str, draw: Callable[..., Any]) -> None:
    import jax

    for seed in (0, 7):
        mine, theirs = array(draw(random, random.key(seed))), array(draw(jax.random, jax.random.key(seed)))
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        if mine.dtype.kind == "i":
            np.testing.assert_array_equal(mine, theirs)
        else:
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-6)


# -- moments: five standard errors -------------------------------------------------------------------------------------
MOMENTS: tuple[tuple[str, Callable[[Any], Any], float, float], ...] = (
    ("exponential", lambda k: random.exponential(k, (COUNT,)), 1, 1),
    ("gumbel", lambda k: random.gumbel(k, (COUNT,)), 0.5772157, np.pi / np.sqrt(6)),
    ("laplace", lambda k: random.laplace(k, (COUNT,)), 0, np.sqrt(2)),
    ("logistic", lambda k: random.logistic(k, (COUNT,)), 0, np.pi / np.sqrt(3)),
    ("truncated_normal", lambda k: random.truncated_normal(k, -1.0, 1.0, (COUNT,)), 0, 0.5396),
    ("rademacher", lambda k: random.rademacher(k, (COUNT,), "f32"), 0, 1),
    ("gamma 3", lambda k: random.gamma(k, 3.0, (COUNT,)), 3, np.sqrt(3)),
    ("gamma ½", lambda k: random.gamma(k, 0.5, (COUNT,)), 0.5, np.sqrt(0.5)),
    ("gamma f64", lambda k: random.gamma(k, 3.0, (COUNT,), "f64"), 3, np.sqrt(3)),
    ("beta", lambda k: random.beta(k, 2.0, 3.0, (COUNT,)), 0.4, 0.2),
    ("dirichlet", lambda k: random.dirichlet(k, np.float32([1, 2, 1]), (COUNT,))[:, 1], 0.5, np.sqrt(0.05)),
    ("choice", lambda k: random.choice(k, np.float32([0, 1, 2, 3]), (COUNT,)), 1.5, np.sqrt(1.25)),
    ("choice weighted", lambda k: random.choice(k, np.float32([0, 5]), (COUNT,), p=np.float32([0.8, 0.2])), 1, 2),
    ("categorical", lambda k: random.categorical(k, np.log(np.float32([0.5, 0.5])), shape=(COUNT,)), 0.5, 0.5),
    ("uniform bf16", lambda k: random.uniform(k, (COUNT,), "bf16").astype("f32"), 0.496, 0.2887),
)


@pytest.mark.parametrize(("name", "draw", "mean", "spread"), MOMENTS, ids=[case[0] for case in MOMENTS])
def test_the_moments_are_those_of_the_distribution(
    name: str, draw: Callable[[Any], Any], mean: float, spread: float
) -> None:
    draws = array(draw(random.key(42))).astype(np.float64)
    assert draws.shape == (COUNT,)
    assert np.isfinite(draws).all()
    assert abs(draws.mean() - mean) < 5 * spread / np.sqrt(COUNT)
    assert abs(draws.std() - spread) < 0.06 * spread + 1e-9


def test_no_entry_is_drawn_twice_without_replacement() -> None:
    drawn = array(random.choice(random.key(1), 10, (10,), replace=False))
    assert sorted(drawn.tolist()) == list(range(10))
    weighted = array(random.choice(random.key(1), 4, (3,), replace=False, p=np.float32([0.7, 0.1, 0.1, 0.1])))
    assert len(set(weighted.tolist())) == 3
