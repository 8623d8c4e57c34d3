"""Composites: activations, softmax and its relatives. A body is the definition; every rule is derived from it."""

from __future__ import annotations

import math
from typing import Any

from torchlean.ir.ops import functions as f
from torchlean.ir.ops import shaping
from torchlean.ir.ops.composite import call, composite
from torchlean.ir.ops.elementwise import stop_gradient
from torchlean.ir.ops.promote import tensor


# -- activations -------------------------------------------------------------------------------------------------------
def _relu(x: Any) -> Any:
    return f.select(f.le(x, 0), 0, x)


RELU = composite(
    "relu",
    _relu,
    reduces=False,
    reduces_in_gradient=False,
    doc="0 where x ≤ 0, else x: NaN passes; the derivative at 0 is 0.",
)


def relu(x: Any) -> Any:
    """max(x, 0) elementwise; relu'(0) = 0; NaN stays NaN."""
    return call(RELU, tensor(x))


def _gelu(x: Any, *, approximate: bool) -> Any:
    if approximate:
        # tanh is ±1 beyond the bounds in every precision; x³ would overflow there, and its slope with it
        t = f.clamp(x, -10.0, 10.0)
        inner = (t + 0.044715 * (t * t * t)) * math.sqrt(2 / math.pi)
        return 0.5 * x * (1.0 + f.tanh(inner))
    return 0.5 * x * (1.0 + f.erf(x * math.sqrt(0.5)))


GELU = composite(
    "gelu",
    _gelu,
    reduces=False,
    reduces_in_gradient=False,
    doc="x·Φ(x) by erf, or its tanh approximation [Hendrycks & Gimpel 2016, §2].",
)


def gelu(x: Any, approximate: bool = True) -> Any:
    """x·Φ(x), Φ the normal distribution function; `approximate` uses ½x(1 + tanh(√(2/π)(x + 0.044715x³)))."""
    return call(GELU, tensor(x), approximate=bool(approximate))


def _silu(x: Any) -> Any:
    return x * f.logistic(x)


SILU = composite(
    "silu", _silu, reduces=False, reduces_in_gradient=False, doc="x / (1 + exp(-x)) [Elfwing et al. 2017]."
)


def silu(x: Any) -> Any:
    """x · logistic(x) elementwise, also called swish."""
    return call(SILU, tensor(x))


def _softplus(x: Any) -> Any:
    """log1p(exp(-|x|)) + (x where x > 0): one smooth formula per half line, so all derivatives are right at 0."""
    positive = f.gt(x, 0)
    return f.select(positive, x, 0) + f.log1p(f.exp(f.select(positive, -x, x)))


SOFTPLUS = composite(
    "softplus",
    _softplus,
    reduces=False,
    reduces_in_gradient=False,
    doc="log(1 + exp(x)) without overflow; its derivative is 1 at +∞ and exp(x) at -∞.",
)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)) elementwise, without overflow in value or derivative."""
    return call(SOFTPLUS, tensor(x))


def _log_sigmoid(x: Any) -> Any:
    return f.neg(_softplus(f.neg(x)))


LOG_SIGMOID = composite(
    "log_sigmoid",
    _log_sigmoid,
    reduces=False,
    reduces_in_gradient=False,
    doc="log(1 / (1 + exp(-x))) without overflow; its derivative is exp(x) at +∞ negated, 1 at -∞.",
)


def log_sigmoid(x: Any) -> Any:
    """log(logistic(x)) elementwise, without taking the logarithm of a rounded quotient; the slope at 0 is ½."""
    return call(LOG_SIGMOID, tensor(x))


# -- softmax and relatives ---------------------------------------------------------------------------------------------
def peak(x: Any, axis: int, *, keepdims: bool = False) -> Any:
    """The maximum along `axis`, ties sharing its derivative; -∞ of no entries."""
    if x.type.shape[axis]:
        return shaping.amax(x, axis, keepdims=keepdims)
    return shaping.sum(x, axis, keepdims=keepdims) - math.inf


def _shift(x: Any, axis: int) -> Any:
    """The maximum along `axis`, kept as an axis of size 1; 0 where every entry is -∞, so that -∞ - -∞ is not met."""
    top = stop_gradient(peak(x, axis, keepdims=True))
    return f.select(f.eq(top, -math.inf), 0, top)


def _total(raised: Any, axis: int) -> Any:
    """Σ along `axis`, and 1 where it is 0: a row of nothing is left as it is."""
    total = shaping.sum(raised, axis, keepdims=True)
    return f.select(f.eq(total, 0), 1, total)


def _softmax(x: Any, *, axis: int) -> Any:
    raised = f.exp(x - _shift(x, axis))
    return raised / _total(raised, axis)


SOFTMAX = composite(
    "softmax",
    _softmax,
    reduces=True,
    reduces_in_gradient=True,
    doc="exp(x - max x) / Σ exp(x - max x) along `axis`: zeros where every entry is -∞, NaN where one is +∞.",
)


def softmax(x: Any, axis: int = -1) -> Any:
    """exp(x) / Σ exp(x) along `axis`, shifted by the maximum; zeros (and zero slopes) where every entry is −∞."""
    return _along(SOFTMAX, x, axis)


def _log_softmax(x: Any, *, axis: int) -> Any:
    shifted = x - _shift(x, axis)
    return shifted - f.log(_total(f.exp(shifted), axis))


LOG_SOFTMAX = composite(
    "log_softmax",
    _log_softmax,
    reduces=True,
    reduces_in_gradient=True,
    doc="(x - max x) - log Σ exp(x - max x) along `axis`; -∞ where every entry is.",
)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """log(softmax(x)) along `axis`, without taking the logarithm of a rounded quotient."""
    return _along(LOG_SOFTMAX, x, axis)


def _logsumexp(x: Any, *, axis: int) -> Any:
    top = peak(x, axis)
    held = stop_gradient(top)
    shift = f.select(f.lt(f.abs(held), math.inf), held, 0)  # an infinite maximum must not make ∞ - ∞
    spread = shaping.broadcast(shift, x.type.shape, tuple([a for a in range(x.type.rank) if a != axis]))
    total = f.log(shaping.sum(f.exp(x - spread), axis)) + shift
    return f.select(f.eq(held, math.inf), top, total)  # then the result is the maximum, and so is its slope


LOGSUMEXP = composite(
    "logsumexp",
    _logsumexp,
    reduces=True,
    reduces_in_gradient=True,
    doc="log Σ exp(x) along `axis`, shifted by the maximum where that is finite.",
)


def logsumexp(x: Any, axis: int = -1) -> Any:
    """log Σ exp(x) along `axis`; −∞ (with zero slopes) when every entry is, ∞ when one is."""
    return _along(LOGSUMEXP, x, axis)


def _along(op: Any, x: Any, axis: int) -> Any:
    x = tensor(x)
    return call(op, x, axis=shaping.normal_axis(op.name, axis, x.type))


COMPOSITES = (RELU, GELU, SILU, SOFTPLUS, LOG_SIGMOID, SOFTMAX, LOG_SOFTMAX, LOGSUMEXP)
