"""What is known about one kernel: four contracts and their evidence, VJP ownership, a value bound, a numerical policy.

A capsule states what is expected of an implementation; it proves nothing about it. Trust is derived from the evidence,
never declared. Unlike the first design: `refuses(params, operand types)` takes no node, so that planning can be
memoised by (op, params, types); `handler` may be None, which says "planned for, but nothing here runs it".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from torchlean.backends.vocabulary import (
    OBLIGATIONS,
    Accumulator,
    Claim,
    Contraction,
    Device,
    Reduction,
    Repeats,
    Subnormals,
    TrustLevel,
    VjpMode,
    claim_text,
    label,
)
from torchlean.errors import ConfigError, message
from torchlean.ir.op import Op
from torchlean.ir.types import TensorType

_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")


# -- evidence ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RuntimeGuard:
    """The claim is checked when the kernel is bound (or called); `check` says by what."""

    check: str

    def __str__(self) -> str:
        return f"guarded at runtime by {self.check}"


@dataclass(frozen=True, slots=True)
class TestSuite:
    """The claim is covered by the named pytest ids (`tests/file.py::test`)."""

    __test__: ClassVar[bool] = False  # pytest collects classes by name
    ids: tuple[str, ...]

    def __str__(self) -> str:
        return f"covered by test suite {', '.join(self.ids)}"


@dataclass(frozen=True, slots=True)
class TrustedBoundary:
    """Nobody here has checked the claim; `reason` says what is trusted instead."""

    reason: str

    def __str__(self) -> str:
        return f"trusted boundary: {self.reason}"


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """There is nothing to claim, because of `reason`."""

    reason: str

    def __str__(self) -> str:
        return "not applicable"


Evidence = RuntimeGuard | TestSuite | TrustedBoundary | NotApplicable


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One claim with its evidence. `summary` adds what the standard sentence of the claim does not say (may be empty);
    `source` is the file that carries out the claim, or None.
    """

    claim: Claim
    summary: str
    evidence: Evidence
    source: str | None


def guarded(claim: Claim, check: str, *, summary: str = "", source: str | None = None) -> Contract:
    """A contract whose claim is checked at run time by `check`."""
    return Contract(claim=claim, summary=summary, evidence=RuntimeGuard(check), source=source)


def tested(claim: Claim, *ids: str, summary: str = "", source: str | None = None) -> Contract:  # noqa: PT028
    """A contract covered by pytest ids; at least one."""
    if not ids:
        raise ConfigError(message(f"a tested {claim} contract names no test", fix="name the pytest ids that cover it"))
    return Contract(claim=claim, summary=summary, evidence=TestSuite(ids), source=source)


def trusted(claim: Claim, reason: str, *, summary: str = "", source: str | None = None) -> Contract:
    """A contract that rests on trust in `reason`; only a policy that admits external trust accepts it."""
    return Contract(claim=claim, summary=summary, evidence=TrustedBoundary(reason), source=source)


def vjp_unavailable(reason: str) -> Contract:
    """The vjp contract of a capsule without a derivative."""
    return Contract(claim=Claim.NO_VJP, summary="", evidence=NotApplicable(reason), source=None)


# -- numbers -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Bitwise:
    """Every result has the bits of the definition (NaN payloads apart)."""


@dataclass(frozen=True, slots=True)
class Ulp:
    """Within `n` units in the last place of the definition; 0 means equal as numbers (the sign of zero may differ).

    Both parts of a complex number are measured in units of the larger one.
    """

    n: int


@dataclass(frozen=True, slots=True)
class Relative:
    """|result - definition| ≤ eps · ε · n · Σ|terms| for n folded terms, ε the machine epsilon of the dtype."""

    eps: float


@dataclass(frozen=True, slots=True)
class Normwise:
    """|result - definition| ≤ eps · ε · n · (1 + the largest finite |entry| of the float operands).

    ε is the machine epsilon of the dtype and n the number of entries of the largest operand. For kernels whose result
    can be small by cancellation, where no bound relative to the result holds.
    """

    eps: float


@dataclass(frozen=True, slots=True)
class OfFinite:
    """`bound`, where the operands are finite: of ops of single entries, those in the entry's place; else all of them.

    For kernels to which an infinity or a NaN means something else than to the definition.
    """

    bound: Ulp | Relative | Normwise


@dataclass(frozen=True, slots=True)
class Unstated:
    """No distance to the definition is claimed."""


ValueBound = Bitwise | Ulp | Relative | Normwise | OfFinite | Unstated


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericalPolicy:
    """The numerical facts of a kernel. None has a default that could be false: `repeats` says at first that nothing
    is stated.
    """

    reduction: Reduction
    contraction: Contraction
    subnormals: Subnormals
    accumulator: Accumulator
    repeats: Repeats = Repeats.UNSTATED


