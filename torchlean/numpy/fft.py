"""Fourier transforms: the standard's fft extension, and the two-dimensional names of NumPy.

Values are those of the definition, a left fold over the entries; a provider with a fast transform says that its order
differs. Float32 stays float32 and becomes complex64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.ir import ops
from torchlean.ir.builder import bind1
from torchlean.ir.dtypes import DType, as_dtype
from torchlean.ir.ops.fft import FFT, IRFFT, RFFT, RealInverse, RealTransform, Transform
from torchlean.numpy.devices import check_device
from torchlean.numpy.operands import axes_of, axis_of, integer, operand, refused, require_float, sizes, unknown_choice
from torchlean.numpy.shapes import roll

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

NORMS = ("backward", "ortho", "forward")


# -- one axis ----------------------------------------------------------------------------------------------------------
def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Yₖ = Σⱼ xⱼ·e^(-2πijk/n) along an axis, which is first cut or padded with zeros to `n`."""
    return _complex("fft", x, n, axis, norm, inverse=False)


def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of `fft`."""
    return _complex("ifft", x, n, axis, norm, inverse=True)


def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The first n // 2 + 1 entries of `fft` of a real array; the others are their conjugates."""
    x = require_float("rfft", x)
    if x.type.dtype.is_complex:
        raise refused("rfft of a complex array", expected="a real dtype", got=x.type.dtype.short, fix="use fft.fft")
    x, at = _fitted("rfft", _wide(x), n, axis)
    return _scaled(bind1(RFFT, RealTransform(at), x), x.type.shape[at], norm, forward=True)


def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of `rfft`: `n` real entries, 2·(m - 1) of m complex ones unless given."""
    x = _as_complex("irfft", x)
    at = axis_of("irfft", axis, x.type.rank)
    length = 2 * (x.type.shape[at] - 1) if n is None else integer("irfft", "n", n)
    if length < 1:
        raise refused(f"irfft to {length} entries", expected="n ≥ 1", got=str(length), fix="give n")
    x, at = _fitted("irfft", x, length // 2 + 1, axis)
    return _scaled(bind1(IRFFT, RealInverse(at, length), x), length, norm, forward=False)


def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The real transform of a sequence whose second half would be the conjugate of the first."""
    return irfft(ops.conj(_as_complex("hfft", x)), n=n, axis=axis, norm=_swapped("hfft", norm))


