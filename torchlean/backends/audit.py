"""The audit of a plan: per capsule four obligations with their evidence; and groups of adjacent equal capsules.

An audit is data that compares by content, so that it can be stored beside a result and compared with a later run.
Grouping is bookkeeping, not fusion, and asks for equality of whole capsules, evidence included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torchlean.backends.capsule import (
    Capsule,
    Evidence,
    NumericalPolicy,
    TrustedBoundary,
    report_lines,
)
from torchlean.backends.plan import Derivative, Plan, all_steps
from torchlean.backends.profile import CapsuleModule, Profile
from torchlean.backends.vocabulary import OBLIGATIONS, Claim, Device, TrustLevel, VjpMode, claim_text, label


@dataclass(frozen=True, slots=True)
class ObligationReport:
    """One claim of one capsule and what stands behind it. `obligation` is shape, layout, value or vjp; `state` is how
    a tested claim's record stands, empty for other evidence and where no plan says whose capsule it is.
    """

    op: str
    capsule: str
    obligation: str
    claim: Claim
    text: str
    evidence: Evidence
    state: str = ""

    @property
    def is_trusted_boundary(self) -> bool:
        return isinstance(self.evidence, TrustedBoundary)

    def __str__(self) -> str:
        return f"{self.capsule} {self.obligation}: {self.text}; {self.stands_on}"

    @property
    def stands_on(self) -> str:
        """The evidence, with the state of its record."""
        return f"{self.evidence} ({self.state})" if self.state else str(self.evidence)


@dataclass(frozen=True, slots=True)
class KernelAudit:
    """What the plan relies on for one capsule, and how many nodes it runs."""

    op: str
    capsule: str
    provider: str
    device: Device
    trust: TrustLevel
    vjp_mode: VjpMode
    numerics: NumericalPolicy
    obligations: tuple[ObligationReport, ...]
    nodes: int


@dataclass(frozen=True, slots=True)
class PlanAudit:
    """One `KernelAudit` per capsule, in order of first use; and who does each `<op>.vjp` of a composite."""

    profile: str
    kernels: tuple[KernelAudit, ...]
    derivatives: tuple[Derivative, ...]

    @property
    def trusted_boundaries(self) -> tuple[ObligationReport, ...]:
        """The obligations that rest on trust."""
        return tuple(report for kernel in self.kernels for report in kernel.obligations if report.is_trusted_boundary)

    def as_json(self) -> dict[str, Any]:
        """The audit as plain data."""
        return {
            "profile": self.profile,
            "kernels": [
                {
                    "op": kernel.op,
                    "capsule": kernel.capsule,
                    "provider": kernel.provider,
                    "device": str(kernel.device),
                    "trust": str(kernel.trust),
                    "vjp": str(kernel.vjp_mode),
                    "reduction": str(kernel.numerics.reduction),
                    "contraction": str(kernel.numerics.contraction),
                    "subnormals": str(kernel.numerics.subnormals),
                    "accumulator": str(kernel.numerics.accumulator),
                    "repeats": str(kernel.numerics.repeats),
                    "nodes": kernel.nodes,
                    "obligations": {
                        report.obligation: f"{report.text}; {report.stands_on}" for report in kernel.obligations
                    },
                }
                for kernel in self.kernels
            ],
            "derivatives": [made.as_json() for made in self.derivatives],
        }


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """A run of adjacent nodes with one capsule. `nodes` are positions in the plan."""

    capsule: Capsule
    nodes: tuple[int, ...]


def obligations(capsule: Capsule, owner: CapsuleModule | None = None) -> tuple[ObligationReport, ...]:
    """The four obligations of a capsule; with the module it belongs to, also how the records of tested ones stand."""
    held = {} if owner is None else {field: owner.standing(capsule, field) for field in OBLIGATIONS}
    states = {field: str(standing.state) for field, standing in held.items() if standing is not None}
    return tuple(
        [
            ObligationReport(
                op=label(capsule.op),
                capsule=capsule.name,
                obligation=field,
                claim=contract.claim,
                text=claim_text(contract.claim, capsule.op, capsule.vjp_mode, capsule.layout_kind),
                evidence=contract.evidence,
                state=states.get(field, ""),
            )
            for field, contract in zip(OBLIGATIONS, capsule.contracts, strict=True)
        ]
    )


def audit(plan: Plan) -> PlanAudit:
    """What the plan relies on, inside control flow too."""
    used: dict[int, tuple[Capsule, int]] = {}
    owners = plan.profile.owners()
    for step in all_steps(plan):
        capsule, count = used.get(id(step.capsule), (step.capsule, 0))
        used[id(step.capsule)] = (capsule, count + 1)
    kernels = [
        KernelAudit(
            op=label(capsule.op),
            capsule=capsule.name,
            provider=capsule.provider,
            device=capsule.device,
            trust=capsule.trust,
            vjp_mode=capsule.vjp_mode,
            numerics=capsule.numerics,
            obligations=obligations(capsule, owners.get(id(capsule))),
            nodes=count,
        )
        for capsule, count in used.values()
    ]
    return PlanAudit(profile=plan.profile.name, kernels=tuple(kernels), derivatives=plan.derivatives())


def groups(plan: Plan) -> tuple[KernelGroup, ...]:
    """Adjacent steps with equal capsules, joined."""
    made: list[KernelGroup] = []
    current: list[int] = []
    for position, step in enumerate(plan.steps):
        if current:
            previous = plan.steps[current[-1]].capsule
            if previous is not step.capsule and previous != step.capsule:
                made.append(KernelGroup(previous, tuple(current)))
                current = []
        current.append(position)
    if current:
        made.append(KernelGroup(plan.steps[current[-1]].capsule, tuple(current)))
    return tuple(made)


def evidence_record(profile: Profile, capsules: Iterable[Capsule]) -> dict[str, Any]:
    """For provenance: what the policy admits, how many tested claims of these capsules are in each state, and every one
    that is not fresh, with the reason.
    """
    owners = profile.owners()
    named = {capsule.name: module for module in profile.modules for capsule in module.capsules}
    counts: dict[str, int] = {}
    others: dict[str, str] = {}
    for capsule in capsules:
        owner = owners.get(id(capsule)) or named.get(capsule.name)  # a switch makes other capsules of the same name
        for field in OBLIGATIONS if owner is not None else ():
            standing = owner.standing(capsule, field) if owner is not None else None
            if standing is not None:
                counts[str(standing.state)] = counts.get(str(standing.state), 0) + 1
                if standing.reason:
                    others[f"{capsule.name} {field}"] = str(standing)
    policy = profile.policy
    return {
        "allow_stale": policy.allow_stale,
        "exact": policy.exact_evidence,
        "claims": dict(sorted(counts.items())),
        "not_fresh": dict(sorted(others.items())),
    }


def plan_report(plan: Plan) -> list[str]:
    """The profile's line, the trust boundary, then the report lines of every capsule in order of first use."""
    used = {id(step.capsule): step.capsule for step in all_steps(plan)}
    outside = sorted({label(capsule.op) for capsule in used.values() if capsule.trust is TrustLevel.TRUSTED_EXTERNAL})
    lines = [str(plan.profile), f"trusted-external capsules: {', '.join(outside) or 'none'}"]
    for capsule in used.values():
        lines += report_lines(capsule)
    return lines + [
        f"  {made.op}: {made.capsule or 'expanded into its nodes'} vjp={made.mode}" for made in plan.derivatives()
    ]
