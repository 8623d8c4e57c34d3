"""Whether arrays are equal, or nearly so."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.ir.types import broadcast_shapes
from torchlean.numpy.comparison import isfinite, isnan
from torchlean.numpy.operands import matched, operand
from torchlean.numpy.reductions import all

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


def isclose(a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """|a - b| ≤ atol + rtol·|b|; equal infinities are close; NaNs are only with `equal_nan`."""
    a, b = matched("isclose", a, b)
    if not (a.type.dtype.is_float or a.type.dtype.is_complex):
        a, b = ops.convert(a, "f64"), ops.convert(b, "f64")
    size = ops.abs(b)
    near = ops.le(ops.abs(ops.sub(a, b)), ops.add(ops.mul(size, float(rtol)), float(atol)))
    near = ops.logical_or(ops.eq(a, b), ops.logical_and(near, isfinite(b)))
    if equal_nan:
        near = ops.logical_or(near, ops.logical_and(isnan(a), isnan(b)))
    return near


def allclose(a: Any, b: Any, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether all entries are close; a boolean array without axes."""
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, /, equal_nan: bool = False) -> Any:
    """Whether shapes and entries are equal; a boolean array without axes."""
    a1, a2 = operand("array_equal", a1), operand("array_equal", a2)
    if a1.type.shape != a2.type.shape:
        return ops.full((), False)
    same = ops.eq(a1, a2)
    if equal_nan:
        same = ops.logical_or(same, ops.logical_and(isnan(a1), isnan(a2)))
    return all(same)


def array_equiv(a1: Any, a2: Any, /) -> Any:
    """Whether the arrays broadcast to one shape and are equal there."""
    a1, a2 = operand("array_equiv", a1), operand("array_equiv", a2)
    if broadcast_shapes(a1.type.shape, a2.type.shape) is None:
        return ops.full((), False)
    return all(ops.eq(a1, a2))
