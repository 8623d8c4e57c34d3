"""Every function of the Array API standard × every dtype it takes, against array-api-strict: dtypes, shapes and values.

Inputs are drawn by hypothesis, derandomised. Each call is made eagerly, traced and lowered, with the same bits.
Where the default dtypes differ (float32 and int32 here, float64 and int64 there) the wider answer is narrowed first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp
from numpy_api.threeways import close, results

import torchlean.numpy as tnp

xp = pytest.importorskip("array_api_strict")

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = SIGNED + UNSIGNED
FLOATS = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
REAL = INTEGERS + FLOATS
NUMERIC = REAL + COMPLEX
INEXACT = FLOATS + COMPLEX
ALL = BOOL + NUMERIC
SHAPES = ((), (1,), (5,), (3, 4), (2, 1, 3), (0, 2))
MATRICES = ((1, 1), (3, 4), (2, 3, 3), (0, 2))
EXAMPLES = 3

Call = Callable[..., Any]


class Case(NamedTuple):
    """`call(xp, *arrays)` on `count` arrays of one dtype and shape; `low`, `high` bound the numbers drawn."""

    name: str
    call: Call
    dtypes: tuple[str, ...]
    count: int = 1
    shapes: tuple[tuple[int, ...], ...] = SHAPES
    low: float = -20
    high: float = 20
    special: bool = True  # whether NaN and infinities are drawn
    ulps: float = 16
    positions: bool = False  # the result is of positions or counts, int32 here


def plain(names: str, dtypes: tuple[str, ...], count: int = 1, **more: Any) -> tuple[Case, ...]:
    """Cases that call a function of that name with the arrays alone."""
    return tuple(
        [Case(name, lambda xp, *xs, name=name: getattr(xp, name)(*xs), dtypes, count, **more) for name in names.split()]
    )


CASES: tuple[Case, ...] = (
    # elementwise, one operand
    *plain("abs negative positive sign square", NUMERIC, low=-9, high=9),
    *plain("ceil floor round trunc", REAL),
    *plain("isfinite isinf isnan", NUMERIC),
    *plain("exp sqrt", INEXACT, special=False),
    *plain("log", INEXACT, low=0.0625),
    *plain("sin cos tan sinh cosh tanh asinh atan expm1", INEXACT, special=False, low=-3, high=3, ulps=64),
    *plain("log2 log10 log1p", INEXACT, low=0.0625, special=False, ulps=64),
    *plain("asin acos atanh", INEXACT, low=-0.875, high=0.875, special=False, ulps=64),
    *plain("acosh", INEXACT, low=1.0, special=False, ulps=64),
    *plain("exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh expm1 log1p log2 log10", FLOATS),
    *plain("reciprocal", FLOATS),
    *plain("signbit", FLOATS),
    *plain("conj real imag", COMPLEX),
    *plain("logical_not", BOOL),
    *plain("bitwise_invert", BOOL + INTEGERS),
    # elementwise, two operands
    *plain("add subtract multiply", NUMERIC, 2, special=False),
    *plain("add subtract multiply divide", FLOATS, 2),
    *plain("divide", COMPLEX, 2, low=1, special=False),
    *plain("maximum minimum", REAL, 2),
    *plain("less less_equal greater greater_equal", REAL, 2),
    *plain("equal not_equal", ALL, 2),
    *plain("logical_and logical_or logical_xor", BOOL, 2),
    *plain("bitwise_and bitwise_or bitwise_xor", BOOL + INTEGERS, 2),
    *plain("bitwise_left_shift bitwise_right_shift", INTEGERS, 2, low=0, high=7),
    *plain("floor_divide remainder", REAL, 2, low=1, high=90, special=False),
    Case(
        "floor_divide negative",
        lambda xp, a, b: xp.floor_divide(xp.negative(a), b),
        SIGNED + FLOATS,
        2,
        low=1,
        special=False,
    ),
    Case(
        "remainder negative", lambda xp, a, b: xp.remainder(a, xp.negative(b)), SIGNED + FLOATS, 2, low=1, special=False
    ),
    *plain("pow", INTEGERS, 2, low=0, high=5),
    *plain("pow", INEXACT, 2, low=0.5, high=3, special=False, ulps=64),
    *plain("pow", FLOATS, 2),
    *plain("atan2 copysign hypot nextafter", FLOATS, 2),
    *plain("logaddexp", FLOATS, 2, ulps=64),
    Case("clip", lambda xp, a: xp.clip(a, 2, 9), REAL, low=0),
    Case("clip arrays", lambda xp, a, b: xp.clip(a, b, xp.add(b, b)), FLOATS, 2, low=0, special=False),
    # reductions
    *plain("sum prod", NUMERIC, low=0, high=3, special=False, ulps=64),
    *plain("max min", REAL, shapes=SHAPES[:-1]),
    *plain("mean", FLOATS, special=False),
    *plain("var std", FLOATS, special=False, ulps=64),
    *plain("all any", ALL, low=0, high=1),
    Case(
        "count_nonzero",
        lambda xp, a: xp.count_nonzero(a, axis=0),
        ALL,
        shapes=SHAPES[1:],
        low=0,
        high=1,
        positions=True,
    ),
    *[
        Case(
            f"{name} axis",
            lambda xp, a, name=name: getattr(xp, name)(a, axis=-1, keepdims=True),
            kinds,
            shapes=SHAPES[1:-1],
            low=0,
            high=3,
            special=False,
            ulps=64,
        )
        for name, kinds in (
            ("sum", NUMERIC),
            ("prod", NUMERIC),
            ("max", REAL),
            ("min", REAL),
            ("mean", FLOATS),
            ("all", ALL),
            ("any", ALL),
        )
    ],
    Case(
        "var correction",
        lambda xp, a: xp.var(a, axis=0, correction=1),
        FLOATS,
        shapes=((5,), (3, 4)),
        special=False,
        ulps=64,
    ),
    Case(
        "std correction",
        lambda xp, a: xp.std(a, axis=(0, 1), correction=0.5),
        FLOATS,
        shapes=((3, 4),),
        special=False,
        ulps=64,
    ),
    Case(
        "sum dtype",
        lambda xp, a: xp.sum(a, axis=0, dtype=xp.float64),
        FLOATS,
        shapes=SHAPES[1:],
        special=False,
        ulps=64,
    ),
    Case(
        "cumulative_sum",
        lambda xp, a: xp.cumulative_sum(a, axis=0),
        NUMERIC,
        shapes=SHAPES[1:],
        low=0,
        special=False,
        ulps=64,
    ),
    Case(
        "cumulative_prod",
        lambda xp, a: xp.cumulative_prod(a, axis=-1),
        NUMERIC,
        shapes=SHAPES[1:],
        low=0,
        high=3,
        special=False,
        ulps=64,
    ),
    Case(
        "cumulative_sum initial",
        lambda xp, a: xp.cumulative_sum(a, axis=0, include_initial=True),
        NUMERIC,
        shapes=SHAPES[1:],
        low=0,
        special=False,
        ulps=64,
    ),
    Case("diff", lambda xp, a: xp.diff(a, axis=0), NUMERIC, shapes=((5,), (3, 4)), low=0, special=False),
    # searching, sorting, sets
    Case("argmax", lambda xp, a: xp.argmax(a), REAL, shapes=SHAPES[:-1], positions=True),
    Case("argmin axis", lambda xp, a: xp.argmin(a, axis=-1, keepdims=True), REAL, shapes=SHAPES[1:-1], positions=True),
    *plain("sort", REAL, shapes=SHAPES[1:]),
    Case("sort axis", lambda xp, a: xp.sort(a, axis=0, descending=True), REAL, shapes=SHAPES[1:], special=False),
    Case("argsort", lambda xp, a: xp.argsort(a), REAL, shapes=SHAPES[1:], positions=True),
    Case(
        "argsort descending",
        lambda xp, a: xp.argsort(a, descending=True),
        REAL,
        shapes=SHAPES[1:],
        special=False,
        positions=True,
    ),
    Case(
        "searchsorted",
        lambda xp, a, v: xp.searchsorted(xp.sort(a), v),
        REAL,
        2,
        shapes=((5,), (1,)),
        special=False,
        positions=True,
    ),
    Case("where", lambda xp, a, b: xp.where(xp.equal(a, a), a, b), ALL, 2),
    Case("take", lambda xp, a: xp.take(a, xp.asarray([1, 0, -1]), axis=0), ALL, shapes=((5,), (3, 4))),
    Case(
        "take_along_axis",
        lambda xp, a: xp.take_along_axis(a, xp.argsort(a, axis=0), axis=0),
        REAL,
        shapes=((5,), (3, 4)),
    ),
    # shapes
    Case("reshape", lambda xp, a: xp.reshape(a, (-1,)), ALL, shapes=SHAPES[:-1]),
    Case("permute_dims", lambda xp, a: xp.permute_dims(a, (1, 2, 0)), ALL, shapes=((2, 1, 3),)),
    Case("moveaxis", lambda xp, a: xp.moveaxis(a, (0, 1), (-1, 0)), ALL, shapes=((2, 1, 3),)),
    Case("matrix_transpose", lambda xp, a: xp.matrix_transpose(a), ALL, shapes=MATRICES),
    Case("expand_dims", lambda xp, a: xp.expand_dims(a, axis=-1), ALL),
    Case("squeeze", lambda xp, a: xp.squeeze(a, axis=1), ALL, shapes=((2, 1, 3),)),
    Case("broadcast_to", lambda xp, a: xp.broadcast_to(a, (2, 3, 4)), ALL, shapes=((), (4,), (3, 1))),
    Case(
        "broadcast_arrays",
        lambda xp, a: xp.broadcast_arrays(a, xp.zeros((2, 3, 4), dtype=xp.float32)),
        ALL,
        shapes=((), (4,), (3, 1)),
    ),
    Case("flip", lambda xp, a: xp.flip(a), ALL),
    Case("flip axis", lambda xp, a: xp.flip(a, axis=-1), ALL, shapes=SHAPES[1:]),
    Case("roll", lambda xp, a: xp.roll(a, 2), ALL),
    Case("roll axes", lambda xp, a: xp.roll(a, (1, -1), axis=(0, 1)), ALL, shapes=MATRICES),
    Case("repeat", lambda xp, a: xp.repeat(a, 3, axis=0), ALL, shapes=SHAPES[1:]),
    Case("tile", lambda xp, a: xp.tile(a, (2, 3)), ALL),
    Case("concat", lambda xp, a, b: xp.concat((a, b), axis=0), ALL, 2, shapes=SHAPES[1:]),
    Case("concat flat", lambda xp, a, b: xp.concat((a, b), axis=None), ALL, 2),
    Case("stack", lambda xp, a, b: xp.stack((a, b), axis=-1), ALL, 2),
    Case("unstack", lambda xp, a: xp.unstack(a, axis=-1), ALL, shapes=SHAPES[1:-1]),
    Case("meshgrid", lambda xp, a, b: xp.meshgrid(a, b, indexing="ij"), NUMERIC, 2, shapes=((3,), (1,))),
    Case("tril", lambda xp, a: xp.tril(a, k=1), ALL, shapes=MATRICES),
    Case("triu", lambda xp, a: xp.triu(a, k=-1), ALL, shapes=MATRICES),
    # products
    Case(
        "matmul",
        lambda xp, a, b: xp.matmul(a, xp.matrix_transpose(b)),
        NUMERIC,
        2,
        shapes=MATRICES,
        low=0,
        special=False,
        ulps=64,
    ),
    Case(
        "tensordot",
        lambda xp, a, b: xp.tensordot(a, b, axes=((0, 1), (0, 1))),
        NUMERIC,
        2,
        shapes=MATRICES,
        low=0,
        special=False,
        ulps=64,
    ),
    Case("vecdot", lambda xp, a, b: xp.vecdot(a, b), NUMERIC, 2, shapes=SHAPES[1:], low=0, special=False, ulps=64),
    # creation and conversion
    Case("zeros_like", lambda xp, a: xp.zeros_like(a), ALL),
    Case("ones_like", lambda xp, a: xp.ones_like(a), ALL),
    Case("full_like", lambda xp, a: xp.full_like(a, True if a.dtype == xp.bool else 3), ALL),
    Case("astype up", lambda xp, a: xp.astype(a, xp.complex128), ALL),
    Case("astype bool", lambda xp, a: xp.astype(a, xp.bool), BOOL + REAL, special=False),
    Case("astype int", lambda xp, a: xp.astype(a, xp.int64), BOOL + REAL, special=False),
    # linear algebra and transforms
    *[
        Case(
            f"linalg.{name}",
            lambda xp, a, name=name: getattr(xp.linalg, name)(a),
            INEXACT,
            shapes=((3, 4), (2, 3, 3)),
            special=False,
            ulps=256,
        )
        for name in ("diagonal", "matrix_norm", "vector_norm", "trace")
    ],
    Case("linalg.outer", lambda xp, a, b: xp.linalg.outer(a, b), NUMERIC, 2, shapes=((5,), (1,)), low=0, special=False),
    Case(
        "linalg.cross", lambda xp, a, b: xp.linalg.cross(a, b), FLOATS, 2, shapes=((3,), (4, 3)), special=False, ulps=64
    ),
    *[
        Case(
            f"fft.{name}",
            lambda xp, a, name=name, norm=norm: getattr(xp.fft, name)(a, norm=norm),
            kinds,
            shapes=((4,), (3, 5)),
            special=False,
            ulps=256,
        )
        for name, kinds in (
            ("fft", COMPLEX),
            ("ifft", COMPLEX),
            ("fftn", COMPLEX),
            ("ifftn", COMPLEX),
            ("rfft", FLOATS),
            ("rfftn", FLOATS),
            ("irfft", COMPLEX),
            ("irfftn", COMPLEX),
            ("hfft", COMPLEX),
            ("ihfft", FLOATS),
        )
        for norm in ("backward", "ortho", "forward")
    ],
    Case("fft.fftshift", lambda xp, a: xp.fft.fftshift(a), INEXACT, shapes=((4,), (3, 5))),
    Case("fft.ifftshift", lambda xp, a: xp.fft.ifftshift(a), INEXACT, shapes=((4,), (3, 5))),
)


def drawn(case: Case, dtype: str) -> st.SearchStrategy[tuple[np.ndarray[Any, Any], ...]]:
    """`count` arrays of one of the case's shapes."""
    kind, width = np.dtype(dtype).kind, 32 if dtype in ("float32", "complex64") else 64
    low, high = case.low, case.high
    reals = st.floats(low, high, width=32, allow_subnormal=False)
    if case.special:
        reals = st.one_of(reals, st.sampled_from([np.nan, np.inf, -np.inf, 0.0, -0.0]))
    match kind:
        case "b":
            elements: Any = st.booleans()
        case "i":
            elements = st.integers(int(max(low, -100)), int(high))
        case "u":
            elements = st.integers(int(max(low, 0)), int(high))
        case "f":
            elements = reals
        case _:
            elements = st.builds(complex, reals, reals) if width else reals
    arrays = lambda shape: st.tuples(*[hnp.arrays(dtype, shape, elements=elements)] * case.count)  # noqa: E731
    return st.sampled_from(case.shapes).flatmap(arrays)


