"""Eager arrays: a type, memory and the session that made it. Immutable; operators go to whatever answers ops now.

Reading is free: NumPy and DLPack consumers get read-only views of the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np

from torchlean.errors import TypeRuleError, message
from torchlean.ir.builder import CURRENT, Builder, Value, answerer, bind1
from torchlean.ir.literal import CONSTANT, Literal
from torchlean.ir.location import caller_location
from torchlean.ir.op import Op
from torchlean.ir.operators import Operators
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.types import TensorType
from torchlean.runtime.buffer import Buffer, Storage, exported, lent
from torchlean.runtime.host import as_host

if TYPE_CHECKING:
    from torchlean.runtime.session import Session

_SHOWN = 10
_current = CURRENT.get


def _of_pairs(op: Op, general: Callable[..., Any]) -> Any:
    """An operator which, between plain arrays of one type and of the session that answers, asks it at once."""

    def operator(self: Array, other: Any) -> Any:
        session = self.session
        if other.__class__ is Array and other.type is self.type and _current() is session:
            return session.bind_pair(op, self, other)
        return general(self, other)

    operator.__name__, operator.__qualname__ = general.__name__, general.__qualname__
    return operator


class Array(Operators):
    """A concrete tensor. `node` and `generation` name its place on the session's tape; node is -1 for none.

    Sessions make them, with `Array.of` and `Array.over`. `held` is the memory itself, counted by `storage`; or a buffer
    that several arrays may share and that counts it, where one was asked for: most results are gone before.
    """

    __slots__ = ("__weakref__", "generation", "held", "node", "session", "storage", "type")

    type: TensorType
    held: np.ndarray[Any, Any] | Buffer
    storage: Storage | None
    session: Session
    node: int
    generation: int

    # No __init__: where results are made by the dozen, a call of it takes longer than all of its assignments.
    @staticmethod
    def of(type: TensorType, host: np.ndarray[Any, Any], storage: Storage, session: Session) -> Array:
        """An array over memory nobody else writes to."""
        made = Array()
        made.type = type
        made.held = host
        made.storage = storage
        made.session = session
        made.node = -1
        made.generation = 0
        return made

    @staticmethod
    def over(type: TensorType, buffer: Buffer, session: Session) -> Array:
        """An array over a buffer, whose release is that of all arrays over it."""
        made = Array()
        made.type = type
        made.held = buffer
        made.storage = None
        made.session = session
        made.node = -1
        made.generation = 0
        return made

    # -- memory ------------------------------------------------------------------------------------------------------
    @property
    def host(self) -> np.ndarray[Any, Any]:
        """The memory, for kernels only; HandleError after its release."""
        held = self.held
        return held.array if isinstance(held, Buffer) else held

    @property
    def buffer(self) -> Buffer:
        """The handle to the memory, to release it or to share it."""
        held = self.held
        if held.__class__ is not Buffer:
            storage = self.storage
            if storage is not None:  # it is when another thread has just made the buffer
                with storage.allocator.lock:
                    if self.held.__class__ is not Buffer:
                        self.held = Buffer(cast("np.ndarray[Any, Any]", held), storage)
                        self.storage = None
        return cast("Buffer", self.held)

    def counted(self) -> tuple[np.ndarray[Any, Any], Storage]:
        """The memory and what counts it."""
        held, storage = self.held, self.storage
        if storage is None or isinstance(held, Buffer):
            buffer = self.buffer
            return buffer.array, buffer.storage
        return held, storage

    # -- operators that are called often -----------------------------------------------------------------------------
    __add__ = _of_pairs(ew.ADD, Operators.__add__)
    __sub__ = _of_pairs(ew.SUB, Operators.__sub__)
    __mul__ = _of_pairs(ew.MUL, Operators.__mul__)
    __truediv__ = _of_pairs(ew.DIV, Operators.__truediv__)

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
        return lent(self.host)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return exported(lent(self.host), dtype, copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule over the same memory, flagged read-only; for consumers too old to know that flag, over a copy."""
        view = lent(self.host)
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
        return self.host.tolist()

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
        return int(self.host)

    def _single(self, action: str) -> np.ndarray[Any, Any]:
        array = self.host
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
        if isinstance(self.held, Buffer) and self.held.is_released:
            return f"Array(released, {self.type})"
        shown = np.array2string(self.host, separator=", ", threshold=_SHOWN, edgeitems=3, prefix="Array(")
        return f"Array({shown}, {self.type})"

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: Any) -> Array:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return array, (np.array(self.host),)  # the value only: its session and tape stay behind


def array(data: Any, dtype: Any = None) -> Any:
    """An array of `data`: numbers, nested lists, NumPy arrays, or an array. Inside a trace, a constant.

    Python floats become float32 and ints int32; NumPy data keeps its dtype; `dtype` converts, but refuses to drop
    fractions or to wrap integers. Always a copy.
    """
    if isinstance(data, Value):
        return data if dtype is None else ew.convert(data, dtype)
    host = as_host(data, dtype)
    current = answerer()
    if isinstance(current, Builder):
        return bind1(CONSTANT, Literal(host))
    return cast("Session", current).hold(host)
