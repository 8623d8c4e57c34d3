"""What Python's operators mean where one primitive does not say it, by the Array API standard.

`&`, `|`, `^` and `~` are logic on booleans and act on the bits of integers; unsigned integers have a wrapped negative;
`**` of two integer tensors multiplies; `//` of floats treats infinities as the standard says.
"""

from __future__ import annotations

from typing import Any

from torchlean.ir.builder import bind1, is_python_number, type_of
from torchlean.ir.dtypes import Kind
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops import functions as f
from torchlean.ir.ops import pointwise, words
from torchlean.ir.ops.create import full_like
from torchlean.ir.ops.promote import pair, tensor


def _logic(name: str, on_booleans: Op, on_integers: Op, x: Any, y: Any) -> Any:
    x, y = pair(name, x, y)
    return bind1(on_booleans if type_of(x).dtype.is_bool else on_integers, NO_PARAMS, x, y)


def bitwise_and(x: Any, y: Any) -> Any:
    """x & y: bits set in both; of booleans, x and y."""
    return _logic("bitwise_and", ew.LOGICAL_AND, words.AND, x, y)


def bitwise_or(x: Any, y: Any) -> Any:
    """x | y: bits set in either; of booleans, x or y."""
    return _logic("bitwise_or", ew.LOGICAL_OR, words.OR, x, y)


def bitwise_xor(x: Any, y: Any) -> Any:
    """x ^ y: bits set in one of the two; of booleans, one of x and y."""
    return _logic("bitwise_xor", ew.LOGICAL_XOR, words.XOR, x, y)


def bitwise_not(x: Any) -> Any:
    """~x: every bit turned over; of booleans, not x."""
    x = tensor(x)
    return bind1(ew.LOGICAL_NOT if type_of(x).dtype.is_bool else words.NOT, NO_PARAMS, x)


# -- arithmetic --------------------------------------------------------------------------------------------------------
def negative(x: Any) -> Any:
    """-x; unsigned integers wrap."""
    x = tensor(x)
    return f.sub(full_like(x, 0), x) if x.type.dtype.kind is Kind.UNSIGNED else f.neg(x)


def absolute(x: Any) -> Any:
    """|x|; an unsigned integer is its own."""
    x = tensor(x)
    return x if x.type.dtype.kind is Kind.UNSIGNED else f.abs(x)


def floor_quotient(x: Any, y: Any) -> Any:
    """x // y: the quotient rounded down. Of floats one of which is infinite it is x / y, as the standard has it."""
    x, y = pair("floor_divide", x, y)
    quotient = pointwise.floor_divide(x, y)
    if not x.type.dtype.is_float:
        return quotient
    x_ends, y_ends = pointwise.is_finite(x), pointwise.is_finite(y)
    ratio = f.div(x, y)
    one_is_infinite = f.logical_and(f.ne(x_ends, y_ends), f.logical_and(f.eq(ratio, ratio), f.ne(y, 0)))
    return f.select(one_is_infinite, ratio, quotient)


def raised(x: Any, y: Any) -> Any:
    """x ** y. Integers multiply and wrap.

    A negative Python exponent of integers is refused; negative entries of a tensor give 1 / xⁿ rounded towards 0.
    """
    if is_python_number(y):
        return f.power(tensor(x), y)
    x, y = pair("pow", x, y)
    return _integer_power(x, y) if x.type.dtype.is_integer else f.pow(x, y)


def _integer_power(x: Any, y: Any) -> Any:
    """Repeated squaring over the bits of the exponent, the lowest first."""
    dtype = x.type.dtype
    signed = dtype.kind is Kind.SIGNED
    total, square = full_like(x, 1), x
    for place in range(dtype.width - signed):
        odd = f.ne(bitwise_and(_moved_down(y, place), 1), 0)
        total = f.select(odd, f.mul(total, square), total)
        square = f.mul(square, square)
    if not signed:
        return total
    odd = f.ne(bitwise_and(y, 1), 0)
    of_minus_one = f.select(odd, full_like(x, -1), full_like(x, 1))
    inverse = f.select(f.eq(x, 1), full_like(x, 1), f.select(f.eq(x, -1), of_minus_one, full_like(x, 0)))
    return f.select(f.lt(y, 0), inverse, total)


def _moved_down(x: Any, places: int) -> Any:
    """x moved down by a fixed number of bits."""
    return pointwise.shift_right(x, places) if places else x
