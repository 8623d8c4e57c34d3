"""Draws of bits, uniform and normal numbers, booleans and integers.

Functions whose names end in `_of` draw from a key that was already noted as used; the others note it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.errors import ConfigError, TypeRuleError, message
from torchlean.ir import ops
from torchlean.ir.builder import is_python_number, type_of
from torchlean.ir.dtypes import DType, as_dtype
from torchlean.ir.location import caller_location
from torchlean.ir.ops.promote import tensor
from torchlean.random.arguments import require, sizes
from torchlean.random.keys import both_words, two, used


def bits(key: Any, shape: Sequence[int] = (), dtype: Any = "u32") -> Any:
    """Random words, u32 or u64, of `shape` for each key."""
    wanted = as_dtype(dtype)
    if wanted not in (DType.U32, DType.U64):
        raise unsupported("bits", wanted, "u32 or u64")
    shape = sizes("bits", shape)
    return words_of(used(key, "bits"), shape, wanted)


def words_of(key: Any, shape: Sequence[int], dtype: DType) -> Any:
    """u32 or u64 words."""
    if dtype is DType.U32:
        return ops.random_bits(key, tuple(shape))
    pairs = ops.convert(both_words(key, tuple(shape)), "u64")
    return pairs[..., 0] * (1 << 32) + pairs[..., 1]


_MANTISSA = MappingProxyType({DType.F16: 10, DType.BF16: 7, DType.F32: 23, DType.F64: 52})


def float_dtype(name: str, dtype: Any) -> DType:
    """A dtype floating-point numbers are drawn in."""
    wanted = as_dtype(dtype)
    if wanted not in _MANTISSA:
        raise unsupported(name, wanted, "a float dtype; for integers use random.randint")
    return wanted


def uniform(key: Any, shape: Sequence[int] = (), dtype: Any = "f32", low: float = 0.0, high: float = 1.0) -> Any:
    """Evenly spaced multiples of 2⁻²³ (f64: 2⁻⁵², f16: 2⁻¹⁰, bf16: 2⁻⁷) in [0, 1), scaled to [low, high) with rounding.

    f32 values are JAX's u·(high − low) + low, not below low; scaling may round up to `high`. (Under `jit` JAX may fuse
    the multiplication with the addition, and differ in the last bit when the interval is not [0, 1).) ConfigError for
    bounds that are no Python numbers, not in order, or further apart than the dtype reaches.
    """
    wanted = float_dtype("uniform", dtype)
    shape = sizes("uniform", shape)
    _require_interval(wanted, low, high)
    return uniform_of(used(key, "uniform"), shape, wanted, low, high)


def _require_interval(dtype: DType, low: Any, high: Any) -> None:
    largest = (2 - 2.0**-7) * 2.0**127 if dtype is DType.BF16 else float(np.finfo(dtype.carrier).max)
    known = [isinstance(bound, int | float | np.number) and not isinstance(bound, bool) for bound in (low, high)]
    if all(known) and low <= high and float(high) - float(low) <= largest and max(abs(low), abs(high)) <= largest:
        return
    raise ConfigError(
        message(
            f"random.uniform cannot draw from [{low!r}, {high!r}) as {dtype}",
            expected=f"numbers, low ≤ high, at most {largest:g} apart",
            got=f"low {low!r}, high {high!r}",
            fix="for bounds that are tensors write low + (high - low) * random.uniform(key, shape)",
            where=str(caller_location()),
        )
    )


def uniform_of(key: Any, shape: Sequence[int], dtype: DType, low: float = 0.0, high: float = 1.0) -> Any:
    """Uniform draws in [low, high)."""
    carrier, mantissa = dtype.carrier, _MANTISSA[dtype]
    words = words_of(key, shape, DType.U64 if dtype is DType.F64 else DType.U32)
    unit = ops.convert(ops.shift_right(words, words.type.dtype.width - mantissa), dtype) * 2.0**-mantissa
    if (low, high) == (0.0, 1.0):
        return unit
    bottom = carrier.type(low)
    return ops.max(float(bottom), unit * float(carrier.type(high) - bottom) + float(bottom))


def normal(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Standard normal draws. f32, f16 and bf16: √2·erf⁻¹ of a uniform draw, JAX's f32 values to a few ulp; f64:
    Box–Muller.

    Reach: about ±5.4 in f32 and ±8.4 in f64.  [Giles 2012; Box & Muller 1958]
    """
    wanted = float_dtype("normal", dtype)
    shape = sizes("normal", shape)
    return normal_of(used(key, "normal"), shape, wanted)


