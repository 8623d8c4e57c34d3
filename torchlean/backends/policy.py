"""What a profile admits: which trust, which providers, which reduction order, which ownership of derivatives."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torchlean.backends.vocabulary import Determinism, Reduction, VjpMode


@dataclass(frozen=True, slots=True, kw_only=True)
class AssurancePolicy:
    """`trusted_external`: admit capsules whose evidence is a trusted boundary. `vjp`: the derivative ownership asked
    for (`TAPE` also accepts a backend's own; `NONE` asks for nothing). `reduction`: the order a reducing capsule must
    have, or None for any. `providers`: the only providers admitted, or None for all. `determinism`: what every step
    must give when it is run again, or None for no demand. `allow_stale`: admit claims whose evidence is stale or was
    never run; a plan says which. `exact_evidence`: refuse evidence of other library versions or instruction sets.
    """

    trusted_external: bool
    vjp: VjpMode
    reduction: Reduction | None
    providers: tuple[str, ...] | None
    determinism: Determinism | None = None
    allow_stale: bool = False
    exact_evidence: bool = False

    @property
    def label(self) -> str:
        """`checked` or `external`, as reports print it."""
        return "external" if self.trusted_external else "checked"

    def admitting_external(self) -> AssurancePolicy:
        """The same policy, trusted boundaries admitted."""
        return replace(self, trusted_external=True)

    def allowing_stale(self) -> AssurancePolicy:
        """The same policy, claims admitted whose evidence is stale or was never run; failed ones are not."""
        return replace(self, allow_stale=True)

    def with_exact_evidence(self) -> AssurancePolicy:
        """The same policy, evidence of other versions or instruction sets refused."""
        return replace(self, exact_evidence=True)

    def without_gradients(self) -> AssurancePolicy:
        """The same policy for inference: a capsule need not have a derivative."""
        return replace(self, vjp=VjpMode.NONE)


CHECKED = AssurancePolicy(trusted_external=False, vjp=VjpMode.TAPE, reduction=None, providers=None)
STRICT = AssurancePolicy(trusted_external=False, vjp=VjpMode.TAPE, reduction=Reduction.FIXED_LEFT, providers=None)
EXTERNAL = AssurancePolicy(trusted_external=True, vjp=VjpMode.TAPE, reduction=None, providers=None)
