"""Bits: logic on whole integers, shifts by as many places as another tensor says, counting, reinterpretation, and
rounding to fewer bits. All exact.

A shift by a negative number of places, or by the width or more, moves every bit out: 0, or copies of the sign bit.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1
from torchlean.ir.carriers import is_extended
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.ops.families import FLOATS, binary, kind_fault, unary
from torchlean.ir.rules import Elementwise, NoTangent, Pointwise, Rule, Unit
from torchlean.ir.types import TensorType
from torchlean.record import record

INTEGERS = frozenset({Kind.SIGNED, Kind.UNSIGNED})
_BITS = NoTangent("bits have no tangent")


def _logic(name: str, function: Callable[..., Any], doc: str) -> Op:
    return binary(name, denote=lambda a, x, y: a.exact(function, x, y), partials=_BITS, kinds=INTEGERS, doc=doc)


def _shift(function: Callable[..., Any]) -> Callable[..., Any]:
    """The shift with places beyond the width handled: `function(x, places)` sees places in [0, width)."""

    def shifted(x: Any, places: Any) -> Any:
        width = x.dtype.itemsize * 8
        outside = (places < 0) | (places >= width)
        x, places = np.asarray(x), np.where(outside, 0, places).astype(x.dtype)
        return function(x, places, outside)

    return shifted


def _unsigned(x: Any) -> Any:
    return x.view(f"u{x.dtype.itemsize}")


def _left(x: Any, places: Any, outside: Any) -> Any:
    return np.where(outside, x.dtype.type(0), np.left_shift(x, places))


def _logical(x: Any, places: Any, outside: Any) -> Any:
    moved = np.asarray(np.right_shift(_unsigned(x), _unsigned(places))).view(x.dtype)
    return np.where(outside, x.dtype.type(0), moved)


def _arithmetic(x: Any, places: Any, outside: Any) -> Any:
    signed = x.view(f"i{x.dtype.itemsize}")
    moved = np.asarray(np.right_shift(signed, places.view(signed.dtype)))
    sign = np.right_shift(signed, signed.dtype.type(x.dtype.itemsize * 8 - 1))
    return np.where(outside, sign, moved).view(x.dtype)


AND = _logic("and", np.bitwise_and, "Bitwise and of integers.")
OR = _logic("or", np.bitwise_or, "Bitwise or of integers.")
XOR = _logic("xor", np.bitwise_xor, "Bitwise exclusive or of integers.")
NOT = unary(
    "not", denote=lambda a, x: a.exact(np.invert, x), partial=_BITS, kinds=INTEGERS, doc="Bitwise not of integers."
)
SHIFT_LEFT = _logic("shift_left", _shift(_left), "x · 2^y modulo 2^width.")
SHIFT_RIGHT_LOGICAL = _logic("shift_right_logical", _shift(_logical), "Bits moved down by y; zeros come in.")
SHIFT_RIGHT_ARITHMETIC = _logic(
    "shift_right_arithmetic", _shift(_arithmetic), "Bits moved down by y; copies of the highest bit come in."
)


def _count(x: Any) -> Any:
    return np.bitwise_count(_unsigned(np.asarray(x))).astype(x.dtype)


def _leading_zeros(x: Any) -> Any:
    """The width less the position of the highest set bit, found by halving."""
    x = np.asarray(x)
    rest, width = _unsigned(x), x.dtype.itemsize * 8
    found = np.zeros(x.shape, dtype=np.int64)
    step = width // 2
    while step:
        high = rest >= rest.dtype.type(1 << step)
        found = np.where(high, found + step, found)
        rest = np.where(high, rest >> rest.dtype.type(step), rest)
        step //= 2
    return (width - 1 - found + (rest == 0)).astype(x.dtype)


POPULATION_COUNT = unary(
    "population_count",
    denote=lambda a, x: a.exact(_count, x),
    partial=_BITS,
    kinds=INTEGERS,
    doc="How many bits are set, of two's complement.",
)
CLZ = unary(
    "clz",
    denote=lambda a, x: a.exact(_leading_zeros, x),
    partial=_BITS,
    kinds=INTEGERS,
    doc="How many zero bits come before the highest set bit; the width for 0.",
)


# -- reinterpretation --------------------------------------------------------------------------------------------------
@record
class Bitcast:
    """`dtype`: how the bits are read. A wider dtype takes its bits from the last axis, a narrower one adds one."""

    dtype: DType


def _bitcast_type(params: Bitcast, x: TensorType) -> tuple[TensorType, ...]:
    source, target = x.dtype, params.dtype
    for dtype in (source, target):
        if dtype.is_bool or dtype.is_complex:
            raise TypeFault(
                f"a {dtype.kind.value} has no bit pattern to share",
                expected="integer or floating point dtypes",
                got=f"{source.short} to {target.short}",
                fix="convert booleans to u8, split complex numbers with ops.real and ops.imag",
            )
    if source.width == target.width:
        return (TensorType(x.shape, target),)
    if source.width > target.width:
        return (TensorType((*x.shape, source.width // target.width), target),)
    ratio = target.width // source.width
    if not x.shape or x.shape[-1] != ratio:
        raise TypeFault(
            f"{source.short} entries do not pair up to {target.short}",
            expected=f"a last axis of {ratio} entries",
            got=str(x),
            fix="reshape the operand so that its last axis holds the parts, lowest first",
        )
    return (TensorType(x.shape[:-1], target),)


def bitcast_array(x: Any, carrier: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """The same bytes, little-endian, as another dtype."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(carrier).reshape(shape)


