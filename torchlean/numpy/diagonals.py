"""Diagonals and triangles of matrices. Offsets are static: positive above the main diagonal."""

from __future__ import annotations

from typing import Any

from torchlean.ir import ops
from torchlean.ir.dtypes import as_dtype
from torchlean.numpy.devices import check_device
from torchlean.numpy.dtypes import DEFAULT_FLOAT
from torchlean.numpy.operands import axes_of, integer, operand, refused
from torchlean.numpy.reductions import sum as sum_over

__all__ = [
    "diag",
    "diag_indices",
    "diagflat",
    "diagonal",
    "eye",
    "identity",
    "trace",
    "tri",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "vander",
]


def on_diagonal(rows: int, columns: int, k: int) -> Any:
    """Booleans [rows, columns]: whether column - row = k."""
    return ops.eq(_row(rows, columns, k), _column(rows, columns))


def _row(rows: int, columns: int, k: int) -> Any:
    return ops.add(ops.iota((rows, columns), 0), k)


def _column(rows: int, columns: int) -> Any:
    return ops.iota((rows, columns), 1)


def eye(n_rows: int, n_cols: int | None = None, /, k: int = 0, *, dtype: Any = None, device: Any = None) -> Any:
    """Ones on a diagonal, zeros elsewhere."""
    check_device("eye", device)
    rows = integer("eye", "n_rows", n_rows)
    columns = rows if n_cols is None else integer("eye", "n_cols", n_cols)
    k = max(-rows - 1, min(columns + 1, k))
    return ops.convert(on_diagonal(rows, columns, k), DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


def identity(n: int, dtype: Any = None) -> Any:
    """The identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    """Ones on and below a diagonal, zeros above."""
    below = ops.ge(_row(N, N if M is None else M, k), _column(N, N if M is None else M))
    return ops.convert(below, DEFAULT_FLOAT if dtype is None else as_dtype(dtype))


def _matrix(name: str, x: Any) -> Any:
    x = operand(name, x)
    if x.type.rank < 2:
        raise refused(f"{name} of {x.type}", expected="at least two axes", got=str(x.type.rank), fix="add an axis")
    return x


def tril(x: Any, /, k: int = 0) -> Any:
    """The entries on and below a diagonal, zeros above."""
    x = _matrix("tril", x)
    rows, columns = x.type.shape[-2:]
    k = max(-rows - 1, min(columns + 1, k))
    return ops.select(ops.ge(_row(rows, columns, k), _column(rows, columns)), x, ops.full_like(x, 0))


def triu(x: Any, /, k: int = 0) -> Any:
    """The entries on and above a diagonal, zeros below."""
    x = _matrix("triu", x)
    rows, columns = x.type.shape[-2:]
    k = max(-rows - 1, min(columns + 1, k))
    return ops.select(ops.le(_row(rows, columns, k), _column(rows, columns)), x, ops.full_like(x, 0))


def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A diagonal of two axes as a new last axis."""
    x = _matrix("diagonal", x)
    first, second = axes_of("diagonal", (axis1, axis2), x.type.rank)
    rest = [a for a in range(x.type.rank) if a not in (first, second)]
    x = ops.transpose(x, (*rest, first, second))
    rows, columns = x.type.shape[-2:]
    begin = offset if offset >= 0 else -offset * columns
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    flat = ops.reshape(x, (*x.type.shape[:-2], rows * columns))
    if not count:
        return flat[..., :0]
    return flat[..., begin : begin + (count - 1) * (columns + 1) + 1 : columns + 1]


def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, *, dtype: Any = None) -> Any:
    """The sum of a diagonal."""
    return sum_over(diagonal(x, offset=offset, axis1=axis1, axis2=axis2), axis=-1, dtype=dtype)


def diag(v: Any, /, k: int = 0) -> Any:
    """A matrix with a vector on its diagonal, or the diagonal of a matrix."""
    v = operand("diag", v)
    if v.type.rank == 2:
        return diagonal(v, offset=k)
    if v.type.rank != 1:
        raise refused(f"diag of {v.type}", expected="a vector or a matrix", got=str(v.type), fix="use tnp.diagonal")
    size = v.type.size + abs(k)
    across = ops.pad(v, 0, [(max(k, 0), max(-k, 0))])
    return ops.select(
        on_diagonal(size, size, k), ops.broadcast(across, (size, size), (1,)), ops.full((size, size), 0, v.type.dtype)
    )


def diagflat(v: Any, k: int = 0) -> Any:
    """A matrix with the flattened entries on its diagonal."""
    v = operand("diagflat", v)
    return diag(ops.reshape(v, (v.type.size,)), k)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Indices of the main diagonal of an array with `ndim` axes of size n."""
    return (ops.iota((n,), 0),) * ndim


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Indices of the entries on and below a diagonal."""
    columns = n if m is None else m
    places = [(i, j) for i in range(n) for j in range(columns) if j <= i + k]
    return _columns(places)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Indices of the entries on and above a diagonal."""
    columns = n if m is None else m
    places = [(i, j) for i in range(n) for j in range(columns) if j >= i + k]
    return _columns(places)


def _columns(places: list[tuple[int, int]]) -> tuple[Any, Any]:
    from torchlean.numpy.creation import asarray

    return tuple([asarray([place[side] for place in places], dtype="i32") for side in (0, 1)])  # type: ignore[return-value]


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of a vector as columns, the highest first unless `increasing`."""
    x = operand("vander", x)
    if x.type.rank != 1:
        raise refused(f"vander of {x.type}", expected="a vector", got=str(x.type), fix="flatten it first")
    count = x.type.size if N is None else N
    if count < 1:
        return ops.full((x.type.size, 0), 0, x.type.dtype)
    ones = ops.full((x.type.size, 1), 1, x.type.dtype)
    factors = ops.broadcast(x, (x.type.size, count - 1), (0,))
    powers = ops.cumprod(ops.concatenate([ones, factors], 1), 1)
    return powers if increasing else ops.reverse(powers, 1)
