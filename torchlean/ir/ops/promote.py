"""Bring operands of a user's call to one type: Python scalars are weak, arrays follow the Array API standard's table.

`promote_dtypes` lists the few pairs defined beyond it. What else the standard leaves undefined (integer with float,
bool with number, uint64 with signed) is an error that names the fix. Shapes broadcast as in NumPy, by explicit
`broadcast` nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlean.errors import TypeRuleError, message
from torchlean.ir.builder import bind1, is_python_number, type_of
from torchlean.ir.dtypes import DType, Kind, as_dtype
from torchlean.ir.location import caller_location
from torchlean.ir.ops.create import FULL, Fill, constant, misfit
from torchlean.ir.ops.elementwise import CONVERT, Target
from torchlean.ir.ops.spread import BROADCAST, Spread
from torchlean.ir.types import Shape, TensorType, broadcast_shapes

_SIGNED_BY_WIDTH = (DType.I8, DType.I16, DType.I32, DType.I64)


def promote_dtypes(x: DType, y: DType) -> DType | None:
    """The common dtype of two arrays, or None where none is defined.

    Beyond the standard: f16 with bf16 gives f32, the smallest that holds both; a 16-bit float with a complex keeps the
    complex; u8 with a float or complex gives that, which holds every u8 exactly (bytes of images and labels).
    """
    if x is y:
        return x
    if x.is_float and y.is_float:
        return DType.F32 if x.width == y.width else x if x.width > y.width else y
    if x.is_inexact and y.is_inexact:
        return DType.C128 if DType.F64 in (x.part, y.part) else DType.C64
    if x is DType.U8 and y.is_inexact:
        return y
    if y is DType.U8 and x.is_inexact:
        return x
    if x.is_integer and y.is_integer:
        if x.kind is y.kind:
            return x if x.width >= y.width else y
        unsigned, signed = (x, y) if x.kind is Kind.UNSIGNED else (y, x)
        wanted = max(signed.width, 2 * unsigned.width)
        return next((dtype for dtype in _SIGNED_BY_WIDTH if dtype.width == wanted), None)
    return None


def _mixed(name: str, x: TensorType, y: TensorType) -> TypeRuleError:
    floating = x.dtype if x.dtype.is_inexact else y.dtype
    fix = f"convert one operand, e.g. x.astype('{floating.short}')"
    return TypeRuleError(
        message(
            f"{name} of {x}, {y}: the dtypes have no common type",
            expected="operands of one kind (the Array API standard defines no mixed promotion)",
            got=f"{x.dtype.short} ({x.dtype.kind.value}) and {y.dtype.short} ({y.dtype.kind.value})",
            fix=fix,
            where=str(caller_location()),
        )
    )


def _scalar(name: str, scalar: bool | int | float | complex, like: TensorType, shape: Shape) -> Any:
    """A Python number as a tensor of the dtype of `like`."""
    dtype = like.dtype
    rank = 0 if isinstance(scalar, bool) else 1 if isinstance(scalar, int) else 3 if isinstance(scalar, complex) else 2
    holds = 0 if dtype.is_bool else 1 if dtype.is_integer else 3 if dtype.is_complex else 2
    if rank > holds or (rank == 0 and holds != 0):
        raise TypeRuleError(
            message(
                f"{name} of {like} with the Python {type(scalar).__name__} {scalar!r}",
                expected=f"a Python number that {dtype.short} can hold",
                got=repr(scalar),
                fix=_holding(scalar),
                where=str(caller_location()),
            )
        )
    fault = misfit(dtype, scalar)
    if fault is not None:
        shown = repr(scalar)
        if isinstance(scalar, int) and abs(scalar) >= 10**30:
            shown = f"an integer of {scalar.bit_length()} bits"
        raise TypeRuleError(
            message(
                f"{name} of {like} with {shown}: {fault}",
                expected=f"a number that {dtype.short} can hold",
                got=shown,
                fix="convert the tensor first to a dtype that holds the number",
                where=str(caller_location()),
            )
        )
    return bind1(FULL, Fill.of(shape, dtype, scalar))


def _holding(scalar: bool | int | float | complex) -> str:
    """The fix for a Python number of a kind the tensor's dtype does not hold."""
    if isinstance(scalar, bool):
        return "write 1 or 0, or convert the tensor to bool"
    return f"convert the tensor first, e.g. x.astype('{'i32' if isinstance(scalar, int) else 'f32'}')"


