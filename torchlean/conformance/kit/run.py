"""The conformance kit: try every contract of a capsule and say what was found.

An outcome is the result of tests, on the cases they ran; it proves nothing. The kernels are run directly, operands and
results being NumPy arrays, so that neither the planner nor evidence recorded earlier has a say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchlean.backends import profiles
from torchlean.backends.capsule import Capsule
from torchlean.backends.handler import bind_capsule
from torchlean.backends.profile import CapsuleModule
from torchlean.backends.target import always_available
from torchlean.backends.vocabulary import OBLIGATIONS
from torchlean.conformance.kit.bounds import tolerance_of, unit_of
from torchlean.conformance.kit.calls import lone_node, said
from torchlean.conformance.kit.derivatives import try_vjp
from torchlean.conformance.kit.layout import try_layout
from torchlean.conformance.kit.shape import try_shape
from torchlean.conformance.kit.subject import Subject
from torchlean.conformance.kit.tally import Tally
from torchlean.conformance.kit.value import try_value
from torchlean.conformance.samples.call import Case
from torchlean.conformance.samples.cases import KIT_CASES
from torchlean.evidence.claim import Outcome


def run_capsule(
    capsule: Capsule,
    *,
    quick: bool = False,
    seed: int = 0,
    module: CapsuleModule | None = None,
    cases: Sequence[Case] = (),
) -> tuple[Outcome, Outcome, Outcome, Outcome]:
    """The outcomes of the shape, layout, value and vjp contracts.

    `module` is the one the capsule belongs to: its other capsules run the nodes of VJPs (found for maintained capsules;
    the capsule alone when it belongs to none). `cases` are samples beside the kit's own, for ops the kit does not know.
    `quick` tries a dozen calls. Raises ConfigError when there is no sample of the op.
    """
    made = tuple(run_contracts(capsule, OBLIGATIONS, quick=quick, seed=seed, module=module, cases=cases))
    return made[0], made[1], made[2], made[3]


def run_contracts(
    capsule: Capsule,
    claims: Sequence[str],
    *,
    quick: bool = False,
    seed: int = 0,
    module: CapsuleModule | None = None,
    cases: Sequence[Case] = (),
) -> Iterator[Outcome]:
    """The outcomes of some contracts, one by one."""
    home = module or home_of(capsule)
    known = (*cases, *KIT_CASES)
    subject = Subject(capsule, home, known, quick=quick, seed=seed)
    unbound = _cannot_be_bound(subject)
    for claim in claims:
        tally = Tally(capsule, claim)
        if unbound is not None:
            tally.failed(
                "the capsule cannot be bound",
                expected="a kernel for one of its samples",
                got=unbound,
                fix="give the capsule the handler made for its op, provider and device",
            )
        else:
            _attempt(claim, subject, tally, known)
        tests = [f"torchlean.conformance.kit::{capsule.name}::{claim}"]
        measured = claim == "value"
        yield tally.outcome(
            tests=tests,
            unit=unit_of(capsule.bound) if measured else "ulp" if claim == "vjp" else "",
            tolerance=_tolerance(capsule, claim),
            seed=seed,
        )


def run_module(
    module: CapsuleModule, *, quick: bool = False, seed: int = 0, cases: Sequence[Case] = ()
) -> Iterator[Outcome]:
    """Every contract of every capsule of a module."""
    for capsule in module.capsules:
        yield from run_capsule(capsule, quick=quick, seed=seed, module=module, cases=cases)


def home_of(capsule: Capsule) -> CapsuleModule:
    """The maintained module a capsule belongs to, or one that holds it alone."""
    for profile in profiles.MAINTAINED:
        for module in profile.modules:
            if any([capsule is mine for mine in module.capsules]):
                return module
    return CapsuleModule(name=capsule.provider, capsules=(capsule,), probe=always_available)


def _attempt(claim: str, subject: Subject, tally: Tally, cases: Sequence[Case]) -> None:
    match claim:
        case "shape":
            try_shape(subject, tally)
        case "layout":
            try_layout(subject, tally)
        case "value":
            try_value(subject, tally)
        case _:
            try_vjp(subject, tally, cases)


def _cannot_be_bound(subject: Subject) -> str | None:
    """Why none of the served samples can be bound, or None."""
    first: str | None = None
    for trial in subject.served:
        node, types = lone_node(subject.capsule.op, trial.params, trial.types)
        try:
            bind_capsule(subject.capsule, node, types, None)
        except Exception as error:
            first = first or said(error)
        else:
            return None
    return first


def _tolerance(capsule: Capsule, claim: str) -> str:
    if claim == "value":
        return tolerance_of(capsule.bound)
    return {
        "shape": "exact types",
        "layout": "the same bits, or within the bound where the order is implementation-defined",
    }.get(claim, str(capsule.vjp_mode))
