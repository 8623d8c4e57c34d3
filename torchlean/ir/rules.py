"""Derivative and batching rules, as data.

A rule is a value that says what kind of derivative an op has; the transforms read it. Rules receive and return traced
values. `params` always comes first. Every tuple has one entry per operand (or per output, for tangents out).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from torchlean.record import record

Traced = Any  # a builder's Value; rules.py lies below the builder
MaybeTraced = Any  # a Value, or None for a structural zero


class Unit(Enum):
    """Partial derivatives that need no multiplication."""

    PLUS = 1
    MINUS = -1


Partial = Unit | Callable[..., MaybeTraced]


@record
class Elementwise:
    """y[i] = f(x[i], …): one partial per operand, `partial(params, y, *xs) -> ∂y/∂x`, a `Unit`, or None for zero."""

    partials: tuple[Partial | None, ...]


@record
class Linear:
    """Jointly linear in the operands `wrt` (all when None); the others are fixed coefficients or indices.

    `transpose(params, ct, *operands)` returns a cotangent (or None) per operand.
    """

    transpose: Callable[..., tuple[MaybeTraced, ...]]
    wrt: tuple[int, ...] | None = None


@record
class Bilinear:
    """Linear in each of two operands: `lhs(params, ct, x, y)` and `rhs(params, ct, x, y)` give their cotangents."""

    lhs: Callable[..., Traced]
    rhs: Callable[..., Traced]


@record
class Custom:
    """`jvp(params, primals, tangents, outputs) -> tangents out`; a missing tangent is None, in and out.

    `vjp(params, primals, outputs, cotangents) -> cotangent or None per operand`; without one the tangent map is traced
    and pulled back, which ends because that map is made of linear ops.
    """

    jvp: Callable[..., Sequence[MaybeTraced]]
    vjp: Callable[..., Sequence[MaybeTraced]] | None = None


@record
class HigherOrder:
    """For ops whose params hold sub-graphs; the transform is handed in as `recurse`, so `ir` needs no transforms.

    `jvp(recurse, params, primals, tangents, outputs)`: `recurse(graph, active) -> (graph, active outputs)`, whose graph
    maps (primals, present tangents) to (outputs, tangents of the active outputs).
    `vjp(recurse, op, params, primals, cotangents, wrt)`: `recurse(graph, wrt) -> graph` maps (primals, cotangents) to
    the cotangents of the operands `wrt`. Both return one entry per output (operand), None for zero.
    """

    jvp: Callable[..., Sequence[MaybeTraced]]
    vjp: Callable[..., Sequence[MaybeTraced]]


@record
class NoTangent:
    """The op's result is locally constant (or has no tangent space); `reason` is shown when a gradient is cut."""

    reason: str


DiffRule = Elementwise | Linear | Bilinear | Custom | HigherOrder | NoTangent


@record
class Pointwise:
    """Mapped operands keep their leading axis; unmapped ones are broadcast to it."""


@record
class Rule:
    """`batch(params, size, operands, mapped) -> outputs`, every output mapped on its leading axis."""

    batch: Callable[..., Sequence[Traced]]


@record
class HigherOrderBatch:
    """`batch(recurse, params, size, operands, mapped) -> outputs`, all mapped.

    `recurse(graph, size, mapped) -> graph` maps a sub-graph.
    """

    batch: Callable[..., Sequence[Traced]]


BatchRule = Pointwise | Rule | HigherOrderBatch
