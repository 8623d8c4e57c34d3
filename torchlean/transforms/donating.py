"""Arguments a caller gives up: whose memory a program may take for its results, and who may not be used again.

A torchlean array is released after the call. Its memory is taken only if nobody else sees it, which is found out
before. NumPy arrays stay as they are: they are the caller's, and are copied.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from threading import local
from typing import Any

import numpy as np

from torchlean import pytree
from torchlean.errors import HandleError, message
from torchlean.ir.location import caller_location


class _Holder:
    """What holds an array as a buffer does."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array


def _references(holder: Any) -> int:
    """References to what a holder holds, those of this function among them."""
    array = holder.array
    return sys.getrefcount(array)


def leaf_positions(arguments: Sequence[Any], chosen: Sequence[int]) -> tuple[int, ...]:
    """Positions among the leaves of all arguments of those of the chosen ones."""
    found: list[int] = []
    start = 0
    for position, argument in enumerate(arguments):
        count = len(pytree.leaves(argument))
        found += range(start, start + count) if position in chosen else ()
        start += count
    return tuple(found)


class Started(local):
    """Whether the program of the call under way in this thread was begun: then donated memory may be gone."""

    yes = False

    def noting(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """`run`, which says so first."""

        def noted(*arrays: Any) -> Any:
            self.yes = True
            return run(*arrays)

        return noted


def giving_up(call: Callable[..., Any], positions: tuple[int, ...], name: str, started: Started) -> Callable[..., Any]:
    """`call`, after which the leaves at `positions` are released, also when it fails: once its program was begun, which
    `started` says, their memory may be gone. A call that is refused before leaves them as they were.
    """

    alone = _references(_Holder(object()))

    def donating(*arguments: Any, **keywords: Any) -> Any:
        leaves, treedef = pytree.flatten((arguments, keywords))
        if len(leaves) <= positions[-1]:
            return call(*arguments, **keywords)  # says what is wrong
        given = {at: leaves[at] for at in positions if hasattr(leaves[at], "buffer")}
        for at in positions:
            if isinstance(leaves[at], np.ndarray):
                leaves[at] = leaves[at].view()  # what an executable made would be taken as its own again, not a view
        _require_once(leaves, given, arguments, keywords, name)
        for at, leaf in given.items():
            if _references(leaf.buffer) > alone:  # somebody else sees this memory
                leaves[at] = leaf.buffer.array.copy()
        arguments, keywords = pytree.unflatten(treedef, leaves)
        del leaves
        outer, started.yes = started.yes, False  # a program may call itself from the host
        try:
            return call(*arguments, **keywords)
        finally:
            if started.yes:
                for leaf in given.values():
                    leaf.buffer.release()
            started.yes = outer

    return donating


def _require_once(leaves: list[Any], given: dict[int, Any], arguments: Any, keywords: Any, name: str) -> None:
    """HandleError for an array that is given up and given a second time."""
    seen = Counter([id(leaf.buffer.array) for leaf in leaves if hasattr(leaf, "buffer")])
    for at, leaf in given.items():
        if seen[id(leaf.buffer.array)] > 1:
            paths = pytree.paths(arguments, "args") + pytree.paths(keywords, "kwargs")
            raise HandleError(
                message(
                    f"{name}: {paths[at]} is donated and given a second time",
                    expected="a donated array to be one argument",
                    got=", ".join(
                        [
                            path
                            for path, one in zip(paths, leaves, strict=True)
                            if one is leaf or getattr(one, "buffer", None) is leaf.buffer
                        ]
                    ),
                    fix="donate neither (donate_argnums), or pass a copy",
                    where=str(caller_location()),
                )
            )
