"""What changed from one plan to another, step by step, and why.

Steps are aligned by the structure of the graphs (`ir/difference.py`), so that plans of different graphs can be
compared. Of two aligned steps the facts are compared that a reader of results cares about: who runs it, in which order
it adds, in which precision, on which evidence. The reasons are the plans' own: what refused the other's capsule, or
which module comes first, or is not there.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from torchlean.backends.capsule import Capsule
from torchlean.backends.plan import Plan, Step, inner_plans
from torchlean.backends.profile import Profile
from torchlean.backends.sharding import spec_text
from torchlean.backends.vocabulary import OBLIGATIONS, label
from torchlean.ir.difference import Difference, diff
from torchlean.ir.printer import folded_html, node_text
from torchlean.ir.types import show_types

MAX_NAMES = 8

Fact = tuple[str, str, str]  # what, before, after


@dataclass(frozen=True, slots=True)
class Change:
    """Two aligned steps that differ: their values' names, what differs, and the reasons for it."""

    op: str
    before: str
    after: str
    where: str
    facts: tuple[Fact, ...]
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """True if anything differs; prints to read. `inside`: the differences of sub-graphs, by the step that holds them.

    `settings`: what differs between the profiles. `expansions`: composites that only one of the plans expands, and why.
    """

    before: Plan
    after: Plan
    graphs: Difference
    settings: tuple[Fact, ...]
    changes: tuple[Change, ...]
    expansions: tuple[str, ...]
    inside: tuple[tuple[str, PlanDifference], ...]

    def __bool__(self) -> bool:
        return bool(self.graphs or self.settings or self.changes or self.expansions or self.inside)

    def text(self) -> str:
        """The profiles' differences, then the steps', equal ones together."""
        head = f"{_named(self.before)} → {_named(self.after)}"
        if not self:
            return f"{head}: the plans are equal, {len(self.before.steps)} steps"
        counts = [
            f"{count} {what}"
            for count, what in (
                (len(self.changes), "step changed" if len(self.changes) == 1 else "steps changed"),
                (len(self.graphs.removed), "removed"),
                (len(self.graphs.added), "added"),
                (len(self.graphs.moved), "moved"),
                (len(self.graphs.same) + len(self.graphs.moved) + len(self.graphs.changed) - len(self.changes), "same"),
            )
            if count
        ]
        lines = [f"{head}: {', '.join(counts)}", *[f"  profile {_arrow(fact)}" for fact in self.settings]]
        lines += [f"  {line}" for line in self.graphs.boundary]
        for group in self._groups():
            first = group[0]
            names = [_both(change) for change in group[:MAX_NAMES]]
            more = f", … ×{len(group)}" if len(group) > MAX_NAMES else ""
            lines.append(f"  ~ {first.op} {', '.join(names)}{more}  ({first.where})")
            lines += [f"      {_arrow(fact)}" for fact in first.facts]
            lines += [f"      because {reason}" for reason in first.why]
        lines += [f"  {line}" for line in self.expansions]
        lines += [f"  {line}" for line in self._structure()]
        for where, inner in self.inside:
            lines.append(f"  inside {where}:")
            lines += [f"  {line}" for line in inner.text().splitlines()]
        return "\n".join(lines)

    def _groups(self) -> list[list[Change]]:
        """Changes that differ in the values' names only, together."""
        found: dict[Any, list[Change]] = {}
        for change in self.changes:
            found.setdefault((change.op, change.facts, change.why), []).append(change)
        return list(found.values())

    def _structure(self) -> list[str]:
        """Steps that only one of the plans has, and those that moved."""
        lines = [f"- {_line(self.before, at)}" for at in self.graphs.removed]
        lines += [f"+ {_line(self.after, at)}" for at in self.graphs.added]
        return lines + [f"> {_line(self.after, new)}  (from position {old} to {new})" for old, new in self.graphs.moved]

    def as_json(self) -> dict[str, Any]:
        """The difference as plain data."""
        return {
            "before": _identity(self.before),
            "after": _identity(self.after),
            "equal": not self,
            "profile": {what: [old, new] for what, old, new in self.settings},
            "boundary": list(self.graphs.boundary),
            "changes": [
                {
                    "op": change.op,
                    "before": change.before,
                    "after": change.after,
                    "where": change.where,
                    "facts": {what: [old, new] for what, old, new in change.facts},
                    "why": list(change.why),
                }
                for change in self.changes
            ],
            "expansions": list(self.expansions),
            "removed": [_line(self.before, at) for at in self.graphs.removed],
            "added": [_line(self.after, at) for at in self.graphs.added],
            "moved": [[_line(self.after, new), old, new] for old, new in self.graphs.moved],
            "inside": [{"step": where, **inner.as_json()} for where, inner in self.inside],
        }

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        what = f"{len(self.changes)} steps changed" if self else "equal"
        return f"<PlanDifference {_named(self.before)} → {_named(self.after)}: {what}>"

    def _repr_html_(self) -> str:
        return folded_html(repr(self).strip("<>"), self.text())


