"""One check: a function written once, a point, and what is right there with its first and second derivatives.

Expectations are independent of the code under test: closed forms, worked by hand, with the reason beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Function = Callable[[Any, Any], Any]  # f(namespace, x)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A differentiable check. `f(ns, x)` takes one array `at` and returns one array.

    `value`, `slope` (shape out + in) and `second` (out + in + in) are what is right; None leaves one out, because it is
    not finite in this precision or not the point. `item` numbers the report in the list of public bug reports.
    """

    id: str
    item: int
    f: Function
    at: np.ndarray[Any, Any]
    value: Any = None
    slope: Any = None
    second: Any = None
    reason: str
    rtol: float = 1e-12

    @property
    def group(self) -> str:
        return group_of(self.item)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`right`, and what was seen, in a few words."""

    right: bool
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A check that is no derivative: a dtype, an error, a fact of the plan. `run(place)` looks."""

    id: str
    item: int
    expected: str
    run: Callable[[Any], Outcome]

    @property
    def group(self) -> str:
        return group_of(self.item)


_GROUPS = (
    (10, "roots, norms, distances"),
    (18, "masks and dead branches"),
    (27, "kinks and ties"),
    (37, "powers and products"),
    (45, "logarithms, softmax, attention"),
    (52, "indexing and sorting"),
    (60, "dtypes, casts, overflow"),
    (72, "wrong input"),
    (99, "determinism and provenance"),
)


def group_of(item: int) -> str:
    """The group of a report by its number."""
    return next(name for last, name in _GROUPS if item <= last)


def agrees(got: Any, want: Any, rtol: float) -> bool:
    """Equal shapes; NaN with NaN, infinities with the same, other entries within `rtol` of their size (of 1, for 0)."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape:
        return False
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= rtol * np.where(want == 0, 1, np.abs(want))
    same = np.where(np.isnan(want), np.isnan(got), got == want)
    return bool(np.all(np.where(np.isfinite(want), near, same)))


def shown(x: Any) -> str:
    """An array on one line."""
    array = np.asarray(x)
    text = np.array2string(array, precision=6, separator=", ", threshold=8, max_line_width=10**6)
    return " ".join(text.split())
