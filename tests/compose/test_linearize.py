"""linearize and vjp evaluate the function once; their maps are linear, exact and may be called any number of times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from compose.twins import TWINS, Twin, direction, jax_derivatives, near

import torchlean as tl
from torchlean import ops


@pytest.mark.parametrize("twin", TWINS, ids=repr)
def test_both_maps_are_jaxs_jacobian_every_time(twin: Twin) -> None:
    want = jax_derivatives(twin)
    value, pushforward = tl.linearize(twin.ours, twin.point)
    same, pullback = tl.vjp(twin.ours, twin.point)
    near(value, want.value)
    near(same, want.value)
    for seed in range(5):
        v, ct = direction(seed), direction(seed + 50, len(want.value))
        near(pushforward(v), want.first @ v)
        near(pullback(ct)[0], ct @ want.first)


def test_the_function_runs_once_however_often_its_maps_are_called() -> None:
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(1)
        return ops.sin(x) * x

    x = direction(0, 3)
    _, pushforward = tl.linearize(f, x)
    _, pullback = tl.vjp(f, x)
    assert len(calls) == 2
    first = [np.asarray(pushforward(x)).tobytes(), np.asarray(pullback(x)[0]).tobytes()]
    for _ in range(20):
        assert [np.asarray(pushforward(x)).tobytes(), np.asarray(pullback(x)[0]).tobytes()] == first
    assert len(calls) == 2


def test_both_maps_are_linear_in_their_argument() -> None:
    x = direction(0, 4)
    _, pushforward = tl.linearize(lambda x: ops.softmax(x) * x, x)
    _, pullback = tl.vjp(lambda x: ops.softmax(x) * x, x)
    u, v = direction(1, 4), direction(2, 4)
    near(pushforward(2.0 * u - v), 2 * np.asarray(pushforward(u)) - np.asarray(pushforward(v)))
    near(pullback(2.0 * u - v)[0], 2 * np.asarray(pullback(u)[0]) - np.asarray(pullback(v)[0]))


def test_the_maps_keep_the_point_they_were_made_at() -> None:
    x = np.array([1.0, 2.0])
    _, pushforward = tl.linearize(lambda x: x * x, x)
    _, pullback = tl.vjp(lambda x: x * x, x)
    x[:] = 100.0  # the caller's array changes afterwards
    near(pushforward(np.ones(2)), np.array([2.0, 4.0]))
    near(pullback(np.ones(2))[0], np.array([2.0, 4.0]))


def test_trees_of_primals_tangents_and_cotangents() -> None:
    primals = {"w": direction(0, 3), "b": (np.float64(0.5), None)}, [direction(1, 3)]

    def f(p: Any, xs: Any) -> Any:
        return {"y": p["w"] * xs[0] + p["b"][0], "n": (ops.sum(p["w"]),)}

    value, pushforward = tl.linearize(f, *primals)
    assert sorted(value) == ["n", "y"]
    tangents = {"w": np.ones(3), "b": (np.float64(2.0), None)}, [np.zeros(3)]
    moved = pushforward(*tangents)
    near(moved["y"], primals[1][0] + 2.0)
    near(moved["n"][0], np.asarray(3.0))
    _, pullback = tl.vjp(f, *primals)
    pulled, to_xs = pullback({"y": np.ones(3), "n": (np.float64(4.0),)})
    near(pulled["w"], primals[1][0] + 4.0)
    near(pulled["b"][0], np.asarray(3.0))
    assert pulled["b"][1] is None
    near(to_xs[0], primals[0]["w"])


def test_integer_primals_have_zero_cotangents_and_integer_outputs_zero_tangents() -> None:
    index = np.array([1, 0], dtype=np.int32)
    _value, pullback = tl.vjp(lambda x, i: ops.take(x, i) * 2.0, direction(0, 3), index)
    to_x, to_index = pullback(np.ones(2))
    near(to_x, np.array([2.0, 2.0, 0.0]))
    assert np.asarray(to_index).tolist() == [0, 0]
    (count, _y), (count_moved, y_moved) = tl.jvp(lambda x: (ops.argmax(x), x * 2.0), (direction(0, 3),), (np.ones(3),))
    assert np.asarray(count_moved) == 0
    near(y_moved, np.full(3, 2.0))
    assert np.asarray(count).dtype == np.int32


def test_a_constant_function_has_zero_derivatives() -> None:
    x = direction(0, 3)
    value, pullback = tl.vjp(lambda x: ops.full((2,), 3.0, "f64"), x)
    near(value, np.full(2, 3.0))
    near(pullback(np.ones(2))[0], np.zeros(3))
    value, pushforward = tl.linearize(lambda x: ops.full((2,), 3.0, "f64"), x)
    near(pushforward(np.ones(3)), np.zeros(2))
    near(tl.grad(lambda x: ops.full((), 3.0, "f64"))(x), np.zeros(3))


def test_the_maps_compose_with_every_transform() -> None:
    x = direction(0, 3)
    _, pushforward = tl.linearize(lambda x: ops.sin(x) * x, x)
    _, pullback = tl.vjp(lambda x: ops.sin(x) * x, x)
    slope = np.cos(x) * x + np.sin(x)
    near(tl.vmap(pushforward)(np.eye(3)), np.diag(slope))
    near(tl.vmap(pullback)(np.eye(3))[0], np.diag(slope))
    near(tl.grad(lambda v: ops.sum(pushforward(v) ** 2))(x), 2 * slope**2 * x)
    near(tl.jvp(lambda ct: pullback(ct)[0], (x,), (np.ones(3),))[1], slope)
    near(tl.jit(pushforward)(x), slope * x)


def test_a_map_made_inside_a_trace_may_be_called_there() -> None:
    """The pullback of an inner function, used twice by an outer gradient."""

    def outer(x: Any) -> Any:
        y, pullback = tl.vjp(lambda z: z * z * x, x)
        return ops.sum(pullback(y)[0] + pullback(ops.full_like(y, 1))[0])

    x = np.array([0.7, -1.3])
    # pullback(ct) = 2·x·x·ct with y = x³: 2x⁵ + 2x², so the gradient is 10x⁴ + 4x
    near(tl.grad(outer)(x), 10 * x**4 + 4 * x)