def compare(before: Plan, after: Plan) -> PlanDifference:
    """What changed from `before` to `after`."""
    graphs = diff(before.graph, after.graph)
    words = {(old, new): what for old, new, what in graphs.changed}
    aligned = sorted([*graphs.same, *graphs.moved, *words], key=lambda pair: pair[1])
    known = _Known()
    changes: list[Change] = []
    inside: list[tuple[str, PlanDifference]] = []
    for old, new in aligned:
        mine, theirs = before.steps[old], after.steps[new]
        facts = _facts(known, before, mine, after, theirs, words.get((old, new)))
        if facts:
            changes.append(
                Change(
                    op=label(theirs.node.op),
                    before=_values(mine),
                    after=_values(theirs),
                    where=str(theirs.node.where),
                    facts=facts,
                    why=() if mine.capsule.name == theirs.capsule.name else _why(before, mine, after, theirs),
                )
            )
        for (field, held), (_, other) in zip(inner_plans(mine), inner_plans(theirs), strict=False):
            found = compare(held, other)
            if found.changes or found.expansions or found.inside or found.graphs:
                inside.append((f"{_values(theirs)} {label(theirs.node.op)} {field}", found))
    return PlanDifference(
        before=before,
        after=after,
        graphs=graphs,
        settings=(*_settings(before.profile, after.profile), *_given_up(before, after), *_placements(before, after)),
        changes=tuple(changes),
        expansions=tuple(_expansions(before, after)),
        inside=tuple(inside),
    )


# -- steps -------------------------------------------------------------------------------------------------------------
def facts_of(plan: Plan, step: Step) -> dict[str, str]:
    """What is compared of a step."""
    capsule, numerics = step.capsule, step.capsule.numerics
    standings = plan.evidence(step)
    facts = {
        "capsule": capsule.name,
        "provider": capsule.provider,
        "device": str(capsule.device),
        "trust": str(capsule.trust),
        "vjp": str(capsule.vjp_mode),
        "order": str(numerics.reduction),
        "types": show_types(tuple([plan.graph.types[id] for id in step.node.outputs])),
        "accumulator": str(numerics.accumulator),
        "contraction": str(numerics.contraction),
        "subnormals": str(numerics.subnormals),
        "repeated runs": str(numerics.repeats),
        "bound": repr(capsule.bound),
    }
    for field, contract in zip(OBLIGATIONS, capsule.contracts, strict=True):
        standing = standings.get(field)
        facts[f"{field} evidence"] = f"{contract.evidence}" + ("" if standing is None else f" ({standing.state})")
    return facts


class _Known:
    """Facts worked out before: those of a capsule are the same at each of its steps."""

    def __init__(self) -> None:
        self._facts: dict[tuple[int, int, str], dict[str, str]] = {}

    def of(self, plan: Plan, step: Step) -> dict[str, str]:
        types = show_types(tuple([plan.graph.types[id] for id in step.node.outputs]))
        key = (id(plan), id(step.capsule), types)
        if key not in self._facts:
            self._facts[key] = facts_of(plan, step)
        return self._facts[key]


def _facts(
    known: _Known, before: Plan, mine: Step, after: Plan, theirs: Step, structure: str | None
) -> tuple[Fact, ...]:
    old, new = known.of(before, mine), known.of(after, theirs)
    found = [(what, old[what], new[what]) for what in new if old[what] != new[what]]
    if structure is not None and structure != "types":
        found.append(("node", node_text(before.graph, mine.node), node_text(after.graph, theirs.node)))
    return tuple(found)


def _why(before: Plan, mine: Step, after: Plan, theirs: Step) -> tuple[str, ...]:
    """Why the second plan does not run the first one's capsule, and, where it could, why the first did not run its."""
    reasons = _against(mine.capsule, theirs, after.profile)
    if not reasons:
        reasons = [f"{_profile_name(before, after, first=True)} {reason}" for reason in _refusals(theirs.capsule, mine)]
    if not reasons:
        reasons = [_absent(theirs.capsule, before.profile) or "the registries of the two profiles differ"]
    return tuple(reasons)


def _against(capsule: Capsule, step: Step, profile: Profile) -> list[str]:
    """What the plan of `step` has against a capsule of the other plan."""
    refused = _refusals(capsule, step)
    if refused:
        return refused
    absent = _absent(capsule, profile)
    if absent is not None:
        return [absent]
    order = [held.name for module in profile.modules for held in module.capsules if held.op is capsule.op]
    if order.index(step.capsule.name) < order.index(capsule.name):
        return [f"{step.capsule.name} comes before {capsule.name} in the modules of {profile.name}"]
    return []


def _refusals(capsule: Capsule, step: Step) -> list[str]:
    return [refusal.text for refusal in step.refused if refusal.capsule == capsule.name]


def _absent(capsule: Capsule, profile: Profile) -> str | None:
    names = {held.name for module in profile.modules for held in module.capsules if held.op is capsule.op}
    if capsule.name in names:
        return None
    modules = ", ".join([module.name for module in profile.modules])
    return f"profile {profile.name} has no {capsule.name}: its modules are {modules}"


