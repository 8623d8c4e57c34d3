"""AcceptedPlan → the source of one flat Python function, one line per step, buffers freed at their last use.

Names are only `v<id>` (values), `k<n>` (kernels, constants) and `f<n>` (functions), so no user text reaches `exec`.
Three economies, none of which changes a bit: constants are made once; a broadcast whose every consumer broadcasts by
itself is left to them; and a ufunc writes over an operand that dies on its line. No result shares memory with an
argument, a constant or another result.

Steps whose handlers share a grouper become one line that calls one fused kernel, whose source is listed below as
comments (`grouping.py`). Each sub-graph of control flow becomes a function of its own, `f<n>`, which the node's kernel
is given in front of its operands. Such a function may return memory of its arguments or of constants; the kernel copies
what it passes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchlean.backends.accept import AcceptedPlan
from torchlean.backends.grouping import Unit, refuse_scattered, units
from torchlean.backends.handler import Expression, Fused, Kernel, Session, Traits, bind_capsule, guard_capsule
from torchlean.backends.plan import Plan
from torchlean.errors import InternalError
from torchlean.ir.graph import Node, is_effect
from torchlean.ir.op import Op
from torchlean.ir.ops.create import FULL
from torchlean.ir.ops.cut import SLICE
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE
from torchlean.ir.ops.spread import BROADCAST
from torchlean.ir.types import Shape, TensorType

_MOVES: frozenset[Op] = frozenset({RESHAPE, TRANSPOSE, REVERSE, BROADCAST, SLICE})
_LEGEND = 60


@dataclass(frozen=True, slots=True)
class Generated:
    """The source of `run(*arrays) -> tuple of arrays`, and the globals it runs in."""

    source: str
    names: dict[str, Any]


@dataclass(slots=True)
class _Line:
    """One statement: `targets = text`, the slots it reads, and, for a ufunc, how an array to write into is added.

    `position` is its step's.
    """

    position: int
    targets: tuple[int, ...]
    text: str
    reads: tuple[int, ...]
    comment: str
    into: str
    fused: Fused | None = None  # what a group of steps became; `position` is then that of its last


def generate(accepted: AcceptedPlan, session: Session | None = None) -> Generated:
    """Bind every kernel of the plan and write the function."""
    refuse_scattered(accepted.plan)
    module = _Module(session)
    body = _written(accepted, module).finish()
    source = "\n".join([*module.legend(), *module.functions, *body, "", *module.listings])
    return Generated(source, module.names)


def _written(accepted: AcceptedPlan, module: _Module) -> _Writer:
    writer = _Writer(accepted, module)
    nodes = accepted.plan.graph.nodes
    ordered = units(accepted.plan)
    for unit in ordered:
        if unit.group is None:
            writer.step(unit.positions[0], nodes[unit.positions[0]])
        else:
            writer.together(unit, is_last=unit is ordered[-1])
    return writer


class _Module:
    """What the functions of one source share: global names, and the functions of sub-graphs written so far."""

    def __init__(self, session: Session | None, *, runs: bool = True) -> None:
        self.session = session
        self.runs = runs  # False where only the lines are wanted: nothing is compiled
        self.names: dict[str, Any] = {}
        self.functions: list[str] = []
        self.listings: list[str] = []  # the sources of fused kernels, as comments
        self.fused: set[str] = set()  # their names
        self._named: dict[int, str] = {}
        self._written: dict[int, str] = {}

    def global_name(self, meaning: Any) -> str:
        known = self._named.get(id(meaning))
        if known is None:
            known = f"k{len(self.names)}"
            self.names[known] = meaning
            self._named[id(meaning)] = known
        return known

    def function(self, accepted: AcceptedPlan) -> str:
        """The name of the function of a sub-graph's plan; equal plans have one."""
        known = self._written.get(id(accepted.plan))
        if known is None:
            lines = _written(accepted, self).finish_inner()
            known = f"f{len(self._written)}"
            self._written[id(accepted.plan)] = known
            self.functions += [f"def {known}{lines[0]}", *lines[1:], ""]
        return known

    def legend(self) -> list[str]:
        lines = [
            f"# {name} = {'a fused kernel' if name in self.fused else _described(meaning)}"
            for name, meaning in list(self.names.items())[:_LEGEND]
        ]
        if len(self.names) > _LEGEND:
            lines.append(f"# … and {len(self.names) - _LEGEND} more")
        return lines


