"""One call in every way a program may be run, and its results as NumPy arrays.

Not a test. `results` runs a function eagerly, as a traced graph by its definition, and lowered, and insists that all
three give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import torchlean as tl
from torchlean import pytree
from torchlean.ir.evaluate import denote
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array


def eager(f: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The leaves of `f` of eager arrays."""
    return [np.asarray(leaf) for leaf in pytree.leaves(f(*[tl.array(array) for array in arrays]))]


def results(f: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """The leaves of `f`, run eagerly, traced and lowered: the same bits each time."""
    now = eager(f, *arrays)
    types = [type_of_array(array) for array in arrays]
    graph = trace_flat(lambda *xs: pytree.leaves(f(*xs)), types).graph
    assert [(type.shape, type.dtype.carrier) for type in graph.output_types] == [(x.shape, x.dtype) for x in now]
    same_bits(now, denote(graph, arrays), "its definition")
    if graph.outputs:
        lowered = tl.jit(lambda *xs: tuple(pytree.leaves(f(*xs))))(*arrays)
        same_bits(now, [np.asarray(leaf) for leaf in pytree.leaves(lowered)], "the lowered program")
    return now


def same_bits(mine: Sequence[Any], others: Sequence[Any], what: str) -> None:
    """Equal dtypes, shapes and bits, any NaN being any other."""
    assert len(mine) == len(others)
    for x, y in zip(mine, others, strict=True):
        y = np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype), f"eager {x.dtype}{x.shape}, {what} {y.dtype}{y.shape}"
        np.testing.assert_array_equal(x, y, err_msg=f"eager differs from {what}")
        if x.dtype.kind == "f":
            there = ~np.isnan(x)
            np.testing.assert_array_equal(np.signbit(x)[there], np.signbit(y)[there])


def close(mine: Any, wanted: Any, *, ulps: float = 8, dtype: bool = True) -> None:
    """The value another library gives: exact for integers and booleans, `ulps` units of the largest entry for floats.

    The units are of the dtype of `mine`: sums here fold left, others pair, and transcendental functions differ too.
    """
    mine, wanted = np.asarray(mine), np.asarray(wanted)
    assert mine.shape == wanted.shape, f"shape {mine.shape}, wanted {wanted.shape}"
    if dtype:
        assert mine.dtype == wanted.dtype, f"dtype {mine.dtype}, wanted {wanted.dtype}"
    if mine.dtype.kind not in "fc":
        np.testing.assert_array_equal(mine, wanted)
        return
    eps = float(np.finfo(mine.dtype).eps)
    finite = np.abs(wanted)[np.isfinite(wanted)]
    scale = float(finite.max()) if finite.size else 0.0
    np.testing.assert_allclose(mine, wanted, rtol=ulps * eps, atol=ulps * eps * min(scale, 1e30) + 1e-300)
