"""Parts of complex numbers. Real arrays are accepted where the standard allows them."""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import operand

__all__ = [
    "angle",
    "conj",
    "conjugate",
    "imag",
    "real",
]


def real(x: Any, /) -> Any:
    """The real part; a real array itself."""
    x = operand("real", x)
    return ops.real(x) if x.type.dtype.is_complex else x


def imag(x: Any, /) -> Any:
    """The imaginary part; zeros for a real array."""
    x = operand("imag", x)
    return ops.imag(x) if x.type.dtype.is_complex else ops.full_like(x, 0)


def conj(x: Any, /) -> Any:
    """The complex conjugate; a real array itself."""
    x = operand("conj", x)
    return ops.conj(x) if x.type.dtype.is_complex else x


conjugate = conj


def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers in (-π, π], or in degrees."""
    z = operand("angle", z)
    turned = ops.atan2(imag(z), real(z))
    return ops.mul(turned, 180 / math.pi) if deg else turned
