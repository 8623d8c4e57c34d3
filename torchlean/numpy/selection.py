"""Choosing entries by condition or by position."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.ir import ops
from torchlean.ir.builder import is_python_number
from torchlean.ir.operators import Operators
from torchlean.ir.ops.advanced import index_mode, settled, take_at, wrapped_indices
from torchlean.ir.ops.gather import Mode
from torchlean.ir.types import broadcast_shapes
from torchlean.numpy.comparison import truth
from torchlean.numpy.joining import gathered
from torchlean.numpy.operands import axis_of, operand, operands, refused, require_known_below
from torchlean.numpy.searching import nonzero, true_positions

__all__ = [
    "choose",
    "compress",
    "extract",
    "piecewise",
    "put_along_axis",
    "select",
    "take",
    "take_along_axis",
    "where",
]


def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Any:
    """x1 where the condition holds, else x2; only the chosen branch gets a derivative. With one argument, `nonzero`."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    condition = truth("where", condition)
    if is_python_number(x1) and is_python_number(x2):
        from torchlean.numpy.dtypes import default_of, result_type

        dtype = result_type(default_of(x1), x2)
        x1, x2 = (ops.full((), v, dtype) for v in (x1, x2))
    return ops.select(condition, *operands("where", x1, x2))


def indices_of(name: str, indices: Any, mode: Mode | None) -> Any:
    """Positions; those of an eager array are known, and checked like constants unless a mode was asked for."""
    if not isinstance(indices, Operators | np.ndarray | np.generic) and not is_python_number(indices):
        indices = operand(name, indices)  # refuses it
    return settled(indices, mode)


def take(x: Any, indices: Any, /, axis: int | None = None, *, mode: str | None = None) -> Any:
    """Entries at integer positions along an axis (which may be left out for vectors); negative ones count from the end.

    Known positions out of range raise OutOfRangeError; traced ones follow `mode`: "fill" (0) or "clip". With a mode,
    those of eager arrays follow it too.
    """
    x = operand("take", x)
    if axis is None:
        if x.type.rank != 1:
            raise refused(f"take from {x.type} without an axis", expected="axis=", got="None", fix="name the axis")
        axis = 0
    at = axis_of("take", axis, x.type.rank)
    how = None if mode is None else index_mode("take", mode)
    return take_at(x, indices_of("take", indices, how), at, how)


def take_along_axis(x: Any, indices: Any, /, axis: int = -1, *, mode: str | None = None) -> Any:
    """y[…, j, …] = x[…, indices[…, j, …], …]; the other axes of `x` and `indices` broadcast."""
    x = operand("take_along_axis", x)
    at = axis_of("take_along_axis", axis, x.type.rank)
    how = None if mode is None else index_mode("take_along_axis", mode)
    found = indices_of("take_along_axis", indices, how)
    found = wrapped_indices(found, x.type.shape[at])
    other = found.type.shape if isinstance(found, Operators) else found.shape
    if len(other) == x.type.rank:
        lead = broadcast_shapes(
            tuple([1 if a == at else n for a, n in enumerate(x.type.shape)]),
            tuple([1 if a == at else n for a, n in enumerate(other)]),
        )
        if lead is not None:
            x = ops.broadcast_to(x, (*lead[:at], x.type.shape[at], *lead[at + 1 :]))
            shape = (*lead[:at], other[at], *lead[at + 1 :])
            found = ops.broadcast_to(found, shape) if isinstance(found, Operators) else np.broadcast_to(found, shape)
    return ops.take_along_axis(x, found, at, how or Mode.FILL)


def choose(selector: Any, choices: Any) -> Any:
    """Entry `choices[selector[i]][i]`: each is chosen by comparing, so all are computed.

    A known selector out of range raises OutOfRangeError; a traced one takes the first or the last.
    """
    xs = gathered("choose", choices)
    require_known_below("choose", selector, len(xs), "choices")
    selector = operand("choose", selector)
    made = xs[-1]
    for number in range(len(xs) - 2, -1, -1):
        made = ops.select(ops.le(selector, number), xs[number], made)
    return made


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """The choice of the first condition that holds, else `default`."""
    if len(condlist) != len(choicelist) or not condlist:
        raise refused(
            f"select of {len(condlist)} conditions and {len(choicelist)} choices",
            expected="as many choices as conditions, one or more",
            got=f"{len(condlist)} and {len(choicelist)}",
            fix="pair them",
        )
    made = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        made = where(condition, choice, made)
    return made


def piecewise(x: Any, condlist: Sequence[Any], funclist: Sequence[Any]) -> Any:
    """Functions (or numbers) of `x` where conditions hold; one more is for everywhere else. All are computed."""
    x = operand("piecewise", x)
    if len(funclist) not in (len(condlist), len(condlist) + 1):
        raise refused(
            f"piecewise of {len(condlist)} conditions and {len(funclist)} functions",
            expected="a function per condition, and perhaps one more",
            got=str(len(funclist)),
            fix="pair them",
        )
    values = [each(x) if callable(each) else ops.full_like(x, each) for each in funclist]
    rest = values.pop() if len(values) == len(condlist) + 1 else ops.full_like(x, 0)
    for condition, value in zip(condlist, values, strict=True):  # the last condition that holds decides
        rest = where(condition, value, rest)
    return rest


_FIX = "use tnp.where(condition, x, fill)"


def compress(condition: Any, x: Any, axis: int | None = None) -> Any:
    """Slices along an axis where the condition holds. Its size depends on values: refused in a trace."""
    x = operand("compress", x)
    if axis is None:
        x, axis = ops.reshape(x, (x.type.size,)), 0
    return ops.take(x, true_positions("compress", operand("compress", condition), _FIX), axis)


def extract(condition: Any, x: Any) -> Any:
    """Entries where the condition holds. Its size depends on values: refused in a trace."""
    return compress(ops.reshape(operand("extract", condition), (-1,)), x)


def put_along_axis(x: Any, indices: Any, values: Any, axis: int) -> Any:
    """`x` with y[…, indices[…, j, …], …] = values[…, j, …]: a new array, since arrays are immutable."""
    from torchlean.numpy.ranges import indices as index_grids

    x, found = operand("put_along_axis", x), operand("put_along_axis", indices)
    at = axis_of("put_along_axis", axis, x.type.rank)
    grids = index_grids(found.type.shape, sparse=True)
    return x.at[tuple([found if a == at else grid for a, grid in enumerate(grids)])].set(values)
