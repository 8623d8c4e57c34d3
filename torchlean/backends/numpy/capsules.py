"""The capsules of the fast provider, each with its distance to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.backends.capsule import (
    POINTWISE,
    Bitwise,
    Capsule,
    Normwise,
    NumericalPolicy,
    Refuses,
    Relative,
    Ulp,
    Unstated,
    ValueBound,
    guarded,
    refuses_nothing,
    tested,
)
from torchlean.backends.handler import FRESH, SPREADING, UFUNC, Implementation, Traits, Workspace
from torchlean.backends.numpy import classify, factorisations, fused, pointwise, products, reductions, window
from torchlean.backends.numpy.workspace import DERIVATIVES, WORKSPACE
from torchlean.backends.profile import CapsuleModule
from torchlean.backends.switches import at_load
from torchlean.backends.target import always_available
from torchlean.backends.vocabulary import (
    Accumulator,
    Claim,
    Contraction,
    Device,
    Reduction,
    Repeats,
    Subnormals,
    VjpMode,
)
from torchlean.errors import InternalError
from torchlean.evidence.ledger import Ledger
from torchlean.ir.op import Op
from torchlean.ir.ops import activation, fft, gather, loss, reduce, spread
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops import window as conv
from torchlean.ir.ops.composite import Composite
from torchlean.ir.ops.determinant import DET
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.factor import QR
from torchlean.ir.ops.spectral import EIGH, SVD
from torchlean.ir.ops.triangular import CHOLESKY
from torchlean.ir.types import TensorType

PROVIDER = "numpy"
_TESTS = "tests/backends/test_numpy_bounds.py"
VALUE_TEST = f"{_TESTS}::test_the_kernel_is_within_its_bound"
VJP_TEST = f"{_TESTS}::test_the_gradient_is_within_its_bound"

_SUMS = NumericalPolicy(
    reduction=Reduction.IMPLEMENTATION_DEFINED,
    contraction=Contraction.IMPLEMENTATION_DEFINED,
    subnormals=Subnormals.GRADUAL,
    accumulator=Accumulator.IMPLEMENTATION_DEFINED,
    repeats=Repeats.SAME_BITS,
)


def _gradient(op: Op) -> Op:
    if not isinstance(op, Composite) or op.gradient is None:
        raise InternalError(f"{op.name} has no gradient op")
    return op.gradient


def _always(kernel: Any) -> Any:
    return lambda params, types: kernel


def _capsule(
    op: Op,
    make: Any,
    bound: ValueBound,
    *,
    traits: Traits = FRESH,
    mode: VjpMode = VjpMode.TAPE,
    refuses: Refuses = refuses_nothing,
    summary: str = "",
    complex: bool = False,
) -> Capsule:
    return Capsule(
        op=op,
        provider=PROVIDER,
        device=Device.CPU,
        shape=guarded(Claim.SHAPE, "portable runtime shape checks"),
        layout=guarded(Claim.LAYOUT, "typed tensor layout"),
        value=tested(Claim.VALUE, VALUE_TEST, summary=summary),
        vjp=tested(Claim.VJP, VJP_TEST),
        vjp_mode=mode,
        bound=bound,
        numerics=_SUMS if op.reduces else POINTWISE,
        handler=Implementation(
            op=op, provider=PROVIDER, device=Device.CPU, traits=traits, make=make, workspace=_workspace(op)
        ),
        refuses=refuses if complex else _of_plain_numbers(refuses),
    )


def _workspace(op: Op) -> Workspace | None:
    for held, gradients in ((WORKSPACE, False), (DERIVATIVES, True)):
        for forward, declared in held.items():
            if op is (_gradient(forward) if gradients else forward):
                return declared
    return None


def _of_plain_numbers(refuses: Refuses) -> Refuses:
    """`refuses`, and no complex numbers, nor formats NumPy itself does not know."""

    def refused(params: Any, types: tuple[TensorType, ...]) -> str | None:
        for type in types:
            if type.dtype.is_complex or type.dtype.is_extended:
                return f"serves no {type.dtype.short}"
        return refuses(params, types)

    return refused


def _factorisations() -> tuple[Capsule, ...]:
    """How far factors lie apart depends on the matrix's condition: no distance is claimed, residuals are tested."""
    stable = "backward stable: residuals, orthogonality, eigenvalues and singular values are tested"
    return (
        _capsule(CHOLESKY, factorisations.cholesky, Unstated(), summary=stable, complex=True),
        _capsule(QR, factorisations.qr, Unstated(), summary=stable, complex=True),
        _capsule(EIGH, factorisations.eigh, Unstated(), summary=stable, complex=True),
        _capsule(SVD, factorisations.svd, Unstated(), summary=stable, complex=True),
        _capsule(DET, factorisations.det, Unstated(), summary=stable, complex=True),
        _capsule(fft.FFT, factorisations.complex_transform, Normwise(2.0), complex=True),
        _capsule(fft.RFFT, factorisations.real_transform, Normwise(2.0), complex=True),
        _capsule(fft.IRFFT, factorisations.real_inverse, Normwise(2.0), complex=True),
    )


