"""The capsules of generated C: exact elementwise ops, movements, folds, products, running folds, random bits.

They have the bits of the definition: every fold goes left in index order and rounds products before it adds them. What
is not here runs on the next provider of the profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torchlean.backends.capsule import LEFT_FOLDS, POINTWISE, Bitwise, Capsule, guarded, tested, vjp_unavailable
from torchlean.backends.compiled.grouper import CGrouper
from torchlean.backends.compiled.handlers import PROVIDER, InC
from torchlean.backends.compiled.served import (
    COMPLEX,
    COMPOSITES,
    ELEMENTWISE,
    HALVES,
    NUMBERS,
    PRIMITIVES,
    VIEWS,
    refused,
    refused_complex,
    refused_halves,
)
from torchlean.backends.handler import FRESH, VIEW
from torchlean.backends.profile import CapsuleModule
from torchlean.backends.vocabulary import (
    Claim,
    Device,
    VjpMode,
    label,
)
from torchlean.evidence.ledger import Ledger
from torchlean.ir.graph import Graph
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.rules import NoTangent
from torchlean.ir.types import TensorType

if TYPE_CHECKING:
    from torchlean.backends.compiled.loading import Builds

_TESTS = "tests/backends/compiled/test_bits.py"
VALUE_TEST = f"{_TESTS}::test_the_kernel_has_the_bits_of_the_definition"
VJP_TEST = f"{_TESTS}::test_the_gradient_has_the_bits_of_its_definition"


def refuses(op: Op) -> Any:
    """Why a node of the op cannot be written in C, or None."""

    def refusal(params: Any, types: tuple[TensorType, ...]) -> str | None:
        try:
            made = op.type_rule(params, *types)
        except Exception:
            return None  # the guard of types says what is wrong
        dtypes = {type.dtype for type in (*types, *made)}
        for dtype in dtypes - NUMBERS - HALVES - COMPLEX:
            return f"{dtype.short} has no arithmetic in the generated C"
        if dtypes & HALVES and not isinstance(op, Composite):
            reason = refused_halves(op)
            if reason is not None:
                return reason
        if dtypes & COMPLEX and not isinstance(op, Composite):
            reason = refused_complex(op, params)
            if reason is not None:
                return reason
        if isinstance(op, Composite):
            return _of_body(params.body)
        return refused(op, params, tuple([type.dtype for type in types])) if op in ELEMENTWISE else None

    return refusal


def _of_body(body: Graph) -> str | None:
    for node in body.nodes:
        if node.op not in PRIMITIVES:
            return f"its body has {label(node.op)}, which is not written in C"
        reason = refuses(node.op)(node.params, tuple([body.types[id] for id in node.inputs]))
        if reason is not None:
            return reason
    return None


def _capsule(op: Op, grouper: CGrouper) -> Capsule:
    cut = isinstance(op.diff, NoTangent)
    return Capsule(
        op=op,
        provider=PROVIDER,
        device=Device.CPU,
        shape=guarded(Claim.SHAPE, "the op's type rule, when bound; sizes, at each call"),
        layout=guarded(Claim.LAYOUT, "row-major operands; others are copied"),
        value=tested(Claim.VALUE, VALUE_TEST),
        vjp=vjp_unavailable(op.diff.reason) if isinstance(op.diff, NoTangent) else tested(Claim.VJP, VJP_TEST),
        vjp_mode=VjpMode.NONE if cut else VjpMode.TAPE,
        bound=Bitwise(),
        numerics=LEFT_FOLDS if op.reduces else POINTWISE,
        handler=InC(
            op=op,
            provider=PROVIDER,
            device=Device.CPU,
            traits=VIEW if op in VIEWS else FRESH,
            grouper=grouper,
            capsule=f"{PROVIDER}.{label(op)}",
        ),
        refuses=refuses(op),
    )


def module(builds: Builds | None = None) -> CapsuleModule:
    """The capsules, compiled by the compiler of `builds`, or by the one that the environment names."""
    grouper = CGrouper(builds)
    served = sorted(PRIMITIVES, key=lambda op: op.name)
    return CapsuleModule(
        name=PROVIDER,
        capsules=tuple([_capsule(op, grouper) for op in (*served, *COMPOSITES)]),
        probe=grouper.missing,
        ledger=Ledger(
            PROVIDER,
            package="torchlean",
            shipped="evidence/records/compiled.json",
            libraries=("numpy",),
            tools=lambda: (("C compiler", grouper.compiler()),),
        ),
        eager=False,
    )


MODULE = module()
