"""Running sums and products, differences, and integrals by trapezoids."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.ir.builder import is_python_number
from torchlean.numpy.joining import concat
from torchlean.numpy.operands import axis_of, integer, operand, refused, unknown_choice
from torchlean.numpy.reductions import sum as sum_over
from torchlean.numpy.reductions import sum_dtype
from torchlean.numpy.shapes import moveaxis

__all__ = [
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "ediff1d",
    "gradient",
    "trapezoid",
]


def _running(name: str, fold: Any, start: int, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    x = operand(name, x)
    if axis is None:
        if x.type.rank != 1:
            raise refused(f"{name} of {x.type} without an axis", expected="axis=", got="None", fix="name the axis")
        axis = 0
    at = axis_of(name, axis, x.type.rank)
    made = fold(ops.convert(x, sum_dtype(x.type.dtype, dtype)), at)
    if not include_initial:
        return made
    shape = made.type.shape
    first = ops.full((*shape[:at], 1, *shape[at + 1 :]), start, made.type.dtype)
    return ops.concatenate([first, made], at)


def cumulative_sum(x: Any, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Any:
    """Sums of the entries up to each one, in index order; with `include_initial` a 0 in front."""
    return _running("cumulative_sum", ops.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, axis: int | None = None, *, dtype: Any = None, include_initial: bool = False) -> Any:
    """Products of the entries up to each one, in index order; with `include_initial` a 1 in front."""
    return _running("cumulative_prod", ops.cumprod, 1, x, axis, dtype, include_initial)


def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """`cumulative_sum`, of the flattened array when no axis is named."""
    return cumulative_sum(_flat("cumsum", x, axis), axis=0 if axis is None else axis, dtype=dtype)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """`cumulative_prod`, of the flattened array when no axis is named."""
    return cumulative_prod(_flat("cumprod", x, axis), axis=0 if axis is None else axis, dtype=dtype)


def _flat(name: str, x: Any, axis: int | None) -> Any:
    x = operand(name, x)
    return ops.reshape(x, (x.type.size,)) if axis is None else x


def diff(x: Any, /, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None) -> Any:
    """Each entry minus the one before it, n times over; of booleans, whether they differ."""
    x = operand("diff", x)
    at = axis_of("diff", axis, x.type.rank)
    times = integer("diff", "n", n)
    if times < 0:
        raise refused("diff a negative number of times", expected="n ≥ 0", got=str(times), fix="check n")
    parts = [_beside(part, x, at) for part in (prepend,) if part is not None]
    parts = [*parts, x, *[_beside(part, x, at) for part in (append,) if part is not None]]
    x = concat(parts, axis=at) if len(parts) > 1 else x
    lead = (slice(None),) * at
    for _ in range(times):
        later, earlier = x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))]
        x = ops.ne(later, earlier) if x.type.dtype.is_bool else ops.sub(later, earlier)
    return x


def _beside(part: Any, x: Any, at: int) -> Any:
    """What `diff` puts beside `x`: a number stands for one slice of it."""
    if isinstance(part, bool | int | float | complex):
        part = ops.full((), part, x.type.dtype)
    part = operand("diff", part)
    if part.type.rank:
        return part
    return ops.broadcast_to(part, (*x.type.shape[:at], 1, *x.type.shape[at + 1 :]))


def ediff1d(x: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of the flattened array, with entries put at either end."""
    parts = [diff(_flat("ediff1d", x, None))]
    for extra, in_front in ((to_begin, True), (to_end, False)):
        if extra is not None:
            extra = operand("ediff1d", extra)
            extra = ops.reshape(extra, (extra.type.size,))
            parts = [extra, *parts] if in_front else [*parts, extra]
    return concat(parts) if len(parts) > 1 else parts[0]


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral of samples along an axis, by straight lines between them."""
    y = operand("trapezoid", y)
    at = axis_of("trapezoid", axis, y.type.rank)
    lead = (slice(None),) * at
    middle = ops.mul(ops.add(y[(*lead, slice(1, None))], y[(*lead, slice(None, -1))]), 0.5)
    if x is None:
        return sum_over(ops.mul(middle, float(dx)), axis=at)
    x = operand("trapezoid", x)
    steps = diff(x, axis=-1 if x.type.rank == 1 else at)
    if steps.type.rank == 1:
        n = steps.type.size
        steps = ops.reshape(steps, tuple([n if a == at else 1 for a in range(y.type.rank)]))
    return sum_over(ops.mul(middle, steps), axis=at)


def gradient(f: Any, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Differences of second order inside and one-sided ones at the ends, along each axis; one array per axis.

    `spacing`: nothing, one number for all axes, or one per axis, each a distance or a vector of coordinates.
    """
    f = operand("gradient", f)
    axes = range(f.type.rank) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    if edge_order not in (1, 2):
        unknown_choice("gradient", "edge_order", edge_order, (1, 2))
    spaces = spacing or (1.0,)
    if len(spaces) == 1 and is_python_number(spaces[0]):
        spaces *= len(axes)
    if len(spaces) != len(axes):
        raise refused(
            f"gradient along {len(axes)} axes with {len(spaces)} spacings",
            expected="one number, or a number or vector per axis",
            got=str(len(spaces)),
            fix="give one per axis, or name the axis with axis=",
        )
    made: list[Any] = []
    for a, space in zip(axes, spaces, strict=True):
        at = axis_of("gradient", a, f.type.rank)
        _require_samples(f, at, edge_order)
        if is_python_number(space):
            made.append(_slopes(f, at, float(space), edge_order))
        else:
            made.append(_slopes_between(f, at, operand("gradient", space), edge_order))
    return made[0] if len(made) == 1 else made


