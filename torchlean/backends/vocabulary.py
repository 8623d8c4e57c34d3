"""The words of the backend layer: devices, trust, derivative ownership, reduction orders, claims, and op labels.

The labels are the ones of the documents this project implements, so that a report reads the same there and here. An IR
op has one name; `label` gives the name by which a capsule and a report call it (`dot_general` is `matmul`).
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType

from torchlean.errors import ConfigError
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite


class Label(Enum):
    """An enum that prints as its label and hashes by identity."""

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return str(self.value)


class Device(Label):
    """Where a kernel runs. Only `cpu` has maintained profiles in this version."""

    CPU = "cpu"
    CUDA = "cuda"
    ROCM = "rocm"
    METAL = "metal"
    WASM = "wasm"
    TPU = "tpu"
    TRAINIUM = "trainium"
    CUSTOM = "custom"
    EXTERNAL = "external"


def device_named(name: str) -> Device:
    """The device of a name (`gpu` is cuda); ConfigError listing the known names for any other."""
    wanted = name.strip().lower()
    for device in Device:
        if device.value == ("cuda" if wanted == "gpu" else wanted):
            return device
    known = ", ".join(str(device) for device in Device)
    raise ConfigError(f"unknown device {name} (known targets: {known})")


class TrustLevel(Label):
    """What stands behind a capsule: checks and tests, or code nobody here has checked."""

    CHECKED = "checked"
    TRUSTED_EXTERNAL = "trusted-external"


class VjpMode(Label):
    """Who owns the local derivative: nobody, the IR (composed from nodes), or the backend (a native `<op>.vjp`)."""

    NONE = "none"
    TAPE = "torchlean-tape"
    BACKEND = "backend-vjp"


class Reduction(Label):
    """The order in which a reducing kernel adds. `FIXED_LEFT` is the definition's left fold in index order;
    `FIXED_TREE` another order that the operand types alone determine.
    """

    FIXED_LEFT = "fixed-left"
    FIXED_TREE = "fixed-tree"
    IMPLEMENTATION_DEFINED = "implementation-defined"
    NOT_APPLICABLE = "n/a"


class Repeats(Label):
    """Whether a kernel run again on equal operands gives the same bits, on one machine with the same libraries,
    threads and environment, wherever in memory the operands lie.
    """

    SAME_BITS = "same bits"
    MAY_DIFFER = "may differ"
    UNSTATED = "unstated"


class Determinism(Label):
    """What a profile may ask of every step. `RUN_TO_RUN`: repeated runs give the same bits. `BITWISE`: also the order
    of every reduction is fixed, so that other threads, machines and libraries add in the same order.
    """

    RUN_TO_RUN = "run-to-run"
    BITWISE = "bitwise"


class Contraction(Label):
    """Whether a product is rounded before it is added (`separate`) or may be fused with the addition."""

    SEPARATE = "separate"
    FUSED = "fused"
    IMPLEMENTATION_DEFINED = "implementation-defined"
    NOT_APPLICABLE = "n/a"


class Subnormals(Label):
    """What happens to results below the smallest normal number. `ZERO`: nothing may be relied on, of operands either,
    nor of what is computed on the way: each subnormal number counts as itself or as a zero of its sign.
    """

    GRADUAL = "gradual-underflow"
    FLUSHED = "flush-to-zero"
    ZERO = "may count as zero"
    IMPLEMENTATION_DEFINED = "implementation-defined"


class Accumulator(Label):
    """The number format in which a reduction accumulates."""

    OPERAND = "operand dtype"
    WIDER = "wider than the operand"
    IMPLEMENTATION_DEFINED = "implementation-defined"
    NOT_APPLICABLE = "n/a"


class Claim(Label):
    """What a contract promises. The last two share the `vjp` field of a capsule."""

    SHAPE = "shape"
    LAYOUT = "layout"
    VALUE = "value"
    VJP = "vjp"
    NO_VJP = "no vjp"


OBLIGATIONS = ("shape", "layout", "value", "vjp")

_LABELS = MappingProxyType(
    {
        "transpose": "permute",
        "dot_general": "matmul",
        "logistic": "sigmoid",
        "concatenate": "concat",
    }
)


def label(op: Op) -> str:
    """The name of an op in capsules and reports: `permute`, `matmul`, `sigmoid`, `concat`, else the op's own."""
    return _LABELS.get(op.name, op.name)


def is_derivative(op: Op) -> bool:
    """Whether an op is the `<op>.vjp` of a composite."""
    return isinstance(op, Composite) and op.gradient is None and op.name.endswith(".vjp")


def claim_text(claim: Claim, op: Op, vjp_mode: VjpMode, layout: str) -> str:
    """The sentence a report prints for a claim about an op."""
    name = label(op)
    if claim is Claim.SHAPE:
        return f"shape safety for {name}"
    if claim is Claim.LAYOUT:
        return f"{layout} layout compatibility for {name}"
    if claim is Claim.VALUE:
        return f"{name} forward refines its TorchLean semantics"
    if claim is Claim.VJP:
        return f"{name} {vjp_mode} VJP refines its TorchLean semantics"
    return f"{name} has no VJP in this capsule"
