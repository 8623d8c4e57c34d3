"""checkify: faults as values, with their text, line, place and example, under jit, vmap and grad."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import debug, ops
from torchlean.debug import Errors
from torchlean.errors import CheckFailed

X = np.array([1.0, 2.0, 3.0], np.float32)


def program(x: Any, i: Any) -> Any:
    debug.check(x > 0, "x must be positive, is {x}", x=x)
    picked = ops.take(x, i)
    return picked / (x[1] - 2.5) + ops.sqrt(x[2])


FIRST = program.__code__.co_firstlineno
# x, i, kinds looked for → the error's text without its line, and the line's offset
CASES: tuple[tuple[str, Any, int, Errors, str | None, int], ...] = (
    ("nothing", X, 1, Errors.ALL, None, 0),
    ("user", X - 1, 1, Errors.USER, "x must be positive, is [0. 1. 2.] at [0]", 1),
    ("user first", X - 1, 9, Errors.ALL, "x must be positive, is [0. 1. 2.] at [0]", 1),
    ("index above", X, 3, Errors.ALL, "index 3 is outside axis 0 of gather of f32[3], i32[]", 2),
    ("index below", X, -1, Errors.INDEX, "index -1 is outside axis 0 of gather of f32[3], i32[]", 2),
    ("not asked for", X, 3, Errors.DIV | Errors.NAN, None, 0),
    ("div", X + 0.5, 0, Errors.ALL, "div of f32[], f32[] divides by 0", 3),
    ("nan", np.array([1, 2, -1], np.float32), 0, Errors.NAN, "sqrt of f32[] made NaN", 3),
)
WAYS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda f: f,
    "jit": tl.jit,
    "as aux of a gradient": lambda f: lambda *a: _gradient(f)(*a),
    "as aux of a jitted gradient": lambda f: lambda *a: tl.jit(_gradient(f))(*a),
}


def _gradient(checked: Any) -> Any:
    def loss(x: Any, i: Any) -> Any:
        error, value = checked(x, i)
        return value, error

    def run(x: Any, i: Any) -> Any:
        gradient, error = tl.grad(loss, has_aux=True)(x, i)
        return error, gradient

    return run


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_the_error_names_check_place_and_line(case: Any, way: str) -> None:
    _, x, i, errors, text, offset = case
    checked = debug.checkify(program, errors)
    if way != "plain" and errors is Errors.USER and text is None:
        pytest.skip("a check that is not taken over raises")
    quiet = Errors.USER in errors or (x > 0).all()
    if not quiet:
        with pytest.raises(CheckFailed):
            WAYS[way](checked)(x, np.int32(i))
        return
    error, _ = WAYS[way](checked)(x, np.int32(i))
    want = None if text is None else f"{text} (test_checkify.py:{FIRST + offset} in program)"
    assert error.get() == want
    if want is None:
        error.throw()
    else:
        with pytest.raises(CheckFailed) as failed:
            error.throw()
        assert str(failed.value).splitlines()[0] == want


@pytest.mark.parametrize("jitted", [False, True])
def test_under_vmap_the_first_example_at_fault_is_named(jitted: bool) -> None:
    run = tl.vmap(debug.checkify(program, Errors.ALL))
    run = tl.jit(run) if jitted else run
    error, out = run(np.stack([X, X, X - 1]), np.array([0, 7, 1], np.int32))
    assert out.shape == (3,)
    assert error.get() == (
        f"index 7 is outside axis 0 of gather of f32[3], i32[] in example [1] (test_checkify.py:{FIRST + 2} in program)"
    )
    error, _ = run(np.stack([X, X, X - 1]), np.array([0, 1, 1], np.int32))
    assert error.get() == (
        f"x must be positive, is [0. 1. 2.] at [0] of example [2] (test_checkify.py:{FIRST + 1} in program)"
    )
    error, _ = run(np.stack([X, X, X]), np.array([0, 1, 1], np.int32))
    assert error.get() is None


def test_of_a_mapped_function() -> None:
    error, _ = debug.checkify(tl.vmap(program), Errors.ALL)(np.stack([X, X - 1]), np.array([0, 1], np.int32))
    assert error.get() == (
        f"x must be positive, is [0. 1. 2.] at [0] of example [1] (test_checkify.py:{FIRST + 1} in program)"
    )


def test_of_a_gradient_the_derivatives_nodes_are_checked_too() -> None:
    def f(x: Any) -> Any:
        return ops.select(x > 0, ops.sqrt(x), 0.0).sum()

    raw = tl.grad(f, ieee_derivatives=True)
    error, _ = debug.checkify(raw, Errors.NAN)(np.array([0.0, 1.0], np.float32))
    assert (
        error.get() == f"mul of f32[2], f32[2] made NaN at [0] (test_checkify.py:{f.__code__.co_firstlineno + 1} in f)"
    )


def test_values_and_gradients_are_those_of_the_function() -> None:
    checked = debug.checkify(program, Errors.ALL)
    _, out = checked(X, np.int32(1))
    assert out.item() == program(tl.array(X), tl.array(1)).item()
    got, _ = tl.grad(lambda x, i: checked(x, i)[::-1], has_aux=True)(X, np.int32(1))
    assert np.array_equal(got.numpy(), tl.grad(program)(X, np.int32(1)).numpy())


def test_composites_keep_their_kernels_and_are_checked_inside() -> None:
    def f(x: Any) -> Any:
        return ops.softmax(x)

    def within(x: Any) -> Any:
        debug.check(x < 10, "too large: {x}", x=x)
        debug.print("still printed", to=lines.append)
        return x / (x - 2)

    lines: list[str] = []
    graph = tl.make_graph(debug.checkify(f, Errors.ALL))(X)
    assert "softmax" in {node.op.name for node in graph.nodes}
    op = tl.composite("quotient", within, reduces=False, reduces_in_gradient=False, doc="x / (x - 2)")
    run = tl.jit(debug.checkify(lambda x: ops.call(op, x), Errors.ALL))
    assert run(X + 0.5)[0].get() is None
    assert "div of f32[3], f32[3] divides by 0 at [1]" in str(run(X)[0].get())
    assert "too large: [10. 11. 12.] at [0]" in str(run(X + 9)[0].get())
    assert lines == ["still printed"] * 3


def test_a_custom_rule_stays() -> None:
    @tl.custom_jvp
    def f(x: Any) -> Any:
        debug.check(x > 0, "x is {x}", x=x)
        return x * x

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 7))
    checked = debug.checkify(f)
    assert tl.grad(lambda x: checked(x)[1])(np.float32(3)).item() == 7
    assert "x is -3.0" in str(checked(np.float32(-3))[0].get())


def test_scatters_and_empty_arrays() -> None:
    def f(x: Any, i: Any) -> Any:
        return ops.scatter_add(x, i, x[:2])

    checked = debug.checkify(f, Errors.INDEX)
    assert "index 8 is outside axis 0 of scatter_add" in str(checked(X, np.array([0, 8], np.int32))[0].get())
    assert checked(X, np.array([0, 2], np.int32))[0].get() is None
    empty = debug.checkify(lambda x: ops.log(x) / x, Errors.ALL)(np.zeros((0, 3), np.float32))[0]
    assert empty.get() is None
    assert repr(empty) == "Error(none in 0 checks)"


def test_the_error_shows_itself() -> None:
    error, _ = debug.checkify(program, Errors.ALL)(X, np.int32(3))
    assert repr(error).startswith("Error(index 3 is outside axis 0 of gather")
    seen: list[str] = []

    def f(x: Any, i: Any) -> Any:
        error, out = debug.checkify(program)(x, i)
        seen.append(repr(error))
        return out

    tl.make_graph(f)(X, np.int32(1))
    assert seen == ["Error(traced, 1 checks)"]


DIVIDED: dict[str, Any] = {
    "/": lambda x, n: x / (x - 1),
    "//": lambda x, n: x // (x - 1),
    "%": lambda x, n: x % (x - 1),
    "fmod": lambda x, n: ops.rem(x, x - 1),
    "// of integers": lambda x, n: n // (n - 4),
    "% of integers": lambda x, n: n % (n - 4),
    "rem of integers": lambda x, n: ops.rem(n, n - 4),
}


@pytest.mark.parametrize("name", DIVIDED)
def test_every_way_to_divide_is_checked(name: str) -> None:
    x, n = np.array([3.0, 1.0, 2.0]), np.array([5, 4, 6], np.int32)
    error, _ = debug.checkify(DIVIDED[name], Errors.DIV)(x, n)
    assert "divides by 0 at [1] (test_checkify.py:" in (error.get() or "")
    error, _ = debug.checkify(DIVIDED[name], Errors.DIV)(x + 1, n + 4)
    assert error.get() is None


WRITTEN = ("set", "add", "multiply", "min", "max", "power", "divide", "subtract")


@pytest.mark.parametrize("name", WRITTEN)
def test_every_way_to_write_entries_is_checked(name: str) -> None:
    """A write outside is dropped, and said; one inside is not."""
    checked = debug.checkify(lambda x, i: getattr(x.at[i], name)(2.0), Errors.INDEX)
    error, made = checked(np.ones(3), np.int32(7))
    assert "index 7 is outside axis 0" in (error.get() or "")
    assert np.asarray(made).tolist() == [1.0, 1.0, 1.0]
    error, _ = checked(np.ones(3), np.int32(2))
    assert error.get() is None


def test_the_ops_that_are_checked_exist() -> None:
    module = importlib.import_module("torchlean.debug.checkify")
    assert {op.name for op in ops.ALL_OPS} >= module._INDEXED | module._DIVIDING
    scatters = {op.name for op in ops.ALL_OPS if op.name.startswith("scatter")}
    assert scatters | {"gather"} == module._INDEXED
