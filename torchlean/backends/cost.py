"""What a plan costs, before it runs: operations, bytes moved, and the most memory held, by step and in all.

Operations are those of the table in `ir/flops.py`; memory is that of `memory.py`. Bytes moved, by step:

    views (reshape, transpose, slice, broadcast, …)  nothing, unless strides force a copy
    what is made when the program is lowered         nothing: constants, full, and what only moves them
    gather, dynamic_slice                            the entries taken, and the positions
    dynamic_update_slice                             all entries, as they are copied
    control flow                                     what its sub-graphs move: a scan times its steps, and its stacked
                                                     rows once more; cond its dearest branch; while one step
    every other kernel                               its operands as they are in memory, and its results

A kernel that reads an operand twice, or keeps a workspace, moves more than that; a cache may save some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torchlean.backends.accept import AcceptedPlan
from torchlean.backends.analyses import Analysis, analyses, lines
from torchlean.backends.handler import Session
from torchlean.backends.memory import LineMemory, Memory, memory_of
from torchlean.backends.plan import Plan, Step
from torchlean.backends.vocabulary import label
from torchlean.ir.flops import Flops, flops_of_node
from torchlean.ir.graph import Graph
from torchlean.ir.ops.branches import COND
from torchlean.ir.ops.dynamic import DYNAMIC_SLICE
from torchlean.ir.ops.gather import GATHER
from torchlean.ir.ops.scanning import SCAN
from torchlean.ir.printer import folded_html

MAX_LINES = 200


@dataclass(frozen=True, slots=True)
class StepCost:
    """One step of a plan. `high`: bytes held at its highest; `live`: bytes held after it; both of arrays the program
    makes. `made` and `workspace` are its own part of `high`.
    """

    position: int
    outputs: tuple[int, ...]
    op: str
    capsule: str
    flops: int
    transcendental: int
    read: int
    written: int
    made: int
    workspace: int
    high: int
    live: int


@dataclass(frozen=True, slots=True)
class Cost:
    """A plan's cost. `peak_bytes` is what a run holds at most, results included, arguments and constants not.

    `uncounted`: ops without a formula for their operations; `undeclared`: capsules that say nothing of a workspace;
    `analyses`: what compilers say of the groups they compiled. Prints as a table.
    """

    name: str
    steps: tuple[StepCost, ...]
    peak_bytes: int
    argument_bytes: int
    output_bytes: int
    constant_bytes: int
    uncounted: tuple[str, ...]
    undeclared: tuple[str, ...]
    analyses: tuple[Analysis, ...] = ()

    @property
    def flops(self) -> int:
        """Floating-point operations of one run."""
        return sum([step.flops for step in self.steps])

    @property
    def transcendental(self) -> int:
        """Those among them that are values of exp, log, sin, …"""
        return sum([step.transcendental for step in self.steps])

    @property
    def bytes_read(self) -> int:
        return sum([step.read for step in self.steps])

    @property
    def bytes_written(self) -> int:
        return sum([step.written for step in self.steps])

    def text(self, *, max_lines: int | None = MAX_LINES) -> str:
        """The totals, a row per step, what was not counted, and what compilers count."""
        text = [
            f"cost of {self.name}: {self.flops:,} flops ({self.transcendental:,} transcendental), "
            f"{self.bytes_read:,} bytes read, {self.bytes_written:,} written",
            f"memory: {self.peak_bytes:,} bytes at most, beside {self.argument_bytes:,} of arguments and "
            f"{self.constant_bytes:,} of constants; {self.output_bytes:,} are results",
        ]
        shown = self.steps if max_lines is None else self.steps[:max_lines]
        rows = [("step", "", "flops", "read", "written", "workspace", "high", "live")]
        rows += [_row(step) for step in shown]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1]), *map(str.rjust, row[2:], widths[2:])]
            text.append("  " + "  ".join(cells))
        if len(shown) < len(self.steps):
            text.append(f"  … {len(self.steps) - len(shown)} more steps …")
        if self.uncounted:
            text.append(f"  no formula for the operations of: {', '.join(self.uncounted)}")
        if self.undeclared:
            text.append(f"  workspace not declared, taken as 0: {', '.join(self.undeclared)}")
        return "\n".join([*text, *lines(self.analyses)])

    def as_json(self) -> dict[str, Any]:
        """The cost as plain data."""
        return {
            "name": self.name,
            "flops": self.flops,
            "transcendental": self.transcendental,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "peak_bytes": self.peak_bytes,
            "argument_bytes": self.argument_bytes,
            "output_bytes": self.output_bytes,
            "constant_bytes": self.constant_bytes,
            "uncounted": list(self.uncounted),
            "undeclared": list(self.undeclared),
            "analyses": [analysis.as_json() for analysis in self.analyses],
            "steps": [
                {
                    "position": step.position,
                    "outputs": list(step.outputs),
                    "op": step.op,
                    "capsule": step.capsule,
                    "flops": step.flops,
                    "transcendental": step.transcendental,
                    "read": step.read,
                    "written": step.written,
                    "made": step.made,
                    "workspace": step.workspace,
                    "high": step.high,
                    "live": step.live,
                }
                for step in self.steps
            ],
        }

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Cost of {self.name}: {self.flops:,} flops, {self.peak_bytes:,} bytes at most>"

    def _repr_html_(self) -> str:
        return folded_html(repr(self).strip("<>"), self.text())


def _row(step: StepCost) -> tuple[str, ...]:
    names = ",".join([f"%{id}" for id in step.outputs])
    numbers = (step.flops, step.read, step.written, step.workspace, step.high, step.live)
    return (f"{names} = {step.op}", step.capsule, *[f"{number:,}" for number in numbers])


def cost(accepted: AcceptedPlan, session: Session | None = None) -> Cost:
    """The cost of one run of the plan's program."""
    plan = accepted.plan
    memory = memory_of(accepted, session)
    by_position = {line.position: line for line in memory.lines}
    known: dict[int, Flops] = {}
    inner = dict(memory.inner)
    steps: list[StepCost] = []
    uncounted: set[str] = set()
    live = 0
    for position, step in enumerate(plan.steps):
        flops = flops_of_node(plan.graph, step.node, known)
        uncounted |= flops.uncounted
        line = by_position.get(position)  # none: made when the program is lowered, or left to its consumers
        read, written = (0, 0) if line is None else _moved(plan.graph, step, line, inner.get(position, ()))
        if line is not None:
            live = line.live
        steps.append(
            StepCost(
                position=position,
                outputs=step.node.outputs,
                op=label(step.node.op),
                capsule=step.capsule.name,
                flops=flops.count,
                transcendental=flops.transcendental,
                read=read,
                written=written,
                made=0 if line is None else line.made,
                workspace=0 if line is None else line.workspace,
                high=live if line is None else line.high,
                live=live,
            )
        )
    return Cost(
        name=plan.graph.name,
        steps=tuple(steps),
        peak_bytes=memory.peak,
        argument_bytes=_size(plan.graph, plan.graph.inputs),
        output_bytes=_size(plan.graph, plan.graph.outputs),
        constant_bytes=memory.constants,
        uncounted=tuple(sorted(uncounted)),
        undeclared=tuple(sorted(memory.undeclared)),
        analyses=analyses(plan, [step.flops for step in steps], [step.read + step.written for step in steps]),
    )


