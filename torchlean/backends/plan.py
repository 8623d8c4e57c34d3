"""Plans: which capsule runs each node, what was passed over and why. A plan is a claim; `accept` checks it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torchlean.backends.capsule import Capsule, TestSuite
from torchlean.backends.profile import Profile
from torchlean.backends.vocabulary import Label, label
from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.printer import folded_html
from torchlean.ir.types import show_types

MAX_LINES = 200


class Failure(Label):
    """Why a capsule cannot serve a node."""

    OPERATION = "operation mismatch"
    FORWARD = "forward unsupported"
    CONTRACTS = "contracts misaligned"
    TRUST = "trust rejected"
    PROVIDER = "provider rejected"
    DEVICE = "device mismatch"
    VJP = "vjp mismatch"
    EVIDENCE = "evidence rejected"
    REDUCTION = "reduction order rejected"
    UNAVAILABLE = "unavailable here"
    TYPES = "types refused"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason against one capsule."""

    capsule: str
    failure: Failure
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Candidate:
    """A capsule for an op with every reason against it; none means admissible."""

    capsule: Capsule
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A node, the capsule that runs it, and the refusals of those that come before it in module order.

    `inner`: the plans of its sub-graphs, in the order of `sub_graphs(node.params)`; acceptance compares them.
    """

    node: Node
    capsule: Capsule
    refused: tuple[Refusal, ...]
    inner: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True)
class Expansion:
    """A composite that was replaced by its body, `count` times, and the refusals of its own capsules."""

    op: str
    count: int
    refused: tuple[Refusal, ...]


class Plan:
    """A graph after expansion, one step per node, for a profile. Compare by identity; print to read."""

    __slots__ = ("expansions", "graph", "profile", "steps")

    def __init__(
        self, *, graph: Graph, profile: Profile, steps: tuple[Step, ...], expansions: tuple[Expansion, ...] = ()
    ) -> None:
        self.graph = graph
        self.profile = profile
        self.steps = steps
        self.expansions = expansions

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        return f"<Plan {self.graph.name}: {len(self.steps)} kernels, profile {self.profile.name}>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return folded_html(repr(self).strip("<>"), self.text())

    def text(self, *, max_lines: int | None = MAX_LINES) -> str:
        """One line per kernel: id, op, type, capsule, trust, reduction order, evidence of the value; the rest below."""
        profile = self.profile
        lines = [f"plan: {len(self.steps)} kernels, profile {profile.name}, device {profile.device}"]
        return "\n".join(lines + self._lines(max_lines))

    def _lines(self, max_lines: int | None) -> list[str]:
        """The rows, those of inner plans indented below their step; then what was expanded or passed over."""
        lines: list[str] = []
        shown = len(self.steps) if max_lines is None else min(len(self.steps), max_lines)
        rows = [self._row(step) for step in self.steps[:shown]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
        for row, step in zip(rows, self.steps, strict=False):
            lines.append(("  " + "  ".join(map(str.ljust, row, widths))).rstrip())
            for name, inner in inner_plans(step):
                lines.append(f"    {name} {inner.graph.name}: {len(inner.steps)} kernels")
                lines += ["    " + line for line in inner._lines(max_lines)]
        if shown < len(self.steps):
            lines.append(f"  … {len(self.steps) - shown} more kernels …")
        for expansion in self.expansions:
            lines.append(f"  expanded {expansion.op} ×{expansion.count}: " + _because(expansion.refused))
        passed = {refusal: None for step in self.steps for refusal in step.refused}
        lines.extend(f"  passed over: {refusal}" for refusal in passed)
        return lines

    def _row(self, step: Step) -> tuple[str, ...]:
        graph, capsule = self.graph, step.capsule
        return (
            ",".join(f"%{id}" for id in step.node.outputs),
            f"= {label(step.node.op)}",
            show_types(tuple([graph.types[id] for id in step.node.outputs])),
            capsule.name,
            str(capsule.trust),
            str(capsule.numerics.reduction),
            _short_evidence(capsule),
        )

    def as_json(self) -> dict[str, Any]:
        """The plan as plain data: profile, device, policy, and each step with its capsule and refusals."""
        policy = self.profile.policy
        return {
            "graph": self.graph.name,
            "profile": self.profile.name,
            "device": str(self.profile.device),
            "assurance": policy.label,
            "required_reduction": None if policy.reduction is None else str(policy.reduction),
            "modules": [module.name for module in self.profile.modules],
            **self._contents(),
        }

    def _contents(self) -> dict[str, Any]:
        return {
            "steps": [
                {
                    "outputs": list(step.node.outputs),
                    "op": step.node.op.name,
                    "inputs": list(step.node.inputs),
                    "types": [str(self.graph.types[id]) for id in step.node.outputs],
                    "capsule": step.capsule.name,
                    "provider": step.capsule.provider,
                    "trust": str(step.capsule.trust),
                    "vjp": str(step.capsule.vjp_mode),
                    "reduction": str(step.capsule.numerics.reduction),
                    "where": str(step.node.where),
                    "refused": [refusal.text for refusal in step.refused],
                    **{name: inner._contents() for name, inner in inner_plans(step)},
                }
                for step in self.steps
            ],
            "expanded": [
                {"op": made.op, "count": made.count, "refused": [refusal.text for refusal in made.refused]}
                for made in self.expansions
            ],
        }


def inner_plans(step: Step) -> list[tuple[str, Plan]]:
    """The plans of a step's sub-graphs, each with its name: `body`, `branches[1]`."""
    names = [name for name, _ in sub_graphs(step.node.params)] if step.inner else []
    return list(zip(names, step.inner, strict=False))


def all_steps(plan: Plan) -> Iterator[Step]:
    """Every step of a plan and of the plans inside it."""
    for step in plan.steps:
        yield step
        for inner in step.inner:
            yield from all_steps(inner)


def _because(refused: tuple[Refusal, ...]) -> str:
    return "; ".join(map(str, refused)) if refused else "no capsule implements it"


def _short_evidence(capsule: Capsule) -> str:
    evidence = capsule.value.evidence
    if isinstance(evidence, TestSuite):
        names = [test.rsplit("::", 1)[-1] for test in evidence.ids]
        return f"tested: …::{', '.join(names)}"
    return str(evidence)
