"""The distance between a kernel's results and the definition, and whether it lies within the capsule's bound.

`Relative(eps)` is checked as |result - definition| ≤ eps · ε · n · Σ|terms|: Σ|terms| is the definition evaluated in
float64 on absolute values, and n the definition on ones [Higham 2002, §3.1]. Where a partial sum may overflow the bound
says nothing. Distances in ulp are counted on the line of all floats, so that subnormals count like others.

Where subnormals may count as zero, a result that lies outside its bound is compared once more, subnormal numbers among
operands and results replaced by zeros.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, assert_never

import numpy as np

from torchlean.backends.capsule import Bitwise, Capsule, Normwise, OfFinite, Relative, Ulp, Unstated, ValueBound
from torchlean.backends.vocabulary import Subnormals
from torchlean.conformance.kit.calls import Arrays, defined
from torchlean.conformance.samples.draw import Array
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.carriers import complex_array, is_extended
from torchlean.ir.dtypes import dtype_of_carrier
from torchlean.ir.ops.loss import MSE_LOSS
from torchlean.record import record

SQUARES = (MSE_LOSS,)  # every term is a square, so the value is its own Σ|terms|


@record(eq=False)
class Verdict:
    """`wrong` marks entries outside the bound, per result; `deviation` is in `unit_of(bound)`, `ulps` the distance."""

    wrong: tuple[Array, ...]
    deviation: float
    ulps: float | None
    allowed: str

    @property
    def ok(self) -> bool:
        return not any([mask.any() for mask in self.wrong])

    def first(self, got: Arrays, want: Arrays) -> tuple[str, str]:
        """The first entry outside the bound: what was expected there, and what came."""
        for number, (mask, mine, theirs) in enumerate(zip(self.wrong, got, want, strict=True)):
            if mask.any():
                at = np.unravel_index(int(np.argmax(mask)), mask.shape)
                place = f" at {[int(i) for i in at]}" if mask.ndim else ""
                place += f" of result {number}" if len(got) > 1 else ""
                return f"{theirs[at]!r}{place}, {self.allowed}", f"{mine[at]!r}{_apart(mine[at], theirs[at])}"
        return "", ""


def _apart(mine: Any, theirs: Any) -> str:
    distance = ulp_distance(np.asarray(mine), np.asarray(theirs))
    return "" if distance is None or not np.isfinite(distance).all() else f", {float(distance.max()):.0f} ulp away"


def unit_of(bound: ValueBound) -> str:
    """The unit in which deviations from the definition are reported."""
    inner = bound.bound if isinstance(bound, OfFinite) else bound
    return "of the bound" if isinstance(inner, Relative | Normwise) else "ulp"


def tolerance_of(bound: ValueBound) -> str:
    """The claimed bound in words."""
    match bound:
        case Bitwise():
            return "the bits of the definition"
        case Ulp(n):
            return f"{n} ulp" if n else "equal as numbers"
        case Relative(eps):
            return f"{eps:g} · ε · n · Σ|terms|"
        case Normwise(eps):
            return f"{eps:g} · ε · n · (1 + largest operand)"
        case OfFinite(inner):
            return f"{tolerance_of(inner)}, for finite operands"
        case Unstated():
            return "no distance is claimed"
        case _:
            assert_never(bound)


# -- bits --------------------------------------------------------------------------------------------------------------
def different_bits(got: Any, want: Any) -> Array:
    """Where two arrays of one type differ in their bits; any NaN equals any NaN."""
    mine: Any = np.array(got, order="C")
    theirs: Any = np.array(want, order="C")
    if mine.dtype.kind == "c":
        return different_bits(mine.real, theirs.real) | different_bits(mine.imag, theirs.imag)
    bits = np.dtype(f"u{mine.dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        nan = (mine != mine) & (theirs != theirs)  # NaN alone differs from itself
    return np.asarray((mine.view(bits) != theirs.view(bits)) & ~nan)


def same_bits(got: Any, want: Any) -> bool:
    """Equal shape, dtype and bits; any NaN equals any NaN."""
    mine, theirs = np.asarray(got), np.asarray(want)
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        return False
    return not different_bits(mine, theirs).any()


def ulp_distance(got: Array, want: Array) -> Array | None:
    """Distances in units in the last place as float64: 0 for NaN with NaN, ∞ for NaN with a number.

    None when the entries are no floats. ±0 are one number. Of a complex number the larger of its parts' distances.
    """
    if want.dtype.kind == "c":
        real, imag = ulp_distance(got.real, want.real), ulp_distance(got.imag, want.imag)
        return None if real is None or imag is None else np.maximum(real, imag)
    if not dtype_of_carrier(want.dtype).is_float:
        return None
    mine, theirs = _on_the_line(got), _on_the_line(want)
    gap = np.maximum(mine, theirs).astype(np.uint64) - np.minimum(mine, theirs).astype(np.uint64)
    distance = gap.astype(np.float64).reshape(want.shape)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        nan_mine, nan_theirs = got != got, want != want
    return np.where(nan_mine & nan_theirs, 0.0, np.where(nan_mine | nan_theirs, np.inf, distance))


def _on_the_line(x: Array) -> Array:
    """Floats as integers in their order, neighbours one apart, flat."""
    made = np.array(x, order="C").reshape(-1)
    bits = made.view(np.dtype(f"i{made.dtype.itemsize}")).astype(np.int64)
    top = np.int64(np.iinfo(np.dtype(f"i{made.dtype.itemsize}")).min)
    return np.where(bits < 0, top - bits, bits)


# -- subnormals --------------------------------------------------------------------------------------------------------
def without_subnormals(x: Array) -> Array:
    """Subnormal numbers replaced by zeros of their sign."""
    if x.dtype.kind == "c":
        return complex_array(without_subnormals(x.real), without_subnormals(x.imag))
    if not dtype_of_carrier(x.dtype).is_float:
        return x
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(x) < limits_of(x.dtype).tiny, np.copysign(np.zeros_like(x), x), x)


def limits_of(carrier: np.dtype[Any]) -> Any:
    """`np.finfo`, of the formats of ml_dtypes too."""
    if not is_extended(carrier):
        return np.finfo(carrier)
    return importlib.import_module("ml_dtypes").finfo(carrier)


# -- the bound ---------------------------------------------------------------------------------------------------------
def within(capsule: Capsule, params: Any, arrays: Sequence[Array], got: Arrays, want: Arrays) -> Verdict:
    """The results of the kernel against those of the definition, both of the declared types."""
    verdict = _judged(capsule, params, arrays, got, want)
    if verdict.ok or capsule.numerics.subnormals is not Subnormals.ZERO:
        return verdict
    flushed = defined(capsule.op, params, [without_subnormals(array) for array in arrays])
    return _judged(
        capsule,
        params,
        arrays,
        tuple([np.where(w, without_subnormals(x), x) for w, x in zip(verdict.wrong, got, strict=True)]),
        tuple([np.where(w, without_subnormals(z), x) for w, x, z in zip(verdict.wrong, want, flushed, strict=True)]),
    )


def _judged(capsule: Capsule, params: Any, arrays: Sequence[Array], got: Arrays, want: Arrays) -> Verdict:
    wrong: list[Array] = []
    deviation, ulps = 0.0, None
    for mine, theirs in zip(got, want, strict=True):
        distance = ulp_distance(mine, theirs)
        if distance is not None:
            ulps = max(ulps or 0.0, float(distance.max(initial=0)))
        with np.errstate(invalid="ignore"):
            mask, seen = _outside(capsule, capsule.bound, params, arrays, mine, theirs, distance)
        wrong.append(mask)
        deviation = max(deviation, seen)
    return Verdict(tuple(wrong), deviation, ulps, tolerance_of(capsule.bound))


def _outside(
    capsule: Capsule,
    bound: ValueBound,
    params: Any,
    arrays: Sequence[Array],
    got: Array,
    want: Array,
    distance: Array | None,
) -> tuple[Array, float]:
    """Where the bound does not hold, and the largest deviation."""
    ulps = 0.0 if distance is None else float(distance.max(initial=0))
    match bound:
        case Bitwise():
            return different_bits(got, want), ulps
        case Ulp(n):
            return _outside_ulp(n, got, want, distance)
        case Relative(eps):
            return _outside_relative(capsule, params, arrays, got, want, eps)
        case Normwise(eps):
            return _outside_normwise(arrays, got, want, eps)
        case OfFinite(inner):
            finite = _finite(arrays, want)
            mine, theirs = np.where(finite, got, np.zeros_like(got)), np.where(finite, want, np.zeros_like(want))
            apart = None if distance is None else np.where(finite, distance, 0.0)
            mask, seen = _outside(capsule, inner, params, arrays, mine, theirs, apart)
            return mask & finite, seen
        case Unstated():
            return np.zeros(want.shape, np.bool_), ulps
        case _:
            assert_never(bound)


def _finite(arrays: Sequence[Array], want: Array) -> Array:
    """Where the operands are finite: entry by entry if all have the result's shape, else all of them or nowhere."""
    masks = [np.isfinite(array) for array in arrays if dtype_of_carrier(array.dtype).is_inexact]
    if all([array.shape == want.shape for array in arrays]):
        return np.logical_and.reduce([np.ones(want.shape, np.bool_), *masks])
    return np.full(want.shape, all([mask.all() for mask in masks]))