def _profile_name(before: Plan, after: Plan, *, first: bool) -> str:
    same = before.profile.name == after.profile.name
    side = "before" if first else "after"
    return f"{side}," if same else f"under {(before if first else after).profile.name},"


# -- profiles and expansions -------------------------------------------------------------------------------------------
def settings_of(profile: Profile) -> dict[str, str]:
    """What is compared of a profile."""
    policy = profile.policy
    return {
        "name": profile.name,
        "device": str(profile.device),
        "modules": ", ".join([module.name for module in profile.modules]),
        "mesh": str(profile.mesh or "none"),
        "assurance": policy.label,
        "required vjp": str(policy.vjp),
        "required order": str(policy.reduction or "any"),
        "determinism": str(policy.determinism or "not required"),
        "providers": "any" if policy.providers is None else ", ".join(policy.providers),
        "stale evidence": "allowed" if policy.allow_stale else "refused",
        "evidence of other versions": "refused" if policy.exact_evidence else "allowed",
        "switches": ", ".join([f"{variable}={value}" for variable, value in profile.switched_by or ()]) or "none",
        "settings": ", ".join([f"{variable}={value}" for variable, value in profile.settings()]) or "none",
    }


def _settings(before: Profile, after: Profile) -> tuple[Fact, ...]:
    old, new = settings_of(before), settings_of(after)
    return tuple([(what, old[what], new[what]) for what in new if old[what] != new[what]])


def _given_up(before: Plan, after: Plan) -> tuple[Fact, ...]:
    """Arguments that the caller gives up to one of the two."""
    old, new = [", ".join([f"%{plan.graph.inputs[at]}" for at in plan.donated]) or "none" for plan in (before, after)]
    return () if old == new else (("donated", old, new),)


def _placements(before: Plan, after: Plan) -> tuple[Fact, ...]:
    """Arguments and results that lie on the mesh in another way."""
    if before.partitioning is None or after.partitioning is None:
        return ()  # the settings say that one has a mesh
    pairs = [
        *zip(before.partitioning.inputs, after.partitioning.inputs, strict=False),
        *zip(before.partitioning.outputs, after.partitioning.outputs, strict=False),
    ]
    return tuple(
        [
            (f"sharding of {new.path}", spec_text(old.spec), spec_text(new.spec))
            for old, new in pairs
            if old.spec != new.spec
        ]
    )


def _expansions(before: Plan, after: Plan) -> list[str]:
    """Composites that one plan expands and the other does not, or not as often."""
    lines: list[str] = []
    old, new = _expanded(before), _expanded(after)
    for op in dict.fromkeys([*old, *new]):
        counts = [0 if op not in side else side[op][0] for side in (old, new)]
        if counts[0] == counts[1]:
            continue
        native = [_run_natively(plan, op) for plan in (before, after)]
        states = [
            f"{f'expanded ×{count}' if count else ''}{' and ' if count and kernels else ''}{kernels}" or "not there"
            for count, kernels in zip(counts, native, strict=True)
        ]
        why = dict.fromkeys([*old.get(op, (0, ()))[1], *new.get(op, (0, ()))[1]])
        lines.append(f"~ {op}: {states[0]} → {states[1]} ({'; '.join(why) or 'no capsule implements it'})")
    return lines


def _expanded(plan: Plan) -> dict[str, tuple[int, tuple[str, ...]]]:
    found: dict[str, tuple[int, tuple[str, ...]]] = {}
    for made in plan.expansions:
        count, why = found.get(made.op, (0, ()))
        found[made.op] = (count + made.count, (*why, *[refusal.text for refusal in made.refused]))
    return found


def _run_natively(plan: Plan, op: str) -> str:
    counts = Counter([step.capsule.name for step in plan.steps if label(step.node.op) == op])
    return ", ".join([f"{name} ×{count}" for name, count in counts.items()])


# -- text --------------------------------------------------------------------------------------------------------------
def _named(plan: Plan) -> str:
    return f"{plan.graph.name} on {plan.profile.name}"


def _identity(plan: Plan) -> dict[str, Any]:
    return {"graph": plan.graph.name, "profile": plan.profile.name, "steps": len(plan.steps)}


def _arrow(fact: Fact) -> str:
    what, old, new = fact
    return f"{what}: {_short(old)} → {_short(new)}"


def _short(text: str) -> str:
    """Evidence as plans print it: the tests' names without their files."""
    return re.sub(r"[\w./]+\.py::", "…::", text.replace("covered by test suite", "tested:"))


def _values(step: Step) -> str:
    return ",".join([f"%{id}" for id in step.node.outputs])


def _both(change: Change) -> str:
    return change.after if change.before == change.after else f"{change.before} → {change.after}"


def _line(plan: Plan, at: int) -> str:
    step = plan.steps[at]
    return f"{node_text(plan.graph, step.node)}  {step.capsule.name}"
