"""Every method of `x.at[key]` × kinds of keys × modes against jax.numpy: values, and the gradients of both operands."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from numpy_api.threeways import eager, results

import torchlean as tl
from torchlean.errors import OutOfRangeError, TorchLeanError
from torchlean.transforms.api import vjp

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")

RNG = np.random.default_rng(11)
X = (np.abs(RNG.normal(size=(4, 5))) + 0.5).astype(np.float32)
METHODS = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")

# What a key is made of: index arrays are given as "first" and "second", and are traced operands; the rest is static.
FIRST, SECOND = "first", "second"
KEYS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "integer": ((1,), ()),
    "negative": ((-2, -1), ()),
    "slice": ((slice(1, 3),), ()),
    "slice with steps": ((slice(None, None, 2), slice(4, None, -3)), ()),
    "ellipsis": ((Ellipsis, 2), ()),
    "new axis": ((None, 1), ()),
    "indices": ((FIRST,), ([0, 2],)),
    "duplicates": ((FIRST,), ([1, 3, 1, 1],)),
    "negative duplicates": ((FIRST,), ([1, -3, -1],)),
    "pairs": ((FIRST, SECOND), ([0, 3, 1], [4, 0, -1])),
    "duplicate pairs": ((FIRST, SECOND), ([0, 3, 0], [4, 0, 4])),
    "outer": ((FIRST, SECOND), ([[0], [2]], [1, 3])),
    "indices beside a slice": ((slice(1, None, 2), FIRST), ([0, 4, 2],)),
    "indices apart": ((FIRST, None, SECOND), ([0, 2], [1, 1])),
    "scalar": ((FIRST,), (2,)),
    "empty": ((FIRST,), ([],)),
}
OUTSIDE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "beyond": ((FIRST,), ([1, 4, 99],)),
    "before": ((FIRST,), ([0, -5, -99],)),
    "beyond, twice": ((FIRST,), ([3, 7, 7, 3],)),
    "pairs half outside": ((FIRST, SECOND), ([0, 9, 1], [4, 0, -7])),
    "beside a slice": ((slice(None, None, -1), FIRST), ([0, 5, -6],)),
    "scalar outside": ((FIRST,), (4,)),
}


def key_of(parts: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[Any, ...]:
    named = {FIRST: given[0] if given else None, SECOND: given[1] if len(given) > 1 else None}
    return tuple([named[part] if isinstance(part, str) else part for part in parts])


def cases() -> list[tuple[str, str, str | None]]:
    inside = [(how, key, None) for how in METHODS for key in KEYS]
    outside = [(how, key, mode) for how in METHODS for key in OUTSIDE for mode in ("drop", "clip", None)]
    return inside + outside


def arrays(key: str) -> tuple[Any, tuple[Any, ...], Any]:
    parts, given = (KEYS | OUTSIDE)[key]
    indices = tuple([np.asarray(each, np.int32) for each in given])
    inside = tuple([np.clip(each, 0, 3) for each in indices])
    shape = X[key_of(parts, inside)].shape
    return parts, indices, (np.abs(RNG.normal(size=shape)) + 0.5).astype(np.float32)


def one_by_one(how: str, x: Any, key: Any, values: Any, mode: str | None) -> Any:
    """JAX's updates made one after the other.

    Its `scatter_mul` of several has no derivative; that of `min` and `max` is wrong where a position was clipped.
    """
    import jax

    numbers = np.arange(1, X.size + 1).reshape(X.shape)
    places = np.asarray(jax.numpy.asarray(numbers).at[key].get(mode="clip" if mode == "clip" else "fill", fill_value=0))
    values = jax.numpy.broadcast_to(values, places.shape).reshape(-1)
    flat = x.reshape(-1)
    for at, place in enumerate(places.reshape(-1).tolist()):
        if place:
            flat = getattr(flat.at[place - 1], how)(values[at], unique_indices=True)
    return flat.reshape(x.shape)


def both(how: str, key: str, mode: str | None) -> tuple[list[Any], list[Any]]:
    """(value, cotangent of x, cotangent of the values), of ours and of JAX's."""
    import jax

    parts, indices, values = arrays(key)
    words = {} if mode is None else {"mode": mode}

    def f(x: Any, v: Any, *given: Any) -> Any:
        return getattr(x.at[key_of(parts, given)], how)(v, **words)

    seed = np.asarray(RNG.normal(size=X.shape), np.float32)
    if mode is None and key in OUTSIDE:  # known positions raise; traced ones are dropped
        with pytest.raises(OutOfRangeError):
            eager(f, X, values, *indices)
        mine = np.asarray(tl.jit(f)(X, values, *indices))
    else:
        (mine,) = results(f, X, values, *indices)
    pulled = tl.jit(lambda x, v, ct, *given: vjp(lambda x, v: f(x, v, *given), x, v)[1](ct))(X, values, seed, *indices)
    places = tuple([jax.numpy.asarray(each) for each in indices])
    theirs = f(jax.numpy.asarray(X), jax.numpy.asarray(values), *places)

    def sequential(x: Any, v: Any) -> Any:
        if how not in ("set", "add", "subtract"):
            return one_by_one(how, x, key_of(parts, indices), v, mode)
        return f(x, v, *places)

    _, back = jax.vjp(sequential, jax.numpy.asarray(X), jax.numpy.asarray(values))
    return [mine, *map(np.asarray, pulled)], [np.asarray(theirs), *map(np.asarray, back(jax.numpy.asarray(seed)))]


