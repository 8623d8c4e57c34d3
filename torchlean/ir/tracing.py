"""Turn a Python function into a graph.

`trace_flat` works on flat operands; `ir` knows no pytrees beyond this point and the transforms flatten and unflatten.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torchlean.errors import LeakedTracerError, message
from torchlean.ir.builder import CURRENT, Builder, Value
from torchlean.ir.collection import collection_paused
from torchlean.ir.graph import Graph
from torchlean.ir.location import caller_location
from torchlean.ir.types import TensorType


class Traced(NamedTuple):
    """A traced function. The graph's inputs are the operands, then one per captured outer value."""

    graph: Graph
    captured: tuple[Value, ...]


def trace_flat(
    f: Callable[..., Sequence[Any]], types: Sequence[TensorType], *, name: str = "graph", check_leaks: bool = True
) -> Traced:
    """Run `f` on traced values of the given types; it returns a sequence of operands.

    Raises LeakedTracerError if a value made by this trace is still alive afterwards.
    """
    enclosing = CURRENT.get()
    builder = Builder(parent=enclosing if isinstance(enclosing, Builder) else None, name=name)
    token = CURRENT.set(builder)
    try:
        with collection_paused():
            outputs = f(*[builder.add_input(type) for type in types])
            ids = tuple([builder.lift(output) for output in outputs])
    finally:
        CURRENT.reset(token)
    del outputs, token, enclosing
    graph = builder.finish(ids)
    captured = tuple(builder.captured)
    if check_leaks and sys.getrefcount(builder) > 2:
        _report_leaks(builder)
    return Traced(graph, captured)


def _report_leaks(builder: Builder) -> None:
    """Values still alive after the trace: name what made one and what holds it. Cycles are collected first."""
    gc.collect()
    alive = [held for held in gc.get_referrers(builder) if isinstance(held, Value)]
    if not alive:
        return
    value = alive[0]
    holder = _holder(value, alive)
    raise LeakedTracerError(
        message(
            f"a traced {value.type}, made by {builder.maker(value.id)}, leaked out of {builder.name}",
            expected="every traced value to be gone, or returned, when the traced function returns",
            got=f"{len(alive)} still alive; the first is held by {holder}",
            fix="return the value from the function instead of storing it",
            where=str(caller_location()),
        )
    )


def _holder(value: Value, alive: list[Value]) -> str:
    """A few words on what keeps a leaked value alive."""
    for referrer in gc.get_referrers(value):
        if referrer is alive or referrer.__class__.__name__ == "frame":
            continue
        if isinstance(referrer, dict):
            names = [str(key) for key, held in referrer.items() if held is value]
            owners = [
                type(owner).__name__
                for owner in gc.get_referrers(referrer)
                if getattr(owner, "__dict__", None) is referrer
            ]
            where = f" of a {owners[0]}" if owners else ""
            return f"the name {names[0]!r}{where}" if names else "a dict"
        if isinstance(referrer, list | tuple | set):
            return f"a {type(referrer).__name__} of {len(referrer)}"
        if referrer.__class__.__name__ == "cell":
            return "a closure variable"
        return f"a {type(referrer).__name__}"
    return "an object that could not be named"
