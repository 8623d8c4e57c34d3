"""Derivative and batching rules, as data.

A rule is a value that says what kind of derivative an op has; the transforms read it. Rules receive and return traced
values. `params` always comes first. Every tuple has one entry per operand (or per output, for tangents out).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from torchlean.record import record

Traced = Any  # a builder's Value; rules.py lies below the builder
MaybeTraced = Any  # a Value, or None for a structural zero


class Unit(Enum):
    """Partial derivatives that need no multiplication."""

    PLUS = 1
    MINUS = -1


Partial = Unit | Callable[..., MaybeTraced]


class Slope(Enum):
    """Where the partials of an elementwise op are finite, given finite operands.

    Only where they may not be does the derivative policy cost anything (docs/derivatives.md): there a tangent or
    cotangent that is exactly 0 contributes 0, whatever the partial.
    """

    FINITE = "finite"  # everywhere: mul, sin, tanh
    OVERFLOWS = "overflows"  # but where the function itself overflows: exp, x**3
    POLE = "pole"  # infinite or undefined at some operand: sqrt, log, div, pow

    __hash__ = object.__hash__


@record
class Elementwise:
    """y[i] = f(x[i], …): one partial per operand, `partial(params, y, *xs) -> ∂y/∂x`, a `Unit`, or None for zero.

    `slope`, or what it returns for the params, says where the partials are finite; a wrong FINITE fails
    tests/edge/test_kinds.py, which tries every op at its poles.
    """

    partials: tuple[Partial | None, ...]
    slope: Slope | Callable[[Any], Slope] = Slope.FINITE


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

    `settled(params, primals, outputs, moved) -> (primals, outputs)`, of ops whose derivative divides by what may be 0:
    other values to derive with where the tangents (or cotangents) `moved` are zero, so that zeros stay zeros there.
    """

    jvp: Callable[..., Sequence[MaybeTraced]]
    vjp: Callable[..., Sequence[MaybeTraced]] | None = None
    settled: Callable[..., tuple[Sequence[Traced], Sequence[Traced]]] | None = None


@record
class HigherOrder:
    """For ops whose params hold sub-graphs; the transform is handed in as `recurse`, so `ir` needs no transforms.

    `jvp(recurse, params, primals, tangents, outputs)`: `recurse(graph, active) -> (graph, active outputs)`, whose graph
    maps (primals, present tangents) to (outputs, tangents of the active outputs).
    `vjp(recurse, op, params, primals, cotangents, wrt)`: `recurse(graph, wrt) -> graph` maps (primals, cotangents) to
    the cotangents of the operands `wrt`. Both return one entry per output (operand), None for zero.
    `recurse.variant` are attributes that tell what it derives from the standard result (see `transforms/slopes.py`).
    """

    jvp: Callable[..., Sequence[MaybeTraced]]
    vjp: Callable[..., Sequence[MaybeTraced]]


class Reverse(NamedTuple):
    """What a reverse rule of control flow may ask of the transforms.

    `vjp(graph, wrt, with_outputs=…, seeded=…) -> graph` from (primals, a cotangent for each output in `seeded`) to
    ([outputs,] cotangents of the inputs `wrt`); `active(graph, flags) -> flags` says which outputs depend
    differentiably on the flagged inputs.
    """

    vjp: Callable[..., Any]
    active: Callable[..., Sequence[bool]]


@record
class NoReverse:
    """An op without a reverse rule: `reason` and `fix` are what somebody who asks for one reads."""

    reason: str
    fix: str


@record
class Structured:
    """For control flow: ops whose params hold sub-graphs and whose node is replaced by another when differentiated.

    `jvp(recurse, params, primals, tangents) -> (outputs, tangents out)`: the outputs come from the node that carries
    the tangents too, so nothing is computed twice; `recurse` as in `HigherOrder`.
    `vjp(reverse, params, primals, cotangents, wrt, extend) -> cotangent or None per operand`. A missing cotangent is
    None. `extend(params)` puts these params, whose results are the old ones and then others, in the place of the node's
    own, and returns the other results: how a rule saves what the reverse pass reads.
    `active(active, params, flags) -> flags` says which results depend differentiably on the flagged operands.
    """

    jvp: Callable[..., tuple[Sequence[Traced], Sequence[MaybeTraced]]]
    vjp: Callable[..., Sequence[MaybeTraced]] | NoReverse
    active: Callable[..., Sequence[bool]]


@record
class NoTangent:
    """The op's result is locally constant (or has no tangent space); `reason` is shown when a gradient is cut."""

    reason: str


DiffRule = Elementwise | Linear | Bilinear | Custom | HigherOrder | Structured | NoTangent


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


@record
class StructuredBatch:
    """`batch(recurse, params, size, operands, mapped) -> (outputs, flags)`: which outputs are mapped, axis in front.

    `recurse(graph, size, mapped) -> (graph, flags)` maps a sub-graph; outputs that no mapped input reaches stay as
    they are.
    """

    batch: Callable[..., tuple[Sequence[Traced], Sequence[bool]]]


BatchRule = Pointwise | Rule | HigherOrderBatch | StructuredBatch
