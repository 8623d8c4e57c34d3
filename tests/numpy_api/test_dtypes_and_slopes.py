"""The calls of `test_extras` with other dtypes against NumPy, or refused; and their derivatives against differences.

By our rules integers and floats do not mix, and functions that give fractions take no integers: each refusal is one
of ours, never an error of Python's or NumPy's. What differs from NumPy on purpose is one table, with reasons.
"""

from __future__ import annotations

import re
import zlib
from typing import Any

import numpy as np
import pytest
from numpy_api.test_extras import CASES
from numpy_api.threeways import eager

import torchlean as tl
import torchlean.numpy as tnp
from torchlean import pytree
from torchlean.errors import TorchLeanError

Array = np.ndarray[Any, Any]
DTYPES = ("float64", "float16", "int32", "uint8", "complex64")
ULPS = 256

# (dtype, pattern of case names, why)
_KEPT = "the dtype of the operand is kept"
DEVIATIONS: tuple[tuple[str, str, str], ...] = (
    ("float64", "quantile several", "NumPy computes the place of a float32 share in float32"),
    ("float16", "quantile several|heaviside", "a float32 argument of the case: NumPy promotes to it"),
    ("float16", "vander|vander increasing", _KEPT),
    ("uint8", "vander|vander increasing", _KEPT),
    ("complex64", "vander|vander increasing", _KEPT),
    ("int32|uint8", "histogram|histogram free", "edges of integers are float32, the default float"),
    ("int32|uint8", "rint", "rounding integers leaves them"),
    ("int32|uint8", "polymul", "leading zeros are kept: shapes do not depend on values"),
    ("int32|uint8", "bincount|bincount weights", "integers beyond `length` are left out"),
)


def reason(dtype: str, name: str) -> str | None:
    found = [why for dtypes, names, why in DEVIATIONS if re.fullmatch(dtypes, dtype) and re.fullmatch(names, name)]
    return found[0] if found else None


def as_dtype(array: Any, dtype: str) -> Array:
    """An operand of a case in another dtype, where it is a float (or, among integers, an integer)."""
    array, kind = np.asarray(array), np.dtype(dtype).kind
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and kind not in "iu"):
        return array
    if array.dtype.kind == "c":
        return array.astype(np.result_type(dtype, np.complex64)) if kind in "fc" else array
    if kind in "iu":
        return np.clip(np.nan_to_num(np.trunc(array * 2), posinf=5, neginf=-5), 0 if kind == "u" else -99, 99).astype(
            dtype
        )
    return array.astype(dtype)


def same(mine: Array, theirs: Array, dtype: str) -> bool:
    """Equal shape and dtype (positions, counts and sums are 32 bits wide here), and values to some ulp."""
    narrowed = {"int64": "int32", "uint64": "uint32"}.get(theirs.dtype.name, theirs.dtype.name)
    if mine.shape != theirs.shape or mine.dtype.name not in (theirs.dtype.name, narrowed):
        return False
    if mine.dtype.kind not in "fc":
        return np.array_equal(mine, theirs)
    eps = max([float(np.finfo(each).eps) for each in (mine.dtype, dtype) if np.dtype(each).kind in "fc"])
    finite = np.abs(theirs[np.isfinite(theirs)])
    scale = float(finite.max()) if finite.size else 0.0
    return bool(np.allclose(mine, theirs, rtol=ULPS * eps, atol=ULPS * eps * scale, equal_nan=True))


def outcome(name: str, dtype: str) -> str:
    """ "same", "other" or "refused"."""
    _, call, arrays = next(case for case in CASES if case[0] == name)
    given = [as_dtype(array, dtype) for array in arrays]
    try:
        made = eager(lambda *xs: call(tnp, *xs), *given)
    except TorchLeanError:
        return "refused"
    try:
        with np.errstate(all="ignore"):
            wanted = call(np, *given)
    except (TypeError, ValueError, OverflowError):
        return "other"
    wanted = [np.asarray(each) for each in (wanted if isinstance(wanted, tuple | list) else [wanted])]
    if len(made) == len(wanted) and all([same(a, b, dtype) for a, b in zip(made, wanted, strict=True)]):
        return "same"
    return "other"


