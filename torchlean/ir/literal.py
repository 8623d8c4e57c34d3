"""Constant arrays inside a graph: the params of the `constant` op, and the op itself.

The record lives below the builder (not in `ops/create.py`, which re-exports it) because lifting a NumPy operand into a
trace makes one.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from torchlean.ir.op import Op
from torchlean.ir.rules import NoTangent, Pointwise
from torchlean.ir.types import TensorType, type_of_array

_HASHED_BYTES = 256


class Literal:
    """An immutable array with a type. Equal when type and bits are equal (so NaN equals itself and 0.0 is not -0.0)."""

    __slots__ = ("_hash", "array", "type")

    array: np.ndarray[Any, Any]
    type: TensorType

    def __init__(self, array: Any) -> None:
        own = np.array(array, copy=True, order="C")
        if own.dtype.byteorder == ">":
            own = own.astype(own.dtype.newbyteorder("="))
        own.flags.writeable = False
        set_field = object.__setattr__
        set_field(self, "array", own)
        set_field(self, "type", type_of_array(own))
        set_field(self, "_hash", hash((self.type, own.reshape(-1)[:_HASHED_BYTES].tobytes())))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Literal cannot be changed ({name!r})")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Literal) or self._hash != other._hash or self.type != other.type:
            return False
        return self.array.tobytes() == other.array.tobytes()

    def __repr__(self) -> str:
        return f"Literal({self.type})"


def _constant_type(params: Literal) -> tuple[TensorType, ...]:
    return (params.type,)


def _constant_value(algebra: Any, params: Literal) -> tuple[Any, ...]:
    return (algebra.constant(params.array),)


CONSTANT = Op(
    name="constant",
    params=Literal,
    type_rule=_constant_type,
    denote=_constant_value,
    diff=NoTangent("a constant depends on nothing"),
    batch=Pointwise(),
    reduces=False,
    doc="An array known when the graph was made.",
)
