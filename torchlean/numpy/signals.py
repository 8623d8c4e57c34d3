"""Sequences: convolution, correlation, interpolation."""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir import ops
from torchlean.numpy.complex_parts import conj
from torchlean.numpy.operands import refused, require_float, unknown_choice
from torchlean.numpy.products import same_dtype
from torchlean.numpy.sorting import searchsorted

__all__ = [
    "bartlett",
    "blackman",
    "convolve",
    "correlate",
    "hamming",
    "hanning",
    "interp",
]


def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """The convolution of two vectors; mode full, same (the longer's size) or valid (no overhang)."""
    if mode not in ("full", "same", "valid"):
        unknown_choice("convolve", "mode", mode, ("full", "same", "valid"))
    a, v = same_dtype("convolve", a, v)
    for x in (a, v):
        if x.type.rank != 1 or not x.type.size:
            raise refused(
                f"convolve of {a.type} with {v.type}",
                expected="two vectors with entries",
                got=str(x.type),
                fix="flatten them",
            )
    if v.type.size > a.type.size:
        a, v = v, a
    return _slid(a, ops.reverse(v, (0,)), mode)


def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """Sums of a[n + k] · conj(v[n]); modes as of `convolve`."""
    if mode not in ("full", "same", "valid"):
        unknown_choice("correlate", "mode", mode, ("full", "same", "valid"))
    a, v = same_dtype("correlate", a, v)
    if v.type.size > a.type.size:
        return ops.reverse(_slid(conj(v), a, mode), (0,))
    return _slid(a, conj(v), mode)


def _slid(a: Any, v: Any, mode: str) -> Any:
    """Products of `v` with every stretch of `a` padded by zeros."""
    count, width = a.type.size, v.type.size
    low, high = {"full": (width - 1, width - 1), "same": (width // 2, (width - 1) // 2), "valid": (0, 0)}[mode]
    if mode == "same":
        low, high = (width - 1) // 2 + (width - 1) % 2, (width - 1) // 2
    padded = ops.pad(a, 0, [(low, high)])
    places = count + low + high - width + 1
    starts = ops.iota((places, width), 0)
    rows = ops.take(padded, ops.add(starts, ops.iota((places, width), 1)))
    return ops.matmul(rows, v)


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None) -> Any:
    """Values between samples (xp, fp), xp increasing, by straight lines; beyond the ends their values, or the given."""
    x, xp, fp = (require_float("interp", v) for v in (x, xp, fp))
    if period is not None:
        from torchlean.numpy.joining import concat
        from torchlean.numpy.sorting import argsort

        x, xp = ops.remainder(x, float(period)), ops.remainder(xp, float(period))
        order = argsort(xp)
        xp, fp = ops.take(xp, order), ops.take(fp, order)
        xp = concat((ops.sub(xp[-1:], float(period)), xp, ops.add(xp[:1], float(period))))
        fp = concat((fp[-1:], fp, fp[:1]))
    count = xp.type.size
    if xp.type.rank != 1 or fp.type.shape != xp.type.shape or not count:
        raise refused(
            f"interp of samples {xp.type} and {fp.type}",
            expected="two vectors of one size, at least 1",
            got=f"{xp.type} and {fp.type}",
            fix="give one value per sample point",
        )
    at = ops.max(ops.min(searchsorted(xp, x, side="right"), max(count - 1, 1)), 1)
    low, high = ops.sub(at, 1), ops.min(at, count - 1)
    x0, x1, y0, y1 = ops.take(xp, low), ops.take(xp, high), ops.take(fp, low), ops.take(fp, high)
    width = ops.sub(x1, x0)
    width = ops.select(ops.eq(width, 0), ops.full_like(width, 1), width)
    made = ops.add(y0, ops.mul(ops.div(ops.sub(x, x0), width), ops.sub(y1, y0)))
    under = fp[0] if left is None else left
    over = fp[-1] if right is None else right
    made = ops.select(ops.lt(x, xp[0]), under, made)
    made = ops.select(ops.gt(x, xp[-1]), over, made)
    made = ops.select(ops.eq(x, xp[-1]), fp[-1], made)
    return made


def hanning(M: int) -> Any:
    """The Hann window of M samples."""
    return _window(M, (0.5, -0.5))


def hamming(M: int) -> Any:
    """The Hamming window of M samples."""
    return _window(M, (0.54, -0.46))


def blackman(M: int) -> Any:
    """The Blackman window of M samples."""
    return _window(M, (0.42, -0.5, 0.08))


def bartlett(M: int) -> Any:
    """The triangular window of M samples, 0 at its ends."""
    if M <= 1:
        return ops.full((max(M, 0),), 1.0)
    place = ops.convert(ops.iota((M,), 0), "f32")
    return ops.sub(1.0, ops.abs(ops.sub(ops.mul(place, 2.0 / (M - 1)), 1.0)))


def _window(M: int, terms: tuple[float, ...]) -> Any:
    """A sum of cosines of multiples of the angle 2πn/(M - 1)."""

    if M <= 1:
        return ops.full((max(M, 0),), 1.0)
    angle = ops.mul(ops.convert(ops.iota((M,), 0), "f32"), 2 * math.pi / (M - 1))
    total: Any = ops.full((M,), terms[0])
    for n, weight in enumerate(terms[1:], start=1):
        total = ops.add(total, ops.mul(ops.cos(ops.mul(angle, float(n))), weight))
    return total
