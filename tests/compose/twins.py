"""The same functions ℝ¹² → ℝᵐ in torchlean and in JAX, and their derivatives by JAX in float64.

Each pair is written twice, by hand, from the definition: no code of one is used by the other. The compositions of the
tests then follow from JAX's value, Jacobian, second and third derivatives by contraction, in one compilation each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from torchlean import ops

SIZE = 12
Array = np.ndarray[Any, Any]

# JAX's float64 against ours: the same formulas, summed in other orders, over at most a few hundred terms of size ~10.
RTOL = 1e-10
ATOL = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Twin:
    """`ours` and `theirs` map f64[12] to f64[m]; `low`, `high` bound the point they are differentiated at."""

    name: str
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]
    low: float = -1.0
    high: float = 1.0

    @property
    def point(self) -> Array:
        spread = np.linspace(self.low, self.high, SIZE)
        return np.random.default_rng(len(self.name)).permutation(spread)

    def __repr__(self) -> str:
        return self.name


class Derivatives(NamedTuple):
    """JAX's value f64[m], Jacobian [m, 12], second derivatives [m, 12, 12] at the twin's point."""

    value: Array
    first: Array
    second: Array


@functools.cache
def jax_derivatives(twin: Twin) -> Derivatives:
    with jax.enable_x64(True):
        f = twin.theirs
        every = jax.jit(lambda x: (f(x), jax.jacfwd(f)(x), jax.jacfwd(jax.jacrev(f))(x)))
        return Derivatives(*map(np.asarray, every(jnp.asarray(twin.point))))


@functools.cache
def jax_third(twin: Twin) -> Array:
    """Third derivatives [m, 12, 12, 12]."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.jacfwd(jax.jacfwd(jax.jacrev(twin.theirs))))(jnp.asarray(twin.point)))


def direction(seed: int, size: int = SIZE) -> Array:
    """A seeded direction."""
    return np.random.default_rng([seed, size]).uniform(-1, 1, size)


def near(got: Any, want: Any) -> None:
    """Equal to rounding, with equal shapes and dtypes."""
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=RTOL, atol=ATOL, strict=True)


W = np.random.default_rng(7).uniform(-1, 1, (12, 12))
C = np.random.default_rng(8).uniform(-1, 1, (3, 4))
LABELS = np.array([2, 0, 3], dtype=np.int32)
INDICES = np.array([4, 0, 4, 11, 2], dtype=np.int32)
MASK = np.array([[True, False, True], [False, False, False], [True, True, True]])
KERNEL = np.random.default_rng(9).uniform(-1, 1, (3, 2, 2))


def _softmax_jax(x: Any, axis: int) -> Any:
    raised = jnp.exp(x)
    return raised / jnp.sum(raised, axis, keepdims=True)


def _layer_norm_jax(x: Any) -> Any:
    mean = jnp.mean(x, -1, keepdims=True)
    return (x - mean) / jnp.sqrt(jnp.mean((x - mean) ** 2, -1, keepdims=True) + 1e-5)


def _attention_ours(x: Any) -> Any:
    parts = x.reshape(3, 4)
    q, k, v = (ops.stack([parts[i] * (j + 1.0) for j in range(3)]) for i in range(3))
    q, k, v = q * C, k + C, v * v
    return ops.attention(q, k, v, mask=MASK).reshape(-1)


def _attention_jax(x: Any) -> Any:
    parts = x.reshape(3, 4)
    q, k, v = (jnp.stack([parts[i] * (j + 1.0) for j in range(3)]) for i in range(3))
    q, k, v = q * C, k + C, v * v
    scores = jnp.where(MASK, (q @ k.T) / 2.0, -1e30)
    weights = jnp.where(MASK, _softmax_jax(scores - lax.stop_gradient(scores.max(-1, keepdims=True)), -1), 0.0)
    return (weights @ v).reshape(-1)


