"""Optimizers as pairs of `init` and `update` over pytrees, written with ops: traced into a lowered step, or run now.

Rules are TorchLean's, rounding for rounding: constants are rounded to the dtype of the leaf, and 1 − ρ is computed
there. `update` returns new trees and changes nothing. Adam and AdamW are in `adam.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torchlean.errors import TypeRuleError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.optim import checks
from torchlean.optim.leaves import Tree, each, slots, spread


class Optimizer(Protocol):
    """`init(params) -> state`; `update(gradients, state, params) -> (params, state)`.

    `learning_rate` overrides the optimizer's own: a Python number, or a float scalar tensor, traced or not.
    `trainable`: a bool per leaf; other leaves, and leaves that hold no floats, pass through. Pass the same flags to
    `init` and `update`. Raises ConfigError for a bad rate, StructureError or TypeRuleError for trees that do not fit.
    """

    @property
    def learning_rate(self) -> float: ...

    def init(self, params: Tree, trainable: Tree | None = None) -> Any: ...

    def update(
        self, gradients: Tree, state: Any, params: Tree, *, learning_rate: Any = None, trainable: Tree | None = None
    ) -> tuple[Tree, Any]: ...


def rate_of(optimizer: Optimizer, given: Any) -> Any:
    if given is None:
        return optimizer.learning_rate
    name = type(optimizer).__name__
    if isinstance(given, int | float):
        checks.non_negative(name, "learning_rate", given)
        return given
    found = type_of(given)
    if found.shape or not found.dtype.is_float:
        raise TypeRuleError(
            message(
                f"{name}: a learning rate of type {found}",
                expected="a float scalar",
                got=str(found),
                fix="reduce or convert it",
                where=str(caller_location()),
            )
        )
    return given


def one_minus(dtype: DType, number: float) -> float:
    """1 − number, computed in the dtype."""
    return float(dtype.carrier.type(1) - dtype.carrier.type(number))


def average(old: Any, new: Any, decay: float) -> Any:
    """old·decay + new·(1 − decay)."""
    return old * decay + new * one_minus(old.type.dtype, decay)


@dataclass(frozen=True, slots=True)
class SGD:
    """p ← p − lr·g. State: `()`. Complex parameters too, with the gradients `complex_grad` gives."""

    learning_rate: float

    def __post_init__(self) -> None:
        checks.non_negative("SGD", "learning_rate", self.learning_rate)

    def init(self, params: Tree, trainable: Tree | None = None) -> tuple[()]:
        return ()

    def update(
        self, gradients: Tree, state: Any, params: Tree, *, learning_rate: Any = None, trainable: Tree | None = None
    ) -> tuple[Tree, tuple[()]]:
        rate = rate_of(self, learning_rate)

        def step(p: Any, g: Any) -> tuple[Any, ...]:
            return (p - spread(rate, type_of(g)) * g,)

        return each(step, gradients, params, (), trainable, complex_too=True)[0], ()


class MomentumState(NamedTuple):
    """`velocity`: the running sum b, per leaf."""

    velocity: Tree


@dataclass(frozen=True, slots=True)
class Momentum:
    """b ← μ·b + g; p ← p − lr·b, or p − lr·(g + μ·b) with `nesterov`.  [Sutskever et al. 2013, as in PyTorch]"""

    learning_rate: float
    momentum: float = 0.9
    nesterov: bool = False

    def __post_init__(self) -> None:
        checks.non_negative("Momentum", "learning_rate", self.learning_rate)
        checks.fraction("Momentum", "momentum", self.momentum)

    def init(self, params: Tree, trainable: Tree | None = None) -> MomentumState:
        return MomentumState(slots(params, trainable))

    def update(
        self,
        gradients: Tree,
        state: MomentumState,
        params: Tree,
        *,
        learning_rate: Any = None,
        trainable: Tree | None = None,
    ) -> tuple[Tree, MomentumState]:
        rate = rate_of(self, learning_rate)

        def step(p: Any, g: Any, b: Any) -> tuple[Any, ...]:
            moved = b * self.momentum + g
            direction = g + moved * self.momentum if self.nesterov else moved
            return p - spread(rate, type_of(g)) * direction, moved

        made, states = each(step, gradients, params, state, trainable)
        return made, MomentumState(*states)


class SquareState(NamedTuple):
    """`square`: the sum, or decaying average, of squared gradients, per leaf."""

    square: Tree


@dataclass(frozen=True, slots=True)
class AdaGrad:
    """G ← G + g²; p ← p − (lr/(√G + ε))·g.  [Duchi et al. 2011]"""

    learning_rate: float
    epsilon: float = 1e-10

    def __post_init__(self) -> None:
        checks.non_negative("AdaGrad", "learning_rate", self.learning_rate)
        checks.positive("AdaGrad", "epsilon", self.epsilon)

    def init(self, params: Tree, trainable: Tree | None = None) -> SquareState:
        return SquareState(slots(params, trainable))

    def update(
        self,
        gradients: Tree,
        state: SquareState,
        params: Tree,
        *,
        learning_rate: Any = None,
        trainable: Tree | None = None,
    ) -> tuple[Tree, SquareState]:
        rate = rate_of(self, learning_rate)

        def step(p: Any, g: Any, total: Any) -> tuple[Any, ...]:
            grown = total + g * g
            return p - spread(rate, type_of(g)) / (ops.sqrt(grown) + self.epsilon) * g, grown

        made, states = each(step, gradients, params, state, trainable)
        return made, SquareState(*states)


@dataclass(frozen=True, slots=True)
class RMSProp:
    """a ← ρ·a + (1 − ρ)·g²; p ← p − (lr/(√a + ε))·g.  [Tieleman & Hinton 2012]"""

    learning_rate: float
    decay: float = 0.99
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        checks.non_negative("RMSProp", "learning_rate", self.learning_rate)
        checks.fraction("RMSProp", "decay", self.decay)
        checks.positive("RMSProp", "epsilon", self.epsilon)

    def init(self, params: Tree, trainable: Tree | None = None) -> SquareState:
        return SquareState(slots(params, trainable))

    def update(
        self,
        gradients: Tree,
        state: SquareState,
        params: Tree,
        *,
        learning_rate: Any = None,
        trainable: Tree | None = None,
    ) -> tuple[Tree, SquareState]:
        rate = rate_of(self, learning_rate)

        def step(p: Any, g: Any, square: Any) -> tuple[Any, ...]:
            moved = average(square, g * g, self.decay)
            return p - spread(rate, type_of(g)) / (ops.sqrt(moved) + self.epsilon) * g, moved

        made, states = each(step, gradients, params, state, trainable)
        return made, SquareState(*states)


class AdadeltaState(NamedTuple):
    """Decaying averages of squared gradients and of squared updates, per leaf."""

    square: Tree
    update: Tree


@dataclass(frozen=True, slots=True)
class Adadelta:
    """v ← ρ·v + (1 − ρ)·g²; Δ = −lr·√(u + ε)/√(v + ε)·g; p ← p + Δ; u ← ρ·u + (1 − ρ)·Δ².  [Zeiler 2012]

    u averages what was added, lr included, as in TorchLean: a rate above 1 feeds itself. PyTorch averages without lr.
    """

    learning_rate: float = 1.0
    rho: float = 0.9
    epsilon: float = 1e-6

    def __post_init__(self) -> None:
        checks.non_negative("Adadelta", "learning_rate", self.learning_rate)
        checks.fraction("Adadelta", "rho", self.rho)
        checks.positive("Adadelta", "epsilon", self.epsilon)

    def init(self, params: Tree, trainable: Tree | None = None) -> AdadeltaState:
        return AdadeltaState(slots(params, trainable), slots(params, trainable))

    def update(
        self,
        gradients: Tree,
        state: AdadeltaState,
        params: Tree,
        *,
        learning_rate: Any = None,
        trainable: Tree | None = None,
    ) -> tuple[Tree, AdadeltaState]:
        rate = rate_of(self, learning_rate)

        def step(p: Any, g: Any, v: Any, u: Any) -> tuple[Any, ...]:
            square = average(v, g * g, self.rho)
            size = spread(rate, type_of(g)) * ops.sqrt(u + self.epsilon)
            delta = -size / ops.sqrt(square + self.epsilon) * g
            return p + delta, square, average(u, delta * delta, self.rho)

        made, states = each(step, gradients, params, state, trainable)
        return made, AdadeltaState(*states)