@pytest.mark.parametrize("dtype", DTYPES)
def test_another_dtype_gives_numpys_values_or_is_refused(dtype: str) -> None:
    found = {name: outcome(name, dtype) for name, _, _ in CASES}
    expected = {name for name in found if reason(dtype, name)}
    assert {name for name, how in found.items() if how == "other"} == expected
    counts = {how: list(found.values()).count(how) for how in ("same", "refused")}
    least = {"float64": 216, "float16": 212, "int32": 150, "uint8": 145, "complex64": 155}[dtype]
    assert counts["same"] >= least, counts
    assert counts["refused"] == 0 or np.dtype(dtype).kind != "f"


# -- derivatives -------------------------------------------------------------------------------------------------------
STEP = float(np.finfo(np.float64).eps) ** (1 / 3)
# At kinks, jumps, NaN and infinities of the operands there is no difference quotient.
NO_QUOTIENT = re.compile(
    r"special|infinite|same|nan|isclose|hypot|heaviside|fabs|modf|sinc at 0|sort_complex|searchsorted|histogram"
    r"|digitize"
)


class Wide:
    """`torchlean.numpy` with float64 in place of float32, which some cases convert their result to."""

    float32 = tnp.float64

    def __getattr__(self, name: str) -> Any:
        return getattr(tnp, name)


def smooth() -> list[Any]:
    """Cases of finite floats."""
    return [
        case
        for case in CASES
        if not NO_QUOTIENT.search(case[0])
        and any(np.asarray(a).dtype.kind == "f" for a in case[2])
        and all(np.isfinite(a).all() for a in case[2])
    ]


@pytest.mark.parametrize("case", [pytest.param(case, id=case[0]) for case in smooth()])
def test_slopes_are_those_of_difference_quotients(case: Any) -> None:
    """Forward mode against central differences in float64, and ⟨Jv, w⟩ = ⟨v, Jᵀw⟩."""
    name, call, arrays = case
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    given = [as_dtype(array, "float64") for array in arrays]
    places = [at for at, array in enumerate(given) if array.dtype.kind == "f"]

    def f(*xs: Any) -> Any:
        full = list(given)
        for at, x in zip(places, xs, strict=True):
            full[at] = x
        leaves = pytree.leaves(call(Wide(), *full))
        return tuple([leaf for leaf in leaves if leaf.type.dtype.is_inexact])

    primals = [given[at] for at in places]
    vs = [rng.normal(size=x.shape) for x in primals]
    outputs, moved = tl.jvp(f, tuple(primals), tuple(vs))
    ahead, behind = (f(*[tl.array(x + side * STEP * v) for x, v in zip(primals, vs, strict=True)]) for side in (1, -1))
    for out, a, b in zip(moved, ahead, behind, strict=True):
        quotient = (np.asarray(a) - np.asarray(b)) / (2 * STEP)
        size = max(1.0, float(np.max(np.abs(quotient), initial=0)))
        np.testing.assert_allclose(np.asarray(out), quotient, rtol=1e-6, atol=1e-6 * size)
    ws = [rng.normal(size=out.shape).astype(np.asarray(out).dtype) for out in outputs]
    back = tl.vjp(f, *primals)[1](tuple(ws))
    left = sum([float(np.sum((np.conj(w) * np.asarray(m)).real)) for w, m in zip(ws, moved, strict=True)])
    right = sum([float(np.sum(v * np.asarray(b))) for v, b in zip(vs, back, strict=True)])
    assert abs(left - right) <= 1e-9 * max(1.0, abs(left), float(sum(np.sum(np.abs(w)) for w in ws)))