def _functions() -> tuple[Capsule, ...]:
    """Distances to the strict definitions: NumPy's 4 ulp and their own 1."""
    made = [_capsule(op, _always(pointwise.applied(ufunc)), Ulp(5)) for op, ufunc in pointwise.UFUNCS.items()]
    return (*made, _capsule(ew.LOGISTIC, pointwise.logistic, Ulp(5)))


def _capsules() -> tuple[Capsule, ...]:
    either_zero = "of equal zeros either"
    native = VjpMode.BACKEND
    return (
        _capsule(DOT_GENERAL, products.dot_general, Relative(1.0)),
        _capsule(spread.REDUCE_SUM, reductions.reduce_sum, Relative(1.0)),
        _capsule(conv.CONV, window.conv, Relative(1.0)),
        _capsule(conv.CONV_INPUT_ADJOINT, window.conv_input_adjoint, Relative(1.0)),
        _capsule(conv.CONV_KERNEL_ADJOINT, window.conv_kernel_adjoint, Relative(1.0)),
        _capsule(reduce.REDUCE_MAX, reductions.extreme(np.maximum.reduce), Ulp(0), summary=either_zero),
        _capsule(reduce.REDUCE_MIN, reductions.extreme(np.minimum.reduce), Ulp(0), summary=either_zero),
        _capsule(ew.MAX, _always(np.maximum), Ulp(0), traits=UFUNC, summary=either_zero),
        _capsule(ew.MIN, _always(np.minimum), Ulp(0), traits=UFUNC, summary=either_zero),
        _capsule(ew.CLAMP, reductions.clamp, Ulp(0), traits=SPREADING, summary=either_zero),
        _capsule(gather.GATHER, reductions.gather, Bitwise(), refuses=reductions.gather_refuses),
        _capsule(activation.RELU, fused.relu, Ulp(0), traits=SPREADING, mode=native, summary=either_zero),
        _capsule(_gradient(activation.RELU), fused.relu_vjp, Bitwise()),
        _capsule(loss.CROSS_ENTROPY, classify.cross_entropy, Normwise(2.0), mode=native, refuses=classify.refuses),
        _capsule(
            _gradient(loss.CROSS_ENTROPY),
            classify.cross_entropy_vjp,
            Normwise(2.0),
            refuses=classify.refuses,
        ),
        *_functions(),
        *_factorisations(),
        _capsule(loss.MSE_LOSS, fused.mse_loss, Relative(1.0), mode=native),
        _capsule(_gradient(loss.MSE_LOSS), fused.mse_loss_vjp, Ulp(4), summary="where nothing overflows or underflows"),
    )


_LEDGER = Ledger(PROVIDER, package="torchlean", shipped="evidence/records/numpy.json", libraries=("numpy", "ml_dtypes"))

MODULE = CapsuleModule(
    name=PROVIDER,
    capsules=_capsules(),
    probe=always_available,
    settings=(
        at_load("OPENBLAS_NUM_THREADS", "changes the order in which large products add"),
        at_load("OMP_NUM_THREADS", "does so where OPENBLAS_NUM_THREADS is not set"),
        at_load("OPENBLAS_CORETYPE", "chooses the kernels of OpenBLAS"),
        at_load("NPY_DISABLE_CPU_FEATURES", "may change the last bits of functions NumPy computes itself"),
    ),
    ledger=_LEDGER,
)