def _bitcast_value(algebra: Any, params: Bitcast, x: Any) -> tuple[Any, ...]:
    carrier, shape = params.dtype.carrier, np.shape(x)
    source = x.dtype.itemsize
    if source > carrier.itemsize:
        shape = (*shape, source // carrier.itemsize)
    elif source < carrier.itemsize:
        shape = shape[:-1]
    return (algebra.shape(lambda v: bitcast_array(v, carrier, shape), x),)


BITCAST_CONVERT = Op(
    name="bitcast_convert",
    params=Bitcast,
    type_rule=_bitcast_type,
    denote=_bitcast_value,
    diff=_BITS,
    batch=Rule(lambda params, size, operands, mapped: (bind1(BITCAST_CONVERT, params, operands[0]),)),
    reduces=False,
    doc="The same bits under another dtype.",
)


# -- fewer bits --------------------------------------------------------------------------------------------------------
@record
class Precision:
    """Bits of the exponent (2 to 11) and of the stored mantissa (0 to 52) that are kept."""

    exponent: int
    mantissa: int


def _precision_type(params: Precision, x: TensorType) -> tuple[TensorType, ...]:
    if not x.dtype.is_float:
        raise kind_fault(x.dtype, FLOATS)
    if not (2 <= params.exponent <= 11 and 0 <= params.mantissa <= 52):
        raise TypeFault(
            "there is no such precision",
            expected="2 to 11 exponent bits, 0 to 52 mantissa bits",
            got=f"{params.exponent} and {params.mantissa}",
            fix="name the bits of a format no larger than f64, e.g. 8 and 7 of bf16",
        )
    return (x,)


def _reduced(x: Any, exponent: int, mantissa: int) -> Any:
    """Round the stored bits to nearest even; then too large becomes ±∞ and below the least normal number ±0."""
    x = np.asarray(x)
    stored_exponent, stored = (8, 7) if is_extended(x.dtype) else _STORED[x.dtype.itemsize]
    word = np.dtype(f"u{x.dtype.itemsize}")
    sign = x.view(word) & word.type(1 << (word.itemsize * 8 - 1))
    bits = x.view(word) ^ sign
    drop = stored - mantissa
    if drop > 0:
        odd = (bits >> word.type(drop)) & word.type(1)
        bits = (bits + word.type((1 << (drop - 1)) - 1) + odd) & ~word.type((1 << drop) - 1)
    if exponent < stored_exponent:
        bias, middle = 2 ** (exponent - 1) - 1, 2 ** (stored_exponent - 1) - 1
        infinity = word.type((2**stored_exponent - 1) << stored)
        bits = np.where(bits >> word.type(stored) > middle + bias, infinity, bits)
        bits = np.where(bits >> word.type(stored) <= middle - bias, word.type(0), bits)
    return np.where(x == x, np.asarray(bits | sign).view(x.dtype), x)


_STORED = MappingProxyType({2: (5, 10), 4: (8, 23), 8: (11, 52)})  # bits of exponent and mantissa, by bytes


def _precision_value(algebra: Any, params: Precision, x: Any) -> tuple[Any, ...]:
    return (algebra.shape(lambda v: _reduced(v, params.exponent, params.mantissa), x),)


REDUCE_PRECISION = Op(
    name="reduce_precision",
    params=Precision,
    type_rule=_precision_type,
    denote=_precision_value,
    diff=Elementwise((Unit.PLUS,)),
    batch=Pointwise(),
    reduces=False,
    doc=(
        "Round to fewer bits, keeping the dtype; subnormals of a smaller exponent range become 0. The derivative is "
        "that of x: tangents are not rounded."
    ),
)

OPS = (
    AND,
    OR,
    XOR,
    NOT,
    SHIFT_LEFT,
    SHIFT_RIGHT_LOGICAL,
    SHIFT_RIGHT_ARITHMETIC,
    POPULATION_COUNT,
    CLZ,
    BITCAST_CONVERT,
    REDUCE_PRECISION,
)