LEFT_FOLDS = NumericalPolicy(  # of a kernel that adds as the definition does
    reduction=Reduction.FIXED_LEFT,
    contraction=Contraction.SEPARATE,
    subnormals=Subnormals.GRADUAL,
    accumulator=Accumulator.OPERAND,
    repeats=Repeats.SAME_BITS,
)
POINTWISE = NumericalPolicy(  # of a kernel that adds nothing up
    reduction=Reduction.NOT_APPLICABLE,
    contraction=Contraction.SEPARATE,
    subnormals=Subnormals.GRADUAL,
    accumulator=Accumulator.NOT_APPLICABLE,
    repeats=Repeats.SAME_BITS,
)


Refuses = Callable[[Any, tuple[TensorType, ...]], str | None]


def refuses_nothing(params: Any, types: tuple[TensorType, ...]) -> str | None:
    """For kernels that serve every node their op's type rule accepts."""
    return None


# -- the capsule -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    """One kernel for one op on one device.

    `variant` tells two kernels of a provider for one op apart: `torchlean.direct_attention`. `layout_kind` names the
    buffers it reads. `refuses(params, operand types)` is None, or why it cannot serve them. `handler` is a `Handler`.
    """

    op: Op
    provider: str
    device: Device
    shape: Contract
    layout: Contract
    value: Contract
    vjp: Contract
    vjp_mode: VjpMode
    bound: ValueBound
    numerics: NumericalPolicy
    handler: Any  # a Handler or None; the protocol lies above this file
    refuses: Refuses
    layout_kind: str = "canonical-tensor"
    variant: str = ""

    def __post_init__(self) -> None:
        name = self.name
        if not _NAME.fullmatch(name):
            raise ConfigError(
                message(
                    "a capsule name has characters outside a-z 0-9 _ .",
                    expected="<provider>.<op>, as in reference.add",
                    got=repr(name),
                    fix="spell the provider and the variant in lower case, digits and underscores",
                )
            )
        fault = misaligned(self)
        if fault is not None:
            raise ConfigError(
                message(
                    f"{name} has misaligned contract claims for {label(self.op)}: {fault}",
                    fix="put each contract in the field of its claim, and give the vjp contract the capsule's vjp_mode",
                )
            )
        if self.op.reduces and self.numerics.reduction is Reduction.NOT_APPLICABLE:
            raise ConfigError(
                message(
                    f"{name} reduces, so its reduction order cannot be n/a",
                    expected=f"{Reduction.FIXED_LEFT}, {Reduction.FIXED_TREE} or {Reduction.IMPLEMENTATION_DEFINED}",
                    got="n/a",
                    fix="state the order in which the kernel adds",
                )
            )

    @property
    def name(self) -> str:
        """`reference.add`; with a variant, `torchlean.direct_attention`."""
        prefix = f"{self.variant}_" if self.variant else ""
        return f"{self.provider}.{prefix}{label(self.op)}"

    @property
    def contracts(self) -> tuple[Contract, Contract, Contract, Contract]:
        """In the order shape, layout, value, vjp."""
        return (self.shape, self.layout, self.value, self.vjp)

    @property
    def trust(self) -> TrustLevel:
        """Derived: any trusted boundary makes the capsule trusted-external."""
        if any(isinstance(contract.evidence, TrustedBoundary) for contract in self.contracts):
            return TrustLevel.TRUSTED_EXTERNAL
        return TrustLevel.CHECKED

    def __repr__(self) -> str:
        return f"<capsule {self.name} on {self.device}>"


def misaligned(capsule: Capsule) -> str | None:
    """Why the contracts do not sit in the fields of their claims, or None."""
    has_vjp = capsule.vjp_mode is not VjpMode.NONE
    expected = (Claim.SHAPE, Claim.LAYOUT, Claim.VALUE, Claim.VJP if has_vjp else Claim.NO_VJP)
    for field, wanted, contract in zip(OBLIGATIONS, expected, capsule.contracts, strict=True):
        if contract.claim is not wanted:
            return f"field {field} holds a {contract.claim} claim, expected {wanted}"
        if isinstance(contract.evidence, NotApplicable) and contract.claim is not Claim.NO_VJP:
            return f"field {field} is not applicable, which only an absent vjp may be"
    return None


def report_lines(capsule: Capsule) -> list[str]:
    """What `--show-backend` prints for a capsule: its line, then one line per contract with its evidence."""
    lines = [
        f"  {label(capsule.op)}: {capsule.name} provider={capsule.provider} trust={capsule.trust} "
        f"vjp={capsule.vjp_mode} reduction={capsule.numerics.reduction}"
    ]
    for field, contract in zip(OBLIGATIONS, capsule.contracts, strict=True):
        claim = claim_text(contract.claim, capsule.op, capsule.vjp_mode, capsule.layout_kind)
        extra = f" ({contract.summary})" if contract.summary else ""
        lines.append(f"    {field}: {claim}{extra}; {contract.evidence}")
    return lines
