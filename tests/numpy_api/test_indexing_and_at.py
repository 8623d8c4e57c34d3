"""`x[key]` with index arrays and masks, and `x.at[key]`, against NumPy; modes; and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy_api.threeways import results

import torchlean as tl
from torchlean.errors import OutOfRangeError, TypeRuleError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4, 5)).astype(np.float32)

STATIC: tuple[Any, ...] = (
    0,
    -1,
    slice(1, 3),
    slice(None, None, -2),
    (Ellipsis, 1),
    (None, 0, None),
    (0, slice(None), [1, 2]),
    ([0, 1], slice(None), [1, -1]),
    (slice(None), [0, 1], [1, -1]),
    ([[0], [2]], [1, 2]),
    (slice(None), 0, [1, 2]),
    (0, [1, 2]),
    ([1, 2], 0),
    ([1, 2], None, [0, 1]),
    (None, [0, 1]),
    (Ellipsis, [0, 1]),
    ([0, 1], Ellipsis, [0, 1]),
    ([0, 0, 2], slice(3, 0, -1)),
    (np.zeros((0,), int), []),
    ([], slice(1, 2)),
)
MASKS: tuple[Any, ...] = (
    np.array([True, False, True]),
    (slice(None), np.array([True, False, True, True])),
    X > 0,
    (slice(None), X[0] > 0),
    (0, X[0] > 0),
    ([0], X[0, :, 0] > 100),
    True,
    False,
    (True, 0),
)


def name(key: Any) -> str:
    return str(key).replace("\n", "")[:40]


def repeats(key: Any) -> bool:
    """Whether a key names an entry twice."""
    numbers = np.arange(X.size).reshape(X.shape)[key]
    return np.unique(numbers).size < numbers.size


def arrays_in(key: Any) -> list[Any]:
    return [k for k in (key if isinstance(key, tuple) else (key,)) if isinstance(k, list | np.ndarray)]


def with_arrays(key: Any, given: Any) -> Any:
    """The key with its index arrays replaced."""
    found = iter(given)
    keys = key if isinstance(key, tuple) else (key,)
    return tuple([next(found) if isinstance(k, list | np.ndarray) else k for k in keys])


@pytest.mark.parametrize("key", STATIC, ids=name)
def test_static_and_traced_positions_are_numpys(key: Any) -> None:
    (made,) = results(lambda x: x[key], X)
    np.testing.assert_array_equal(made, X[key])
    for dtype in (np.int8, np.int64):
        indices = [np.asarray(each, dtype=dtype) for each in arrays_in(key)]
        (made,) = results(lambda x, *given: x[with_arrays(key, given)], X, *indices)
        np.testing.assert_array_equal(made, X[key])


@pytest.mark.parametrize("key", MASKS, ids=name)
def test_masks_are_numpys(key: Any) -> None:
    np.testing.assert_array_equal(np.asarray(tl.array(X)[key]), X[key])


def test_a_mask_has_a_gradient_in_a_session() -> None:
    session = tl.Session(track_gradients=True)
    with session:
        x = session.parameter(np.float32([1, -2, 3]))
        session.backward((x[np.array([True, False, True])] ** 2).sum())
        assert np.asarray(session.gradient(x)).tolist() == [2, 0, 6]


UPDATES = ("set", "add", "subtract", "multiply", "min", "max", "divide", "power")
BY_NUMPY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "divide": np.divide,
}


def updated(how: str, x: Any, key: Any, values: Any) -> Any:
    """NumPy's answer, for keys without duplicates."""
    made = x.copy()
    made[key] = values if how == "set" else made[key] ** values if how == "power" else BY_NUMPY[how](made[key], values)
    return made


@pytest.mark.parametrize("how", UPDATES)
@pytest.mark.parametrize("key", [key for key in STATIC if not repeats(key)], ids=name)
def test_updates_are_numpys(how: str, key: Any) -> None:
    values = np.float32(2) if how == "power" else np.abs(RNG.normal(size=X[key].shape)).astype(np.float32) + 1
    (made,) = results(lambda x, v: getattr(x.at[key], how)(v), X, np.asarray(values))
    np.testing.assert_allclose(made, updated(how, X, key, values), rtol=3e-7)


def test_masks_are_updated_eagerly() -> None:
    (made,) = [np.asarray(tl.array(X).at[X > 0].set(0.0))]
    np.testing.assert_array_equal(made, np.where(X > 0, np.float32(0), X))


