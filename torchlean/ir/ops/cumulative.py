"""Running folds along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp, and the linear recurrence.

Each is a left fold in index order (from the end when reversed), so its order is part of its meaning. The derivatives of
products, extremes and log-sum-exp are recurrences, which divide by nothing and so are right where entries are 0; the
recurrence is closed under differentiation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import Kind
from torchlean.ir.op import NO_PARAMS, Op, TypeFault
from torchlean.ir.ops.create import FULL, Fill, full_like, zeros_of
from torchlean.ir.ops.cut import PAD, Widths, leading
from torchlean.ir.ops.elementwise import ADD, DIV, EQ, EXP, LOGICAL_AND, LOGICAL_OR, MUL, NE, SELECT, SUB
from torchlean.ir.ops.families import FIELDS, FLOATS, NUMBERS, apply1, equal_operands, kind_fault
from torchlean.ir.ops.parts import CONJ
from torchlean.ir.rules import Custom, Linear, Rule
from torchlean.ir.types import TensorType
from torchlean.record import record


@record
class Run:
    """`axis`: the axis folded along; `reverse`: from its end."""

    axis: int
    reverse: bool


@record
class PartialRun:
    """`axis`, `reverse` as in `Run`; `exclusive`: an entry folds those before it only (the first is 0 or 1)."""

    axis: int
    reverse: bool
    exclusive: bool


def _run_type(kinds: frozenset[Kind]) -> Callable[..., tuple[TensorType, ...]]:
    def rule(params: Run | PartialRun, x: TensorType) -> tuple[TensorType, ...]:
        if x.dtype.kind not in kinds:
            raise kind_fault(x.dtype, kinds)
        if not 0 <= params.axis < x.rank:
            raise TypeFault(
                f"there is no axis {params.axis} to fold along",
                expected=f"an axis in [0, {x.rank})",
                got=str(params.axis),
                fix="name an existing axis",
            )
        return (x,)

    return rule


def _run_value(algebra: Any, params: Run, step: Callable[..., Any], *xs: Any) -> Any:
    """y₀ = x₀ of the last operand, yₖ = step(yₖ₋₁, entries k of all)."""
    axis, count = params.axis, np.shape(xs[0])[params.axis]
    if count == 0:
        return xs[-1]
    made: list[Any] = []
    for k in reversed(range(count)) if params.reverse else range(count):
        entries = [algebra.shape(lambda v, k=k: np.take(v, k, axis=axis), x) for x in xs]
        made.append(step(made[-1], *entries) if made else entries[-1])
    if params.reverse:
        made.reverse()
    return algebra.shape(lambda *rows: np.stack(rows, axis=axis), *made)


def shifted_array(v: Any, axis: int, reverse: bool, first: Any) -> np.ndarray[Any, Any]:
    """Entries moved one place on, `first` put before them."""
    made = np.full_like(v, first)
    ahead: list[slice] = [slice(None)] * v.ndim
    behind = list(ahead)
    ahead[axis], behind[axis] = slice(1, None), slice(None, -1)
    if reverse:
        ahead, behind = behind, ahead
    made[tuple(ahead)] = v[tuple(behind)]
    return made


def _partial_value(step: Callable[..., Any], neutral: int) -> Callable[..., tuple[Any, ...]]:
    def value(algebra: Any, params: PartialRun, x: Any) -> tuple[Any, ...]:
        made = _run_value(algebra, Run(params.axis, params.reverse), lambda y, v: step(algebra, y, v), x)
        if not params.exclusive:
            return (made,)
        return (algebra.shape(lambda v: shifted_array(v, params.axis, params.reverse, neutral), made),)

    return value


def _moved(params: Run | PartialRun, x: Any, *, back: bool = False, fill: float = 0) -> Any:
    """The traced `x` one place on along the run (or back), `fill` put where nothing comes from."""
    low = 1 if params.reverse == back else -1
    places = tuple([low if axis == params.axis else 0 for axis in range(len(type_of(x).shape))])
    widths = Widths(places, tuple([-n for n in places]), (0,) * len(places))
    return bind1(PAD, widths, x, bind1(FULL, Fill.of((), type_of(x).dtype, fill)))


def _batched(op: Callable[[], Op], again: Callable[[Any], Any]) -> Rule:
    return Rule(lambda params, size, operands, mapped: (bind1(op(), again(params), operands[0]),))


def _inner(params: Run) -> Run:
    return Run(params.axis + 1, params.reverse)


def _inner_partial(params: PartialRun) -> PartialRun:
    return PartialRun(params.axis + 1, params.reverse, params.exclusive)


# -- the linear recurrence ---------------------------------------------------------------------------------------------
def _recurrence_jvp(params: Run, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    a, _ = primals
    da, db = tangents
    if da is None and db is None:
        return (None,)
    moved = None if da is None else apply1(MUL, _moved(params, outputs[0]), da)
    source = db if moved is None else moved if db is None else apply1(ADD, moved, db)
    return (bind1(RECURRENCE, params, a, source),)


def _conjugate(x: Any) -> Any:
    return apply1(CONJ, x) if type_of(x).dtype.is_complex else x


def _recurrence_vjp(params: Run, primals: Any, outputs: Any, cotangents: Any) -> tuple[Any, ...]:
    """gₖ = ctₖ + aₖ₊₁·gₖ₊₁ is the cotangent of b; that of aₖ is gₖ·hₖ₋₁."""
    backwards = Run(params.axis, not params.reverse)
    factors = _conjugate(_moved(params, primals[0], back=True))
    g = bind1(RECURRENCE, backwards, factors, cotangents[0])
    return apply1(MUL, g, _conjugate(_moved(params, outputs[0]))), g


def _recurrence_type(params: Run, a: TensorType, b: TensorType) -> tuple[TensorType, ...]:
    equal_operands(a, b)
    return _run_type(FIELDS)(params, a)


def _recurrence_value(algebra: Any, params: Run, a: Any, b: Any) -> tuple[Any, ...]:
    return (_run_value(algebra, params, lambda h, x, y: algebra.add(algebra.mul(x, h), y), a, b),)


def _recurrence_batch(params: Run, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    a, b = [leading(x, size, here) for x, here in zip(operands, mapped, strict=True)]
    return (bind1(RECURRENCE, _inner(params), a, b),)


RECURRENCE = Op(
    name="recurrence",
    params=Run,
    type_rule=_recurrence_type,
    denote=_recurrence_value,
    diff=Custom(jvp=_recurrence_jvp, vjp=_recurrence_vjp),
    batch=Rule(_recurrence_batch),
    reduces=True,
    doc="h₀ = b₀, hₖ = aₖ·hₖ₋₁ + bₖ along an axis, the product rounded, then the sum; a₀ is not read.",
)

# -- sums and products -------------------------------------------------------------------------------------------------
CUMSUM = Op(
    name="cumsum",
    params=PartialRun,
    type_rule=_run_type(FIELDS),
    denote=_partial_value(lambda a, y, x: a.add(y, x), 0),
    diff=Linear(
        transpose=lambda params, ct, x: (
            bind1(CUMSUM, PartialRun(params.axis, not params.reverse, params.exclusive), ct),
        )
    ),
    batch=_batched(lambda: CUMSUM, _inner_partial),
    reduces=True,
    doc="Running sum along an axis, a left fold in index order.",
)


def _cumprod_jvp(params: PartialRun, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """dyₖ = xₖ·dyₖ₋₁ + dxₖ·yₖ₋₁; exclusive: one place on."""
    (x,), (tangent,) = primals, tangents
    if tangent is None:
        return (None,)
    run = Run(params.axis, params.reverse)
    if params.exclusive:
        return (bind1(RECURRENCE, run, _moved(run, x), _moved(run, apply1(MUL, tangent, outputs[0]))),)
    before = bind1(CUMPROD, PartialRun(params.axis, params.reverse, exclusive=True), x)
    return (bind1(RECURRENCE, run, x, apply1(MUL, tangent, before)),)


CUMPROD = Op(
    name="cumprod",
    params=PartialRun,
    type_rule=_run_type(FIELDS),
    denote=_partial_value(lambda a, y, x: a.mul(y, x), 1),
    diff=Custom(jvp=_cumprod_jvp),
    batch=_batched(lambda: CUMPROD, _inner_partial),
    reduces=True,
    doc="Running product along an axis, a left fold in index order.",
)


# -- extremes ----------------------------------------------------------------------------------------------------------
def _extreme_jvp(params: Run, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """The mean tangent of the entries so far that equal the extreme: sums that start anew when it moves."""
    (x,), (y,), (tangent,) = primals, outputs, tangents
    if tangent is None:
        return (None,)
    zero, one = zeros_of(type_of(x)), full_like(x, 1)
    before = _moved(params, y)
    moves = apply1(LOGICAL_AND, apply1(NE, y, before), apply1(EQ, before, before))
    kept = bind1(SELECT, NO_PARAMS, moves, zero, one)
    here = apply1(LOGICAL_OR, apply1(EQ, x, y), apply1(NE, x, x))
    total = bind1(RECURRENCE, params, kept, bind1(SELECT, NO_PARAMS, here, tangent, zero))
    count = bind1(RECURRENCE, params, kept, bind1(SELECT, NO_PARAMS, here, one, zero))
    return (apply1(DIV, total, count),)


def _running_extreme(name: str, step: Callable[..., Any], doc: str) -> Op:
    made = Op(
        name=name,
        params=Run,
        type_rule=_run_type(NUMBERS),
        denote=lambda algebra, params, x: (_run_value(algebra, params, lambda y, v: step(algebra, y, v), x),),
        diff=Custom(jvp=_extreme_jvp),
        batch=_batched(lambda: made, _inner),
        reduces=False,
        doc=doc,
    )
    return made


CUMMAX = _running_extreme(
    "cummax",
    lambda a, y, x: a.max(y, x),
    "Running maximum; NaN from the first NaN on. Ties share its derivative.",
)
CUMMIN = _running_extreme(
    "cummin",
    lambda a, y, x: a.min(y, x),
    "Running minimum; NaN from the first NaN on. Ties share its derivative.",
)


def _log_sum(algebra: Any, y: Any, x: Any) -> Any:
    """log(e^y + e^x) = max + log1p(e^-|y - x|); an infinite maximum is the result."""
    top = algebra.max(y, x)
    rest = algebra.log1p(algebra.exp(algebra.neg(algebra.abs(algebra.sub(y, x)))))
    infinite = algebra.compare("eq", algebra.abs(top), algebra.constant(np.full(np.shape(top), np.inf, dtype=x.dtype)))
    return algebra.select(infinite, top, algebra.add(top, rest))


def _cumlogsumexp_jvp(params: Run, primals: Any, tangents: Any, outputs: Any) -> tuple[Any, ...]:
    """dyₖ = e^(yₖ₋₁ - yₖ)·dyₖ₋₁ + e^(xₖ - yₖ)·dxₖ; both weights 0 where yₖ = -∞."""
    (x,), (y,), (tangent,) = primals, outputs, tangents
    if tangent is None:
        return (None,)
    nothing = apply1(EQ, y, full_like(y, -np.inf))

    def weight(part: Any) -> Any:
        return bind1(SELECT, NO_PARAMS, nothing, zeros_of(type_of(y)), apply1(EXP, apply1(SUB, part, y)))

    return (bind1(RECURRENCE, params, weight(_moved(params, y, fill=-np.inf)), apply1(MUL, weight(x), tangent)),)


CUMLOGSUMEXP = Op(
    name="cumlogsumexp",
    params=Run,
    type_rule=_run_type(FLOATS),
    denote=lambda algebra, params, x: (_run_value(algebra, params, lambda y, v: _log_sum(algebra, y, v), x),),
    diff=Custom(jvp=_cumlogsumexp_jvp),
    batch=_batched(lambda: CUMLOGSUMEXP, _inner),
    reduces=True,
    doc="Running log Σ exp along an axis, a left fold of log(e^y + e^x) in index order.",
)

OPS = (RECURRENCE, CUMSUM, CUMPROD, CUMMAX, CUMMIN, CUMLOGSUMEXP)
