"""Reductions, shapes and matrix products as users call them: axes may be negative, sizes may be -1."""

from __future__ import annotations

from math import prod
from typing import Any

from torchlean.errors import OutOfRangeError, TypeRuleError, message
from torchlean.ir.builder import bind1
from torchlean.ir.dtypes import DType, as_dtype
from torchlean.ir.location import caller_location
from torchlean.ir.ops.create import sizes
from torchlean.ir.ops.dot import DOT_GENERAL, MATRICES, DotDims
from torchlean.ir.ops.elementwise import CONVERT, Target
from torchlean.ir.ops.functions import div
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE, Flipped, NewShape, Permutation
from torchlean.ir.ops.promote import accumulated, common_dtype, shapes_disagree, spread_to, tensor
from torchlean.ir.ops.reduce import ARGMAX, ARGMIN, REDUCE_MAX, REDUCE_MIN, ArgAxis
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes, Spread
from torchlean.ir.types import Shape, TensorType, broadcast_shapes

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "broadcast",
    "broadcast_to",
    "expand_dims",
    "matmul",
    "mean",
    "normal_axes",
    "normal_axis",
    "reduce_max",
    "reduce_min",
    "reshape",
    "reverse",
    "squeeze",
    "sum",
    "transpose",
]


# -- axes --------------------------------------------------------------------------------------------------------------
def normal_axis(name: str, axis: int, type: TensorType, new: int = 0) -> int:
    """A non-negative axis of `type`, or of a result with `new` axes more; out of range is an error naming the op."""
    rank = type.rank + new
    if not -rank <= axis < rank:
        raise OutOfRangeError(
            message(
                f"{name} of {type}: axis {axis} is out of range",
                expected=f"an axis in [{-rank}, {rank})",
                got=str(axis),
                fix="count axes from 0, or from the end with negative numbers",
                where=str(caller_location()),
            )
        )
    return axis % rank


def normal_axes(name: str, axis: int | tuple[int, ...] | list[int] | None, type: TensorType) -> tuple[int, ...]:
    """Sorted unique axes; None means all of them."""
    if axis is None:
        return tuple(range(type.rank))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = sorted({normal_axis(name, a, type) for a in given})
    if len(axes) != len(given):
        raise TypeRuleError(
            message(
                f"{name} of {type}: an axis is named twice",
                expected="each axis once",
                got=str(list(given)),
                fix="drop the repeated axis",
                where=str(caller_location()),
            )
        )
    return tuple(axes)


