"""Integer ops on whole words that keys are made with: a shift, and the two mixing functions.

They are exact and have no derivative. Drawing many words from a key is `random_bits` in `random.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import NO_PARAMS, NoParams, Op, TypeFault
from torchlean.ir.ops import random
from torchlean.ir.ops.families import equal_operands, kind_fault
from torchlean.ir.rules import NoTangent, Pointwise
from torchlean.ir.types import TensorType
from torchlean.record import record

_UNSIGNED = frozenset({Kind.UNSIGNED})


@record
class Places:
    """`places`: by how many bits to shift; from 0 to the width."""

    places: int


def _shift_type(params: Places, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype.kind not in _UNSIGNED:
        raise kind_fault(x.dtype, _UNSIGNED)
    if not 0 <= params.places <= x.dtype.width:
        raise TypeFault(
            f"cannot shift by {params.places} places",
            expected=f"a number of places in [0, {x.dtype.width}]",
            got=str(params.places),
            fix="shift within the width of the dtype",
        )
    return (x,)


def _shifted(x: Any, places: int) -> Any:
    x = np.asarray(x)
    return np.zeros_like(x) if places == x.dtype.itemsize * 8 else np.right_shift(x, x.dtype.type(places))


SHIFT_RIGHT = Op(
    name="shift_right",
    params=Places,
    type_rule=_shift_type,
    denote=lambda algebra, params, x: (algebra.exact(lambda v: _shifted(v, params.places), x),),
    diff=NoTangent("bits have no tangent"),
    batch=Pointwise(),
    reduces=False,
    doc="⌊x / 2^places⌋ of unsigned integers.",
)


def _pair_type(params: NoParams, key: TensorType, counter: TensorType) -> tuple[TensorType, ...]:
    equal_operands(key, counter)
    if key.dtype is not DType.U32 or key.shape[-1:] != (2,):
        raise TypeFault(
            "not pairs of words",
            expected="u32[…, 2], a key and a counter",
            got=f"{key}, {counter}",
            fix="make the key with torchlean.random.key(seed)",
        )
    return (key,)


def _threefry_value(key: Any, counter: Any) -> Any:
    words = [np.atleast_1d(part) for part in (key[..., 0], key[..., 1], counter[..., 0], counter[..., 1])]
    return np.stack(random.threefry2x32(*words), axis=-1).reshape(np.shape(key))


THREEFRY2X32 = Op(
    name="threefry2x32",
    params=NoParams,
    type_rule=_pair_type,
    denote=lambda algebra, params, key, counter: (algebra.exact(_threefry_value, key, counter),),
    diff=NoTangent("random bits are integers"),
    batch=Pointwise(),
    reduces=False,
    doc="Both output words of Threefry-2x32-20 for each (key, counter) pair [Salmon et al. 2011].",
)


def _word_type(params: NoParams, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype is not DType.U64:
        raise TypeFault(
            "not a 64-bit word", expected="u64[…]", got=str(x), fix="convert the operand (ops.convert(x, 'u64'))"
        )
    return (x,)


SPLITMIX64 = Op(
    name="splitmix64",
    params=NoParams,
    type_rule=_word_type,
    denote=lambda algebra, params, x: (
        algebra.exact(lambda v: random.splitmix64(np.atleast_1d(v)).reshape(np.shape(v)), x),
    ),
    diff=NoTangent("random bits are integers"),
    batch=Pointwise(),
    reduces=False,
    doc="All 64 bits of splitmix64(x) [Steele et al. 2014]; x + golden ratio wraps modulo 2⁶⁴.",
)


def shift_right(x: Any, places: int) -> Any:
    """⌊x / 2^places⌋ of unsigned integers; `places` a Python integer up to the width."""
    return bind1(SHIFT_RIGHT, Places(int(places)), x)


def threefry2x32(key: Any, counter: Any) -> Any:
    """The two words of each pair: u32[…, 2] × u32[…, 2] → u32[…, 2]."""
    return bind1(THREEFRY2X32, NO_PARAMS, key, counter)


def splitmix64(x: Any) -> Any:
    """splitmix64 of each entry, u64[…]."""
    return bind1(SPLITMIX64, NO_PARAMS, x)


OPS = (SHIFT_RIGHT, THREEFRY2X32, SPLITMIX64)
