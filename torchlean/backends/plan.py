"""Plans: which capsule runs each node, what was passed over and why. A plan is a claim; `accept` checks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchlean.backends.capsule import Capsule, TestSuite
from torchlean.backends.profile import Profile
from torchlean.backends.vocabulary import Label, label
from torchlean.ir.graph import Graph, Node
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
    """A node, the capsule that runs it, and the refusals of those that come before it in module order."""

    node: Node
    capsule: Capsule
    refused: tuple[Refusal, ...]


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

    def text(self, *, max_lines: int | None = MAX_LINES) -> str:
        """One line per kernel: id, op, type, capsule, trust, reduction order, evidence of the value; the rest below."""
        profile = self.profile
        lines = [f"plan: {len(self.steps)} kernels, profile {profile.name}, device {profile.device}"]
        shown = len(self.steps) if max_lines is None else min(len(self.steps), max_lines)
        rows = [self._row(step) for step in self.steps[:shown]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
        for row in rows:
            lines.append(("  " + "  ".join(map(str.ljust, row, widths))).rstrip())
        if shown < len(self.steps):
            lines.append(f"  … {len(self.steps) - shown} more kernels …")
        for expansion in self.expansions:
            lines.append(f"  expanded {expansion.op} ×{expansion.count}: " + _because(expansion.refused))
        passed = {refusal: None for step in self.steps for refusal in step.refused}
        lines.extend(f"  passed over: {refusal}" for refusal in passed)
        return "\n".join(lines)

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
                }
                for step in self.steps
            ],
            "expanded": [
                {"op": made.op, "count": made.count, "refused": [refusal.text for refusal in made.refused]}
                for made in self.expansions
            ],
        }


def _because(refused: tuple[Refusal, ...]) -> str:
    return "; ".join(map(str, refused)) if refused else "no capsule implements it"


def _short_evidence(capsule: Capsule) -> str:
    evidence = capsule.value.evidence
    if isinstance(evidence, TestSuite):
        names = [test.rsplit("::", 1)[-1] for test in evidence.ids]
        return f"tested: …::{', '.join(names)}"
    return str(evidence)
