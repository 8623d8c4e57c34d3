"""What training minimises: a loss of prediction and target, a mean over the samples it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torchlean import nn
from torchlean.errors import ConfigError, message


@dataclass(frozen=True, slots=True)
class Objective:
    """`loss(prediction, target)` is a float scalar. `is_classification`: predictions are scores along the last axis and
    targets are integer labels, so an accuracy exists.
    """

    name: str
    loss: Callable[[Any, Any], Any]
    is_classification: bool = False

    def __str__(self) -> str:
        return self.name


MSE = Objective("mse", nn.mse)
CROSS_ENTROPY = Objective("cross_entropy", nn.cross_entropy, is_classification=True)


def objective(spec: Objective | str | Callable[[Any, Any], Any]) -> Objective:
    """The objective of a name ("mse" or "cross_entropy"), of a loss function, or itself."""
    if isinstance(spec, Objective):
        return spec
    for known in (MSE, CROSS_ENTROPY):
        if spec == known.name:
            return known
    if isinstance(spec, str) or not callable(spec):
        raise ConfigError(
            message(f"unknown objective {spec!r}", expected="mse, cross_entropy, an Objective, or a loss function")
        )
    return Objective(getattr(spec, "__name__", type(spec).__name__), spec)
