"""How much memory an accepted plan's program holds at each line, from its types and from what its kernels declare.

The lines, their in-place results and the names that die on them are the code generator's own; kernels are bound again
to get them. What is counted: arrays that the program makes, freed at their last use, the declared workspace, and what
fused kernels keep of theirs from one call to the next. Not counted: arguments and constants (the caller's), and what
Python objects and NumPy's bookkeeping take. A result that may share memory is taken to do so where strides allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from torchlean.backends.accept import AcceptedPlan
from torchlean.backends.codegen import _Line, _Module, _Writer, _written
from torchlean.backends.handler import Session, Workspace
from torchlean.backends.plan import Step
from torchlean.backends.strides import Strides, contiguous, reshaped
from torchlean.ir.op import Op
from torchlean.ir.ops.branches import COND
from torchlean.ir.ops.create import CONSTANT
from torchlean.ir.ops.cut import SLICE
from torchlean.ir.ops.elementwise import STOP_GRADIENT
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE
from torchlean.ir.ops.remat import CHECKPOINT, CHECKPOINT_NAME
from torchlean.ir.ops.repeating import WHILE
from torchlean.ir.ops.scanning import SCAN
from torchlean.ir.ops.spread import BROADCAST
from torchlean.ir.types import Shape

VIEWS: frozenset[Op] = frozenset(
    {RESHAPE, TRANSPOSE, REVERSE, BROADCAST, SLICE, STOP_GRADIENT, CHECKPOINT_NAME, CONSTANT}
)


@dataclass(frozen=True, slots=True)
class LineMemory:
    """Bytes of one line of the program, which runs the step at `position`.

    `read`: sizes of the arrays its operands really are; `written`: of its results, 0 for views; `made`: of new arrays;
    `workspace`: what the kernel holds beside them; `high`: everything at the line's highest; `live`: what stays.
    """

    position: int
    read: int
    written: int
    made: int
    workspace: int
    high: int
    live: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The lines of a program. `most`: what is held at most of arrays, results and their copies included, and of
    workspace that is given back; `kept`: the workspace that fused kernels keep; `undeclared`: capsules without one.
    """

    lines: tuple[LineMemory, ...]
    most: int
    kept: int
    constants: int
    undeclared: frozenset[str]
    inner: tuple[tuple[int, tuple[Memory, ...]], ...]

    @property
    def peak(self) -> int:
        """The most that is held."""
        return self.most + self.kept


def memory_of(accepted: AcceptedPlan, session: Session | None = None) -> Memory:
    """The memory of the program `generate` makes of the plan."""
    return _Simulation(accepted, session, {}, is_inner=False).run()


