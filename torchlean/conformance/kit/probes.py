"""Probe inputs that tell numerical policies apart: the order of a sum, fused products, the accumulator, subnormals.

The order is read off as in FPRev [Xie et al. 2025, "FPRev: revealing floating-point accumulation orders"]: with +M in
place i, -M in place j and 1 elsewhere, every 1 that meets M before -M does is absorbed, so the sum is the number of
terms outside the smallest partial sum that holds both. A left fold gives n - (max(i, j) + 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np

from torchlean.backends.capsule import Capsule
from torchlean.conformance.kit.calls import kernel_for
from torchlean.conformance.samples.draw import Array
from torchlean.ir.op import Op
from torchlean.ir.ops.cumulative import CUMSUM, PartialRun
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.gather import SCATTER_ADD, Along, Mode
from torchlean.ir.ops.spread import REDUCE_SUM, Axes
from torchlean.ir.ops.window import CONV
from torchlean.ir.ops.window_types import Window
from torchlean.ir.types import type_of_array
from torchlean.record import record

TERMS = 19  # of a probed sum: more than two vectors of eight, and no multiple of one
Operands = tuple[Array, ...]


@record(eq=False)
class Sum:
    """A call of an op that adds products of `left` and `right` (or the terms `left`, where `right` is all ones)."""

    name: str
    params: Any
    operands: Callable[[Array, Array], Operands]
    has_products: bool


def sums_of(op: Op) -> tuple[Sum, ...]:
    """The calls in which an op is a plain sum of n numbers; none for ops that are not known as sums."""
    if op is REDUCE_SUM:
        return (
            Sum("over a vector", Axes((0,)), lambda x, y: (x,), False),
            Sum("over rows", Axes((0,)), lambda x, y: (np.stack([x, x, x], axis=1),), False),
            Sum("along rows", Axes((1,)), lambda x, y: (np.stack([x, x, x]),), False),
        )
    if op is DOT_GENERAL:
        pair = DotDims((0,), (0,), (), ())
        matrix = DotDims((1,), (0,), (), ())
        return (
            Sum("of vectors", pair, lambda x, y: (x, y), True),
            Sum("of matrices", matrix, lambda x, y: (np.stack([x] * 5), np.stack([y] * 9, axis=1)), True),
        )
    if op is CONV:
        window = Window((1,), ((0, 0),), (1,), 1)
        return (
            Sum("over channels", window, lambda x, y: (x.reshape(1, -1, 1), y.reshape(1, -1, 1)), True),
            Sum("over a window", window, lambda x, y: (x.reshape(1, 1, -1), y.reshape(1, 1, -1)), True),
        )
    if op is CUMSUM:
        run = PartialRun(0, reverse=False, exclusive=False)
        return (Sum("running", run, lambda x, y: (x,), False),)
    if op is SCATTER_ADD:
        along = Along(0, 0, Mode.CLIP)
        return (Sum("of updates", along, lambda x, y: (np.zeros(1, x.dtype), np.zeros(len(x), np.int32), x), False),)
    return ()


def summed(capsule: Capsule, sum: Sum, left: Array, right: Array | None = None) -> float:
    """The last entry of what the kernel makes of the sum: all entries are the same sum."""
    operands = sum.operands(left, np.ones_like(left) if right is None else right)
    kernel = kernel_for(capsule, sum.params, tuple([type_of_array(operand) for operand in operands]))
    return float(np.asarray(kernel(*operands)[0]).reshape(-1)[-1])


def serves(capsule: Capsule, sum: Sum, dtype: Any) -> bool:
    """Whether the capsule accepts this sum in a dtype."""
    ones = np.ones(TERMS, dtype)
    return capsule.refuses(sum.params, tuple([type_of_array(x) for x in sum.operands(ones, ones)])) is None


def absorbing(dtype: Any) -> float:
    """A number that swallows 1 in its own format, and not in one twice as wide."""
    return {2: 2.0**12, 4: 2.0**30, 8: 2.0**54}[np.dtype(dtype).itemsize]


# -- order -------------------------------------------------------------------------------------------------------------
def meeting_sizes(capsule: Capsule, sum: Sum, dtype: Any, terms: int = TERMS) -> Array:
    """[i, j]: how many terms the smallest partial sum has that holds both i and j. Zero on the diagonal."""
    large, one = {2: (2.0**14, 2.0**-4), 4: (2.0**60, 1.0), 8: (2.0**60, 1.0)}[np.dtype(dtype).itemsize]
    sizes = np.zeros((terms, terms), np.int64)
    for i in range(terms):
        for j in range(i + 1, terms):
            x = np.full(terms, one, dtype)
            x[i], x[j] = large, -large
            sizes[i, j] = sizes[j, i] = terms - int(summed(capsule, sum, x) / one)
    return sizes


def left_fold_sizes(terms: int = TERMS) -> Array:
    """`meeting_sizes` of a left fold: partial sums end with their last term."""
    at = np.arange(terms)
    sizes = np.maximum(at[:, None], at[None, :]) + 1
    np.fill_diagonal(sizes, 0)
    return sizes


Tree = int | tuple["Tree", "Tree"]


def tree_of(sizes: Array) -> Tree | None:
    """The one order of two-term additions that has these meeting sizes, or None when none has."""

    def grown(terms: list[int]) -> Tree | None:
        if len(terms) == 1:
            return terms[0]
        first = terms[0]
        near = [first, *[j for j in terms[1:] if sizes[first, j] < len(terms)]]
        far = [j for j in terms if j not in near]
        if not far or not (sizes[np.ix_(near, far)] == len(terms)).all():
            return None
        left, right = grown(near), grown(far)
        return None if left is None or right is None else (left, right)

    return grown(list(range(len(sizes))))


def tree_text(tree: Tree | None) -> str:
    """The order of additions as brackets: `((0+1)+(2+3))`."""

    def text(tree: Tree) -> str:
        return str(tree) if isinstance(tree, int) else f"({text(tree[0])}+{text(tree[1])})"

    if tree is None:
        return "no order of two-term additions in the operands' format"
    made = text(tree)
    return made if len(made) <= 80 else made[:77] + "…"


def added_by(tree: Tree, x: Array) -> Any:
    """The sum of the terms in the order of the tree, each addition rounded."""
    if isinstance(tree, int):
        return x[tree]
    return added_by(tree[0], x) + added_by(tree[1], x)


# -- products ----------------------------------------------------------------------------------------------------------
def unrounded_products(capsule: Capsule, sum: Sum, dtype: Any, terms: int = TERMS) -> list[tuple[int, int]]:
    """Pairs of places at which a product was added without being rounded first.

    With (1 + h)·(1 + h) in one place and -(1 + 2h) in another, h the square root of the unit roundoff, the rounded
    product cancels exactly, whatever the order; an unrounded one leaves h².
    """
    half = 2.0 ** (-(np.finfo(dtype).nmant + 2) // 2)
    found: list[tuple[int, int]] = []
    for i, j in permutations(range(terms), 2):
        left, right = np.zeros(terms, dtype), np.zeros(terms, dtype)
        left[i], right[i] = -1, 1 + 2 * half
        left[j] = right[j] = 1 + half
        if summed(capsule, sum, left, right) != 0:
            found.append((i, j))
    return found


# -- accumulator -------------------------------------------------------------------------------------------------------
def keeps_what_is_absorbed(capsule: Capsule, sum: Sum, dtype: Any) -> bool:
    """Whether M + 1 - M is 1 in every order of the three: no order of additions in the operands' format can do that."""
    large = absorbing(dtype)
    return all([summed(capsule, sum, np.array(x, dtype)) == 1 for x in permutations((large, 1.0, -large))])


# -- subnormals --------------------------------------------------------------------------------------------------------
def tiny(shape: tuple[int, ...], dtype: Any, random: np.random.Generator) -> Array:
    """Random subnormal numbers of both signs, the smallest among them."""
    limits = np.finfo(dtype)
    steps = random.integers(1, 2**limits.nmant, shape).astype(np.float64) * random.choice([-1.0, 1.0], shape)
    return np.asarray(steps * float(limits.smallest_subnormal)).astype(dtype)


def float_dtypes() -> Iterator[Any]:
    """The formats probed."""
    yield from (np.float32, np.float64, np.float16)
