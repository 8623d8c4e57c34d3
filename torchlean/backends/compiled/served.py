"""Which ops generated C serves, by how they are written; and which nodes of them it does not.

Kept apart from the generator so that planning need not import it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from torchlean.ir.dtypes import DType
from torchlean.ir.op import Op
from torchlean.ir.ops import (
    bits,
    create,
    cumulative,
    cut,
    dynamic,
    fold,
    gather,
    layout,
    parts,
    quotients,
    random,
    reduce,
    remat,
    rounding,
    scattering,
    spread,
    window,
    words,
)
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.activation import RELU
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.elementary import SQUARE
from torchlean.ir.ops.loss import MSE_LOSS
from torchlean.ir.ops.sorting import SORT

HALVES = frozenset({DType.F16, DType.BF16})
COMPLEX = frozenset({DType.C64, DType.C128})
NUMBERS = frozenset(
    {
        *(DType.BOOL, DType.I8, DType.I16, DType.I32, DType.I64, DType.U8, DType.U16, DType.U32, DType.U64),
        *(DType.F32, DType.F64),
    }
)

STRICT: MappingProxyType[Op, str] = MappingProxyType(  # to the names of `ir.strict`
    {
        ew.EXP: "exp",
        ew.EXPM1: "expm1",
        ew.LOG: "log",
        ew.LOG1P: "log1p",
        ew.SIN: "sin",
        ew.COS: "cos",
        ew.TANH: "tanh",
        ew.LOGISTIC: "logistic",
        ew.ERF: "erf",
        ew.POW: "pow",
    }
)
ELEMENTWISE: frozenset[Op] = frozenset(
    {
        *STRICT,
        *(ew.ADD, ew.SUB, ew.MUL, ew.DIV, ew.NEG, ew.ABS, ew.SIGN, ew.SQRT, ew.RSQRT, ew.INTEGER_POW, CHAIN_MUL),
        *(ew.LT, ew.LE, ew.GT, ew.GE, ew.EQ, ew.NE, ew.MAX, ew.MIN, ew.CLAMP),
        *(ew.LOGICAL_AND, ew.LOGICAL_OR, ew.LOGICAL_XOR, ew.LOGICAL_NOT, ew.SELECT, ew.CONVERT),
        *(rounding.FLOOR, rounding.CEIL, rounding.TRUNC, rounding.ROUND, rounding.IS_FINITE, rounding.IS_NAN),
        *(words.AND, words.OR, words.XOR, words.NOT, words.POPULATION_COUNT, words.BITCAST_CONVERT),
        *(words.SHIFT_LEFT, words.SHIFT_RIGHT_LOGICAL, words.SHIFT_RIGHT_ARITHMETIC, bits.SHIFT_RIGHT),
        *(SQUARE, rounding.SIGNBIT, quotients.REM, quotients.REMAINDER, quotients.FLOOR_DIVIDE, quotients.NEXTAFTER),
        *(parts.REAL, parts.IMAG, parts.COMPLEX, parts.CONJ),
        *(words.CLZ, words.REDUCE_PRECISION, bits.SPLITMIX64),
    }
)
VIEWS: frozenset[Op] = frozenset(
    {
        *(layout.RESHAPE, layout.TRANSPOSE, layout.REVERSE, spread.BROADCAST, cut.SLICE),
        *(ew.STOP_GRADIENT, remat.CHECKPOINT_NAME),
    }
)
FOLDS: frozenset[Op] = frozenset(
    {
        *(spread.REDUCE_SUM, fold.REDUCE_PROD, reduce.REDUCE_MAX, reduce.REDUCE_MIN),
        *(fold.REDUCE_AND, fold.REDUCE_OR, fold.REDUCE_XOR),
    }
)
MADE_UP: frozenset[Op] = frozenset({create.FULL, create.IOTA})  # no memory: a literal, a counter
CALLS: frozenset[Op] = frozenset(
    {
        *(DOT_GENERAL, window.CONV, window.CONV_INPUT_ADJOINT, window.CONV_KERNEL_ADJOINT),
        *(cut.PAD, cut.CONCATENATE, gather.GATHER, gather.SCATTER_ADD, reduce.ARGMAX, reduce.ARGMIN),
        *(random.RANDOM_BITS, cumulative.CUMSUM, cumulative.CUMPROD, cumulative.CUMMAX, cumulative.CUMMIN),
        cumulative.CUMLOGSUMEXP,
        *(cumulative.RECURRENCE, SORT, bits.THREEFRY2X32, dynamic.DYNAMIC_SLICE, dynamic.DYNAMIC_UPDATE_SLICE),
        *(scattering.SCATTER, scattering.SCATTER_MUL, scattering.SCATTER_MAX, scattering.SCATTER_MIN),
    }
)
PRIMITIVES: frozenset[Op] = ELEMENTWISE | VIEWS | FOLDS | MADE_UP | CALLS
COMPOSITES: tuple[Op, ...] = (RELU, MSE_LOSS)  # those the strict provider serves whole: it would be asked first

OF_COMPLEX: frozenset[Op] = frozenset(
    {
        *(parts.REAL, parts.IMAG, parts.COMPLEX, parts.CONJ, create.FULL, ew.SELECT, ew.EQ, ew.NE),
        *(ew.ADD, ew.SUB, ew.MUL, ew.DIV, ew.NEG, SQUARE, DOT_GENERAL, spread.REDUCE_SUM, fold.REDUCE_PROD),
        *(cut.PAD, cut.CONCATENATE, gather.GATHER, gather.SCATTER_ADD, scattering.SCATTER, scattering.SCATTER_MUL),
        *(dynamic.DYNAMIC_SLICE, dynamic.DYNAMIC_UPDATE_SLICE),
        *(cumulative.CUMSUM, cumulative.CUMPROD, cumulative.RECURRENCE, SORT, rounding.IS_FINITE, rounding.IS_NAN),
        *(ew.INTEGER_POW, CHAIN_MUL, window.CONV, window.CONV_INPUT_ADJOINT, window.CONV_KERNEL_ADJOINT),
    }
)
LIBRARY: frozenset[Op] = frozenset({*STRICT, ew.SQRT, ew.RSQRT})  # of complex numbers they are the C library's
MOST_POWER = 1 << 16


def refused_complex(op: Op, params: Any) -> str | None:
    """Why a node with complex numbers is not written in C, or None."""
    if op in OF_COMPLEX or op in VIEWS or (op is ew.CONVERT and (params.dtype in COMPLEX or params.dtype.is_bool)):
        return None
    if op in LIBRARY:
        return "of complex numbers it is defined as NumPy's own, whose bits are those of one C library"
    return "complex numbers have no such op in the generated C"


def refused_halves(op: Op) -> str | None:
    """Why a node with 16-bit floats is not written in C, or None."""
    return "16-bit floats have no counters in the generated C" if op is create.IOTA else None


def refused(op: Op, params: Any, given: tuple[DType, ...]) -> str | None:
    """Why a node of an elementwise op is not written in C, or None."""
    if op is words.BITCAST_CONVERT and params.dtype.width != given[0].width:
        return "it changes the number of entries"
    if op is ew.INTEGER_POW and abs(params.exponent) > MOST_POWER:
        return f"an exponent beyond {MOST_POWER}"
    return None
