"""Live objects as text that is the same in every process, and the functions and classes of ours found on the way.

A handler is often made by a function from settings: `running(CUMSUM, np.add, 0)`. Its source does not say which, so
what it holds is read from the object: closures, defaults, fields, tables. Addresses never appear.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from torchlean.record import record

_LONGEST = 480  # characters of one fact; a longer one is cut and hashed
_UNCLAIMED = frozenset({"workspace"})  # no contract speaks of memory
_PLAIN = (int, float, complex, str, bytes, type(None))


@record
class Origin:
    """Where a function or class was written: `line` tells apart the lambdas of a module."""

    module: str
    qualname: str
    line: int


class Walk:
    """One reading of some objects; `origins` collects what code they lead to."""

    def __init__(self) -> None:
        self.origins: dict[Origin, None] = {}
        self._open: set[int] = set()

    def text(self, held: Any) -> str:
        """The object as text."""
        if held.__class__ in _PLAIN or held is True or held is False:
            return repr(held)
        if id(held) in self._open:
            return "…"
        self._open.add(id(held))
        try:
            return self._text(held)
        finally:
            self._open.discard(id(held))

    def _text(self, held: Any) -> str:
        if isinstance(held, Enum):
            return f"{type(held).__name__}.{held.name}"
        if isinstance(held, types.FunctionType):
            return self._function(held)
        if isinstance(held, types.MethodType):
            self.origins[_origin(held.__func__)] = None
            return f"{held.__func__.__qualname__} of {self.text(held.__self__)}"
        if isinstance(held, functools.partial):
            return f"partial({self.text(held.func)}, {self.text(held.args)}, {self.text(held.keywords)})"
        if isinstance(held, type):
            self.origins[Origin(held.__module__, held.__qualname__, 0)] = None
            return f"{held.__module__}.{held.__qualname__}"
        if isinstance(held, types.ModuleType):
            return f"module {held.__name__}"
        if isinstance(held, tuple | list):
            return f"({', '.join([self.text(part) for part in held])})"
        if isinstance(held, set | frozenset):
            return f"{{{', '.join(sorted([self.text(part) for part in held]))}}}"
        if isinstance(held, Mapping):
            pairs = sorted([f"{self.text(key)}: {self.text(value)}" for key, value in held.items()])
            return f"{{{', '.join(pairs)}}}"
        if hasattr(held, "type_rule") and hasattr(held, "denote"):  # an op, whose definition is looked at apart
            self.definition(held)
            return f"op {held.name}"
        return self._instance(held)

    def definition(self, op: Any) -> str:
        """What an op means: its type rule and its denotation, for a composite the function it stands for."""
        parts = [op.type_rule, op.denote]
        function = getattr(op, "function", None)
        if function is not None:
            parts.append(function)
        return self.text(tuple(parts))

    def _function(self, held: types.FunctionType) -> str:
        self.origins[_origin(held)] = None
        parts: list[str] = []
        for name, cell in zip(held.__code__.co_freevars, held.__closure__ or (), strict=True):
            try:
                inside = cell.cell_contents
            except ValueError:  # not filled yet
                continue
            parts.append(f"{name}={self.text(inside)}")
        for default in held.__defaults__ or ():
            parts.append(self.text(default))
        for name, default in (held.__kwdefaults__ or {}).items():
            parts.append(f"{name}={self.text(default)}")
        wrapped = getattr(held, "__wrapped__", None)
        if wrapped is not None:
            parts.append(f"wraps {self.text(wrapped)}")
        where = f"{held.__module__}.{held.__qualname__}".replace(".<locals>", "")
        return f"{where}({', '.join(parts)})" if parts else where

    def _instance(self, held: Any) -> str:
        cls = type(held)
        name = f"{cls.__module__}.{cls.__qualname__}"
        if hasattr(held, "dtype") and hasattr(held, "tobytes"):  # an array, or a scalar of NumPy
            data = hashlib.sha256(held.tobytes()).hexdigest()[:16]
            return f"{held.dtype}{list(held.shape)}#{data}"
        if cls.__module__.partition(".")[0] in ("numpy", "builtins"):
            called = getattr(held, "__name__", None)  # a ufunc, a built-in function
            return f"{name} {held if called is None else called}"
        self.origins[Origin(cls.__module__, cls.__qualname__, 0)] = None
        fields: Iterable[str] = getattr(cls, "__dataclass_fields__", None) or vars_of(held)
        told = [f"{field}={self.text(getattr(held, field, None))}" for field in fields if field not in _UNCLAIMED]
        return f"{name}({', '.join(told)})"


def vars_of(held: Any) -> list[str]:
    """The names of the attributes an object holds itself; private ones may be caches, and are left out."""
    slots = [name for cls in type(held).__mro__ for name in getattr(cls, "__slots__", ()) if isinstance(name, str)]
    return sorted([name for name in {*getattr(held, "__dict__", {}), *slots} if not name.startswith("_")])


def _origin(function: Any) -> Origin:
    return Origin(function.__module__, function.__qualname__, function.__code__.co_firstlineno)


def shortened(text: str) -> str:
    """A long text cut, with the hash of the whole."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… #{hashlib.sha256(text.encode()).hexdigest()[:16]}"
