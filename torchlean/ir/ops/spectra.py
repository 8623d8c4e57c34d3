"""Fourier transforms over any axes as users call them: real and complex operands, forward without a factor."""

from __future__ import annotations

from typing import Any

from torchlean.ir.builder import bind1
from torchlean.ir.dtypes import DType
from torchlean.ir.ops.elementwise import convert
from torchlean.ir.ops.fft import FFT, IRFFT, RFFT, RealInverse, RealTransform, Transform
from torchlean.ir.ops.promote import tensor
from torchlean.ir.ops.shaping import normal_axes, normal_axis

__all__ = ["fftn", "ifftn", "irfftn", "rfftn"]

Axes = int | tuple[int, ...] | list[int] | None


def _complex(x: Any) -> Any:
    x = tensor(x)
    if x.type.dtype.is_complex:
        return x
    return convert(x, DType.C128 if x.type.dtype in (DType.F64, DType.I64, DType.U64) else DType.C64)


def fftn(x: Any, axes: Axes = None) -> Any:
    """The discrete Fourier transform along `axes` (all of them when None), one after another."""
    x = _complex(x)
    for axis in normal_axes("fftn", axes, x.type):
        x = bind1(FFT, Transform(axis, inverse=False), x)
    return x


def ifftn(x: Any, axes: Axes = None) -> Any:
    """The inverse transform along `axes`, divided by the number of entries transformed."""
    x = _complex(x)
    for axis in normal_axes("ifftn", axes, x.type):
        x = bind1(FFT, Transform(axis, inverse=True), x)
    return x


def rfftn(x: Any, axes: Axes = None) -> Any:
    """The transform of real entries along `axes`; along the last of them only the first n // 2 + 1 are kept."""
    x = tensor(x)
    *others, last = _given("rfftn", axes, x)
    made = bind1(RFFT, RealTransform(last), x)
    for axis in others:
        made = bind1(FFT, Transform(axis, inverse=False), made)
    return made


def irfftn(x: Any, length: int, axes: Axes = None) -> Any:
    """The real entries whose `rfftn` along `axes` is `x`; `length` of them along the last axis."""
    x = _complex(x)
    *others, last = _given("irfftn", axes, x)
    for axis in others:
        x = bind1(FFT, Transform(axis, inverse=True), x)
    return bind1(IRFFT, RealInverse(last, length), x)


def _given(name: str, axes: Axes, x: Any) -> list[int]:
    """The axes in the order given, of which the last is special."""
    if axes is None:
        return list(range(x.type.rank))
    each = [axes] if isinstance(axes, int) else list(axes)
    normal_axes(name, each, x.type)
    return [normal_axis(name, axis, x.type) for axis in each]
