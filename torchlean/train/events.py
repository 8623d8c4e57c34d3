"""What a training run tells whoever listens. Nothing in this package prints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Started:
    """Before the first update: the size of the data set, and its mean loss (None when it was not asked for)."""

    dataset_size: int
    loss: float | None
    steps: int


@dataclass(frozen=True, slots=True)
class Progressed:
    """After an update. `step` is 0-based; `loss` is that of the samples it used; `logged` follows `log_every`."""

    step: int
    loss: float
    logged: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """After the last update: the mean loss over the data set (None when it was not asked for)."""

    loss: float | None
    seconds: float


Event = Started | Progressed | Finished
Listener = Callable[[Event], None]
