"""Random picks: orders, entries, and categories."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.errors import TypeRuleError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.ops.promote import tensor
from torchlean.random.arguments import axis_of, is_count, require, sizes, whole
from torchlean.random.distributions import gumbel_of
from torchlean.random.draws import integers_of, uniform_of, words_of
from torchlean.random.keys import checked, two, used


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """The integers below `x` in random order (int32), or the slices of a tensor along `axis`. JAX's orders.

    Sorted by random words, as often as makes ties unlikely to matter.
    """
    _require_one(key, "permutation")
    if is_count(x):
        count = whole("permutation", "the number of integers", x)
        return order_of(used(key, "permutation"), count)
    x = tensor(x)
    if not x.type.shape:
        raise _unfit("permutation", f"the scalar {x.type}", "an integer, or a tensor with an axis")
    axis = axis_of("permutation", x, axis)
    return ops.take(x, order_of(used(key, "permutation"), x.type.shape[axis]), axis)


def shuffle(key: Any, x: Any, axis: int = 0) -> Any:
    """`permutation` of a tensor."""
    return permutation(key, x, axis)


def _require_one(key: Any, name: str) -> None:
    if type_of(checked(key, name)).shape != (2,):
        raise _unfit(name, f"keys {type_of(key)}", "one key; use vmap for many")


def order_of(key: Any, count: int) -> Any:
    """The integers below `count` in random order."""
    order = ops.iota((count,), 0)
    rounds = math.ceil(3 * math.log(max(1, count)) / math.log(2**32 - 1))
    for _ in range(rounds):
        key, words = two(key)
        order = ops.take(order, ops.argsort(words_of(words, (count,), DType.U32), axis=0))
    return order


def choice(key: Any, a: Any, shape: Sequence[int] = (), replace: bool = True, p: Any = None, axis: int = 0) -> Any:
    """Entries along an axis of a tensor, or integers below `a`: with equal probability, or with probabilities `p`.

    Without replacement none occurs twice. Not JAX's values where entries are drawn with replacement. ConfigError for
    known `p` with an entry below 0, or with fewer entries above 0 than are drawn without replacement.
    """
    if not replace:
        _require_one(key, "choice")
    if not is_count(a):
        a = tensor(a)
        if not a.type.shape:
            raise _unfit("choice", f"the scalar {a.type}", "an integer, or a tensor with an axis")
        axis = axis_of("choice", a, axis)
    count = whole("choice", "the number of integers", a) if is_count(a) else a.type.shape[axis]
    size = sizes("choice", shape)
    wanted = math.prod(size)
    if (not count and wanted) or (not replace and wanted > count):
        raise _unfit("choice", f"{wanted} of {count} entries", "as many entries as are drawn, or replace=True")
    if p is not None:
        p = _weights(p, count, wanted, replace)
    key = used(key, "choice")
    if replace:
        picked = integers_of(key, size, 0, count, DType.I32) if p is None else _weighted(key, p, size)
    elif p is None:
        picked = ops.reshape(order_of(key, count)[:wanted], size)
    else:
        keys = ops.add(gumbel_of(key, (count,), DType.F32), ops.log(p))
        picked = ops.reshape(ops.argsort(ops.neg(keys), axis=0)[:wanted], size)
    return picked if is_count(a) else ops.take(a, picked, axis)


def _weights(p: Any, count: int, wanted: int, replace: bool) -> Any:
    """Probabilities, one for each of `count` entries, as f32."""
    given = tensor(p)
    if given.type.shape != (count,) or given.type.dtype.is_complex:
        raise _unfit("choice", f"probabilities {given.type}", f"a vector of {count} real numbers")
    require("choice", "p", p, lambda x: (x >= 0) & (x < math.inf), "a probability, of at least 0")
    if isinstance(p, np.ndarray | list | tuple):
        positive = int(np.count_nonzero(np.asarray(p)))
        if positive < (min(1, wanted) if replace else wanted):
            raise _unfit(
                "choice", f"{positive} entries of positive probability", f"at least {1 if replace else wanted}"
            )
    return ops.convert(given, DType.F32)


def _weighted(key: Any, p: Any, shape: tuple[int, ...]) -> Any:
    """Positions drawn with probabilities `p`: how many sums of them lie at or below a uniform draw."""
    sums = ops.cumsum(p, 0)
    draws = ops.mul(uniform_of(key, shape, DType.F32), sums[-1])
    below = ops.le(sums, ops.expand_dims(draws, len(shape)))
    return ops.min(ops.sum(ops.convert(below, DType.I32), -1), p.type.shape[0] - 1)


def categorical(key: Any, logits: Any, axis: int = -1, shape: Sequence[int] | None = None) -> Any:
    """Positions (int32) along `axis` with probability proportional to exp(logit): the largest logit + Gumbel draw.

    `shape` is the result's and ends in that of `logits` without the axis. Logits of 16 bits are compared in f32.
    """
    logits = tensor(logits)
    if not logits.type.dtype.is_float or not logits.type.shape:
        raise _unfit("categorical", str(logits.type), "a tensor of floats with an axis")
    at = axis_of("categorical", logits, axis)
    rest = (*logits.type.shape[:at], *logits.type.shape[at + 1 :])
    size = rest if shape is None else sizes("categorical", shape)
    lead = size[: len(size) - len(rest)]
    if size[len(lead) :] != rest:
        raise _unfit("categorical", f"shape {list(size)}", f"a shape that ends in {list(rest)}")
    dtype = DType.F64 if logits.type.dtype is DType.F64 else DType.F32
    draws = gumbel_of(used(key, "categorical"), (*lead, *logits.type.shape), dtype)
    return ops.argmax(ops.add(draws, ops.convert(logits, dtype)), at + len(lead))


def _unfit(name: str, got: str, expected: str) -> TypeRuleError:
    return TypeRuleError(
        message(
            f"random.{name} does not draw from {got}",
            expected=expected,
            got=got,
            fix="check the argument",
            where=str(caller_location()),
        )
    )
