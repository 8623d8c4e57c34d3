"""Optimizers as (init, update) pairs over pytrees, learning-rate schedules, gradient clipping."""

from torchlean.optim import schedules
from torchlean.optim.adam import Adam, AdamState, AdamW
from torchlean.optim.clipping import clip_by_norm, clip_by_value, global_norm
from torchlean.optim.optimizers import (
    SGD,
    Adadelta,
    AdadeltaState,
    AdaGrad,
    Momentum,
    MomentumState,
    Optimizer,
    RMSProp,
    SquareState,
)
from torchlean.optim.schedules import Schedule

__all__ = [
    "SGD",
    "AdaGrad",
    "Adadelta",
    "AdadeltaState",
    "Adam",
    "AdamState",
    "AdamW",
    "Momentum",
    "MomentumState",
    "Optimizer",
    "RMSProp",
    "Schedule",
    "SquareState",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
    "schedules",
]
