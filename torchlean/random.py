"""Random numbers as pure functions of an explicit key.

A key is u32[2]; `key`, `split`, `fold_in`, `bits` and `uniform` give the bits of JAX (threefry, partitionable). Use a
key once: split it, or fold a number in. `SeedStream` is TorchLean's splitmix64 stream, for its published seeds; nearby
seeds of it share draws (seed + 1 at counter c is seed at counter c + 1), so prefer keys elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from torchlean.errors import ConfigError, TypeRuleError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.dtypes import DType, as_dtype
from torchlean.ir.location import caller_location
from torchlean.ir.ops import random as generators
from torchlean.ir.ops.promote import tensor

_WORD = 0xFFFFFFFF
_WIDE_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


# -- keys --------------------------------------------------------------------------------------------------------------
def key(seed: Any) -> Any:
    """The key u32[2] of a seed in [0, 2⁶⁴): its high and low words. ConfigError for any other seed."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= int(seed) <= _WIDE_WORD:
        raise ConfigError(
            message(
                f"{seed!r} is not a seed",
                expected="an integer in [0, 2**64)",
                got=repr(seed),
                fix="for a number known only at run time use random.fold_in(random.key(0), number)",
                where=str(caller_location()),
            )
        )
    return ops.constant(np.array([int(seed) >> 32, int(seed) & _WORD], dtype=np.uint32))


def split(key: Any, num: int = 2) -> Any:
    """`num` new keys, u32[num, 2]; a batch of keys u32[…, 2] gives u32[…, num, 2]."""
    key = _checked(key, "split")
    return _both_words(key, (int(num),))


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and a number below 2³² (a Python integer, or an integer tensor: one key per entry)."""
    key = _checked(key, "fold_in")
    if isinstance(data, int) and not 0 <= data <= _WORD:
        raise ConfigError(
            message(
                f"{data} cannot be folded into a key",
                expected="an integer in [0, 2**32)",
                got=str(data),
                fix="fold in its high and low words one after the other",
                where=str(caller_location()),
            )
        )
    low = tensor(np.uint32(data) if isinstance(data, int) else data)
    low = ops.reshape(ops.convert(low, "u32"), (*low.type.shape, 1))
    counter = ops.concatenate([ops.full(low.type.shape, 0, "u32"), low], axis=-1)
    shape = np.broadcast_shapes(key.type.shape, counter.type.shape)
    return ops.threefry2x32(ops.broadcast_to(key, shape), ops.broadcast_to(counter, shape))


def _checked(key: Any, name: str) -> Any:
    type = type_of(key)
    if type.dtype is not DType.U32 or type.shape[-1:] != (2,):
        raise TypeRuleError(
            message(
                f"random.{name}: {type} is not a key",
                expected="u32[2], or a batch u32[…, 2]",
                got=str(type),
                fix="make one with torchlean.random.key(seed)",
                where=str(caller_location()),
            )
        )
    return tensor(key)


def _both_words(key: Any, shape: tuple[int, ...]) -> Any:
    """Both threefry words of each row-major index: u32[…, shape, 2]."""
    lead = key.type.shape[:-1]
    counts = ops.reshape(ops.iota((prod(shape),), 0, "u32"), (*shape, 1))
    counter = ops.concatenate([ops.full((*shape, 1), 0, "u32"), counts], axis=-1)
    whole = (*lead, *shape, 2)
    spread = ops.broadcast(key, whole, (*range(len(lead)), len(whole) - 1))
    return ops.threefry2x32(spread, ops.broadcast_to(counter, whole))


# -- draws -------------------------------------------------------------------------------------------------------------
def bits(key: Any, shape: Sequence[int] = (), dtype: Any = "u32") -> Any:
    """Random words, u32 or u64, of `shape` for each key."""
    key = _checked(key, "bits")
    wanted = as_dtype(dtype)
    if wanted is DType.U32:
        return ops.random_bits(key, tuple(shape))
    if wanted is not DType.U64:
        raise _unsupported("bits", wanted, "u32 or u64")
    pairs = ops.convert(_both_words(key, tuple(shape)), "u64")
    return pairs[..., 0] * (1 << 32) + pairs[..., 1]


def uniform(key: Any, shape: Sequence[int] = (), dtype: Any = "f32", low: float = 0.0, high: float = 1.0) -> Any:
    """Evenly spaced multiples of 2⁻²³ (f64: 2⁻⁵², f16: 2⁻¹⁰) in [0, 1), scaled to [low, high) with rounding.

    f32 values are JAX's u·(high − low) + low, not below low; scaling may round up to `high`. (Under `jit` JAX may fuse
    the multiplication with the addition, and differ in the last bit when the interval is not [0, 1).)
    """
    wanted = as_dtype(dtype)
    if not wanted.is_float:
        raise _unsupported("uniform", wanted, "a float dtype; for integers use random.randint")
    key = _checked(key, "uniform")
    carrier = wanted.carrier
    mantissa = int(np.finfo(carrier).nmant)
    words = bits(key, shape, "u64" if wanted is DType.F64 else "u32")
    unit = ops.convert(ops.shift_right(words, words.type.dtype.width - mantissa), wanted) * 2.0**-mantissa
    if (low, high) == (0.0, 1.0):
        return unit
    bottom = carrier.type(low)
    return ops.max(float(bottom), unit * float(carrier.type(high) - bottom) + float(bottom))


def normal(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Standard normal draws. f32 and f16: √2·erf⁻¹ of a uniform draw, JAX's values to a few ulp; f64: Box–Muller.

    Reach: about ±5.4 in f32 and ±8.4 in f64.  [Giles 2012; Box & Muller 1958]
    """
    key = _checked(key, "normal")
    wanted = as_dtype(dtype)
    if wanted is DType.F64:
        first, second = (uniform(half, shape, wanted) for half in _two(split(key)))
        return ops.sqrt(-2.0 * ops.log1p(-first)) * ops.cos(second * (2 * math.pi))
    unit = uniform(key, shape, "f32", float(np.nextafter(np.float32(-1), np.float32(0))), 1.0)
    return ops.convert(_erf_inv(unit) * math.sqrt(2), wanted)


