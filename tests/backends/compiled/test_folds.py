"""Folds with a row in each lane of a vector: the bits of the definition, whatever rows and columns are left over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.toolbox import same_bits, traced

from torchlean import ops
from torchlean.backends import Executable, accept, plan

pytestmark = pytest.mark.usefixtures("compiler")

SHAPES = ((16, 64), (37, 129), (8, 40), (150, 33), (3, 40, 5, 17), (19, 3, 70))
DTYPES = (np.float32, np.float64, np.int32, np.int64, np.uint32, np.uint64)


def drawn(shape: tuple[int, ...], dtype: Any) -> Any:
    rng = np.random.default_rng(sum(shape))
    if not np.issubdtype(dtype, np.floating):
        return rng.integers(0, 2**31, shape).astype(dtype)
    made = rng.normal(size=shape).astype(dtype)
    rows = made.reshape(-1, shape[-1])
    rows[0], rows[1, 3], rows[2, 5], rows[3, 7] = -0.0, np.nan, np.inf, -np.inf
    rows[4, -1], rows[5] = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    return made


def folds(x: Any) -> tuple[Any, ...]:
    """Of what is in memory, and of what is computed on the way."""
    last = x.type.rank - 1
    made = [ops.sum(x, last), ops.sum(x * x - x, last), ops.prod(x, last), ops.sum(x, (last - 1, last))]
    if x.type.rank > 2:
        made.append(ops.sum(x + x, (0, last)))
    if not x.type.dtype.is_float:
        made += [ops.reduce_and(x, (last,)), ops.reduce_or(x, (last,)), ops.reduce_xor(x, (last,))]
    return tuple(made)


@pytest.mark.parametrize("dtype", DTYPES, ids=[np.dtype(each).name for each in DTYPES])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_side_by_side_are_folded_in_order(shape: tuple[int, ...], dtype: Any) -> None:
    x = drawn(shape, dtype)
    graph = traced(folds, x)
    for got, want in zip(run(graph, [x]), run(graph, [x], REFERENCE), strict=True):
        assert same_bits(got, want)


def test_many_long_rows_are_folded_in_the_lanes_of_a_vector() -> None:
    x = drawn((64, 128), np.float32)
    source = Executable(accept(plan(traced(lambda x: ops.sum(x, 1), x), COMPILED))).source
    assert "total = turned_f32_" in source


@pytest.mark.parametrize("size", [128, 129, 1000])
@pytest.mark.parametrize("at", [(), (0,), (5, 77)])
def test_an_extreme_along_a_row_is_the_first_of_equal_zeros_and_a_nan(size: int, at: tuple[int, ...]) -> None:
    x = np.full((3, size), -1.0, np.float32)
    x[0, 60:90:2], x[0, 61:91:2] = -0.0, 0.0
    x[1, list(at)] = np.nan
    x[2, size - 1] = 2.0
    graph = traced(lambda x: (ops.amax(x, 1), ops.amin(-x, 1)), x)
    for got, want in zip(run(graph, [x]), run(graph, [x], REFERENCE), strict=True):
        assert same_bits(got, want)
