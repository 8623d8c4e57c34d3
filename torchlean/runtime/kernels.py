"""Selected kernels of a session, by (op, params, operand types): chosen by the planner, accepted, bound, then only run.

A miss plans and accepts a graph of the one node, so an op that runs eagerly passed the same gate as a lowered program.
A composite without a capsule becomes a program of its body's kernels. Everything here works on NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import numpy as np

from torchlean.backends.accept import AcceptedPlan, accept
from torchlean.backends.capsule import Capsule
from torchlean.backends.executable import Executable
from torchlean.backends.handler import bind_kernel
from torchlean.backends.plan import all_steps
from torchlean.backends.planner import plan
from torchlean.backends.profile import Profile
from torchlean.backends.vocabulary import is_derivative, label
from torchlean.errors import ConfigError, InternalError, message
from torchlean.ir.builder import type_fault_error
from torchlean.ir.graph import Graph, Node
from torchlean.ir.literal import CONSTANT
from torchlean.ir.location import SourceLocation, caller_location
from torchlean.ir.op import NO_PARAMS, Op, TypeFault
from torchlean.ir.ops.composite import Composite
from torchlean.ir.ops.create import FULL
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE
from torchlean.ir.ops.quotients import FLOOR_DIVIDE, REM, REMAINDER
from torchlean.ir.ops.spread import BROADCAST
from torchlean.ir.types import TensorType
from torchlean.runtime.buffer import Allocator
from torchlean.runtime.report import BackendReport, Phase
from torchlean.transforms.rewrite import dead_code_eliminated

# Scalars in a program (`x * rate`) are params of `full`, so a changing rate makes new entries: old ones are dropped.
MOST_ENTRIES = 8192

QUOTIENTS = frozenset({FLOOR_DIVIDE, REM, REMAINDER})  # of integers by 0 NumPy warns, and gives the 0 that is meant
MOVES = frozenset({RESHAPE, TRANSPOSE, REVERSE, BROADCAST, CONSTANT, FULL})  # no arithmetic, so no warnings

Run = Callable[..., Any]
Step = tuple[Run, tuple[int, ...], int | tuple[int, ...], tuple[int, ...]]  # kernel, operands, results, dead afterwards


class Entry:
    """A kernel ready to run. `run(*arrays)` gives an array, or a tuple for several results; `types` are the results'.

    `body` is the graph of a composite that runs as its body's kernels, else None. `quiet`: it can raise no
    floating-point warning. `is_fresh`: one result, which shares no memory with an operand. `is_sure`: once one of its
    results was as it should be, all are: what NumPy's own functions make of row-major arrays of rank 1 and more.
    """

    __slots__ = (
        "body",
        "capsules",
        "carrier",
        "is_fresh",
        "is_sure",
        "nbytes",
        "quiet",
        "run",
        "shape",
        "single",
        "type",
        "types",
    )

    def __init__(
        self,
        run: Run,
        types: tuple[TensorType, ...],
        *,
        capsules: tuple[Capsule, ...],
        body: Graph | None,
        quiet: bool,
        is_view: bool,
    ) -> None:
        first = types[0]
        self.run = run
        self.types = types
        self.capsules = capsules
        self.body = body
        self.quiet = quiet
        self.single = len(types) == 1
        self.is_fresh = self.single and not is_view
        self.is_sure = self.is_fresh and isinstance(run, np.ufunc) and bool(first.shape)
        self.type = first
        self.shape = first.shape
        self.carrier = first.dtype.carrier
        self.nbytes = first.nbytes


class Program:
    """A graph as a list of kernels: `program(*arrays)` gives a tuple of arrays, each value dropped at its last use."""

    __slots__ = ("capsules", "inputs", "outputs", "size", "steps", "types")

    def __init__(
        self,
        steps: list[Step],
        graph: Graph,
        capsules: tuple[Capsule, ...],
    ) -> None:
        self.steps = steps
        self.size = len(graph.types)
        self.inputs = graph.inputs
        self.outputs = graph.outputs
        self.types = graph.output_types
        self.capsules = capsules

    def __call__(self, *arrays: Any) -> tuple[np.ndarray[Any, Any], ...]:
        values: list[Any] = [None] * self.size
        for id, array in zip(self.inputs, arrays, strict=True):
            values[id] = array
        for run, ins, out, dead in self.steps:
            if out.__class__ is int:
                values[out] = run(*[values[id] for id in ins])  # type: ignore[index]
            else:
                for id, result in zip(out, run(*[values[id] for id in ins]), strict=True):  # type: ignore[arg-type]
                    values[id] = result
            for id in dead:
                values[id] = None
        return tuple([np.asarray(values[id]) for id in self.outputs])


class _Watched(dict[Any, Entry]):
    """The selections of a profile with switches: every look-up asks first whether the switches are as they were."""

    __slots__ = ("_follow",)

    def __init__(self, follow: Callable[[], Profile]) -> None:
        super().__init__()
        self._follow = follow

    def get(self, key: Any, default: Any = None) -> Any:
        self._follow()
        return super().get(key, default)


class Kernels:
    """The selections of one profile. `entries` holds those already reported for the phase that runs now.

    `profile` is as its switches make it. When an environment variable that is a switch changes, every selection is
    forgotten before the next one is looked up; a profile without switches pays nothing for this.
    """

    __slots__ = (
        "_accepted",
        "_asked",
        "_by_phase",
        "_derivatives",
        "_nullary",
        "_types",
        "allocator",
        "entries",
        "lock",
        "phase",
        "profile",
        "report",
    )

    def __init__(self, profile: Profile, report: BackendReport, allocator: Allocator) -> None:
        self._asked = profile.for_sessions()
        if profile.modules and not self._asked.modules:
            raise ConfigError(
                message(
                    f"a session on {profile.name} has no kernels: its providers compile, and run lowered programs only",
                    expected="a provider that runs op by op",
                    got=", ".join([module.name for module in profile.modules]),
                    fix="lower the function with this profile, or add a module such as backends.reference.MODULE",
                )
            )
        self.profile = self._asked.switched()
        self.report = report
        self.allocator = allocator
        self.phase = Phase.FORWARD
        self.lock = RLock()  # held while several steps must be seen as one by the threads that share a session
        self._derivatives = 0  # how many are going on, in all threads
        self._by_phase: dict[Phase, dict[Any, Entry]] = {
            phase: _Watched(self.current_profile) if profile.has_switches else {} for phase in Phase
        }
        self._accepted: dict[Any, Entry] = {}
        self._nullary: dict[Any, Capsule] = {}
        self._types: dict[TensorType, TensorType] = {}
        self.entries = self._by_phase[Phase.FORWARD]

    @contextmanager
    def derivatives(self) -> Generator[None]:
        """While entered, by whichever thread, what is selected is attributed to derivatives and updates."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self.lock:
            self._derivatives += change
            self.phase = Phase.DERIVATIVE if self._derivatives else Phase.FORWARD
            self.entries = self._by_phase[self.phase]

    def current_profile(self) -> Profile:
        """The profile under the switches as they are now; another object than before if one has changed."""
        if self.profile.switched_by is not None and self._asked.environment() != self.profile.switched_by:
            with self.lock:
                self.profile = self._asked.switched()
                for known in (self._accepted, self._nullary, *self._by_phase.values()):
                    known.clear()
        return self.profile

    def __len__(self) -> int:
        """How many selections are remembered."""
        return len(self._accepted)

    def interned(self, type: TensorType) -> TensorType:
        """One object per type, so that operands of equal types are seen at once to be so."""
        return self._types.setdefault(type, type)

    # -- one op ------------------------------------------------------------------------------------------------------
    def entry(self, op: Op, params: Any, types: tuple[TensorType, ...]) -> Entry:
        """The kernel of an op for operand types. Raises TypeRuleError, or PlanRejected listing every reason."""
        key = (op, params, types)
        found = self.entries.get(key)
        if found is None:
            try:
                made = op.type_rule(params, *types)
            except TypeFault as fault:
                raise type_fault_error(op, types, fault, caller_location()) from None
            found = self._entry(key, made, None)
        return found

    def note_pair(self, op: Op, type: TensorType) -> None:
        """Let `entries[op, type]` be the kernel of two operands of `type`, which has just run."""
        entries = self.entries
        found = entries.get((op, NO_PARAMS, (type, type)))
        if found is not None:
            make_room(entries)
            entries[op, type] = found

    def _entry(self, key: tuple[Any, ...], made: tuple[TensorType, ...], where: SourceLocation | None) -> Entry:
        """The entry of a key this phase has not used yet; reports its capsules."""
        found = self._accepted.get(key)
        if found is None:
            found = self._select(key[0], key[1], key[2], made, where)
        if key[0] is CONSTANT:
            return found  # data, not work: no line in the report, and remembering it would keep its array alive
        for capsule in found.capsules:
            self.report.used(capsule, self.phase)
        if is_derivative(key[0]):
            self.report.pulled_back(label(key[0]), found.capsules[0].name if found.body is None else None, self.phase)
        for entries in (self._accepted, self.entries):
            make_room(entries)
            entries[key] = found
        return found

    def _select(
        self,
        op: Op,
        params: Any,
        types: tuple[TensorType, ...],
        made: tuple[TensorType, ...],
        where: SourceLocation | None,
    ) -> Entry:
        count = len(types)
        made = tuple([self.interned(type) for type in made])
        node = Node(op, tuple(range(count)), tuple(range(count, count + len(made))), params, where or caller_location())
        graph = Graph(inputs=node.inputs, nodes=(node,), outputs=node.outputs, types=(*types, *made), name=op.name)
        known = self._nullary.get((op, made)) if not count else None
        if known is not None and known.refuses(params, types) is None:
            return _bound(known, node, graph.types, made)
        whole = accept(plan(graph, self.profile))
        accepted = whole.plan
        if any([step.inner for step in accepted.steps]) and not isinstance(op, Composite):
            return _looped(whole, made)
        if len(accepted.steps) == 1 and accepted.steps[0].node.op is op:
            capsule = accepted.steps[0].capsule
            if not count:
                self._nullary[op, made] = capsule
            return _bound(capsule, node, graph.types, made)
        if not isinstance(op, Composite):
            raise InternalError(f"the planner expanded {op.name}, which has no body")
        program = self.program(params.body)
        run = _first_of(program) if len(made) == 1 else program
        return Entry(run, made, capsules=program.capsules, body=params.body, quiet=False, is_view=True)

    # -- graphs ------------------------------------------------------------------------------------------------------
    def program(self, graph: Graph) -> Program:
        """The kernels of the live nodes of a graph, in order. Linear in the nodes."""
        graph = dead_code_eliminated(graph)
        types = graph.types
        runs: list[Entry] = []
        used: dict[int, Capsule] = {}
        for op, ins, outs, params, where in graph.nodes:
            key = (op, params, tuple([types[id] for id in ins]))
            found = self.entries.get(key)
            if found is None:
                found = self._entry(key, tuple([types[id] for id in outs]), where)
            runs.append(found)
            if op is not CONSTANT:
                for capsule in found.capsules:
                    used[id(capsule)] = capsule
        needed = bytearray(len(types))
        for value in graph.outputs:
            needed[value] = 1
        steps: list[Step] = []
        for node, found in zip(reversed(graph.nodes), reversed(runs), strict=True):
            dead = tuple([value for value in (*node.inputs, *node.outputs) if not needed[value]])
            for value in dead:
                needed[value] = 1
            steps.append((found.run, node.inputs, node.outputs[0] if found.single else node.outputs, dead))
        steps.reverse()
        made = Program(steps, graph, tuple(used.values()))
        made.types = tuple([self.interned(type) for type in made.types])
        return made


