"""Discrete Fourier transforms along one axis: fft (and its inverse), rfft, irfft.

The definition is the sum itself, Yₖ = Σⱼ xⱼ·wʲᵏ with w = e^(∓2πi/n), a left fold over j with factors rounded once: its
order is stated, at n² cost. Providers with a fast transform say that theirs is implementation-defined. The inverse is
divided by n; irfft reads X₀ (and the middle one for even n) without their imaginary parts, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.ir.builder import bind1, type_of
from torchlean.ir.carriers import complex_array
from torchlean.ir.dtypes import DType, Kind
from torchlean.ir.op import NO_PARAMS, Op, TypeFault
from torchlean.ir.ops.create import full_like, zeros_of
from torchlean.ir.ops.cut import PAD, Widths
from torchlean.ir.ops.elementwise import DIV, MUL
from torchlean.ir.ops.families import apply1, kind_fault
from torchlean.ir.ops.parts import COMPLEX, REAL
from torchlean.ir.ops.spread import BROADCAST, Spread
from torchlean.ir.rules import Linear, Rule
from torchlean.ir.strict.functions import COS, SIN
from torchlean.ir.types import TensorType
from torchlean.record import record

_COMPLEX = frozenset({Kind.COMPLEX})


@record
class Transform:
    """`axis`: the axis transformed; `inverse`: with the other sign of the exponent, divided by n."""

    axis: int
    inverse: bool


@record
class RealTransform:
    """`axis`: the axis transformed; n real entries become n // 2 + 1 complex ones."""

    axis: int


@record
class RealInverse:
    """`axis`: the axis transformed; `length`: n, of the real result; n // 2 + 1 complex entries are read."""

    axis: int
    length: int


def _require_axis(axis: int, x: TensorType) -> int:
    if not 0 <= axis < x.rank or x.shape[axis] == 0:
        raise TypeFault(
            f"axis {axis} cannot be transformed",
            expected=f"an axis in [0, {x.rank}) with at least one entry",
            got=f"{x}, axis {axis}",
            fix="name an existing axis that is not empty",
        )
    return x.shape[axis]


def _resized(x: TensorType, axis: int, size: int, dtype: DType) -> TensorType:
    return TensorType((*x.shape[:axis], size, *x.shape[axis + 1 :]), dtype)


def _fft_type(params: Transform, x: TensorType) -> tuple[TensorType, ...]:
    if not x.dtype.is_complex:
        raise kind_fault(x.dtype, _COMPLEX)
    _require_axis(params.axis, x)
    return (x,)


