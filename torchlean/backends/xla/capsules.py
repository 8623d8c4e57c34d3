"""The capsules of XLA: every op but effects. Their values rest on a compiler nobody here has checked.

What is measured of it is stated: on CPUs float32 and float64 subnormals count as zero, operands and results, while
16-bit formats keep theirs; reductions have the order XLA chooses; products may be fused with sums.
"""

from __future__ import annotations

from typing import Any

from torchlean.backends.capsule import (
    Bitwise,
    Capsule,
    Contract,
    NumericalPolicy,
    Ulp,
    Unstated,
    ValueBound,
    guarded,
    tested,
    trusted,
    vjp_unavailable,
)
from torchlean.backends.handler import FRESH, VIEW
from torchlean.backends.profile import CapsuleModule
from torchlean.backends.switches import at_load
from torchlean.backends.vocabulary import (
    Accumulator,
    Claim,
    Contraction,
    Reduction,
    Repeats,
    Subnormals,
    VjpMode,
    label,
)
from torchlean.backends.xla.grouper import XlaGrouper
from torchlean.backends.xla.handlers import PROVIDER, InXla
from torchlean.backends.xla.platforms import CPU, Platform
from torchlean.backends.xla.served import (
    COMPLEX,
    MOVES,
    QUOTIENTS,
    THREADED,
    VIEWS,
    bound_of,
    has_complex,
    refused,
    served,
)
from torchlean.evidence.ledger import Ledger
from torchlean.ir.graph import sub_graphs
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.rules import NoTangent
from torchlean.ir.types import TensorType

_TESTS = "tests/backends/xla/test_bounds.py"
VJP_TEST = f"{_TESTS}::test_the_gradient_is_within_its_bound"


def _numerics(op: Op, bound: ValueBound, platform: Platform) -> NumericalPolicy:
    """Of an exact op no order shows. The last bits of others may depend on the place of an entry: a loop over vectors
    and the one over what it leaves are contracted each in its own way.
    """
    moves, exact = op in MOVES, bound in (Bitwise(), Ulp(0))
    repeats = (moves or platform.measured) and op not in THREADED
    return NumericalPolicy(
        reduction=Reduction.NOT_APPLICABLE if exact and not op.reduces else Reduction.IMPLEMENTATION_DEFINED,
        contraction=Contraction.NOT_APPLICABLE if moves else Contraction.IMPLEMENTATION_DEFINED,
        subnormals=_subnormals(op, platform),
        accumulator=Accumulator.IMPLEMENTATION_DEFINED if op.reduces else Accumulator.NOT_APPLICABLE,
        repeats=Repeats.SAME_BITS if repeats else Repeats.UNSTATED,
    )


def _subnormals(op: Op, platform: Platform) -> Subnormals:
    if op in QUOTIENTS or not (op in MOVES or platform.measured):
        return Subnormals.IMPLEMENTATION_DEFINED
    return Subnormals.GRADUAL if op in MOVES else Subnormals.ZERO


def refusing(op: Op, platform: Platform, *, complex: bool | None) -> Any:
    """Why a node is not served. `complex`: the capsule is for such operands only, or for others only."""

    def refusal(params: Any, types: tuple[TensorType, ...]) -> str | None:
        if complex is True and not has_complex(types):
            return "it is for complex numbers"
        if complex is False and has_complex(types):
            return f"complex numbers have a capsule of their own, {PROVIDER}.complex_{label(op)}"
        reason = refused(op, params, types)
        if reason is None and platform.lacks:
            reason = platform.refused((*types, *op.type_rule(params, *types), *_inside(op, params)))
        return reason

    return refusal


def _inside(op: Op, params: Any) -> tuple[TensorType, ...]:
    """The types of all values in the sub-graphs of a node."""
    bodies = [params.body] if isinstance(op, Composite) else [graph for _, graph in sub_graphs(params)]
    return tuple([type for body in bodies for type in body.types])


def _capsule(
    op: Op, grouper: XlaGrouper, claimed: ValueBound, platform: Platform, *, complex: bool | None = None
) -> Capsule:
    cut = isinstance(op.diff, NoTangent)
    bound = claimed if platform.measured or op in MOVES else Unstated()
    variant = "complex" if complex else ""
    name = f"{PROVIDER}.{variant}{'_' if variant else ''}{label(op)}"
    return Capsule(
        op=op,
        provider=PROVIDER,
        device=platform.device,
        shape=guarded(Claim.SHAPE, "the op's type rule, when bound; XLA, at each call"),
        layout=guarded(Claim.LAYOUT, "row-major operands; jax copies others"),
        value=trusted(Claim.VALUE, "the XLA compiler", summary="of the op alone; in a group XLA rewrites"),
        vjp=vjp_unavailable(op.diff.reason) if isinstance(op.diff, NoTangent) else _gradient(platform),
        vjp_mode=VjpMode.NONE if cut else VjpMode.TAPE,
        bound=bound,
        numerics=_numerics(op, bound, platform),
        handler=InXla(
            op=op,
            provider=PROVIDER,
            device=platform.device,
            traits=VIEW if op in VIEWS else FRESH,
            grouper=grouper,
            capsule=name,
        ),
        refuses=refusing(op, platform, complex=complex),
        variant=variant,
    )


def _gradient(platform: Platform) -> Contract:
    """What the gradient rests on: it is run where records are of."""
    return tested(Claim.VJP, VJP_TEST) if platform.measured else trusted(Claim.VJP, "the XLA compiler")


def _capsules(grouper: XlaGrouper, platform: Platform) -> tuple[Capsule, ...]:
    made: list[Capsule] = []
    for op in served():
        apart = op in COMPLEX
        made.append(_capsule(op, grouper, bound_of(op), platform, complex=False if apart else None))
        if apart:
            made.append(_capsule(op, grouper, COMPLEX[op], platform, complex=True))
    return tuple(made)


def module(platform: Platform = CPU, device: Any = None) -> CapsuleModule:
    """The capsules of a platform, with executables of their own. `device`: jax's, on which they run; None is its first
    CPU device.
    """
    grouper = XlaGrouper(device)
    return CapsuleModule(
        name=PROVIDER,
        capsules=_capsules(grouper, platform),
        probe=grouper.missing,
        settings=(at_load("XLA_FLAGS", "changes how XLA compiles"), at_load("JAX_PLATFORMS", "chooses platforms")),
        ledger=LEDGER,
        eager=False,
    )


LEDGER = Ledger(
    PROVIDER, package="torchlean", shipped="evidence/records/xla.json", libraries=("numpy", "jax", "jaxlib")
)
MODULE = module()
