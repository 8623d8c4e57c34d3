"""Every primitive PyTorch has against PyTorch: each sample's value, and the cotangents of its float operands.

Deliberate deviations are one table, with reasons, and every row of it must be needed. Tolerance: as for JAX, units in
the last place of the largest magnitude involved, since both compute in other orders.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ops.composite_samples import graph_of
from ops.numeric_samples import NUMERIC
from ops.samples import SAMPLES, Sample

from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.evaluate import denote
from torchlean.ir.ops.gather import Mode
from torchlean.ir.ops.rounding import Halves
from torchlean.transforms.vjp import vjp_graph

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed: nothing to compare with", allow_module_level=True)

import torch

Array = np.ndarray[Any, Any]

ROUNDINGS = 64
UNITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
HELD = ("bool", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64", "complex64", "complex128")
FLOATS = ("float32", "float64")


# -- what PyTorch calls it ---------------------------------------------------------------------------------------------
def _named(name: str) -> Callable[..., Any]:
    return lambda p, *xs: getattr(torch, name)(*xs)


def _folded(name: str) -> Callable[..., Any]:
    """A reduction over several axes, one after the other."""

    def fold(p: Any, x: Any) -> Any:
        for axis in sorted(p.axes, reverse=True):
            x = getattr(torch, name)(x, dim=axis)
        return x

    return fold


def _summed(name: str) -> Callable[..., Any]:
    def fold(p: Any, x: Any) -> Any:
        for axis in sorted(p.axes, reverse=True):
            x = getattr(torch, name)(x, dim=axis, dtype=x.dtype)
        return x

    return fold


def _running(run: Callable[..., Any]) -> Callable[..., Any]:
    def made(p: Any, x: Any) -> Any:
        x = x.flip(p.axis) if p.reverse else x
        y = run(x, p.axis)
        if getattr(p, "exclusive", False):
            start = torch.full_like(x, 0 if run is _cumsum else 1).narrow(p.axis, 0, min(1, x.shape[p.axis]))
            y = torch.cat([start, y.narrow(p.axis, 0, max(x.shape[p.axis] - 1, 0))], p.axis)
        return y.flip(p.axis) if p.reverse else y

    return made


def _cumsum(x: Any, axis: int) -> Any:
    return torch.cumsum(x, axis, dtype=x.dtype)


def _cumprod(x: Any, axis: int) -> Any:
    return torch.cumprod(x, axis, dtype=x.dtype)


def _spread(p: Any, x: Any) -> Any:
    sizes = dict(zip(p.axes, x.shape, strict=True))
    return x.reshape([sizes.get(at, 1) for at in range(len(p.shape))]).expand(p.shape)


def _slice(p: Any, x: Any) -> Any:
    strides = p.strides or (1,) * x.ndim
    return x[tuple([slice(a, b, s) for a, b, s in zip(p.starts, p.limits, strides, strict=True)])]


def _dot(p: Any, x: Any, y: Any) -> Any:
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(x.ndim)]
    right = [next(letters) for _ in range(y.ndim)]
    for a, b in [*zip(p.lhs_batch, p.rhs_batch, strict=True), *zip(p.lhs_contract, p.rhs_contract, strict=True)]:
        right[b] = left[a]
    batch = [left[a] for a in p.lhs_batch]
    rest = [c for a, c in enumerate(left) if a not in (*p.lhs_batch, *p.lhs_contract)]
    other = [c for b, c in enumerate(right) if b not in (*p.rhs_batch, *p.rhs_contract)]
    return torch.einsum(f"{''.join(left)},{''.join(right)}->{''.join(batch + rest + other)}", x, y)


def _conv(p: Any, x: Any, w: Any) -> Any:
    n = x.ndim - 2
    pads = [amount for low, high in reversed(p.padding) for amount in (low, high)]
    padded = torch.nn.functional.pad(x, pads)
    run = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)[n - 1]
    return run(padded, w, None, p.strides, 0, p.dilation, p.groups)


def _inside(p: Any, indices: Any, size: int) -> tuple[Any, Any]:
    """Positions that may be read, and which of them were inside."""
    wide = indices.to(torch.int64)
    near = wide.clamp(0, max(size - 1, 0))
    return near, torch.ones_like(wide, dtype=torch.bool) if p.mode is Mode.CLIP else near == wide


def _take(p: Any, x: Any, indices: Any) -> Any:
    if p.batch:
        inner = type(p)(p.axis - 1, p.batch - 1, p.mode)
        return torch.stack([_take(inner, a, b) for a, b in zip(x, indices, strict=True)])
    near, kept = _inside(p, indices, x.shape[p.axis])
    made = x.index_select(p.axis, near.reshape(-1))
    made = made.reshape((*x.shape[: p.axis], *indices.shape, *x.shape[p.axis + 1 :]))
    flags = kept.reshape((1,) * p.axis + tuple(kept.shape) + (1,) * (x.ndim - p.axis - 1))
    return torch.where(flags, made, torch.zeros_like(made))


def _add(p: Any, x: Any, indices: Any, updates: Any) -> Any:
    if p.batch:
        inner = type(p)(p.axis - 1, p.batch - 1, p.mode)
        return torch.stack([_add(inner, *each) for each in zip(x, indices, updates, strict=True)])
    near, kept = _inside(p, indices, x.shape[p.axis])
    flags = kept.reshape((1,) * p.axis + tuple(kept.shape) + (1,) * (x.ndim - p.axis - 1))
    counted = torch.where(flags, updates, torch.zeros_like(updates))
    counted = counted.reshape((*x.shape[: p.axis], near.numel(), *x.shape[p.axis + 1 :]))
    return x.index_add(p.axis, near.reshape(-1), counted)


def _sorted(p: Any, x: Any) -> Any:
    return torch.sort(x, dim=p.axis, descending=p.descending, stable=True).values


def _triangular(p: Any, a: Any, b: Any) -> Any:
    a = torch.tril(a) if p.lower else torch.triu(a)
    turned = a.mH if p.adjoint else a
    return torch.linalg.solve_triangular(turned, b, upper=p.lower == p.adjoint, unitriangular=p.unit)


def _away(x: Any) -> Any:
    whole = torch.trunc(x)
    return torch.where((x - whole).abs() >= 0.5, whole + torch.sgn(x), whole)


SAME_NAME = (
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "abs",
    "sqrt",
    "rsqrt",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sin",
    "cos",
    "tanh",
    "erf",
    "pow",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "exp2",
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
    "lgamma",
    "digamma",
    "square",
    "floor",
    "ceil",
    "trunc",
    "log2",
    "log10",
    "hypot",
    "atan2",
    "nextafter",
    "floor_divide",
    "remainder",
    "signbit",
    "complex",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
)
TORCH: dict[str, Callable[..., Any]] = {
    **{name: _named(name) for name in SAME_NAME},
    "max": _named("maximum"),
    "min": _named("minimum"),
    "sign": _named("sgn"),
    "logistic": _named("sigmoid"),
    "erf_inv": _named("erfinv"),
    "rem": _named("fmod"),
    "is_finite": _named("isfinite"),
    "is_nan": _named("isnan"),
    "and": _named("bitwise_and"),
    "or": _named("bitwise_or"),
    "xor": _named("bitwise_xor"),
    "not": _named("bitwise_not"),
    "clamp": lambda p, low, x, high: torch.clamp(x, low, high),
    "round": lambda p, x: torch.round(x) if p.halves is Halves.EVEN else _away(x),
    "polygamma": lambda p, x: torch.polygamma(p.order, x),
    "integer_pow": lambda p, x: torch.pow(x, p.exponent),
    "select": lambda p, c, x, y: torch.where(c, x, y),
    "real": lambda p, x: x.real,
    "imag": lambda p, x: x.imag,
    "conj": lambda p, x: torch.conj_physical(x),
    "stop_gradient": lambda p, x: x.detach(),
    "reshape": lambda p, x: x.reshape(p.shape),
    "transpose": lambda p, x: x.permute(p.axes),
    "reverse": lambda p, x: x.flip(p.axes),
    "broadcast": _spread,
    "slice": _slice,
    "concatenate": lambda p, *xs: torch.cat(xs, p.axis),
    "gather": _take,
    "scatter_add": _add,
    "dot_general": _dot,
    "conv": _conv,
    "reduce_sum": _summed("sum"),
    "reduce_prod": _summed("prod"),
    "reduce_max": _folded("amax"),
    "reduce_min": _folded("amin"),
    "reduce_and": _folded("all"),
    "reduce_or": _folded("any"),
    "argmax": lambda p, x: torch.argmax(x, p.axis).to(getattr(torch, p.dtype.label)),
    "argmin": lambda p, x: torch.argmin(x, p.axis).to(getattr(torch, p.dtype.label)),
    "cumsum": _running(_cumsum),
    "cumprod": _running(_cumprod),
    "cummax": _running(lambda x, axis: torch.cummax(x, axis).values),
    "cummin": _running(lambda x, axis: torch.cummin(x, axis).values),
    "cumlogsumexp": _running(torch.logcumsumexp),
    "sort": _sorted,
    "fft": lambda p, x: (torch.fft.ifft if p.inverse else torch.fft.fft)(x, dim=p.axis),
    "rfft": lambda p, x: torch.fft.rfft(x, dim=p.axis),
    "irfft": lambda p, x: torch.fft.irfft(x, n=p.length, dim=p.axis),
    "triangular_solve": _triangular,
    "cholesky": lambda p, x: torch.linalg.cholesky(torch.tril(x) + torch.tril(x, -1).mH),
    "det": lambda p, x: torch.linalg.det(x),
}


def held(sample: Sample) -> bool:
    """Whether PyTorch takes the dtypes, and this file the form, of a sample."""
    wide = sample.op.name != "sort" or len(sample.arrays) == 1
    unsigned = sample.op.name in ("gather", "scatter_add") and any(
        a.dtype.name.startswith("uint") for a in sample.arrays
    )
    bitwise = sample.op.name in ("reduce_and", "reduce_or") and sample.arrays[0].dtype != np.bool_
    return wide and not unsigned and not bitwise and all(array.dtype.name in HELD for array in sample.arrays)


CASES = [sample for sample in (*SAMPLES, *NUMERIC) if sample.op.name in TORCH and held(sample)]
PULLED = [
    sample
    for sample in CASES
    if sample.smooth
    and sample.arrays
    and any(array.dtype.name in FLOATS for array in sample.arrays)
    and not any(array.dtype.kind == "c" for array in sample.arrays)
]

# (op, pattern of sample names, why the values may differ there, or PyTorch refuses)
_NOWHERE = "no entry to read gives the fill value; PyTorch refuses"
_BY_ZERO = "an integer divided by 0 gives 0, as in NumPy; PyTorch raises"
_TRIGAMMA = "PyTorch's series stops near 1e-10, and has no poles; see JAX for the digits"
_ANNEX = "infinite and NaN parts follow NumPy's branches"
DEVIATIONS: tuple[tuple[str, str, str], ...] = (
    ("sign", "^specials", "NaN stays NaN; PyTorch makes it 0"),
    ("gather|scatter_add", r"(64|32)\[0\] along|\[0, 3\] along 1 paired 1 fill", _NOWHERE),
    ("conv", r"pad \[\]$", "PyTorch has none without an axis to slide along"),
    ("conv", r"\[2, 0, 5\]", "without input channels every sum is 0; PyTorch gives no output channels"),
    ("polygamma", r"1 f64|out of|(2|3) specials", _TRIGAMMA),
    ("rem|remainder|floor_divide", "integer signs|^u8", _BY_ZERO),
    ("cumsum", "order shows", "a left fold in the dtype of the operand; PyTorch adds in a wider one"),
    ("fft|rfft|irfft", r"\[0, 3\]", "transforms of no rows are no rows; MKL refuses"),
    ("rfft", "specials", "the sum itself: one NaN or infinity reaches every entry; a fast transform may spare some"),
    ("cholesky", "NaN|degenerate: (zeros|rank one|indefinite)", "NaN where there is no factor; PyTorch raises"),
    ("add|sub|log1p|pow", "c64 specials", _ANNEX),
)
# the same of cotangents
PULLED_DEVIATIONS: tuple[tuple[str, str, str], ...] = (
    ("gather|scatter_add", r"64\[0\] along|\[0, 3\] along 1 paired 1 fill", _NOWHERE),
    ("conv", r"pad \[\]$|\[2, 0, 5\]", "as its value"),
    ("digamma", "f64", _TRIGAMMA),
)


def reason(sample: Sample, table: tuple[tuple[str, str, str], ...]) -> str | None:
    found = [why for op, names, why in table if re.fullmatch(op, sample.op.name) and re.search(names, sample.name)]
    return found[0] if found else None


def tensor(array: Array) -> Any:
    return torch.tensor(array) if array.size else torch.zeros(array.shape, dtype=getattr(torch, array.dtype.name))


def agree(got: Array, want: Array, scale: float) -> bool:
    """Equal dtype, shape, NaN, infinities and, within the tolerance, numbers."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if got.dtype.kind == "c":
        return agree(got.real, want.real, scale) and agree(got.imag, want.imag, scale)
    if got.dtype.kind != "f":
        return got.tobytes() == want.tobytes()
    bound = ROUNDINGS * UNITS[got.dtype.name]
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(want)
    if not np.array_equal(np.isnan(got), np.isnan(want)):
        return False
    if not np.array_equal(got[np.isinf(want)], want[np.isinf(want)]):
        return False
    return bool(np.all(np.abs(got[finite] - want[finite]) <= bound * np.maximum(np.abs(want[finite]), scale)))


