"""Dropout, whose masks are pure functions of the layer's seed and the number of the step.

Two generators, by what the model was initialised from. A key: each layer holds its own key (folded from its place in
the model), a step folds its number in, so adding a layer shifts no other layer's masks. A `SeedStream`: TorchLean's
splitmix64(seed + step), whose masks its published runs use; there (seed, step) and (seed + 1, step − 1) share a mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from torchlean import random
from torchlean.errors import ConfigError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.nn.layer import Mode, is_training, require_fraction
from torchlean.random import SeedStream


class DropoutParams(NamedTuple):
    """`seed`: u64[] from a SeedStream, or a key u32[2]; never trainable."""

    seed: Any


@dataclass(frozen=True, slots=True)
class Dropout:
    """In "train" mode, 0 with probability `rate`, else the entry divided by 1 − rate; in "eval" mode the identity.

    A rate of 0 is the identity and of 1 gives zeros; both hold no seed (parameters `()`) and take none.
    """

    rate: float

    def __post_init__(self) -> None:
        require_fraction("Dropout", "rate", self.rate)

    @property
    def draws(self) -> bool:
        """Whether a mask is drawn at all."""
        return 0 < self.rate < 1

    def init(self, source: Any, dtype: Any = "f32") -> Any:
        if not self.draws:
            return ()
        if isinstance(source, SeedStream):
            return DropoutParams(ops.constant(np.uint64(source.take())))
        return DropoutParams(source)

    def apply(self, params: Any, x: Any, *, mode: Mode = "eval", rng: Any = None) -> tuple[Any, Any]:
        if not is_training(mode) or self.rate == 0:
            return x, params
        if not self.draws:
            return ops.full_like(x, 0), params
        if rng is None:
            raise ConfigError(
                message(
                    f"Dropout({self.rate}) in train mode needs the number of the step",
                    expected="rng: an integer, or an integer tensor",
                    got="None",
                    fix='pass it on: model.apply(params, x, mode="train", rng=step)',
                    where=str(caller_location()),
                )
            )
        return ops.dropout(x, self.kept(params, x, rng), self.rate), params

    def kept(self, params: DropoutParams, x: Any, step: Any) -> Any:
        """The boolean mask of a step: True where 1 − rate > u, u uniform in [0, 1), in the dtype of `x`."""
        type = type_of(x)
        carrier = type.dtype.carrier
        keep = float(carrier.type(1) - carrier.type(self.rate))
        if type_of(params.seed).dtype is DType.U64:
            draws = random.call_draws(random.call_key(params.seed, step), type.shape)
            unit = ops.convert(draws, type.dtype) * 2.0**-32
        else:
            unit = random.uniform(random.fold_in(params.seed, step), type.shape, type.dtype)
        return ops.lt(unit, keep)

    def trainable(self, params: Any) -> Any:
        return DropoutParams(False) if self.draws else ()

    def __call__(self, params: Any, x: Any) -> Any:
        return x
