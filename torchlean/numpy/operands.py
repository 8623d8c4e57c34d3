"""What the functions of this namespace take: arrays, traced values, NumPy arrays and Python numbers.

Lists are refused: an operand that is silently converted on each call hides a copy, and a list of traced values cannot
be converted at all. Shapes and axes are Python integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from torchlean.errors import OutOfRangeError, TraceError, TypeRuleError, message, shown
from torchlean.ir import ops
from torchlean.ir.builder import Value, is_python_number
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.ops.promote import pair
from torchlean.ir.types import TensorType, broadcast_shapes
from torchlean.runtime.array import array


def operand(name: str, x: Any) -> Any:
    """`x` as an array or traced value."""
    if isinstance(x, Operators):
        return x
    if is_python_number(x) or isinstance(x, np.ndarray | np.generic):
        return array(x)
    raise refused(
        f"{name} of a {type(x).__name__}",
        expected="an array, a NumPy array or a Python number",
        got=shown(x),
        fix="make it an array first: tnp.asarray(x)",
    )


def operand_as(name: str, x: Any, dtype: DType) -> Any:
    """`x` converted; a Python number takes the dtype at once, without a rounding to float32 first."""
    return ops.full((), x, dtype) if is_python_number(x) else ops.convert(operand(name, x), dtype)


def operands(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two operands, a Python number beside an array left as it is: its dtype is weak."""
    if isinstance(x1, Operators) and isinstance(x2, Operators):
        return x1, x2
    if is_python_number(x1):
        return x1, operand(name, x2)
    if is_python_number(x2):
        return operand(name, x1), x2
    return operand(name, x1), operand(name, x2)


def matched(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two operands of one dtype and shape."""
    return pair(name, *operands(name, x1, x2))


def known(x: Any) -> np.ndarray[Any, Any] | None:
    """The numbers of an eager array, or None for a traced value, which has none yet."""
    return None if isinstance(x, Value) else np.asarray(x)


def require_known_below(name: str, x: Any, count: int, what: str) -> None:
    """OutOfRangeError when integers that are known are not all in [0, count)."""
    numbers = known(x)
    if numbers is None or not numbers.size or (int(numbers.min()) >= 0 and int(numbers.max()) < count):
        return
    wrong = int(numbers.min()) if int(numbers.min()) < 0 else int(numbers.max())
    raise OutOfRangeError(
        message(
            f"{name}: {wrong} is none of the {count} {what}",
            expected=f"integers in [0, {count})",
            got=str(wrong),
            fix="check the integers",
            where=str(caller_location()),
        )
    )


def refuse_traced(name: str, fix: str, *xs: Any) -> None:
    """TraceError when the shape of a result would depend on values that do not exist yet."""
    for x in xs:
        if isinstance(x, Value):
            raise TraceError(
                message(
                    f"{name} of the traced {x.type}: the size of the result would depend on values",
                    expected="an array of known numbers; shapes in a trace are static",
                    got="a value that has no number until the traced program runs",
                    fix=fix,
                    where=str(caller_location()),
                )
            )


def refused(what: str, *, expected: object, got: object, fix: object) -> TypeRuleError:
    """A TypeRuleError at the user's line."""
    return TypeRuleError(message(what, expected=expected, got=got, fix=fix, where=str(caller_location())))


def unknown_choice(name: str, argument: str, got: Any, choices: Sequence[Any]) -> NoReturn:
    """Refuse an option, listing those there are."""
    raise refused(
        f"{name}: there is no {argument}={got!r}",
        expected=", ".join(map(repr, choices)),
        got=repr(got),
        fix="use one of those listed",
    )


def require_float(name: str, x: Any, *, complex_too: bool = True) -> Any:
    """`x`, refused unless its entries are floating-point."""
    x = operand(name, x)
    dtype = x.type.dtype
    if dtype.is_float or (complex_too and dtype.is_complex):
        return x
    raise refused(
        f"{name} of {x.type}",
        expected="a floating-point dtype (the Array API standard defines no other)",
        got=dtype.short,
        fix=f"convert it first: tnp.astype(x, tnp.{DType.F32.label})",
    )


def integer(name: str, argument: str, value: Any) -> int:
    """A Python integer, refused when it is anything else."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise refused(
            f"{name}: {argument}={value!r} is not an integer",
            expected="a Python integer",
            got=type(value).__name__,
            fix=f"convert it with int({argument})",
        )
    return int(value.__index__())


def sizes(name: str, shape: Any) -> tuple[int, ...]:
    """A shape: an integer or a sequence of them."""
    given = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return tuple([integer(name, "shape", size) for size in given])


def axis_of(name: str, axis: Any, rank: int) -> int:
    """An axis counted from the front; OutOfRangeError if there is none."""
    at = integer(name, "axis", axis)
    if not -rank <= at < rank:
        raise OutOfRangeError(
            message(
                f"{name}: axis {at} is out of range",
                expected=f"an axis in [{-rank}, {rank})" if rank else "an array with at least one axis",
                got=str(at),
                fix="count axes from 0, or from the end with negative numbers",
                where=str(caller_location()),
            )
        )
    return at % rank


def axes_of(name: str, axis: Any, rank: int) -> tuple[int, ...]:
    """Distinct axes in the order given; None means all of them."""
    if axis is None:
        return tuple(range(rank))
    given = tuple(axis) if isinstance(axis, tuple | list) else (axis,)
    axes = tuple([axis_of(name, each, rank) for each in given])
    if len(set(axes)) != len(axes):
        raise refused(
            f"{name}: an axis is named twice", expected="each axis once", got=str(axis), fix="drop the repeated axis"
        )
    return axes


def common_shape(name: str, *types: TensorType) -> tuple[int, ...]:
    """The shape the operands broadcast to."""
    shape = broadcast_shapes(*[type.shape for type in types])
    if shape is None:
        raise refused(
            f"{name} of {', '.join(map(str, types))}: the shapes do not broadcast",
            expected="sizes that are equal or 1, aligned at the last axis",
            got=", ".join([str(list(type.shape)) for type in types]),
            fix="reshape or slice one operand",
        )
    return shape
