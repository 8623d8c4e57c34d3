"""Layers without state: Linear, Conv, Embedding, Flatten, MaxPool, AvgPool, MultiHeadAttention.

Defaults are TorchLean's: Xavier weights, zero biases (which take no seed), conv kernels within ±0.1, embeddings within
±0.02.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from torchlean.errors import ConfigError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.location import caller_location
from torchlean.nn import init
from torchlean.nn.layer import Mode, all_trainable, is_training, require_sizes

_KERNEL_INIT = init.uniform(0.1)
_TABLE_INIT = init.uniform(0.02)


class Affine(NamedTuple):
    """`weight` [out, in, …] and `bias` [out], or None for no bias."""

    weight: Any
    bias: Any


class Table(NamedTuple):
    """`table` [count, features]: one row per index."""

    table: Any


class Projections(NamedTuple):
    """The four linear maps of attention."""

    query: Affine
    key: Affine
    value: Affine
    output: Affine


@dataclass(frozen=True, slots=True)
class Linear:
    """x·Wᵀ + b. f[…, in] → f[…, out]; parameters `Affine(weight f[out, in], bias f[out])`."""

    inputs: int
    outputs: int
    bias: bool = True
    weight_init: init.Initializer = init.xavier_uniform

    def __post_init__(self) -> None:
        require_sizes("Linear", inputs=self.inputs, outputs=self.outputs)

    def init(self, source: Any, dtype: Any = "f32") -> Affine:
        weight = self.weight_init(source, (self.outputs, self.inputs), self.inputs, self.outputs, dtype)
        return Affine(weight, ops.full((self.outputs,), 0.0, dtype) if self.bias else None)

    def apply(self, params: Affine, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, Affine]:
        is_training(mode)
        return self(params, x), params

    def trainable(self, params: Affine) -> Any:
        return all_trainable(params)

    def __call__(self, params: Affine, x: Any) -> Any:
        return ops.linear(x, params.weight, params.bias)


@dataclass(frozen=True, slots=True)
class Conv:
    """Convolution over as many spatial axes as `kernel` has sizes. f[N, in, …] → f[N, out, …].

    Parameters `Affine(weight f[out, in / groups, kernel…], bias f[out])`. `padding` as in `ops.conv`.
    """

    inputs: int
    outputs: int
    kernel: tuple[int, ...]
    strides: int | tuple[int, ...] = 1
    padding: Any = 0
    dilation: int | tuple[int, ...] = 1
    groups: int = 1
    bias: bool = True
    weight_init: init.Initializer = _KERNEL_INIT

    def __post_init__(self) -> None:
        require_sizes("Conv", inputs=self.inputs, outputs=self.outputs, groups=self.groups)
        kernel: Any = self.kernel
        if not isinstance(kernel, tuple) or self.inputs % self.groups or self.outputs % self.groups:
            raise ConfigError(
                message(
                    f"Conv({self.inputs}, {self.outputs}, kernel={kernel!r}, groups={self.groups})",
                    expected="a tuple of kernel sizes, one per spatial axis, and channels that the groups divide",
                    got=f"kernel {kernel!r}, channels {self.inputs} and {self.outputs}, groups {self.groups}",
                    fix="write (3, 3) for a square kernel over two axes",
                    where=str(caller_location()),
                )
            )
        require_sizes("Conv", **{f"kernel[{axis}]": size for axis, size in enumerate(self.kernel)})

    def init(self, source: Any, dtype: Any = "f32") -> Affine:
        taps = math.prod(self.kernel)
        shape = (self.outputs, self.inputs // self.groups, *self.kernel)
        fan_in, fan_out = self.inputs // self.groups * taps, self.outputs // self.groups * taps
        weight = self.weight_init(source, shape, fan_in, fan_out, dtype)
        return Affine(weight, ops.full((self.outputs,), 0.0, dtype) if self.bias else None)

    def apply(self, params: Affine, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, Affine]:
        is_training(mode)
        return self(params, x), params

    def trainable(self, params: Affine) -> Any:
        return all_trainable(params)

    def __call__(self, params: Affine, x: Any) -> Any:
        y = ops.conv(
            x, params.weight, strides=self.strides, padding=self.padding, dilation=self.dilation, groups=self.groups
        )
        return y if params.bias is None else y + ops.broadcast(params.bias, y.type.shape, (1,))


@dataclass(frozen=True, slots=True)
class Embedding:
    """Row `i` of a table for each index `i`. integers […] → f[…, features]; parameters `Table(f[count, features])`.

    Known indices outside [0, count) are refused; a traced one reads zeros.
    """

    count: int
    features: int
    table_init: init.Initializer = _TABLE_INIT

    def __post_init__(self) -> None:
        require_sizes("Embedding", count=self.count, features=self.features)

    def init(self, source: Any, dtype: Any = "f32") -> Table:
        return Table(self.table_init(source, (self.count, self.features), self.count, self.features, dtype))

    def apply(self, params: Table, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, Table]:
        is_training(mode)
        return self(params, x), params

    def trainable(self, params: Table) -> Any:
        return all_trainable(params)

    def __call__(self, params: Table, x: Any) -> Any:
        return ops.take(params.table, x, axis=0)


@dataclass(frozen=True, slots=True)
class MultiHeadAttention:
    """Self-attention in `heads` subspaces of features / heads dimensions. f[…, L, F] → f[…, L, F].

    Parameters `Projections` of four `Affine`s f[F, F]. `causal`: position i sees j ≤ i.  [Vaswani et al. 2017, §3.2.2]
    """

    features: int
    heads: int
    causal: bool = False
    bias: bool = True

    def __post_init__(self) -> None:
        require_sizes("MultiHeadAttention", features=self.features, heads=self.heads)
        if self.features % self.heads:
            raise ConfigError(
                message(
                    f"MultiHeadAttention: {self.heads} heads do not divide {self.features} features",
                    expected="features that the heads divide",
                    got=f"{self.features} features, {self.heads} heads",
                    fix="change one of them",
                    where=str(caller_location()),
                )
            )

    def init(self, source: Any, dtype: Any = "f32") -> Projections:
        linear = self._linear()
        return Projections(*[linear.init(init.child(source, part), dtype) for part in range(4)])

    def apply(self, params: Projections, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, Projections]:
        is_training(mode)
        return self(params, x), params

    def trainable(self, params: Projections) -> Any:
        return all_trainable(params)

    def __call__(self, params: Projections, x: Any, mask: Any = None) -> Any:
        """`mask`: boolean, broadcast to [batch…, heads, L, L]; True lets a position be seen."""
        linear = self._linear()
        q, k, v = (self._split(linear(part, x)) for part in params[:3])
        mixed = ops.attention(q, k, v, mask, causal=self.causal)
        joined = ops.transpose(mixed, _heads_swapped(mixed.type.rank))
        return linear(params.output, ops.reshape(joined, (*joined.type.shape[:-2], self.features)))

    def _linear(self) -> Linear:
        return Linear(self.features, self.features, self.bias)

    def _split(self, x: Any) -> Any:
        """f[…, L, F] → f[…, heads, L, F / heads]."""
        parts = ops.reshape(x, (*x.type.shape[:-1], self.heads, self.features // self.heads))
        return ops.transpose(parts, _heads_swapped(parts.type.rank))


def _heads_swapped(rank: int) -> tuple[int, ...]:
    return (*range(rank - 3), rank - 2, rank - 3, rank - 1)


@dataclass(frozen=True, slots=True)
class Flatten:
    """Join the axes from `start` on into one. No parameters: `()`."""

    start: int = 1

    def init(self, source: Any, dtype: Any = "f32") -> tuple[()]:
        return ()

    def apply(self, params: tuple[()], x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, tuple[()]]:
        is_training(mode)
        return self(params, x), params

    def trainable(self, params: tuple[()]) -> Any:
        return ()

    def __call__(self, params: tuple[()], x: Any) -> Any:
        shape = type_of(x).shape
        return ops.reshape(x, (*shape[: self.start], math.prod(shape[self.start :])))
