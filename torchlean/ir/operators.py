"""Python's operators and a few array methods, shared by traced values and eager arrays.

Their meaning is `torchlean.ir.ops`, which lies above this file; Python's syntax forces the one upward look, and it is
made by name at call time.
"""

from __future__ import annotations

import importlib
import sys
from types import MappingProxyType
from typing import Any

from torchlean.errors import TypeRuleError, message
from torchlean.ir.location import caller_location
from torchlean.ir.types import TensorType

_OPS = "torchlean.ir.ops"


def home_of(name: str) -> str:
    """Where a function of NumPy's name is to be found here."""
    return f"ops.{name}" if hasattr(sys.modules[_OPS], name) else f"torchlean.numpy.{name}"


# NumPy's name of a binary operator → what Python calls on the right operand. Comparisons turn around.
_REFLECTED = MappingProxyType(
    {
        "add": "__radd__",
        "subtract": "__rsub__",
        "multiply": "__rmul__",
        "divide": "__rtruediv__",
        "true_divide": "__rtruediv__",
        "floor_divide": "__rfloordiv__",
        "remainder": "__rmod__",
        "divmod": "__rdivmod__",
        "power": "__rpow__",
        "matmul": "__rmatmul__",
        "bitwise_and": "__rand__",
        "bitwise_or": "__ror__",
        "bitwise_xor": "__rxor__",
        "left_shift": "__rlshift__",
        "right_shift": "__rrshift__",
        "less": "__gt__",
        "less_equal": "__ge__",
        "greater": "__lt__",
        "greater_equal": "__le__",
        "equal": "__eq__",
        "not_equal": "__ne__",
    }
)