def _conv_jax(x: Any, w: Any, strides: tuple[int, ...], padding: Any, groups: int) -> Any:
    return lax.conv_general_dilated(
        x, w, strides, padding, dimension_numbers=("NCH", "OIH", "NCH"), feature_group_count=groups
    )


def _windows(x: Any, width: int, stride: int, stack: Any) -> Any:
    """All windows of the last axis, stacked on a new last axis."""
    count = (x.shape[-1] - width) // stride + 1
    return stack([x[..., i : i + (count - 1) * stride + 1 : stride] for i in range(width)], -1)


def _batch_norm_ours(x: Any) -> Any:
    y, mean, variance = ops.batch_norm_train(x.reshape(4, 3), np.array([1.0, 2.0, 0.5]), np.array([0.0, 1.0, -1.0]))
    return ops.concatenate([y.reshape(-1), mean, variance])


def _batch_norm_jax(x: Any) -> Any:
    x = x.reshape(4, 3)
    mean, variance = x.mean(0), ((x - x.mean(0)) ** 2).mean(0)
    y = (x - mean) / jnp.sqrt(variance + 1e-5) * jnp.array([1.0, 2.0, 0.5]) + jnp.array([0.0, 1.0, -1.0])
    return jnp.concatenate([y.reshape(-1), mean, variance])


def _cross_entropy_ours(x: Any) -> Any:
    return ops.cross_entropy(x.reshape(3, 4) * 3.0, LABELS).reshape(1)


def _cross_entropy_jax(x: Any) -> Any:
    logs = jax.nn.log_softmax(x.reshape(3, 4) * 3.0)
    return -jnp.mean(logs[jnp.arange(3), LABELS]).reshape(1)


