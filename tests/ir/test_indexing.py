"""The functions that cut, join and index, and every refusal of those ops by its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torchlean.errors import OutOfRangeError, TypeRuleError
from torchlean.ir.builder import bind
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.op import Op
from torchlean.ir.ops.cut import CONCATENATE, PAD, SLICE, Joined, Strided, Widths
from torchlean.ir.ops.gather import GATHER, SCATTER_ADD, Along, Mode
from torchlean.ir.ops.index import concatenate, pad, scatter_add, slice_, stack, take, take_along_axis
from torchlean.ir.ops.random import RANDOM_BITS, Algorithm, Draw
from torchlean.ir.ops.reduce import ARGMAX, REDUCE_MAX, ArgAxis
from torchlean.ir.ops.spread import Axes
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, type_of_array

X = np.arange(15, dtype=np.float64).reshape(3, 5)


def run(f: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Trace `f` on the arrays and evaluate the graph."""
    graph = trace_flat(lambda *xs: (f(*xs),), [type_of_array(array) for array in arrays]).graph
    return denote(graph, arrays)[0]


# -- values ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [0, 1, -1, -2])
@pytest.mark.parametrize("indices", [2, -1, [0, 2], [], [[0, -1], [2, 1]], np.array([1, -3], dtype=np.int8)])
def test_take_is_numpy_take(indices: Any, axis: int) -> None:
    want = np.take(X, np.asarray(indices, dtype=np.int64), axis)
    np.testing.assert_array_equal(run(lambda x: take(x, indices, axis), X), want)


def test_a_constant_index_wraps_and_a_traced_one_does_not() -> None:
    index = np.array([-1, 1, 7], dtype=np.int32)
    np.testing.assert_array_equal(run(lambda x: take(x, [-1, 1]), X[0]), [4, 1])
    np.testing.assert_array_equal(run(take, X[0], index), [0, 1, 0])
    np.testing.assert_array_equal(run(lambda x, i: take(x, i, mode=Mode.CLIP), X[0], index), [0, 1, 4])


def test_a_wrapped_index_keeps_its_value_whatever_its_dtype() -> None:
    long = np.arange(300, dtype=np.float32)
    np.testing.assert_array_equal(run(lambda x: take(x, np.array([-1], dtype=np.int8)), long), [299])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis_is_numpys(axis: int) -> None:
    indices = np.argsort(-X, axis=axis).astype(np.int32)
    want = np.take_along_axis(X, indices, axis)
    np.testing.assert_array_equal(run(lambda x: take_along_axis(x, indices, axis), X), want)
    np.testing.assert_array_equal(run(lambda x, i: take_along_axis(x, i, axis), X, indices), want)


def test_scatter_add_is_numpy_add_at() -> None:
    want = X.copy()
    updates = np.arange(6, dtype=np.float64).reshape(3, 2)
    np.add.at(want, (slice(None), [1, -1]), updates)
    np.testing.assert_array_equal(run(lambda x, u: scatter_add(x, [1, -1], u, axis=1), X, updates), want)


def test_slice_pad_concatenate_and_stack() -> None:
    np.testing.assert_array_equal(run(lambda x: slice_(x, (1, 0), (3, 5), (1, 2)), X), X[1:, ::2])
    np.testing.assert_array_equal(run(lambda x: slice_(x, (1, 0), (3, 5)), X), X[1:])
    want = np.pad(X, ((1, 0), (0, 2)), constant_values=7.0)
    np.testing.assert_array_equal(run(lambda x: pad(x, 7, ((1, 0), (0, 2))), X), want)
    np.testing.assert_array_equal(run(lambda x: pad(x, 7, ((0, 0, 1), (-1, -1))), X)[::2], X[:, 1:-1])
    for axis in (0, 1, -1):
        joined = run(lambda x, y, axis=axis: concatenate([x, y], axis), X, -X)
        np.testing.assert_array_equal(joined, np.concatenate([X, -X], axis))
    for axis in (0, 1, 2, -1, -3):
        np.testing.assert_array_equal(run(lambda x, y, axis=axis: stack([x, y], axis), X, -X), np.stack([X, -X], axis))
    np.testing.assert_array_equal(run(lambda x: stack([x, x]), X[0, 0, ...]), [0, 0])