class _Simulation:
    """One function of the program: which storages are held, by how many live names each."""

    def __init__(
        self, accepted: AcceptedPlan, session: Session | None, known: dict[int, Memory], *, is_inner: bool
    ) -> None:
        self.accepted, self.session, self.known, self.is_inner = accepted, session, known, is_inner
        self.writer: _Writer = _written(accepted, _Module(session, runs=False))
        graph = accepted.plan.graph
        self.types = graph.types
        self.storages: list[tuple[int, ...]] = [()] * len(graph.types)  # none: the memory of somebody else
        self.strides: list[Strides] = [contiguous(type.shape) for type in graph.types]
        self.held: dict[int, int] = {}  # storage → bytes
        self.live = 0  # their sum
        self.holders: dict[int, int] = {}  # storage → live names
        self.kept = 0  # by fused kernels, from one call to the next
        self.undeclared: set[str] = set()
        self.inner: list[tuple[int, tuple[Memory, ...]]] = []

    def run(self) -> Memory:
        writer = self.writer
        graph = self.accepted.plan.graph
        dying = writer.deaths({writer.slot[id] for id in graph.outputs})
        lines: list[LineMemory] = []
        most = 0
        for line, dead in zip(writer.lines, dying, strict=True):
            step = self.accepted.plan.steps[line.position]
            over = writer.overwritten(line, dead)
            made = self._make(line, step, over)
            if (
                line.fused is None and step.node.op in VIEWS
            ):  # what is made is a copy, where strides do not allow a view
                read = written = made
            else:
                read = sum([self._size(slot) for slot in dict.fromkeys(line.reads)])
                written = sum([self.types[id].nbytes for id in line.targets])
            kept, extra = self.kept, 0
            if line.fused is None:
                extra = self._extra(line.position, step)
            elif line.fused.keeps:
                self.kept += line.fused.workspace
            else:
                extra = line.fused.workspace
            most = max(most, self.live + extra)
            workspace = extra + self.kept - kept
            high = self.live + workspace
            for slot in dead:
                self._drop(slot)
            lines.append(LineMemory(line.position, read, written, made, workspace, high, self.live))
        return Memory(
            tuple(lines),
            max(most, self.live + (0 if self.is_inner else self._copies())),
            self.kept,
            sum([self._size(id) for id in writer.constants]),
            frozenset(self.undeclared),
            tuple(self.inner),
        )

    def _size(self, slot: int) -> int:
        """The bytes behind a value; of a constant that repeats one entry, that entry."""
        array = self.writer.constants.get(slot)
        if array is None:
            return self.types[slot].nbytes
        kept = [size for size, step in zip(array.shape, array.strides, strict=True) if step]
        return int(prod(kept) * array.itemsize)

    # -- storages --------------------------------------------------------------------------------------------------
    def _make(self, line: _Line, step: Step, over: int | None) -> int:
        """Give the results storage; the bytes that are new."""
        node = step.node
        if line.fused is not None:
            return self._make_all(line)
        if over is not None:
            (out,) = line.targets
            self._hold(out, self.storages[over])
            self.strides[out] = self.strides[over]
            return 0
        if node.op in VIEWS:
            strides = self._viewed(step, line.reads[0]) if line.reads else self.strides[line.targets[0]]
            if strides is not None:
                (out,) = line.targets
                self._hold(out, self.storages[line.reads[0]] if line.reads else ())
                self.strides[out] = strides
                return 0
        made = 0
        for out in line.targets:
            made += self.types[out].nbytes
            self.live += self.types[out].nbytes
            self.held[out] = self.types[out].nbytes
            self._hold(out, (out,))
            if step.capsule.handler.traits.accepts_unspread:
                self.strides[out] = self._like_operands(line.reads, self.types[out].shape)
        return made

    def _make_all(self, line: _Line) -> int:
        """Results of a fused kernel: arrays of their own."""
        for out in line.targets:
            self.live += self.types[out].nbytes
            self.held[out] = self.types[out].nbytes
            self._hold(out, (out,))
        return sum([self.types[out].nbytes for out in line.targets])

    def _hold(self, slot: int, storages: tuple[int, ...]) -> None:
        self.storages[slot] = storages
        for storage in storages:
            self.holders[storage] = self.holders.get(storage, 0) + 1

    def _drop(self, slot: int) -> None:
        for storage in self.storages[slot]:
            self.holders[storage] -= 1
            if not self.holders[storage]:
                self.live -= self.held.pop(storage)
        self.storages[slot] = ()

    def _copies(self) -> int:
        """What the return statement copies."""
        writer, seen, made = self.writer, set[int](), 0
        for id in self.accepted.plan.graph.outputs:
            if writer.foreign[id] or writer.spread[id] or not seen.isdisjoint(writer.roots[id]):
                made += self.types[id].nbytes
            seen.update(writer.roots[id])
        return made

    # -- layout ----------------------------------------------------------------------------------------------------
    def _viewed(self, step: Step, operand: int) -> Strides | None:
        """The strides of a view of the operand, or None where NumPy has to copy."""
        node, given = step.node, self.strides[operand]
        shape = self.types[node.inputs[0]].shape
        if self.types[operand].shape != shape:  # left unspread by the generator: not tracked
            return self.strides[node.outputs[0]]
        params = node.params
        if node.op is TRANSPOSE:
            return tuple([given[axis] for axis in params.axes])
        if node.op is REVERSE:
            return tuple([-step if axis in params.axes else step for axis, step in enumerate(given)])
        if node.op is SLICE:
            return tuple([step * by for step, by in zip(given, params.strides, strict=True)]) if given else given
        if node.op is BROADCAST:
            spread = dict(zip(params.axes, zip(given, shape, strict=True), strict=True))
            placed = [spread.get(axis, (0, 1)) for axis in range(len(params.shape))]
            return tuple([0 if size == 1 else stride for stride, size in placed])
        if node.op is RESHAPE:
            return reshaped(shape, given, params.shape)
        return given

    def _like_operands(self, reads: Sequence[int], shape: Shape) -> Strides:
        """NumPy's own choice for a ufunc's result: axes in the order of the first operand's strides."""
        for slot in reads:
            if self.types[slot].shape == shape:
                order = sorted(range(len(shape)), key=lambda axis: (-abs(self.strides[slot][axis]), axis))
                made = [0] * len(shape)
                step = 1
                for axis in reversed(order):
                    made[axis] = step
                    step *= shape[axis]
                return tuple(made)
        return contiguous(shape)

    # -- workspace -------------------------------------------------------------------------------------------------
    def _extra(self, position: int, step: Step) -> int:
        """What the kernel holds beside operands and results, with what the functions of its sub-graphs do."""
        if step.inner:
            return self._of_control(position, step)
        declared: Workspace | None = getattr(step.capsule.handler, "workspace", None)
        known = None
        if declared is not None:
            known = declared(step.node.params, tuple([self.types[id] for id in step.node.inputs]))
        if known is None and step.node.op not in VIEWS:
            self.undeclared.add(step.capsule.name)
        return known or 0

    def _of_control(self, position: int, step: Step) -> int:
        node = step.node
        parts = tuple([self._inner(accepted) for accepted in self.accepted.inner(step)])
        self.inner.append((position, parts))
        results = sum([self.types[id].nbytes for id in node.outputs])
        highest = max([part.most for part in parts])
        if node.op in (COND, CHECKPOINT):
            return max(0, highest - results)
        carries = sum([self.types[id].nbytes for id in node.outputs[: getattr(node.params, "carries", None)]])
        if node.op is SCAN:  # the stacks are there; the carry is made by each step while the last step's results live
            rows = (results - carries) // max(1, node.params.length)
            before = carries + rows if node.params.length > 1 else 0
            return max(0, highest + before - carries)
        if node.op is WHILE:
            return highest
        self.undeclared.add(step.capsule.name)
        return highest

    def _inner(self, accepted: AcceptedPlan) -> Memory:
        found = self.known.get(id(accepted.plan))
        if found is None:
            made = _Simulation(accepted, self.session, self.known, is_inner=True).run()
            found = self.known[id(accepted.plan)] = made
            self.kept += found.kept
        self.undeclared |= found.undeclared
        return found