def leaves(made: Any) -> list[Any]:
    return list(made) if isinstance(made, tuple | list) else [made]


def narrowed(theirs: np.ndarray[Any, Any], case: Case, dtype: str) -> np.ndarray[Any, Any]:
    """Their answer in the dtype it has here: sums of narrow integers and positions are 32 bits wide."""
    narrow = np.dtype(dtype).itemsize < 8 and np.dtype(dtype).kind in "biu"
    if theirs.dtype == np.int64 and (case.positions or (narrow and "astype" not in case.name)):
        return theirs.astype(np.int32)
    if theirs.dtype == np.uint64 and narrow:
        return theirs.astype(np.uint32)
    return theirs


PAIRS = [(case, dtype) for case in CASES for dtype in case.dtypes]


@pytest.mark.parametrize(("case", "dtype"), PAIRS, ids=[f"{case.name}-{dtype}" for case, dtype in PAIRS])
def test_the_value_is_that_of_the_strict_package(case: Case, dtype: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(drawn(case, dtype))
    def check(arrays: tuple[np.ndarray[Any, Any], ...]) -> None:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted = leaves(case.call(xp, *[xp.asarray(array) for array in arrays]))
        made = results(lambda *xs: case.call(tnp, *xs), *arrays)
        assert len(made) == len(wanted)
        for mine, theirs in zip(made, wanted, strict=True):
            close(mine, narrowed(np.from_dlpack(theirs), case, dtype), ulps=case.ulps)

    check()


def test_the_cases_cover_every_function() -> None:
    """Every name of the standard, but for those with tests of their own in `test_namespace.py`."""
    named = {case.name.split(" ")[0] for case in CASES}
    elsewhere = {
        "arange",
        "asarray",
        "can_cast",
        "empty",
        "empty_like",
        "eye",
        "finfo",
        "from_dlpack",
        "full",
        "iinfo",
        "isdtype",
        "linspace",
        "nonzero",
        "ones",
        "result_type",
        "unique_all",
        "unique_counts",
        "unique_inverse",
        "unique_values",
        "zeros",
    }
    public = {name for name in dir(xp) if not name.startswith("_") and callable(getattr(xp, name))}
    public -= {
        "ArrayAPIStrictFlags",
        "Device",
        "set_array_api_strict_flags",
        "get_array_api_strict_flags",
        "reset_array_api_strict_flags",
    }
    public -= set(ALL) | {"ModuleType", "broadcast_shapes", "isin"}  # the last two are of the next version
    assert public - named - elsewhere == set()
    assert len(PAIRS) >= 700