# -- refusals of the functions: the whole text -------------------------------------------------------------------------
def refusal(error: type[Exception], f: Callable[..., Any], *arrays: Any) -> str:
    """The text of the error, without the line number of this file."""
    with pytest.raises(error) as caught:
        run(f, *arrays)
    text = str(caught.value)
    assert "test_indexing.py:" in text  # the user's line
    return "\n".join([line.split(" (test_indexing.py:")[0] for line in text.splitlines()])


def test_a_constant_index_out_of_range_is_refused() -> None:
    for index, shown in (([0, 5], 5), (-6, -6), (np.array([2**64 - 1], dtype=np.uint64), 2**64 - 1)):
        text = refusal(OutOfRangeError, lambda x, index=index: take(x, index, axis=1), X)
        assert text == (
            f"take of f64[3,5]: index {shown} is outside axis 1\n"
            "  expected: an index in [-5, 5)\n"
            f"  got:      {shown}\n"
            "  fix:      check the index; negative ones count from the end"
        )
    assert issubclass(OutOfRangeError, IndexError)
    assert "no index: the axis is empty" in refusal(OutOfRangeError, lambda x: take(x, 0), X[:0])
    assert "take_along_axis of f64[5]: index 9" in refusal(OutOfRangeError, lambda x: take_along_axis(x, [9], 0), X[0])
    assert "scatter_add of f64[5]: index 9" in refusal(OutOfRangeError, lambda x: scatter_add(x, 9, 1.0), X[0])


def test_an_axis_that_is_not_there_is_refused() -> None:
    for what, f in (
        ("take", lambda x: take(x, 0, axis=2)),
        ("take_along_axis", lambda x: take_along_axis(x, [[0]], 2)),
        ("scatter_add", lambda x: scatter_add(x, 0, x, axis=2)),
        ("concatenate", lambda x: concatenate([x, x], 2)),
    ):
        assert refusal(TypeRuleError, f, X) == (
            f"{what} of f64[3,5]: there is no axis 2\n"
            "  expected: an axis in [-2, 2)\n"
            "  got:      2\n"
            "  fix:      name an existing axis; negative ones count from the end"
        )
    assert "an operand with at least one axis" in refusal(TypeRuleError, lambda x: take(x, 0), X[0, 0, ...])
    assert refusal(TypeRuleError, lambda x: stack([x, x], 3), X) == (
        "stack of f64[3,5]: no new axis fits at 3\n"
        "  expected: an axis in [-3, 3)\n"
        "  got:      3\n"
        "  fix:      name a position in the result"
    )
    assert refusal(TypeRuleError, lambda x: take_along_axis(x, [[0], [1]], 1), X) == (
        "take_along_axis of f64[3,5] with indices i32[2,1]: shapes differ outside axis 1\n"
        "  expected: indices of shape [3, 'any']\n"
        "  got:      [2, 1]\n"
        "  fix:      broadcast the indices; or use ops.take, which reads whole slices"
    )


# -- refusals of the type rules ----------------------------------------------------------------------------------------
F32, I32, BOOL = DType.F32, DType.I32, DType.BOOL
FILL, CLIP = Mode.FILL, Mode.CLIP


def _t(dtype: DType, *shape: int) -> TensorType:
    return TensorType(shape, dtype)


