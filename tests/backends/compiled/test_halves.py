"""16-bit floats: words widened, rounded and moved in C as NumPy and ml_dtypes do, over every word there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.toolbox import normal, same_bits, traced

import torchlean as tl
from torchlean import ops
from torchlean.backends import plan
from torchlean.ir.dtypes import DType, as_dtype

pytestmark = pytest.mark.usefixtures("compiler")

HALVES = ("f16", "bf16")


def carrier(short: str) -> Any:
    return (DType.F16 if short == "f16" else DType.BF16).carrier


def every_word(short: str) -> Any:
    return np.arange(1 << 16, dtype=np.uint16).view(carrier(short))


def providers(graph: Any) -> set[str]:
    return {step.capsule.provider for step in plan(graph, COMPILED).steps}


def agrees(f: Any, *arrays: Any) -> None:
    graph = traced(f, *arrays)
    assert providers(graph) == {"compiled"}
    for got, want in zip(run(graph, arrays), run(graph, arrays, REFERENCE), strict=True):
        assert same_bits(got, want)


UNARY = {
    "neg": lambda x: -x,
    "abs": ops.abs,
    "sign": ops.sign,
    "sqrt": ops.sqrt,
    "rsqrt": ops.rsqrt,
    "exp": ops.exp,
    "log": ops.log,
    "tanh": ops.tanh,
    "floor": ops.floor,
    "square": ops.square,
    "to f32": lambda x: ops.convert(x, "f32"),
    "to f64": lambda x: ops.convert(x, "f64"),
    "to i8": lambda x: ops.convert(x, "i8"),
    "to u64": lambda x: ops.convert(x, "u64"),
    "to bool": lambda x: ops.convert(x, "bool"),
    "to f16": lambda x: ops.convert(x, "f16"),
    "to bf16": lambda x: ops.convert(x, "bf16"),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("short", HALVES)
def test_every_word(short: str, name: str) -> None:
    with np.errstate(all="ignore"):
        agrees(lambda x: (UNARY[name](x), x * 1), every_word(short))


@pytest.mark.parametrize("short", HALVES)
def test_words_that_are_moved_keep_their_bits(short: str) -> None:
    """Those of NaN too."""
    x = every_word(short)
    graph = traced(lambda x: (ops.select(ops.is_nan(x), x, x), ops.concatenate([x, ops.reverse(x, (0,))])), x)
    assert providers(graph) == {"compiled"}
    for got, want in zip(run(graph, [x]), (x, np.concatenate([x, x[::-1]])), strict=True):
        assert np.array_equal(got.view(np.uint16), want.view(np.uint16))


@pytest.mark.parametrize("source", ["f32", "f64", "i32", "u8"])
@pytest.mark.parametrize("short", HALVES)
def test_conversions_round_once(short: str, source: str) -> None:
    """Halfway between neighbours, next to it on both sides, beyond the largest and below the least."""
    with np.errstate(invalid="ignore"):
        values = every_word(short).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    middle = (values[1:] + values[:-1]) / 2
    tried = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), values * 1.0001])
    tried = np.concatenate([tried, [np.inf, -np.inf, np.nan, -0.0, 1e300, 65519.999, 65520.0, 1e-46]])
    if source[0] == "f":
        with np.errstate(all="ignore"):
            x = tried.astype(np.float32 if source == "f32" else np.float64)
    else:
        limits = np.iinfo(np.int32 if source == "i32" else np.uint8)
        inside = tried[(tried >= limits.min) & (tried <= limits.max)]
        x = np.concatenate([inside, np.array([limits.min, limits.max, 257, 4097, 16777217.0])]).astype(limits.dtype)
    with np.errstate(all="ignore"):
        agrees(lambda x: ops.convert(x, short), x)


@pytest.mark.parametrize("short", HALVES)
def test_arithmetic_of_pairs(short: str) -> None:
    words = np.random.default_rng(3).integers(0, 1 << 16, (2, 40000), dtype=np.uint16).view(carrier(short))
    with np.errstate(all="ignore"):
        agrees(lambda x, y: (x + y, x - y, x * y, x / y, ops.max(x, y), x < y, ops.select(x > y, x, y)), *words)


@pytest.mark.parametrize("short", HALVES)
@pytest.mark.parametrize("columns", [1, 9, 1500])
def test_products_and_folds_round_every_step(short: str, columns: int) -> None:
    a, b = normal(7, 40, seed=1).astype(carrier(short)), normal(40, columns, seed=2).astype(carrier(short))
    agrees(lambda a, b: a @ b, a, b)
    agrees(lambda a, b: ops.matmul(ops.transpose(b), ops.transpose(a)), a, b)
    agrees(
        lambda b: (ops.sum(b), ops.sum(b, 0), ops.sum(b, 1), ops.amax(b, 1), ops.cumsum(b, 0), ops.sort(b, axis=0)),
        b,
    )


@pytest.mark.parametrize("short", HALVES)
@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 2, 3, 4, 7, 10])
def test_powers_are_rounded_after_every_product(short: str, exponent: int) -> None:
    with np.errstate(all="ignore"):
        agrees(lambda x: ops.integer_pow(x, exponent), every_word(short))


@pytest.mark.parametrize("other", ["f16", "bf16", "i16", "u16"])
@pytest.mark.parametrize("short", HALVES)
def test_words_that_are_read_as_others(short: str, other: str) -> None:
    """Every word, those of NaN too, there and back."""
    x = every_word(short)
    there = traced(lambda x: ops.bitcast_convert(x, other), x)
    assert providers(there) <= {"compiled"}
    made = run(there, [x])[0]
    assert np.array_equal(made.view(np.uint16), x.view(np.uint16))
    back = run(traced(lambda x: ops.bitcast_convert(x, short), made), [made])[0]
    assert np.array_equal(back.view(np.uint16), x.view(np.uint16))


@pytest.mark.parametrize("short", HALVES)
@pytest.mark.parametrize("bits", [(5, 2), (4, 3), (8, 7), (5, 10), (2, 0), (8, 0), (11, 52)])
def test_fewer_bits_are_kept(short: str, bits: tuple[int, int]) -> None:
    with np.errstate(all="ignore"):
        agrees(lambda x: ops.reduce_precision(x, *bits), every_word(short))


@pytest.mark.parametrize("short", HALVES)
def test_neighbours(short: str) -> None:
    """Of every word on the way to another, to itself, to both zeros and infinities, and to NaN."""
    x = every_word(short)
    others = [np.roll(x, 12345), x, *[np.full_like(x, end) for end in (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0)]]
    with np.errstate(all="ignore"):
        for other in others:
            agrees(ops.nextafter, x, other)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("short", HALVES)
def test_long_integers_round_once(short: str, dtype: Any) -> None:
    """Halfway between neighbours, next to it on both sides, and the ends of the range."""
    rng = np.random.default_rng(5)
    spread = rng.integers(0, 1 << 63, 4000, dtype=np.uint64) >> rng.integers(0, 63, 4000).astype(np.uint64)
    halfway = (np.uint64(1) << np.arange(9, 63, dtype=np.uint64)) // np.uint64(256) * np.uint64(257)
    near = np.concatenate([halfway + np.uint64(at) for at in range(3)] + [halfway - np.uint64(1)])
    x = np.concatenate([spread, near, np.array([0, 1, (1 << 63) - 1, 1 << 62], np.uint64)]).astype(dtype)
    x = np.concatenate([x, -x, np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)])
    with np.errstate(all="ignore"):
        agrees(lambda x: ops.convert(x, short), x)


@pytest.mark.parametrize("short", [*HALVES, "f32", "f64"])
@pytest.mark.parametrize("reverse", [False, True])
def test_running_log_sums_round_every_step(short: str, reverse: bool) -> None:
    x = 5 * normal(6, 30, seed=4)
    x[1, 3], x[2, :4], x[3, 7], x[4, 0] = np.inf, -np.inf, np.nan, -np.inf
    with np.errstate(all="ignore"):
        agrees(
            lambda x: (ops.cumlogsumexp(x, 1, reverse=reverse), ops.cumlogsumexp(x, 0)),
            x.astype(as_dtype(short).carrier),
        )


@pytest.mark.parametrize("short", HALVES)
@pytest.mark.parametrize("factor", [1.0, np.inf], ids=["finite", "infinite"])
@pytest.mark.parametrize("how", ["same", "strided"])
def test_convolutions_round_every_step(short: str, factor: float, how: str) -> None:
    """Groups, strides, padding and dilation, and the two adjoints."""
    x, w = normal(3, 4, 9, 8, seed=1).astype(carrier(short)), normal(6, 2, 3, 2, seed=2).astype(carrier(short))
    w[0, 0, 0, 0] = factor
    given: Any = {"padding": "same"} if how == "same" else {"strides": (2, 1), "dilation": (1, 2), "padding": 1}

    def f(x: Any, w: Any) -> Any:
        return ops.conv(x, w, groups=2, **given)

    with np.errstate(all="ignore"):
        agrees(lambda x, w: (f(x, w), *tl.vjp(f, x, w)[1](f(x, w))), x, w)


def test_convolutions_that_threads_share_out() -> None:
    def f(x: Any, w: Any) -> Any:
        return ops.conv(x, w)

    x, w = normal(9, 4, 24, 24, seed=1).astype(np.float16), normal(16, 4, 3, 3, seed=2).astype(np.float16)
    agrees(lambda x, w: (f(x, w), *tl.vjp(f, x, w)[1](f(x, w))), x, w)


@pytest.mark.parametrize("short", HALVES)
def test_what_stays_with_the_reference(short: str) -> None:
    counted = str(plan(traced(lambda x: ops.iota((9,), 0, short) + x, np.zeros(9, carrier(short))), COMPILED))
    assert "16-bit floats have no counters in the generated C" in counted
