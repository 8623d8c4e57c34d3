"""The number system a graph is evaluated in.

`Algebra` is what a definition (`Op.denote`) may use: field operations, comparisons, a left fold, and `shape` for data
movement. `NumpyAlgebra` is the reference meaning: IEEE arithmetic of the carrier, reductions as left folds in index
order, products rounded before they are added, and the functions of `ir.strict`, whose bits no library decides.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from torchlean.ir import gamma, special
from torchlean.ir.carriers import complex_product, complex_quotient, convert, is_extended
from torchlean.ir.strict import functions as strict
from torchlean.ir.strict.functions import Strict

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
    def function(self, name: str, *xs: Carrier) -> Carrier:
        """One of `FUNCTIONS`: rounding to integers, elementary and special functions, remainders."""
        ...

    def polygamma(self, n: int, x: Carrier) -> Carrier:
        """The n-th derivative of digamma."""
        ...

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

    def order(self, keys: tuple[Carrier, ...], axis: int) -> np.ndarray[Any, Any]:
        """Positions along `axis` that sort it by the first key, then the next: stable, ascending, NaN last."""
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


FUNCTIONS: MappingProxyType[str, Callable[..., Any]] = MappingProxyType(
    {
        "floor": np.floor,
        "ceil": np.ceil,
        "trunc": np.trunc,
        "rint": np.rint,  # halves to even
        "exp2": np.exp2,
        "log2": np.log2,
        "log10": np.log10,
        "cbrt": np.cbrt,
        "tan": np.tan,
        "asin": np.arcsin,
        "acos": np.arccos,
        "atan": np.arctan,
        "sinh": np.sinh,
        "cosh": np.cosh,
        "asinh": np.arcsinh,
        "acosh": np.arccosh,
        "atanh": np.arctanh,
        "erfc": special.erfc,
        "erf_inv": special.erf_inv,
        "lgamma": gamma.lgamma,
        "digamma": gamma.digamma,
        "atan2": np.arctan2,
        "hypot": np.hypot,
        "nextafter": np.nextafter,
        "fmod": np.fmod,  # the sign of the dividend
        "remainder": np.remainder,  # the sign of the divisor
        "floor_divide": np.floor_divide,
    }
)


def row_major(x: Any) -> Any:
    """`x` in row-major memory: the last bits of NumPy's own functions depend on strides, so layout would decide."""
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


def applied(function: Callable[..., Any], *xs: Any) -> Any:
    """A NumPy function of row-major operands; formats of ml_dtypes are computed in float32 and rounded."""
    carrier = xs[0].dtype
    if is_extended(carrier) and function is not np.nextafter:
        return convert(np.asarray(function(*[x.astype(np.float32) for x in xs])), carrier)
    return function(*map(row_major, xs))


def real(function: Strict, *xs: Any) -> Any:
    """A strict function of real numbers: those of 16 bits are computed in float32 and rounded once."""
    carrier = xs[0].dtype
    if carrier.itemsize > 2:
        return function(*xs)
    return convert(function(*[x.astype(np.float32) for x in xs]), carrier)


def _field(function: Strict, of_complex: Callable[..., Any], *xs: Any) -> Any:
    """A strict function; of complex numbers NumPy's, on row-major memory."""
    if xs[0].dtype.kind == "c":
        return of_complex(*map(row_major, xs))
    return real(function, *xs)


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
        return np.hypot(x.real, x.imag) if x.dtype.kind == "c" else np.abs(x)

    def sign(self, x: Any) -> Any:
        return np.sign(x)

    def add(self, x: Any, y: Any) -> Any:
        return np.add(x, y)

    def sub(self, x: Any, y: Any) -> Any:
        return np.subtract(x, y)

    def mul(self, x: Any, y: Any) -> Any:
        return complex_product(x, y) if x.dtype.kind == "c" else np.multiply(x, y)

    def div(self, x: Any, y: Any) -> Any:
        return complex_quotient(x, y) if x.dtype.kind == "c" else np.divide(x, y)

    def sqrt(self, x: Any) -> Any:
        return np.sqrt(x)

    def exp(self, x: Any) -> Any:
        return _field(strict.EXP, np.exp, x)

    def expm1(self, x: Any) -> Any:
        return _field(strict.EXPM1, np.expm1, x)

    def log(self, x: Any) -> Any:
        return _field(strict.LOG, np.log, x)

    def log1p(self, x: Any) -> Any:
        return _field(strict.LOG1P, np.log1p, x)

    def sin(self, x: Any) -> Any:
        return _field(strict.SIN, np.sin, x)

    def cos(self, x: Any) -> Any:
        return _field(strict.COS, np.cos, x)

    def tanh(self, x: Any) -> Any:
        return _field(strict.TANH, np.tanh, x)

    def logistic(self, x: Any) -> Any:
        return real(strict.LOGISTIC, x)

    def erf(self, x: Any) -> Any:
        return real(strict.ERF, x)

    def pow(self, x: Any, y: Any) -> Any:
        return _field(strict.POW, np.power, x, y)

    def function(self, name: str, *xs: Any) -> Any:
        return applied(FUNCTIONS[name], *xs)

    def polygamma(self, n: int, x: Any) -> Any:
        return applied(lambda v: gamma.polygamma(n, v), x)

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

    def order(self, keys: tuple[Any, ...], axis: int) -> Any:
        plain = [key.astype(np.float32) if is_extended(key.dtype) else key for key in keys]
        return np.lexsort(plain[::-1], axis=axis)
