"""Turn a Python function into a graph.

`trace_flat` works on flat operands; `ir` knows no pytrees beyond this point and the transforms flatten and unflatten.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from types import CellType, FrameType, FunctionType, ModuleType
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
    captured: tuple[Any, ...]


def trace_flat(
    f: Callable[..., Sequence[Any]],
    types: Sequence[TensorType],
    *,
    name: str = "graph",
    check_leaks: bool = True,
    capture_arrays: bool = False,
    capture_constants: bool = False,
    bodies: dict[Any, Any] | None = None,
) -> Traced:
    """Run `f` on traced values of the given types; it returns a sequence of operands.

    With `capture_arrays`, eager arrays `f` closes over are captured like outer values instead of becoming constants;
    with `capture_constants`, copies of NumPy's arrays too. `bodies`: those of composites that are known already.
    Raises LeakedTracerError if a value made by this trace is still alive afterwards.
    """
    enclosing = CURRENT.get()
    builder = Builder(parent=enclosing if isinstance(enclosing, Builder) else None, name=name)
    builder.capture_arrays = capture_arrays
    builder.capture_constants = capture_constants
    if bodies is not None:
        builder.bodies = bodies
    builder.watch = None if enclosing is None else enclosing.watch
    token = CURRENT.set(builder)
    try:
        with collection_paused():
            outputs = f(*builder.add_inputs(types))
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
            f"a traced {value.type} {builder.maker(value.id)} leaked out of {builder.name}",
            expected="every traced value to be gone, or returned, when the traced function returns",
            got=f"{len(alive)} still alive; the first is held by {holder}",
            fix="return the value from the function instead of storing it",
            where=str(caller_location()),
        )
    )


def _holder(value: Value, alive: list[Value]) -> str:
    """A few words on what keeps a leaked value alive. No comprehension here may close over `value`: its cell would."""
    for referrer in gc.get_referrers(value):
        if referrer is alive or isinstance(referrer, FrameType):
            continue
        if isinstance(referrer, CellType):
            return _closure_variable(referrer)
        if isinstance(referrer, dict):
            return _entry(referrer, value)
        if isinstance(referrer, list | tuple | set):
            return f"a {type(referrer).__name__} of {len(referrer)}"
        for name, held in getattr(referrer, "__dict__", {}).items():
            if held is value:
                return f"the attribute {name!r} of a {type(referrer).__name__}"
        return f"a {type(referrer).__name__}"
    return "an object that could not be named"


def _closure_variable(cell: CellType) -> str:
    """The name of a closure's variable, and the function that reads it."""
    for closure in gc.get_referrers(cell):
        if isinstance(closure, tuple):
            for function in gc.get_referrers(closure):
                if isinstance(function, FunctionType) and function.__closure__ is closure:
                    name = function.__code__.co_freevars[closure.index(cell)]
                    return f"the closure variable {name!r} of {function.__name__}"
    return "a closure variable"


def _entry(holder: dict[Any, Any], value: Value) -> str:
    """Which entry of a dict holds a value, and whose dict it is: a module's, an object's or nobody's."""
    for key, held in holder.items():
        if held is not value:
            continue
        for owner in gc.get_referrers(holder):
            if isinstance(owner, ModuleType):
                return f"the global {key!r} of {owner.__name__}"
            if getattr(owner, "__dict__", None) is holder:
                return f"the attribute {key!r} of a {type(owner).__name__}"
        return f"the entry {key!r} of a dict"
    return "a dict"