def _wide_enough(scalar: Any, x: Any) -> Any:
    """A float tensor made complex, at its precision, for a Python complex number; any other tensor as it is."""
    if isinstance(scalar, complex) and type_of(x).dtype.is_float:
        return bind1(CONVERT, Target(DType.C128 if type_of(x).dtype is DType.F64 else DType.C64), x)
    return x


def spread_to(x: Any, shape: Shape) -> Any:
    """Broadcast `x` to `shape` (already known to be possible), aligned at the last axis."""
    mine = type_of(x).shape
    if mine == shape:
        return x
    first = len(shape) - len(mine)
    return bind1(BROADCAST, Spread(shape, tuple(range(first, len(shape)))), x)


def tensor(x: Any) -> Any:
    """`x` as an operand with a type: arrays and Python numbers become constants."""
    return x if hasattr(x, "type") else constant(x)


def accumulated(accumulator: Any, reduce: Callable[..., Any], *operands: Any) -> Any:
    """`reduce` in another dtype: operands are converted before, exactly if it is wider, and the result rounded once.

    So accumulation in a wider dtype is part of the graph, and its order is that of the reduction.
    """
    xs = [tensor(x) for x in operands]
    own = type_of(xs[0]).dtype
    if accumulator is None or as_dtype(accumulator) is own:
        return reduce(*xs)
    wide = Target(as_dtype(accumulator))
    return bind1(CONVERT, Target(own), reduce(*[bind1(CONVERT, wide, x) for x in xs]))


def pair(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands brought to one type; the error names both types and the user's line."""
    x_type, y_type = getattr(x, "type", None), getattr(y, "type", None)
    if x_type is not None and x_type is y_type:
        return x, y
    if x_type is None:
        if y_type is not None and is_python_number(x):
            y = _wide_enough(x, y)
            return _scalar(name, x, type_of(y), y_type.shape), y
        x = constant(x)
        x_type = type_of(x)
    if y_type is None:
        if is_python_number(y):
            x = _wide_enough(y, x)
            return x, _scalar(name, y, type_of(x), x_type.shape)
        y = constant(y)
        y_type = type_of(y)
    if x_type == y_type:
        return x, y
    if x_type.dtype is not y_type.dtype:
        x, y = common_dtype(name, x, y)
    if x_type.shape != y_type.shape:
        shape = broadcast_shapes(x_type.shape, y_type.shape)
        if shape is None:
            raise shapes_disagree(name, x_type, y_type)
        x, y = spread_to(x, shape), spread_to(y, shape)
    return x, y


def common_dtype(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Two tensors converted to their common dtype; shapes are left alone."""
    x_type, y_type = type_of(x), type_of(y)
    common = promote_dtypes(x_type.dtype, y_type.dtype)
    if common is None:
        raise _mixed(name, x_type, y_type)
    if x_type.dtype is not common:
        x = bind1(CONVERT, Target(common), x)
    if y_type.dtype is not common:
        y = bind1(CONVERT, Target(common), y)
    return x, y


def shapes_disagree(name: str, x: TensorType, y: TensorType) -> TypeRuleError:
    """The error for shapes that do not broadcast; says which axis."""
    worst = ""
    for back in range(1, min(x.rank, y.rank) + 1):
        mine, yours = x.shape[-back], y.shape[-back]
        if mine != yours and 1 not in (mine, yours):
            worst = f"axis -{back}: {mine} and {yours}"
            break
    return TypeRuleError(
        message(
            f"{name} of {x}, {y}: the shapes do not broadcast",
            expected="sizes that are equal or 1, aligned at the last axis",
            got=worst,
            fix="reshape or slice one operand",
            where=str(caller_location()),
        )
    )
