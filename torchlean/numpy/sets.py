"""Sets of entries. Their number depends on values, so each function needs an array: in a trace it is refused.

NaNs are all different, as the standard says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from torchlean.ir import ops
from torchlean.numpy.cumulative import cumulative_sum, diff
from torchlean.numpy.joining import concat
from torchlean.numpy.operands import operand, refuse_traced
from torchlean.numpy.searching import true_positions
from torchlean.numpy.sorting import argsort

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

_FIX = "find the unique entries outside the trace, or work with tnp.sort(x) and a mask of its changes"


class UniqueAll(NamedTuple):
    """Distinct entries in order, where each is first found, which one each entry is, and how often each occurs."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """Distinct entries in order, and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """Distinct entries in order, and which one each entry is."""

    values: Any
    inverse_indices: Any


def unique_all(x: Any, /) -> UniqueAll:
    """Distinct entries in order, with first positions, inverse and counts."""
    x = operand("unique_all", x)
    refuse_traced("unique_all", _FIX, x)
    shape, count = x.type.shape, x.type.size
    flat = ops.reshape(x, (count,))
    if not count:
        nothing = ops.full((0,), 0, "i32")
        return UniqueAll(flat, nothing, ops.reshape(nothing, shape), nothing)
    order = argsort(flat)
    ordered = ops.take(flat, order)
    starts_here = concat((ops.full((1,), True), ops.ne(ordered[1:], ordered[:-1])))
    starts = true_positions("unique_all", starts_here, _FIX)
    group = ops.sub(cumulative_sum(starts_here), 1)
    inverse = ops.reshape(ops.take(group, argsort(order)), shape)
    counts = diff(starts, append=count)
    return UniqueAll(ops.take(ordered, starts), ops.take(order, starts), inverse, counts)


def unique_counts(x: Any, /) -> UniqueCounts:
    """Distinct entries in order, and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Distinct entries in order, and which one each entry is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Any:
    """Distinct entries in order."""
    return unique_all(x).values


def unique(x: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """NumPy's `unique` of the flattened array."""
    found = unique_all(x)
    extra = [
        part
        for wanted, part in (
            (return_index, found.indices),
            (return_inverse, found.inverse_indices),
            (return_counts, found.counts),
        )
        if wanted
    ]
    return (found.values, *extra) if extra else found.values


def isin(element: Any, test_elements: Any, *, invert: bool = False) -> Any:
    """Whether each entry is among `test_elements`. Works in a trace: every pair is compared."""
    from torchlean.numpy.operands import matched
    from torchlean.numpy.reductions import any

    element, tests = operand("isin", element), operand("isin", test_elements)
    flat = ops.reshape(tests, (tests.type.size,))
    found = any(ops.eq(*matched("isin", ops.expand_dims(element, element.type.rank), flat)), axis=-1)
    return ops.logical_not(found) if invert else found


def intersect1d(x1: Any, x2: Any) -> Any:
    """Distinct entries that are in both, in order."""
    values = unique_values(x1)
    return values[isin(values, x2)]


def union1d(x1: Any, x2: Any) -> Any:
    """Distinct entries that are in either, in order."""
    return unique_values(concat((x1, x2), axis=None))


def setdiff1d(x1: Any, x2: Any) -> Any:
    """Distinct entries of x1 that are not in x2, in order."""
    values = unique_values(x1)
    return values[isin(values, x2, invert=True)]


def setxor1d(x1: Any, x2: Any) -> Any:
    """Distinct entries that are in one of the two only, in order."""
    return union1d(setdiff1d(x1, x2), setdiff1d(x2, x1))