def scale_of(arrays: Sequence[Array]) -> float:
    """The largest ordinary magnitude, at most 1000."""
    largest = [0.0]
    for array in arrays:
        if array.dtype.kind in "fc":
            size = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
            largest.append(float(np.max(size[np.isfinite(size) & (size < 1e30)], initial=0)))
    return min(max(largest), 1e3)


def compare(sample: Sample) -> bool:
    with np.errstate(all="ignore"):
        (ours,) = [np.asarray(x) for x in sample.op.denote(NumpyAlgebra(), sample.params, *sample.arrays)]
    theirs = TORCH[sample.op.name](sample.params, *map(tensor, sample.arrays)).resolve_conj().numpy()
    return agree(ours, theirs, scale_of([*sample.arrays, theirs]))


def compare_cotangents(sample: Sample) -> bool:
    wrt = [at for at, array in enumerate(sample.arrays) if array.dtype.name in FLOATS]
    graph = graph_of(sample)
    tensors = [tensor(array) for array in sample.arrays]
    for at in wrt:
        tensors[at].requires_grad_()
    made = TORCH[sample.op.name](sample.params, *tensors)
    if not made.requires_grad:
        raise TypeError("PyTorch does not differentiate it")
    seed = np.random.default_rng(5).normal(size=tuple(made.shape))
    seed = (seed + 1j * seed[::-1] if made.is_complex() else seed).astype(made.detach().numpy().dtype)
    theirs = torch.autograd.grad(made, [tensors[at] for at in wrt], tensor(seed), allow_unused=True)
    theirs = [np.zeros_like(sample.arrays[at]) if t is None else t.numpy() for at, t in zip(wrt, theirs, strict=True)]
    ours = denote(vjp_graph(graph, wrt), [*sample.arrays, seed])
    scale = scale_of([*sample.arrays, *theirs, seed])
    return all([agree(np.asarray(a), b, scale) for a, b in zip(ours, theirs, strict=True)])


