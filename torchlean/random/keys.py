"""Keys: made from a seed, split, and folded with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from torchlean.errors import ConfigError, TypeRuleError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.ops.promote import tensor
from torchlean.random.arguments import sizes
from torchlean.random.reuse import note

WORD = 0xFFFFFFFF
WIDE_WORD = (1 << 64) - 1


def key(seed: Any) -> Any:
    """The key u32[2] of a seed in [0, 2⁶⁴): its high and low words. ConfigError for any other seed."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= int(seed) <= WIDE_WORD:
        raise ConfigError(
            message(
                f"{seed!r} is not a seed",
                expected="an integer in [0, 2**64)",
                got=repr(seed),
                fix="for a number known only at run time use random.fold_in(random.key(0), number)",
                where=str(caller_location()),
            )
        )
    return ops.constant(np.array([int(seed) >> 32, int(seed) & WORD], dtype=np.uint32))


def split(key: Any, num: int | Sequence[int] = 2) -> Any:
    """`num` new keys, u32[num, 2], or a shape of them; a batch of keys u32[…, 2] gives u32[…, num, 2]."""
    shape = sizes("split", num)
    return both_words(used(key, "split"), shape)


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and a number below 2³², or from an integer tensor: one key per entry, modulo 2³²."""
    key = checked(key, "fold_in")
    number = isinstance(data, int | np.integer)
    fits = not isinstance(data, bool) and 0 <= int(data) <= WORD if number else type_of(data).dtype.is_integer
    if not fits:
        raise ConfigError(
            message(
                f"{data!r} cannot be folded into a key" if number else f"{type_of(data)} cannot be folded into a key",
                expected="an integer in [0, 2**32), or a tensor of integers",
                got=repr(data) if number else str(type_of(data)),
                fix="fold in its high and low words one after the other" if number else "convert it to integers",
                where=str(caller_location()),
            )
        )
    low = tensor(np.uint32(data) if number else data)
    low = ops.reshape(ops.convert(low, "u32"), (*low.type.shape, 1))
    counter = ops.concatenate([ops.full(low.type.shape, 0, "u32"), low], axis=-1)
    shape = np.broadcast_shapes(key.type.shape, counter.type.shape)
    return ops.threefry2x32(ops.broadcast_to(key, shape), ops.broadcast_to(counter, shape))


def used(key: Any, name: str) -> Any:
    """A key, or a batch of keys, that the named draw uses up."""
    key = checked(key, name)
    note(key, name)
    return key


def halves(key: Any, num: int = 2) -> Any:
    """`split`, of a key that was already noted as used."""
    return both_words(key, (num,))


def two(key: Any) -> tuple[Any, Any]:
    """A used key as two keys."""
    keys = halves(key)
    return keys[..., 0, :], keys[..., 1, :]


def checked(key: Any, name: str) -> Any:
    """A key, or a batch of keys; TypeRuleError for anything else."""
    if not isinstance(key, Operators | np.ndarray | np.generic | bool | int | float | complex):
        raise _no_key(name, f"a {key.__class__.__name__}")
    type = type_of(key)
    if type.dtype is not DType.U32 or type.shape[-1:] != (2,):
        raise _no_key(name, str(type))
    return tensor(key)


def _no_key(name: str, got: str) -> TypeRuleError:
    return TypeRuleError(
        message(
            f"random.{name}: {got} is not a key",
            expected="u32[2], or a batch u32[…, 2]",
            got=got,
            fix="make one with torchlean.random.key(seed)",
            where=str(caller_location()),
        )
    )


def both_words(key: Any, shape: tuple[int, ...]) -> Any:
    """Both threefry words of each row-major index: u32[…, shape, 2]."""
    lead = key.type.shape[:-1]
    counts = ops.reshape(ops.iota((prod(shape),), 0, "u32"), (*shape, 1))
    counter = ops.concatenate([ops.full((*shape, 1), 0, "u32"), counts], axis=-1)
    whole = (*lead, *shape, 2)
    spread = ops.broadcast(key, whole, (*range(len(lead)), len(whole) - 1))
    return ops.threefry2x32(spread, ops.broadcast_to(counter, whole))
