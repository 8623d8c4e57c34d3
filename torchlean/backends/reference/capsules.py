"""The capsules of the strict provider: every primitive op, and the composites with a fused strict kernel.

`linear` is left out on purpose: it runs as reshape, permute, matmul, broadcast and add, each with its own evidence.
"""

from __future__ import annotations

from typing import Any

from torchlean.backends.capsule import (
    LEFT_FOLDS,
    POINTWISE,
    Bitwise,
    Capsule,
    guarded,
    refuses_nothing,
    tested,
    vjp_unavailable,
)
from torchlean.backends.handler import CAUTIOUS, FRESH, Implementation, Traits, Workspace
from torchlean.backends.profile import CapsuleModule
from torchlean.backends.reference import control, elementwise, fused, layout, reduce, running, window
from torchlean.backends.reference.workspace import WORKSPACE, of_plain_numbers
from torchlean.backends.switches import at_load
from torchlean.backends.target import always_available
from torchlean.backends.vocabulary import (
    Claim,
    Device,
    VjpMode,
)
from torchlean.evidence.ledger import Ledger
from torchlean.ir.op import EffectOp, Op
from torchlean.ir.ops import CONTROL, EFFECTS, PRIMITIVES
from torchlean.ir.rules import NoTangent

PROVIDER = "reference"
_TESTS = "tests/backends/test_reference_bitwise.py"
VALUE_TEST = f"{_TESTS}::test_the_kernel_has_the_bits_of_the_definition"
EFFECT_TEST = "tests/debug/test_effects.py::test_effects_act_once_and_in_order_on_every_way_to_run"
PLAN_TEST = f"{_TESTS}::test_a_plan_has_the_bits_of_the_definition"  # what runs sub-graphs is tested as part of a plan
VJP_TEST = f"{_TESTS}::test_the_gradient_has_the_bits_of_its_definition"


def _capsule(op: Op, traits: Traits, make: Any) -> Capsule:
    cut = isinstance(op.diff, NoTangent)
    return Capsule(
        op=op,
        provider=PROVIDER,
        device=Device.CPU,
        shape=guarded(Claim.SHAPE, "portable runtime shape checks"),
        layout=guarded(Claim.LAYOUT, "typed tensor layout"),
        value=tested(Claim.VALUE, _value_test(op)),
        vjp=vjp_unavailable(op.diff.reason) if isinstance(op.diff, NoTangent) else tested(Claim.VJP, VJP_TEST),
        vjp_mode=VjpMode.NONE if cut else VjpMode.TAPE,
        bound=Bitwise(),
        numerics=LEFT_FOLDS if op.reduces else POINTWISE,
        handler=Implementation(
            op=op, provider=PROVIDER, device=Device.CPU, traits=traits, make=make, workspace=_workspace(op)
        ),
        refuses=refuses_nothing,
    )


def _workspace(op: Op) -> Workspace | None:
    declared = WORKSPACE.get(op)
    return None if declared is None else of_plain_numbers(declared)


def _value_test(op: Op) -> str:
    if isinstance(op, EffectOp):
        return EFFECT_TEST
    return PLAN_TEST if op in CONTROL else VALUE_TEST


def _capsules() -> tuple[Capsule, ...]:
    known = fused.table() | reduce.table() | running.table() | window.table() | elementwise.table() | layout.table()
    known |= control.table()
    plain = {op: (CAUTIOUS, layout.by_definition(op)) for op in PRIMITIVES if op not in known}
    effects = {op: (FRESH, layout.by_definition(op)) for op in EFFECTS}
    return tuple([_capsule(op, traits, make) for op, (traits, make) in (known | plain | effects).items()])


_LEDGER = Ledger(
    PROVIDER, package="torchlean", shipped="evidence/records/reference.json", libraries=("numpy", "ml_dtypes")
)

MODULE = CapsuleModule(
    name=PROVIDER,
    capsules=_capsules(),
    probe=always_available,
    settings=(at_load("NPY_DISABLE_CPU_FEATURES", "changes the last bits of NumPy's tan, sinh, cbrt, …"),),
    ledger=_LEDGER,
)
