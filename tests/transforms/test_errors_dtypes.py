"""What is never done silently: float64 is not narrowed, integers do not wrap, Python numbers take the array's dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from transforms.refusals import refused

import torchlean as tl
from torchlean import ops
from torchlean.errors import TypeRuleError
from torchlean.ir.ops.promote import promote_dtypes

D3 = np.array([1.0, 2.0, 3.0])
F3 = D3.astype(np.float32)
H3 = D3.astype(np.float16)
FINE = 1.0 + 2.0**-40  # a float64 that float32 would round to 1


def types_of(f: Callable[..., Any], *arguments: Any) -> list[str]:
    """The output types of the traced function; running it eagerly must give the same."""
    traced = [str(type) for type in tl.make_graph(f)(*arguments).output_types]
    eager = f(*[ops.constant(argument) for argument in arguments])
    results = eager if isinstance(eager, tuple) else (eager,)
    assert [str(result.type) for result in results] == traced
    return traced


# -- float64 stays -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("f", "arguments", "types"),
    [
        (lambda x: x, (D3,), ["f64[3]"]),
        (lambda x: x * 2.0 + 1, (D3,), ["f64[3]"]),
        (lambda x, y: x + y, (D3, F3), ["f64[3]"]),
        (lambda x, y: y * x, (D3, F3), ["f64[3]"]),
        (lambda x, y: x / y, (F3, H3), ["f32[3]"]),
        (lambda x, y: x @ y, (D3, F3), ["f64[]"]),
        (lambda x: x * np.float64(FINE), (F3,), ["f64[3]"]),
        (lambda x: x * np.float32(2), (D3,), ["f64[3]"]),
        (lambda x: x * FINE, (F3,), ["f32[3]"]),
        (lambda x: ops.max(x, 0.0), (D3,), ["f64[3]"]),
        (lambda x: ops.select(x > 1.0, x, 0.0), (D3,), ["f64[3]"]),
        (lambda x: ops.sum(x), (D3,), ["f64[]"]),
        (lambda x: ops.mean(x), (D3,), ["f64[]"]),
        (lambda x: ops.softmax(x), (D3,), ["f64[3]"]),
        (lambda x: ops.gelu(x), (D3,), ["f64[3]"]),
        (lambda x: ops.clamp(x, -1.0, 1), (D3,), ["f64[3]"]),
        (lambda x: x**2, (D3,), ["f64[3]"]),
        (lambda x: x**0.5, (D3,), ["f64[3]"]),
        (lambda x: 2.0**x, (D3,), ["f64[3]"]),
        (lambda x: ops.layer_norm(x), (D3,), ["f64[3]"]),
        (lambda x: ops.pad(x, 0.0, [(1, 1)]), (D3,), ["f64[5]"]),
        (lambda x: ops.convert(x, "f32"), (D3,), ["f32[3]"]),
        (lambda x: ops.convert(x, np.float64), (F3,), ["f64[3]"]),
        (lambda x: x.astype("float16"), (D3,), ["f16[3]"]),
    ],
)
def test_the_dtype_of_a_result(f: Callable[..., Any], arguments: tuple[Any, ...], types: list[str]) -> None:
    assert types_of(f, *arguments) == types


def test_float64_keeps_its_last_bits_through_every_transform() -> None:
    """Value, gradient, tangent, pullback, map, Jacobian, Hessian and compiled program of x ↦ x·x at 1 + 2⁻⁴⁰."""
    x, one = np.float64(FINE), np.float64(1)

    def square(x: Any) -> Any:
        return x * x

    exact = FINE * FINE
    for value in (
        square(ops.constant(x)),
        tl.value_and_grad(square)(x)[0],
        tl.jvp(square, (x,), (one,))[0],
        tl.vjp(square, x)[0],
        tl.linearize(square, x)[0],
        tl.jit(square)(x),
        tl.lower(square, x)(x),
        tl.vmap(square)(np.array([x]))[0],
    ):
        assert float(value) == exact
        assert str(value.type) == "f64[]"
    for slope in (
        tl.grad(square)(x),
        tl.jvp(square, (x,), (one,))[1],
        tl.vjp(square, x)[1](one)[0],
        tl.linearize(square, x)[1](one),
        tl.jacfwd(square)(x),
        tl.jacrev(square)(x),
        tl.vmap(tl.grad(square))(np.array([x]))[0],
        tl.hessian(lambda x: x * x * x)(x) / 3.0,
    ):
        assert float(slope) == pytest.approx(2 * FINE, rel=2.0**-52)
        assert float(slope) != 2.0
        assert str(slope.type) == "f64[]"


def test_constants_keep_the_dtype_of_their_data() -> None:
    for data, dtype in (
        (D3, "f64"),
        (np.float64(FINE), "f64"),
        (np.int64(3), "i64"),
        ([np.float64(FINE), 2.0], "f64"),
        ([1.0, 2.0], "f32"),
        (1.5, "f32"),
        (3, "i32"),
        (True, "bool"),
        (np.arange(3), "i64"),
        (D3.astype(">f8"), "f64"),
    ):
        assert ops.constant(data).type.dtype.short == dtype
    assert float(ops.constant([np.float64(FINE)])[0]) == FINE
    assert ops.full((2,), np.float64(FINE)).type.dtype is tl.DType.F64
    assert float(ops.full((), np.float64(FINE))) == FINE


def test_python_numbers_are_weak_and_arrays_are_not() -> None:
    """A Python number takes the dtype of the array beside it; a NumPy scalar has its own."""
    for dtype in ("f16", "f32", "f64"):
        x = ops.convert(D3, dtype)
        for made in (x + 1, 1 + x, x * 0.5, 0.5 - x, x / 3, ops.max(x, 1), x**2, -x, ops.clamp(x, 0, 1.5)):
            assert made.type.dtype.short == dtype
    for dtype in ("i8", "u8", "i32", "u64", "i64"):
        x = ops.convert(D3, dtype)
        for made in (x + 1, 2 * x, x**2, ops.min(x, 3)):
            assert made.type.dtype.short == dtype


def test_the_promotion_table_is_the_array_api_standards() -> None:
    """Symmetric, idempotent, and NumPy's wherever it is defined; integer with float is not, but for bytes of images."""
    numbers = [dtype for dtype in tl.DType if dtype.is_integer or dtype in (tl.DType.F16, tl.DType.F32, tl.DType.F64)]
    tried = 0
    for x in numbers:
        assert promote_dtypes(x, x) is x
        for y in numbers:
            common = promote_dtypes(x, y)
            assert promote_dtypes(y, x) is common
            numpy = np.promote_types(x.carrier, y.carrier)
            if x.is_float == y.is_float and numpy.kind in ("iu" if x.is_integer else "f"):
                assert common is not None
                assert common.carrier == numpy
            elif tl.DType.U8 in (x, y) and x.is_float != y.is_float:
                assert common is (x if x.is_float else y)
            else:
                assert common is None
            tried += 1
    assert tried == 11 * 11


