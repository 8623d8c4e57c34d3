"""Products, running folds, sorting and run-time windows as users call them: axes may be negative."""

from __future__ import annotations

from typing import Any

from torchlean.ir.builder import bind, bind1
from torchlean.ir.dtypes import DType
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import cumulative, fold
from torchlean.ir.ops.create import iota
from torchlean.ir.ops.cumulative import PartialRun, Run
from torchlean.ir.ops.cut import SLICE, Strided, axis_of
from torchlean.ir.ops.dynamic import DYNAMIC_SLICE, DYNAMIC_UPDATE_SLICE, Sizes
from torchlean.ir.ops.elementwise import CONVERT, Target
from torchlean.ir.ops.functions import eq as equal
from torchlean.ir.ops.functions import le, logical_and, logical_or, lt, ne
from torchlean.ir.ops.gather import Along, Mode
from torchlean.ir.ops.index import concatenate, known_indices
from torchlean.ir.ops.promote import accumulated, pair, tensor
from torchlean.ir.ops.scattering import SCATTER, SCATTER_MAX, SCATTER_MIN, SCATTER_MUL
from torchlean.ir.ops.shaping import _keep, broadcast_to, normal_axes, normal_axis, reshape
from torchlean.ir.ops.sorting import SORT, Sorting
from torchlean.ir.ops.spread import REDUCE_SUM, Axes
from torchlean.ir.types import Shape

__all__ = [
    "all",
    "any",
    "argsort",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dynamic_slice",
    "dynamic_update_slice",
    "prod",
    "recurrence",
    "reduce_and",
    "reduce_or",
    "reduce_prod",
    "reduce_xor",
    "scatter",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "searchsorted",
    "sort",
    "top_k",
]

Axis = int | tuple[int, ...] | list[int] | None


# -- folds -------------------------------------------------------------------------------------------------------------
def _folded(op: Op, x: Any, axis: Axis, keepdims: bool) -> Any:
    x = tensor(x)
    axes = normal_axes(op.name, axis, x.type)
    return _keep(bind1(op, Axes(axes), x), x.type.shape, axes, keepdims)


def prod(x: Any, axis: Axis = None, *, keepdims: bool = False, accumulator: Any = None) -> Any:
    """Product over `axis` (all axes when None); `accumulator`: the dtype multiplied in, rounded back at the end."""
    return accumulated(accumulator, lambda v: _folded(fold.REDUCE_PROD, v, axis, keepdims), x)


def reduce_prod(x: Any, axes: tuple[int, ...]) -> Any:
    """Product over the given axes."""
    return _folded(fold.REDUCE_PROD, x, tuple(axes), keepdims=False)