def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The inverse of `hfft`."""
    return ops.conj(rfft(x, n=n, axis=axis, norm=_swapped("ihfft", norm)))


def _complex(name: str, x: Any, n: int | None, axis: int, norm: str, *, inverse: bool) -> Any:
    x, at = _fitted(name, _as_complex(name, x), n, axis)
    return _scaled(bind1(FFT, Transform(at, inverse), x), x.type.shape[at], norm, forward=not inverse)


def _swapped(name: str, norm: str) -> str:
    if norm not in NORMS:
        unknown_choice(name, "norm", norm, NORMS)
    return NORMS[2 - NORMS.index(norm)]


def _wide(x: Any) -> Any:
    return ops.convert(x, DType.F32) if x.type.dtype.width < 32 else x


def _as_complex(name: str, x: Any) -> Any:
    x = require_float(name, x)
    if x.type.dtype.is_complex:
        return x
    return ops.convert(x, DType.C128 if x.type.dtype is DType.F64 else DType.C64)


def _fitted(name: str, x: Any, n: int | None, axis: int) -> tuple[Any, int]:
    """`x` cut or padded to `n` entries along an axis, and that axis."""
    at = axis_of(name, axis, x.type.rank)
    have = x.type.shape[at]
    wanted = have if n is None else integer(name, "n", n)
    if wanted < 1:
        raise refused(f"{name} of {wanted} entries", expected="at least one", got=str(wanted), fix="give n ≥ 1")
    if wanted != have:
        x = ops.pad(x, 0, [(0, wanted - have if a == at else 0) for a in range(x.type.rank)])
    return x, at


def _scaled(y: Any, n: int, norm: str, *, forward: bool) -> Any:
    """`y` divided as the norm says; the ops divide the inverse by n."""
    if norm not in NORMS:
        unknown_choice("fft", "norm", norm, NORMS)
    if norm == "backward":
        return y
    if norm == "ortho":
        return ops.div(y, float(np.sqrt(n))) if forward else ops.mul(y, float(np.sqrt(n)))
    return ops.div(y, float(n)) if forward else ops.mul(y, float(n))


# -- several axes ------------------------------------------------------------------------------------------------------
def _plan(name: str, x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int | None, int]]:
    """The size and the axis of each transform."""
    rank = operand(name, x).type.rank
    if axes is None:
        axes = range(rank) if s is None else range(rank - len(s), rank)
    at = axes_of(name, tuple(axes), rank)
    lengths: Sequence[int | None] = [None] * len(at) if s is None else [integer(name, "s", n) for n in s]
    if len(lengths) != len(at):
        raise refused(
            f"{name} of {len(at)} axes to sizes {s}", expected="one size per axis", got=str(s), fix="pair them"
        )
    return list(zip(lengths, at, strict=True))


def fftn(x: Any, /, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """`fft` along several axes."""
    for n, axis in _plan("fftn", x, s, axes):
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def ifftn(x: Any, /, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """The inverse of `fftn`."""
    for n, axis in _plan("ifftn", x, s, axes):
        x = ifft(x, n=n, axis=axis, norm=norm)
    return x


def rfftn(x: Any, /, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """`rfft` along the last of the axes, `fft` along the others."""
    *others, (n, axis) = _plan("rfftn", x, s, axes)
    x = rfft(x, n=n, axis=axis, norm=norm)
    for n, axis in others:
        x = fft(x, n=n, axis=axis, norm=norm)
    return x


def irfftn(x: Any, /, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """The inverse of `rfftn`; the last size is that of the real result."""
    *others, (n, axis) = _plan("irfftn", x, s, axes)
    for length, at in others:
        x = ifft(x, n=length, axis=at, norm=norm)
    return irfft(x, n=n, axis=axis, norm=norm)


def fft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str = "backward") -> Any:
    """`fftn` along two axes."""
    return fftn(x, s=s, axes=axes, norm=norm)


def ifft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str = "backward") -> Any:
    """`ifftn` along two axes."""
    return ifftn(x, s=s, axes=axes, norm=norm)


def rfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str = "backward") -> Any:
    """`rfftn` along two axes."""
    return rfftn(x, s=s, axes=axes, norm=norm)


def irfft2(x: Any, s: Any = None, axes: Any = (-2, -1), norm: str = "backward") -> Any:
    """`irfftn` along two axes."""
    return irfftn(x, s=s, axes=axes, norm=norm)


# -- frequencies -------------------------------------------------------------------------------------------------------
def fftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequency of each entry of `fft`, in cycles per unit of the sample spacing `d`."""
    check_device("fftfreq", device)
    (count,) = sizes("fftfreq", n)
    place = ops.iota((count,), 0, DType.I64)
    return _over(ops.select(ops.lt(place, (count + 1) // 2), place, ops.sub(place, count)), count, d, dtype)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequency of each entry of `rfft`."""
    check_device("rfftfreq", device)
    (count,) = sizes("rfftfreq", n)
    return _over(ops.iota((count // 2 + 1,), 0, DType.I64), count, d, dtype)


def _over(numbers: Any, n: int, d: float, dtype: Any) -> Any:
    """The quotients by n·d, rounded from f64."""
    wanted = DType.F32 if dtype is None else as_dtype(dtype)
    return ops.convert(ops.div(ops.convert(numbers, DType.F64), float(n * d)), wanted)


def fftshift(x: Any, /, axes: Any = None) -> Any:
    """Frequency 0 moved to the middle of each axis."""
    x = operand("fftshift", x)
    at = axes_of("fftshift", axes, x.type.rank)
    return roll(x, tuple([x.type.shape[a] // 2 for a in at]), axis=at) if at else x


def ifftshift(x: Any, /, axes: Any = None) -> Any:
    """The inverse of `fftshift`."""
    x = operand("ifftshift", x)
    at = axes_of("ifftshift", axes, x.type.rank)
    return roll(x, tuple([-(x.type.shape[a] // 2) for a in at]), axis=at) if at else x
