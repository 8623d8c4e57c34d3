"""Plans: which capsule runs each node, what was passed over and why. A plan is a claim; `accept` checks it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torchlean.backends.capsule import Capsule, TestSuite
from torchlean.backends.handler import grouper_of, runs_bodies
from torchlean.backends.profile import CapsuleModule, Profile
from torchlean.backends.vocabulary import OBLIGATIONS, Label, VjpMode, is_derivative, label
from torchlean.evidence.standing import Standing
from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.printer import folded_html
from torchlean.ir.types import show_types

if TYPE_CHECKING:
    from torchlean.backends.sharding import Partitioning

MAX_LINES = 200
_MOST_CLAIMS = 4  # named in one note


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
    LEDGER = "evidence not current"
    REDUCTION = "reduction order rejected"
    DETERMINISM = "determinism rejected"
    UNAVAILABLE = "unavailable here"
    TYPES = "types refused"
    BODY = "body planned elsewhere"
    PRECEDED = "preceded by its parts"


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


@dataclass(frozen=True, slots=True)
class Derivative:
    """Who does the `<op>.vjp` of a composite, or of a function (`function.vjp`): a capsule natively (`backend-vjp`), or
    nodes (`torchlean-tape`). `note`: what a whole function's derivative has of its own.
    """

    op: str
    mode: VjpMode
    capsule: str | None
    count: int
    note: str = ""

    def __str__(self) -> str:
        return f"{self.op} ×{self.count} ({self.mode})"

    def as_json(self) -> dict[str, Any]:
        """The derivative as plain data."""
        noted = {"note": self.note} if self.note else {}
        return {"op": self.op, "mode": str(self.mode), "capsule": self.capsule, "count": self.count, **noted}


class Plan:
    """A graph after expansion, one step per node, for a profile. Compare by identity; print to read.

    `partitioning`: how arguments and results lie on the profile's mesh, if it has one. `donated`: the positions of
    arguments that the caller gives up.
    """

    __slots__ = ("donated", "expansions", "graph", "partitioning", "profile", "steps")

    def __init__(
        self,
        *,
        graph: Graph,
        profile: Profile,
        steps: tuple[Step, ...],
        expansions: tuple[Expansion, ...] = (),
        partitioning: Partitioning | None = None,
        donated: tuple[int, ...] = (),
    ) -> None:
        self.graph = graph
        self.profile = profile
        self.steps = steps
        self.expansions = expansions
        self.partitioning = partitioning
        self.donated = donated

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
        profile, policy = self.profile, self.profile.policy
        head = f"plan: {len(self.steps)} kernels, profile {profile.name}, device {profile.device}"
        head += "" if policy.determinism is None else f", {policy.determinism} determinism required"
        head += "".join([f", {variable}={value}" for variable, value in profile.switched_by or ()])
        head += ", exact evidence required" if policy.exact_evidence else ""
        head += ", stale evidence allowed" if policy.allow_stale else ""
        given = ", ".join([f"%{self.graph.inputs[at]}" for at in self.donated])
        head += f", donated: {given}" if given else ""
        placed = [] if self.partitioning is None else [f"  {line}" for line in self.partitioning.lines()]
        return "\n".join([head, *placed, *self._lines(max_lines), *[f"  {note}" for note in self.evidence_notes()]])

    def evidence(self, step: Step) -> dict[str, Standing]:
        """How the evidence of each tested contract of a step's capsule stands here, by obligation."""
        return _standings(self.profile.owners().get(id(step.capsule)), step.capsule)

    def evidence_notes(self) -> list[str]:
        """What was admitted though its evidence is not fresh: each reason once, with the claims it is of, and how to
        make records that are of this machine.
        """
        owners = self.profile.owners()
        notes: dict[str, list[str]] = {}
        commands: dict[str, dict[str, None]] = {}
        for capsule in {id(step.capsule): step.capsule for step in all_steps(self)}.values():
            for obligation, standing in _standings(owners.get(id(capsule)), capsule).items():
                if standing.reason:
                    notes.setdefault(str(standing), []).append(f"{capsule.name} {obligation}")
                    commands.setdefault(str(standing), {})[f" --provider {capsule.provider}"] = None
        return [
            f"evidence {reason} ({_some(claims)}); to try it here: torchlean evidence run{''.join(commands[reason])}"
            for reason, claims in notes.items()
        ]

    def _lines(self, max_lines: int | None) -> list[str]:
        """The rows, those of inner plans indented below their step; then what was expanded or passed over."""
        lines: list[str] = []
        shown = len(self.steps) if max_lines is None else min(len(self.steps), max_lines)
        owners = self.profile.owners()
        rows = [self._row(step, owners.get(id(step.capsule))) for step in self.steps[:shown]]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
        for row, step in zip(rows, self.steps, strict=False):
            lines.append(("  " + "  ".join(map(str.ljust, row, widths))).rstrip())
            for name, inner in inner_plans(step):
                lines.append(f"    {name} {inner.graph.name}: {len(inner.steps)} kernels")
                lines += ["    " + line for line in inner._lines(max_lines)]
        if shown < len(self.steps):
            lines.append(f"  … {len(self.steps) - shown} more kernels …")
        owner = {made.op: f" ({made.mode})" for made in self.derivatives(inside=False) if made.capsule is None}
        for expansion in self.expansions:
            because = _because(expansion.refused)
            lines.append(f"  expanded {expansion.op} ×{expansion.count}{owner.get(expansion.op, '')}: {because}")
        native = [made for made in self.derivatives(inside=False) if made.capsule is not None]
        lines += [f"  native {made}: {made.capsule}" + (f"; {made.note}" if made.note else "") for made in native]
        passed = {refusal: None for step in self.steps for refusal in step.refused}
        lines.extend(f"  passed over: {refusal}" for refusal in passed)
        return lines

    def derivatives(self, *, inside: bool = True) -> tuple[Derivative, ...]:
        """The `<op>.vjp` of composites, in order of first use, and who does each; `inside` control flow too."""
        found: dict[tuple[str, VjpMode, str | None, str], int] = {}
        for plan in all_plans(self) if inside else [self]:
            for step in plan.steps:
                if is_derivative(step.node.op):
                    note = getattr(step.node.params, "note", "")
                    key = (label(step.node.op), VjpMode.BACKEND, step.capsule.name, note)
                    found[key] = found.get(key, 0) + 1
            for made in plan.expansions:
                if made.op.endswith(".vjp"):
                    key = (made.op, VjpMode.TAPE, None, "")
                    found[key] = found.get(key, 0) + made.count
        return tuple([Derivative(*key[:3], count, key[3]) for key, count in found.items()])

    def _row(self, step: Step, owner: CapsuleModule | None) -> tuple[str, ...]:
        graph, capsule = self.graph, step.capsule
        return (
            ",".join(f"%{id}" for id in step.node.outputs),
            f"= {label(step.node.op)}",
            show_types(tuple([graph.types[id] for id in step.node.outputs])),
            capsule.name,
            str(capsule.trust),
            str(capsule.numerics.reduction),
            _short_evidence(capsule, _standings(owner, capsule).get("value")),
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
            "allow_stale": policy.allow_stale,
            "exact_evidence": policy.exact_evidence,
            "evidence_notes": self.evidence_notes(),
            "determinism": None if policy.determinism is None else str(policy.determinism),
            "environment": dict((*self.profile.settings(), *(self.profile.switched_by or ()))),
            "derivatives": [made.as_json() for made in self.derivatives()],
            **({} if self.partitioning is None else {"partitioning": self.partitioning.as_json()}),
            **({"donated": list(self.donated)} if self.donated else {}),
            **self._contents(),
        }

    # What lies above this file is reached by name, as printing is.
    def diff(self, other: Plan) -> Any:
        """What changed from this plan to another, and why: a `PlanDifference`."""
        return importlib.import_module("torchlean.backends.compare").compare(self, other)

    def explain(self, which: int | str | Node) -> Any:
        """Every candidate for a step and every reason against it: an `Explanation`.

        `which` is the step's position, the name of a value it makes (`"%7"`), or its node.
        """
        explaining = importlib.import_module("torchlean.backends.explain")
        return explaining.explain_node(self, explaining.step_of(self, which).node)

    def _contents(self) -> dict[str, Any]:
        owners = self.profile.owners()
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
                    "evidence": {
                        name: str(held.state)
                        for name, held in _standings(owners.get(id(step.capsule)), step.capsule).items()
                    },
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