NOT_COMPARED = {
    "chain_mul": "the product of the chain rule: not in PyTorch",
    "convert": "conversions out of range differ by device: tests/ops/test_dtypes.py",
    "bitcast_convert": "JAX and NumPy are compared",
    "reduce_precision": "not in PyTorch",
    "population_count": "not in PyTorch",
    "clz": "not in PyTorch",
    "cbrt": "not in PyTorch",
    "reduce_xor": "not in PyTorch",
    "recurrence": "not in PyTorch",
    "shift_left": "undefined for large shifts in PyTorch",
    "shift_right_logical": "not in PyTorch",
    "shift_right_arithmetic": "undefined for large shifts in PyTorch",
    "pad": "interior and negative padding: not in PyTorch",
    "scatter": "of duplicates PyTorch promises nothing: JAX is compared",
    "scatter_mul": "tests/numpy_api/test_at_against_jax.py",
    "scatter_min": "tests/numpy_api/test_at_against_jax.py",
    "scatter_max": "tests/numpy_api/test_at_against_jax.py",
    "dynamic_slice": "not in PyTorch",
    "dynamic_update_slice": "not in PyTorch",
    "conv_input_adjoint": "an adjoint of conv: its cotangents are compared",
    "conv_kernel_adjoint": "an adjoint of conv: its cotangents are compared",
    "random_bits": "not in PyTorch",
    "iota": "no operand: JAX is compared",
    "full": "no operand: JAX is compared",
    "constant": "no operand: JAX is compared",
    "eigh": "vectors up to a phase: tests/ops/test_linalg.py",
    "svd": "vectors up to a phase: tests/ops/test_linalg.py",
    "qr": "signs of the columns: tests/ops/test_linalg.py",
    "lu": "packed otherwise: JAX is compared",
}


