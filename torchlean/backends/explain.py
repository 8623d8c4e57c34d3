"""Why a kernel runs, or why none does: every candidate for an op in module order, with every reason against it.

The reasons are the planner's, in the words acceptance fails with. An explanation prints as a table, iterates over its
candidates, and is plain data through `as_json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlean.backends import planner
from torchlean.backends.capsule import Capsule
from torchlean.backends.plan import Candidate, Plan, Step
from torchlean.backends.profile import Profile
from torchlean.backends.vocabulary import Label, VjpMode, is_derivative, label
from torchlean.errors import ConfigError, message
from torchlean.ir.graph import Node
from torchlean.ir.op import Op
from torchlean.ir.ops import ALL_OPS, EFFECTS
from torchlean.ir.ops.composite import Composite
from torchlean.ir.printer import folded_html
from torchlean.ir.types import TensorType, show_types


class Outcome(Label):
    """What becomes of an op: a capsule runs it, its body does, or nothing can."""

    CHOSEN = "chosen"
    EXPANDED = "expanded"
    REFUSED = "refused"


class Explanation:
    """The candidates for one op with operands of these types. Iterable, indexable; print to read."""

    __slots__ = ("candidates", "op", "params", "profile", "types")

    def __init__(
        self,
        op: Op,
        params: Any,
        types: tuple[TensorType, ...],
        profile: Profile,
        candidates: tuple[Candidate, ...],
    ) -> None:
        self.op = op
        self.params = params
        self.types = types
        self.profile = profile
        self.candidates = candidates

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, position: int) -> Candidate:
        return self.candidates[position]

    @property
    def modules(self) -> tuple[str, ...]:
        """The module of each candidate."""
        return tuple([module.name for module in self.profile.modules for held in module.capsules if held.op is self.op])

    @property
    def chosen(self) -> Capsule | None:
        """The capsule that runs it: the first candidate without a reason against it."""
        return next((candidate.capsule for candidate in self.candidates if not candidate.refusals), None)

    @property
    def outcome(self) -> Outcome:
        """Whether a capsule runs it, its body does, or nothing can."""
        if self.chosen is not None:
            return Outcome.CHOSEN
        return Outcome.EXPANDED if isinstance(self.op, Composite) else Outcome.REFUSED

    @property
    def call(self) -> str:
        """`matmul(f32[2,3], f32[3,4])`."""
        return f"{label(self.op)}({show_types(self.types)})"

    def text(self) -> str:
        """A line per candidate, the reasons against it below, and what follows from them."""
        profile = self.profile
        modules = ", ".join([module.name for module in profile.modules])
        lines = [f"{self.call} on profile {profile.name}, device {profile.device}; modules in order: {modules}"]
        rows = [self._row(position) for position in range(len(self.candidates))]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
        for row, candidate in zip(rows, self.candidates, strict=True):
            lines.append(("  " + "  ".join(map(str.ljust, row, widths))).rstrip())
            lines += [f"     {refusal.failure}: {refusal.text}" for refusal in candidate.refusals]
        return "\n".join([*lines, f"  → {self.verdict()}"])

    def verdict(self) -> str:
        """What becomes of the op, in one line."""
        chosen = self.chosen
        if chosen is not None:
            native = f" ({VjpMode.BACKEND}: a native derivative)" if is_derivative(self.op) else ""
            return f"{chosen.name} runs it{native}"
        why = "every candidate is refused" if self.candidates else "no capsule implements it"
        if self.outcome is Outcome.REFUSED:
            return f"{why}: a plan is refused"
        owner = f" ({VjpMode.TAPE}: a derivative made of nodes)" if is_derivative(self.op) else ""
        return f"{why}: it is expanded into its body of {len(self.params.body.nodes)} nodes{owner}"

    def _row(self, position: int) -> tuple[str, ...]:
        candidate, module = self.candidates[position], self.modules[position]
        capsule = candidate.capsule
        state = "refused" if candidate.refusals else "chosen" if capsule is self.chosen else "admissible, comes later"
        return (
            f"{position + 1}",
            capsule.name,
            f"module {module}",
            str(capsule.trust),
            str(capsule.numerics.reduction),
            str(capsule.vjp_mode),
            state,
        )

    def as_json(self) -> dict[str, Any]:
        """The explanation as plain data."""
        chosen = self.chosen
        return {
            "op": self.op.name,
            "label": label(self.op),
            "types": [str(type) for type in self.types],
            "profile": self.profile.name,
            "device": str(self.profile.device),
            "modules": [module.name for module in self.profile.modules],
            "outcome": str(self.outcome),
            "chosen": None if chosen is None else chosen.name,
            "candidates": [
                {
                    "capsule": candidate.capsule.name,
                    "module": module,
                    "provider": candidate.capsule.provider,
                    "device": str(candidate.capsule.device),
                    "trust": str(candidate.capsule.trust),
                    "vjp": str(candidate.capsule.vjp_mode),
                    "reduction": str(candidate.capsule.numerics.reduction),
                    "admissible": not candidate.refusals,
                    "refusals": [
                        {"failure": str(refusal.failure), "text": refusal.text} for refusal in candidate.refusals
                    ],
                }
                for candidate, module in zip(self.candidates, self.modules, strict=True)
            ],
        }

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        chosen = self.chosen
        what = str(self.outcome) if chosen is None else chosen.name
        return f"<Explanation {self.call}: {len(self.candidates)} candidates, {what}>"

    def _repr_html_(self) -> str:
        return folded_html(repr(self).strip("<>"), self.text())


def explain(op: Op | str, params: Any, types: tuple[TensorType, ...], profile: Profile) -> Explanation:
    """Every capsule for the op, in module order, with every reason against it under the profile.

    `op` may be given by its name or label; ConfigError suggests the nearest names for one that does not exist.
    """
    profile = profile.switched()
    found = op_named(op, profile) if isinstance(op, str) else op
    return Explanation(found, params, types, profile, planner.explain(found, params, types, profile))


def explain_node(plan: Plan, node: Node) -> Explanation:
    """The explanation of a node of a plan's graph."""
    return explain(node.op, node.params, tuple([plan.graph.types[id] for id in node.inputs]), plan.profile)