def all(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Whether every boolean over `axis` is true; true over nothing."""
    return _folded(fold.REDUCE_AND, x, axis, keepdims)


def any(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Whether a boolean over `axis` is true; false over nothing."""
    return _folded(fold.REDUCE_OR, x, axis, keepdims)


def reduce_and(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Bitwise and over `axis`, of integers or booleans."""
    return _folded(fold.REDUCE_AND, x, axis, keepdims)


def reduce_or(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Bitwise or over `axis`, of integers or booleans."""
    return _folded(fold.REDUCE_OR, x, axis, keepdims)


def reduce_xor(x: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """Bitwise exclusive or over `axis`, of integers or booleans."""
    return _folded(fold.REDUCE_XOR, x, axis, keepdims)


def cumsum(x: Any, axis: int = 0, *, reverse: bool = False, exclusive: bool = False) -> Any:
    """Running sum along `axis`; `exclusive` leaves an entry's own term out."""
    x = tensor(x)
    return bind1(cumulative.CUMSUM, PartialRun(axis_of(x, axis, "cumsum"), reverse, exclusive), x)


def cumprod(x: Any, axis: int = 0, *, reverse: bool = False, exclusive: bool = False) -> Any:
    """Running product along `axis`; `exclusive` leaves an entry's own factor out."""
    x = tensor(x)
    return bind1(cumulative.CUMPROD, PartialRun(axis_of(x, axis, "cumprod"), reverse, exclusive), x)


def cummax(x: Any, axis: int = 0, *, reverse: bool = False) -> Any:
    """Running maximum along `axis`; ties share the derivative evenly."""
    x = tensor(x)
    return bind1(cumulative.CUMMAX, Run(axis_of(x, axis, "cummax"), reverse), x)


def cummin(x: Any, axis: int = 0, *, reverse: bool = False) -> Any:
    """Running minimum along `axis`; ties share the derivative evenly."""
    x = tensor(x)
    return bind1(cumulative.CUMMIN, Run(axis_of(x, axis, "cummin"), reverse), x)


def cumlogsumexp(x: Any, axis: int = 0, *, reverse: bool = False) -> Any:
    """Running log Σ exp along `axis`, without overflow."""
    x = tensor(x)
    return bind1(cumulative.CUMLOGSUMEXP, Run(axis_of(x, axis, "cumlogsumexp"), reverse), x)


def recurrence(a: Any, b: Any, axis: int = 0, *, reverse: bool = False) -> Any:
    """h₀ = b₀, hₖ = aₖ·hₖ₋₁ + bₖ along `axis`; differentiable in both to any order."""
    a, b = pair("recurrence", a, b)
    return bind1(cumulative.RECURRENCE, Run(axis_of(b, axis, "recurrence"), reverse), a, b)


# -- order -------------------------------------------------------------------------------------------------------------
def sort(x: Any, *others: Any, axis: int = -1, num_keys: int = 1, descending: bool = False) -> Any:
    """Sort along `axis`: stable, NaN largest, -0.0 equal to 0.0. With more operands all are sorted by the first
    `num_keys` of them, and come back as a tuple."""
    operands = [tensor(each) for each in (x, *others)]
    at = normal_axis("sort", axis, operands[0].type)
    made = bind(SORT, Sorting(at, num_keys, descending), *operands)
    return made if others else made[0]


def argsort(x: Any, axis: int = -1, *, descending: bool = False) -> Any:
    """The positions (int32) that sort `x`: stable, NaN largest."""
    x = tensor(x)
    at = normal_axis("argsort", axis, x.type)
    return bind(SORT, Sorting(at, 1, descending), x, iota(x.type.shape, at))[1]


def top_k(x: Any, k: int, axis: int = -1) -> tuple[Any, Any]:
    """The k largest entries along `axis`, largest first, and their positions (int32); of equal ones the first. NaN is
    largest."""
    x = tensor(x)
    at = normal_axis("top_k", axis, x.type)
    values, positions = bind(SORT, Sorting(at, 1, True), x, iota(x.type.shape, at))
    shape = x.type.shape
    limits = tuple([k if a == at else size for a, size in enumerate(shape)])
    window = Strided((0,) * len(shape), limits, (1,) * len(shape))
    return bind1(SLICE, window, values), bind1(SLICE, window, positions)


def searchsorted(sorted: Any, values: Any, *, side: str = "left") -> Any:
    """Where each value would be put into a sorted vector to keep it sorted (int32): before equal entries, or after them
    with side "right". Every entry is compared with every value."""
    sorted, values = tensor(sorted), tensor(values)
    shape = values.type.shape
    rows = reshape(values, (*shape, 1))
    entries = broadcast_to(reshape(sorted, (*[1] * len(shape), *sorted.type.shape)), (*shape, *sorted.type.shape))
    before = (lt if side == "left" else le)(entries, rows)
    if sorted.type.dtype.is_float:  # NaN is the largest
        last = ne(rows, rows)
        before = logical_or(before, logical_and(last, equal(entries, entries)) if side == "left" else last)
    return bind1(REDUCE_SUM, Axes((len(shape),)), bind1(CONVERT, Target(DType.I32), before))


# -- run-time positions ------------------------------------------------------------------------------------------------
def _starts(starts: Any) -> Any:
    """One vector of starts from a vector, or from one integer per axis."""
    if isinstance(starts, list | tuple):
        if not starts:
            return iota((0,))
        each = [tensor(start) for start in starts]
        wide = DType.I64 if DType.I64 in [start.type.dtype for start in each] else DType.I32
        return concatenate([reshape(bind1(CONVERT, Target(wide), start), (1,)) for start in each])
    return tensor(starts)


def dynamic_slice(x: Any, starts: Any, sizes: Shape) -> Any:
    """The window of the stated sizes that begins at `starts` (a vector, or one integer per axis), clamped inside."""
    return bind1(DYNAMIC_SLICE, Sizes(tuple(sizes)), tensor(x), _starts(starts))


def dynamic_update_slice(x: Any, update: Any, starts: Any) -> Any:
    """`x` with the window that begins at `starts`, clamped inside, replaced by `update`."""
    return bind1(DYNAMIC_UPDATE_SLICE, NO_PARAMS, tensor(x), tensor(update), _starts(starts))


def _scattered(op: Op, x: Any, indices: Any, updates: Any, axis: int, mode: Mode) -> Any:
    at = axis_of(x, axis, op.name)
    return bind1(op, Along(at, 0, mode), x, known_indices(op.name, x, indices, at), updates)


def scatter(x: Any, indices: Any, updates: Any, axis: int = 0, mode: Mode = Mode.FILL) -> Any:
    """`x` with entries replaced at positions along `axis`; of several updates of one entry the last stays."""
    return _scattered(SCATTER, x, indices, updates, axis, mode)


def scatter_mul(x: Any, indices: Any, updates: Any, axis: int = 0, mode: Mode = Mode.FILL) -> Any:
    """`x` multiplied by updates at positions along `axis`."""
    return _scattered(SCATTER_MUL, x, indices, updates, axis, mode)


def scatter_max(x: Any, indices: Any, updates: Any, axis: int = 0, mode: Mode = Mode.FILL) -> Any:
    """The larger of `x` and the updates at positions along `axis`; ties share the derivative evenly."""
    return _scattered(SCATTER_MAX, x, indices, updates, axis, mode)


def scatter_min(x: Any, indices: Any, updates: Any, axis: int = 0, mode: Mode = Mode.FILL) -> Any:
    """The smaller of `x` and the updates at positions along `axis`; ties share the derivative evenly."""
    return _scattered(SCATTER_MIN, x, indices, updates, axis, mode)
