"""Every primitive against JAX: each sample's value, in its dtype. Deliberate deviations are one table, with reasons.

Tolerance: both compute each entry with a few roundings of well-conditioned operations, in another order for sums; the
bound is `ROUNDINGS` units in the last place of the largest magnitude involved. Discrete results must be equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ops.numeric_samples import NUMERIC
from ops.samples import SAMPLES, Sample

from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.ops.gather import Mode
from torchlean.ir.ops.rounding import Halves

jax = pytest.importorskip("jax")
jnp = jax.numpy
lax = jax.lax
special = jax.scipy.special

Array = np.ndarray[Any, Any]

ROUNDINGS = {"float16": 4, "bfloat16": 4, "float32": 64, "float64": 64}
UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
INEXACT = (*UNITS, "complex64", "complex128")


# -- what JAX calls it -------------------------------------------------------------------------------------------------
def _elementwise(name: str) -> Callable[..., Any]:
    return lambda p, *xs: getattr(lax, name)(*xs)


def _spread(p: Any, x: Any) -> Any:
    return lax.broadcast_in_dim(x, p.shape, p.axes)


def _dot(p: Any, x: Any, y: Any) -> Any:
    dims = ((p.lhs_contract, p.rhs_contract), (p.lhs_batch, p.rhs_batch))
    return lax.dot_general(x, y, dims, precision="highest")


def _reduced(name: str) -> Callable[..., Any]:
    return lambda p, x: getattr(jnp, name)(x, axis=p.axes, **({"dtype": x.dtype} if name in ("sum", "prod") else {}))


def _logical(bits: str) -> Callable[..., Any]:
    start = {"bitwise_and": -1, "bitwise_or": 0, "bitwise_xor": 0}[bits]

    def fold(p: Any, x: Any) -> Any:
        first = np.array(start != 0) if x.dtype == bool else np.array(start).astype(x.dtype)
        return lax.reduce(x, first, getattr(lax, bits), p.axes)

    return fold


def _running(name: str) -> Callable[..., Any]:
    def run(p: Any, x: Any) -> Any:
        made = getattr(lax, name)(x, axis=p.axis, reverse=p.reverse)
        if not getattr(p, "exclusive", False):
            return made
        neutral = 0 if name == "cumsum" else 1
        low = [(0, 0)] * x.ndim
        low[p.axis] = (0, 1) if p.reverse else (1, 0)
        padded = jnp.pad(made, low, constant_values=neutral)
        return lax.slice_in_dim(padded, 1 if p.reverse else 0, None if p.reverse else -1, axis=p.axis)

    return run


def _recurrence(p: Any, a: Any, b: Any) -> Any:
    a, b = (jnp.moveaxis(v, p.axis, 0) for v in (a, b))
    if p.reverse:
        a, b = a[::-1], b[::-1]
    made = []
    for k in range(a.shape[0]):
        made.append(a[k] * made[-1] + b[k] if made else b[k])
    stacked = jnp.stack(made) if made else b
    return jnp.moveaxis(stacked[::-1] if p.reverse else stacked, 0, p.axis)


def _signed(indices: Any) -> Any:
    """Indices as int64; those beyond its range are as far outside as others."""
    return (
        jnp.minimum(indices, np.uint64(2**40)).astype(np.int64)
        if indices.dtype == np.uint64
        else indices.astype(np.int64)
    )


def _take(p: Any, x: Any, indices: Any) -> Any:
    mode, fill = ("clip", None) if p.mode is Mode.CLIP else ("fill", 0)

    def one(x: Any, i: Any) -> Any:
        wide = _signed(i)
        low = jnp.where(wide < 0, x.shape[p.axis - p.batch] if mode == "fill" else 0, wide)  # JAX wraps negative ones
        return jnp.take(x, low, axis=p.axis - p.batch, mode=mode, fill_value=fill)

    for _ in range(p.batch):
        one = jax.vmap(one)
    return one(x, indices)


def _put(name: str) -> Callable[..., Any]:
    def written(p: Any, x: Any, indices: Any, updates: Any) -> Any:
        def one(x: Any, i: Any, u: Any) -> Any:
            size = x.shape[p.axis - p.batch]
            wide = _signed(i)
            wide = jnp.clip(wide, 0, size - 1) if p.mode is Mode.CLIP else jnp.where(wide < 0, size, wide)
            key = (slice(None),) * (p.axis - p.batch) + (wide,)
            return getattr(x.at[key], name)(u, mode="drop")

        for _ in range(p.batch):
            one = jax.vmap(one)
        return one(x, indices, updates)

    return written


def _conv(p: Any, x: Any, w: Any) -> Any:
    n = x.ndim - 2
    names = "NC" + "DHW"[3 - n :], "OI" + "DHW"[3 - n :], "NC" + "DHW"[3 - n :]
    return lax.conv_general_dilated(
        x,
        w,
        p.strides,
        p.padding,
        rhs_dilation=p.dilation,
        feature_group_count=p.groups,
        dimension_numbers=names,
        precision="highest",
    )


def _sorted(p: Any, *xs: Any) -> Any:
    if not p.descending:
        return lax.sort(xs, dimension=p.axis, num_keys=p.keys, is_stable=True)
    turned = [jnp.flip(x, p.axis) for x in xs]
    made = lax.sort(turned, dimension=p.axis, num_keys=p.keys, is_stable=True)
    return tuple([jnp.flip(x, p.axis) for x in made])


def _triangular(p: Any, a: Any, b: Any) -> Any:
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=p.lower, transpose_a=p.adjoint, conjugate_a=p.adjoint, unit_diagonal=p.unit
    )


def _round(p: Any, x: Any) -> Any:
    method = lax.RoundingMethod.TO_NEAREST_EVEN if p.halves is Halves.EVEN else lax.RoundingMethod.AWAY_FROM_ZERO
    return lax.round(x, method)


SAME_NAME = (
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "abs",
    "sign",
    "sqrt",
    "rsqrt",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tanh",
    "logistic",
    "erf",
    "pow",
    "max",
    "min",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "clamp",
    "exp2",
    "cbrt",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "erfc",
    "erf_inv",
    "lgamma",
    "digamma",
    "square",
    "floor",
    "ceil",
    "is_finite",
    "atan2",
    "nextafter",
    "rem",
    "real",
    "imag",
    "conj",
    "complex",
    "population_count",
    "clz",
    "shift_left",
    "shift_right_logical",
    "shift_right_arithmetic",
)
JAX: dict[str, Callable[..., Any]] = {
    **{name: _elementwise(name) for name in SAME_NAME},
    **{ours: _elementwise(f"bitwise_{ours}") for ours in ("and", "or", "xor", "not")},
    **{f"logical_{name}": _elementwise(f"bitwise_{name}") for name in ("and", "or", "xor", "not")},
    "trunc": lambda p, x: jnp.trunc(x),
    "round": _round,
    "is_nan": lambda p, x: jnp.isnan(x),
    "signbit": lambda p, x: jnp.signbit(x),
    "log2": lambda p, x: jnp.log2(x),
    "log10": lambda p, x: jnp.log10(x),
    "hypot": lambda p, x, y: jnp.hypot(x, y),
    "remainder": lambda p, x, y: jnp.remainder(x, y),
    "floor_divide": lambda p, x, y: jnp.floor_divide(x, y),
    "polygamma": lambda p, x: special.polygamma(p.order, x),
    "integer_pow": lambda p, x: lax.integer_pow(x, p.exponent),
    "select": lambda p, c, x, y: lax.select(jnp.asarray(c), x, y),
    "convert": lambda p, x: lax.convert_element_type(x, p.dtype.carrier),
    "stop_gradient": lambda p, x: lax.stop_gradient(x),
    "bitcast_convert": lambda p, x: lax.bitcast_convert_type(x, p.dtype.carrier),
    "reduce_precision": lambda p, x: lax.reduce_precision(x, p.exponent, p.mantissa),
    "reshape": lambda p, x: lax.reshape(x, p.shape),
    "transpose": lambda p, x: lax.transpose(x, p.axes),
    "reverse": lambda p, x: lax.rev(x, p.axes),
    "broadcast": _spread,
    "slice": lambda p, x: lax.slice(x, p.starts, p.limits, p.strides),
    "pad": lambda p, x, v: lax.pad(x, v, list(zip(p.low, p.high, p.interior, strict=True))),
    "concatenate": lambda p, *xs: lax.concatenate(xs, p.axis),
    "gather": _take,
    "scatter": _put("set"),
    "scatter_add": _put("add"),
    "scatter_mul": _put("multiply"),
    "scatter_min": _put("min"),
    "scatter_max": _put("max"),
    "dot_general": _dot,
    "conv": _conv,
    "reduce_sum": _reduced("sum"),
    "reduce_prod": _reduced("prod"),
    "reduce_max": _reduced("max"),
    "reduce_min": _reduced("min"),
    "reduce_and": _logical("bitwise_and"),
    "reduce_or": _logical("bitwise_or"),
    "reduce_xor": _logical("bitwise_xor"),
    "argmax": lambda p, x: lax.argmax(x, p.axis, p.dtype.carrier),
    "argmin": lambda p, x: lax.argmin(x, p.axis, p.dtype.carrier),
    "cumsum": _running("cumsum"),
    "cumprod": _running("cumprod"),
    "cummax": _running("cummax"),
    "cummin": _running("cummin"),
    "cumlogsumexp": _running("cumlogsumexp"),
    "recurrence": _recurrence,
    "dynamic_slice": lambda p, x, starts: lax.dynamic_slice(x, list(starts), p.sizes),
    "dynamic_update_slice": lambda p, x, u, starts: lax.dynamic_update_slice(x, u, list(starts)),
    "sort": _sorted,
    "fft": lambda p, x: (jnp.fft.ifft if p.inverse else jnp.fft.fft)(x, axis=p.axis),
    "rfft": lambda p, x: jnp.fft.rfft(x, axis=p.axis),
    "irfft": lambda p, x: jnp.fft.irfft(x, n=p.length, axis=p.axis),
    "triangular_solve": _triangular,
    "cholesky": lambda p, x: lax.linalg.cholesky(x, symmetrize_input=False),
    "lu": lambda p, x: lax.linalg.lu(x),
    "qr": lambda p, x: lax.linalg.qr(x, full_matrices=False),
    "det": lambda p, x: jnp.linalg.det(x),
    "iota": lambda p: lax.broadcasted_iota(p.dtype.carrier, p.shape, p.axis),
    "full": lambda p: lax.full(p.shape, p.entry),
    "constant": lambda p: jnp.asarray(p.array),
}

# Ops that JAX has not, or not with the same freedom; tests elsewhere are named.
NOT_IN_JAX = {
    "conv_input_adjoint": "an adjoint of conv: the adjoint law",
    "conv_kernel_adjoint": "an adjoint of conv: the adjoint law",
    "chain_mul": "the derivative policy's product: tests/conformance",
    "random_bits": "tests/test_random.py compares with jax.random",
    "shift_right": "a shift by a Python number: shift_right_logical is compared",
    "threefry2x32": "tests/test_random.py compares with jax.random",
    "splitmix64": "not in JAX",
    "eigh": "vectors up to a phase: tests/ops/test_linalg.py",
    "svd": "vectors up to a phase: tests/ops/test_linalg.py",
}

# (op, pattern of sample names, why the values may differ there)
_FLUSHED = "XLA on the CPU takes subnormal numbers as 0; here they keep their value"
_ANNEX = "infinite and NaN parts follow NumPy's branches, not XLA's"
DEVIATIONS: tuple[tuple[str, str, str], ...] = (
    (
        "div|sign|sqrt|rsqrt|log|floor|ceil|log2|log10|lgamma|atan2|rem|remainder|floor_divide",
        "^specials-0$",
        _FLUSHED,
    ),
    ("mul|div|lt|ge|eq|ne|rem|remainder|floor_divide", "^specials-3$", _FLUSHED),
    ("div|sign|sqrt|rsqrt|log|lt|eq", "^bf16 specials$", _FLUSHED),
    ("scatter_mul", "specials", _FLUSHED),
    ("sort", "^(bf16 specials|specials|specials descending)$", _FLUSHED),
    ("convert", "^specials to bool", _FLUSHED),
    ("convert", "c64 specials to bool", "true unless both parts are 0; lax looks at the real part, and warns"),
    ("convert", "f64 specials to f8e8m0fnu", "a number below 2⁻¹²⁷ becomes 2⁻¹²⁷ (the format has no 0); XLA makes NaN"),
    (
        "div|sqrt|rsqrt|log|log2|log10|exp|expm1|log1p|sin|cos|exp2|a?tan|a?sin|a?cos|a?sinh|a?cosh|a?tanh|pow",
        "c64 specials",
        _ANNEX,
    ),
    ("is_finite", "c64 specials", "lax.is_finite takes no complex numbers"),
    ("rfft", "specials", "the sum itself: one NaN or infinity reaches every entry; a fast transform may spare some"),
    ("conv", "specials", "a position outside the input is skipped; XLA multiplies by a padded 0, and 0·∞ is NaN"),
    ("gather", r"64\[0\] along|32\[0\] along", "reading from an empty axis gives the fill value; JAX refuses"),
    ("digamma", "specials|out of its", "poles at ±0 are defined; JAX gives NaN"),
    ("polygamma", "specials|out of", "poles at ±0 and ψ⁽ⁿ⁾ of negative numbers are defined; JAX gives NaN"),
    ("erf_inv", "out of its", "accurate where JAX's float64 series loses digits near ±1"),
    (
        "rem|floor_divide",
        "integer signs|u8",
        "an integer divided by 0 gives 0, as in NumPy; XLA gives -1, or x",
    ),
    ("dynamic_.*", r"at \[-2\]", "a negative start is outside and clamped; JAX counts it from the end first"),
    ("qr", "degenerate: rank one", "columns that depend on others are completed by whatever rounding left"),
)


def reason(sample: Sample) -> str | None:
    found = [why for op, names, why in DEVIATIONS if re.fullmatch(op, sample.op.name) and re.search(names, sample.name)]
    return found[0] if found else None


CASES = [sample for sample in (*SAMPLES, *NUMERIC) if sample.op.name in JAX]


def agree(got: Array, want: Array, scale: float) -> bool:
    """Equal dtype, shape, NaN, infinities and, within the tolerance, numbers."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if got.dtype.name not in INEXACT:
        return got.tobytes() == want.tobytes()
    if got.dtype.kind == "c":
        return agree(got.real, want.real, scale) and agree(got.imag, want.imag, scale)
    bound = ROUNDINGS[got.dtype.name] * UNITS[got.dtype.name]
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(np.isnan(got), np.isnan(want)) or not np.array_equal(
        got[np.isinf(want)], want[np.isinf(want)]
    ):
        return False
    far = np.abs(got[finite] - want[finite])
    return bool(np.all(far <= bound * np.maximum(np.abs(want[finite]), scale)))


