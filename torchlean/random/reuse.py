"""check_key_reuse: every use of a key is noted, and a second one is an error that names both lines.

A key of known bits is recognised by its bits, also inside a trace; a traced one by the value that holds it. What it
cannot see: two calls of a compiled function with one key, and two traced functions handed one traced key.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from torchlean.errors import KeyReuseError, message
from torchlean.ir.builder import Builder, Value, answerer
from torchlean.ir.location import caller_location

_Use = tuple[str, str]  # the draw, and the user's line


class KeyWatch:
    """The uses of keys so far: of known bits, and of traced values by the trace they belong to."""

    __slots__ = ("_by_bits", "_by_trace")

    def __init__(self) -> None:
        self._by_bits: dict[Hashable, _Use] = {}
        self._by_trace: WeakKeyDictionary[Builder, dict[Hashable, _Use]] = WeakKeyDictionary()

    def note(self, key: Any, name: str) -> None:
        """Remember that a key was used; KeyReuseError if it had been."""
        current = answerer()
        if isinstance(key, Value):
            self._add([self._by_trace.setdefault(key.builder, {})], key.id, key, name)
            return
        uses = [self._by_bits]
        while isinstance(current, Builder):  # a body may be traced twice, so each trace notes for itself
            uses.insert(0, self._by_trace.setdefault(current, {}))
            current = current.parent
        for first, second in np.asarray(key).reshape(-1, 2).tolist():
            self._add(uses, (first, second), key, name)

    def _add(self, uses: list[dict[Hashable, _Use]], mark: Hashable, key: Any, name: str) -> None:
        """Note a use in the first table, unless one of them has it."""
        where = str(caller_location())
        before = next((each[mark] for each in uses if mark in each), None)
        if before is not None:
            raise KeyReuseError(
                message(
                    f"random.{name} uses a key that random.{before[0]} used at {before[1]}",
                    expected="each key used once",
                    got=f"key {list(mark)}" if isinstance(mark, tuple) else f"a traced {key.type}",
                    fix="split it first: keys = random.split(key), then use keys[0] and keys[1]",
                    where=where,
                )
            )
        uses[0][mark] = (name, where)


def note(key: Any, name: str) -> None:
    """Note the use of a key, if somebody watches."""
    watch = answerer().watch
    if watch is not None:
        watch.note(key, name)


@contextmanager
def check_key_reuse() -> Generator[KeyWatch]:
    """While entered, a key used twice raises KeyReuseError, in eager code and in what is traced.

    `split` and every draw use a key up; `fold_in` does not, but gives the same key for the same number. It watches the
    session that answers when it is entered.
    """
    current = answerer()
    before = current.watch
    current.watch = KeyWatch()
    try:
        yield current.watch
    finally:
        current.watch = before
