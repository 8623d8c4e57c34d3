"""Acceptance: re-derive from the plan alone that it may run. Shares no code with the planner (an import contract).

`AcceptedPlan` can only be made here. Checked: the graph is sound; the registry has no duplicates; the steps are exactly
the graph's nodes; every capsule comes from the profile's modules, implements the node's op, and meets trust, evidence,
provider, device, VJP, reduction order, determinism, availability and its own refusal of the operand types. The same
holds for the plans of sub-graphs, which must be plans of exactly the sub-graphs in the node's params, under the same
profile; and the profile's switches must still have the values the plan was made under.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from torchlean.backends.audit import PlanAudit, audit, obligations
from torchlean.backends.capsule import Capsule
from torchlean.backends.plan import Plan, Step, foreign_inside, graphs_run
from torchlean.backends.policy import AssurancePolicy
from torchlean.backends.profile import CapsuleModule, Profile, refuse_duplicates
from torchlean.backends.sharding import faults, spec_text
from torchlean.backends.vocabulary import (
    OBLIGATIONS,
    Claim,
    Determinism,
    Reduction,
    Repeats,
    TrustLevel,
    VjpMode,
    label,
)
from torchlean.errors import GraphError, InternalError, PlanRejected
from torchlean.evidence.standing import State
from torchlean.ir.check import check
from torchlean.ir.graph import Node
from torchlean.ir.rules import NoTangent
from torchlean.ir.types import show_types

_TOKEN = object()
_MOST_LISTED = 20


class AcceptedPlan:
    """A plan that `accept` let through, with its audit. Immutable; no other way to make one."""

    __slots__ = ("audit", "plan")

    plan: Plan
    audit: PlanAudit

    def __init__(self, plan: Plan, audit: PlanAudit, token: object) -> None:
        if token is not _TOKEN:
            raise InternalError("an AcceptedPlan is made by accept(plan) only")
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "audit", audit)

    def inner(self, step: Step) -> tuple[AcceptedPlan, ...]:
        """The plans of a step's sub-graphs: accepted with the whole."""
        if all([step is not mine for mine in self.plan.steps]):
            raise InternalError(f"a step of {step.node.op.name} is no step of {self.plan!r}")
        return tuple([AcceptedPlan(plan, audit(plan), _TOKEN) for plan in step.inner])

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"an AcceptedPlan cannot be changed ({name!r})")

    def __repr__(self) -> str:
        return f"<AcceptedPlan of {self.plan!r}>"


def accept(plan: Plan) -> AcceptedPlan:
    """The plan, accepted; PlanRejected listing the obligations that fail, else."""
    refuse_duplicates(plan.profile)
    try:
        check(plan.graph)
    except GraphError as fault:
        raise PlanRejected(f"the plan's graph is not sound: {fault}") from None
    drift = plan.profile.drift()
    failures = (
        list(dict.fromkeys([*_placement_failures(plan), *_failures(plan)]))
        if drift is None
        else [f"{drift}: plan again"]
    )
    if failures:
        shown = [f"  {failure}" for failure in failures[:_MOST_LISTED]]
        more = [f"  … and {len(failures) - _MOST_LISTED} more"] if len(failures) > _MOST_LISTED else []
        count = f"{len(failures)} obligations fail" if len(failures) > 1 else "1 obligation fails"
        head = f"plan of {plan.graph.name} rejected under profile {plan.profile.name!r}: {count}"
        raise PlanRejected("\n".join([head, *shown, *more]))
    return AcceptedPlan(plan, audit(plan), _TOKEN)