def compare(sample: Sample) -> bool:
    with np.errstate(all="ignore"):
        ours = [np.asarray(x) for x in sample.op.denote(NumpyAlgebra(), sample.params, *sample.arrays)]
    with jax.enable_x64(True):
        made = JAX[sample.op.name](sample.params, *[jnp.asarray(array) for array in sample.arrays])
        theirs = [np.asarray(x) for x in (made if isinstance(made, tuple | list) else (made,))]
    largest = [0.0]
    for array in (*sample.arrays, *theirs):
        if array.dtype.name in INEXACT:
            size = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
            largest.append(float(np.max(size[np.isfinite(size) & (size < 1e30)], initial=0)))
    scale = min(max(largest), 1e3)
    return len(ours) == len(theirs) and all(agree(a, b, scale) for a, b in zip(ours, theirs, strict=True))


def test_every_primitive_is_compared_or_says_why_not() -> None:
    names = {sample.op.name for sample in (*SAMPLES, *NUMERIC)}
    assert names - set(JAX) - set(NOT_IN_JAX) == set()
    assert set(JAX) - names == set()
    assert len(CASES) >= 2500
    assert len([sample for sample in CASES if reason(sample) is None]) >= 2400


@pytest.mark.parametrize("sample", [pytest.param(s, id=repr(s)) for s in CASES if reason(s) is None])
def test_the_value_is_that_of_jax(sample: Sample) -> None:
    assert compare(sample)


@pytest.mark.parametrize("row", DEVIATIONS, ids=lambda row: f"{row[0]} {row[1]}")
def test_a_deviation_is_one_in_fact(row: tuple[str, str, str]) -> None:
    """Every sample that the row excuses differs (or JAX refuses it), and no op in it is without one."""

    def differs(sample: Sample) -> bool:
        try:
            return not compare(sample)
        except (TypeError, IndexError, np.exceptions.ComplexWarning):
            return True

    op, names, _ = row
    excused = [sample for sample in CASES if re.fullmatch(op, sample.op.name) and re.search(names, sample.name)]
    assert [repr(sample) for sample in excused if not differs(sample)] == []
    found = {sample.op.name for sample in excused}
    assert found
    assert [each for each in op.split("|") if each not in found and not re.search("[?*]", each)] == []
