"""Which ops XLA serves, how far from their definitions, and what it refuses. Planning needs this, and so no jax.

A bound is that of an op alone. XLA rewrites a group as a whole: it fuses products with sums and replaces expressions by
others that are equal for exact numbers, so of a group no distance is claimed.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from torchlean.backends.capsule import Bitwise, Normwise, OfFinite, Relative, Ulp, Unstated, ValueBound
from torchlean.backends.vocabulary import label
from torchlean.ir.graph import Graph, sub_graphs
from torchlean.ir.op import Op
from torchlean.ir.ops import (
    COMPOSITES,
    CONTROL,
    EFFECTS,
    PRIMITIVES,
    activation,
    bits,
    branches,
    chain,
    create,
    cumulative,
    cut,
    determinant,
    dynamic,
    factor,
    fft,
    fold,
    gather,
    layout,
    loss,
    neural,
    parts,
    pool,
    quotients,
    random,
    reduce,
    remat,
    repeating,
    rounding,
    scanning,
    scattering,
    spectral,
    spread,
    stable,
    triangular,
    window,
    words,
)
from torchlean.ir.ops import elementary as el
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.composite import Composite
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.types import TensorType

REFUSED: MappingProxyType[Op, str] = MappingProxyType(
    dict.fromkeys(EFFECTS, "it acts on the host while the program runs, which an executable cannot")
)
VIEWS: frozenset[Op] = frozenset(
    {
        *(layout.RESHAPE, layout.TRANSPOSE, layout.REVERSE, spread.BROADCAST, cut.SLICE),
        *(ew.STOP_GRADIENT, remat.CHECKPOINT_NAME),
    }
)
MOVES: frozenset[Op] = frozenset(  # no arithmetic: subnormal numbers stay
    {
        *VIEWS,
        *(create.CONSTANT, create.FULL, create.IOTA, cut.PAD, cut.CONCATENATE, gather.GATHER, scattering.SCATTER),
        *(dynamic.DYNAMIC_SLICE, dynamic.DYNAMIC_UPDATE_SLICE, ew.SELECT, ew.NEG),
        *(parts.REAL, parts.IMAG, parts.COMPLEX, parts.CONJ),
        *(words.AND, words.OR, words.XOR, words.NOT, words.POPULATION_COUNT, words.CLZ, words.BITCAST_CONVERT),
        *(words.SHIFT_LEFT, words.SHIFT_RIGHT_LOGICAL, words.SHIFT_RIGHT_ARITHMETIC),
        *(bits.SHIFT_RIGHT, bits.THREEFRY2X32, bits.SPLITMIX64, random.RANDOM_BITS),
        *(ew.LOGICAL_AND, ew.LOGICAL_OR, ew.LOGICAL_XOR, ew.LOGICAL_NOT, rounding.SIGNBIT),
        *(fold.REDUCE_AND, fold.REDUCE_OR, fold.REDUCE_XOR),
    }
)
QUOTIENTS: frozenset[Op] = frozenset({stable.EUCLIDEAN_NORM})  # of subnormal numbers, which may become 0/0 on the way
THREADED: frozenset[Op] = frozenset(  # whose libraries split the work as they like
    {
        *(
            DOT_GENERAL,
            window.CONV,
            window.CONV_INPUT_ADJOINT,
            window.CONV_KERNEL_ADJOINT,
            fft.FFT,
            fft.RFFT,
            fft.IRFFT,
        ),
        *(triangular.TRIANGULAR_SOLVE, triangular.CHOLESKY, factor.LU, factor.QR, spectral.EIGH, spectral.SVD),
        determinant.DET,
    }
)

REAL: MappingProxyType[Op, ValueBound] = MappingProxyType(  # where it is not the definition's bits
    {
        **dict.fromkeys((ew.MAX, ew.MIN, ew.CLAMP, ew.SIGN, reduce.REDUCE_MAX, reduce.REDUCE_MIN), Ulp(0)),
        **dict.fromkeys((cumulative.CUMMAX, cumulative.CUMMIN, scattering.SCATTER_MIN, scattering.SCATTER_MAX), Ulp(0)),
        ew.INTEGER_POW: Ulp(64),
        **dict.fromkeys((ew.RSQRT, quotients.HYPOT, ew.EXP, ew.LOG, ew.LOG1P, ew.SIN, ew.COS, ew.LOGISTIC), Ulp(4)),
        **dict.fromkeys((ew.EXPM1, ew.ERF, ew.POW, el.EXP2, el.LOG2, el.LOG10, el.CBRT, el.TAN), Ulp(8)),
        **dict.fromkeys((el.ASIN, el.ACOS, el.ATAN, el.ASINH, el.ACOSH, el.ATANH, quotients.ATAN2), Ulp(8)),
        **dict.fromkeys((ew.TANH, el.SINH, el.COSH), Ulp(16)),
        el.ERF_INV: Ulp(128),
        el.ERFC: Ulp(1024),  # e^(-x²) far out, where x² is rounded
        **dict.fromkeys((el.DIGAMMA, el.POLYGAMMA), OfFinite(Normwise(4.0))),
        el.LGAMMA: Unstated(),  # near its zeros, in float64; narrower formats are computed in that
        **dict.fromkeys((spread.REDUCE_SUM, DOT_GENERAL, cumulative.CUMSUM, gather.SCATTER_ADD), Relative(3.0)),
        cumulative.RECURRENCE: Relative(3.0),
        **dict.fromkeys((window.CONV, window.CONV_INPUT_ADJOINT, window.CONV_KERNEL_ADJOINT), OfFinite(Relative(3.0))),
        **dict.fromkeys((fold.REDUCE_PROD, cumulative.CUMPROD, scattering.SCATTER_MUL), Ulp(64)),
        cumulative.CUMLOGSUMEXP: Normwise(4.0),
        **dict.fromkeys((fft.FFT, fft.RFFT, fft.IRFFT), OfFinite(Normwise(4.0))),
        **dict.fromkeys((triangular.CHOLESKY, factor.LU, factor.QR, spectral.EIGH, spectral.SVD), Unstated()),
        **dict.fromkeys((determinant.DET, triangular.TRIANGULAR_SOLVE), Unstated()),
        **dict.fromkeys((branches.COND, scanning.SCAN, repeating.WHILE, remat.CHECKPOINT), Unstated()),
    }
)
COMPLEX: MappingProxyType[Op, ValueBound] = MappingProxyType(  # ops whose complex numbers have a capsule of their own
    {
        **dict.fromkeys((ew.MUL, ew.SQRT, ew.RSQRT, chain.CHAIN_MUL, el.SQUARE), OfFinite(Ulp(8))),
        **dict.fromkeys((ew.DIV, ew.EXP, ew.EXPM1, ew.SIN, ew.COS, ew.TANH, el.TAN), OfFinite(Ulp(32))),
        **dict.fromkeys((ew.LOG, ew.LOG1P, el.LOG2, el.LOG10), OfFinite(Ulp(512))),
        **dict.fromkeys((el.EXP2, el.SINH, el.COSH, ew.INTEGER_POW), OfFinite(Ulp(128))),
        **dict.fromkeys((fold.REDUCE_PROD, cumulative.CUMPROD, scattering.SCATTER_MUL), OfFinite(Ulp(64))),
        **dict.fromkeys((el.ASIN, el.ACOS, el.ATAN, el.ASINH, el.ACOSH, el.ATANH), Unstated()),  # on their cuts
        cumulative.RECURRENCE: OfFinite(Relative(3.0)),
        ew.POW: Unstated(),
    }
)
_TAME = (  # whose results are no larger than their operands
    *(activation.GELU, activation.SILU, activation.SOFTPLUS, activation.LOG_SIGMOID),
    *(activation.SOFTMAX, activation.LOG_SOFTMAX, activation.LOGSUMEXP, stable.LOGADDEXP, stable.SINC),
    *(stable.EUCLIDEAN_NORM, pool.AVG_POOL),
)
COMPOSED: MappingProxyType[Op, ValueBound] = MappingProxyType(  # of others, and of gradients, nothing is claimed
    {
        **dict.fromkeys((activation.RELU, pool.MAX_POOL), Ulp(0)),
        **dict.fromkeys((neural.LINEAR, loss.MSE_LOSS), Relative(4.0)),
        **dict.fromkeys(_TAME, OfFinite(Normwise(16.0))),
    }
)


def served() -> tuple[Op, ...]:
    """Every op with a rule: primitives, control flow, composites and their gradients."""
    gradients = [op.gradient for op in COMPOSITES if op.gradient is not None]
    return (*PRIMITIVES, *CONTROL, *COMPOSITES, *gradients)


def refused(op: Op, params: Any, types: tuple[TensorType, ...]) -> str | None:
    """Why a node is not served, or None."""
    if op in REFUSED:
        return REFUSED[op]
    held = [params.body] if isinstance(op, Composite) else [graph for _, graph in sub_graphs(params)]
    for graph in held:
        reason = _of_body(graph)
        if reason is not None:
            return reason
    return None


def _of_body(body: Graph) -> str | None:
    for node in body.nodes:
        reason = refused(node.op, node.params, tuple([body.types[id] for id in node.inputs]))
        if reason is not None:
            return f"its body has {label(node.op)}: {reason}"
    return None


def has_complex(types: tuple[TensorType, ...]) -> bool:
    """Whether an operand holds complex numbers."""
    return any([type.dtype.is_complex for type in types])


def bound_of(op: Op) -> ValueBound:
    """The claimed distance of an op's own results, real where complex ones have a capsule of their own."""
    if isinstance(op, Composite):
        return COMPOSED.get(op, Unstated())
    return REAL.get(op, Bitwise())
