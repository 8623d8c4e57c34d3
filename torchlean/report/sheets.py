"""Graphs and plans → sheets of boxes. Every graph that a node holds is a sheet of its own, equal ones only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import assert_never

from torchlean.backends.audit import obligations
from torchlean.backends.capsule import (
    Bitwise,
    Capsule,
    Normwise,
    OfFinite,
    Relative,
    TestSuite,
    Ulp,
    Unstated,
    ValueBound,
)
from torchlean.backends.cost import StepCost
from torchlean.backends.plan import Plan, Step, all_steps
from torchlean.backends.vocabulary import label
from torchlean.evidence.standing import Standing, State
from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.location import NOWHERE
from torchlean.ir.printer import params_text
from torchlean.report.sources import SourceLines
from torchlean.report.view import Box, CapsuleFacts, Kind, Sheet

MAX_NODES = 5000  # drawn of one graph; the rest is counted


class Sheets:
    """The sheets and capsules of one page, collected graph by graph."""

    def __init__(self, max_nodes: int | None = MAX_NODES) -> None:
        self.max_nodes = max_nodes
        self._sheets: list[Sheet | None] = []
        self._known: dict[tuple[Graph, bool], int] = {}
        self._capsules: dict[int, tuple[int, Capsule, Mapping[str, Standing]]] = {}
        self._nodes: Counter[int] = Counter()
        self._lines = SourceLines()

    def sheets(self) -> tuple[Sheet, ...]:
        return tuple([sheet for sheet in self._sheets if sheet is not None])

    def capsules(self) -> tuple[CapsuleFacts, ...]:
        """In order of first use."""
        return tuple([facts(capsule, self._nodes[at], held) for at, capsule, held in self._capsules.values()])

    def add_graph(
        self, graph: Graph, *, title: str = "", place: str = "", labels: Labels | None = None, parent: int | None = None
    ) -> int:
        """Add a graph and those its nodes hold; the number of its sheet."""
        return self._add(graph, None, title or graph.name, place, parent, labels or Labels())

    def add_plan(
        self, plan: Plan, *, title: str = "", labels: Labels | None = None, costs: Sequence[StepCost] = ()
    ) -> int:
        """Add a plan and those inside it; the number of its sheet. `costs`: of its steps, where they are known."""
        for step in all_steps(plan):
            self._nodes[self._capsule(step.capsule, plan, step)] += 1
        return self._add(plan.graph, plan, title or plan.graph.name, "", None, labels or Labels(), costs)

    def _add(
        self,
        graph: Graph,
        plan: Plan | None,
        title: str,
        place: str,
        parent: int | None,
        labels: Labels,
        costs: Sequence[StepCost] = (),
    ) -> int:
        key = (graph, plan is not None)
        known = self._known.get(key) if parent is not None else None
        if known is not None:
            return known
        number = len(self._sheets)
        self._sheets.append(None)
        self._known.setdefault(key, number)
        steps: Sequence[Step | None] = (None,) * len(graph.nodes) if plan is None else plan.steps
        shown = len(graph.nodes) if self.max_nodes is None else min(len(graph.nodes), self.max_nodes)
        made: list[Box] = []
        maker: dict[int, int] = {}

        def put(box: Box) -> None:
            for id in box.ids:
                maker.setdefault(id, len(made))
            made.append(box)

        needed = {id for node in graph.nodes[:shown] for id in node.inputs} | set(graph.outputs)
        for position, id in enumerate(graph.inputs):
            if shown == len(graph.nodes) or id in needed:
                put(_end(Kind.INPUT, graph, id, labels.inputs.get(position, ""), ()))
        priced = {cost.position: step_cost(cost) for cost in costs}
        for position, (node, step) in enumerate(zip(graph.nodes[:shown], steps[:shown], strict=True)):
            operands = tuple([(maker[id], id) for id in node.inputs])
            put(self._box(graph, node, step, operands, number, priced.get(position, ())))
        for position, id in enumerate(graph.outputs):
            if id in maker:
                put(_end(Kind.RESULT, graph, id, labels.outputs.get(position, ""), ((maker[id], id),)))
        self._sheets[number] = Sheet(
            title=title,
            place=place,
            parent=parent,
            boxes=tuple(made),
            left_out=len(graph.nodes) - shown,
            planned=plan is not None,
        )
        return number

    def _box(
        self,
        graph: Graph,
        node: Node,
        step: Step | None,
        operands: tuple[tuple[int, int], ...],
        sheet: int,
        cost: tuple[tuple[str, str], ...],
    ) -> Box:
        inner: list[tuple[str, int]] = []
        shown = ",".join([f"%{id}" for id in node.outputs])
        for position, (name, held) in enumerate(sub_graphs(node.params)):
            plan = step.inner[position] if step is not None and step.inner else None
            place = f"{name} of {node.op.name} {shown}".rstrip()
            inner.append((name, self._add(held, plan, held.name, place, sheet, Labels())))
        derivative = node.where.derivative_of
        constant = not node.inputs and bool(node.outputs)
        role = "constant" if constant else "derivative" if derivative else "forward"
        return Box(
            kind=Kind.CONSTANT if constant else Kind.NODE,
            op=node.op.name,
            ids=node.outputs,
            types=tuple([str(graph.types[id]) for id in node.outputs]),
            label="",
            params=tuple(params_text(node.params)),
            operands=operands,
            where="" if node.where is NOWHERE or not node.where.filename else str(node.where),
            code=self._lines.text(node.where),
            derivative_of=derivative,
            capsule=None if step is None else self._capsules[id(step.capsule)][0],
            group=role if step is None else step.capsule.provider,
            refused=() if step is None else tuple([refusal.text for refusal in step.refused]),
            inner=tuple(inner),
            is_composite=hasattr(node.params, "attributes"),
            cost=cost,
        )

    def _capsule(self, capsule: Capsule, plan: Plan, step: Step) -> int:
        known = self._capsules.get(id(capsule))
        if known is None:
            known = self._capsules[id(capsule)] = (len(self._capsules), capsule, plan.evidence(step))
        return known[0]


class Labels:
    """What the inputs and results of a graph are called, by position."""

    __slots__ = ("inputs", "outputs")

    def __init__(self, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> None:
        self.inputs: Mapping[int, str] = dict(enumerate(inputs))
        self.outputs: Mapping[int, str] = dict(enumerate(outputs))


def _end(kind: Kind, graph: Graph, id: int, name: str, operands: tuple[tuple[int, int], ...]) -> Box:
    return Box(
        kind=kind,
        op=kind.value,
        ids=(id,),
        types=(str(graph.types[id]),),
        label=name,
        params=(),
        operands=operands,
        where="",
        code="",
        derivative_of="",
        capsule=None,
        group="",
        refused=(),
        inner=(),
        is_composite=False,
        cost=(),
    )


def facts(capsule: Capsule, nodes: int, standings: Mapping[str, Standing]) -> CapsuleFacts:
    """A capsule as text. `standings`: of its tested contracts, by obligation."""
    numerics = capsule.numerics
    order = list(State)
    is_tested = any([isinstance(contract.evidence, TestSuite) for contract in capsule.contracts])
    least = max([standing.state for standing in standings.values()], key=order.index, default=None)
    return CapsuleFacts(
        name=capsule.name,
        op=label(capsule.op),
        provider=capsule.provider,
        device=str(capsule.device),
        trust=str(capsule.trust),
        evidence=str(least) if least is not None else "no record" if is_tested else "nothing is tested",
        vjp=str(capsule.vjp_mode),
        bound=bound_text(capsule.bound),
        numerics=(
            ("reduction order", str(numerics.reduction)),
            ("contraction", str(numerics.contraction)),
            ("subnormals", str(numerics.subnormals)),
            ("accumulator", str(numerics.accumulator)),
        ),
        contracts=tuple(
            [
                (
                    report.obligation,
                    f"{report.text}{_aside(contract.summary)}",
                    str(report.evidence),
                    str(standings.get(report.obligation, "")),
                )
                for report, contract in zip(obligations(capsule), capsule.contracts, strict=True)
            ]
        ),
        nodes=nodes,
    )


def _aside(summary: str) -> str:
    return f" ({summary})" if summary else ""


def bound_text(bound: ValueBound) -> str:
    """A value bound in words."""
    match bound:
        case Bitwise():
            return "the bits of the definition"
        case Ulp(n=n):
            return f"within {n} ulp of the definition"
        case Relative(eps=eps):
            return f"within {eps:g} · ε · n · Σ|terms| of the definition"
        case Normwise(eps=eps):
            return f"within {eps:g} · ε · n · (1 + largest |operand entry|) of the definition"
        case OfFinite(bound=inner):
            return f"{bound_text(inner)}, for finite operands"
        case Unstated():
            return "no distance to the definition is claimed"
        case _:
            assert_never(bound)


def step_cost(cost: StepCost) -> tuple[tuple[str, str], ...]:
    """What a step costs, for its panel."""
    return (
        ("operations", f"{cost.flops:,}"),
        ("bytes read", f"{cost.read:,}"),
        ("bytes written", f"{cost.written:,}"),
        ("bytes held at most", f"{cost.high:,}"),
    )
