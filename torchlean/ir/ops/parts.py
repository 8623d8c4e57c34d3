"""Complex numbers and their parts: complex, real, imag, conj.

Tangents and cotangents of complex values are complex; their inner product is the real one, Re(conj(a)·b). A transposed
map satisfies Re⟨Jv, w⟩ = Re⟨v, Jᵀw⟩, so that of z ↦ c·z is w ↦ conj(c)·w. The cotangent of a real loss is then
∂L/∂re + i·∂L/∂im, the direction of steepest ascent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.carriers import complex_array
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import NO_PARAMS, NoParams, Op, TypeFault
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.families import equal_operands, kind_fault
from torchlean.ir.rules import Linear, Pointwise
from torchlean.ir.types import TensorType

_COMPLEX = frozenset({Kind.COMPLEX})


def _require_complex(z: TensorType) -> None:
    if not z.dtype.is_complex:
        raise kind_fault(z.dtype, _COMPLEX)


def _part_type(params: NoParams, z: TensorType) -> tuple[TensorType, ...]:
    _require_complex(z)
    return (TensorType(z.shape, z.dtype.part),)


def _conj_type(params: NoParams, z: TensorType) -> tuple[TensorType, ...]:
    _require_complex(z)
    return (z,)


def _complex_type(params: NoParams, x: TensorType, y: TensorType) -> tuple[TensorType, ...]:
    if x.dtype is not DType.F32 and x.dtype is not DType.F64:
        raise TypeFault(
            f"{x.dtype.short} is no part of a complex number",
            expected="f32 or f64 parts",
            got=x.dtype.short,
            fix="convert the operand with ops.convert(x, 'f32')",
        )
    equal_operands(x, y)
    return (TensorType(x.shape, DType.C64 if x.dtype is DType.F32 else DType.C128),)


def _zero(like: Any) -> Any:
    return zeros_of(type_of(like))


REAL = Op(
    name="real",
    params=NoParams,
    type_rule=_part_type,
    denote=lambda algebra, params, z: (algebra.shape(np.real, z),),
    diff=Linear(transpose=lambda params, ct, z: (bind1(COMPLEX, NO_PARAMS, ct, _zero(ct)),)),
    batch=Pointwise(),
    reduces=False,
    doc="The real part.",
)
IMAG = Op(
    name="imag",
    params=NoParams,
    type_rule=_part_type,
    denote=lambda algebra, params, z: (algebra.shape(np.imag, z),),
    diff=Linear(transpose=lambda params, ct, z: (bind1(COMPLEX, NO_PARAMS, _zero(ct), ct),)),
    batch=Pointwise(),
    reduces=False,
    doc="The imaginary part.",
)
COMPLEX = Op(
    name="complex",
    params=NoParams,
    type_rule=_complex_type,
    denote=lambda algebra, params, x, y: (algebra.shape(complex_array, x, y),),
    diff=Linear(transpose=lambda params, ct, x, y: (bind1(REAL, NO_PARAMS, ct), bind1(IMAG, NO_PARAMS, ct))),
    batch=Pointwise(),
    reduces=False,
    doc="x + i·y from its parts; no arithmetic, so infinities and zeros keep their place.",
)
CONJ = Op(
    name="conj",
    params=NoParams,
    type_rule=_conj_type,
    denote=lambda algebra, params, z: (algebra.shape(np.conjugate, z),),
    diff=Linear(transpose=lambda params, ct, z: (bind1(CONJ, NO_PARAMS, ct),)),
    batch=Pointwise(),
    reduces=False,
    doc="The complex conjugate.",
)

OPS = (REAL, IMAG, COMPLEX, CONJ)
