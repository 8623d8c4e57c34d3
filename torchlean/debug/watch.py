"""`nan_checks`: watch eager code, op by op, for NaN and infinities."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from torchlean.debug.walk import Fault, Walker, made_fault, report
from torchlean.errors import NonFiniteError, TraceError, message
from torchlean.ir.builder import CURRENT, Builder, answerer
from torchlean.ir.graph import Graph
from torchlean.ir.location import NOWHERE, SourceLocation, caller_location
from torchlean.ir.op import Op
from torchlean.ir.types import TensorType
from torchlean.runtime.array import Array
from torchlean.runtime.session import Session
from torchlean.runtime.tape import TapeNode
from torchlean.transforms.rewrite import dead_code_eliminated


class Watched:
    """A session that examines what each of its ops made; everything else is the session's own."""

    __slots__ = ("_places", "_session", "_walker", "fault")

    def __init__(self, session: Session, fault: Fault) -> None:
        self._session = session
        self._walker = Walker(session, fault)
        self._places: dict[int, SourceLocation] = {}  # where each node on the tape was made
        self.fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def bodies(self) -> dict[Any, Any]:
        """Traced bodies of composites."""
        return self._session.bodies

    @property
    def remembered(self) -> None:
        """Nothing: what is watched runs node by node."""
        return None

    @property
    def watch(self) -> Any:
        """What notes the use of random keys."""
        return self._session.watch

    @watch.setter
    def watch(self, noted: Any) -> None:
        self._session.watch = noted

    def bind(self, op: Op, params: Any, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run `op` now and examine its results."""
        return self._bind(op, params, operands, caller_location())

    def _bind(self, op: Op, params: Any, operands: tuple[Any, ...], where: SourceLocation) -> tuple[Any, ...]:
        first = len(self._session.tape)
        results = self._session.bind(op, params, operands)
        for id in range(first, len(self._session.tape)):
            self._places[id] = where
        plain = [self._plain(operand) for operand in operands]
        self._walker.examine(op, params, plain, results, where, where, ())
        return results

    def _plain(self, operand: Any) -> Any:
        """The operand off the tape, so that looking into a composite is not recorded."""
        return self._session.borrow(operand.buffer) if isinstance(operand, Array) else self._session.array(operand)

    def evaluate(self, graph: Graph, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Run a closed graph node by node, examining each."""
        graph = dead_code_eliminated(graph)
        values: dict[int, Any] = dict(zip(graph.inputs, operands, strict=True))
        for node in graph.nodes:
            ins = tuple([values[id] for id in node.inputs])
            for id, result in zip(node.outputs, self._bind(node.op, node.params, ins, node.where), strict=True):
                values[id] = result
        return tuple([values[id] for id in graph.outputs])

    def adopt(self, hosts: Sequence[Any], types: Sequence[TensorType], nbytes: int) -> list[Array]:
        """The results of a lowered program, which ran as a whole."""
        for position, host in enumerate(hosts):
            bad = self.fault.of(host)
            if bad is not None:
                index = [int(i) for i in np.argwhere(bad)[0]]
                raise NonFiniteError(
                    message(
                        f"a lowered function returned {np.asarray(host)[tuple(index)]} in result {position}, "
                        f"{types[position]}" + (f" at {index}" if index else ""),
                        expected="results without such values",
                        got="a program that runs as a whole, so that no op can be named from here",
                        fix="call debug.check_nan(f) on the same arguments",
                        where=str(caller_location()),
                    )
                )
        return self._session.adopt(hosts, types, nbytes)

    def pulled(self, node: TapeNode, id: int, saved: Sequence[Any], seeds: Sequence[Any], made: Sequence[Any]) -> None:
        """Examine the contributions of one node of the tape to its operands."""
        op = node.op
        assert op is not None
        found = made_fault(op, self.fault, [*saved, *seeds], list(made))
        if found is None:
            return
        where = self._places.get(id, NOWHERE)
        derivative = where.derivative(op.name)
        raise report(op, node.params, self.fault, [*saved, *seeds], list(made), found, where, derivative, ())


@contextmanager
def nan_checks(*, infinities: bool = False) -> Generator[None]:
    """While entered, every eager op of this context is examined: NonFiniteError names the first that made a NaN.

    With `infinities`, values that are not finite count as well. What `grad` and the tape's `backward` run is examined
    too. Lowered programs run as a whole: only their results are. Enter it inside `with session:`.
    """
    current = answerer()
    if isinstance(current, Builder):
        raise TraceError(
            message(
                "debug.nan_checks inside a trace",
                expected="eager code",
                got=f"the trace of {current.name}",
                fix="use debug.check_nan(f) around the traced function",
                where=str(caller_location()),
            )
        )
    session = current._session if isinstance(current, Watched) else current
    assert isinstance(session, Session)
    watched = Watched(session, Fault(infinities))
    before, session.tape.examine = session.tape.examine, watched.pulled
    token = CURRENT.set(watched)
    try:
        yield
    finally:
        CURRENT.reset(token)
        session.tape.examine = before
