"""random_bits: counter-based generators as pure integer functions of a key and a shape.

What a key is, how it splits, and how bits become numbers is `torchlean/random.py`.
"""

from __future__ import annotations

from enum import Enum
from math import prod
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.rules import NoTangent, Rule
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record


class Algorithm(Enum):
    """A generator of 32-bit words from a key and a row-major index.

    THREEFRY2X32: twenty rounds [Salmon et al. 2011], key u32[…, 2]; the two output words of the 64-bit index, xored, as
    `jax.random.bits` with `threefry_partitionable`. SPLITMIX64: the low half of splitmix64(key + index)
    [Steele et al. 2014], key u64[…].
    """

    THREEFRY2X32 = "threefry2x32"
    SPLITMIX64 = "splitmix64"

    __hash__ = object.__hash__


@record
class Draw:
    """`shape`: of the bits drawn for each key; axes of the operand before the key itself come first in the result."""

    shape: Shape
    algorithm: Algorithm


def _bits_type(params: Draw, key: TensorType) -> tuple[TensorType, ...]:
    threefry = params.algorithm is Algorithm.THREEFRY2X32
    wanted = DType.U32 if threefry else DType.U64
    if key.dtype is not wanted or (threefry and key.shape[-1:] != (2,)):
        raise TypeFault(
            f"not a key of {params.algorithm.value}",
            expected="u32[…, 2]" if threefry else "u64[…]",
            got=str(key),
            fix="make the key with torchlean.random.key(seed)",
        )
    if any(size < 0 for size in params.shape):
        raise TypeFault(
            "the shape has a negative size",
            expected="sizes of at least 0",
            got=str(list(params.shape)),
            fix="check the shape",
        )
    return (TensorType((key.shape[:-1] if threefry else key.shape) + params.shape, DType.U32),)


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def threefry2x32(k0: Any, k1: Any, x0: Any, x1: Any) -> tuple[Any, Any]:
    """Threefry-2x32-20 of a two-word key and counter: u32 arrays that broadcast, none 0-d. Sums wrap modulo 2³²."""
    schedule = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = x0 + k0, x1 + k1
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))) ^ x0
        x0 = x0 + schedule[(group + 1) % 3]
        x1 = x1 + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x0, x1


def splitmix64(x: Any) -> Any:
    """The mixing function of SplitMix64 after one step of its counter: u64 array, not 0-d; sums wrap modulo 2⁶⁴."""
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def halves(words: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The high and low 32 bits of 64-bit words."""
    return (words >> np.uint64(32)).astype(np.uint32), (words & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def random_words(params: Draw, key: Any) -> np.ndarray[Any, Any]:
    """The bits as a NumPy array."""
    index = np.arange(prod(params.shape), dtype=np.uint64)
    if params.algorithm is Algorithm.THREEFRY2X32:
        first, second = threefry2x32(key[..., 0, None], key[..., 1, None], *halves(index))
        return (first ^ second).reshape(key.shape[:-1] + params.shape)
    return halves(splitmix64(key[..., None] + index))[1].reshape(key.shape + params.shape)


RANDOM_BITS = Op(
    name="random_bits",
    params=Draw,
    type_rule=_bits_type,
    denote=lambda algebra, params, key: (algebra.exact(lambda k: random_words(params, np.asarray(k)), key),),
    diff=NoTangent("random bits are integers"),
    batch=Rule(lambda params, size, operands, mapped: (bind1(RANDOM_BITS, params, operands[0]),)),
    reduces=False,
    doc="32 random bits per entry: a pure function of key and row-major index.",
)


def random_bits(key: Any, shape: Shape, algorithm: Algorithm = Algorithm.THREEFRY2X32) -> Any:
    """u32 words of `shape` for each key; equal keys give equal bits on every provider."""
    return bind1(RANDOM_BITS, Draw(tuple(shape), algorithm), key)


OPS = (RANDOM_BITS,)