def test_duplicates_accumulate_and_the_last_is_kept() -> None:
    x, i, v = np.zeros(3, np.float32), np.int32([1, 1, -2, 2]), np.float32([1, 2, 3, 4])
    added, kept, product, high = results(
        lambda x, i, v: (x.at[i].add(v), x.at[i].set(v), (x + 1).at[i].multiply(v), x.at[i].max(v)), x, i, v
    )
    assert [each.tolist() for each in (added, kept, product, high)] == [[0, 6, 4], [0, 3, 4], [1, 6, 4], [0, 3, 4]]


@pytest.mark.parametrize(
    ("mode", "read", "written"),
    [("fill", [2, 0, 0], [0, 9, 0]), ("drop", [2, 0, 0], [0, 9, 0]), ("clip", [2, 3, 1], [9, 9, 9])],
)
def test_traced_positions_outside_follow_the_mode(mode: str, read: list[float], written: list[float]) -> None:
    x, i = np.float32([1, 2, 3]), np.int32([1, 7, -9])
    got, put = results(lambda x, i: (x.at[i].get(mode=mode), (0 * x).at[i].set(9.0, mode=mode)), x, i)
    assert (got.tolist(), put.tolist()) == (read, written)


def test_outside_reads_the_fill_value() -> None:
    (got,) = results(lambda x, i: x.at[i, i].get(mode="fill", fill_value=-1.0), X[0], np.int32([1, 4, -1]))
    np.testing.assert_array_equal(got, [X[0, 1, 1], -1, X[0, 3, 4]])


def test_updates_are_differentiated_and_mapped() -> None:
    i = np.int32([2, 0])
    grad = tl.grad(lambda x, v: (x.at[i].multiply(v) ** 2).sum(), argnums=(0, 1))
    dx, dv = grad(np.float32([1, 2, 3]), np.float32([4, 5]))
    assert (np.asarray(dx).tolist(), np.asarray(dv).tolist()) == ([50, 4, 96], [72, 10])
    rows, at = np.float32([[1, 2], [3, 4]]), np.int32([0, 1])
    made = tl.vmap(lambda x, j: x.at[j].add(10.0))(rows, at)
    assert np.asarray(made).tolist() == [[11, 2], [3, 14]]


REFUSED: tuple[tuple[type[Exception], Any, str, str], ...] = (
    (OutOfRangeError, lambda x: x.at[5].set(0.0), "index 5 is out of range for axis 0", "index within the axis"),
    (OutOfRangeError, lambda x: x.at[[0, 5]].add(0.0), "index 5 is outside axis 0", "count from the end"),
    (OutOfRangeError, lambda x: x[[0, 1], [0, 9]], "index 9 is outside axis 1", "count from the end"),
    (OutOfRangeError, lambda x: x[[0, 1], [0, 1, 2]], "2 index arrays whose shapes do not broadcast", "[:, None]"),
    (OutOfRangeError, lambda x: x[np.ones(2, bool)], "boolean mask of shape [2]", "broadcast the mask"),
    (TypeRuleError, lambda x: x.at[0].set(np.float64([1])), "values f64[1]", "values.astype('f32')"),
    (TypeRuleError, lambda x: x.at[0].set(1j), "with values c64[]", "values.astype('f32')"),
    (TypeRuleError, lambda x: x.at[0].set(np.zeros(3, np.float32)), "shapes do not broadcast", "reshape or slice"),
    (TypeRuleError, lambda x: x.at[0].set(0.0, mode="wrap"), "there is no mode 'wrap'", "use one of those listed"),
)


@pytest.mark.parametrize(("error", "call", "what", "fix"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_is_refused(error: Any, call: Any, what: str, fix: str) -> None:
    with pytest.raises(error) as caught:
        call(tl.array(X))
    first, *rest = str(caught.value).splitlines()
    assert what in first
    assert "test_indexing_and_at.py:" in first
    assert fix in rest[2]


def test_a_mask_in_a_trace_is_refused_with_what_to_write() -> None:
    with pytest.raises(TypeRuleError, match=r"boolean mask: the size of the result would depend on values") as caught:
        tl.make_graph(lambda x: x.at[x > 0].set(0.0))(X)
    assert "fix:      use ops.select(mask, x, fill)" in str(caught.value)