def _bound(capsule: Capsule, node: Node, types: tuple[TensorType, ...], made: tuple[TensorType, ...]) -> Entry:
    return Entry(
        bind_kernel(capsule, node, types),
        made,
        capsules=(capsule,),
        body=None,
        quiet=node.op in MOVES
        or (node.op not in QUOTIENTS and all(type.dtype.is_integer or type.dtype.is_bool for type in types)),
        is_view=capsule.handler.traits.view,
    )


def _looped(accepted: AcceptedPlan, made: tuple[TensorType, ...]) -> Entry:
    """Control flow runs as a program of its own, whose sub-graphs were planned and compiled once."""
    call = Executable(accepted).call
    used = {id(step.capsule): step.capsule for step in all_steps(accepted.plan) if step.node.op is not CONSTANT}
    run = _first_of(call) if len(made) == 1 else call
    return Entry(run, made, capsules=tuple(used.values()), body=None, quiet=False, is_view=False)


def _first_of(program: Callable[..., tuple[Any, ...]]) -> Run:
    return lambda *arrays: program(*arrays)[0]


def make_room(entries: dict[Any, Any]) -> None:
    """Drop the older half when full; what is dropped is selected again when it is next used."""
    if len(entries) >= MOST_ENTRIES:
        for key in list(entries)[: MOST_ENTRIES // 2]:
            entries.pop(key, None)  # another thread may be making room too
