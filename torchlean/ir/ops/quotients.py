"""Functions of two numbers: angles and lengths, remainders, neighbours.

Integer division by zero gives 0, as in NumPy; so does its remainder. The most negative integer divided by -1 wraps.
"""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir.builder import bind1
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.create import full_like
from torchlean.ir.ops.elementwise import ABS, DIV, EQ, NEG, SELECT, SIGN
from torchlean.ir.ops.families import FLOATS, NUMBERS, apply1, binary
from torchlean.ir.ops.rounding import FLOOR, TRUNC
from torchlean.ir.rules import NoTangent, Slope, Unit


def _unless_zero(h: Any, value: Any) -> Any:
    """0 where h = 0, the minimum-norm choice at the origin."""
    zero = full_like(h, 0)
    return bind1(SELECT, NO_PARAMS, apply1(EQ, h, zero), zero, value)


def _hypot_partial(position: int) -> Any:
    """x/h; where h = ∞ the direction of the infinite components: one has slope ±1, two ±√½ each."""

    def partial(p: Any, h: Any, *xs: Any) -> Any:
        far = apply1(EQ, h, full_like(h, math.inf))

        def unit(x: Any) -> Any:
            infinite = apply1(EQ, apply1(ABS, x), full_like(x, math.inf))
            return bind1(SELECT, NO_PARAMS, infinite, apply1(SIGN, x), full_like(x, 0))

        units = [bind1(SELECT, NO_PARAMS, far, unit(x), x) for x in xs]
        length = bind1(SELECT, NO_PARAMS, far, apply1(HYPOT, *[unit(x) for x in xs]), h)
        return _unless_zero(length, apply1(DIV, units[position], length))

    return partial


HYPOT = binary(
    "hypot",
    denote=lambda a, x, y: a.function("hypot", x, y),
    partials=(_hypot_partial(0), _hypot_partial(1)),
    kinds=FLOATS,
    doc="sqrt(x² + y²) without overflow; the derivative at the origin is 0.",
)


def _angle_partial(position: int) -> Any:
    """x/h² and -y/h², divided by h twice, since h² may overflow or vanish."""

    def partial(p: Any, z: Any, y: Any, x: Any) -> Any:
        h = apply1(HYPOT, y, x)
        side = x if position == 0 else apply1(NEG, y)
        return _unless_zero(h, apply1(DIV, apply1(DIV, side, h), h))

    return partial


ATAN2 = binary(
    "atan2",
    denote=lambda a, y, x: a.function("atan2", y, x),
    partials=(_angle_partial(0), _angle_partial(1)),
    kinds=FLOATS,
    doc="The angle of the point (x, y), y first, in [-π, π]; the derivative at the origin is 0.",
    slope=Slope.POLE,
)
NEXTAFTER = binary(
    "nextafter",
    denote=lambda a, x, y: a.function("nextafter", x, y),
    partials=(Unit.PLUS, None),
    kinds=FLOATS,
    doc="The representable number next to x on the way to y; its derivative is that of x.",
)
REM = binary(
    "rem",
    denote=lambda a, x, y: a.function("fmod", x, y),
    partials=(Unit.PLUS, lambda p, z, x, y: apply1(NEG, apply1(TRUNC, apply1(DIV, x, y)))),
    kinds=NUMBERS,
    doc="x - trunc(x/y)·y, exact: the sign of the dividend, as in C.",
    slope=Slope.POLE,
)
REMAINDER = binary(
    "remainder",
    denote=lambda a, x, y: a.function("remainder", x, y),
    partials=(Unit.PLUS, lambda p, z, x, y: apply1(NEG, apply1(FLOOR, apply1(DIV, x, y)))),
    kinds=NUMBERS,
    doc="x - floor(x/y)·y: the sign of the divisor, as in Python.",
    slope=Slope.POLE,
)
FLOOR_DIVIDE = binary(
    "floor_divide",
    denote=lambda a, x, y: a.function("floor_divide", x, y),
    partials=NoTangent("a floored quotient is locally constant"),
    kinds=NUMBERS,
    doc="floor(x/y), as in Python; integers divided by 0 give 0.",
)

OPS: tuple[Op, ...] = (HYPOT, ATAN2, NEXTAFTER, REM, REMAINDER, FLOOR_DIVIDE)