def _require_samples(f: Any, at: int, edge_order: int) -> None:
    if f.type.shape[at] < edge_order + 1:
        raise refused(
            f"gradient of {f.type} along axis {at}",
            expected=f"at least {edge_order + 1} entries",
            got=str(f.type.shape[at]),
            fix="use more samples",
        )


def _slopes_between(f: Any, at: int, x: Any, edge_order: int) -> Any:
    """`_slopes` at coordinates: the derivative there of the parabola (or line) through the nearest samples."""
    if x.type.shape not in ((), (f.type.shape[at],)):
        raise refused(
            f"gradient of {f.type} at coordinates {x.type}",
            expected=f"a number, or a vector of {f.type.shape[at]}",
            got=str(x.type),
            fix="give one coordinate per sample along the axis",
        )
    if not x.type.shape:
        x = ops.mul(x, ops.convert(ops.iota((f.type.shape[at],), 0), x.type.dtype))
    f = moveaxis(f, at, -1)
    steps, rise = ops.sub(x[1:], x[:-1]), ops.sub(f[..., 1:], f[..., :-1])
    slopes = ops.div(rise, steps)
    before, after = steps[:-1], steps[1:]
    both = ops.add(before, after)
    inside = ops.div(ops.add(ops.mul(slopes[..., :-1], after), ops.mul(slopes[..., 1:], before)), both)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        bend = ops.div(ops.sub(slopes[..., 1:], slopes[..., :-1]), both)
        first = ops.sub(first, ops.mul(bend[..., :1], steps[:1]))
        last = ops.add(last, ops.mul(bend[..., -1:], steps[-1:]))
    return moveaxis(ops.concatenate([first, inside, last], -1), -1, at)


def _slopes(f: Any, at: int, spacing: float, edge_order: int) -> Any:
    lead = (slice(None),) * at

    def part(begin: int | None, end: int | None) -> Any:
        return f[(*lead, slice(begin, end))]

    inside = ops.div(ops.sub(part(2, None), part(None, -2)), 2 * spacing)
    if edge_order == 1:
        first = ops.div(ops.sub(part(1, 2), part(0, 1)), spacing)
        last = ops.div(ops.sub(part(-1, None), part(-2, -1)), spacing)
    else:
        first = ops.div(
            ops.sub(ops.sub(ops.mul(part(1, 2), 2.0), ops.mul(part(0, 1), 1.5)), ops.mul(part(2, 3), 0.5)), spacing
        )
        last = ops.div(
            ops.add(ops.sub(ops.mul(part(-1, None), 1.5), ops.mul(part(-2, -1), 2.0)), ops.mul(part(-3, -2), 0.5)),
            spacing,
        )
    return ops.concatenate([first, inside, last], at)
