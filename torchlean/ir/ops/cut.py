"""Ops that cut and join: slice and pad (each the other's transpose), and concatenate.

Starts, limits and widths are static. Reading at positions known only at run time is `gather.py`; the functions users
call are in `index.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.errors import TypeRuleError, message
from torchlean.ir.builder import bind1, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.op import NO_PARAMS, Op, TypeFault
from torchlean.ir.ops.create import FULL, Fill, zeros_of
from torchlean.ir.ops.elementwise import SELECT
from torchlean.ir.ops.layout import TRANSPOSE, Permutation
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes, Spread
from torchlean.ir.rules import Linear, Rule
from torchlean.ir.types import Shape, TensorType, show_types
from torchlean.record import record


# -- helpers of this and later families --------------------------------------------------------------------------------
def axis_of(x: Any, axis: int, what: str) -> int:
    """`axis` counted from the front; TypeRuleError, naming `what`, if `x` has no such axis."""
    rank = len(type_of(x).shape)
    if not -rank <= axis < rank:
        raise TypeRuleError(
            message(
                f"{what} of {type_of(x)}: there is no axis {axis}",
                expected=f"an axis in [{-rank}, {rank})" if rank else "an operand with at least one axis",
                got=str(axis),
                fix="name an existing axis; negative ones count from the end",
                where=str(caller_location()),
            )
        )
    return axis % rank


def move_axis(x: Any, source: int, destination: int) -> Any:
    """`x` with one axis moved, the others in their order; no node when it is there already."""
    if source == destination:
        return x
    axes = [axis for axis in range(len(type_of(x).shape)) if axis != source]
    axes.insert(destination, source)
    return bind1(TRANSPOSE, Permutation(tuple(axes)), x)


def leading(x: Any, size: int, mapped: bool) -> Any:
    """An operand of a batch rule with the mapped axis in front: an unmapped one is broadcast."""
    if mapped:
        return x
    shape = type_of(x).shape
    return bind1(BROADCAST, Spread((size, *shape), tuple(range(1, len(shape) + 1))), x)


def _one_per_axis(x: TensorType, **given: tuple[int, ...]) -> None:
    """Refuse params that do not have one entry per axis of `x`."""
    for name, entries in given.items():
        if len(entries) != x.rank:
            raise TypeFault(
                f"{name} do not match the rank",
                expected=f"{x.rank} {name}, one per axis",
                got=str(list(entries)),
                fix=f"give one of the {name} for every axis of the operand",
            )


# -- slice -------------------------------------------------------------------------------------------------------------
@record
class Strided:
    """Per axis, the result reads positions `start, start + stride, …` below `limit`; 0 ≤ start ≤ limit ≤ size."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...]


