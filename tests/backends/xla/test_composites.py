"""Softmax, log_softmax and their gradients on XLA: rows of infinities and NaN, and the form that XLA fuses. Groups of
many nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backends.toolbox import traced
from backends.xla.kit import XLA, run

import torchlean as tl
from torchlean import ops
from torchlean.backends.xla.building import MANY, Built
from torchlean.ir.evaluate import denote

INF, NAN = float("inf"), float("nan")
ROWS = np.array(
    [
        [1.0, 2.0, 3.0, -4.0],
        [-INF, -INF, -INF, -INF],
        [-INF, 0.5, -INF, -INF],
        [INF, 0.0, 1.0, -INF],
        [INF, INF, -INF, 0.0],
        [NAN, 1.0, 2.0, 3.0],
        [-3e38, -3e38, -3.4e38, -INF],
        [3e38, 3.4e38, 0.0, -3e38],
        [0.0, 0.0, 0.0, 0.0],
    ]
)
SENT = np.random.default_rng(5).normal(size=ROWS.shape)
DEAD = np.zeros_like(SENT)
INFINITE = np.where(np.eye(len(ROWS), 4) > 0, INF, SENT)
TYPES = [np.float16, np.float32, np.float64]


def near(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    assert got.dtype == want.dtype
    epsilon = float(np.finfo(want.dtype).eps)
    np.testing.assert_allclose(got, want, rtol=16 * epsilon, atol=16 * epsilon)


@pytest.mark.parametrize("function", [ops.softmax, ops.log_softmax])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_of_infinities_and_nan(function: Callable[..., Any], dtype: Any, axis: int) -> None:
    with np.errstate(all="ignore"):
        x = ROWS.astype(dtype) if axis else ROWS.T.astype(dtype)
    graph = traced(lambda x: function(x, axis), x)
    near(run(graph, [x])[0], denote(graph, [x])[0])


@pytest.mark.parametrize("function", [ops.softmax, ops.log_softmax])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sent", [SENT, DEAD, INFINITE], ids=["numbers", "zeros", "infinities"])
def test_their_gradients_keep_the_policy_of_derivatives(function: Callable[..., Any], dtype: Any, sent: Any) -> None:
    """Zero cotangents stay zero where the slope is NaN, and so do infinite ones where it is zero."""
    with np.errstate(all="ignore"):
        x, ct = ROWS.astype(dtype), sent.astype(dtype)
    graph = traced(lambda x, ct: tl.vjp(function, x)[1](ct), x, ct)
    near(run(graph, [x, ct])[0], denote(graph, [x, ct])[0])


@pytest.mark.parametrize("function", [ops.softmax, ops.log_softmax])
def test_ieee_derivatives_have_plain_products(function: Callable[..., Any]) -> None:
    x, ct = ROWS[:1], SENT[:1]
    graph = traced(lambda x, ct: tl.vjp(function, x, ieee_derivatives=True)[1](ct), x, ct)
    near(run(graph, [x, ct])[0], denote(graph, [x, ct])[0])
    assert "select" not in Built(graph).text()
    assert "select" in Built(traced(lambda x, ct: tl.vjp(function, x)[1](ct), x, ct)).text()


def test_no_rows_and_no_entries() -> None:
    for shape in ((0, 3), (3, 0)):
        x = np.zeros(shape, np.float32)
        for function in (ops.softmax, ops.log_softmax):
            graph = traced(lambda x, f=function: (f(x), *tl.vjp(f, x)[1](x)), x)
            assert [each.shape for each in run(graph, [x])] == [shape, shape]


def test_the_softmax_of_attention_has_nothing_that_library_fusions_refuse() -> None:
    q = np.ones((2, 8, 4), np.float32)
    text = Built(traced(lambda q: ops.attention(q, q, q), q)).text()
    assert "stablehlo.exponential" in text
    assert "select" not in text
    assert "compare" not in text


def test_a_group_of_many_nodes_is_compiled_with_less_effort_and_not_listed() -> None:
    def deep(x: Any) -> Any:
        for _ in range(MANY):
            x = ops.sin(x)
        return x

    x = np.linspace(-1, 1, 5, dtype=np.float32)
    made = tl.lower(deep, x, profile=XLA)
    want = x
    for _ in range(MANY):
        want = np.sin(want)
    np.testing.assert_allclose(made(x).numpy(), want, rtol=1e-5)
    assert f'{MANY} nodes; as_text("stablehlo") has the program' in made.source
    assert made.as_text("stablehlo").count("stablehlo.sine") == MANY
    assert Built(made.graph)._options()["xla_backend_optimization_level"] == 1
    assert "xla_backend_optimization_level" not in Built(traced(ops.sin, x))._options()