def step_of(plan: Plan, which: int | str | Node) -> Step:
    """A step by its position, the name of a value it makes (`%7`), or its node; ConfigError says what there is."""
    count = len(plan.steps)
    if isinstance(which, int):
        if -count <= which < count:
            return plan.steps[which]
        there = f"positions 0 to {count - 1}" if count else "none: the plan has no steps"
    else:
        for step in plan.steps:
            if step.node is which or (isinstance(which, str) and which in [f"%{id}" for id in step.node.outputs]):
                return step
        made = [f"%{id}" for step in plan.steps for id in step.node.outputs]
        there = ", ".join(made[:12]) + (f", … ({len(made)} values)" if len(made) > 12 else "")
    shown = which.op.name if isinstance(which, Node) else repr(which)
    raise ConfigError(
        message(
            f"the plan of {plan.graph.name} has no step {shown}",
            expected=there,
            got=shown,
            fix="print the plan: its lines are in the order of positions and start with the values' names",
        )
    )


# -- names -------------------------------------------------------------------------------------------------------------
def known_ops(profile: Profile) -> dict[str, Op]:
    """Ops by name and by label: torchlean's, the derivatives of composites, and those of the profile's capsules."""
    theirs = [capsule.op for module in profile.modules for capsule in module.capsules]
    table: dict[str, Op] = {}
    for given in (*ALL_OPS, *EFFECTS, *theirs):
        gradient = given.gradient if isinstance(given, Composite) else None
        for op in (given,) if gradient is None else (given, gradient):
            table.setdefault(op.name, op)
            table.setdefault(label(op), op)
    return table


def op_named(name: str, profile: Profile) -> Op:
    """The op of a name or label."""
    table = known_ops(profile)
    found = table.get(name)
    if found is not None:
        return found
    from difflib import get_close_matches  # only for a name that does not exist

    near = get_close_matches(name.lower(), table, n=3, cutoff=0.5)
    raise ConfigError(
        message(
            f"unknown op {name!r}",
            expected=f"one of {len(table)} names: torchlean's ops, or those of profile {profile.name}'s capsules",
            got=repr(name),
            fix=f"did you mean {' or '.join(near)}?" if near else "print(torchlean.ops.ALL_OPS) lists the ops",
        )
    )