REFUSED: tuple[tuple[Op, Any, tuple[TensorType, ...], str, str], ...] = (
    (SLICE, Strided((0,), (3,), (1,)), (_t(F32, 3, 5),), "starts do not match the rank", "2 starts, one per axis"),
    (SLICE, Strided((0,), (4,), (1,)), (_t(F32, 3),), "the slice of axis 0 is out of range", "0 ≤ start ≤ limit ≤ 3"),
    (SLICE, Strided((2,), (1,), (1,)), (_t(F32, 3),), "the slice of axis 0 is out of range", "start 2, limit 1"),
    (SLICE, Strided((0,), (3,), (0,)), (_t(F32, 3),), "the slice of axis 0 is out of range", "stride 0"),
    (PAD, Widths((0,), (0,), (0,)), (_t(F32, 3), _t(I32)), "the padding value does not fit", "f32[]"),
    (PAD, Widths((0,), (0,), (0,)), (_t(F32, 3), _t(F32, 1)), "the padding value does not fit", "f32[1]"),
    (PAD, Widths((), (0,), (0,)), (_t(F32, 3), _t(F32)), "low do not match the rank", "1 low, one per axis"),
    (
        PAD,
        Widths((-2,), (-2,), (0,)),
        (_t(F32, 3), _t(F32)),
        "the padding of axis 0 is out of range",
        "low -2, high -2",
    ),
    (PAD, Widths((0,), (0,), (-1,)), (_t(F32, 3), _t(F32)), "the padding of axis 0 is out of range", "interior -1"),
    (CONCATENATE, Joined(0), (), "there is nothing to join", "one operand or more"),
    (CONCATENATE, Joined(1), (_t(F32, 3),), "there is no axis 1 to join along", "an axis in [0, 1)"),
    (
        CONCATENATE,
        Joined(0),
        (_t(F32, 3, 5), _t(F32, 3, 4)),
        "the operands do not join along axis 0",
        "f32[3,5], f32[3,4]",
    ),
    (CONCATENATE, Joined(0), (_t(F32, 3), _t(I32, 3)), "the operands do not join along axis 0", "f32[3], i32[3]"),
    (
        GATHER,
        Along(0, 0, FILL),
        (_t(F32, 3), _t(F32, 2)),
        "a floating point operand is not allowed",
        "signed integer or",
    ),
    (GATHER, Along(0, 0, FILL), (_t(F32, 3), _t(BOOL, 2)), "a bool operand", "got:      bool"),
    (GATHER, Along(1, 0, FILL), (_t(F32, 3), _t(I32, 2)), "axis 1 with 0 paired axes does not fit", "axis < 1"),
    (GATHER, Along(0, 1, FILL), (_t(F32, 3), _t(I32, 3)), "axis 0 with 1 paired axes does not fit", "axis 0, 1 paired"),
    (
        GATHER,
        Along(1, 1, FILL),
        (_t(F32, 3, 5), _t(I32, 2)),
        "the paired leading axes differ",
        "indices of shape [3] + any",
    ),
    (GATHER, Along(0, 0, CLIP), (_t(F32, 0), _t(I32, 2)), "axis 0 is empty", "an axis of at least one entry"),
    (
        SCATTER_ADD,
        Along(0, 0, FILL),
        (_t(BOOL, 3), _t(I32, 2), _t(BOOL, 2)),
        "a bool operand is not allowed",
        "got:      bool",
    ),
    (
        SCATTER_ADD,
        Along(0, 0, FILL),
        (_t(F32, 3), _t(I32, 2), _t(F32, 3)),
        "the updates do not fit",
        "expected: f32[2]",
    ),
    (REDUCE_MAX, Axes((0,)), (_t(BOOL, 3),), "a bool operand is not allowed", "got:      bool"),
    (REDUCE_MAX, Axes((1,)), (_t(F32, 3),), "the axes are not axes of the operand", "increasing axes in [0, 1)"),
    (REDUCE_MAX, Axes((0,)), (_t(F32, 0, 3),), "no entry to choose from", "at least one entry along axes [0]"),
    (ARGMAX, ArgAxis(0), (_t(F32, 0),), "no entry to choose from", "f32[0]"),
    (ARGMAX, ArgAxis(0), (_t(BOOL, 3),), "a bool operand is not allowed", "got:      bool"),
    (ARGMAX, ArgAxis(2), (_t(F32, 3),), "the axes are not axes of the operand", "increasing axes in [0, 1)"),
    (ARGMAX, ArgAxis(0, DType.I8), (_t(F32, 200),), "i8 cannot number the positions of axis 0", "dtype that holds 199"),
    (ARGMAX, ArgAxis(0, F32), (_t(F32, 3),), "f32 cannot number the positions", "an integer dtype"),
    (RANDOM_BITS, Draw((3,), Algorithm.THREEFRY2X32), (_t(DType.U32, 3),), "not a key of threefry2x32", "u32[…, 2]"),
    (RANDOM_BITS, Draw((3,), Algorithm.SPLITMIX64), (_t(DType.U32, 2),), "not a key of splitmix64", "u64[…]"),
    (RANDOM_BITS, Draw((-1,), Algorithm.SPLITMIX64), (_t(DType.U64),), "the shape has a negative size", "[-1]"),
)


@pytest.mark.parametrize(("op", "params", "types", "what", "detail"), REFUSED)
def test_a_type_rule_refuses(op: Op, params: Any, types: tuple[TensorType, ...], what: str, detail: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        trace_flat(lambda *xs: bind(op, params, *xs), types)
    text = str(caught.value)
    assert text.startswith(op.name)
    assert what in text.splitlines()[0]
    assert detail in text
    assert "test_indexing.py:" in text.splitlines()[0]
    assert [line.split(":")[0].strip() for line in text.splitlines()[1:]] == ["expected", "got", "fix"]
