"""check_key_reuse: every use of a key is noted, and a second one is an error that names both lines.

A use in a trace is refused there if the same value, or known bits, had been used on the way to it. The trace also
holds an op that notes the bits of the key when the program runs, so what happens in loops, in the branches taken and
in two calls of one program is seen as it happens.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from contextlib import contextmanager
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from torchlean.errors import KeyReuseError, message
from torchlean.ir.builder import Answerer, Builder, Value, answerer, bind
from torchlean.ir.location import caller_location
from torchlean.ir.ops.effect import USE_KEY, KeyUse

_Use = tuple[str, str]  # the draw, and the user's line


class KeyWatch:
    """The uses of keys so far: bits that were drawn from, and, per trace, what its own code uses."""

    __slots__ = ("_by_bits", "_by_trace", "_watched")

    def __init__(self, watched: Answerer) -> None:
        self._watched = watched
        self._by_bits: dict[Hashable, _Use] = {}
        self._by_trace: WeakKeyDictionary[Builder, dict[Hashable, _Use]] = WeakKeyDictionary()

    def note(self, key: Any, name: str) -> None:
        """A draw, here and now, uses a key, or a batch of keys; KeyReuseError if one had been used."""
        current, use = answerer(), (name, str(caller_location()))
        if not isinstance(current, Builder):
            for words in np.asarray(key).reshape(-1, 2).tolist():
                self.enter(tuple(words), use)
            return
        # Only this trace's own table grows: a sibling branch, or the same function traced again, uses the key once.
        own = self._by_trace.setdefault(current, {})
        tables = [self._by_bits, own]
        while current.parent is not None:
            current = current.parent
            tables.append(self._by_trace.get(current, {}))
        if isinstance(key, Value):
            _add(own, tables, (id(key.builder), key.id, "traced"), f"a traced {key.type}", use)
        else:
            for words in np.asarray(key).reshape(-1, 2).tolist():
                _add(own, tables, tuple(words), f"key {words}", use)
        bind(USE_KEY, KeyUse(*use, 0, self.seen), key)

    def enter(self, words: tuple[int, int], use: _Use) -> None:
        """Bits are drawn from."""
        _add(self._by_bits, [self._by_bits], words, f"key {list(words)}", use)

    def seen(self, keys: np.ndarray[Any, Any], params: KeyUse) -> None:
        """A program traced under some watch of this session uses keys u32[examples…, …, 2]; examples may share one."""
        watch = self._watched.watch
        if watch is None:
            return
        count = prod(keys.shape[params.vmaps : -1])
        for each in keys.reshape(prod(keys.shape[: params.vmaps]), count, 2).swapaxes(0, 1).tolist():
            for words in sorted(set(map(tuple, each))):
                watch.enter(words, (params.draw, params.where))


def _add(own: dict[Hashable, _Use], tables: list[dict[Hashable, _Use]], mark: Hashable, got: str, use: _Use) -> None:
    """Enter a use in a table, unless one of the tables has it."""
    name, where = use
    before = next((table[mark] for table in tables if mark in table), None)
    if before is not None:
        again = "; in a loop, draw from random.fold_in(key, step)" if before[1] == where else ""
        raise KeyReuseError(
            message(
                f"random.{name} uses a key that random.{before[0]} used at {before[1]}",
                expected="each key used once",
                got=got,
                fix=f"split it first: keys = random.split(key), then use keys[0] and keys[1]{again}",
                where=where,
            )
        )
    own[mark] = use


def note(key: Any, name: str) -> None:
    """Note the use of a key, if somebody watches."""
    watch = answerer().watch
    if watch is not None:
        watch.note(key, name)


@contextmanager
def check_key_reuse() -> Generator[KeyWatch]:
    """While entered, a key used twice raises KeyReuseError: in eager code, in a trace, and when what was traced runs.

    `split` and every draw use a key up; `fold_in` does not, but gives the same key for the same number. It watches the
    session that answers when it is entered, and programs traced while it is; `jit` traces anew for it. Not seen: draws
    in a branch or loop whose condition differs between the examples of a vmap, since all run there.
    """
    current = answerer()
    before = current.watch
    current.watch = KeyWatch(current)
    try:
        yield current.watch
    finally:
        current.watch = before
