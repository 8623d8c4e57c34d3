"""Adam and AdamW, rounding for rounding TorchLean's: β^t is a running product in the state, m̂ = m·(1/(1 − β₁^t))."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.optim import checks
from torchlean.optim.leaves import Tree, each, run_dtype, slots, spread
from torchlean.optim.optimizers import average, rate_of


class AdamState(NamedTuple):
    """Moments per leaf, and β₁^t, β₂^t as running products: scalars of the widest float dtype of the parameters."""

    first: Tree
    second: Tree
    power1: Any
    power2: Any


@dataclass(frozen=True, slots=True)
class Adam:
    """m ← β₁m + (1 − β₁)g; v ← β₂v + (1 − β₂)g²; p ← p − (lr/(√v̂ + ε))·m̂, where m̂ = m·(1/(1 − β₁^t)), v̂ likewise.

    [Kingma & Ba 2015]
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        _check_adam("Adam", self)

    def init(self, params: Tree, trainable: Tree | None = None) -> AdamState:
        return _adam_state(params, trainable)

    def update(
        self,
        gradients: Tree,
        state: AdamState,
        params: Tree,
        *,
        learning_rate: Any = None,
        trainable: Tree | None = None,
    ) -> tuple[Tree, AdamState]:
        return _adam_update(self, gradients, state, params, rate_of(self, learning_rate), 0.0, trainable)


@dataclass(frozen=True, slots=True)
class AdamW:
    """p ← p − p·(lr·decay), then the step of `Adam`, whose moments see the raw gradient.  [Loshchilov & Hutter 2019]"""

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        _check_adam("AdamW", self)
        checks.non_negative("AdamW", "weight_decay", self.weight_decay)

    def init(self, params: Tree, trainable: Tree | None = None) -> AdamState:
        return _adam_state(params, trainable)

    def update(
        self,
        gradients: Tree,
        state: AdamState,
        params: Tree,
        *,
        learning_rate: Any = None,
        trainable: Tree | None = None,
    ) -> tuple[Tree, AdamState]:
        rate = rate_of(self, learning_rate)
        return _adam_update(self, gradients, state, params, rate, self.weight_decay, trainable)


def _check_adam(name: str, optimizer: Adam | AdamW) -> None:
    checks.non_negative(name, "learning_rate", optimizer.learning_rate)
    checks.fraction(name, "beta1", optimizer.beta1)
    checks.fraction(name, "beta2", optimizer.beta2)
    checks.positive(name, "epsilon", optimizer.epsilon)


def _adam_state(params: Tree, trainable: Tree | None) -> AdamState:
    one = ops.full((), 1.0, run_dtype(params))
    return AdamState(slots(params, trainable), slots(params, trainable), one, one)


def _adam_update(
    optimizer: Adam | AdamW,
    gradients: Tree,
    state: AdamState,
    params: Tree,
    rate: Any,
    decay: float,
    trainable: Tree | None,
) -> tuple[Tree, AdamState]:
    power1, power2 = state.power1 * optimizer.beta1, state.power2 * optimizer.beta2
    scale1, scale2 = 1.0 / (1.0 - power1), 1.0 / (1.0 - power2)

    def step(p: Any, g: Any, m: Any, v: Any) -> tuple[Any, ...]:
        like = type_of(g)
        first = average(m, g, optimizer.beta1)
        second = average(v, g * g, optimizer.beta2)
        pace = spread(rate, like)
        kept = p - p * (pace * decay) if decay else p
        speed = pace / (ops.sqrt(second * spread(scale2, like)) + optimizer.epsilon)
        return kept - speed * (first * spread(scale1, like)), first, second

    made, (first, second) = each(step, gradients, params, (state.first, state.second), trainable)
    return made, AdamState(first, second, power1, power2)
