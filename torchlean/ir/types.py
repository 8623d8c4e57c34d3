"""Tensor types and the arithmetic of shapes.

Shapes are static tuples of non-negative ints. A type prints as `f32[32,4]`.
"""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from torchlean.ir.dtypes import DType, dtype_of_carrier

Shape = tuple[int, ...]


class TensorType:
    """The type of a value: its shape and dtype. Immutable, hashable, compared by content."""

    __slots__ = ("_hash", "dtype", "shape")

    shape: Shape
    dtype: DType

    def __init__(self, shape: Shape, dtype: DType) -> None:
        set_field = object.__setattr__
        set_field(self, "shape", shape)
        set_field(self, "dtype", dtype)
        set_field(self, "_hash", hash((shape, dtype)))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a TensorType cannot be changed; make a new one instead of setting {name!r}")

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return other.__class__ is TensorType and self.dtype is other.dtype and self.shape == other.shape  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]"

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorType, (self.shape, self.dtype)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a dense buffer of this type."""
        return prod(self.shape) * self.dtype.carrier.itemsize

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(shape, self.dtype)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(self.shape, dtype)


def type_of_array(array: np.ndarray[Any, Any]) -> TensorType:
    """The type of a NumPy array; nothing is narrowed."""
    return TensorType(array.shape, dtype_of_carrier(array.dtype))


def show_types(types: tuple[TensorType, ...]) -> str:
    """`f32[2,3], f32[3]`: how every message lists operand types."""
    return ", ".join(map(str, types))


def broadcast_shapes(*shapes: Shape) -> Shape | None:
    """The NumPy broadcast of the shapes, or None when two sizes disagree and neither is 1."""
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        offset = rank - len(shape)
        for axis, size in enumerate(shape):
            have = result[offset + axis]
            if have == 1:
                result[offset + axis] = size
            elif size not in (1, have):
                return None
    return tuple(result)


def drop_axes(shape: Shape, axes: tuple[int, ...]) -> Shape:
    """The shape without the named axes."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)