def _placement_failures(plan: Plan) -> Iterator[str]:
    """What is wrong with which arguments a plan donates, and how it lays arguments and results on a mesh."""
    count = len(plan.graph.inputs)
    if not all([0 <= at < count for at in plan.donated]):
        yield f"the plan donates arguments at {', '.join(map(str, plan.donated))}, and there are {count}"
    partitioning, mesh = plan.partitioning, plan.profile.mesh
    if partitioning is None or mesh is None:
        if mesh is not None:
            yield "the profile has a mesh, the plan no partitioning"
        if partitioning is not None:
            yield "the plan has a partitioning, the profile no mesh"
        return
    if partitioning.mesh != mesh:
        yield f"the plan is partitioned over {partitioning.mesh}, the profile's mesh is {mesh}"
    for what, placed, types in (
        ("arguments", partitioning.inputs, plan.graph.input_types),
        ("results", partitioning.outputs, plan.graph.output_types),
    ):
        if tuple([one.type for one in placed]) != types:
            yield f"the partitioning is of {len(placed)} {what} of other types than the graph has"
    for one in (*partitioning.inputs, *partitioning.outputs):
        for what, expected, got, _ in () if one.spec is None else faults(one.spec, mesh, one.type):
            yield f"the sharding {spec_text(one.spec)} of {one.path} {what}: expected {expected}, got {got}"


def _failures(plan: Plan) -> Iterator[str]:
    seen: set[int] = set()
    pending = [plan]
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield from _failures_of_one(current)
        for node, step in zip(current.graph.nodes, current.steps, strict=False):
            yield from _inner_failures(node, step, current.profile)
            pending += step.inner


def _inner_failures(node: Node, step: Step, profile: Profile) -> Iterator[str]:
    """What is wrong with the plans of a node's sub-graphs as such."""
    held = graphs_run(node.op, node.params)
    if len(held) != len(step.inner):
        yield f"{label(node.op)} holds {len(held)} sub-graphs, but its step has {len(step.inner)} plans for them"
        return
    foreign = foreign_inside(step.capsule, step.inner)
    if foreign is not None:
        yield f"{step.capsule.name} {foreign} (step %{node.outputs[0]}, {node.where})"
    for graph, inner in zip(held, step.inner, strict=True):
        if inner.graph is not graph and inner.graph != graph:
            yield f"the plan of {inner.graph.name} inside {label(node.op)} is of another graph than the node holds"
        if inner.profile is not profile and inner.profile != profile:
            yield f"the plan of {inner.graph.name} inside {label(node.op)} is for profile {inner.profile.name!r}"


def _failures_of_one(plan: Plan) -> Iterator[str]:
    nodes, steps, types = plan.graph.nodes, plan.steps, plan.graph.types
    if len(nodes) != len(steps):
        yield f"the plan has {len(steps)} steps for {len(nodes)} nodes"
        return
    reasons: dict[int, tuple[str | None, list[str]]] = {}
    registry = {id(capsule): module for module in plan.profile.modules for capsule in module.capsules}
    decided: dict[tuple[Any, ...], str | None] = {}
    level = plan.profile.policy.determinism
    for node, step in zip(nodes, steps, strict=True):
        capsule = step.capsule
        if node is not step.node and node != step.node:
            yield f"step %{step.node.outputs[0]} is not node %{node.outputs[0]} of the graph"
            continue
        if node.op is not capsule.op:
            yield f"planned operation {label(node.op)} does not match capsule operation {label(capsule.op)}"
            continue
        if id(capsule) not in reasons:
            module = registry.get(id(capsule))
            origin = "comes from no module of the profile" if module is None else module.probe()
            against = list(_capsule_failures(capsule, plan.profile))
            if module is not None:
                against += _evidence_failures(capsule, module, plan.profile.policy)
            reasons[id(capsule)] = (origin, against)
        origin, found = reasons[id(capsule)]
        if level is not None and (wanting := _undetermined(capsule, level)):
            yield f"{capsule.name} {wanting}, for {label(node.op)} (step %{node.outputs[0]}, {node.where})"
        if origin is not None:
            yield f"{capsule.name} is unavailable: {origin}"
        yield from found
        operands = tuple([types[value] for value in node.inputs])
        key = (id(capsule), node.params, operands)
        if key not in decided:
            decided[key] = capsule.refuses(node.params, operands)
        refused = decided[key]
        if refused is not None:
            yield f"{capsule.name} refuses {label(node.op)} of {show_types(operands)}: {refused}"


