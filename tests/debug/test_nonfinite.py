"""check_nan, check_finite and nan_checks name the op, its types, the user's line and what the operands were."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import debug, ops
from torchlean.errors import NonFiniteError, TraceError, TypeRuleError

X = np.array([1.0, 2.0, 3.0], np.float32)
NEGATIVE = np.array([1.0, -2.0, 3.0], np.float32)
WITH_ZERO = np.array([0.0, 1.0, 4.0], np.float32)


def line_of(f: Callable[..., Any], offset: int = 1) -> str:
    return f"test_nonfinite.py:{f.__code__.co_firstlineno + offset} in {f.__name__}"


def refusal(f: Callable[..., Any], *arguments: Any) -> str:
    with pytest.raises(NonFiniteError) as caught:
        f(*arguments)
    assert len(str(caught.value).splitlines()) <= 6
    return str(caught.value)


def logarithm(x: Any) -> Any:
    return ops.log(x).sum()


def test_the_first_op_is_named_with_its_operands() -> None:
    assert refusal(debug.check_nan(logarithm), NEGATIVE) == (
        f"log of f32[3] made NaN at [1] ({line_of(logarithm)})\n"
        "  expected: no NaN from operands without one\n"
        "  got:      operand 0: f32[3], min -2.0, max 3.0, there -2.0\n"
        "  fix:      keep the argument where log is finite: ops.max(x, small), or select a safe argument first"
    )


@pytest.mark.parametrize("transform", [tl.jit, tl.value_and_grad, tl.vmap, lambda f: tl.lower(f, X)])
def test_transformed_jitted_and_lowered_functions_are_walked_too(transform: Any) -> None:
    given = NEGATIVE[:, None] if transform is tl.vmap else NEGATIVE
    index = "[1, 0]" if transform is tl.vmap else "[1]"
    assert refusal(debug.check_nan(transform(logarithm)), given).startswith(
        f"log of {tl.array(given).type} made NaN at {index} ({line_of(logarithm)})"
    )


def test_a_function_without_fault_gives_its_result() -> None:
    for transform in (lambda f: f, tl.jit, tl.grad, lambda f: tl.lower(f, X)):
        got = debug.check_nan(transform(logarithm))(X)
        want = transform(logarithm)(tl.array(X))
        assert np.array_equal(np.asarray(got), np.asarray(want))


def masked(x: Any) -> Any:
    return ops.select(x > 0, 1.0 / x, 0.0).sum()


def test_a_fault_in_a_gradient_names_the_forward_op() -> None:
    raw = tl.grad(masked, ieee_derivatives=True)
    text = refusal(debug.check_nan(raw), WITH_ZERO)
    assert text.splitlines()[0].endswith(f"made NaN at [0], in the derivative of div ({line_of(masked)})")
    assert "choose the argument before the op" in text


def overflow(x: Any) -> Any:
    return ops.exp(x * 100).sum()


def test_infinities_count_when_asked_for() -> None:
    assert np.isinf(debug.check_nan(overflow)(X).item())
    assert refusal(debug.check_finite(overflow), X).splitlines()[0] == (
        f"exp of f32[3] made inf at [0] ({line_of(overflow)})"
    )


def through_softmax(x: Any) -> Any:
    return ops.softmax(x * np.inf)


def test_a_composite_is_looked_into() -> None:
    first = refusal(debug.check_nan(lambda x: ops.log_softmax(x)), np.array([np.inf, 1.0], np.float32)).splitlines()[0]
    assert "inside log_softmax" in first
    assert first.endswith(
        f"(test_nonfinite.py:{test_a_composite_is_looked_into.__code__.co_firstlineno + 1} in <lambda>)"
    )


def inner(x: Any) -> Any:
    return ops.sqrt(x)


def test_a_users_composite_shows_both_lines() -> None:
    op = tl.composite("root", inner, reduces=False, reduces_in_gradient=False, doc="√")

    def outer(x: Any) -> Any:
        return ops.call(op, x).sum()

    assert refusal(debug.check_nan(tl.jit(outer)), NEGATIVE).splitlines()[0] == (
        f"sqrt of f32[3] made NaN at [1], inside root at {line_of(inner)} ({line_of(outer)})"
    )


def test_a_loop_names_the_step() -> None:
    def step(carry: Any, x: Any) -> Any:
        return carry - 1, ops.log(carry)

    def loop(x: Any) -> Any:
        return tl.scan(step, x[1], x)

    assert refusal(debug.check_finite(loop), X).splitlines()[0] == (
        f"log of f32[] made -inf, inside scan (step 2) at {line_of(step)} ({line_of(loop)})"
    )


def test_branches_and_while_loops_are_looked_into() -> None:
    def branch(x: Any) -> Any:
        return tl.cond(x[0] > 0, lambda x: ops.log(x), lambda x: x, x)

    def repeat(x: Any) -> Any:
        return tl.while_loop(lambda c: c[0] > -2, lambda c: ops.sqrt(c - 1), x)

    assert "inside cond (branch" in refusal(debug.check_nan(branch), NEGATIVE)
    assert "inside while (step 1)" in refusal(debug.check_nan(repeat), X)


def test_what_came_in_is_blamed_on_the_argument_or_the_constant() -> None:
    def scaled(p: Any, x: Any) -> Any:
        return p["w"] * x

    assert (
        refusal(debug.check_nan(scaled), {"w": np.array([1, np.nan], np.float32)}, X[:2])
        .splitlines()[0]
        .startswith("args[0]['w'] of f32[2] holds NaN at [1], and so does the result of scaled; no op made one")
    )
    assert (
        refusal(debug.check_nan(lambda x: x * np.float32("nan")), X)
        .splitlines()[0]
        .startswith(
            "constant of f32[] holds NaN, and so does the result of <lambda>; no op made one (test_nonfinite.py:"
        )
    )
    assert debug.check_nan(lambda x: ops.select(x == x, x, 0.0))(np.array([np.nan, 1], np.float32))[0].item() == 0


def test_a_fresh_nan_beside_an_old_one_is_found() -> None:
    assert "at [1]" in refusal(debug.check_nan(ops.log), np.array([np.nan, -1.0], np.float32))


def test_large_operands_are_described_and_never_printed() -> None:
    text = refusal(debug.check_nan(logarithm), np.linspace(-1, 1, 10_000, dtype=np.float32))
    assert "operand 0: f32[10000], min -1.0, max 1.0, there -1.0" in text
    assert max(map(len, text.splitlines())) < 160


def test_inside_a_trace_it_is_refused() -> None:
    with pytest.raises(TraceError) as refused:
        tl.jit(debug.check_nan(logarithm))(X)
    assert str(refused.value).splitlines()[0].startswith("check_nan of logarithm inside a trace (test_nonfinite.py:")


# -- eager -------------------------------------------------------------------------------------------------------------
def test_eager_code_is_watched_inside_the_block_only() -> None:
    x = tl.array(NEGATIVE)
    ops.log(x)
    with debug.nan_checks():
        text = refusal(ops.log, x)
        assert refusal(lambda: ops.log_softmax(tl.array([np.inf, 1.0], np.float32))).count("inside log_softmax") == 1
    assert text.startswith("log of f32[3] made NaN at [1] (test_nonfinite.py:")
    ops.log(x)
    with debug.nan_checks(infinities=True):
        assert refusal(lambda: tl.array(X) / 0.0).startswith("div of f32[3], f32[3] made inf at [0]")


def test_gradients_in_the_block_are_watched_and_name_the_op() -> None:
    with debug.nan_checks():
        tl.grad(logarithm)(X)
        text = refusal(tl.grad(masked, ieee_derivatives=True), WITH_ZERO)
    assert f"in the derivative of div ({line_of(masked)})" in text.splitlines()[0]


def test_the_tape_is_watched_and_names_the_op_and_its_line() -> None:
    with tl.Session(track_gradients=True) as session:
        x = session.parameter(WITH_ZERO, "x")
        with debug.nan_checks(infinities=True):
            here = f"test_nonfinite.py:{sys._getframe().f_lineno + 1} in"
            y = ops.sqrt(x).sum()
            text = refusal(session.backward, y)
        assert "in the derivative of sqrt" in text.splitlines()[0]
        assert here in text.splitlines()[0]
        assert session.tape.examine is None


def test_a_lowered_program_is_watched_by_its_results() -> None:
    f = tl.jit(logarithm)
    f(NEGATIVE)
    with debug.nan_checks():
        text = refusal(f, NEGATIVE)
    assert text.startswith("a lowered function returned nan in result 0, f32[] (test_nonfinite.py:")
    assert "debug.check_nan(f)" in text


def test_the_block_is_refused_in_a_trace_and_errors_leave_it_clean() -> None:
    def f(x: Any) -> Any:
        with debug.nan_checks():
            return x

    with pytest.raises(TraceError, match=r"debug\.nan_checks inside a trace"):
        tl.jit(f)(X)
    with pytest.raises(TypeRuleError), debug.nan_checks():
        ops.add(tl.array(X), tl.array(np.ones(2, np.float32)))
    ops.log(tl.array(NEGATIVE))
