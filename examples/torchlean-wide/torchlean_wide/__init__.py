"""A third-party backend: `reduce_sum` and `dot_general` of float32 with float64 accumulators.

`MODULE` is what torchlean finds through the entry point. Each capsule says what its kernel claims and what stands
behind the claim; the records of the tests that tried it are in `evidence/wide.json`, written by
`torchlean evidence run --provider wide`.
"""

from __future__ import annotations

from typing import Any

from torchlean import backends as tb
from torchlean.evidence.ledger import Ledger
from torchlean.ir.op import Op
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.spread import REDUCE_SUM
from torchlean_wide import kernels

PROVIDER = "wide"

NUMERICS = tb.NumericalPolicy(
    reduction=tb.Reduction.IMPLEMENTATION_DEFINED,  # NumPy chooses the order, but in float64
    contraction=tb.Contraction.IMPLEMENTATION_DEFINED,
    subnormals=tb.Subnormals.GRADUAL,
    accumulator=tb.Accumulator.IMPLEMENTATION_DEFINED,
    repeats=tb.Repeats.SAME_BITS,
)


def capsule(op: Op, make: Any) -> tb.Capsule:
    """The capsule of one op. The definition adds in float32, so the distance to it is that of its own rounding."""
    return tb.Capsule(
        op=op,
        provider=PROVIDER,
        device=tb.Device.CPU,
        shape=tb.guarded(tb.Claim.SHAPE, "types derived again when the kernel is bound"),
        layout=tb.guarded(tb.Claim.LAYOUT, "NumPy reads any strides"),
        value=tb.tested(tb.Claim.VALUE, "torchlean.conformance.kit::value"),
        vjp=tb.tested(tb.Claim.VJP, "torchlean.conformance.kit::vjp"),
        vjp_mode=tb.VjpMode.TAPE,
        bound=tb.Relative(1.0),
        numerics=NUMERICS,
        handler=tb.Implementation(op=op, provider=PROVIDER, device=tb.Device.CPU, traits=tb.FRESH, make=make),
        refuses=kernels.refuses,
    )


MODULE = tb.CapsuleModule(
    name=PROVIDER,
    capsules=(capsule(REDUCE_SUM, kernels.reduce_sum), capsule(DOT_GENERAL, kernels.dot_general)),
    probe=tb.always_available,
    ledger=Ledger(PROVIDER, package="torchlean_wide", shipped="evidence/wide.json", libraries=("numpy",)),
)