class Operators:
    """Mixin for operands: subclasses have `type` and answer through `torchlean.ir.ops`."""

    __slots__ = ()

    type: TensorType
    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        """What NumPy asks for `ndarray + value`: the reflected operator. Its other functions are refused by name."""
        reflected = _REFLECTED.get(ufunc.__name__) if len(inputs) == 2 and inputs[1] is self else None
        if reflected is not None and method == "__call__" and not keywords:
            return getattr(self, reflected)(inputs[0])
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        fix = f"write {home_of(name)}(…)" if method == "__call__" else "use a function of ops or torchlean.numpy"
        raise TypeRuleError(
            message(
                f"numpy.{name} of {self.type}: NumPy's functions know only NumPy's arrays",
                expected="numpy.ndarray",
                got=", ".join([type(entry).__name__ for entry in (*inputs, *keywords.get("out", ()))]),
                fix=fix if "out" not in keywords else "write x = x + y: nothing is changed in place",
                where=str(caller_location()),
            )
        )

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
        return sys.modules[_OPS].transpose(self)

    @property
    def mT(self) -> Any:  # noqa: N802  (the standard's name)
        axes = range(self.ndim)
        return sys.modules[_OPS].transpose(self, (*axes[:-2], *axes[-2:][::-1]))

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeRuleError(
                message(
                    f"len() of the scalar {self.type}",
                    expected="at least one axis",
                    got="none",
                    fix="use x.size, the number of entries",
                    where=str(caller_location()),
                )
            )
        return self.type.shape[0]

    def __add__(self, other: Any) -> Any:
        return sys.modules[_OPS].add(self, other)

    def __radd__(self, other: Any) -> Any:
        return sys.modules[_OPS].add(other, self)

    def __sub__(self, other: Any) -> Any:
        return sys.modules[_OPS].sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return sys.modules[_OPS].sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return sys.modules[_OPS].mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return sys.modules[_OPS].mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return sys.modules[_OPS].div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return sys.modules[_OPS].div(other, self)

    def __floordiv__(self, other: Any) -> Any:
        return sys.modules[_OPS].floor_quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return sys.modules[_OPS].floor_quotient(other, self)

    def __mod__(self, other: Any) -> Any:
        return sys.modules[_OPS].remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        return sys.modules[_OPS].remainder(other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        return sys.modules[_OPS].raised(self, other)

    def __rpow__(self, other: Any) -> Any:
        return sys.modules[_OPS].raised(other, self)

    def __matmul__(self, other: Any) -> Any:
        return sys.modules[_OPS].matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return sys.modules[_OPS].matmul(other, self)

    def __neg__(self) -> Any:
        return sys.modules[_OPS].negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return sys.modules[_OPS].absolute(self)

    def __invert__(self) -> Any:
        return sys.modules[_OPS].bitwise_not(self)

    def __lshift__(self, other: Any) -> Any:
        return sys.modules[_OPS].shift_left(self, other)

    def __rlshift__(self, other: Any) -> Any:
        return sys.modules[_OPS].shift_left(other, self)

    def __rshift__(self, other: Any) -> Any:
        return sys.modules[_OPS].shift_right(self, other)

    def __rrshift__(self, other: Any) -> Any:
        return sys.modules[_OPS].shift_right(other, self)

    def __and__(self, other: Any) -> Any:
        return sys.modules[_OPS].bitwise_and(self, other)

    def __rand__(self, other: Any) -> Any:
        return sys.modules[_OPS].bitwise_and(other, self)

    def __or__(self, other: Any) -> Any:
        return sys.modules[_OPS].bitwise_or(self, other)

    def __ror__(self, other: Any) -> Any:
        return sys.modules[_OPS].bitwise_or(other, self)

    def __xor__(self, other: Any) -> Any:
        return sys.modules[_OPS].bitwise_xor(self, other)

    def __rxor__(self, other: Any) -> Any:
        return sys.modules[_OPS].bitwise_xor(other, self)

    def __lt__(self, other: Any) -> Any:
        return sys.modules[_OPS].lt(self, other)

    def __le__(self, other: Any) -> Any:
        return sys.modules[_OPS].le(self, other)

    def __gt__(self, other: Any) -> Any:
        return sys.modules[_OPS].gt(self, other)

    def __ge__(self, other: Any) -> Any:
        return sys.modules[_OPS].ge(self, other)

    def __eq__(self, other: object) -> Any:
        return sys.modules[_OPS].eq(self, other)

    def __ne__(self, other: object) -> Any:
        return sys.modules[_OPS].ne(self, other)

    def __getitem__(self, index: Any) -> Any:
        return sys.modules[_OPS].getitem(self, index)

    @property
    def at(self) -> Any:
        """`x.at[key].set(values)` and its like: a new tensor with entries written."""
        return sys.modules[_OPS].at(self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """`torchlean.numpy`, for the version of the Array API standard it implements or an older one."""
        namespace = importlib.import_module("torchlean.numpy")
        if api_version not in (None, "2021.12", "2022.12", "2023.12", namespace.__array_api_version__):
            raise ValueError(
                message(
                    f"the Array API standard {api_version!r} is not implemented",
                    expected=f"{namespace.__array_api_version__!r}, or an older version",
                    got=repr(api_version),
                    fix="leave api_version out",
                    where=str(caller_location()),
                )
            )
        return namespace

    def reshape(self, *shape: Any) -> Any:
        return sys.modules[_OPS].reshape(self, shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)

    def transpose(self, *axes: Any) -> Any:
        if not axes:
            return sys.modules[_OPS].transpose(self)
        return sys.modules[_OPS].transpose(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)

    def astype(self, dtype: Any) -> Any:
        return sys.modules[_OPS].convert(self, dtype)

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return sys.modules[_OPS].sum(self, axis, keepdims=keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return sys.modules[_OPS].mean(self, axis, keepdims=keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return sys.modules[_OPS].amax(self, axis, keepdims=keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return sys.modules[_OPS].amin(self, axis, keepdims=keepdims)

    def argmax(self, axis: int = -1) -> Any:
        return sys.modules[_OPS].argmax(self, axis)
