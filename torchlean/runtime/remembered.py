"""What a session derived from traced functions, by the traced graph, so that tracing again finds it.

`grad(f)(x)` on arrays traces `f` at every call, since Python may do something else each time. A graph equal to one that
came before needs no transform and no plan: it runs the program of the graph derived then. Equal means equal: graphs are
compared node by node, so a branch taken otherwise, another number or another shape is another graph. Arrays and
constants `f` closes over are operands, not parts of the graph; their values at this call are what it computes with.

A graph that comes a second time is planned as a whole on the session's own kernels. One that has come `COMPILED_AFTER`
times is planned with the modules sessions leave out because they compile, if every kernel of either plan has the bits
of its op's definition, so that none changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlean.backends.accept import accept
from torchlean.backends.capsule import Bitwise
from torchlean.backends.executable import Executable
from torchlean.backends.plan import Plan, all_steps
from torchlean.backends.planner import plan
from torchlean.backends.profile import Profile
from torchlean.backends.vocabulary import is_derivative, label
from torchlean.ir.graph import Graph, is_effect, sub_graphs
from torchlean.ir.literal import CONSTANT
from torchlean.ir.types import TensorType
from torchlean.runtime.array import Array
from torchlean.runtime.host import as_host
from torchlean.runtime.kernels import Kernels, make_room
from torchlean.runtime.report import Phase

if TYPE_CHECKING:
    from torchlean.runtime.session import Session

MOST_GRAPHS = 256
MOST_BYTES = 1 << 16  # of constants within sub-graphs, which stay in memory with the graph
COMPILED_AFTER = 256  # calls: by then they have cost about what compiling does

_ndarray = np.ndarray


class Derived:
    """A derived graph and, once it came again, its program. `used`: whether it was since room was last made; `settled`:
    whether what compiles has been considered.
    """

    __slots__ = ("calls", "executable", "graph", "nbytes", "own", "phase", "run", "settled", "types", "used")

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.calls = 0
        self.used = False
        self.settled = False
        self.own: Profile | None = None  # the session's profile, under its switches, that this was planned for
        self.phase = Phase.FORWARD
        self.executable: Executable | None = None
        self.run: Callable[..., Any] | None = None
        self.types: tuple[TensorType, ...] = ()
        self.nbytes = 0


class Remembered:
    """The derived graphs of one session. Threads may share it: at worst two derive or plan the same, to equal ends."""

    __slots__ = ("_kernels", "_known")

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self._known: dict[Any, Derived] = {}

    def __len__(self) -> int:
        """How many graphs are remembered."""
        return len(self._known)

    def results(
        self,
        session: Session,
        key: tuple[Graph, Any],
        operands: Sequence[Any],
        given: int,
        derive: Callable[[], Graph],
    ) -> Sequence[Any]:
        """What `derive()` gives on operands; `key` is the traced graph and whatever else decides what is derived.

        The first `given` operands are arguments; the others are what the function closes over, as values.
        """
        found = self._known.get(key)
        if found is None:
            make_room(session.bodies)
            found = Derived(derive())
            if repeatable(key[0]) and repeatable(found.graph):
                self._make_room()
                key[0].shared = None  # a table of nodes for transforms to come; there are none
                self._known[key] = found
            return self._evaluated(session, found.graph, operands, given)
        arrays: list[Any] = []
        for position, operand in enumerate(operands):
            if operand.__class__ is Array:
                if operand.node >= 0 and position < given:
                    return self._evaluated(session, found.graph, operands, given)  # recorded on the tape
                arrays.append(operand.host)
            else:
                arrays.append(_host(operand))
        found.used = True
        found.calls = calls = found.calls + 1
        kernels = self._kernels
        if found.own is not kernels.current_profile() or (calls >= COMPILED_AFTER and not found.settled):
            self._plan(session, found)
        elif found.phase is not kernels.phase:
            self._report(found)
        return session.adopt(found.run(*arrays), found.types, found.nbytes)  # type: ignore[misc]

    def _evaluated(self, session: Session, graph: Graph, operands: Sequence[Any], given: int) -> Sequence[Any]:
        closed = [Array.over(x.type, x.buffer, session) if x.__class__ is Array else x for x in operands[given:]]
        return session.evaluate(graph, (*operands[:given], *closed))

    def _plan(self, session: Session, found: Derived) -> None:
        """Plan, accept and generate the program, on the session's own kernels or, later, on those that compile."""
        kernels = self._kernels
        own = kernels.current_profile()
        accepted = accept(plan(found.graph, own))
        found.settled = found.calls >= COMPILED_AFTER
        if found.settled and session.profile.for_sessions() is not session.profile:
            whole = accept(plan(found.graph, session.profile.switched()))
            accepted = whole if is_bitwise(accepted.plan) and is_bitwise(whole.plan) else accepted
        made = Executable(accepted)
        types = tuple([kernels.interned(type) for type in found.graph.output_types])
        found.types, found.nbytes = types, sum([type.nbytes for type in types])
        found.executable, found.run, found.own = made, made.call, own
        self._report(found)

    def _report(self, found: Derived) -> None:
        """Note what the program runs, as the session does for what it selects."""
        kernels = self._kernels
        assert found.executable is not None
        found.phase = phase = kernels.phase
        for step in all_steps(found.executable.plan):
            if step.node.op is CONSTANT:
                continue
            kernels.report.used(step.capsule, phase)
            if is_derivative(step.node.op):
                kernels.report.pulled_back(label(step.node.op), step.capsule.name, phase)
        for expansion in found.executable.plan.expansions:
            if expansion.op.endswith(".vjp"):
                kernels.report.pulled_back(expansion.op, None, phase)

    def _make_room(self) -> None:
        """When full, drop the graphs that did not come again since this was last done, or else the older half."""
        known = self._known
        if len(known) < MOST_GRAPHS:
            return
        held = list(known.items())
        dropped = [key for key, found in held if not found.used] or [key for key, _ in held[: MOST_GRAPHS // 2]]
        for key in dropped:
            known.pop(key, None)  # another thread may be making room too
        for _, found in held:
            found.used = False


def is_bitwise(planned: Plan) -> bool:
    """Whether every kernel has the bits of its op's definition."""
    return all([isinstance(step.capsule.bound, Bitwise) for step in all_steps(planned)])


def repeatable(graph: Graph) -> bool:
    """Whether an equal graph may come again and does the same: no effects, no params compared by identity (a user's
    derivative rule, say), and no large constants in sub-graphs.
    """
    return _constants(graph) <= MOST_BYTES


def _constants(graph: Graph) -> int:
    """Bytes of constants, and more than any bound where a node is not to be remembered."""
    total = 0
    for node in graph.nodes:
        params = node.params
        if params.__class__.__hash__ is object.__hash__ or is_effect(node):
            return MOST_BYTES + 1
        if node.op is CONSTANT:
            total += params.type.nbytes
        for _, held in sub_graphs(params):
            total += _constants(held)
    return total


def _host(operand: Any) -> np.ndarray[Any, Any]:
    """A NumPy operand as kernels take it."""
    if operand.__class__ is _ndarray:
        flags = operand.flags
        if flags.c_contiguous and flags.aligned and operand.dtype.isnative:
            return operand
    return as_host(operand)