def _slice_type(params: Strided, x: TensorType) -> tuple[TensorType, ...]:
    _one_per_axis(x, starts=params.starts, limits=params.limits, strides=params.strides)
    shape: list[int] = []
    for axis, size in enumerate(x.shape):
        start, limit, stride = params.starts[axis], params.limits[axis], params.strides[axis]
        if not 0 <= start <= limit <= size or stride < 1:
            raise TypeFault(
                f"the slice of axis {axis} is out of range",
                expected=f"0 ≤ start ≤ limit ≤ {size} and a stride of at least 1",
                got=f"start {start}, limit {limit}, stride {stride}",
                fix="clip the limits to the axis; reverse with ops.reverse instead of a negative stride",
            )
        shape.append(-(-(limit - start) // stride))
    return (TensorType(tuple(shape), x.dtype),)


def _slice_value(algebra: Any, params: Strided, x: Any) -> tuple[Any, ...]:
    window = tuple(map(slice, params.starts, params.limits, params.strides))
    return (algebra.shape(lambda v: v[window], x),)


def _slice_transpose(params: Strided, ct: Any, x: Any) -> tuple[Any, ...]:
    """Put the cotangent back where it was read, zeros elsewhere."""
    shape, counts = type_of(x).shape, type_of(ct).shape
    ends = [
        start + (count - 1) * stride + 1 if count else start
        for start, stride, count in zip(params.starts, params.strides, counts, strict=True)
    ]
    widths = Widths(
        params.starts,
        tuple([size - end for size, end in zip(shape, ends, strict=True)]),
        tuple([stride - 1 for stride in params.strides]),
    )
    return (bind1(PAD, widths, ct, _zero(ct)),)


SLICE = Op(
    name="slice",
    params=Strided,
    type_rule=_slice_type,
    denote=_slice_value,
    diff=Linear(transpose=_slice_transpose),
    batch=Rule(
        lambda params, size, operands, mapped: (
            bind1(SLICE, Strided((0, *params.starts), (size, *params.limits), (1, *params.strides)), operands[0]),
        )
    ),
    reduces=False,
    doc="Every stride-th entry from start up to limit, along each axis.",
)


# -- pad ---------------------------------------------------------------------------------------------------------------
@record
class Widths:
    """Per axis: `interior` entries between neighbours, then `low` before and `high` after; negative ones crop."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]


def dilated(size: int, interior: int) -> int:
    """Size of an axis after `interior` entries are put between neighbours."""
    return size + max(size - 1, 0) * interior


def _pad_type(params: Widths, x: TensorType, value: TensorType) -> tuple[TensorType, ...]:
    if value.shape != () or value.dtype is not x.dtype:
        raise TypeFault(
            "the padding value does not fit the operand",
            expected=f"{x.dtype.short}[]",
            got=str(value),
            fix="pad with a scalar of the operand's dtype (ops.convert)",
        )
    _one_per_axis(x, low=params.low, high=params.high, interior=params.interior)
    shape: list[int] = []
    for axis, size in enumerate(x.shape):
        low, high, interior = params.low[axis], params.high[axis], params.interior[axis]
        made = low + dilated(size, interior) + high
        if interior < 0 or made < 0:
            raise TypeFault(
                f"the padding of axis {axis} is out of range",
                expected="an interior width of at least 0 and a result of at least 0 entries",
                got=f"low {low}, high {high}, interior {interior} on {size} entries",
                fix="crop at most what is there",
            )
        shape.append(made)
    return (TensorType(tuple(shape), x.dtype),)


def padded_array(v: Any, fill: Any, params: Widths) -> np.ndarray[Any, Any]:
    """The padded NumPy array: entry `i` of an axis lands at `low + i·(interior + 1)`, if that is in the result."""
    shape: list[int] = []
    reads: list[slice] = []
    writes: list[slice] = []
    for size, low, high, interior in zip(np.shape(v), params.low, params.high, params.interior, strict=True):
        step, made = interior + 1, low + dilated(size, interior) + high
        first = max(0, -(low // step))
        stop = max(first, min(size, -((low - made) // step)))
        shape.append(made)
        reads.append(slice(first, stop))
        writes.append(slice(low + first * step, low + stop * step, step))
    result = np.full(tuple(shape), fill, dtype=v.dtype)
    result[tuple(writes)] = v[tuple(reads)]
    return result


def _zero(like: Any) -> Any:
    return zeros_of(TensorType((), type_of(like).dtype))


def _is_padding(params: Widths, shape: Shape) -> Any:
    """Booleans of the padded shape: true where an entry is the padding value."""
    boolean = DType.BOOL
    nothing = bind1(FULL, Fill.of(shape, boolean, False))
    return bind1(PAD, params, nothing, bind1(FULL, Fill.of((), boolean, True)))


def _unpadded(params: Widths, ct: Any, shape: Shape) -> Any:
    """Read back the entries of the operand; those that were cropped away get zero."""
    sizes = tuple([dilated(size, interior) for size, interior in zip(shape, params.interior, strict=True)])
    strides = tuple([interior + 1 for interior in params.interior])
    if min((*params.low, *params.high), default=0) >= 0:
        limits = tuple([low + size for low, size in zip(params.low, sizes, strict=True)])
        return bind1(SLICE, Strided(params.low, limits, strides), ct)
    back = Widths(tuple([-n for n in params.low]), tuple([-n for n in params.high]), (0,) * len(shape))
    return bind1(SLICE, Strided((0,) * len(shape), sizes, strides), bind1(PAD, back, ct, _zero(ct)))


def _pad_transpose(params: Widths, ct: Any, x: Any, value: Any) -> tuple[Any, ...]:
    shape = type_of(x).shape
    outside = bind1(SELECT, NO_PARAMS, _is_padding(params, shape), ct, zeros_of(type_of(ct)))
    total = bind1(REDUCE_SUM, Axes(tuple(range(len(shape)))), outside)
    return (_unpadded(params, ct, shape), total)


def _pad_batch(params: Widths, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    x, value = operands
    up = Widths((0, *params.low), (0, *params.high), (0, *params.interior))
    if not mapped[1]:
        return (bind1(PAD, up, x, value),)
    inner = bind1(PAD, up if mapped[0] else params, x, _zero(x))
    inner = leading(inner, size, mapped[0])
    shape = type_of(inner).shape
    here = leading(_is_padding(params, type_of(x).shape[1:] if mapped[0] else type_of(x).shape), size, False)
    return (bind1(SELECT, NO_PARAMS, here, bind1(BROADCAST, Spread(shape, (0,)), value), inner),)


PAD = Op(
    name="pad",
    params=Widths,
    type_rule=_pad_type,
    denote=lambda algebra, params, x, value: (algebra.shape(lambda v, f: padded_array(v, f, params), x, value),),
    diff=Linear(transpose=_pad_transpose),
    batch=Rule(_pad_batch),
    reduces=False,
    doc="Put a scalar between and around the entries of each axis; negative widths crop.",
)


# -- concatenate -------------------------------------------------------------------------------------------------------
@record
class Joined:
    """`axis`: the axis along which the operands follow one another."""

    axis: int


def _concatenate_type(params: Joined, *types: TensorType) -> tuple[TensorType, ...]:
    axis = params.axis
    if not types:
        raise TypeFault("there is nothing to join", expected="one operand or more", got="none", fix="pass an operand")
    first = types[0]
    if not 0 <= axis < first.rank:
        raise TypeFault(
            f"there is no axis {axis} to join along",
            expected=f"an axis in [0, {first.rank})",
            got=str(axis),
            fix="name an existing axis, or use ops.stack to make one",
        )
    for other in types:
        rest = other.shape[:axis] + other.shape[axis + 1 :]
        if (
            other.dtype is not first.dtype
            or other.rank != first.rank
            or rest != (first.shape[:axis] + first.shape[axis + 1 :])
        ):
            raise TypeFault(
                f"the operands do not join along axis {axis}",
                expected=f"operands like {first}, different only in axis {axis}",
                got=show_types(types),
                fix="reshape, broadcast or convert the one that differs",
            )
    joined = sum(each.shape[axis] for each in types)
    return (TensorType((*first.shape[:axis], joined, *first.shape[axis + 1 :]), first.dtype),)


def _concatenate_transpose(params: Joined, ct: Any, *operands: Any) -> tuple[Any, ...]:
    """Each operand's own stretch of the cotangent."""
    shape, axis, at = type_of(ct).shape, params.axis, 0
    cut: list[Any] = []
    for operand in operands:
        end = at + type_of(operand).shape[axis]
        starts = tuple([at if a == axis else 0 for a in range(len(shape))])
        limits = tuple([end if a == axis else size for a, size in enumerate(shape)])
        cut.append(bind1(SLICE, Strided(starts, limits, (1,) * len(shape)), ct))
        at = end
    return tuple(cut)


CONCATENATE = Op(
    name="concatenate",
    params=Joined,
    type_rule=_concatenate_type,
    denote=lambda algebra, params, *xs: (algebra.shape(lambda *vs: np.concatenate(vs, params.axis), *xs),),
    diff=Linear(transpose=_concatenate_transpose),
    batch=Rule(
        lambda params, size, operands, mapped: (
            bind1(
                CONCATENATE,
                Joined(params.axis + 1),
                *[leading(x, size, here) for x, here in zip(operands, mapped, strict=True)],
            ),
        )
    ),
    reduces=False,
    doc="The operands one after another along an axis.",
)

OPS = (SLICE, PAD, CONCATENATE)
