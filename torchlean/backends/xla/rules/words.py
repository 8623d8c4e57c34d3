"""Bits: logic on integers, shifts, counting, reinterpretation, fewer bits, and random words."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlean.backends.xla.rules.elementwise import Made, Rule, constant, of_operands, zero_of
from torchlean.ir.op import Op
from torchlean.ir.ops import bits, random, words
from torchlean.ir.ops.random import Algorithm


# -- shifts: XLA leaves open what happens beyond the width -------------------------------------------------------------
def _shifted(move: Callable[..., Any], beyond: Callable[..., Any]) -> Callable[..., Any]:
    def of(x: Any, places: Any) -> Any:
        width = constant(places, 8 * x.dtype.itemsize)
        outside = lax.ge(places, width)
        if places.dtype.kind == "i":
            outside = lax.bitwise_or(outside, lax.lt(places, zero_of(places)))
        return lax.select(outside, beyond(x), move(x, lax.select(outside, zero_of(places), places)))

    return of


def _sign_bits(x: Any) -> Any:
    return _arithmetic(x, constant(x, 8 * x.dtype.itemsize - 1))


def _arithmetic(x: Any, places: Any) -> Any:
    signed = np.dtype(f"i{x.dtype.itemsize}")
    moved = lax.shift_right_arithmetic(lax.bitcast_convert_type(x, signed), lax.bitcast_convert_type(places, signed))
    return lax.bitcast_convert_type(moved, x.dtype)


def _shift_right(params: Any, made: Made, x: Any) -> Any:
    if params.places == 8 * x.dtype.itemsize:
        return zero_of(x)
    return lax.shift_right_logical(x, constant(x, params.places))


# -- random words ------------------------------------------------------------------------------------------------------
def _halves(words: Any) -> tuple[Any, Any]:
    high = lax.shift_right_logical(words, constant(words, 32))
    return high.astype(np.uint32), words.astype(np.uint32)


def _random_bits(params: Any, made: Made, key: Any) -> Any:
    """The definition's own rounds, on every index at once."""
    index = lax.iota(np.uint64, prod(params.shape))
    if params.algorithm is Algorithm.THREEFRY2X32:
        first, second = random.threefry2x32(key[..., 0, None], key[..., 1, None], *_halves(index))
        return (first ^ second).reshape(made[0].shape)
    return random.splitmix64(key[..., None] + index).astype(np.uint32).reshape(made[0].shape)


def _threefry(key: Any, counter: Any) -> Any:
    return jnp.stack(random.threefry2x32(key[..., 0], key[..., 1], counter[..., 0], counter[..., 1]), axis=-1)


def table() -> dict[Op, Rule]:
    """The rules of this file."""
    one = of_operands
    return {
        words.AND: one(lax.bitwise_and),
        words.OR: one(lax.bitwise_or),
        words.XOR: one(lax.bitwise_xor),
        words.NOT: one(lax.bitwise_not),
        words.SHIFT_LEFT: one(_shifted(lax.shift_left, zero_of)),
        words.SHIFT_RIGHT_LOGICAL: one(_shifted(lax.shift_right_logical, zero_of)),
        words.SHIFT_RIGHT_ARITHMETIC: one(_shifted(_arithmetic, _sign_bits)),
        words.POPULATION_COUNT: one(lax.population_count),
        words.CLZ: one(lax.clz),
        words.BITCAST_CONVERT: lambda params, made, x: lax.bitcast_convert_type(x, params.dtype.carrier),
        words.REDUCE_PRECISION: lambda params, made, x: lax.reduce_precision(x, params.exponent, params.mantissa),
        bits.SHIFT_RIGHT: _shift_right,
        bits.THREEFRY2X32: one(_threefry),
        bits.SPLITMIX64: one(random.splitmix64),
        random.RANDOM_BITS: _random_bits,
    }