def _two(keys: Any) -> tuple[Any, Any]:
    return keys[..., 0, :], keys[..., 1, :]


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


def _erf_inv(x: Any) -> Any:
    """Inverse error function in f32 on (−1, 1), two polynomials in −log(1 − x²).  [Giles 2012, table 5]"""
    w = -ops.log1p(-(x * x))
    central = ops.lt(w, 5.0)
    t = ops.select(central, w - 2.5, ops.sqrt(w) - 3.0)
    p = ops.select(central, _CENTRAL[0], ops.full_like(x, _TAIL[0]))
    for near, far in zip(_CENTRAL[1:], _TAIL[1:], strict=True):
        p = ops.select(central, near, ops.full_like(x, far)) + p * t
    return p * x


def bernoulli(key: Any, p: Any = 0.5, shape: Sequence[int] | None = None) -> Any:
    """True with probability `p` (a number or tensor that broadcasts to `shape`): uniform f32 draws below p."""
    size = type_of(p).shape if shape is None else tuple(shape)
    return ops.lt(uniform(_checked(key, "bernoulli"), size), p)


def randint(key: Any, shape: Sequence[int], low: int, high: int, dtype: Any = "i32") -> Any:
    """Integers in [low, high), `high − low` at most 2³²: the high word of draw·(high − low), biased by less than
    (high − low)/2³². Not JAX's values. ConfigError for an empty range or bounds the dtype cannot hold.
    """
    wanted = as_dtype(dtype)
    if not wanted.is_integer:
        raise _unsupported("randint", wanted, "an integer dtype")
    limits = np.iinfo(wanted.carrier)
    if not int(limits.min) <= low < high <= int(limits.max) + 1 or high - low > 1 << 32:
        raise ConfigError(
            message(
                f"random.randint cannot draw from [{low}, {high}) as {wanted}",
                expected=f"low < high within [{limits.min}, {int(limits.max) + 1}], at most 2**32 apart",
                got=f"low {low}, high {high}",
                fix="widen the range or the dtype",
                where=str(caller_location()),
            )
        )
    words = ops.convert(bits(_checked(key, "randint"), shape), "u64")
    offset = ops.convert(ops.shift_right(words * (high - low), 32), "u64" if wanted is DType.U64 else "i64")
    return ops.convert(offset + low, wanted)


def _unsupported(name: str, dtype: DType, wanted: str) -> TypeRuleError:
    return TypeRuleError(
        message(
            f"random.{name} does not draw {dtype}",
            expected=wanted,
            got=str(dtype),
            fix="draw another dtype and convert",
            where=str(caller_location()),
        )
    )


# -- TorchLean's seed stream -------------------------------------------------------------------------------------------
def splitmix64(x: int) -> int:
    """One step of the SplitMix64 generator from state `x`, all modulo 2⁶⁴.  [Steele et al. 2014]"""
    return int(generators.splitmix64(np.array([x & _WIDE_WORD], dtype=np.uint64))[0])


def key_of(seed: int, counter: int) -> int:
    """TorchLean's key of call `counter` of a seed: splitmix64(seed + counter)."""
    return splitmix64(seed + counter)


def draw32(key: int, count: int) -> np.ndarray[Any, Any]:
    """The first `count` draws of a splitmix64 key: u32, the low half of splitmix64(key + index)."""
    state = np.uint64(key & _WIDE_WORD) + np.arange(count, dtype=np.uint64)
    return (generators.splitmix64(state) & np.uint64(_WORD)).astype(np.uint32)


def uniform01(key: int, count: int) -> np.ndarray[Any, Any]:
    """`draw32` divided by 2³², in binary64 (exact)."""
    return draw32(key, count).astype(np.float64) / 4294967296.0


class SeedStream:
    """The seeds that TorchLean hands to the layers of one model, in order: splitmix64(base + n + golden), n = 0, 1, …

    A layer takes one seed per stochastic initialisation; a zero bias takes none. Mutable: use one per model.
    """

    __slots__ = ("base", "taken")

    def __init__(self, base: int) -> None:
        self.base = base
        self.taken = 0

    def take(self) -> int:
        """The next seed, a 64-bit integer."""
        seed = splitmix64(self.base + self.taken + _GOLDEN)
        self.taken += 1
        return seed

    def __repr__(self) -> str:
        return f"SeedStream({self.base}), {self.taken} taken"


def call_key(seed: Any, counter: Any) -> Any:
    """`key_of` on tensors: u64[] from a u64 seed and an integer counter, either of which may be traced."""
    count = np.uint64(counter) if isinstance(counter, int) else counter
    return ops.splitmix64(ops.add(tensor(seed), ops.convert(count, "u64")))


def call_draws(key: Any, shape: Sequence[int]) -> Any:
    """`draw32` on tensors: u32 of `shape` from a u64[] key, by row-major index."""
    return ops.random_bits(key, tuple(shape), generators.Algorithm.SPLITMIX64)
