"""What draws are asked for, checked where it is known: sizes, counts, axes, numbers and NumPy arrays.

The entries of other tensors are not looked at; the draws say what becomes of those outside.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.errors import ConfigError, OutOfRangeError, TypeRuleError, message
from torchlean.ir.builder import type_of
from torchlean.ir.location import caller_location
from torchlean.ir.types import Shape


def sizes(name: str, shape: Any) -> Shape:
    """A shape: integers of at least 0, or one of them."""
    try:
        given = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
        if any([isinstance(size, bool) for size in given]):
            raise TypeError
        made = tuple([operator.index(size) for size in given])
        if all([size >= 0 for size in made]):
            return made
    except TypeError:
        pass
    raise TypeRuleError(
        message(
            f"random.{name}: {shape!r} is not a shape",
            expected="a tuple of integers of at least 0",
            got=repr(shape),
            fix="write it as (2, 3); () is a scalar",
            where=str(caller_location()),
        )
    )


def whole(name: str, what: str, number: Any, least: int = 0) -> int:
    """A count known to Python."""
    if not isinstance(number, bool) and isinstance(number, int | np.integer) and number >= least:
        return int(number)
    raise ConfigError(
        message(
            f"random.{name}: {what} {number!r} is not a count",
            expected=f"an integer of at least {least}",
            got=repr(number),
            fix="pass a Python integer",
            where=str(caller_location()),
        )
    )


def is_count(x: Any) -> bool:
    """Whether an argument is a Python or NumPy integer, not a tensor; True is none."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def axis_of(name: str, tensor: Any, axis: Any) -> int:
    """An axis of a tensor, counted from 0."""
    rank = type_of(tensor).rank
    if isinstance(axis, int) and -rank <= axis < rank:
        return axis % rank
    raise OutOfRangeError(
        message(
            f"random.{name} of {type_of(tensor)}: there is no axis {axis!r}",
            expected=f"an integer in [{-rank}, {rank})",
            got=repr(axis),
            fix="count axes from 0, or from the end with negative numbers",
            where=str(caller_location()),
        )
    )


def require(name: str, what: str, given: Any, holds: Callable[[Any], Any], expected: str) -> None:
    """Refuse numbers and NumPy arrays with an entry for which `holds` does not; other tensors pass."""
    if isinstance(given, int | float | np.ndarray | np.generic | list | tuple):
        entries = np.asarray(given)
        with np.errstate(invalid="ignore"):
            fits = np.asarray(holds(entries))
        if not fits.all():
            unfit(name, what, entries.reshape(-1)[np.argmin(fits.reshape(-1))].item(), expected)


def unfit(name: str, what: str, got: Any, expected: str) -> None:
    """Refuse a number."""
    raise ConfigError(
        message(
            f"random.{name}: {what} {got!r} is no parameter of the distribution",
            expected=expected,
            got=repr(got),
            fix="check the argument",
            where=str(caller_location()),
        )
    )
