"""Left folds, vectorised over the entries that are kept: the definition's order and roundings at NumPy's speed.

What makes this exact: `np.add.reduce` over the first axis of a C-contiguous [count, kept] array with kept ≥ 2 adds row
after row (its inner loop runs along `kept`; with kept = 1 it would switch to pairwise summation), and `accumulate` is
sequential by its own definition. A fold that starts at +0 never becomes -0, so starting at the first row and adding +0
at the end gives the same bits, and a term of ±0 in place of a skipped one changes nothing.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from torchlean.backends.reference.elementwise import scalar

Array = np.ndarray[Any, Any]

_CHUNK = 1 << 15  # entries of the product buffer: it should stay in the second-level cache
_BLOCK = 1 << 13  # kept entries handled together


def fold_rows(rows: Array) -> Array:
    """Sum [count, kept] over its first axis, from 0 in order: [kept]."""
    count, kept = rows.shape
    if count == 0 or kept == 0:
        return np.zeros(kept, dtype=rows.dtype)
    zero = scalar(0, rows.dtype)
    if kept == 1:
        return np.add(np.add.accumulate(rows.reshape(count), 0, rows.dtype)[-1:], zero)
    return np.add(np.add.reduce(np.ascontiguousarray(rows), 0, rows.dtype), zero)


def fold_products(left: Array, right: Array, skipped: Array | None = None) -> Array:
    """Σ_k left[k, b, m] · right[k, b, n], from 0 in order of k, each product rounded: [b, m, n].

    Where `skipped` (broadcastable to [k, b, n]) holds, the term counts as 0 whatever the factors are.
    """
    folded, batch, rows = left.shape
    columns = right.shape[2]
    kept = batch * rows * columns
    if folded == 0 or kept == 0:
        return np.zeros((batch, rows, columns), dtype=left.dtype)
    if skipped is None and columns < 16 and columns < rows:  # long inner loops: the longer side goes last
        return _fold(np.ascontiguousarray(right), np.ascontiguousarray(left), None).transpose(0, 2, 1)
    return _fold(np.ascontiguousarray(left), np.ascontiguousarray(right), skipped)


def _fold(left: Array, right: Array, skipped: Array | None) -> Array:
    folded, batch, rows = left.shape
    columns = right.shape[2]
    kept = batch * rows * columns
    if folded * kept <= _CHUNK:
        terms = np.multiply(left[:, :, :, None], right[:, :, None, :])
        if skipped is not None:
            np.copyto(terms, 0, where=skipped[:, :, None, :])
        return fold_rows(terms.reshape(folded, kept)).reshape(batch, rows, columns)
    total = np.zeros((batch, rows, columns), dtype=left.dtype)
    step = max(1, _BLOCK // columns)
    for b in range(batch):
        hidden = None if skipped is None else skipped[:, min(b, skipped.shape[1] - 1)]
        for row in range(0, rows, step):
            _accumulate(left[:, b, row : row + step], right[:, b], hidden, total[b, row : row + step])
    return total


def _accumulate(left: Array, right: Array, skipped: Array | None, total: Array) -> None:
    """Add Σ_k left[k, m] · right[k, n] to the zeros in `total` [m, n], a contiguous block."""
    folded, rows = left.shape
    columns = right.shape[1]
    kept = rows * columns
    if kept >= _BLOCK // 4 or kept == 1:
        term = np.empty((rows, columns), dtype=left.dtype)
        for k in range(folded):
            np.multiply(left[k, :, None], right[k], term)
            if skipped is not None:
                np.copyto(term, 0, where=skipped[k])
            np.add(total, term, total)
        return
    step = max(1, _CHUNK // kept)
    buffer = np.empty((step + 1, rows, columns), dtype=left.dtype)
    for k in range(0, folded, step):
        count = min(step, folded - k)
        buffer[0] = total
        terms = buffer[1 : count + 1]
        np.multiply(left[k : k + count, :, None], right[k : k + count, None, :], terms)
        if skipped is not None:
            np.copyto(terms, 0, where=skipped[k : k + count, None, :])
        np.add.reduce(buffer[: count + 1].reshape(count + 1, kept), 0, out=total.reshape(kept))


def reduced_rows(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """How to see an array as [count, kept]: the axis order, the count, and the shape that is kept."""
    kept = tuple([axis for axis in range(len(shape)) if axis not in axes])
    return axes + kept, prod([shape[axis] for axis in axes]), tuple([shape[axis] for axis in kept])