def _size(graph: Graph, ids: Sequence[int]) -> int:
    return sum([graph.types[id].nbytes for id in ids])


def _moved(graph: Graph, step: Step, line: LineMemory, inner: Sequence[Memory]) -> tuple[int, int]:
    """Bytes a step reads and writes."""
    node = step.node
    results = _size(graph, node.outputs)
    if not step.inner or not inner:  # one kernel for all, sub-graphs included: what it moves inside is its own
        if node.op in (GATHER, DYNAMIC_SLICE):
            return results + _size(graph, node.inputs[1:]), results
        return line.read, line.written
    parts = [_inner_moved(plan, memory) for plan, memory in zip(step.inner, inner, strict=True)]
    if node.op is COND:
        return max(parts, key=sum)
    read, written = sum([part[0] for part in parts]), sum([part[1] for part in parts])
    if node.op is SCAN:
        stacked = _size(graph, node.outputs[node.params.carries :])
        return read * node.params.length + stacked, written * node.params.length + stacked
    return read, written


def _inner_moved(plan: Plan, memory: Memory) -> tuple[int, int]:
    inner = dict(memory.inner)
    pairs = [_moved(plan.graph, plan.steps[line.position], line, inner.get(line.position, ())) for line in memory.lines]
    return sum([read for read, _ in pairs]), sum([written for _, written in pairs])