def _keep(x: Any, shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Any:
    if not keepdims:
        return x
    return reshape(x, tuple(1 if axis in axes else size for axis, size in enumerate(shape)))


def sum(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False, accumulator: Any = None) -> Any:
    """Sum over `axis` (all axes when None); `accumulator`: the dtype added in, rounded back at the end."""
    x = tensor(x)
    axes = normal_axes("sum", axis, x.type)
    total = accumulated(accumulator, lambda v: bind1(REDUCE_SUM, Axes(axes), v), x)
    return _keep(total, x.type.shape, axes, keepdims)


def mean(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """Sum over `axis` divided by the number of entries summed; NaN over an empty extent.

    16-bit floats are summed and divided in float32: their sum may overflow where the mean does not.
    """
    x = tensor(x)
    axes = normal_axes("mean", axis, x.type)
    narrow = x.type.dtype.is_float and x.type.dtype.width < 32
    total = bind1(REDUCE_SUM, Axes(axes), bind1(CONVERT, Target(DType.F32), x) if narrow else x)
    count = prod([x.type.shape[a] for a in axes])
    made = div(total, float(count))
    if narrow:
        made = bind1(CONVERT, Target(x.type.dtype), made)
    return _keep(made, x.type.shape, axes, keepdims)


def amax(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """Largest entry over `axis`; NaN if one is; ties share the derivative evenly."""
    x = tensor(x)
    axes = normal_axes("amax", axis, x.type)
    return _keep(bind1(REDUCE_MAX, Axes(axes), x), x.type.shape, axes, keepdims)


def amin(x: Any, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False) -> Any:
    """Smallest entry over `axis`; NaN if one is; ties share the derivative evenly."""
    x = tensor(x)
    axes = normal_axes("amin", axis, x.type)
    return _keep(bind1(REDUCE_MIN, Axes(axes), x), x.type.shape, axes, keepdims)


def reduce_max(x: Any, axes: tuple[int, ...]) -> Any:
    """Largest entry over the given axes."""
    return amax(x, tuple(axes))


def reduce_min(x: Any, axes: tuple[int, ...]) -> Any:
    """Smallest entry over the given axes."""
    return amin(x, tuple(axes))


def argmax(x: Any, axis: int = -1, dtype: Any = DType.I32) -> Any:
    """Index (int32) of the first largest entry along `axis`; the first NaN, if there is one."""
    x = tensor(x)
    return bind1(ARGMAX, ArgAxis(normal_axis("argmax", axis, x.type), as_dtype(dtype)), x)


def argmin(x: Any, axis: int = -1, dtype: Any = DType.I32) -> Any:
    """Index (int32) of the first smallest entry along `axis`; the first NaN, if there is one."""
    x = tensor(x)
    return bind1(ARGMIN, ArgAxis(normal_axis("argmin", axis, x.type), as_dtype(dtype)), x)


# -- shape -------------------------------------------------------------------------------------------------------------
def reshape(x: Any, shape: int | tuple[int, ...] | list[int]) -> Any:
    """The same entries in row-major order under `shape`; one size may be -1."""
    x = tensor(x)
    wanted = sizes("reshape", shape)
    if -1 in wanted:
        wanted = _inferred(wanted, x.type)
    if wanted == x.type.shape:
        return x
    return bind1(RESHAPE, NewShape(wanted), x)


def _inferred(wanted: Shape, x: TensorType) -> Shape:
    """The shape with its one -1 replaced by the size that keeps the number of entries."""
    known = prod([size for size in wanted if size != -1])
    several = wanted.count(-1) > 1
    if several or known <= 0 or x.size % known:
        raise TypeRuleError(
            message(
                f"reshape of {x} to {list(wanted)}: the size -1 cannot be inferred",
                expected="one size -1 at most" if several else f"other sizes whose product divides {x.size}",
                got=f"{wanted.count(-1)} of them" if several else f"a product of {known}",
                fix="write the sizes out",
                where=str(caller_location()),
            )
        )
    return tuple([x.size // known if size == -1 else size for size in wanted])


def transpose(x: Any, axes: tuple[int, ...] | list[int] | None = None) -> Any:
    """Permute the axes; reversed when `axes` is None."""
    x = tensor(x)
    rank = x.type.rank
    order = tuple(reversed(range(rank))) if axes is None else tuple(normal_axis("transpose", a, x.type) for a in axes)
    if order == tuple(range(rank)):
        return x
    return bind1(TRANSPOSE, Permutation(order), x)


def reverse(x: Any, axes: int | tuple[int, ...]) -> Any:
    """Reverse the order of entries along `axes`."""
    x = tensor(x)
    return bind1(REVERSE, Flipped(normal_axes("reverse", axes, x.type)), x)


def broadcast(x: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Operand axis `i` becomes axis `axes[i]` of `shape`; the other axes repeat."""
    return bind1(BROADCAST, Spread(sizes("broadcast", shape), tuple(axes)), tensor(x))


def broadcast_to(x: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast as NumPy does, aligned at the last axis."""
    x = tensor(x)
    wanted = sizes("broadcast_to", shape)
    if broadcast_shapes(x.type.shape, wanted) != wanted:
        raise shapes_disagree("broadcast_to", x.type, x.type.with_shape(wanted))
    return spread_to(x, wanted)


def expand_dims(x: Any, axis: int) -> Any:
    """Insert an axis of size 1."""
    x = tensor(x)
    shape = x.type.shape
    at = normal_axis("expand_dims", axis, x.type, new=1)
    return reshape(x, (*shape[:at], 1, *shape[at:]))


def squeeze(x: Any, axis: int | tuple[int, ...]) -> Any:
    """Drop axes of size 1; another size is an error."""
    x = tensor(x)
    axes = normal_axes("squeeze", axis, x.type)
    for at in axes:
        if x.type.shape[at] != 1:
            raise TypeRuleError(
                message(
                    f"squeeze of {x.type}: axis {at} has {x.type.shape[at]} entries",
                    expected="axes of size 1",
                    got=f"axes {list(axes)}",
                    fix="index the axis, or name another",
                    where=str(caller_location()),
                )
            )
    return reshape(x, tuple(size for a, size in enumerate(x.type.shape) if a not in axes))


# -- products ----------------------------------------------------------------------------------------------------------
def matmul(x: Any, y: Any) -> Any:
    """Matrix product as Python's `@`: vectors, matrices, and leading batch axes that broadcast.

    f[…, M, K] @ f[…, K, N] → f[…, M, N]. Raises TypeRuleError naming both types when K differs.
    """
    x, y = tensor(x), tensor(y)
    a, b = x.type, y.type
    if len(a.shape) == 2 == len(b.shape) and a.shape[1] == b.shape[0] and a.dtype is b.dtype:
        return bind1(DOT_GENERAL, MATRICES, x, y)
    if a.rank == 0 or b.rank == 0 or a.shape[-1] != b.shape[-2 if b.rank > 1 else 0]:
        inner = (
            "a scalar has no axis" if 0 in (a.rank, b.rank) else f"{a.shape[-1]} and {b.shape[-2 if b.rank > 1 else 0]}"
        )
        raise TypeRuleError(
            message(
                f"matmul cannot contract {a} with {b}",
                expected="last axis of the left equal to the second-last of the right",
                got=inner,
                fix="transpose one operand (x.T), or check the layer's input size",
                where=str(caller_location()),
            )
        )
    if a.dtype is not b.dtype:
        x, y = common_dtype("matmul", x, y)
        a, b = x.type, y.type
    if b.rank <= 2:
        at = b.rank - 2 if b.rank > 1 else 0
        return bind1(DOT_GENERAL, DotDims((a.rank - 1,), (at,), (), ()), x, y)
    if a.rank == 1:
        x, a = expand_dims(x, 0), TensorType((1, *a.shape), a.dtype)
        product = matmul(x, y)
        return reshape(product, (*product.type.shape[:-2], product.type.shape[-1]))
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if lead is None:
        raise shapes_disagree("matmul", a, b)
    x, y = spread_to(x, (*lead, *a.shape[-2:])), spread_to(y, (*lead, *b.shape[-2:]))
    batch = tuple(range(len(lead)))
    return bind1(DOT_GENERAL, DotDims((len(lead) + 1,), (len(lead),), batch, batch), x, y)
