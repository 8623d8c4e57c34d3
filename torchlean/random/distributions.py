"""Draws from named distributions, made of uniform and normal draws; JAX's formulas where JAX has one of this kind.

Parameters are Python numbers or tensors that broadcast to `shape`; derivatives in them follow the formulas. Those of
`gamma`, `beta` and `dirichlet` draw by rejection and have no derivative in their parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.ir import ops
from torchlean.ir.builder import is_python_number, type_of
from torchlean.ir.dtypes import DType, Kind, as_dtype
from torchlean.ir.ops.promote import tensor
from torchlean.ir.types import Shape
from torchlean.random.arguments import require, sizes, unfit
from torchlean.random.draws import erf_inverse, float_dtype, normal_of, uniform_of, unsupported
from torchlean.random.keys import halves, used

_ROUNDS = 16  # of `gamma`: each accepts with probability above 0.95, so one draw in 10²⁰ is still rejected after all


def _smallest(dtype: DType) -> float:
    return 2.0**-126 if dtype is DType.BF16 else float(np.finfo(dtype.carrier).tiny)


def exponential(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws with density exp(-x), x ≥ 0: -log(1 - u)."""
    wanted = float_dtype("exponential", dtype)
    shape = sizes("exponential", shape)
    return ops.neg(ops.log1p(ops.neg(uniform_of(used(key, "exponential"), shape, wanted))))


