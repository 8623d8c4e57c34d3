"""Trigonometric functions and angles, in radians unless the name says degrees."""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir import ops
from torchlean.numpy.operands import matched, operand, operands, require_float

__all__ = [
    "acos",
    "arccos",
    "arcsin",
    "arctan",
    "arctan2",
    "asin",
    "atan",
    "atan2",
    "cos",
    "deg2rad",
    "degrees",
    "hypot",
    "rad2deg",
    "radians",
    "sin",
    "sinc",
    "tan",
    "unwrap",
]


def sin(x: Any, /) -> Any:
    """Sine."""
    return ops.sin(operand("sin", x))


def cos(x: Any, /) -> Any:
    """Cosine."""
    return ops.cos(operand("cos", x))


def tan(x: Any, /) -> Any:
    """Tangent."""
    return ops.tan(operand("tan", x))


def asin(x: Any, /) -> Any:
    """Inverse sine."""
    return ops.asin(operand("asin", x))


def acos(x: Any, /) -> Any:
    """Inverse cosine."""
    return ops.acos(operand("acos", x))


def atan(x: Any, /) -> Any:
    """Inverse tangent."""
    return ops.atan(operand("atan", x))


def atan2(x1: Any, x2: Any, /) -> Any:
    """The angle of the point (x2, x1), in (-π, π]."""
    return ops.atan2(*matched("atan2", x1, x2))


arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2


def hypot(x1: Any, x2: Any, /) -> Any:
    """√(x1² + x2²) without overflow on the way; infinite if either is; derivative 0 at the origin."""
    return ops.hypot(*operands("hypot", x1, x2))


def sinc(x: Any, /) -> Any:
    """sin(πx) / (πx), 1 at 0; its derivative there is 0."""
    return ops.sinc(require_float("sinc", x))


def deg2rad(x: Any, /) -> Any:
    """Degrees to radians."""
    return ops.mul(require_float("deg2rad", x, complex_too=False), math.pi / 180)


def rad2deg(x: Any, /) -> Any:
    """Radians to degrees."""
    return ops.mul(require_float("rad2deg", x, complex_too=False), 180 / math.pi)


radians, degrees = deg2rad, rad2deg


def unwrap(p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Any:
    """Angles with jumps of more than half a period (or `discont`) replaced by their complement, along an axis."""
    from torchlean.numpy.cumulative import cumulative_sum, diff

    p = require_float("unwrap", p, complex_too=False)
    steps = diff(p, axis=axis)
    half = period / 2
    within = ops.sub(ops.remainder(ops.add(steps, half), period), half)
    within = ops.select(ops.logical_and(ops.eq(within, -half), ops.gt(steps, 0)), half, within)
    jump = half if discont is None else max(discont, half)
    fix = ops.select(ops.lt(ops.abs(steps), jump), ops.full_like(steps, 0), ops.sub(within, steps))
    return ops.add(p, cumulative_sum(fix, axis=axis, include_initial=True))