# -- what would lose something is refused ------------------------------------------------------------------------------
@refused(
    TypeRuleError,
    """
full of u8[2] with 300: it is not in [0, 255] (@)
  expected: a number that u8 can hold
  got:      300
  fix:      name a dtype that holds it
""",
)
def test_full_of_a_number_the_dtype_cannot_hold() -> None:
    ops.full((2,), 300, "u8")


@refused(
    TypeRuleError,
    """
full of i32[2] with 0.5: it is no integer (@)
  expected: a number that i32 can hold
  got:      0.5
  fix:      name a dtype that holds it
""",
)
def test_full_of_a_fraction_in_integers() -> None:
    ops.full((2,), 0.5, "i32")


@refused(
    TypeRuleError,
    """
add of f32[3] with 1e+39: it is too large (@)
  expected: a number that f32 can hold
  got:      1e+39
  fix:      convert the tensor first to a dtype that holds the number
""",
)
def test_a_python_float_too_large_for_the_dtype() -> None:
    tl.make_graph(lambda x: x + 1e39)(F3)


@refused(
    TypeRuleError,
    """
mul of f16[3] with 100000.0: it is too large (@)
  expected: a number that f16 can hold
  got:      100000.0
  fix:      convert the tensor first to a dtype that holds the number
""",
)
def test_a_python_float_too_large_for_half_precision() -> None:
    ops.mul(H3, 1e5)


def test_infinities_and_rounding_are_not_losses() -> None:
    """An infinity is a value of every float dtype, and rounding a Python float is what weak means."""
    assert float(ops.max(F3, float("inf"))[0]) == np.inf
    assert float((H3 * ops.full((3,), 0.1, "f16"))[0]) == np.float16(0.1)
    assert float(ops.add(F3, FINE)[0]) == 2.0
    assert np.isnan(float(ops.full((), float("nan"))))