def _outside_ulp(n: int, got: Array, want: Array, distance: Array | None) -> tuple[Array, float]:
    """Results near and below the smallest normal number count in `probes`: an underflow on the way is no rounding."""
    if distance is None:
        return np.asarray(got != want), 0.0
    if n == 0:
        return distance > n, float(distance.max(initial=0))
    if want.dtype.kind == "c":
        return _outside_complex_ulp(n, got, want)
    near = np.isfinite(want) & (np.abs(want) <= limits_of(want.dtype).tiny * 8)
    beyond = np.isinf(want)  # an overflow on the way, likewise
    counted = ~near & ~beyond
    return counted & (distance > n), float(distance[counted].max(initial=0))


def _outside_complex_ulp(n: int, got: Array, want: Array) -> tuple[Array, float]:
    """Distances in units of the definition's larger part."""
    limits = limits_of(want.real.dtype)
    size = np.maximum(np.abs(want.real), np.abs(want.imag))
    counted = ~(np.isfinite(want) & (size <= limits.tiny * 8)) & ~np.isinf(want)
    unit = np.spacing(np.where(np.isfinite(size), size, 1))
    error = np.maximum(np.abs(got.real - want.real), np.abs(got.imag - want.imag)) / unit
    both = np.isnan(got) & np.isnan(want)
    wrong = counted & ~both & ~(error <= n)
    known = counted & np.isfinite(error)
    return wrong, float(error[known].max(initial=0))