def gumbel(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws of the standard Gumbel distribution: -log(-log u)."""
    wanted = float_dtype("gumbel", dtype)
    shape = sizes("gumbel", shape)
    return gumbel_of(used(key, "gumbel"), shape, wanted)


def gumbel_of(key: Any, shape: Sequence[int], dtype: DType) -> Any:
    """Standard Gumbel draws from a key already noted as used."""
    return ops.neg(ops.log(ops.neg(ops.log(uniform_of(key, shape, dtype, _smallest(dtype), 1.0)))))


def laplace(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws with density ½·exp(-|x|)."""
    wanted = float_dtype("laplace", dtype)
    shape = sizes("laplace", shape)
    low = -1.0 + (2.0**-8 if wanted is DType.BF16 else float(np.finfo(wanted.carrier).epsneg))
    unit = uniform_of(used(key, "laplace"), shape, wanted, low, 1.0)
    return ops.mul(ops.sign(unit), ops.log1p(ops.neg(ops.abs(unit))))


def logistic(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws of the standard logistic distribution: log(u / (1 - u))."""
    wanted = float_dtype("logistic", dtype)
    shape = sizes("logistic", shape)
    unit = uniform_of(used(key, "logistic"), shape, wanted, _smallest(wanted), 1.0)
    return ops.log(ops.div(unit, ops.sub(1.0, unit)))


def cauchy(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws with density 1 / (π(1 + x²)): tan(π(u - ½))."""
    wanted = float_dtype("cauchy", dtype)
    shape = sizes("cauchy", shape)
    low = 2.0**-7 if wanted is DType.BF16 else float(np.finfo(wanted.carrier).eps)
    angle = ops.mul(ops.sub(uniform_of(used(key, "cauchy"), shape, wanted, low, 1.0), 0.5), math.pi)
    return ops.div(ops.sin(angle), ops.cos(angle))


def rademacher(key: Any, shape: Sequence[int] = (), dtype: Any = "i32") -> Any:
    """-1 or 1, with equal probability, in a dtype that has -1."""
    wanted = as_dtype(dtype)
    if wanted.kind not in (Kind.SIGNED, Kind.FLOAT, Kind.COMPLEX):
        raise unsupported("rademacher", wanted, "a signed dtype; for booleans use random.bernoulli")
    heads = ops.lt(uniform_of(used(key, "rademacher"), sizes("rademacher", shape), DType.F32), 0.5)
    return ops.sub(ops.mul(ops.convert(heads, wanted), 2), 1)


def truncated_normal(
    key: Any, low: Any = -2.0, high: Any = 2.0, shape: Sequence[int] | None = None, dtype: Any = "f32"
) -> Any:
    """Standard normal draws within [low, high]: √2·erf⁻¹ of a draw between the bounds' images. Computed in f32, where
    draws beyond ±5.4 are the nearer bound. ConfigError for known bounds that are not low < high.
    """
    wanted = float_dtype("truncated_normal", dtype)
    if all([isinstance(bound, int | float | np.number) for bound in (low, high)]) and not low < high:
        unfit("truncated_normal", "the interval (low, high) =", (low, high), "low < high")
    key = used(key, "truncated_normal")
    bottom, top = (ops.convert(tensor(bound), DType.F32) for bound in (low, high))
    size = _size("truncated_normal", shape, bottom, top)
    bottom, top = (ops.broadcast_to(bound, size) for bound in (bottom, top))
    a, b = (ops.erf(ops.div(bound, math.sqrt(2))) for bound in (bottom, top))
    unit = ops.add(ops.mul(uniform_of(key, size, DType.F32), ops.sub(b, a)), a)
    inside = float(np.nextafter(np.float32(1), np.float32(0)))
    made = ops.mul(erf_inverse(ops.max(ops.min(unit, inside), -inside)), math.sqrt(2))
    return ops.convert(ops.min(ops.max(made, bottom), top), wanted)


# -- by rejection ------------------------------------------------------------------------------------------------------
def gamma(key: Any, a: Any, shape: Sequence[int] | None = None, dtype: Any = "f32") -> Any:
    """Draws with density x^(a-1)·exp(-x) / Γ(a), a > 0. Not JAX's values. No derivative in `a`.

    Sixteen rounds of rejection at once, of which the first accepted counts.  [Marsaglia & Tsang 2000] ConfigError for a
    known a that is not positive; NaN for such entries of a tensor.
    """
    wanted = float_dtype("gamma", dtype)
    _require_positive("gamma", "a", a)
    size = _size("gamma", shape, a)
    return ops.stop_gradient(_product(*_factors(used(key, "gamma"), a, size, wanted)))


def beta(key: Any, a: Any, b: Any, shape: Sequence[int] | None = None, dtype: Any = "f32") -> Any:
    """Draws with density x^(a-1)·(1-x)^(b-1) / B(a, b), from two gamma draws. Not JAX's values. No derivative in a, b.

    ConfigError and NaN as for `gamma`. Parameters far below 1 give 0 and 1.
    """
    wanted = float_dtype("beta", dtype)
    _require_positive("beta", "a", a)
    _require_positive("beta", "b", b)
    size = _size("beta", shape, a, b)
    keys = halves(used(key, "beta"))
    first, second = (_logarithm(*_factors(keys[..., at, :], x, size, wanted)) for at, x in enumerate((a, b)))
    return ops.stop_gradient(ops.exp(ops.log_sigmoid(ops.sub(first, second))))


def dirichlet(key: Any, alpha: Any, shape: Sequence[int] | None = None, dtype: Any = "f32") -> Any:
    """Points of the simplex with density ∏ xᵢ^(αᵢ-1): gamma draws over their sum. `shape` is without the last axis.

    ConfigError and NaN as for `gamma`. Parameters far below 1 give its corners.
    """
    wanted = float_dtype("dirichlet", dtype)
    if not type_of(alpha).shape:
        unfit("dirichlet", "alpha", str(type_of(alpha)), "a tensor whose last axis has a parameter per coordinate")
    _require_positive("dirichlet", "alpha", alpha)
    *lead, last = type_of(alpha).shape
    size = (*(tuple(lead) if shape is None else sizes("dirichlet", shape)), last)
    draws = _logarithm(*_factors(used(key, "dirichlet"), alpha, size, wanted))
    return ops.stop_gradient(ops.softmax(draws, -1))


def _require_positive(name: str, what: str, given: Any) -> None:
    require(name, what, given, lambda x: (x > 0) & (x < math.inf), "a positive number")


def _size(name: str, shape: Any, *parameters: Any) -> Shape:
    """The shape asked for, or that of the parameters together."""
    if shape is not None:
        return sizes(name, shape)
    return np.broadcast_shapes(*[type_of(parameter).shape for parameter in parameters])


def _factors(key: Any, a: Any, size: Shape, dtype: DType) -> tuple[Any, Any, Any]:
    """(x, u, e): x·uᵉ is a gamma draw. x is drawn for a, or for a + 1 if a is below 1, where e is 1/a; else e is 0."""
    a = ops.stop_gradient(ops.full((), a, dtype) if is_python_number(a) else ops.convert(tensor(a), dtype))
    a = ops.broadcast_to(a, size)
    a = ops.select(ops.gt(a, 0.0), a, math.nan)
    keys = halves(key, 3)
    small = ops.lt(a, 1.0)
    d = ops.sub(ops.select(small, ops.add(a, 1.0), a), 1 / 3)
    c = ops.div(1 / 3, ops.sqrt(d))
    x = normal_of(keys[..., 0, :], (_ROUNDS, *size), dtype)
    u = uniform_of(keys[..., 1, :], (_ROUNDS, *size), dtype)
    v = ops.add(ops.mul(c, x), 1.0)
    v = ops.mul(ops.mul(v, v), v)
    positive = ops.gt(v, 0.0)
    logarithm = ops.log(ops.select(positive, v, 1.0))
    bound = ops.add(ops.mul(ops.mul(x, x), 0.5), ops.mul(ops.add(ops.sub(1.0, v), logarithm), d))
    accepted = ops.logical_and(positive, ops.lt(ops.log(u), bound))
    chosen = ops.full(size, 1.0, dtype)
    for turn in range(_ROUNDS - 1, -1, -1):
        chosen = ops.select(accepted[turn], v[turn], chosen)
    boost = ops.sub(1.0, uniform_of(keys[..., 2, :], size, dtype))
    return ops.mul(d, chosen), boost, ops.select(small, ops.div(1.0, a), 0.0)


def _product(x: Any, base: Any, exponent: Any) -> Any:
    return ops.mul(x, ops.pow(base, exponent))


def _logarithm(x: Any, base: Any, exponent: Any) -> Any:
    """Of `_product`, also where that is too small for the dtype."""
    return ops.add(ops.log(x), ops.mul(ops.log(base), exponent))