def normal_of(key: Any, shape: Sequence[int], dtype: DType) -> Any:
    """Standard normal draws."""
    if dtype is DType.F64:
        first, second = (uniform_of(half, shape, dtype) for half in two(key))
        return ops.sqrt(-2.0 * ops.log1p(-first)) * ops.cos(second * (2 * math.pi))
    unit = uniform_of(key, shape, DType.F32, float(np.nextafter(np.float32(-1), np.float32(0))), 1.0)
    return ops.convert(erf_inverse(unit) * math.sqrt(2), dtype)


_CENTRAL = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def erf_inverse(x: Any) -> Any:
    """Inverse error function in f32 on (−1, 1), two polynomials in −log(1 − x²).  [Giles 2012, table 5]"""
    w = -ops.log1p(-(x * x))
    central = ops.lt(w, 5.0)
    t = ops.select(central, w - 2.5, ops.sqrt(w) - 3.0)
    p = ops.select(central, _CENTRAL[0], ops.full_like(x, _TAIL[0]))
    for near, far in zip(_CENTRAL[1:], _TAIL[1:], strict=True):
        p = ops.select(central, near, ops.full_like(x, far)) + p * t
    return p * x


def bernoulli(key: Any, p: Any = 0.5, shape: Sequence[int] | None = None) -> Any:
    """True with probability `p` (a number or tensor that broadcasts to `shape`): uniform f32 draws below p.

    ConfigError for a known p outside [0, 1]. A tensor's entry below counts as 0, above as 1, NaN as 0.
    """
    require("bernoulli", "p", p, lambda x: (x >= 0) & (x <= 1), "a probability in [0, 1]")
    size = type_of(p).shape if shape is None else sizes("bernoulli", shape)
    chance = p if is_python_number(p) else ops.broadcast_to(tensor(p), size)
    return ops.lt(uniform_of(used(key, "bernoulli"), size, DType.F32), chance)


def randint(key: Any, shape: Sequence[int], low: Any, high: Any, dtype: Any = "i32") -> Any:
    """Integers in [low, high), `high − low` at most 2³²: the high word of draw·(high − low), biased by less than
    (high − low)/2³². Not JAX's values. ConfigError for an empty range or bounds the dtype cannot hold.
    """
    wanted = as_dtype(dtype)
    if not wanted.is_integer:
        raise unsupported("randint", wanted, "an integer dtype")
    limits = np.iinfo(wanted.carrier)
    shape = sizes("randint", shape)
    known = [isinstance(bound, int | np.integer) and not isinstance(bound, bool) for bound in (low, high)]
    low, high = (int(low), int(high)) if all(known) else (low, high)
    if not all(known) or not int(limits.min) <= low < high <= int(limits.max) + 1 or high - low > 1 << 32:
        raise ConfigError(
            message(
                f"random.randint cannot draw from [{low}, {high}) as {wanted}",
                expected=f"integers, low < high, within [{limits.min}, {int(limits.max) + 1}], at most 2**32 apart",
                got=f"low {low!r}, high {high!r}",
                fix="widen the range or the dtype",
                where=str(caller_location()),
            )
        )
    return integers_of(used(key, "randint"), shape, low, high, wanted)


def integers_of(key: Any, shape: Sequence[int], low: int, high: int, dtype: DType) -> Any:
    """Integers in [low, high)."""
    words = ops.convert(words_of(key, shape, DType.U32), "u64")
    offset = ops.convert(ops.shift_right(words * (high - low), 32), "u64" if dtype is DType.U64 else "i64")
    return ops.convert(offset + low, dtype)


def unsupported(name: str, dtype: DType, wanted: str) -> TypeRuleError:
    return TypeRuleError(
        message(
            f"random.{name} does not draw {dtype}",
            expected=wanted,
            got=str(dtype),
            fix="draw another dtype and convert",
            where=str(caller_location()),
        )
    )
