"""What NumPy's carriers lack: conversions that round once, and complex products whose roundings are stated.

ml_dtypes converts float64 and integers to its formats by way of float32, which rounds twice, and NumPy may fuse the
products of a complex multiplication or not, as the memory layout suits.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def convert(x: np.ndarray[Any, Any], carrier: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Change dtype, rounding once to nearest even. Float to integer truncates and saturates, NaN gives 0.

    Formats of ml_dtypes go through float32, which holds each of them exactly; on the way there the last bit of what
    does not fit is made odd, so that the second rounding is that of the exact value [Boldo & Melquiond 2008].
    """
    if carrier == x.dtype:
        return x.astype(carrier)
    if is_extended(x.dtype):
        x = x.astype(np.float32)
    if is_extended(carrier):
        return _rounded_to_odd(x).astype(carrier)
    if x.dtype.kind == "f" and carrier.kind in "iu":
        limits = np.iinfo(carrier)
        wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        low = wide <= float(limits.min)
        high = wide >= float(limits.max)
        inside = np.where(low | high, 0.0, wide).astype(carrier)
        return np.where(high, carrier.type(limits.max), np.where(low, carrier.type(limits.min), inside))
    return x.astype(carrier)


def is_extended(carrier: np.dtype[Any]) -> bool:
    """Whether the dtype comes from ml_dtypes."""
    return carrier.isbuiltin == 2


def _rounded_to_odd(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`x` in float32, exact where it fits, else the neighbour towards zero with its last bit set."""
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        low = x & x.dtype.type(0xFFF)
        sticky = np.where(low != 0, x - low + x.dtype.type(0x800), x)
        x = np.where(np.abs(x.astype(np.float64)) < 2.0**52, x, sticky)
    wide = x.astype(np.float64)
    near = wide.astype(np.float32)
    back = near.astype(np.float64)
    below = np.where(np.abs(back) > np.abs(wide), np.nextafter(near, np.float32(0)), near)
    odd = (below.view(np.uint32) | np.uint32(1)).view(np.float32)
    return np.where((back == wide) | np.isnan(wide), near, odd)


# -- complex numbers ---------------------------------------------------------------------------------------------------
def complex_array(real: Any, imag: Any) -> np.ndarray[Any, Any]:
    """real + i·imag without arithmetic: f32 parts make complex64, f64 parts complex128."""
    real, imag = np.broadcast_arrays(real, imag)
    made = np.empty(real.shape, dtype=np.complex64 if real.dtype.itemsize == 4 else np.complex128)
    made.real, made.imag = real, imag
    return made


def complex_product(x: Any, y: Any) -> np.ndarray[Any, Any]:
    """(ac - bd) + i(ad + bc), every product rounded, then the sums: NumPy's own may fuse them, as the layout suits."""
    a, b, c, d = x.real, x.imag, y.real, y.imag
    return complex_array(a * c - b * d, a * d + b * c)


def complex_quotient(x: Any, y: Any) -> np.ndarray[Any, Any]:
    """Smith's algorithm [Smith 1962], as NumPy: scale by the larger part of the divisor. Both zero gives x / 0."""
    a, b, c, d = x.real, x.imag, y.real, y.imag
    large = np.abs(c) >= np.abs(d)
    outer, inner = np.where(large, c, d), np.where(large, d, c)
    ratio = inner / np.where(outer == 0, 1, outer)
    scale = 1 / (outer + inner * ratio)
    real = np.where(large, a + b * ratio, a * ratio + b) * scale
    imag = np.where(large, b - a * ratio, b * ratio - a) * scale
    nothing = (c == 0) & (d == 0)
    return complex_array(np.where(nothing, a / np.abs(c), real), np.where(nothing, b / np.abs(c), imag))