class _Writer:
    """The state of one function. `slot[v]` is the value whose name `v` goes by; `name[slot]` that name."""

    def __init__(self, accepted: AcceptedPlan, module: _Module) -> None:
        plan = accepted.plan
        graph = plan.graph
        count = len(graph.types)
        self.accepted, self.module, self.global_name = accepted, module, module.global_name
        self.plan, self.session, self.types = plan, module.session, graph.types
        self.slot = list(range(count))
        self.name = [f"v{id}" for id in range(count)]
        self.roots: list[tuple[int, ...]] = [(id,) for id in range(count)]
        self.foreign = bytearray(count)  # memory of an argument or a constant
        self.shared = bytearray(count)  # a view of it exists, or it is one
        self.spread = bytearray(count)  # may have strides of 0
        self.arrays = bytearray(count)  # surely an array, of rank 0 too
        self.whole = False  # one fused kernel is the whole function, and returns its results as they are
        self.lines: list[_Line] = []
        self.bound: dict[tuple[Any, ...], Kernel] = {}
        self.guarded: set[tuple[Any, ...]] = set()
        self.constants: dict[int, Any] = {}
        for id in graph.inputs:
            self.foreign[id] = 1
        self.lazy = _left_to_consumers(plan)
        self.pointwise = _only_pointwise_consumers(plan)

    # -- kernels -----------------------------------------------------------------------------------------
    def kernel(self, node: Node, position: int) -> Kernel:
        capsule = self.plan.steps[position].capsule
        types = self.types
        key = (id(capsule), node.params, tuple([types[id] for id in node.inputs]))
        known = self.bound.get(key)
        if known is None:
            known = bind_capsule(capsule, node, types, self.session)
            self.bound[key] = known
        return known

    def guard(self, node: Node, position: int) -> None:
        """What binding checks, once for equal nodes."""
        capsule = self.plan.steps[position].capsule
        types = [tuple([self.types[id] for id in ids]) for ids in (node.inputs, node.outputs)]
        key = (id(capsule), node.params, *types)
        if key not in self.guarded:
            guard_capsule(capsule, node, self.types)
            self.guarded.add(key)

    def traits(self, position: int) -> Traits:
        return self.plan.steps[position].capsule.handler.traits

    # -- steps -----------------------------------------------------------------------------------------------------
    def step(self, position: int, node: Node) -> None:
        out = node.outputs[0]
        if node.op is FULL:
            self.kernel(node, position)  # the guard of types acts at binding
            self.constant(out, self.filled(node, out))
        elif not node.inputs and not self.plan.steps[position].inner and not is_effect(node):
            kernel = self.kernel(node, position)
            results = (kernel.function(0) if isinstance(kernel, Expression) else kernel)()
            for id, result in zip(node.outputs, results if len(node.outputs) > 1 else (results,), strict=True):
                self.constant(id, result)
        elif node.op in _MOVES and self.slot[node.inputs[0]] in self.constants:
            kernel = self.kernel(node, position)
            moved = kernel.function(1) if isinstance(kernel, Expression) else kernel
            self.constant(out, moved(self.constants[self.slot[node.inputs[0]]]))
        elif node.op is BROADCAST and (self.lazy[out] or self.types[out] == self.types[node.inputs[0]]):
            self.kernel(node, position)
            self.leave(position, node)
        else:
            self.call(position, node)

    def filled(self, node: Node, out: int) -> Any:
        entry = node.params.entry
        if self.lazy[out]:
            return entry
        return np.broadcast_to(entry, node.params.shape) if self.pointwise[out] else np.full(node.params.shape, entry)

    def constant(self, id: int, value: Any) -> None:
        array = np.asarray(value).view()
        array.flags.writeable = False
        self.constants[id] = array
        self.name[id] = self.global_name(array)
        self.foreign[id] = self.shared[id] = 1

    def leave(self, position: int, node: Node) -> None:
        """A broadcast its consumers do themselves: another name for the operand, or a reshape that puts in 1s."""
        source, out = node.inputs[0], node.outputs[0]
        placed = _placed(node.params.axes, self.types[source].shape, len(self.types[out].shape))
        self.alias(out, (source,))
        if placed == self.types[source].shape:
            self.slot[out] = self.slot[source]
            return
        comment = f"%{out} {self.plan.steps[position].capsule.name}, left to its consumers"
        text = f"{self.name[self.slot[source]]}.reshape({placed!r})"
        self.lines.append(_Line(position, (out,), text, (self.slot[source],), comment, ""))

    def call(self, position: int, node: Node) -> None:
        kernel, traits = self.kernel(node, position), self.traits(position)
        slots = tuple([self.slot[id] for id in node.inputs])
        operands = [self.name[slot] for slot in slots]
        step = self.plan.steps[position]
        if step.inner:
            operands = [self.module.function(inner) for inner in self.accepted.inner(step)] + operands
        into = ""
        if traits.inplace and isinstance(kernel, np.ufunc) and len(node.outputs) == 1:
            into = ", out=" if kernel in (np.maximum, np.minimum) else ", "  # of these NumPy wants it by name
        if isinstance(kernel, Expression):
            text = kernel.text(operands, self.global_name)
        else:
            text = f"{self.global_name(kernel)}({', '.join(operands)})"
        for out in node.outputs:
            if traits.view:
                self.alias(out, node.inputs)
                self.spread[out] = node.op is BROADCAST or any(self.spread[id] for id in node.inputs)
        names = ", ".join(f"%{id}" for id in node.outputs)
        comment = f"{names} {self.plan.steps[position].capsule.name}"
        self.lines.append(_Line(position, node.outputs, text, slots, comment, into))

    def together(self, unit: Unit, *, is_last: bool) -> None:
        """One line for a group of steps. Its results are arrays of their own."""
        group, grouper = unit.group, unit.grouper
        assert group is not None
        assert grouper is not None
        for node, position in zip(group.nodes, unit.positions, strict=True):
            self.guard(node, position)
        fused = grouper.fuse(group)
        self.whole = is_last and not self.lines and group.outputs == self.plan.graph.outputs
        kernel = fused.kernel(packs=self.whole) if self.module.runs else _not_compiled
        name = self.global_name(kernel)
        slots = tuple([self.slot[id] for id in group.inputs])
        text = f"{name}({', '.join([self.name[slot] for slot in slots])})"
        names = ", ".join([f"%{id}" for id in group.outputs])
        count = len(group.nodes)
        comment = f"{names}: {count} node{'s' if count > 1 else ''} in one kernel, listed below"
        self.module.listings += [f"# {name}:", *[f"# | {line}".rstrip() for line in fused.source.splitlines()]]
        self.module.fused.add(name)
        for id in group.outputs:
            self.arrays[id] = 1
        self.lines.append(_Line(unit.positions[-1], group.outputs, text, slots, comment, "", fused))

    def alias(self, out: int, operands: tuple[int, ...]) -> None:
        roots = dict.fromkeys(root for id in operands for root in self.roots[id])
        self.roots[out] = tuple(roots)
        self.foreign[out] = any(self.foreign[id] for id in operands)
        self.shared[out] = 1
        for root in roots:
            self.shared[root] = 1
        for id in operands:
            self.shared[id] = 1

    # -- text ------------------------------------------------------------------------------------------------------
    def finish(self) -> list[str]:
        """The lines of the function `run`."""
        if self.whole:
            (line,) = self.lines
            return [f"def run({self.arguments()}):", f"    return {line.text}  # {line.comment}"]
        if self.lines and all([line.fused is not None for line in self.lines]):  # C raises no warnings
            return [
                f"def run({self.arguments()}):",
                *self.statements("    "),
                f"    return ({_tuple(self.results())})",
            ]
        state = self.global_name(np.errstate)
        head = [f"def run({self.arguments()}):", f'    with {state}(all="ignore"):']
        return [*head, *self.statements("        "), f"        return ({_tuple(self.results())})"]

    def finish_inner(self) -> list[str]:
        """The lines of the function of a sub-graph, from its parameters on; its caller ignores warnings."""
        returned = [self.name[self.slot[id]] for id in self.plan.graph.outputs]
        comment = f"  # {len(self.plan.steps)} kernels"
        if self.whole:
            return [f"({self.arguments()}):{comment}", f"    return {self.lines[0].text}  # {self.lines[0].comment}"]
        return [f"({self.arguments()}):{comment}", *self.statements("    "), f"    return ({_tuple(returned)})"]

    def arguments(self) -> str:
        return ", ".join(f"v{id}" for id in self.plan.graph.inputs)

    def statements(self, indent: str) -> list[str]:
        dying = self.deaths({self.slot[id] for id in self.plan.graph.outputs})
        return [indent + self.statement(line, dead) for line, dead in zip(self.lines, dying, strict=True)]

    def results(self) -> list[str]:
        """The returned expressions; copied where the memory belongs to someone else."""
        seen: set[int] = set()
        texts: list[str] = []
        for id in self.plan.graph.outputs:
            name = self.name[self.slot[id]]
            borrowed = self.foreign[id] or self.spread[id] or not seen.isdisjoint(self.roots[id])
            seen.update(self.roots[id])
            if not self.types[id].shape and not (self.arrays[id] and not borrowed):
                texts.append(f"{self.global_name(np.array if borrowed else np.asarray)}({name})")
            else:
                texts.append(f"{name}.copy()" if borrowed else name)
        return texts

    def deaths(self, kept: set[int]) -> list[tuple[int, ...]]:
        """For each line the slots whose last use it is; arguments and constants are not ours to free."""
        inputs = set(self.plan.graph.inputs)
        seen = set(kept)
        dead: list[tuple[int, ...]] = []
        for line in reversed(self.lines):
            last: list[int] = []
            for slot in (*line.reads, *line.targets):
                if slot not in seen:
                    seen.add(slot)
                    if slot not in inputs and slot not in self.constants:
                        last.append(slot)
            dead.append(tuple(last))
        dead.reverse()
        return dead

    def statement(self, line: _Line, dead: tuple[int, ...]) -> str:
        text = line.text
        over = self.overwritten(line, dead)
        if over is not None:
            text = f"{text[:-1]}{line.into}{self.name[over]})"
        freed = f"; del {', '.join(self.name[slot] for slot in dead)}" if dead else ""
        targets = ", ".join(self.name[id] for id in line.targets)
        return f"{targets} = {text}{freed}  # {line.comment}"

    def overwritten(self, line: _Line, dead: tuple[int, ...]) -> int | None:
        """The dying operand that the line writes its result into, if it does."""
        if line.into:
            for slot in dead:
                if slot in line.reads and self.overwritable(slot, self.types[line.targets[0]]):
                    return slot
        return None

    def overwritable(self, slot: int, wanted: TensorType) -> bool:
        """Whether a dying value is an array of its own, of the result's type."""
        return not self.shared[slot] and not self.foreign[slot] and bool(wanted.shape) and self.types[slot] == wanted


