"""Elementwise kernels: NumPy's ufuncs where they are the definition, the algebra's own functions elsewhere.

Only exact operations (one IEEE rounding whatever the memory layout) may write over an operand. The strict functions
make new arrays; the algebra serves what they do not: numbers of 16 bits, and complex ones.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.backends.handler import FRESH, SPREADING, UFUNC, VIEW, Expression, Kernel, Traits
from torchlean.ir.algebra import NumpyAlgebra
from torchlean.ir.carriers import complex_product, complex_quotient, convert
from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.strict import functions as strict
from torchlean.ir.strict.functions import Strict
from torchlean.ir.types import TensorType

_ALGEBRA = NumpyAlgebra()

EXACT = MappingProxyType(
    {
        ew.ADD: np.add,
        ew.SUB: np.subtract,
        ew.MUL: np.multiply,
        ew.DIV: np.divide,
        ew.NEG: np.negative,
        ew.ABS: np.absolute,
        ew.SIGN: np.sign,
        ew.SQRT: np.sqrt,
        ew.LT: np.less,
        ew.LE: np.less_equal,
        ew.GT: np.greater,
        ew.GE: np.greater_equal,
        ew.EQ: np.equal,
        ew.NE: np.not_equal,
        ew.LOGICAL_AND: np.logical_and,
        ew.LOGICAL_OR: np.logical_or,
        ew.LOGICAL_XOR: np.logical_xor,
        ew.LOGICAL_NOT: np.logical_not,
    }
)
STRICT = MappingProxyType(
    {
        ew.EXP: (strict.EXP, _ALGEBRA.exp),
        ew.EXPM1: (strict.EXPM1, _ALGEBRA.expm1),
        ew.LOG: (strict.LOG, _ALGEBRA.log),
        ew.LOG1P: (strict.LOG1P, _ALGEBRA.log1p),
        ew.SIN: (strict.SIN, _ALGEBRA.sin),
        ew.COS: (strict.COS, _ALGEBRA.cos),
        ew.TANH: (strict.TANH, _ALGEBRA.tanh),
        ew.LOGISTIC: (strict.LOGISTIC, _ALGEBRA.logistic),
        ew.ERF: (strict.ERF, _ALGEBRA.erf),
        ew.POW: (strict.POW, _ALGEBRA.pow),
    }
)


def scalar(value: Any, carrier: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A read-only 0-d array: the fastest scalar operand of a ufunc, and never promoted."""
    made = np.array(value, dtype=carrier)
    made.flags.writeable = False
    return made


