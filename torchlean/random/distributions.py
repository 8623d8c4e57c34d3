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
from torchlean.ir.dtypes import DType
from torchlean.ir.ops.promote import tensor
from torchlean.random.draws import erf_inverse, float_dtype, normal_of, uniform_of
from torchlean.random.keys import halves, used

_ROUNDS = 16  # of `gamma`: each accepts with probability above 0.95, so one draw in 10²⁰ is still rejected after all


def _smallest(dtype: DType) -> float:
    return 2.0**-126 if dtype is DType.BF16 else float(np.finfo(dtype.carrier).tiny)


def exponential(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws with density exp(-x), x ≥ 0: -log(1 - u)."""
    wanted = float_dtype("exponential", dtype)
    return ops.neg(ops.log1p(ops.neg(uniform_of(used(key, "exponential"), shape, wanted))))


def gumbel(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws of the standard Gumbel distribution: -log(-log u)."""
    wanted = float_dtype("gumbel", dtype)
    return gumbel_of(used(key, "gumbel"), shape, wanted)


def gumbel_of(key: Any, shape: Sequence[int], dtype: DType) -> Any:
    """Standard Gumbel draws from a key already noted as used."""
    return ops.neg(ops.log(ops.neg(ops.log(uniform_of(key, shape, dtype, _smallest(dtype), 1.0)))))


def laplace(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws with density ½·exp(-|x|)."""
    wanted = float_dtype("laplace", dtype)
    low = -1.0 + (2.0**-8 if wanted is DType.BF16 else float(np.finfo(wanted.carrier).epsneg))
    unit = uniform_of(used(key, "laplace"), shape, wanted, low, 1.0)
    return ops.mul(ops.sign(unit), ops.log1p(ops.neg(ops.abs(unit))))


def logistic(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws of the standard logistic distribution: log(u / (1 - u))."""
    wanted = float_dtype("logistic", dtype)
    unit = uniform_of(used(key, "logistic"), shape, wanted, _smallest(wanted), 1.0)
    return ops.log(ops.div(unit, ops.sub(1.0, unit)))


def cauchy(key: Any, shape: Sequence[int] = (), dtype: Any = "f32") -> Any:
    """Draws with density 1 / (π(1 + x²)): tan(π(u - ½))."""
    wanted = float_dtype("cauchy", dtype)
    low = 2.0**-7 if wanted is DType.BF16 else float(np.finfo(wanted.carrier).eps)
    angle = ops.mul(ops.sub(uniform_of(used(key, "cauchy"), shape, wanted, low, 1.0), 0.5), math.pi)
    return ops.div(ops.sin(angle), ops.cos(angle))


def rademacher(key: Any, shape: Sequence[int] = (), dtype: Any = "i32") -> Any:
    """-1 or 1, with equal probability."""
    heads = ops.lt(uniform_of(used(key, "rademacher"), shape, DType.F32), 0.5)
    return ops.sub(ops.mul(ops.convert(heads, dtype), 2), 1)


def truncated_normal(
    key: Any, low: Any = -2.0, high: Any = 2.0, shape: Sequence[int] | None = None, dtype: Any = "f32"
) -> Any:
    """Standard normal draws within (low, high): √2·erf⁻¹ of a draw between the bounds' images. Computed in f32."""
    wanted = float_dtype("truncated_normal", dtype)
    key = used(key, "truncated_normal")
    bottom, top = (ops.convert(tensor(bound), DType.F32) for bound in (low, high))
    size = np.broadcast_shapes(bottom.type.shape, top.type.shape) if shape is None else tuple(shape)
    a, b = (ops.erf(ops.div(bound, math.sqrt(2))) for bound in (bottom, top))
    unit = ops.add(ops.mul(uniform_of(key, size, DType.F32), ops.sub(b, a)), a)
    inside = float(np.nextafter(np.float32(1), np.float32(0)))
    made = ops.mul(erf_inverse(ops.max(ops.min(unit, inside), -inside)), math.sqrt(2))
    return ops.convert(ops.min(ops.max(made, bottom), top), wanted)


# -- by rejection ------------------------------------------------------------------------------------------------------
def gamma(key: Any, a: Any, shape: Sequence[int] | None = None, dtype: Any = "f32") -> Any:
    """Draws with density x^(a-1)·exp(-x) / Γ(a), a > 0. Not JAX's values. No derivative in `a`.

    Sixteen rounds of rejection at once, of which the first accepted counts.  [Marsaglia & Tsang 2000]
    """
    wanted = float_dtype("gamma", dtype)
    return gamma_of(used(key, "gamma"), a, shape, wanted)


def gamma_of(key: Any, a: Any, shape: Sequence[int] | None, dtype: DType) -> Any:
    """Gamma draws from a key already noted as used."""
    a = ops.stop_gradient(ops.full((), a, dtype) if is_python_number(a) else ops.convert(tensor(a), dtype))
    size = type_of(a).shape if shape is None else tuple(shape)
    a = ops.broadcast_to(a, size)
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
    made = ops.mul(ops.mul(d, chosen), ops.select(small, ops.pow(boost, ops.div(1.0, a)), 1.0))
    return ops.stop_gradient(made)


def beta(key: Any, a: Any, b: Any, shape: Sequence[int] | None = None, dtype: Any = "f32") -> Any:
    """Draws with density x^(a-1)·(1-x)^(b-1) / B(a, b), from two gamma draws. Not JAX's values."""
    wanted = float_dtype("beta", dtype)
    keys = halves(used(key, "beta"))
    size = np.broadcast_shapes(type_of(a).shape, type_of(b).shape) if shape is None else tuple(shape)
    first = gamma_of(keys[..., 0, :], a, size, wanted)
    second = gamma_of(keys[..., 1, :], b, size, wanted)
    return ops.div(first, ops.add(first, second))


def dirichlet(key: Any, alpha: Any, shape: Sequence[int] | None = None, dtype: Any = "f32") -> Any:
    """Points of the simplex with density ∏ xᵢ^(αᵢ-1): gamma draws over their sum. `shape` is without the last axis."""
    wanted = float_dtype("dirichlet", dtype)
    size = None if shape is None else (*shape, type_of(alpha).shape[-1])
    draws = gamma_of(used(key, "dirichlet"), alpha, size, wanted)
    return ops.div(draws, ops.sum(draws, -1, keepdims=True))
