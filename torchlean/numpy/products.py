"""Products of vectors, matrices and tensors, all made of `dot_general`: left folds in index order."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.ir.builder import bind1
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.numpy.complex_parts import conj
from torchlean.numpy.dtypes import result_type
from torchlean.numpy.operands import axis_of, common_shape, operand, refused
from torchlean.numpy.reductions import sum as sum_over
from torchlean.numpy.shapes import moveaxis

__all__ = [
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]


def same_dtype(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two operands converted to their common dtype; shapes are left alone."""
    x1, x2 = operand(name, x1), operand(name, x2)
    dtype = result_type(x1.type.dtype, x2.type.dtype)
    return ops.convert(x1, dtype), ops.convert(x2, dtype)


def matmul(x1: Any, x2: Any, /) -> Any:
    """The matrix product, as `@`."""
    return ops.matmul(*same_dtype("matmul", x1, x2))


def dot(a: Any, b: Any, /) -> Any:
    """NumPy's dot: scalars multiply; else the last axis of `a` meets the second-last of `b` (or its only one)."""
    a, b = same_dtype("dot", a, b)
    if not a.type.rank or not b.type.rank:
        return ops.mul(a, b)
    return tensordot(a, b, axes=((a.type.rank - 1,), (max(b.type.rank - 2, 0),)))


def tensordot(x1: Any, x2: Any, /, axes: Any = 2) -> Any:
    """Sums over pairs of axes: the last n of x1 with the first n of x2, or the two lists of axes."""
    x1, x2 = same_dtype("tensordot", x1, x2)
    if isinstance(axes, int):
        left = tuple(range(x1.type.rank - axes, x1.type.rank))
        right = tuple(range(axes))
    else:
        left, right = (tuple(each) if isinstance(each, tuple | list) else (each,) for each in axes)
    left = tuple([axis_of("tensordot", a, x1.type.rank) for a in left])
    right = tuple([axis_of("tensordot", a, x2.type.rank) for a in right])
    for a, b in zip(left, right, strict=False):
        if x1.type.shape[a] != x2.type.shape[b]:
            raise refused(
                f"tensordot of {x1.type} with {x2.type}: axis {a} does not meet axis {b}",
                expected="paired axes of equal size",
                got=f"{x1.type.shape[a]} and {x2.type.shape[b]}",
                fix="name other axes",
            )
    return bind1(DOT_GENERAL, DotDims(left, right, (), ()), x1, x2)


def vecdot(x1: Any, x2: Any, /, axis: int = -1) -> Any:
    """Sums of conj(x1) · x2 along an axis counted from the end; the others broadcast."""
    x1, x2 = same_dtype("vecdot", x1, x2)
    if axis >= 0:
        raise refused(
            "vecdot along a non-negative axis", expected="an axis in [-n, -1]", got=str(axis), fix="count from the end"
        )
    first, second = (moveaxis(x, axis_of("vecdot", axis, x.type.rank), -1) for x in (x1, x2))
    if first.type.shape[-1] != second.type.shape[-1]:
        raise refused(
            f"vecdot of {x1.type} with {x2.type}",
            expected=f"axis {axis} of equal size",
            got=f"{first.type.shape[-1]} and {second.type.shape[-1]}",
            fix="name another axis",
        )
    shape = common_shape("vecdot", first.type, second.type)
    first, second = ops.broadcast_to(conj(first), shape), ops.broadcast_to(second, shape)
    return sum_over(ops.mul(first, second), axis=-1, dtype=first.type.dtype)


def inner(a: Any, b: Any, /) -> Any:
    """Sums over the last axes of both; scalars multiply."""
    a, b = same_dtype("inner", a, b)
    if not a.type.rank or not b.type.rank:
        return ops.mul(a, b)
    return tensordot(a, b, axes=((-1,), (-1,)))


def vdot(a: Any, b: Any, /) -> Any:
    """The sum of conj(a) · b over all entries."""
    a, b = same_dtype("vdot", a, b)
    return dot(conj(ops.reshape(a, (a.type.size,))), ops.reshape(b, (b.type.size,)))


def outer(x1: Any, x2: Any, /) -> Any:
    """All products of an entry of x1 with one of x2, both flattened: a matrix."""
    x1, x2 = same_dtype("outer", x1, x2)
    return ops.mul(ops.reshape(x1, (x1.type.size, 1)), ops.reshape(x2, (1, x2.type.size)))


def kron(a: Any, b: Any, /) -> Any:
    """The Kronecker product: a block `a[i] · b` for each entry of `a`."""
    a, b = same_dtype("kron", a, b)
    rank = max(a.type.rank, b.type.rank)
    first = (1,) * (rank - a.type.rank) + a.type.shape
    second = (1,) * (rank - b.type.rank) + b.type.shape
    left = ops.reshape(a, tuple([n for size in first for n in (size, 1)]))
    right = ops.reshape(b, tuple([n for size in second for n in (1, size)]))
    return ops.reshape(ops.mul(left, right), tuple([m * n for m, n in zip(first, second, strict=True)]))


def cross(x1: Any, x2: Any, /, axis: int = -1) -> Any:
    """The vector product of vectors of three entries along an axis; the other axes broadcast."""
    x1, x2 = same_dtype("cross", x1, x2)
    shape = common_shape("cross", x1.type, x2.type)
    at = axis_of("cross", axis, len(shape))
    for x in (x1, x2):
        if x.type.shape[axis_of("cross", at - len(shape), x.type.rank)] != 3:
            raise refused(
                f"cross of {x1.type} with {x2.type}",
                expected=f"3 entries along axis {axis}",
                got=str(x.type),
                fix="pad to 3",
            )
    x1, x2 = (moveaxis(ops.broadcast_to(x, shape), at, 0) for x in (x1, x2))
    parts = [ops.sub(ops.mul(x1[i], x2[j]), ops.mul(x1[j], x2[i])) for i, j in ((1, 2), (2, 0), (0, 1))]
    return ops.stack(parts, at)


def matvec(x1: Any, x2: Any, /) -> Any:
    """Matrices [..., m, n] times vectors [..., n]."""
    x2 = operand("matvec", x2)
    product = matmul(x1, ops.expand_dims(x2, x2.type.rank))
    return ops.reshape(product, product.type.shape[:-1])


def vecmat(x1: Any, x2: Any, /) -> Any:
    """Vectors [..., m], conjugated, times matrices [..., m, n]."""
    x1 = conj(operand("vecmat", x1))
    product = matmul(ops.expand_dims(x1, x1.type.rank - 1), x2)
    return ops.reshape(product, (*product.type.shape[:-2], product.type.shape[-1]))