def all_plans(plan: Plan) -> Iterator[Plan]:
    """A plan and the plans inside it, one for each step that holds it."""
    yield plan
    for step in plan.steps:
        for inner in step.inner:
            yield from all_plans(inner)


def graphs_run(op: Op, params: Any) -> list[Graph]:
    """The sub-graphs a kernel of a node runs; a composite's body is not one: the kernel replaces it."""
    return [] if isinstance(op, Composite) else [held for _, held in sub_graphs(params)]


def foreign_inside(capsule: Capsule, inner: Sequence[Plan]) -> str | None:
    """Why a capsule that runs sub-graphs itself does not run these, or None: a step in them is planned elsewhere."""
    if runs_bodies(capsule):
        grouper = grouper_of(capsule)
        for plan in inner:
            for step in all_steps(plan):
                if grouper_of(step.capsule) is not grouper:
                    return f"runs its body itself, where {label(step.node.op)} is planned on {step.capsule.name}"
    return None


def all_steps(plan: Plan) -> Iterator[Step]:
    """Every step of a plan and of the plans inside it."""
    for step in plan.steps:
        yield step
        for inner in step.inner:
            yield from all_steps(inner)


def _because(refused: tuple[Refusal, ...]) -> str:
    return "; ".join(map(str, refused)) if refused else "no capsule implements it"


def _standings(owner: CapsuleModule | None, capsule: Capsule) -> dict[str, Standing]:
    found = {} if owner is None else {field: owner.standing(capsule, field) for field in OBLIGATIONS}
    return {field: standing for field, standing in found.items() if standing is not None}


def _some(claims: list[str]) -> str:
    more = f" and {len(claims) - _MOST_CLAIMS} more" if len(claims) > _MOST_CLAIMS else ""
    return ", ".join(claims[:_MOST_CLAIMS]) + more


def _short_evidence(capsule: Capsule, standing: Standing | None) -> str:
    evidence = capsule.value.evidence
    if isinstance(evidence, TestSuite):
        names = [test.rsplit("::", 1)[-1] for test in evidence.ids]
        return f"tested: …::{', '.join(names)}" + ("" if standing is None else f" ({standing.state})")
    return str(evidence)
