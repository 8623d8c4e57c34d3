"""The number system a graph is evaluated in.

`Algebra` is what a definition (`Op.denote`) may use: field operations, comparisons, a left fold, and `shape` for data
movement. `NumpyAlgebra` is the reference meaning: IEEE arithmetic of the carrier, reductions as left folds in index
order, products rounded before they are added.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from torchlean.ir import special

Carrier = Any  # an array in this algebra


class Algebra(Protocol):
    """Operations on carriers; every one is elementwise unless it says otherwise. Shapes of operands are equal."""

    def constant(self, array: np.ndarray[Any, Any]) -> Carrier: ...
    def convert(self, x: Carrier, carrier: np.dtype[Any]) -> Carrier: ...
    def shape(self, move: Callable[..., Any], *xs: Carrier) -> Carrier:
        """Apply a data movement (indexing, padding, transposition…) that does no arithmetic."""
        ...

    def exact(self, compute: Callable[..., Any], *xs: Carrier) -> Carrier:
        """Apply an exact integer or boolean function; operands hold integers or booleans."""
        ...

    def neg(self, x: Carrier) -> Carrier: ...
    def abs(self, x: Carrier) -> Carrier: ...
    def sign(self, x: Carrier) -> Carrier: ...
    def add(self, x: Carrier, y: Carrier) -> Carrier: ...
    def sub(self, x: Carrier, y: Carrier) -> Carrier: ...
    def mul(self, x: Carrier, y: Carrier) -> Carrier: ...
    def div(self, x: Carrier, y: Carrier) -> Carrier: ...
    def sqrt(self, x: Carrier) -> Carrier: ...
    def exp(self, x: Carrier) -> Carrier: ...
    def expm1(self, x: Carrier) -> Carrier: ...
    def log(self, x: Carrier) -> Carrier: ...
    def log1p(self, x: Carrier) -> Carrier: ...
    def sin(self, x: Carrier) -> Carrier: ...
    def cos(self, x: Carrier) -> Carrier: ...
    def tanh(self, x: Carrier) -> Carrier: ...
    def logistic(self, x: Carrier) -> Carrier: ...
    def erf(self, x: Carrier) -> Carrier: ...
    def pow(self, x: Carrier, y: Carrier) -> Carrier: ...
    def max(self, x: Carrier, y: Carrier) -> Carrier: ...
    def min(self, x: Carrier, y: Carrier) -> Carrier: ...
    def select(self, chosen: Carrier, x: Carrier, y: Carrier) -> Carrier: ...
    def compare(self, relation: str, x: Carrier, y: Carrier) -> Carrier:
        """`relation` is one of lt, le, gt, ge, eq, ne."""
        ...

    def sum(self, x: Carrier, axes: tuple[int, ...]) -> Carrier:
        """Left fold from 0 over `axes` in index order (row-major over several), the axes removed."""
        ...

    def extreme(self, x: Carrier, axes: tuple[int, ...], largest: bool) -> Carrier:
        """Left fold of `max` (or `min`) over non-empty `axes`."""
        ...


def axes_first(x: Any, axes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """View `x` as [product of the axes, kept…]: the order in which a reduction visits its entries."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    moved = np.transpose(x, axes + kept)
    return moved.reshape((count, *(x.shape[axis] for axis in kept)))


_RELATION = MappingProxyType(
    {
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
        "eq": "equal",
        "ne": "not_equal",
    }
)


def row_major(x: Any) -> Any:
    """`x` in row-major memory: for strided operands NumPy's exp, log, … give other last bits, so layout matters."""
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


class NumpyAlgebra:
    """The reference meaning: NumPy carriers, one rounding per operation, reductions as explicit left folds."""

    def constant(self, array: Any) -> Any:
        return array

    def convert(self, x: Any, carrier: np.dtype[Any]) -> Any:
        return convert(np.asarray(x), carrier)

    def shape(self, move: Callable[..., Any], *xs: Any) -> Any:
        return move(*xs)

    def exact(self, compute: Callable[..., Any], *xs: Any) -> Any:
        return compute(*xs)

    def neg(self, x: Any) -> Any:
        return np.negative(x)

    def abs(self, x: Any) -> Any:
        return np.abs(x)

    def sign(self, x: Any) -> Any:
        return np.sign(x)

    def add(self, x: Any, y: Any) -> Any:
        return np.add(x, y)

    def sub(self, x: Any, y: Any) -> Any:
        return np.subtract(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return np.multiply(x, y)

    def div(self, x: Any, y: Any) -> Any:
        return np.divide(x, y)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def exp(self, x: Any) -> Any:
        return np.exp(row_major(x))

    def expm1(self, x: Any) -> Any:
        return np.expm1(row_major(x))

    def log(self, x: Any) -> Any:
        return np.log(row_major(x))

    def log1p(self, x: Any) -> Any:
        return np.log1p(row_major(x))

    def sin(self, x: Any) -> Any:
        return np.sin(row_major(x))

    def cos(self, x: Any) -> Any:
        return np.cos(row_major(x))

    def tanh(self, x: Any) -> Any:
        return np.tanh(row_major(x))

    def logistic(self, x: Any) -> Any:
        one = np.ones((), dtype=x.dtype)
        x = row_major(x)
        decayed = np.exp(-np.abs(x))
        return np.where(x >= 0, one, decayed) / (one + decayed)

    def erf(self, x: Any) -> Any:
        return special.erf(row_major(x))

    def pow(self, x: Any, y: Any) -> Any:
        return np.power(row_major(x), row_major(y))

    def max(self, x: Any, y: Any) -> Any:
        return np.where((x >= y) | (x != x), x, y)  # NaN wins; of equal zeros the first

    def min(self, x: Any, y: Any) -> Any:
        return np.where((x <= y) | (x != x), x, y)

    def select(self, chosen: Any, x: Any, y: Any) -> Any:
        return np.where(chosen, x, y)

    def compare(self, relation: str, x: Any, y: Any) -> Any:
        return getattr(np, _RELATION[relation])(x, y)

    def sum(self, x: Any, axes: tuple[int, ...]) -> Any:
        rows = axes_first(x, axes)
        total = np.zeros(rows.shape[1:], dtype=rows.dtype)
        for row in rows:
            total = total + row
        return total

    def extreme(self, x: Any, axes: tuple[int, ...], largest: bool) -> Any:
        rows = axes_first(x, axes)
        best = rows[0]
        fold = self.max if largest else self.min
        for row in rows[1:]:
            best = fold(best, row)
        return best


def convert(x: np.ndarray[Any, Any], carrier: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Change dtype. Float to integer truncates and saturates, NaN gives 0; other conversions are NumPy's."""
    if x.dtype.kind == "f" and carrier.kind in "iu":
        limits = np.iinfo(carrier)
        wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        low = wide <= float(limits.min)
        high = wide >= float(limits.max)
        inside = np.where(low | high, 0.0, wide).astype(carrier)
        return np.where(high, carrier.type(limits.max), np.where(low, carrier.type(limits.min), inside))
    return x.astype(carrier)
