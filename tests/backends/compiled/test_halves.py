"""16-bit floats: words widened, rounded and moved in C as NumPy and ml_dtypes do, over every word there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.toolbox import normal, same_bits, traced

from torchlean import ops
from torchlean.backends import plan
from torchlean.ir.dtypes import DType

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
def test_what_stays_with_the_reference(short: str) -> None:
    x, w = normal(1, 2, 5, 5).astype(carrier(short)), normal(3, 2, 3, 3).astype(carrier(short))
    lowered = str(plan(traced(lambda x, w: ops.conv(x, w), x, w), COMPILED))
    assert "16-bit floats have no such op in the generated C" in lowered
    cube = str(plan(traced(lambda x: ops.integer_pow(x, 3), x), COMPILED))
    assert "a power of a 16-bit float is rounded after every product" in cube
    if short == "bf16":
        wide = str(plan(traced(lambda n: ops.convert(n, "bf16"), np.arange(3)), COMPILED))
        assert "64-bit integers do not fit the double by way of which bf16 is rounded" in wide