@needs_jax
@pytest.mark.parametrize(("how", "key", "mode"), cases(), ids=str)
def test_values_and_gradients_are_jaxs(how: str, key: str, mode: str | None) -> None:
    mine, theirs = both(how, key, mode)
    for a, b in zip(mine, theirs, strict=True):  # `divide` multiplies by the reciprocal
        np.testing.assert_allclose(a, b, rtol=5e-6, atol=5e-6)
        assert a.shape == b.shape


@needs_jax
@pytest.mark.parametrize("key", [*KEYS, *OUTSIDE])
@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_reads_are_jaxs(key: str, mode: str) -> None:
    import jax

    parts, indices, _ = arrays(key)

    def read(x: Any, *given: Any) -> Any:
        words = {"fill_value": -7.0} if mode == "fill" else {}
        return x.at[key_of(parts, given)].get(mode=mode, **words)

    (mine,) = results(read, X, *indices)
    theirs = read(jax.numpy.asarray(X), *map(jax.numpy.asarray, indices))
    np.testing.assert_array_equal(mine, theirs)
    grad = tl.grad(lambda x: tl.numpy.sum(read(x, *map(tl.array, indices)) ** 2))
    wanted = jax.grad(lambda x: (read(x, *map(jax.numpy.asarray, indices)) ** 2).sum())(jax.numpy.asarray(X))
    np.testing.assert_allclose(np.asarray(grad(X)), wanted, rtol=2e-6)


@needs_jax
@pytest.mark.parametrize("how", METHODS)
@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "complex64", "bool"])
def test_other_dtypes_are_jaxs_or_refused(how: str, dtype: str) -> None:
    """Refused: quotients and powers of integers, the order of complex numbers, arithmetic of booleans."""
    import jax

    x = (X * 9).astype(dtype)
    values = np.asarray([2, 1, 2], dtype).reshape(3, 1)
    i = np.int32([1, -1, 9])
    refused = {
        "int32": ("divide", "power"),
        "uint8": ("divide", "power", "subtract"),
        "complex64": ("min", "max"),
        "bool": ("add", "subtract", "multiply", "divide", "power", "min", "max"),
    }.get(dtype, ())

    def f(x: Any, v: Any, i: Any) -> Any:
        return getattr(x.at[i], how)(v, mode="drop")

    if how in refused:
        with pytest.raises(TorchLeanError):
            results(f, x, values, i)
        return
    with jax.enable_x64(True):
        theirs = np.asarray(f(*map(jax.numpy.asarray, (x, values, i))))
    (mine,) = results(f, x, values, i)
    assert mine.dtype == theirs.dtype
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


@needs_jax
@pytest.mark.parametrize("how", METHODS)
def test_masks_are_jaxs(how: str) -> None:
    import jax

    for mask in (X > 1.2, X[:, 0] > 1.2, (slice(None), X[0] > 1.2), np.zeros((4, 5), bool)):
        mine = getattr(tl.array(X).at[mask], how)(1.5)
        theirs = getattr(jax.numpy.asarray(X).at[mask], how)(1.5)
        np.testing.assert_allclose(np.asarray(mine), theirs, rtol=1e-6)


@needs_jax
def test_apply_is_jaxs() -> None:
    import jax

    (mine,) = results(lambda x, i: x.at[i].apply(lambda v: v * v, mode="drop"), X, np.int32([0, 2, 9]))
    np.testing.assert_array_equal(mine, jax.numpy.asarray(X).at[np.int32([0, 2, 9])].apply(lambda v: v * v))


def test_the_number_of_cases() -> None:
    assert len(cases()) == 8 * (16 + 3 * 6) == 272
