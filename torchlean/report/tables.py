"""Plans, costs and graphs as tables: what was passed over, expanded or admitted with a note, and what it costs."""

from __future__ import annotations

from collections import Counter

from torchlean.backends.collectives import Collectives, row_text
from torchlean.backends.cost import Cost
from torchlean.backends.plan import Plan, all_steps
from torchlean.ir.graph import Graph, sub_graphs
from torchlean.report.view import Table

DEAREST = 20  # steps listed in the table of costs


def refusal_table(plan: Plan) -> Table:
    """Every reason for which a capsule before the chosen one was passed over, and at how many nodes."""
    counts: dict[tuple[str, str, str], int] = {}
    for step in all_steps(plan):
        for refusal in step.refused:
            key = (refusal.capsule, str(refusal.failure), refusal.text)
            counts[key] = counts.get(key, 0) + 1
    return Table(
        title="Passed over",
        about="Capsules that come before the chosen one in the profile, and why each could not serve."
        if counts
        else "No capsule was passed over: each node runs on the first one that implements its op.",
        head=("capsule", "reason", "in full", "nodes"),
        rows=tuple([(*key, str(count)) for key, count in counts.items()]),
    )


def evidence_tables(plan: Plan) -> tuple[Table, ...]:
    """What was admitted although its evidence is not fresh; no table when all of it is."""
    notes = plan.evidence_notes()
    if not notes:
        return ()
    about = "Capsules that were admitted although the records behind their claims are not fresh here."
    return (Table(title="Evidence", about=about, head=("note",), rows=tuple([(note,) for note in notes])),)


def expansion_table(plan: Plan) -> Table:
    """The composites that were replaced by their bodies."""
    return Table(
        title="Expanded composites",
        about="Composites without an admissible capsule of their own; their bodies were planned instead."
        if plan.expansions
        else "No composite was expanded.",
        head=("composite", "times", "why"),
        rows=tuple(
            [
                (made.op, str(made.count), "; ".join([r.text for r in made.refused]) or "no capsule implements it")
                for made in plan.expansions
            ]
        ),
    )


def op_table(graph: Graph) -> Table:
    """How often each op occurs in a graph and those it holds."""
    counts: Counter[str] = Counter()
    waiting = [graph]
    while waiting:
        for node in waiting.pop().nodes:
            counts[node.op.name] += 1
            if not hasattr(node.params, "attributes"):
                waiting += [held for _, held in sub_graphs(node.params)]
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Table(
        title="Ops",
        about="How often each op occurs, in the bodies of control flow too; composites count as one.",
        head=("op", "nodes"),
        rows=tuple([(op, str(count)) for op, count in rows]),
    )


def cost_table(cost: Cost) -> Table:
    """The totals of a program, and its dearest steps."""
    dearest = sorted(cost.steps, key=lambda step: (-step.flops, -(step.read + step.written), step.position))
    rows = [_cost_row("all", "", cost.flops, cost.bytes_read, cost.bytes_written, cost.peak_bytes)]
    for step in dearest[:DEAREST]:
        ids = ",".join([f"%{id}" for id in step.outputs])
        rows.append(_cost_row(f"{ids} {step.op}".strip(), step.capsule, step.flops, step.read, step.written, step.high))
    about = (
        f"Worked out from the types, before anything runs: {cost.peak_bytes:,} bytes at most, beside "
        f"{cost.argument_bytes:,} of arguments and {cost.constant_bytes:,} of constants."
    )
    if len(cost.steps) > DEAREST:
        about += f" The {DEAREST} dearest of {len(cost.steps)} steps."
    about += f" No formula for the operations of: {', '.join(cost.uncounted)}." if cost.uncounted else ""
    about += f" Workspace not declared, taken as 0: {', '.join(cost.undeclared)}." if cost.undeclared else ""
    head = ("step", "capsule", "operations", "bytes read", "bytes written", "bytes held at most")
    return Table(title="Cost", about=about, head=head, rows=tuple(rows))


def collectives_table(found: Collectives) -> Table:
    """What the devices of a mesh exchange, and where."""
    totals = [f"{count} {kind} of {size:,} bytes" for kind, (count, size) in found.totals().items()]
    return Table(
        title="Collectives",
        about=f"Read from the compiled module, bytes on one device: {', '.join(totals) or 'none'}.",
        head=("kind", "type", "bytes", "devices", "times", "where"),
        rows=tuple([row_text(row) for row in found.rows]),
    )


def _cost_row(name: str, capsule: str, *numbers: int) -> tuple[str, ...]:
    return (name, capsule, *[f"{number:,}" for number in numbers])