TWINS: tuple[Twin, ...] = (
    Twin("tanh and powers", lambda x: ops.tanh(x) * x**3 + 1.0 / (x + 3.0), lambda x: jnp.tanh(x) * x**3 + 1 / (x + 3)),
    Twin(
        "elementwise chain",
        lambda x: ops.exp(ops.sin(x)) * ops.log(x) + ops.sqrt(x) ** x + ops.erf(x) / ops.cos(x * 0.5),
        lambda x: jnp.exp(jnp.sin(x)) * jnp.log(x) + jnp.sqrt(x) ** x + jax.scipy.special.erf(x) / jnp.cos(x * 0.5),
        0.5,
        2.0,
    ),
    Twin("matmul chain", lambda x: W @ ops.tanh(W @ (x * x)), lambda x: W @ jnp.tanh(W @ (x * x))),
    Twin(
        "softmax",
        lambda x: ops.softmax(x.reshape(3, 4) * 2.0, 0).reshape(-1),
        lambda x: _softmax_jax(x.reshape(3, 4) * 2.0, 0).reshape(-1),
    ),
    Twin(
        "log_softmax and logsumexp",
        lambda x: ops.concatenate([ops.log_softmax(x * x), ops.logsumexp((x * x).reshape(3, 4))]),
        lambda x: jnp.concatenate([jax.nn.log_softmax(x * x), jax.scipy.special.logsumexp((x * x).reshape(3, 4), -1)]),
    ),
    Twin(
        "layer_norm",
        lambda x: ops.layer_norm(x.reshape(3, 4), C[0], C[1]).reshape(-1),
        lambda x: (_layer_norm_jax(x.reshape(3, 4)) * C[0] + C[1]).reshape(-1),
    ),
    Twin("batch_norm", _batch_norm_ours, _batch_norm_jax),
    Twin("attention", _attention_ours, _attention_jax),
    Twin("cross_entropy", _cross_entropy_ours, _cross_entropy_jax),
    Twin(
        "activations",
        lambda x: ops.gelu(x) + ops.gelu(x, approximate=False) * ops.silu(x) + ops.softplus(x) * ops.relu(x),
        lambda x: (
            jax.nn.gelu(x) + jax.nn.gelu(x, approximate=False) * jax.nn.silu(x) + jax.nn.softplus(x) * jax.nn.relu(x)
        ),
    ),
    Twin(
        "linear and mse",
        lambda x: ops.mse_loss(ops.linear(ops.sin(x).reshape(3, 4), C, x[:3]), (x[3:] * x[3:]).reshape(3, 3)).reshape(
            1
        ),
        lambda x: jnp.mean((jnp.sin(x).reshape(3, 4) @ C.T + x[:3] - (x[3:] ** 2).reshape(3, 3)) ** 2).reshape(1),
    ),
    Twin(
        "conv in input and kernel",
        lambda x: ops.conv((x * x).reshape(1, 2, 6), KERNEL * x[0], strides=2, padding=((1, 0),)).reshape(-1),
        lambda x: _conv_jax((x * x).reshape(1, 2, 6), KERNEL * x[0], (2,), ((1, 0),), 1).reshape(-1),
    ),
    Twin(
        "grouped conv",
        lambda x: ops.conv(ops.sin(x).reshape(1, 4, 3), x[:8].reshape(4, 1, 2), groups=4).reshape(-1),
        lambda x: _conv_jax(jnp.sin(x).reshape(1, 4, 3), x[:8].reshape(4, 1, 2), (1,), "VALID", 4).reshape(-1),
    ),
    Twin(
        "pooling",
        lambda x: ops.concatenate(
            [
                ops.max_pool((x * x * x).reshape(1, 2, 6), 3, 2).reshape(-1),
                ops.avg_pool(ops.exp(x).reshape(1, 2, 6), 2, 1).reshape(-1),
            ]
        ),
        lambda x: jnp.concatenate(
            [
                _windows((x * x * x).reshape(1, 2, 6), 3, 2, jnp.stack).max(-1).reshape(-1),
                _windows(jnp.exp(x).reshape(1, 2, 6), 2, 1, jnp.stack).mean(-1).reshape(-1),
            ]
        ),
    ),
    Twin(
        "gather and scatter",
        lambda x: ops.scatter_add(ops.sin(x), INDICES, ops.take(x * x, INDICES) * x[:5]),
        lambda x: jnp.sin(x).at[INDICES].add((x * x)[INDICES] * x[:5]),
    ),
    Twin(
        "moving entries",
        lambda x: ops.concatenate(
            [x[::-2] * x[:6], ops.pad(x[3:9] ** 2, x[0] * x[1], ((1, 2, 1),)), x.reshape(3, 4).T[1]]
        ),
        lambda x: jnp.concatenate(
            [
                x[::-2] * x[:6],
                lax.pad(x[3:9] ** 2, x[0] * x[1], ((1, 2, 1),)),
                x.reshape(3, 4).T[1],
            ]
        ),
    ),
    Twin(
        "extremes and choices",
        lambda x: ops.concatenate(
            [
                ops.max(x * x, x) + ops.min(x, 0.3) ** 2,
                ops.amax((x**3).reshape(3, 4), 1),
                ops.select(x > 0.05, ops.exp(x), x * x * x),
                ops.clamp(x, -0.7, 0.7) ** 2 * ops.abs(x),
            ]
        ),
        lambda x: jnp.concatenate(
            [
                jnp.maximum(x * x, x) + jnp.minimum(x, 0.3) ** 2,
                (x**3).reshape(3, 4).max(1),
                jnp.where(x > 0.05, jnp.exp(x), x * x * x),
                jnp.clip(x, -0.7, 0.7) ** 2 * jnp.abs(x),
            ]
        ),
    ),
    Twin(
        "batched product",
        lambda x: (
            x.reshape(2, 3, 2) @ ops.transpose(x.reshape(2, 3, 2), (0, 2, 1)) @ (x.reshape(3, 4)[:, :3])
        ).reshape(-1),
        lambda x: (x.reshape(2, 3, 2) @ x.reshape(2, 3, 2).transpose(0, 2, 1) @ (x.reshape(3, 4)[:, :3])).reshape(-1),
    ),
)