def _rfft_type(params: RealTransform, x: TensorType) -> tuple[TensorType, ...]:
    if x.dtype is not DType.F32 and x.dtype is not DType.F64:
        raise kind_fault(x.dtype, frozenset({Kind.FLOAT}))
    size = _require_axis(params.axis, x)
    return (_resized(x, params.axis, size // 2 + 1, DType.C64 if x.dtype is DType.F32 else DType.C128),)


def _irfft_type(params: RealInverse, x: TensorType) -> tuple[TensorType, ...]:
    if not x.dtype.is_complex:
        raise kind_fault(x.dtype, _COMPLEX)
    size = _require_axis(params.axis, x)
    if params.length < 1 or size != params.length // 2 + 1:
        raise TypeFault(
            f"{size} entries are not the half of {params.length}",
            expected=f"an axis of {params.length // 2 + 1} entries" if params.length > 0 else "a length of at least 1",
            got=str(x),
            fix="cut or pad the operand (ops.slice_, ops.pad), or name another length",
        )
    return (_resized(x, params.axis, params.length, x.dtype.part),)


# -- meaning -----------------------------------------------------------------------------------------------------------
def _factors(n: int, j: int, outputs: int, sign: float, carrier: Any) -> np.ndarray[Any, Any]:
    """wʲᵏ for k = 0 … outputs - 1, the angle reduced exactly and quarter turns exact."""
    turn = (j * np.arange(outputs, dtype=np.int64)) % n
    angle = 2 * np.pi * (turn / n)
    cosine, sine = COS(angle), SIN(angle)
    quarter, rest = np.divmod(4 * turn, n)
    exact = rest == 0
    cosine = np.where(exact, np.choose(quarter % 4, [1.0, 0.0, -1.0, 0.0]), cosine)
    sine = np.where(exact, np.choose(quarter % 4, [0.0, 1.0, 0.0, -1.0]), sine)
    part = np.float32 if carrier == np.complex64 else np.float64
    return complex_array(cosine.astype(part), (sign * sine).astype(part))


def _summed(algebra: Any, x: Any, n: int, outputs: int, sign: float) -> Any:
    """Σⱼ x[…, j]·wʲᵏ over the last axis of complex entries."""
    *lead, inputs = np.shape(x)
    shape = (*lead, outputs)
    total = algebra.constant(np.zeros(shape, dtype=x.dtype))
    for j in range(inputs):
        entry = algebra.shape(lambda v, j=j: np.broadcast_to(v[..., j : j + 1], shape), x)
        factor = algebra.constant(np.broadcast_to(_factors(n, j, outputs, sign, x.dtype), shape))
        total = algebra.add(total, algebra.mul(entry, factor))
    return total


def _along(axis: int, transform: Callable[[Any, Any], Any]) -> Callable[..., tuple[Any, ...]]:
    def value(algebra: Any, x: Any) -> tuple[Any, ...]:
        made = transform(algebra, algebra.shape(lambda v: np.moveaxis(v, axis, -1), x))
        return (algebra.shape(lambda v: np.moveaxis(v, -1, axis), made),)

    return value


def _divided(algebra: Any, x: Any, n: int) -> Any:
    return algebra.div(x, algebra.constant(np.full(np.shape(x), n, dtype=x.dtype)))


def _fft_value(algebra: Any, params: Transform, x: Any) -> tuple[Any, ...]:
    n = np.shape(x)[params.axis]

    def transform(a: Any, v: Any) -> Any:
        made = _summed(a, v, n, n, 1.0 if params.inverse else -1.0)
        return _divided_parts(a, made, n) if params.inverse else made

    return _along(params.axis, transform)(algebra, x)


def _divided_parts(algebra: Any, z: Any, n: int) -> Any:
    """Both parts of z over n, each rounded once."""
    real, imag = [_divided(algebra, algebra.shape(part, z), n) for part in (np.real, np.imag)]
    return algebra.shape(complex_array, real, imag)


def _rfft_value(algebra: Any, params: RealTransform, x: Any) -> tuple[Any, ...]:
    n = np.shape(x)[params.axis]

    def transform(a: Any, v: Any) -> Any:
        whole = a.shape(lambda u: complex_array(u, np.zeros_like(u)), v)
        return _summed(a, whole, n, n // 2 + 1, -1.0)

    return _along(params.axis, transform)(algebra, x)


def _irfft_value(algebra: Any, params: RealInverse, x: Any) -> tuple[Any, ...]:
    n = params.length

    def transform(a: Any, v: Any) -> Any:
        whole = a.shape(lambda u: whole_spectrum(u, n), v)
        return _divided(a, a.shape(np.real, _summed(a, whole, n, n, 1.0)), n)

    return _along(params.axis, transform)(algebra, x)


def whole_spectrum(u: Any, n: int) -> np.ndarray[Any, Any]:
    """All n entries, from the n // 2 + 1 first: X₋ₖ = conj(Xₖ), and the self-conjugate ones made real."""
    made = np.zeros((*u.shape[:-1], n), dtype=u.dtype)
    half = u.shape[-1]
    made[..., :half] = u
    made[..., 0] = u[..., 0].real
    if n % 2 == 0:
        made[..., n // 2] = u[..., n // 2].real
    made[..., half:] = np.conj(u[..., n - half : 0 : -1])
    return made


# -- transposes, for the inner product Re(conj(a)·b) ------------------------------------------------------------------
def _times(x: Any, factor: float) -> Any:
    return apply1(MUL, x, full_like(x, factor))


def _fft_transpose(params: Transform, ct: Any, x: Any) -> tuple[Any, ...]:
    """Fᴴ is n times the inverse."""
    n = type_of(x).shape[params.axis]
    other = bind1(FFT, Transform(params.axis, not params.inverse), ct)
    return (apply1(DIV, other, full_like(other, n)) if params.inverse else _times(other, n),)


def _rfft_transpose(params: RealTransform, ct: Any, x: Any) -> tuple[Any, ...]:
    """The half is put among zeros, taken back by Fᴴ, and its real part read."""
    axis, n = params.axis, type_of(x).shape[params.axis]
    rank = len(type_of(ct).shape)
    missing = n - type_of(ct).shape[axis]
    high = tuple([missing if a == axis else 0 for a in range(rank)])
    widths = Widths((0,) * rank, high, (0,) * rank)
    whole = bind1(PAD, widths, ct, zeros_of(TensorType((), type_of(ct).dtype)))
    back = bind1(FFT, Transform(axis, inverse=True), whole)
    return (_times(bind1(REAL, NO_PARAMS, back), n),)


def _irfft_transpose(params: RealInverse, ct: Any, x: Any) -> tuple[Any, ...]:
    """rfft of the cotangent over n, doubled but for the entries that are their own conjugates."""
    axis, n = params.axis, params.length
    made = bind1(RFFT, RealTransform(axis), ct)
    like = type_of(made)
    weights = np.full(like.shape[axis], 2 / n, dtype=like.dtype.part.carrier)
    weights[0] = 1 / n
    if n % 2 == 0:
        weights[-1] = 1 / n
    spread = bind1(BROADCAST, Spread(like.shape, (axis,)), weights)
    return (apply1(MUL, made, bind1(COMPLEX, NO_PARAMS, spread, zeros_of(type_of(spread)))),)


FFT = Op(
    name="fft",
    params=Transform,
    type_rule=_fft_type,
    denote=_fft_value,
    diff=Linear(transpose=_fft_transpose),
    batch=Rule(
        lambda params, size, operands, mapped: (bind1(FFT, Transform(params.axis + 1, params.inverse), operands[0]),)
    ),
    reduces=True,
    doc="Discrete Fourier transform of complex entries along an axis.",
)
RFFT = Op(
    name="rfft",
    params=RealTransform,
    type_rule=_rfft_type,
    denote=_rfft_value,
    diff=Linear(transpose=_rfft_transpose),
    batch=Rule(lambda params, size, operands, mapped: (bind1(RFFT, RealTransform(params.axis + 1), operands[0]),)),
    reduces=True,
    doc="The first n // 2 + 1 entries of the transform of n real ones along an axis.",
)
IRFFT = Op(
    name="irfft",
    params=RealInverse,
    type_rule=_irfft_type,
    denote=_irfft_value,
    diff=Linear(transpose=_irfft_transpose),
    batch=Rule(
        lambda params, size, operands, mapped: (bind1(IRFFT, RealInverse(params.axis + 1, params.length), operands[0]),)
    ),
    reduces=True,
    doc="The n real entries along an axis whose transform begins with the operand's n // 2 + 1.",
)

OPS = (FFT, RFFT, IRFFT)
