"""BatchNorm, whose running statistics are parameters flagged untrainable, and LayerNorm."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from torchlean.errors import TypeRuleError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.location import caller_location
from torchlean.nn.layer import Mode, all_trainable, is_training, require_fraction, require_sizes


class BatchNormParams(NamedTuple):
    """All f[features]; `mean` and `variance` are running statistics, not trainable."""

    scale: Any
    shift: Any
    mean: Any
    variance: Any


class LayerNormParams(NamedTuple):
    """Both f[features]."""

    scale: Any
    shift: Any


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """Standardise each channel: by this batch in "train" mode, by running statistics in "eval" mode.

    Training returns running ← (1 − momentum)·running + momentum·batch, with the unbiased variance of the batch; the
    batch itself is standardised by its biased variance. Nothing else updates them.  [Ioffe & Szegedy 2015]
    """

    features: int
    momentum: float = 0.1
    epsilon: float = 1e-5
    axis: int = 1

    def __post_init__(self) -> None:
        require_sizes("BatchNorm", features=self.features)
        require_fraction("BatchNorm", "momentum", self.momentum)

    def init(self, source: Any, dtype: Any = "f32") -> BatchNormParams:
        zero, one = (ops.full((self.features,), number, dtype) for number in (0.0, 1.0))
        return BatchNormParams(scale=one, shift=zero, mean=zero, variance=one)

    def apply(
        self, params: BatchNormParams, x: Any, *, mode: Mode = "eval", rng: Any = None
    ) -> tuple[Any, BatchNormParams]:
        if not is_training(mode):
            return self(params, x), params
        y, mean, variance = ops.batch_norm_train(x, params.scale, params.shift, self.axis, self.epsilon)
        count = prod(type_of(x).shape) // self.features
        if count < 2:
            raise TypeRuleError(
                message(
                    f"BatchNorm in train mode of {type_of(x)}: {count} value per channel",
                    expected="at least 2 values per channel, or the variance is undefined",
                    got=str(type_of(x)),
                    fix='use a larger batch, or mode="eval"',
                    where=str(caller_location()),
                )
            )
        unbiased = variance * (count / (count - 1))
        return y, params._replace(mean=self._moved(params.mean, mean), variance=self._moved(params.variance, unbiased))

    def _moved(self, running: Any, batch: Any) -> Any:
        return running * (1 - self.momentum) + batch * self.momentum

    def trainable(self, params: BatchNormParams) -> BatchNormParams:
        return BatchNormParams(scale=True, shift=True, mean=False, variance=False)

    def __call__(self, params: BatchNormParams, x: Any) -> Any:
        return ops.batch_norm(x, *params, axis=self.axis, epsilon=self.epsilon)


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """Standardise each position over the last axis, then scale and shift.  [Ba et al. 2016]"""

    features: int
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        require_sizes("LayerNorm", features=self.features)

    def init(self, source: Any, dtype: Any = "f32") -> LayerNormParams:
        return LayerNormParams(*[ops.full((self.features,), number, dtype) for number in (1.0, 0.0)])

    def apply(
        self, params: LayerNormParams, x: Any, *, mode: Mode = "eval", rng: Any = None
    ) -> tuple[Any, LayerNormParams]:
        is_training(mode)
        return self(params, x), params

    def trainable(self, params: LayerNormParams) -> Any:
        return all_trainable(params)

    def __call__(self, params: LayerNormParams, x: Any) -> Any:
        return ops.layer_norm(x, params.scale, params.shift, epsilon=self.epsilon)
