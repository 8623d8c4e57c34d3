"""Derivatives over complex numbers: what `grad`, `complex_grad` and `holomorphic=True` each take, and the check.

A holomorphic function is one whose every step satisfies the Cauchy-Riemann equations. The check is structural: it
refuses the ops that take a complex number apart (real, imag, conj, abs, comparisons) wherever a derivative would pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from torchlean.errors import GradError, message
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import caller_location
from torchlean.ir.ops.elementwise import STOP_GRADIENT
from torchlean.ir.ops.parts import CONJ
from torchlean.ir.rules import HigherOrder, NoTangent
from torchlean.ir.types import TensorType


class Over(Enum):
    """What a gradient is taken over."""

    REAL = "real"  # real arguments, a real result
    COMPLEX = "complex"  # complex or real arguments, a real result: ∂L/∂re + i·∂L/∂im
    HOLOMORPHIC = "holomorphic"  # complex arguments, a complex result: f′(z)

    __hash__ = object.__hash__

    def takes(self, type: TensorType) -> bool:
        """Whether an argument of this type can be differentiated by."""
        if self is Over.COMPLEX:
            return type.dtype.is_inexact
        return type.dtype.is_complex if self is Over.HOLOMORPHIC else type.dtype.is_float

    @property
    def expected(self) -> str:
        """What arguments it takes, for messages."""
        if self is Over.COMPLEX:
            return "a floating point or complex array"
        return "a complex array, as holomorphic=True says" if self is Over.HOLOMORPHIC else "a floating point array"

    def fix(self, type: TensorType | None) -> str:
        """What to do with an argument that is not taken."""
        if type is not None and type.dtype.is_complex:
            return (
                "for a real loss use complex_grad(f); for the derivative of a holomorphic f pass holomorphic=True; or "
                "differentiate by the real and imaginary parts"
            )
        if self is Over.HOLOMORPHIC and type is not None and type.dtype.is_float:
            return "drop holomorphic=True for real arguments, or convert them to c64 or c128"
        return "convert it to a float dtype, or leave the argument out of argnums"


def require_known_side(type: TensorType, over: Over, what: str, name: str) -> None:
    """Refuse a scalar result that is complex where it must be real, or the other way round, saying which to use."""
    if over is Over.HOLOMORPHIC and type.dtype.is_float:
        fix = "drop holomorphic=True: for a real loss of complex arguments use complex_grad(f)"
    elif over is not Over.HOLOMORPHIC and type.dtype.is_complex:
        fix = "return a real loss, such as the sum of real(z * conj(z)); or pass holomorphic=True to grad"
    else:
        return
    raise GradError(
        message(
            f"{what} of {name}, which returns {type}",
            expected="one complex scalar" if over is Over.HOLOMORPHIC else "one floating point scalar",
            got=str(type),
            fix=fix,
            where=str(caller_location()),
        )
    )


def require_holomorphic(graph: Graph, wrt: Sequence[int], name: str) -> None:
    """Refuse a graph in which a derivative by the inputs at `wrt` would pass an op that is not holomorphic.

    conj is allowed where it is undone: a function of conj(z) alone, conjugated again, is holomorphic. That is the form
    derivatives of holomorphic functions have here.
    """
    wanted = set(wrt)
    sides = [Side.HOLOMORPHIC if at in wanted else None for at in range(len(graph.inputs))]
    outputs, fault = _followed(graph, sides)
    if fault is None and Side.CONJUGATE in outputs:
        fault = _conj_of(graph)
    if fault is None:
        return
    within, node = fault
    operand = within.types[node.inputs[0]]
    raise GradError(
        message(
            f"{name} is not holomorphic: it applies {node.op.name} to {operand}",
            expected="ops that satisfy the Cauchy-Riemann equations",
            got=f"{node.op.name} of {operand}",
            fix="for a real loss use complex_grad(f); stop_gradient(z) makes a value a constant",
            where=str(node.where),
        )
    )


class Side(Enum):
    """A value is a holomorphic function of the inputs, or of their conjugates; a constant is neither (None)."""

    HOLOMORPHIC = 1
    CONJUGATE = 2

    __hash__ = object.__hash__

    @property
    def other(self) -> Side:
        return Side.CONJUGATE if self is Side.HOLOMORPHIC else Side.HOLOMORPHIC


Fault = tuple[Graph, Node] | None


def _followed(graph: Graph, inputs: Sequence[Side | None]) -> tuple[list[Side | None], Fault]:
    """The side of each output, or the first node that matters and belongs to neither."""
    sides: list[Side | None] = [None] * len(graph.types)
    for id, side in zip(graph.inputs, inputs, strict=True):
        sides[id] = side
    matters = _read(graph)
    conjugated: Node | None = None
    for node in graph.nodes:
        met = {sides[id] for id in node.inputs} - {None}
        if not met or node.op is STOP_GRADIENT or not any([matters[id] for id in node.outputs]):
            continue
        if len(met) > 1:
            return [], (graph, conjugated or node)
        (side,) = met
        assert side is not None
        if node.op is CONJ:
            conjugated = conjugated or node
            sides[node.outputs[0]] = side.other
            continue
        body = getattr(node.params, "body", None)
        if isinstance(body, Graph) and isinstance(node.op.diff, HigherOrder):
            made, fault = _followed(body, [sides[id] for id in node.inputs])
            if fault is not None:
                return [], fault
            for id, found in zip(node.outputs, made, strict=False):
                sides[id] = found
            continue
        for inner in _bodies(node.params):
            fault = _followed(inner, [side if type.dtype.is_complex else None for type in inner.input_types])
            if fault[1] is not None or side.other in fault[0]:
                return [], fault[1] or _conj_of(inner)
        if isinstance(node.op.diff, NoTangent) or not all(graph.types[id].dtype.is_complex for id in node.outputs):
            return [], (graph, node)
        for id in node.outputs:
            sides[id] = side
    return [sides[id] for id in graph.outputs], None


def _conj_of(graph: Graph) -> Fault:
    """The last conj of a graph, or of a sub-graph of its nodes."""
    for node in reversed(graph.nodes):
        if node.op is CONJ:
            return graph, node
        for body in _bodies(node.params):
            found = _conj_of(body)
            if found is not None:
                return found
    return None


def _read(graph: Graph) -> bytearray:
    """1 for each value an output depends on other than through stop_gradient."""
    read = bytearray(len(graph.types))
    for id in graph.outputs:
        read[id] = 1
    for node in reversed(graph.nodes):
        if node.op is not STOP_GRADIENT and any([read[id] for id in node.outputs]):
            for id in node.inputs:
                read[id] = 1
    return read


def _bodies(params: Any) -> Iterator[Graph]:
    """The sub-graphs among a node's params."""
    for field in dataclasses.fields(params):
        held = getattr(params, field.name)
        for one in held if isinstance(held, tuple) else (held,):
            if isinstance(one, Graph):
                yield one