def rsqrt(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """1 / sqrt(x), two roundings."""
    one = scalar(1, types[0].dtype.carrier)
    if types[0].dtype.is_complex:
        return lambda x: complex_quotient(one, np.sqrt(x))
    return Expression("divide(one, sqrt({0}))", {"divide": np.divide, "one": one, "sqrt": np.sqrt})


def integer_pow(params: ew.Exponent, types: tuple[TensorType, ...]) -> Kernel:
    """Repeated squaring, in the order of the definition."""
    exponent = params.exponent
    one = scalar(1, types[0].dtype.carrier)
    if exponent == 1:
        return Expression("{0}.copy()", {})
    if types[0].dtype.is_complex:
        return lambda x: ew.INTEGER_POW.denote(_ALGEBRA, params, x)[0]
    if exponent == 0:
        return Expression("ones_like({0})", {"ones_like": np.ones_like})
    if exponent == 2:
        return Expression("multiply({0}, {0})", {"multiply": np.multiply})
    if exponent == -1:
        return Expression("divide(one, {0})", {"divide": np.divide, "one": one})

    def kernel(x: Any) -> Any:
        remaining, square = abs(exponent), x
        result: Any = None
        while remaining:
            if remaining & 1:
                result = square if result is None else np.multiply(result, square)
            remaining >>= 1
            if remaining:
                square = np.multiply(square, square)
        return np.divide(one, result) if exponent < 0 else result

    return kernel


def clamp(low: Any, x: Any, high: Any) -> Any:
    """min(max(x, low), high) by the definition."""
    return _ALGEBRA.min(_ALGEBRA.max(x, low), high)


def _settled(t: Any, slope: Any, product: Any) -> Any:
    """A product that holds NaN, with 0 where the rule of zeros says so."""
    nothing = (t == 0) | ((slope == 0) & (t == t))
    return np.where((product != product) & nothing, product.dtype.type(0), product)


def chain_mul(params: Any, types: tuple[TensorType, ...]) -> Kernel:
    """The product, looked at for NaN by one dot with itself: a sum of squares is NaN only if an entry is."""
    multiply, dot = np.multiply, np.vdot
    if types[0].dtype.is_complex or types[0].dtype.width < 32:
        product_of = complex_product if types[0].dtype.is_complex else multiply
        return lambda t, slope: _settled(t, slope, product_of(t, slope))
    if not types[0].shape:

        def single(t: Any, slope: Any) -> Any:
            product = multiply(t, slope)
            return product if product == product else _settled(t, slope, product)

        return single

    def kernel(t: Any, slope: Any) -> Any:
        product = multiply(t, slope)
        squares = dot(product, product)
        return product if squares == squares else _settled(t, slope, product)

    return kernel


def to_dtype(params: ew.Target, types: tuple[TensorType, ...]) -> Kernel:
    """Truncating and saturating from float to integer, NumPy's conversion elsewhere; always a new array."""
    carrier = params.dtype.carrier
    extended = types[0].dtype.is_extended or params.dtype.is_extended
    if extended or (types[0].dtype.is_float and params.dtype.is_integer):
        return lambda x: convert(np.asarray(x), carrier)
    return Expression("{0}.astype(carrier)", {"carrier": carrier})


def _always(kernel: Kernel) -> Any:
    return lambda params, types: kernel


def _real_or_complex(ufunc: Any, function: Any) -> Any:
    """A ufunc for real types; for complex ones the definition, which may be told where to write as a ufunc is."""

    def into(x: Any, y: Any, out: Any = None) -> Any:
        made = function(x, y)
        if out is None:
            return made
        out[...] = made
        return out

    return lambda params, types: into if types[0].dtype.is_complex else ufunc


def _strict(function: Strict, elsewhere: Kernel) -> Any:
    """The strict function for f32 and f64, without another `errstate`: kernels run under one."""
    return lambda params, types: function.quiet if types[0].dtype in (DType.F32, DType.F64) else elsewhere


def table() -> dict[Op, tuple[Traits, Any]]:
    """Traits and maker of every elementwise op."""
    made: dict[Op, tuple[Traits, Any]] = {}
    for op, kernel in EXACT.items():
        made[op] = (UFUNC, _always(kernel))
    made[ew.MUL] = (UFUNC, _real_or_complex(np.multiply, complex_product))
    made[ew.DIV] = (UFUNC, _real_or_complex(np.divide, complex_quotient))
    for op, (function, elsewhere) in STRICT.items():
        made[op] = (FRESH, _strict(function, elsewhere))
    made[CHAIN_MUL] = (SPREADING, chain_mul)
    made[ew.RSQRT] = (SPREADING, rsqrt)
    made[ew.INTEGER_POW] = (SPREADING, integer_pow)
    made[ew.MAX] = (SPREADING, _always(_ALGEBRA.max))
    made[ew.MIN] = (SPREADING, _always(_ALGEBRA.min))
    made[ew.CLAMP] = (SPREADING, _always(clamp))
    made[ew.SELECT] = (SPREADING, _always(np.where))
    made[ew.CONVERT] = (SPREADING, to_dtype)
    made[ew.STOP_GRADIENT] = (VIEW, _always(Expression("{0}", {})))
    return made
