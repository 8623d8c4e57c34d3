"""Eager arrays: a type, a buffer and the session that made it. Immutable; operators go to whatever answers ops now.

Reading is free: NumPy and DLPack consumers get read-only views of the same memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from torchlean.errors import TypeRuleError, message
from torchlean.ir.builder import Builder, Value, answerer, bind1
from torchlean.ir.literal import CONSTANT, Literal
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.ops.elementwise import convert
from torchlean.ir.types import TensorType
from torchlean.runtime.buffer import Buffer, exported
from torchlean.runtime.host import as_host

if TYPE_CHECKING:
    from torchlean.runtime.session import Session

_SHOWN = 10


class Array(Operators):
    """A concrete tensor. `node` and `generation` name its place on the session's tape; node is -1 for none."""

    __slots__ = ("__weakref__", "buffer", "generation", "node", "session", "type")

    def __init__(self, type: TensorType, buffer: Buffer, session: Session, node: int = -1, generation: int = 0) -> None:
        self.type = type
        self.buffer = buffer
        self.session = session
        self.node = node
        self.generation = generation

    # -- reading -----------------------------------------------------------------------------------------------------
    @property
    def device(self) -> str:
        return str(self.session.profile.device)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
        """The array itself: there is one device. TypeRuleError for another."""
        if str(device) != self.device or stream is not None:
            raise TypeRuleError(
                message(
                    f"{self.type} cannot be moved to {device!r}",
                    expected=f"{self.device!r}, without a stream",
                    got=repr(device) if stream is None else f"stream {stream!r}",
                    fix="lower the program for a profile of that device",
                    where=str(caller_location()),
                )
            )
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        """A read-only NumPy view of the same memory; `numpy.array(x)` makes a writable copy."""
        return self.buffer.export()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return exported(self.buffer.export(), dtype, copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule over the same memory, flagged read-only; for consumers too old to know that flag, over a copy."""
        view = self.buffer.export()
        if copy or max_version is None or max_version[0] < 1:
            if copy is False:
                raise BufferError("an immutable array cannot be lent without a copy to a consumer of DLPack before 1.0")
            return view.copy().__dlpack__()
        return view.__dlpack__(max_version=max_version, dl_device=dl_device)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # kDLCPU

    def item(self) -> Any:
        """The single entry as a Python number."""
        return self._single("item()").item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return self.buffer.array.tolist()

    def __float__(self) -> float:
        return float(self._single("float()"))

    def __int__(self) -> int:
        return int(self._single("int()"))

    def __bool__(self) -> bool:
        return bool(self._single("bool()"))

    def __complex__(self) -> complex:
        return complex(self._single("complex()"))

    def __index__(self) -> int:
        if self.type.shape or not self.type.dtype.is_integer:
            raise TypeRuleError(
                message(
                    f"use of {self.type} as a Python index",
                    expected="an integer scalar",
                    got=str(self.type),
                    fix="index with int(x), or with ops.take for many integers",
                    where=str(caller_location()),
                )
            )
        return int(self.buffer.array)

    def _single(self, action: str) -> np.ndarray[Any, Any]:
        array = self.buffer.array
        if array.size != 1:
            raise TypeRuleError(
                message(
                    f"{action} of {self.type}",
                    expected="an array of one entry",
                    got=f"{array.size} entries",
                    fix="reduce it first (x.sum(), x.max()), index one entry, or use x.tolist()",
                    where=str(caller_location()),
                )
            )
        return array.reshape(())

    def __iter__(self) -> Iterator[Any]:
        if not self.type.shape:
            raise TypeRuleError(
                message(
                    f"iteration over the scalar {self.type}",
                    expected="at least one axis",
                    got="none",
                    fix="read it with x.item()",
                    where=str(caller_location()),
                )
            )
        return (self[position] for position in range(self.type.shape[0]))

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeRuleError(
            message(
                f"item assignment to {self.type}: arrays are immutable",
                expected="a new array",
                got=f"x[{index!r}] = …"[:60],
                fix="write x = x.at[index].set(value)",
                where=str(caller_location()),
            )
        )

    # -- Python's protocols ------------------------------------------------------------------------------------------
    def __repr__(self) -> str:
        if self.buffer.is_released:
            return f"Array(released, {self.type})"
        shown = np.array2string(self.buffer.array, separator=", ", threshold=_SHOWN, edgeitems=3, prefix="Array(")
        return f"Array({shown}, {self.type})"

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return array, (np.array(self.buffer.array),)  # the value only: its session and tape stay behind


def array(data: Any, dtype: Any = None) -> Any:
    """An array of `data`: numbers, nested lists, NumPy arrays, or an array. Inside a trace, a constant.

    Python floats become float32 and ints int32; NumPy data keeps its dtype; `dtype` converts, but refuses to drop
    fractions or to wrap integers. Always a copy.
    """
    if isinstance(data, Value):
        return data if dtype is None else convert(data, dtype)
    host = as_host(data, dtype)
    current = answerer()
    if isinstance(current, Builder):
        return bind1(CONSTANT, Literal(host))
    return cast("Session", current).hold(host)
