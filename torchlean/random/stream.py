"""TorchLean's splitmix64 stream: seeds of layers and draws of published models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.errors import ConfigError, message
from torchlean.ir import ops
from torchlean.ir.location import caller_location
from torchlean.ir.ops import random as generators
from torchlean.ir.ops.promote import tensor

_WORD = 0xFFFFFFFF
_WIDE_WORD = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


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

    def __init__(self, base: Any) -> None:
        if isinstance(base, bool) or not isinstance(base, int | np.integer):
            raise ConfigError(
                message(
                    f"SeedStream: {base!r} is not a seed",
                    expected="an integer",
                    got=repr(base),
                    fix="pass a Python integer",
                    where=str(caller_location()),
                )
            )
        self.base = int(base)
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
    start, count = (np.uint64(each & _WIDE_WORD) if isinstance(each, int) else each for each in (seed, counter))
    return ops.splitmix64(ops.add(tensor(start), ops.convert(count, "u64")))


def call_draws(key: Any, shape: Sequence[int]) -> Any:
    """`draw32` on tensors: u32 of `shape` from a u64[] key, by row-major index."""
    return ops.random_bits(key, tuple(shape), generators.Algorithm.SPLITMIX64)
