"""Arrays from data and from a shape. Python floats become float32, ints int32, complex numbers complex64."""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir import ops
from torchlean.ir.builder import Value
from torchlean.ir.dtypes import DType, as_dtype
from torchlean.ir.operators import Operators
from torchlean.numpy.devices import check_device
from torchlean.numpy.dtypes import DEFAULT_FLOAT, default_of
from torchlean.numpy.operands import operand, refused, sizes
from torchlean.runtime.array import array

__all__ = [
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "from_dlpack",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """An array of numbers, nested lists, NumPy or buffer data, or an array. Nested lists may hold traced values.

    Data is copied unless it is an array of this package, which is immutable; `copy=False` refuses where one is needed.
    """
    check_device("asarray", device)
    if isinstance(obj, Operators):
        made = obj if dtype is None else ops.convert(obj, dtype)
        if copy is False and made is not obj:
            raise _needs_copy("asarray", f"{obj.type} has another dtype")
        return made
    if copy is False and not isinstance(obj, bool | int | float | complex | list | tuple | range):
        raise _needs_copy("asarray", f"a {type(obj).__name__} may be written to")
    if isinstance(obj, list | tuple) and _holds_traced(obj):
        return _stacked(obj, dtype)
    if isinstance(obj, list | tuple) and dtype is None:
        shape = _empty_shape(obj)
        if shape is not None:
            return full(shape, 0.0)
    if not isinstance(obj, bool | int | float | complex | list | tuple | range | np.ndarray | np.generic):
        obj = np.asarray(obj)
    return array(obj, dtype)


def _empty_shape(data: Any) -> tuple[int, ...] | None:
    """The shape of nested lists without a leaf; None for others, and for what no array could hold."""
    first = data
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if not isinstance(first, list | tuple):
        return None
    try:
        return np.shape(data) if np.size(data) == 0 else None
    except ValueError:  # ragged, or deeper than an array may be
        return None


def _needs_copy(name: str, why: str) -> Exception:
    fault = refused(f"{name} with copy=False: {why}", expected="an array", got="copy=False", fix="leave copy out")
    return ValueError(str(fault))


def _holds_traced(data: Any) -> bool:
    pending = [data]
    while pending:
        entry = pending.pop()
        if isinstance(entry, Value):
            return True
        if isinstance(entry, list | tuple):
            pending.extend(entry)
    return False


def _stacked(data: Any, dtype: Any) -> Any:
    """Nested lists, some of whose entries are traced, joined by ops."""
    rows = [_stacked(row, dtype) if isinstance(row, list | tuple) else operand("asarray", row) for row in data]
    common = as_dtype(dtype) if dtype is not None else None
    if common is None:
        from torchlean.numpy.dtypes import result_type

        common = result_type(*rows)
    return ops.stack([ops.convert(row, common) for row in rows])


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array of what a DLPack producer lends; always a copy, since the producer may write to its memory."""
    check_device("from_dlpack", device)
    if isinstance(x, Operators):
        return x
    if copy is False:
        raise _needs_copy("from_dlpack", "the producer may write to its memory")
    return array(np.from_dlpack(x))


def copy(x: Any, /) -> Any:
    """`x`: arrays are immutable, so a copy would not differ."""
    return operand("copy", x)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Entries that are all one number or 0-d array."""
    check_device("full", device)
    wanted = sizes("full", shape)
    if isinstance(fill_value, Operators):
        value = fill_value if dtype is None else ops.convert(fill_value, dtype)
        return ops.broadcast_to(value, wanted)
    if dtype is None and isinstance(fill_value, np.generic):
        dtype = fill_value.dtype
    held = default_of(fill_value) if dtype is None else as_dtype(dtype)
    return ops.full(wanted, _rounded(fill_value, held), held)


def _rounded(number: Any, dtype: DType) -> Any:
    """A Python number as the floating-point dtype holds it: infinite when it is too large."""
    if isinstance(number, bool) or not dtype.part.is_float or not isinstance(number, float | complex):
        return number
    if isinstance(number, complex):
        return complex(_rounded(number.real, dtype.part), _rounded(number.imag, dtype.part))
    with np.errstate(over="ignore"):
        return float(np.array(number).astype(dtype.carrier))


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros; float32 unless a dtype is given."""
    return full(shape, 0, dtype=DEFAULT_FLOAT if dtype is None else dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones; float32 unless a dtype is given."""
    return full(shape, 1, dtype=DEFAULT_FLOAT if dtype is None else dtype, device=device)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros: nothing here is uninitialised."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """Entries that are all one number, of the shape (and dtype, unless given) of `x`."""
    type = operand("full_like", x).type
    return full(type.shape, fill_value, dtype=type.dtype if dtype is None else dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros of the shape (and dtype, unless given) of `x`."""
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones of the shape (and dtype, unless given) of `x`."""
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """Zeros of the shape (and dtype, unless given) of `x`."""
    return zeros_like(x, dtype=dtype, device=device)
