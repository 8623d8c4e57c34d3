"""Pooling layers, without parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchlean.ir import ops
from torchlean.nn.layer import Mode, is_training

Nothing = tuple[()]


@dataclass(frozen=True, slots=True)
class MaxPool:
    """`ops.max_pool` of f[N, C, spatial…]; strides default to the window. No parameters: `()`."""

    window: int | tuple[int, ...]
    strides: int | tuple[int, ...] | None = None
    padding: Any = 0

    def init(self, source: Any, dtype: Any = "f32") -> Nothing:
        return ()

    def apply(self, params: Nothing, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, Nothing]:
        is_training(mode)
        return self(params, x), params

    def trainable(self, params: Nothing) -> Any:
        return ()

    def __call__(self, params: Nothing, x: Any) -> Any:
        return ops.max_pool(x, self.window, self.strides, self.padding)


@dataclass(frozen=True, slots=True)
class AvgPool:
    """`ops.avg_pool` of f[N, C, spatial…]; strides default to the window. No parameters: `()`."""

    window: int | tuple[int, ...]
    strides: int | tuple[int, ...] | None = None
    padding: Any = 0
    count_padding: bool = True

    def init(self, source: Any, dtype: Any = "f32") -> Nothing:
        return ()

    def apply(self, params: Nothing, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, Nothing]:
        is_training(mode)
        return self(params, x), params

    def trainable(self, params: Nothing) -> Any:
        return ()

    def __call__(self, params: Nothing, x: Any) -> Any:
        return ops.avg_pool(x, self.window, self.strides, self.padding, self.count_padding)
