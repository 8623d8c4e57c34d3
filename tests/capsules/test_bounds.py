"""Bounds of the kit, on results made up here: of finite operands, with zeros for subnormals, of complex numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from torchlean.backends import FRESH, Bitwise, Capsule, Normwise, OfFinite, Relative, Subnormals, Ulp, reference
from torchlean.conformance.kit.bounds import tolerance_of, unit_of, within, without_subnormals
from torchlean.conformance.kit.calls import defined
from torchlean.conformance.kit.factorised import broken_promises
from torchlean.conformance.kit.run import run_contracts
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.dot import DOT_GENERAL, MATRICES
from torchlean.ir.ops.factor import LU
from torchlean.report.sheets import bound_text


def capsule(op: Any, bound: Any, *, zeros: bool = False) -> Capsule:
    made = next(each for each in reference.MODULE.capsules if each.op is op)
    numerics = replace(made.numerics, subnormals=Subnormals.ZERO) if zeros else made.numerics
    return replace(made, bound=bound, numerics=numerics)


def judged(made: Capsule, params: Any, arrays: list[Any], got: Any) -> Any:
    return within(made, params, arrays, (got,), defined(made.op, params, arrays))


# -- finite operands ---------------------------------------------------------------------------------------------------
def test_of_single_entries_only_those_with_finite_operands_count() -> None:
    x = np.array([1.0, np.inf, np.nan, -2.0])
    want = defined(ew.EXP, NO_PARAMS, [x])[0]
    off = np.where(np.isfinite(x), want, -1.0)
    assert judged(capsule(ew.EXP, OfFinite(Ulp(1))), NO_PARAMS, [x], off).ok
    assert not judged(capsule(ew.EXP, Ulp(1)), NO_PARAMS, [x], off).ok
    off[3] *= 1 + 1e-12
    verdict = judged(capsule(ew.EXP, OfFinite(Ulp(1))), NO_PARAMS, [x], off)
    assert [list(mask) for mask in verdict.wrong] == [[False, False, False, True]]


def test_of_other_ops_all_operands_must_be_finite() -> None:
    a, b = np.ones((2, 3)), np.ones((3, 2))
    product = defined(DOT_GENERAL, MATRICES, [a, b])[0]
    made = capsule(DOT_GENERAL, OfFinite(Relative(1.0)))
    assert not judged(made, MATRICES, [a, b], product + 1e-9).ok
    a[0, 0] = np.inf
    assert judged(made, MATRICES, [a, b], np.full((2, 2), np.nan)).ok


@pytest.mark.parametrize(
    ("bound", "text", "unit"),
    [
        (OfFinite(Ulp(4)), "4 ulp, for finite operands", "ulp"),
        (OfFinite(Normwise(2.0)), "2 · ε · n · (1 + largest operand), for finite operands", "of the bound"),
    ],
)
def test_the_bound_in_words(bound: Any, text: str, unit: str) -> None:
    assert tolerance_of(bound) == text
    assert unit_of(bound) == unit
    assert bound_text(bound).endswith("of the definition, for finite operands")


# -- subnormals --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_subnormal_numbers_become_zeros_of_their_sign(dtype: Any) -> None:
    least = ml_dtypes.finfo(dtype).smallest_subnormal
    normal = ml_dtypes.finfo(dtype).tiny
    x = np.array([least, -least, normal, -normal, 0, np.nan, np.inf], dtype=dtype)
    made = without_subnormals(x)
    assert made.dtype == x.dtype
    assert np.signbit(made).tolist()[:5] == [False, True, False, True, False]
    assert (made == 0).tolist() == [True, True, False, False, True, False, False]
    z = without_subnormals(np.array([1 + 1e-310j, 1e-310 - 2j]))
    assert z.tolist() == [1 + 0j, -2j]
    assert without_subnormals(np.array([1, 0])).tolist() == [1, 0]


def test_a_subnormal_number_may_count_as_itself_or_as_zero() -> None:
    x, y = np.array([3e-310, 3e-310, 1.0, 2e-308]), np.array([1e300, 1e300, 3e-310, 0.5])
    made = capsule(ew.MUL, Bitwise(), zeros=True)
    kept = x * y
    assert judged(made, NO_PARAMS, [x, y], kept).ok
    flushed = np.array([0.0, kept[1], 0.0, 0.0])  # each entry for itself
    assert judged(made, NO_PARAMS, [x, y], flushed).ok
    assert not judged(capsule(ew.MUL, Bitwise()), NO_PARAMS, [x, y], flushed).ok
    assert not judged(made, NO_PARAMS, [x, y], np.array([1.0, kept[1], 0.0, 0.0])).ok


@pytest.mark.parametrize("instead", [0.0, 7.0])
def test_the_kit_catches_what_is_neither(instead: float) -> None:
    """A kernel that flushes keeps the claim; one that makes something else of them does not. Only the probe sees it."""

    def kernel(x: Any) -> Any:
        tiny = (x != 0) & (np.abs(x) < ml_dtypes.finfo(x.dtype).tiny)
        return np.where(tiny & tiny.all(), np.asarray(instead, x.dtype), np.abs(x))

    made = capsule(ew.ABS, Bitwise(), zeros=True)
    made = replace(made, handler=replace(made.handler, make=lambda params, types: kernel, traits=FRESH))
    (outcome,) = run_contracts(made, ("value",))
    assert outcome.passed is (instead == 0.0)
    if not outcome.passed:
        assert any(["takes subnormal numbers neither as they are nor as zeros" in text for text in outcome.failures])


# -- complex numbers, and formats of ml_dtypes -------------------------------------------------------------------------
def test_both_parts_of_a_complex_number_are_measured_in_units_of_the_larger() -> None:
    z = np.array([1 + 1e-9j])
    want = defined(ew.SIN, NO_PARAMS, [z])[0]
    near = want + 1j * np.spacing(want.real) * 2  # many units of the small imaginary part
    assert judged(capsule(ew.SIN, Ulp(2)), NO_PARAMS, [z], near).ok
    assert not judged(capsule(ew.SIN, Ulp(1)), NO_PARAMS, [z], near).ok
    assert not judged(capsule(ew.SIN, Ulp(0)), NO_PARAMS, [z], near).ok
    assert not judged(capsule(ew.SIN, Ulp(9)), NO_PARAMS, [z], np.array([np.nan + 0j])).ok


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, ml_dtypes.bfloat16])
def test_sums_of_products_have_a_relative_bound_in_every_format(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(dtype) for shape in ((4, 5), (5, 3)))
    want = defined(DOT_GENERAL, MATRICES, [a, b])[0]
    made = capsule(DOT_GENERAL, Relative(1.0))
    assert judged(made, MATRICES, [a, b], want).ok
    unit = float(ml_dtypes.finfo(np.zeros((), dtype).real.dtype).eps)
    assert not judged(made, MATRICES, [a, b], (want * dtype(1 + 200 * unit)).astype(dtype)).ok


# -- LU ----------------------------------------------------------------------------------------------------------------
def test_what_lu_promises() -> None:
    x = np.random.default_rng(1).normal(size=(2, 5, 4))
    got = list(defined(LU, NO_PARAMS, [x]))
    assert list(broken_promises(LU, x, got, got)) == []
    packed, pivots, order = got
    cases = {
        "factors whose product is further than": (packed * (1 + 1e-9), pivots, order),
        "an order of rows that is no permutation": (packed, pivots, np.zeros_like(order)),
        "multiples of rows larger than partial pivoting gives": (
            packed + np.tril(np.full((5, 4), 9.0), -1),
            pivots,
            order,
        ),
    }
    for text, altered in cases.items():
        (fault,) = broken_promises(LU, x, altered, got)
        assert fault.startswith(text)
