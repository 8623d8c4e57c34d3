"""Arrays: what data becomes, what can be read, and that nothing handed out can change them."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest
from backends.toolbox import same_bits, traced

from torchlean.errors import TraceError, TypeRuleError
from torchlean.ir import ops
from torchlean.ir.dtypes import DType
from torchlean.runtime import Array, Session, array


@pytest.mark.parametrize(
    ("data", "dtype", "expected"),
    [
        (1.5, None, "f32[]"),
        (3, None, "i32[]"),
        (True, None, "bool[]"),
        ([1.0, 2], None, "f32[2]"),
        ([[1, 2], [3, 4]], None, "i32[2,2]"),
        ([], None, "f32[0]"),
        (range(3), None, "i32[3]"),
        (np.ones(2), None, "f64[2]"),
        (np.int64(3), None, "i64[]"),
        ([np.float64(1), 2.0], None, "f64[2]"),
        ([np.float32(1), 2.0, 3], None, "f32[3]"),
        (np.ones(2, dtype=">f4"), None, "f32[2]"),
        ([1, 2], "f64", "f64[2]"),
        (np.ones(2), np.float32, "f32[2]"),
        ([1.0, 2.0], "i8", "i8[2]"),
        (2**40, "i64", "i64[]"),
        (2**63, "u64", "u64[]"),
    ],
)
def test_what_data_becomes(data: Any, dtype: Any, expected: str) -> None:
    made = array(data, dtype)
    assert str(made.type) == expected
    assert np.array_equal(np.asarray(made), np.asarray(data))


REFUSED = (
    (2**31, None, "the Python integer 2147483648 does not fit i32", "array(data, dtype='i64')"),
    ([2**70], None, "an integer fits no dtype", "scale the data"),
    ([[1], [2, 3]], None, "a list is not rectangular data", "pad the rows"),
    ("text", None, "a str is not numeric data", "pass numbers"),
    ([1.5], "i32", "fractions do not fit int32", "round it first"),
    ([float("nan")], "i32", "fractions do not fit int32", "round it first"),
    (300, "i8", "the integer 300 does not fit int8", "wider dtype"),
    (np.array([-1]), "u8", "the integer -1 does not fit uint8", "wider dtype"),
)


@pytest.mark.parametrize(("data", "dtype", "what", "fix"), REFUSED)
def test_data_that_would_be_narrowed_is_refused(data: Any, dtype: Any, what: str, fix: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        array(data, dtype)
    text = str(caught.value)
    assert text.startswith(f"array: {what} (test_array.py:")
    assert fix in text
    assert len(text.splitlines()) <= 6


def test_complex_data_is_kept_and_python_numbers_become_c64() -> None:
    assert array(np.ones(2, dtype=np.complex128)).type.dtype is DType.C128
    assert array([1j, 2.0]).type.dtype is DType.C64
    with pytest.raises(TypeRuleError, match="complex numbers do not fit float32"):
        array([1j], "f32")


def test_an_array_copies_its_data() -> None:
    host = np.arange(3.0)
    made = array(host)
    host[0] = 9
    assert made.tolist() == [0.0, 1.0, 2.0]


def test_inside_a_trace_data_becomes_a_constant() -> None:
    graph = traced(lambda x: x + array([1.0, 2.0]), np.zeros(2, np.float32))
    assert [node.op.name for node in graph.nodes] == ["constant", "add"]
    assert str(traced(lambda x: array(x, "f64"), np.zeros(2, np.float32)).output_types[0]) == "f64[2]"
    with pytest.raises(TraceError, match=r"conversion to a NumPy array of a traced"):
        traced(lambda x: array([x, x]), np.zeros((), np.float32))


# -- reading -----------------------------------------------------------------------------------------------------------
def test_exported_views_share_memory_and_are_read_only() -> None:
    x = array([1.0, 2.0])
    for view in (np.asarray(x), x.numpy(), np.asarray(x, copy=False), np.from_dlpack(x)):
        assert np.shares_memory(view, x.buffer.array)
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 5
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
    own = np.array(x)
    own[0] = 5
    assert x.tolist() == [1.0, 2.0]
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, dtype=np.float64, copy=False)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i8", "i64", "u32", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_dlpack_round_trip(dtype: str, shape: tuple[int, ...]) -> None:
    x = array(np.ones(shape), dtype)
    back = np.from_dlpack(x)
    assert same_bits(back, x)
    assert x.__dlpack_device__() == (1, 0)
    assert array(back).type == x.type


def test_an_old_dlpack_consumer_gets_a_copy() -> None:
    x = array([1.0, 2.0])

    class Old:
        """A consumer that does not name a version, so that it cannot be told that memory is read-only."""

        def __dlpack__(self, **options: Any) -> Any:
            return x.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    assert not np.shares_memory(np.from_dlpack(Old()), x.buffer.array)
    with pytest.raises(BufferError, match="cannot be lent without a copy"):
        x.__dlpack__(copy=False)


def test_scalars_read_as_python_numbers() -> None:
    assert float(array(1.5)) == 1.5
    assert int(array([3])) == 3
    assert complex(array(1.5)) == 1.5
    assert bool(array(0)) is False
    assert array([[2.5]]).item() == 2.5
    assert [10, 20, 30][array(1)] == 20
    assert array([[1, 2]]).tolist() == [[1, 2]]
    assert len(array([1, 2, 3])) == 3
    assert [x.item() for x in array([1, 2])] == [1, 2]
    assert array([[1, 2]]).shape == (1, 2)
    assert array(1.0).device == "cpu"


@pytest.mark.parametrize(
    ("read", "what", "fix"),
    [
        (float, "float() of f32[2]", "reduce it first"),
        (int, "int() of f32[2]", "reduce it first"),
        (bool, "bool() of f32[2]", "reduce it first"),
        (lambda x: x.item(), "item() of f32[2]", "reduce it first"),
        (lambda x: [0][x], "use of f32[2] as a Python index", "ops.take"),
        (lambda x: iter(x[0]), "iteration over the scalar f32[]", "x.item()"),
    ],
)
def test_what_has_no_single_number_is_refused(read: Any, what: str, fix: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        read(array([1.0, 2.0]))
    text = str(caught.value)
    assert text.startswith(f"{what} (test_array.py:")
    assert fix in text


def test_item_assignment_is_refused_with_a_fix() -> None:
    x = array([1.0, 2.0])
    with pytest.raises(TypeRuleError) as caught:
        x[0] = 3.0
    first, *rest = str(caught.value).splitlines()
    assert re.fullmatch(
        r"item assignment to f32\[2\]: arrays are immutable \(test_array\.py:\d+ in test_item.*\)", first
    )
    assert rest == [
        "  expected: a new array",
        "  got:      x[0] = …",
        "  fix:      write x = x.at[index].set(value)",
    ]
    y = x
    y += 1
    assert x.tolist() == [1.0, 2.0]
    assert y.tolist() == [2.0, 3.0]


def test_numpy_operands_on_either_side() -> None:
    x = array([1.0, 2.0])
    for made in (np.float32(2) + x, np.array([2, 2], np.float32) + x, x + np.float32(2)):
        assert isinstance(made, Array)
        assert made.tolist() == [3.0, 4.0]


# -- Python's protocols ------------------------------------------------------------------------------------------------
def test_repr_is_short() -> None:
    assert repr(array([1.0, 2.5])) == "Array([1. , 2.5], f32[2])"
    assert repr(array(3)) == "Array(3, i32[])"
    assert repr(array(np.arange(1000))) == "Array([  0,   1,   2, ..., 997, 998, 999], i64[1000])"
    x = array([1.0])
    x.buffer.release()
    assert repr(x) == "Array(released, f32[1])"


def test_copies_and_pickles() -> None:
    with Session(track_gradients=True) as session:
        x = session.parameter([1.0, 2.0], "w")
    assert copy.copy(x) is x
    assert copy.deepcopy({"w": x})["w"] is x
    back = pickle.loads(pickle.dumps(x))
    assert same_bits(back, x)
    assert back.type == x.type
    assert back.node == -1
    assert back.session is not session


def test_arrays_hash_by_identity_and_compare_by_entry() -> None:
    x, y = array([1.0, 2.0]), array([1.0, 3.0])
    assert len({x, y, x}) == 2
    assert (x == y).tolist() == [True, False]
    assert ops.eq(x, y).type == (x == y).type