def _undetermined(capsule: Capsule, level: Determinism) -> str | None:
    """What a step lacks for the level asked for."""
    order, repeated = capsule.numerics.reduction, capsule.numerics.repeats
    fixed = (Reduction.FIXED_LEFT, Reduction.FIXED_TREE, Reduction.NOT_APPLICABLE)
    if level is Determinism.BITWISE and order not in fixed:
        return f"adds in {order} order, which {level} determinism excludes"
    if level is Determinism.RUN_TO_RUN and repeated is not Repeats.SAME_BITS:
        stated = "bits that may differ" if repeated is Repeats.MAY_DIFFER else "bits it does not state"
        return f"gives {stated} when it is run again, which {level} determinism excludes"
    return None


def _evidence_failures(capsule: Capsule, module: CapsuleModule, policy: AssurancePolicy) -> Iterator[str]:
    """The tested contracts whose records do not hold here and now."""
    enough = {State.FRESH}
    if not policy.exact_evidence:
        enough.add(State.OTHER_VERSION)
    if policy.allow_stale:
        enough |= {State.STALE, State.NEVER_RUN}
    for obligation in OBLIGATIONS:
        held = module.standing(capsule, obligation)
        if held is not None and held.state not in enough:
            under = "".join([f"{variable}={value} " for variable, value in module.environment_of(capsule)])
            yield (
                f"{capsule.name} has no admissible {obligation} evidence for {label(capsule.op)}: {held.state}, "
                f"{held.reason}; to refresh it: {under}torchlean evidence run --capsule {capsule.name}"
            )


def _capsule_failures(capsule: Capsule, profile: Profile) -> Iterator[str]:
    """What the policy has against a capsule, whatever the node."""
    policy, op, name = profile.policy, label(capsule.op), capsule.name
    if capsule.handler is None:
        yield f"{name} has no forward implementation for {op}"
    reports = obligations(capsule)
    wanted = Claim.NO_VJP if capsule.vjp_mode is VjpMode.NONE else Claim.VJP
    if tuple(report.claim for report in reports) != (Claim.SHAPE, Claim.LAYOUT, Claim.VALUE, wanted):
        yield f"{name} has misaligned contract claims for {op}"
    if not policy.trusted_external:
        if capsule.trust is not TrustLevel.CHECKED:
            yield f"{name} uses rejected trust level {capsule.trust} for {op}"
        for report in reports:
            if report.is_trusted_boundary:
                yield f"{name} has rejected {report.obligation} evidence for {op}: {report.evidence}"
    if policy.providers is not None and capsule.provider not in policy.providers:
        yield f"{name} uses rejected provider {capsule.provider} for {op}"
    if capsule.device is not profile.device:
        yield f"{name} targets {capsule.device}, not requested {profile.device}, for {op}"
    offered, requested = capsule.vjp_mode, policy.vjp
    admitted = {
        VjpMode.NONE: tuple(VjpMode),
        VjpMode.TAPE: (VjpMode.TAPE, VjpMode.BACKEND),
        VjpMode.BACKEND: (VjpMode.BACKEND,),
    }[requested]
    if offered not in admitted and not isinstance(capsule.op.diff, NoTangent):
        yield f"{name} offers {offered}, not requested {requested}, for {op}"
    order = capsule.numerics.reduction
    if capsule.op.reduces and order is Reduction.NOT_APPLICABLE:
        yield f"{name} reduces {op} but states no reduction order"
    if policy.reduction is not None and order is not policy.reduction and order is not Reduction.NOT_APPLICABLE:
        yield f"{name} adds in {order} order, not {policy.reduction}, for {op}"