def _outside_normwise(arrays: Sequence[Array], got: Array, want: Array, eps: float) -> tuple[Array, float]:
    if not dtype_of_carrier(want.dtype).is_inexact:
        return np.asarray(got != want), 0.0
    inexact = [array for array in arrays if dtype_of_carrier(array.dtype).is_inexact]
    floats = [np.abs(array[np.isfinite(array)]) for array in inexact]
    largest = max([float(array.max(initial=0)) for array in floats])
    count = max([array.size for array in arrays])
    allowed = eps * float(limits_of(want.dtype).eps) * count * (1 + largest)
    with np.errstate(invalid="ignore"):
        error = np.abs(_whole(got) - _whole(want))
    known = np.isfinite(want)
    wrong = (np.isnan(got) != np.isnan(want)) | (known & ~(error <= allowed))
    return np.asarray(wrong), float((error[known] / allowed).max(initial=0)) if allowed else 0.0


def _whole(x: Array) -> Array:
    """Numbers in the widest format of their kind."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _outside_relative(
    capsule: Capsule, params: Any, arrays: Sequence[Array], got: Array, want: Array, eps: float
) -> tuple[Array, float]:
    if not dtype_of_carrier(want.dtype).is_inexact:
        return np.asarray(got != want), 0.0
    op, algebra = capsule.op, NumpyAlgebra()
    inexact = [dtype_of_carrier(array.dtype).is_inexact for array in arrays]
    with np.errstate(all="ignore"):
        whole = [_whole(array) if flag else array for array, flag in zip(arrays, inexact, strict=True)]
        sizes = whole if op in SQUARES else [np.abs(x) if flag else x for x, flag in zip(whole, inexact, strict=True)]
        terms = np.asarray(op.denote(algebra, params, *sizes)[0])
        if op in SQUARES:
            count = np.full(want.shape, arrays[0].size + 3)
        else:
            ones = [np.ones(x.shape) if flag else x for x, flag in zip(whole, inexact, strict=True)]
            count = np.asarray(op.denote(algebra, params, *ones)[0])
        limits = limits_of(got.dtype)
        least = limits.tiny if capsule.numerics.subnormals is Subnormals.ZERO else limits.smallest_subnormal
        allowed = np.asarray(eps * float(limits.eps) * count * terms + count * float(least))
        error = np.asarray(np.abs(_whole(got) - _whole(want)))
        tame = terms < float(limits.max) / 2
        wild = ~np.isfinite(terms)  # an infinity or NaN among the terms decides the result whatever the order
        if all([np.isfinite(array).all() for array, flag in zip(arrays, inexact, strict=True) if flag]):
            wild = np.zeros_like(tame)
        wrong = (tame & ~(error <= allowed)) | (wild & (got != want) & ~(np.isnan(got) & np.isnan(want)))
        ratio = np.where(tame & (allowed > 0), error / np.where(allowed > 0, allowed, 1), 0.0)
    return np.asarray(wrong), float(ratio.max(initial=0))