def test_every_primitive_is_compared_or_says_why_not() -> None:
    names = {sample.op.name for sample in (*SAMPLES, *NUMERIC)}
    assert names - set(TORCH) - set(NOT_COMPARED) == set()
    assert (set(TORCH) | set(NOT_COMPARED)) - names == set()
    assert len(CASES) >= 1550
    assert len(PULLED) >= 330


@pytest.mark.parametrize("sample", [pytest.param(s, id=repr(s)) for s in CASES if reason(s, DEVIATIONS) is None])
def test_the_value_is_that_of_torch(sample: Sample) -> None:
    assert compare(sample)


@pytest.mark.parametrize("sample", [pytest.param(s, id=repr(s)) for s in PULLED if not reason(s, PULLED_DEVIATIONS)])
def test_the_cotangents_are_those_of_torch(sample: Sample) -> None:
    """Of samples without kinks, ties and poles; those are compared with what PyTorch gives in the edge cases."""
    assert compare_cotangents(sample)


@pytest.mark.parametrize("pulled", [False, True], ids=["value", "cotangents"])
def test_every_deviation_is_one_in_fact(pulled: bool) -> None:
    """Every sample that a row excuses differs, or PyTorch refuses it; and every op in a row has one."""
    table, cases, same = (PULLED_DEVIATIONS, PULLED, compare_cotangents) if pulled else (DEVIATIONS, CASES, compare)

    def differs(sample: Sample) -> bool:
        try:
            return not same(sample)
        except (RuntimeError, IndexError):
            return True

    for op, names, _ in table:
        excused = [sample for sample in cases if re.fullmatch(op, sample.op.name) and re.search(names, sample.name)]
        assert [repr(sample) for sample in excused if not differs(sample)] == []
        assert {sample.op.name for sample in excused} == set(op.split("|"))
