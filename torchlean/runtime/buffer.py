"""Storage behind arrays: opaque contiguous host memory with a checked length, explicit release, and byte accounting.

Nothing here is global: a session owns one `Allocator`, and every buffer it makes is counted there until its storage is
gone, by `release` or because nobody holds it any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from torchlean.errors import HandleError, InternalError, message
from torchlean.ir.location import caller_location
from torchlean.ir.types import TensorType


class Allocator:
    """Byte counts of one session. `live` and `peak` are bytes; `made` and `freed` count storages.

    A count is read and written without a call in between, so that no other thread comes between the two.
    """

    __slots__ = ("freed", "live", "lock", "made", "peak")

    def __init__(self) -> None:
        self.lock = Lock()  # held while the memory of an array gets a buffer
        self.live = 0
        self.peak = 0
        self.made = 0
        self.freed = 0

    def reset_peak(self) -> None:
        """Measure the peak from now on."""
        self.peak = self.live

    def __repr__(self) -> str:
        return f"<Allocator: {self.live} bytes live, peak {self.peak}, {self.made} made, {self.freed} freed>"


class Storage:
    """A counted piece of memory; several buffers may share one (a reshape does)."""

    __slots__ = ("allocator", "nbytes")

    def __init__(self, nbytes: int, allocator: Allocator) -> None:
        self.nbytes = nbytes
        self.allocator = allocator
        allocator.made += 1
        live = allocator.live + nbytes
        allocator.live = live
        if live > allocator.peak:
            allocator.peak = live

    def __del__(self) -> None:
        allocator = self.allocator
        allocator.live -= self.nbytes
        allocator.freed += 1


class Buffer:
    """A handle to contiguous host memory. `array` is the memory itself, for kernels only; `export` is for users."""

    __slots__ = ("array", "storage")

    array: np.ndarray[Any, Any]
    storage: Storage

    def __init__(self, array: np.ndarray[Any, Any], storage: Storage) -> None:
        self.array = array
        self.storage = storage

    @staticmethod
    def of(array: np.ndarray[Any, Any], type: TensorType, allocator: Allocator) -> Buffer:
        """A buffer over an array nobody else writes to, its length checked against the type."""
        own = checked(array, type)
        return Buffer(own, Storage(own.nbytes, allocator))

    def __getattr__(self, name: str) -> NoReturn:
        # Reached only when a slot is empty, which `release` alone brings about.
        if name in ("array", "storage"):
            raise HandleError(
                message(
                    "a buffer was used after its release",
                    expected="a live buffer",
                    got="one that was released earlier",
                    fix="release a buffer after its last use, or let it go out of scope instead",
                    where=str(caller_location()),
                )
            )
        raise AttributeError(f"a Buffer has no {name!r}")

    def __len__(self) -> int:
        """Number of elements, as the storage reports it."""
        return self.array.size

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    @property
    def is_released(self) -> bool:
        try:
            return object.__getattribute__(self, "array") is None
        except AttributeError:
            return True

    def release(self) -> None:
        """Give the memory back now; a second release, and any later use, is a HandleError."""
        if self.is_released:
            raise HandleError(
                message(
                    "a buffer was released twice",
                    expected="one release",
                    got="a second one",
                    fix="release it in one place only",
                    where=str(caller_location()),
                )
            )
        del self.array, self.storage

    def export(self) -> np.ndarray[Any, Any]:
        """A read-only view of the memory; nothing is copied."""
        return lent(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return exported(self.export(), dtype, copy)

    def __repr__(self) -> str:
        return "<Buffer, released>" if self.is_released else f"<Buffer of {len(self)} × {self.array.dtype}>"


class Owners:
    """Finds the storage a result shares with operands, so that no byte is counted twice."""

    __slots__ = ("_allocator", "_known")

    def __init__(self, allocator: Allocator, held: Iterable[tuple[np.ndarray[Any, Any], Storage]]) -> None:
        self._allocator = allocator
        self._known = {id(_root(array)): storage for array, storage in held}

    def of(self, array: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], Storage]:
        """`array`, contiguous (copied if it is not), and what counts it: the storage of the operand it is a view of."""
        own = array if array.flags.c_contiguous else np.ascontiguousarray(array)
        root = _root(own)
        storage = self._known.get(id(root))
        if storage is None:
            storage = Storage(root.nbytes, self._allocator)
            self._known[id(root)] = storage
        return own, storage

    def buffer(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A buffer over `array`, as `of` finds it."""
        return Buffer(*self.of(array))


def _root(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array that owns the memory."""
    base = array.base
    return base if isinstance(base, np.ndarray) else array


def lent(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A read-only view of memory that is not written any more."""
    array.setflags(write=False)
    return array.view()


def exported(array: np.ndarray[Any, Any], dtype: Any, copy: bool | None) -> np.ndarray[Any, Any]:
    """What NumPy's `__array__` protocol asks for: the view itself, a writable copy, or a converted copy."""
    wanted = array.dtype if dtype is None else np.dtype(dtype)
    if wanted == array.dtype:
        return array.copy() if copy else array
    if copy is False:
        raise ValueError(f"cannot convert {array.dtype} to {wanted} without a copy")
    return array.astype(wanted)


def checked(array: np.ndarray[Any, Any], type: TensorType) -> np.ndarray[Any, Any]:
    """The array, contiguous, after comparing its length with the number of elements its type says."""
    if array.size != type.size:
        raise InternalError(f"buffer size mismatch: {type} has {type.size} elements, the storage reports {array.size}")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)
