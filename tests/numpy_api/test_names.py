"""Names that only pass a call on, positional arguments in NumPy's order, and that every public name has a test."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy_api.threeways import close, results

import torchlean as tl
import torchlean.numpy as tnp
from torchlean.errors import OutOfRangeError, TraceError, TypeRuleError

RNG = np.random.default_rng(5)
X = RNG.uniform(-0.9, 0.9, size=(3, 4)).astype(np.float32)
C = RNG.uniform(-0.9, 0.9, size=(2, 3, 4)).astype(np.float32)
K = np.int32([[5, -1, 0], [7, 2, 64]])
Z = (X + 1j * X[::-1]).astype(np.complex64)

Call = Callable[..., Any]
CASES: tuple[tuple[str, Call, tuple[Any, ...]], ...] = (
    *[(name, lambda xp, x, name=name: getattr(xp, name)(x), (X,)) for name in (
        "absolute", "arccos", "arcsin", "arctan", "arcsinh", "arctanh", "degrees", "radians", "i0", "around",
        "isreal", "amax", "amin",
    )],
    ("arccosh", lambda xp, x: xp.arccosh(x + 2), (X,)),
    ("arctan2", lambda xp, x, y: xp.arctan2(x, y), (X, X[::-1].copy())),
    ("true_divide", lambda xp, x, y: xp.true_divide(x, y), (X, X[::-1].copy())),
    ("conjugate", lambda xp, z: xp.conjugate(z), (Z,)),
    ("isreal complex", lambda xp, z: xp.isreal(xp.where(xp.real(z) > 0, z, xp.real(z) + 0j)), (Z,)),
    ("bitwise_count", lambda xp, k: xp.bitwise_count(k), (K,)),
    ("bitwise_not", lambda xp, k: xp.bitwise_not(k), (K,)),
    ("invert", lambda xp, k: xp.invert(k), (K > 2,)),
    ("left_shift", lambda xp, k: xp.left_shift(k, 3), (K,)),
    ("right_shift", lambda xp, k: xp.right_shift(k, 1), (K,)),
    ("row_stack", lambda xp, x, y: xp.vstack((x, y)) if xp is np else xp.row_stack((x, y)), (X, X[0].copy())),
    ("partition", lambda xp, x: xp.sort(x, 1) if xp is np else xp.partition(x, 2, axis=1), (X,)),
    ("argpartition", lambda xp, x: xp.argsort(x, 1) if xp is np else xp.argpartition(x, 2, axis=1), (X,)),
    ("unravel_index", lambda xp, k: xp.unravel_index(k, (3, 4, 6)), (np.int32([0, 5, 71]),)),
    ("ravel_multi_index", lambda xp, i, j: xp.ravel_multi_index((i, j), (3, 4)), (np.int32([0, 2]), np.int32([3, 1]))),
    ("histogram2d", lambda xp, x, y: xp.histogram2d(x[0], y[0], 3)[0].astype(xp.int32), (X, C[0])),
    ("histogram2d ints", lambda xp, x: xp.histogram2d(x[0], x[1], 2)[0].astype(xp.int32), (K,)),
    ("histogram_bin_edges", lambda xp, x: xp.histogram_bin_edges(x, 5), (X,)),
    ("histogram density", lambda xp, x: xp.histogram(x, 3, None, True)[0].astype(xp.float32), (X,)),
    ("digitize at edges", lambda xp, x: xp.digitize(x, np.float32([0, 1, 2])), (np.float32([0, 1, 1.5, 2]),)),
    ("digitize down at edges", lambda xp, x: xp.digitize(x, np.float32([2, 1, 0])), (np.float32([0, 1, 1.5, 2]),)),
    (
        "digitize down right",
        lambda xp, x: xp.digitize(x, np.float32([2, 1, 0]), right=True),
        (np.float32([0, 1, 1.5, 2]),),
    ),
    ("delete mask", lambda xp, x: xp.delete(x, np.array([True, False, False, True]), axis=1), (X,)),
    ("delete slice", lambda xp, x: xp.delete(x, slice(None, None, 2), axis=1), (X,)),
    ("insert weak", lambda xp, x: xp.insert(x, 2, 9.0), (X[0].astype(np.float16),)),
    ("insert at the end", lambda xp, x: xp.insert(x, 4, 9.0), (X[0],)),
    ("gradient at", lambda xp, x, t: xp.gradient(x, xp.cumsum(t)), (X[0].copy(), np.float32([0.1, 1, 0.5, 2]))),
    (
        "gradient at, both axes",
        lambda xp, x: xp.gradient(x, 2.0, np.float32([0, 1, 3, 4]), edge_order=2),
        (X,),
    ),
    ("logspace", lambda xp, x: xp.logspace(0, 2, 3).astype(xp.float32) + x, (np.float32(0).reshape(()),)),
    ("isposinf ints", lambda xp, k: xp.isposinf(k), (K,)),
    ("isneginf ints", lambda xp, k: xp.isneginf(k), (K,)),
    # positional arguments, in NumPy's order
    *[(f"{name} 1", lambda xp, x, name=name: getattr(xp, name)(x, 1), (X,)) for name in (
        "sum", "prod", "max", "min", "mean", "std", "var", "all", "any", "argmax", "argmin", "cumsum", "cumprod",
        "sort", "argsort", "flip", "count_nonzero", "median", "ptp", "nansum", "nanmax", "nanmean", "nanargmin",
        "nancumsum", "expand_dims", "diff", "tril", "triu", "diagonal", "trace", "roll", "nanprod", "nanmin", "nanstd",
        "nanvar", "nanmedian", "nanargmax", "nancumprod", "amax", "rot90",
    )],
    ("diff 2 0", lambda xp, x: xp.diff(x, 2, 0), (X,)),
    ("roll 1 0", lambda xp, x: xp.roll(x, 1, 0), (X,)),
    ("diagonal 1 1 2", lambda xp, x: xp.diagonal(x, 1, 1, 2), (C,)),
    ("trace 0 1 2", lambda xp, x: xp.trace(x, 0, 1, 2), (C,)),
    ("take 1", lambda xp, x, i: xp.take(x, i, 1), (X, np.int32([0, 3]))),
    ("take_along_axis 1", lambda xp, x: xp.take_along_axis(x, xp.argsort(x, 1), 1), (X,)),
    ("repeat 1", lambda xp, x: xp.repeat(x, 2, 1), (X,)),
    ("stack 1", lambda xp, x: xp.stack([x, x], 1), (X,)),
    ("concat 1", lambda xp, x: xp.concat([x, x], 1), (X,)),
    ("concatenate 1", lambda xp, x: xp.concatenate([x, x], 1), (X,)),
    ("quantile 0", lambda xp, x: xp.quantile(x, 0.5, 0).astype(xp.float32), (X,)),
    ("percentile 0", lambda xp, x: xp.percentile(x, 50, 0).astype(xp.float32), (X,)),
    ("searchsorted right", lambda xp, x: xp.searchsorted(xp.sort(x), x, "right"), (X[0].copy(),)),
    ("tensordot 1", lambda xp, x: xp.tensordot(x, x.T, 1), (X,)),
    ("eye", lambda xp, x: xp.eye(3, 4, 1).astype(xp.float32) + x, (X,)),
    ("fft 3 0", lambda xp, x: xp.fft.fft(x, 2, 0).astype(xp.complex64), (X,)),
    ("fftshift 1", lambda xp, x: xp.fft.fftshift(x, 1), (X,)),
    *[(name, lambda xp, x, name=name: getattr(xp.fft, name)(x).astype(xp.complex64), (C,)) for name in (
        "fft2", "ifft2", "rfft2",
    )],
    ("irfft2", lambda xp, x: xp.fft.irfft2(x).astype(xp.float32), (Z,)),
)  # fmt: skip


@pytest.mark.parametrize(("name", "call", "arrays"), CASES, ids=[case[0] for case in CASES])
def test_the_value_is_numpys(name: str, call: Call, arrays: tuple[Any, ...]) -> None:
    wanted = call(np, *arrays)
    wanted = list(wanted) if isinstance(wanted, tuple | list) else [wanted]
    made = results(lambda *xs: call(tnp, *xs), *arrays)
    assert len(made) == len(wanted)
    for mine, theirs in zip(made, map(np.asarray, wanted), strict=True):
        close(mine, theirs.astype(np.int32) if theirs.dtype == np.int64 else theirs, ulps=64)


def test_constants_and_questions_are_numpys() -> None:
    assert (tnp.pi, tnp.e, tnp.euler_gamma, tnp.newaxis) == (np.pi, np.e, np.euler_gamma, None)
    for x in (X, Z, K):
        assert tnp.iscomplexobj(x) == np.iscomplexobj(x)
        assert tnp.isrealobj(x) == np.isrealobj(x)
    for x in (3, 1.5, True, X):
        assert tnp.isscalar(x) == np.isscalar(x)
    assert tnp.promote_types("int8", "uint8") is tnp.int16
    for mine, theirs in (
        (tnp.identity(3), np.identity(3)),
        (tnp.stack(tnp.diag_indices(3)), np.stack(np.diag_indices(3))),
        (tnp.stack(tnp.triu_indices(3, 1)), np.stack(np.triu_indices(3, 1))),
        (tnp.fromfunction(lambda i, j: 2 * i + j, (2, 3)), np.fromfunction(lambda i, j: 2 * i + j, (2, 3))),
        (tnp.put_along_axis(X, np.int32([[1], [0], [2]]), 9.0, 1), put_along_axis(X, [[1], [0], [2]], 9.0)),
    ):
        np.testing.assert_array_equal(np.asarray(mine), theirs)


def put_along_axis(x: Any, indices: Any, value: float) -> Any:
    made = x.copy()
    np.put_along_axis(made, np.asarray(indices), value, 1)
    return made


REFUSED: tuple[tuple[Call, str], ...] = (
    (lambda: tnp.choose(np.int32([0, 2]), (X, X)), "choose: 2 is none of the 2 choices"),
    (lambda: tnp.insert(X[0], 9, 1.0), "insert: 9 is no position along axis 0 of f32[4]"),
    (lambda: tnp.delete(X[0], [1, -5]), "delete: -5 is no position along axis 0 of f32[4]"),
    (lambda: tnp.delete(X[0], [True, False]), "delete: 2 booleans for 4 entries"),
    (lambda: tnp.unravel_index(np.int32([7]), (2, 3)), "unravel_index: 7 is none of the 6 positions"),
    (lambda: tnp.unravel_index(-1, (2, 3)), "unravel_index: -1 is none of the 6 positions"),
    (lambda: tnp.ravel_multi_index((4, 1), (2, 3)), "ravel_multi_index: 4 is none of the 2 positions along axis 0"),
    (lambda: tnp.ravel_multi_index((4,), (2, 3)), "ravel_multi_index of 1 indices in 2 axes"),
    (lambda: tnp.digitize(X, np.float32([0, 2, 1])), "digitize: the edges of the bins are not in order"),
    (lambda: tnp.bincount(np.int32([-1, 2])), "bincount of negative integers"),
    (lambda: tnp.histogram(X, 0), "a histogram without bins"),
    (lambda: tnp.histogram(X, 3, (2.0, 1.0)), "a histogram over no range"),
    (lambda: tnp.histogram(X, np.float32([2, 1, 0])), "histogram: the edges of the bins are not in order"),
    (lambda: tnp.lexsort((X[0], X[:, 0])), "lexsort of keys of different shapes"),
    (lambda: tnp.piecewise(X, [X < 0], [1.0, 2.0, 3.0]), "piecewise of 1 conditions and 3 functions"),
    (lambda: tnp.polyder(X[0], -1), "polyder a negative number of times"),
    (lambda: tnp.gradient(X, edge_order=3), "gradient: there is no edge_order=3"),
    (lambda: tnp.gradient(X, 1.0, 2.0, 3.0), "gradient along 2 axes with 3 spacings"),
    (lambda: tnp.gradient(X[0], X[:, 0]), "gradient of f32[4] at coordinates f32[3]"),
    (lambda: tnp.fabs(K), "fabs of i32[2,3]"),
    (lambda: tnp.isposinf(Z), "isposinf of c64[3,4]"),
    (lambda: tnp.deg2rad(Z), "deg2rad of c64[3,4]"),
)


@pytest.mark.parametrize(("call", "text"), REFUSED, ids=[case[1] for case in REFUSED])
def test_what_is_refused_by_its_text(call: Call, text: str) -> None:
    with pytest.raises((OutOfRangeError, TypeRuleError)) as caught:
        call()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith(f"{text} (test_names.py:")
    assert [line.split(":")[0].strip() for line in lines[1:4]] == ["expected", "got", "fix"]


def test_deletion_by_a_traced_mask_is_refused() -> None:
    with pytest.raises(TraceError, match=r"delete of the traced bool\[4\]: the size of the result would depend"):
        tl.make_graph(lambda mask: tnp.delete(X, mask, axis=1))(np.ones(4, bool))


def test_a_traced_selector_out_of_range_takes_the_nearest_choice() -> None:
    chosen = tl.jit(lambda s: tnp.choose(s, (10.0 * np.ones(3, np.float32), np.zeros(3, np.float32))))
    assert chosen(np.int32([-4, 0, 7])).tolist() == [10, 10, 0]


def test_every_public_name_has_a_test() -> None:
    """A name counts where a test of this folder reads it as an attribute, or lists it in a string."""
    seen: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                seen.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                seen.update(node.value.split())
    for space in (tnp, tnp.linalg, tnp.fft):
        names = [name for name in space.__all__ if not isinstance(getattr(space, name), type)]
        assert [name for name in names if name not in seen] == []
    assert len(CASES) >= 100


def test_what_is_positional_in_numpy_is_positional_here() -> None:
    """The first option of a function: its axis, usually."""
    later = {"out", "overwrite_input", "dtype", "assume_unique", "copy", "axisa", "kind", "bias", "endpoint"}
    missing: list[str] = []
    for mine, theirs in ((tnp, np), (tnp.fft, np.fft)):
        for name in mine.__all__:
            here, there = getattr(mine, name), getattr(theirs, name, None)
            if not callable(here) or isinstance(here, type) or there is None or isinstance(there, np.ufunc):
                continue
            own = list(inspect.signature(here).parameters.values())
            count = len([each for each in own if each.default is inspect.Parameter.empty])
            options = list(inspect.signature(there).parameters.values())[count : count + 1]
            for option in options:
                found = [each for each in own if each.name == option.name]
                keyword = found and found[0].kind is inspect.Parameter.KEYWORD_ONLY
                if keyword and option.kind is not inspect.Parameter.KEYWORD_ONLY and option.name not in later:
                    missing.append(f"{name}({option.name})")
    assert missing == []
