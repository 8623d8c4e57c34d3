"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import operand, refused
from torchlean.numpy.products import same_dtype
from torchlean.numpy.signals import convolve

__all__ = [
    "polyadd",
    "polyder",
    "polyint",
    "polymul",
    "polysub",
    "polyval",
]


def polyval(p: Any, x: Any, /) -> Any:
    """The polynomial at `x`, by Horner's rule."""
    p, x = same_dtype("polyval", p, x)
    total = ops.full_like(x, 0)
    for n in range(p.type.size):
        total = ops.add(ops.mul(total, x), p[n])
    return total


def _aligned(name: str, a1: Any, a2: Any) -> tuple[Any, Any]:
    """Zeros put before the shorter one."""
    a1, a2 = same_dtype(name, a1, a2)
    longer = max(a1.type.size, a2.type.size)
    first, second = (ops.pad(a, 0, [(longer - a.type.size, 0)]) for a in (a1, a2))
    return first, second


def polyadd(a1: Any, a2: Any, /) -> Any:
    """The sum of two polynomials."""
    return ops.add(*_aligned("polyadd", a1, a2))


def polysub(a1: Any, a2: Any, /) -> Any:
    """The difference of two polynomials."""
    return ops.sub(*_aligned("polysub", a1, a2))


def polymul(a1: Any, a2: Any, /) -> Any:
    """The product of two polynomials."""
    return convolve(a1, a2)


def polyder(p: Any, m: int = 1) -> Any:
    """The m-th derivative."""
    p = operand("polyder", p)
    if m < 0:
        raise refused("polyder a negative number of times", expected="m ≥ 0", got=str(m), fix="use polyint")
    for _ in range(m):
        count = p.type.size
        if count <= 1:
            return ops.full((0,), 0, p.type.dtype)
        powers = ops.convert(ops.reverse(ops.add(ops.iota((count - 1,), 0), 1), (0,)), p.type.dtype)
        p = ops.mul(p[:-1], powers)
    return p


def polyint(p: Any, m: int = 1, k: float = 0.0) -> Any:
    """The m-th integral, each with the constant `k`."""
    p = operand("polyint", p)
    for _ in range(m):
        powers = ops.convert(ops.reverse(ops.add(ops.iota((p.type.size,), 0), 1), (0,)), p.type.dtype)
        p = ops.pad(ops.div(p, powers), float(k), [(0, 1)])
    return p
