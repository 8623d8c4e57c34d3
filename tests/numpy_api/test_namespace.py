"""Creation, dtypes, sets, what is refused in a trace, and the array object; every refusal by its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_api.threeways import close, results

import torchlean as tl
import torchlean.numpy as tnp
from torchlean.errors import BackendMissing, OutOfRangeError, TorchLeanError, TraceError, TypeRuleError

X = np.array([[3, 1, 2], [1, 3, 3]], np.float32)


# -- creation ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (lambda: tnp.arange(5), np.arange(5, dtype=np.int32)),
        (lambda: tnp.arange(2, 11, 3), np.arange(2, 11, 3, dtype=np.int32)),
        (lambda: tnp.arange(5, 0, -2), np.arange(5, 0, -2, dtype=np.int32)),
        (lambda: tnp.arange(0.0, 1.0, 0.25), np.arange(0, 1, 0.25, dtype=np.float32)),
        (lambda: tnp.arange(3, dtype=tnp.float64), np.arange(3.0)),
        (lambda: tnp.arange(3, 1), np.arange(0, dtype=np.int32)),
        (lambda: tnp.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
        (lambda: tnp.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False, dtype=np.float32)),
        (lambda: tnp.linspace(0.1, 0.7, 1, dtype=tnp.float64), np.array([0.1])),
        (lambda: tnp.linspace(0, 1j, 3), np.linspace(0, 1j, 3).astype(np.complex64)),
        (lambda: tnp.logspace(0, 2, 3), np.array([1, 10, 100], np.float32)),
        (lambda: tnp.geomspace(1, 16, 5), np.array([1, 2, 4, 8, 16], np.float32)),
        (lambda: tnp.eye(2, 3, k=1), np.eye(2, 3, k=1, dtype=np.float32)),
        (lambda: tnp.tri(3, 4, -1), np.tri(3, 4, -1, dtype=np.float32)),
        (lambda: tnp.zeros((2, 0)), np.zeros((2, 0), np.float32)),
        (lambda: tnp.empty(2, dtype=tnp.int8), np.zeros(2, np.int8)),
        (lambda: tnp.full((2,), 7), np.full(2, 7, np.int32)),
        (lambda: tnp.full((2,), True), np.full(2, True)),
        (lambda: tnp.full((), 1j), np.full((), 1j, np.complex64)),
        (lambda: tnp.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]], np.int32)),
        (lambda: tnp.asarray([1.5, 2]), np.array([1.5, 2], np.float32)),
        (lambda: tnp.asarray([True]), np.array([True])),
        (lambda: tnp.asarray(np.arange(3)), np.arange(3)),
        (lambda: tnp.from_dlpack(np.arange(3)), np.arange(3)),
        (lambda: tnp.indices((2, 3)), np.indices((2, 3)).astype(np.int32)),
        (lambda: tnp.stack(list(tnp.tril_indices(3, 1))), np.stack(np.tril_indices(3, 1)).astype(np.int32)),
        (lambda: tnp.hanning(7), np.hanning(7).astype(np.float32)),
        (lambda: tnp.hamming(6), np.hamming(6).astype(np.float32)),
        (lambda: tnp.blackman(7), np.blackman(7).astype(np.float32)),
        (lambda: tnp.bartlett(7), np.bartlett(7).astype(np.float32)),
        (lambda: tnp.fft.fftfreq(5, d=0.5), np.fft.fftfreq(5, 0.5).astype(np.float32)),
        (lambda: tnp.fft.rfftfreq(6), np.fft.rfftfreq(6).astype(np.float32)),
    ],
)
def test_what_is_made_of_numbers(made: Callable[[], Any], wanted: Any) -> None:
    close(np.asarray(made()), wanted)
    (traced,) = results(lambda x: tnp.asarray(made()), np.zeros(()))
    close(traced, wanted)


def test_a_list_may_hold_traced_values() -> None:
    (made,) = results(lambda x: tnp.asarray([[x, 1.0], [x + x, x]]), np.float32(2).reshape(()))
    np.testing.assert_array_equal(made, np.float32([[2, 1], [4, 2]]))


def test_copy_is_false_only_where_nothing_is_copied() -> None:
    x = tl.array(X)
    assert tnp.asarray(x, copy=False) is x
    with pytest.raises(ValueError, match=r"asarray with copy=False: a ndarray may be written to"):
        tnp.asarray(X, copy=False)


# -- dtypes ------------------------------------------------------------------------------------------------------------
def test_dtypes_are_asked_about() -> None:
    assert tnp.float32 is tl.DType.F32
    assert tnp.result_type(tnp.int8, tnp.uint8) is tnp.int16
    assert tnp.result_type(tnp.float32, 1.5) is tnp.float32
    assert tnp.result_type(tnp.float64, 1j) is tnp.complex128
    assert tnp.result_type(tl.array(X), tnp.float64, 2) is tnp.float64
    assert (tnp.can_cast(tnp.int8, tnp.int16), tnp.can_cast(tnp.int16, tnp.int8)) == (True, False)
    assert tnp.isdtype(tnp.int8, ("signed integer", "bool"))
    assert not tnp.isdtype(tnp.int8, "real floating")
    assert (tnp.iinfo(tnp.int8).min, tnp.iinfo(tnp.uint16).max) == (-128, 65535)
    for dtype in (tnp.float16, tnp.float32, tnp.float64):
        mine, theirs = tnp.finfo(dtype), np.finfo(dtype.carrier)
        assert (mine.bits, mine.eps, mine.max, mine.min) == (theirs.bits, theirs.eps, theirs.max, theirs.min)
    assert tnp.finfo(tnp.complex64).dtype is tnp.float32
    assert tnp.finfo(tnp.bfloat16).eps == 2.0**-7


def test_the_namespace_says_what_it_is() -> None:
    info = tnp.__array_namespace_info__()
    assert tnp.__array_api_version__ == "2024.12"
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_dtypes() == {
        "real floating": tnp.float32,
        "complex floating": tnp.complex64,
        "integral": tnp.int32,
        "indexing": tnp.int32,
    }
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", "uint8", "uint16", "uint32", "uint64"}
    x = tl.array(X)
    assert x.__array_namespace__() is x.__array_namespace__(api_version="2023.12") is tnp
    assert tl.eval_shape(lambda v: v.__array_namespace__().sum(v), x).shape == ()
    with pytest.raises(ValueError, match="the Array API standard '1999' is not implemented"):
        x.__array_namespace__(api_version="1999")


def test_every_name_is_documented_and_there_are_enough() -> None:
    functions = [
        name for name in tnp.__all__ if callable(getattr(tnp, name)) and not isinstance(getattr(tnp, name), type)
    ]
    assert [name for name in functions if not getattr(tnp, name).__doc__] == []
    assert len(tnp.__all__) == len(set(tnp.__all__)) >= 330
    assert len(tnp.linalg.__all__) >= 27
    assert len(tnp.fft.__all__) == 18


# -- sizes that depend on values ---------------------------------------------------------------------------------------
def test_sets_are_numpys() -> None:
    x = tl.array(X)
    for name in ("unique_all", "unique_counts", "unique_inverse"):
        for mine, theirs in zip(getattr(tnp, name)(x), getattr(np, name)(X), strict=True):
            np.testing.assert_array_equal(np.asarray(mine), theirs)
    np.testing.assert_array_equal(np.asarray(tnp.unique_values(tl.array([2 + 1j, 1, 2 + 0j, 1]))), [1, 2, 2 + 1j])
    assert tnp.unique_values(tl.array([np.nan, np.nan, 1.0])).shape == (3,)
    a, b = np.int32([5, 1, 2, 1]), np.int32([2, 2, 7, 1])
    for name in ("intersect1d", "union1d", "setdiff1d", "setxor1d"):
        np.testing.assert_array_equal(np.asarray(getattr(tnp, name)(tl.array(a), tl.array(b))), getattr(np, name)(a, b))


def test_positions_are_numpys() -> None:
    x = tl.array(X)
    for mine, theirs in zip(tnp.nonzero(x - 1), np.nonzero(X - 1), strict=True):
        np.testing.assert_array_equal(np.asarray(mine), theirs)
    np.testing.assert_array_equal(np.asarray(tnp.argwhere(x > 1)), np.argwhere(X > 1))
    np.testing.assert_array_equal(np.asarray(tnp.flatnonzero(x > 1)), np.flatnonzero(X > 1))
    np.testing.assert_array_equal(np.asarray(tnp.extract(x > 1, x)), np.extract(X > 1, X))
    np.testing.assert_array_equal(np.asarray(tnp.compress(tl.array([True, False]), x, axis=0)), X[:1])
    np.testing.assert_array_equal(np.asarray(tnp.bincount(tl.array([1, 3, 1]))), [0, 2, 0, 1])


TRACED: tuple[tuple[str, Callable[[Any], Any], str], ...] = (
    ("nonzero", lambda x: tnp.nonzero(x), "use tnp.where(condition, x, fill), or tnp.nonzero(x) outside the trace"),
    ("where", lambda x: tnp.where(x > 0), "use tnp.where(condition, x, fill)"),
    ("unique", lambda x: tnp.unique_values(x), "find the unique entries outside the trace"),
    ("bincount", lambda x: tnp.bincount(tnp.astype(x[0], tnp.int32)), "give length=, the number of counts"),
    ("compress", lambda x: tnp.compress(x[0] > 0, x, axis=1), "use tnp.where(condition, x, fill)"),
    ("repeat", lambda x: tnp.repeat(x, tnp.astype(x[0], tnp.int32), axis=1), "give the counts as a Python int"),
)


@pytest.mark.parametrize(("name", "call", "fix"), TRACED, ids=[case[0] for case in TRACED])
def test_what_depends_on_values_is_refused_in_a_trace(name: str, call: Callable[[Any], Any], fix: str) -> None:
    with pytest.raises(TraceError) as caught:
        tl.make_graph(call)(X)
    text = str(caught.value)
    assert "the size of the result would depend on values (test_namespace.py:" in text
    assert f"fix:      {fix}" in text


REFUSED: tuple[tuple[type[TorchLeanError], Callable[[Any], Any], str, str], ...] = (
    (TypeRuleError, lambda x: tnp.sum([1, 2]), "sum of a list", "make it an array first: tnp.asarray(x)"),
    (TypeRuleError, lambda x: tnp.add(x, "1"), "add of a str", "make it an array first: tnp.asarray(x)"),
    (TypeRuleError, lambda x: tnp.mean(tl.array([1, 2])), "mean of i32[2]", "tnp.astype(x, tnp.float32)"),
    (TypeRuleError, lambda x: tnp.add(x, tl.array([1])), "no common type", "convert one operand"),
    (TypeRuleError, lambda x: tnp.concat((x, tl.array([[1]]))), "they have no common dtype", "tnp.astype"),
    (TypeRuleError, lambda x: tnp.concat(x), "concat of one Array", "write tnp.concat((x, y))"),
    (TypeRuleError, lambda x: tnp.stack(()), "stack of nothing", "pass arrays"),
    (OutOfRangeError, lambda x: tnp.sum(x, axis=2), "sum: axis 2 is out of range", "count axes from 0"),
    (TypeRuleError, lambda x: tnp.sum(x, axis=(0, 0)), "sum: an axis is named twice", "drop the repeated axis"),
    (TypeRuleError, lambda x: tnp.sum(x, axis=1.0), "axis=1.0 is not an integer", "convert it with int(axis)"),
    (TypeRuleError, lambda x: tnp.max(x, where=x > 1), "where= and no initial=", "give initial"),
    (TypeRuleError, lambda x: tnp.quantile(x, 1.5), "q=1.5 is no share", "divide by the total"),
    (TypeRuleError, lambda x: tnp.quantile(x, 0.5, method="x"), "there is no method='x'", "use one of those listed"),
    (TypeRuleError, lambda x: tnp.pad(x, 1, mode="x"), "pad: there is no mode='x'", "use one of those listed"),
    (TypeRuleError, lambda x: tnp.pad(x, -1), "pad by a negative width", "slice to crop"),
    (TypeRuleError, lambda x: tnp.pad(x, (1, 2, 3)), "pad_width=(1, 2, 3) does not fit 2 axes", "one pair for every"),
    (
        TypeRuleError,
        lambda x: tnp.einsum("ij,jk", x),
        "subscripts for 2 operands" if False else "einsum of 'ij,jk'",
        "tnp.einsum('ij,jk->ik'",
    ),
    (
        TypeRuleError,
        lambda x: tnp.einsum("ij,kj->il", x, x),
        "the result has 'l', no operand has",
        "one letter per axis",
    ),
    (TypeRuleError, lambda x: tnp.einsum("ij,jk->ik", x, x), "'j' is an axis of 3 entries and of 2", "one letter per"),
    (TypeRuleError, lambda x: tnp.einsum("i->i", x), "operand 0 is f32[2,3], its subscripts name 1 axes", "one letter"),
    (TypeRuleError, lambda x: tnp.split(x, 2, axis=1), "split of 3 entries into 2 equal parts", "tnp.array_split"),
    (TypeRuleError, lambda x: tnp.vecdot(x, x, axis=0), "vecdot along a non-negative axis", "count from the end"),
    (
        TypeRuleError,
        lambda x: tnp.tensordot(x, x),
        "axis 0 does not meet axis 0" if False else "tensordot of",
        "other axes",
    )
    if False
    else (
        TypeRuleError,
        lambda x: tnp.tensordot(x, x, axes=1),
        "tensordot of f32[2,3] with f32[2,3]: axis 1 does not meet axis 0",
        "name other axes",
    ),
    (TypeRuleError, lambda x: tnp.arange(3, step=0), "arange with step=0", "give a step"),
    (TypeRuleError, lambda x: tnp.linspace(0, 1, -1), "linspace of a negative count", "check num"),
    (TypeRuleError, lambda x: tnp.geomspace(-1, 1), "geomspace needs bounds of one sign", "use linspace"),
    (TypeRuleError, lambda x: tnp.astype(tl.array([1j]), tnp.float32), "would drop the imaginary part", "tnp.real(x)"),
    (
        TypeRuleError,
        lambda x: tnp.isdtype(tnp.int8, "integer"),
        "there is no kind='integer'",
        "use one of those listed",
    ),
    (TypeRuleError, lambda x: tnp.finfo(tnp.int8), "finfo of i8", "use tnp.iinfo"),
    (TypeRuleError, lambda x: tnp.iinfo(tnp.float32), "iinfo of f32", "use tnp.finfo"),
    (TypeRuleError, lambda x: tnp.reshape(x, (2.0, 3)), "shape=2.0 is not an integer", "int(shape)"),
    (TypeRuleError, lambda x: tnp.take(x, tl.array([0])), "take from f32[2,3] without an axis", "name the axis"),
    (
        OutOfRangeError,
        lambda x: tnp.take(x, tl.array([5]), axis=1),
        "take of f32[2,3]: index 5 is outside axis 1",
        "count from the end",
    ),
    (
        TypeRuleError,
        lambda x: tnp.take(x, 0, axis=0, mode="wrap"),
        "take: there is no mode 'wrap'",
        "use one of those listed",
    ),
    (TypeRuleError, lambda x: tnp.convolve(x, x), "convolve of f32[2,3] with f32[2,3]", "flatten them"),
    (TypeRuleError, lambda x: tnp.searchsorted(x, 1.0), "searchsorted in f32[2,3]", "use vmap for rows"),
    (TypeRuleError, lambda x: tnp.fft.rfft(tl.array([1j])), "rfft of a complex array", "use fft.fft"),
    (TypeRuleError, lambda x: tnp.fft.fft(x, norm="x"), "there is no norm='x'", "use one of those listed"),
    (
        TypeRuleError,
        lambda x: tnp.linalg.matrix_norm(x, ord=3),
        "matrix_norm: there is no ord=3",
        "one of those listed",
    ),
    (TypeRuleError, lambda x: tnp.linalg.matrix_power(x, 2), "matrix_power of f32[2,3]", "reshape it"),
    (
        BackendMissing,
        lambda x: tnp.zeros(3, device="gpu"),
        "zeros: there is no device 'gpu'" if False else "there is no device 'gpu'",
        "leave device out",
    ),
)


@pytest.mark.parametrize(("error", "call", "what", "fix"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_is_refused_says_how_to_go_on(error: Any, call: Callable[[Any], Any], what: str, fix: str) -> None:
    with pytest.raises(error) as caught:
        call(tl.array(X))
    first, *rest = str(caught.value).splitlines()
    assert what in first
    assert "test_namespace.py:" in first
    assert [line.split(":")[0].strip() for line in rest[:3]] == ["expected", "got", "fix"]
    assert fix in rest[2]


# -- the array object --------------------------------------------------------------------------------------------------
def test_operators_of_integers_follow_python() -> None:
    a, b = np.int32([7, -7, 7, -7]), np.int32([2, 2, -2, -2])
    (q, r, both, either, one, none, up, down, power) = results(
        lambda x, y: (x // y, x % y, x & y, x | y, x ^ y, ~x, x << 2, x >> 1, x ** (y * y)), a, b
    )
    assert q.tolist() == [int(x) // int(y) for x, y in zip(a, b, strict=True)]
    assert r.tolist() == [int(x) % int(y) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(np.stack([both, either, one, none]), np.stack([a & b, a | b, a ^ b, ~a]))
    np.testing.assert_array_equal(np.stack([up, down, power]), np.stack([a << 2, a >> 1, a**4]))
    x = tl.array([5, -5])
    assert np.asarray(divmod(x, 3)[1]).tolist() == [2, 1]
    assert np.asarray(17 // x).tolist() == [3, -4]
    assert np.asarray(2 ** tl.array([0, 3, -1])).tolist() == [1, 8, 0]
    assert np.asarray((-1) ** tl.array([2, 3, -1])).tolist() == [1, -1, -1]
    assert np.asarray(-tl.array(np.uint8([1, 0]))).tolist() == [255, 0]
    assert np.asarray(abs(tl.array(np.uint8([200])))).tolist() == [200]


def test_an_operator_in_place_binds_the_name_anew() -> None:
    x = y = tl.array([1, 2])
    x += 1
    x *= 3
    x //= 2
    x <<= 1
    assert (np.asarray(x).tolist(), np.asarray(y).tolist()) == ([6, 8], [1, 2])


def test_attributes_of_the_standard() -> None:
    x = tl.array(np.zeros((2, 3, 4), np.float32))
    assert (x.device, x.ndim, x.size, x.mT.shape, x.T.shape) == ("cpu", 3, 24, (2, 4, 3), (4, 3, 2))
    assert x.to_device("cpu") is x
    with pytest.raises(TypeRuleError, match=r"f32\[2,3,4\] cannot be moved to 'gpu'"):
        x.to_device("gpu")
