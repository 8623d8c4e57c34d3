"""`debug.stats`: how many nodes of each op a graph has, and what they compute and move, from their types alone.

FLOPs of a node are those of the table in `ir/flops.py`: composites count by their bodies, a scan by its steps, cond by
its dearest branch, a while loop by one step, which is then listed in `uncounted`.

An op without a formula counts 0 and is listed in `uncounted`. Bytes are the sizes of all operands and results of
primitives: what would move if nothing were fused or kept. Complex arithmetic counts as if it were real.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torchlean.ir.flops import flops_of
from torchlean.ir.graph import Graph, sub_graphs


@dataclass(frozen=True, slots=True)
class Statistics:
    """`ops`: nodes by op, composites as one. `flops` and `moved_bytes`: see the module. The rest are sizes in bytes."""

    nodes: int
    ops: tuple[tuple[str, int], ...]
    flops: int
    flops_by_op: tuple[tuple[str, int], ...]
    moved_bytes: int
    input_bytes: int
    output_bytes: int
    constant_bytes: int
    uncounted: tuple[str, ...]

    def __str__(self) -> str:
        counts = ", ".join([f"{name} ×{count}" for name, count in self.ops])
        shares = ", ".join([f"{name} {count:,}" for name, count in self.flops_by_op[:6]])
        lines = [
            f"{self.nodes} nodes: {counts or 'none'}",
            f"flops: {self.flops:,}" + (f" ({shares})" if shares else ""),
            f"bytes: {self.moved_bytes:,} moved, {self.input_bytes:,} in, {self.output_bytes:,} out, "
            f"{self.constant_bytes:,} in constants",
        ]
        if self.uncounted:
            lines.append(f"no formula for: {', '.join(self.uncounted)}")
        return "\n".join(lines)

    __repr__ = __str__


def stats(graph: Graph) -> Statistics:
    """Counts of a graph; see the module for the formulas."""
    ops = Counter([node.op.name for node in graph.nodes])
    total = _count(graph)
    return Statistics(
        nodes=len(graph.nodes),
        ops=tuple(ops.most_common()),
        flops=sum(total.flops.values()),
        flops_by_op=tuple(total.flops.most_common()),
        moved_bytes=total.moved,
        input_bytes=sum([type.nbytes for type in graph.input_types]),
        output_bytes=sum([type.nbytes for type in graph.output_types]),
        constant_bytes=total.constants,
        uncounted=tuple(sorted(total.uncounted)),
    )


@dataclass(slots=True)
class _Total:
    flops: Counter[str]
    uncounted: set[str]
    moved: int = 0
    constants: int = 0

    def add(self, other: _Total, times: int) -> None:
        for name, count in other.flops.items():
            self.flops[name] += times * count
        self.moved += times * other.moved
        self.constants += other.constants
        self.uncounted |= other.uncounted


def _count(graph: Graph) -> _Total:
    """The totals of a graph, those of the graphs its nodes hold included."""
    total = _Total(Counter(), set())
    for node in graph.nodes:
        held = [_count(body) for _, body in sub_graphs(node.params)]
        if held:
            if node.op.name == "cond":
                held = [max(held, key=lambda each: sum(each.flops.values()))]
            if node.op.name == "while":
                total.uncounted.add("while (one step is counted)")
            for each in held:
                total.add(each, getattr(node.params, "length", 1))
            continue
        ins = [graph.types[id] for id in node.inputs]
        outs = [graph.types[id] for id in node.outputs]
        total.moved += sum([type.nbytes for type in (*ins, *outs)])
        if node.op.name == "constant":
            total.constants += outs[0].nbytes
        count = flops_of(node, ins, outs[0])
        if count is None:
            total.uncounted.add(node.op.name)
        elif count:
            total.flops[node.op.name] += count
    return total