def _not_compiled(*operands: Any) -> Any:
    """Stands for a kernel where only the lines of a program are wanted."""
    raise InternalError("a program written only to be looked at was run")


def _tuple(texts: Sequence[str]) -> str:
    return ", ".join(texts) + ("," if len(texts) == 1 else "")


def _left_to_consumers(plan: Plan) -> bytearray:
    """Which broadcast and full values need not exist.

    Every consumer must broadcast by itself, to exactly this shape, and still have an operand that has it for real.
    """
    graph = plan.graph
    lazy = bytearray(len(graph.types))
    pointwise = _only_pointwise_consumers(plan)
    for node in graph.nodes:
        if node.op is BROADCAST or node.op is FULL:
            out = node.outputs[0]
            lazy[out] = pointwise[out]
            if node.op is BROADCAST and graph.types[out] == graph.types[node.inputs[0]]:
                lazy[out] = 0  # it has the shape already
    full = {node.outputs[0] for node in graph.nodes if node.op is FULL}
    for node in graph.nodes:
        if node.inputs and all(lazy[id] for id in node.inputs) and graph.types[node.outputs[0]].shape:
            spared = next((id for id in node.inputs if id in full), node.inputs[0])
            lazy[spared] = 0
    return lazy


def _only_pointwise_consumers(plan: Plan) -> bytearray:
    """Which values are read only by kernels that accept operands before broadcasting, and are not returned."""
    graph = plan.graph
    found = bytearray(b"\x01") * len(graph.types)
    for id in graph.outputs:
        found[id] = 0
    for step in plan.steps:
        node = step.node
        accepts = step.capsule.handler.traits.accepts_unspread
        shape = graph.types[node.outputs[0]].shape
        for id in node.inputs:
            if not accepts or graph.types[id].shape != shape:
                found[id] = 0
    return found


def _placed(axes: tuple[int, ...], shape: Shape, rank: int) -> Shape:
    """The operand's shape with the 1s NumPy's trailing alignment needs; unchanged if it is aligned already."""
    if axes == tuple(range(rank - len(shape), rank)):
        return shape
    placed = [1] * rank
    for axis, size in zip(axes, shape, strict=True):
        placed[axis] = size
    return tuple(placed[axes[0] :])


def _described(meaning: Any) -> str:
    if isinstance(meaning, np.ndarray):
        entries = f" {meaning.item()!r}" if meaning.ndim == 0 else ""
        return f"constant {meaning.dtype}{list(meaning.shape)}{entries}"
    if isinstance(meaning, np.ufunc):
        return f"numpy.{meaning.__name__}"
    owner = getattr(meaning, "__self__", None)
    prefix = f"numpy.{owner.__name__}." if isinstance(owner, np.ufunc) else ""
    module = getattr(meaning, "__module__", None) or ""
    label = getattr(meaning, "__qualname__", None) or str(meaning)
    if prefix:
        return prefix + label.rsplit(".", 1)[-1]
    return f"{module}.{label}" if module and not isinstance(meaning, np.dtype) else str(label)
