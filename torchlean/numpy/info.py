"""`__array_namespace_info__`: what this implementation of the standard can do, and its defaults."""

from __future__ import annotations

from typing import Any

from torchlean.numpy import dtypes as d
from torchlean.numpy.devices import CPU, check_device
from torchlean.numpy.operands import unknown_choice

__all__ = [
    "__array_namespace_info__",
]


class Info:
    """Answers for the Array API standard 2024.12.

    Defaults are float32, complex64 and int32: a Python float is float32 here, whatever the machine.
    """

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and data-dependent shapes work on arrays; in a trace they are refused."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        return CPU

    def devices(self) -> list[str]:
        return [CPU]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of a Python float, complex and int, and of positions."""
        check_device("default_dtypes", device)
        return {
            "real floating": d.DEFAULT_FLOAT,
            "complex floating": d.DEFAULT_COMPLEX,
            "integral": d.DEFAULT_INT,
            "indexing": d.DEFAULT_INDEX,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes by name, of the kinds asked for."""
        check_device("dtypes", device)
        kinds = tuple(d.KINDS) if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for each in kinds:
            if each not in d.KINDS:
                unknown_choice("dtypes", "kind", each, tuple(d.KINDS))
        return {dtype.label: dtype for dtype in d.STANDARD if any([d.KINDS[each](dtype) for each in kinds])}


def __array_namespace_info__() -> Info:  # noqa: N807  (the standard's name)
    """Capabilities, devices, dtypes and defaults."""
    return Info()
