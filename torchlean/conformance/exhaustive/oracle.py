"""What a function's exact value is: a fast filter in float64, and ball arithmetic where the filter cannot decide.

The filter is assumed to be within `MARGIN` of the exact value, relative to it; float64 libraries are some 200 times
better. Balls test the assumption on every case that is settled and on a random sample (`doubt`). This is a test of
kernels against a more precise computation, and no proof of either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean.errors import BackendMissing, message
from torchlean.ir.op import Op
from torchlean.ir.ops import elementary, elementwise
from torchlean.record import record

MARGIN = 2.0**-44
_FIRST_PRECISION = 96
_LAST_PRECISION = 1536

Array = np.ndarray[Any, Any]


@record(eq=False)
class Oracle:
    """`wide` computes in float64, for float64 operands; `exact` takes and returns a ball (`flint.arb`)."""

    wide: Callable[[Array], Array]
    exact: Callable[[Any], Any]


def _logistic(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1.0 + small)


def _entrywise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    each = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(each(x)).astype(np.float64)


ORACLES: MappingProxyType[Op, Oracle] = MappingProxyType(
    {
        elementwise.EXP: Oracle(np.exp, lambda x: x.exp()),
        elementwise.EXPM1: Oracle(np.expm1, lambda x: x.expm1()),
        elementwise.LOG: Oracle(np.log, lambda x: x.log()),
        elementwise.LOG1P: Oracle(np.log1p, lambda x: x.log1p()),
        elementwise.TANH: Oracle(np.tanh, lambda x: x.tanh()),
        elementwise.SIN: Oracle(np.sin, lambda x: x.sin()),
        elementwise.COS: Oracle(np.cos, lambda x: x.cos()),
        elementwise.ERF: Oracle(_entrywise(math.erf), lambda x: x.erf()),
        elementwise.LOGISTIC: Oracle(_logistic, lambda x: 1 / (1 + (-x).exp())),
        elementwise.SQRT: Oracle(np.sqrt, lambda x: x.sqrt()),
        elementwise.RSQRT: Oracle(lambda x: 1.0 / np.sqrt(x), lambda x: x.rsqrt()),
        elementary.EXP2: Oracle(np.exp2, lambda x: (x * _log(2)).exp()),
        elementary.LOG2: Oracle(np.log2, lambda x: x.log() / _log(2)),
        elementary.LOG10: Oracle(np.log10, lambda x: x.log() / _log(10)),
        elementary.TAN: Oracle(np.tan, lambda x: x.tan()),
        elementary.ASIN: Oracle(np.arcsin, lambda x: x.asin()),
        elementary.ACOS: Oracle(np.arccos, lambda x: x.acos()),
        elementary.ATAN: Oracle(np.arctan, lambda x: x.atan()),
        elementary.SINH: Oracle(np.sinh, lambda x: x.sinh()),
        elementary.COSH: Oracle(np.cosh, lambda x: x.cosh()),
        elementary.ASINH: Oracle(np.arcsinh, lambda x: x.asinh()),
        elementary.ACOSH: Oracle(np.arccosh, lambda x: x.acosh()),
        elementary.ATANH: Oracle(np.arctanh, lambda x: x.atanh()),
        elementary.ERFC: Oracle(_entrywise(math.erfc), lambda x: x.erfc()),
    }
)


def _log(n: int) -> Any:
    return _balls().arb(n).log()


def _balls() -> Any:
    try:
        import flint
    except ImportError:
        raise BackendMissing(
            message(
                "an exhaustive run needs ball arithmetic to settle close calls",
                expected="the package python-flint",
                got="it is not installed",
                fix="pip install 'torchlean[arb]'",
            )
        ) from None
    return flint


def enclosure(oracle: Oracle, x: float, *, bits: int = _FIRST_PRECISION) -> tuple[Any, Any]:
    """The lower and upper end of a ball that holds the exact value at a finite x."""
    flint = _balls()
    before = flint.ctx.prec
    try:
        flint.ctx.prec = bits
        ball = oracle.exact(flint.arb(x))
        return ball.lower(), ball.upper()
    finally:
        flint.ctx.prec = before


def correctly_rounded(oracle: Oracle, x: float) -> np.float32:
    """The float32 nearest to the exact value at a finite x, ties to even: the ends of a small enough ball agree."""
    bits = _FIRST_PRECISION
    while True:
        low, high = (_to_float32(end) for end in enclosure(oracle, x, bits=bits))
        if low == high or bits >= _LAST_PRECISION:  # beyond it the value is taken to be exact, a tie
            return low
        bits *= 2


def _to_float32(end: Any) -> np.float32:
    """An exact binary number rounded once to float32, by integer arithmetic."""
    mantissa, exponent = (int(part) for part in end.man_exp())
    if mantissa == 0:
        return np.float32(0.0)
    size, sign = abs(mantissa), -1.0 if mantissa < 0 else 1.0
    drop = max(size.bit_length() - 24, -149 - exponent, 0)
    kept, rest = size >> drop, size & ((1 << drop) - 1)
    half = 1 << (drop - 1) if drop else 0
    if drop and (rest > half or (rest == half and kept & 1)):
        kept += 1
    with np.errstate(over="ignore"):
        try:
            return np.float32(sign * math.ldexp(kept, exponent + drop))
        except OverflowError:
            return np.float32(sign * math.inf)


def doubt(oracle: Oracle, *, seed: int = 0, count: int = 2000) -> str | None:
    """Where the filter is farther than `MARGIN` from the exact value, among random float32; None if nowhere."""
    words = np.random.default_rng(seed).integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32)
    with np.errstate(all="ignore"):
        xs = words.view(np.float32).astype(np.float64)
        wide = oracle.wide(xs)
    for x, found in zip(xs.tolist(), wide.tolist(), strict=True):
        if not math.isfinite(x) or not math.isfinite(found) or abs(found) < 2.0**-1000:
            continue
        low, high = enclosure(oracle, x)
        flint = _balls()
        slack = abs(flint.arb(found)) * MARGIN
        if not (flint.arb(found) - slack <= low and high <= flint.arb(found) + slack):
            return f"the float64 filter is {found!r} at {x!r}, the exact value lies in [{low}, {high}]"
    return None
