"""Python's operators and a few array methods, shared by traced values and eager arrays.

Their meaning is `torchlean.ir.ops`, which lies above this file; Python's syntax forces the one upward look, and it is
made by name at call time.
"""

from __future__ import annotations

import sys
from typing import Any

from torchlean.ir.types import TensorType


def _ops() -> Any:
    return sys.modules["torchlean.ir.ops"]


class Operators:
    """Mixin for operands: subclasses have `type` and answer through `torchlean.ir.ops`."""

    __slots__ = ()

    type: TensorType
    __array_ufunc__ = None  # NumPy must hand `ndarray + value` to us instead of looping over it
    __hash__ = object.__hash__

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.type.shape)

    @property
    def size(self) -> int:
        return self.type.size

    @property
    def T(self) -> Any:  # noqa: N802  (the name the field uses)
        return _ops().transpose(self)

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError(f"len() of a scalar {self.type}")
        return self.type.shape[0]

    def __add__(self, other: Any) -> Any:
        return _ops().add(self, other)

    def __radd__(self, other: Any) -> Any:
        return _ops().add(other, self)

    def __sub__(self, other: Any) -> Any:
        return _ops().sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return _ops().sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return _ops().mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return _ops().mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return _ops().div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _ops().div(other, self)

    def __pow__(self, other: Any) -> Any:
        return _ops().power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _ops().power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return _ops().matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _ops().matmul(other, self)

    def __neg__(self) -> Any:
        return _ops().neg(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return _ops().abs(self)

    def __invert__(self) -> Any:
        return _ops().logical_not(self)

    def __and__(self, other: Any) -> Any:
        return _ops().logical_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return _ops().logical_and(other, self)

    def __or__(self, other: Any) -> Any:
        return _ops().logical_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return _ops().logical_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return _ops().logical_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return _ops().logical_xor(other, self)

    def __lt__(self, other: Any) -> Any:
        return _ops().lt(self, other)

    def __le__(self, other: Any) -> Any:
        return _ops().le(self, other)

    def __gt__(self, other: Any) -> Any:
        return _ops().gt(self, other)

    def __ge__(self, other: Any) -> Any:
        return _ops().ge(self, other)

    def __eq__(self, other: object) -> Any:
        return _ops().eq(self, other)

    def __ne__(self, other: object) -> Any:
        return _ops().ne(self, other)

    def __getitem__(self, index: Any) -> Any:
        return _ops().getitem(self, index)

    def reshape(self, *shape: Any) -> Any:
        return _ops().reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def transpose(self, *axes: Any) -> Any:
        if not axes:
            return _ops().transpose(self)
        return _ops().transpose(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def astype(self, dtype: Any) -> Any:
        return _ops().convert(self, dtype)

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return _ops().sum(self, axis, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return _ops().mean(self, axis, keepdims=keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return _ops().amax(self, axis, keepdims=keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return _ops().amin(self, axis, keepdims=keepdims)

    def argmax(self, axis: int = -1) -> Any:
        return _ops().argmax(self, axis)
