"""Where a graph's slopes may be infinite: what the derivative policy needs to know before it differentiates.

The policy (docs/derivatives.md) costs something only where this says so. A value is followed from the ops that have a
pole or overflow: what depends on one may be infinite, and so may what it sends back. Signs are followed too, because
√ of a sum of squares has slope 0 where the sum is 0, and √(v + ε) has no pole at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from torchlean.ir.builder import Builder, bind1, type_of
from torchlean.ir.graph import Graph, Node
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.composite import Composed
from torchlean.ir.ops.create import FULL, full_like, zeros_of
from torchlean.ir.ops.cut import CONCATENATE, SLICE
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.elementary import COSH, SQUARE
from torchlean.ir.ops.elementwise import (
    ABS,
    ADD,
    CLAMP,
    CONVERT,
    DIV,
    EQ,
    EXP,
    INTEGER_POW,
    LOG,
    LOG1P,
    LOGISTIC,
    MAX,
    MIN,
    MUL,
    POW,
    RSQRT,
    SELECT,
    SQRT,
    STOP_GRADIENT,
    Exponent,
    stop_gradient,
)
from torchlean.ir.ops.families import apply1
from torchlean.ir.ops.gather import GATHER
from torchlean.ir.ops.layout import RESHAPE, REVERSE, TRANSPOSE
from torchlean.ir.ops.quotients import HYPOT
from torchlean.ir.ops.reduce import REDUCE_MAX, REDUCE_MIN
from torchlean.ir.ops.spread import BROADCAST, REDUCE_SUM, Axes
from torchlean.ir.ops.stable import EUCLIDEAN_NORM
from torchlean.ir.rules import Elementwise, HigherOrder, Slope


class Derivatives(Enum):
    """Which products the chain rule is written with."""

    STANDARD = "standard"  # chain_mul where a slope may be infinite
    GUARDED = "guarded"  # the same, for a body whose operands or cotangents may be infinite
    IEEE = "ieee"  # plain products everywhere: 0 · ∞ is NaN

    __hash__ = object.__hash__

    @property
    def variant(self) -> tuple[tuple[str, str], ...]:
        """What tells a body derived this way from the standard one."""
        return () if self is Derivatives.STANDARD else (("derivatives", self.value),)


def derivatives(ieee: bool) -> Derivatives:
    """What the keyword `ieee_derivatives` asks for."""
    return Derivatives.IEEE if ieee else Derivatives.STANDARD


class Sign(IntEnum):
    """What is known of a value; each claim implies those before it. NaN is not considered."""

    UNKNOWN = 0
    NONNEGATIVE = 1
    EVEN = 2  # and flat wherever it is 0, as a sum of squares is
    POSITIVE = 3


class Square(NamedTuple):
    """A node that is an even power of a root: r²ᵏ, r = √s, |x| or hypot(x, y), whose derivative is that of sᵏ.

    `radicand` maps the values `operands` to s.
    """

    radicand: Graph
    operands: tuple[int, ...]
    half: int


class Slopes:
    """Per value: does the node that makes it multiply by chain_mul going forward, or back; roots and their squares."""

    __slots__ = ("backward", "even_roots", "forward", "squares")

    def __init__(self, count: int) -> None:
        self.forward = bytearray(count)
        self.backward = bytearray(count)
        self.even_roots: set[int] = set()
        self.squares: dict[int, Square] = {}

    def heeds(self, op: Op, out: int) -> bool:
        """Whether the reverse mode of the node that makes `out` differs from what its rule says."""
        return bool(self.backward[out]) or out in self.squares or (op is SQRT and out in self.even_roots)


def slopes_of(graph: Graph, mode: Derivatives) -> Slopes | None:
    """What the policy must heed in this graph; None when nothing, which is decided from the set of ops alone."""
    if mode is Derivatives.IEEE:
        return None
    ops: set[Op] = {node[0] for node in graph.nodes}
    if mode is Derivatives.STANDARD and not any([_matters(op, ops) for op in ops]):
        return None
    found = Slopes(len(graph.types))
    signs = bytearray(len(graph.types))
    poles: set[int] = set()
    _walk(graph, ops, found, signs, poles, guarded=mode is Derivatives.GUARDED)
    _send_back(graph, found, poles, guarded=mode is Derivatives.GUARDED)
    return found


def _matters(op: Op, ops: set[Op]) -> bool:
    rule = op.diff
    if op in _ROOTS:
        return True
    if rule.__class__ is Elementwise:
        return rule.slope is not Slope.FINITE  # type: ignore[union-attr]
    return rule.__class__ is HigherOrder and MUL in ops  # a norm times itself


def _walk(graph: Graph, ops: set[Op], found: Slopes, signs: bytearray, poles: set[int], *, guarded: bool) -> None:
    """Forward: signs, poles, what may be infinite because of them, squares of roots."""
    infinite = found.forward
    roots: dict[int, Node] = {}
    for id in graph.inputs if guarded else ():
        infinite[id] = 1
    for node in graph.nodes:
        op, ins, outs, _, _ = node
        sign = _sign(graph, node, signs)
        if sign:
            for id in outs:
                signs[id] = sign
        rule = op.diff
        slope = _slope(node, signs) if rule.__class__ is Elementwise else Slope.FINITE
        if op is SQRT and signs[ins[0]] == Sign.EVEN:
            found.even_roots.add(outs[0])
        if slope is not Slope.FINITE or any([infinite[id] for id in ins]):
            for id in outs:
                infinite[id] = 1
        if slope is Slope.POLE:
            poles.add(outs[0])
        if op in _ROOTS or rule.__class__ is HigherOrder:
            roots[outs[0]] = node
        elif roots and (half := _even_power(node)) and ins[0] in roots:
            square = _square(graph, roots[ins[0]], half)
            if square is not None:
                found.squares[outs[0]] = square


def _send_back(graph: Graph, found: Slopes, poles: set[int], *, guarded: bool) -> None:
    """Backward: a pole sends back what may be infinite, and so does every node between it and the inputs."""
    infinite, reached = found.forward, found.backward
    reached[:] = infinite
    if not poles and not guarded:
        return
    sends = bytearray(len(graph.types))
    for id in graph.outputs if guarded else ():
        sends[id] = 1
    for _, ins, outs, _, _ in reversed(graph.nodes):
        if any([sends[id] for id in outs]):
            for id in outs:
                reached[id] = 1
        elif outs[0] not in poles:
            continue
        for id in ins:
            sends[id] = 1


def _slope(node: Node, signs: Sequence[int]) -> Slope:
    """Where the partials of an elementwise node are finite, its operands being what they are."""
    op, ins, _, params, _ = node
    rule = op.diff
    assert isinstance(rule, Elementwise)
    slope = rule.slope
    if slope is Slope.FINITE:
        return slope
    if not isinstance(slope, Slope):
        slope = slope(params)
    if slope is not Slope.POLE:
        return slope
    if op is POW:
        return Slope.OVERFLOWS if signs[ins[0]] == Sign.POSITIVE else slope
    needed = _HARMLESS.get(op)
    return Slope.FINITE if needed is not None and signs[ins[-1]] >= needed else slope


# What must be known of the last operand for a pole to be out of reach; that of √ at 0 is taken care of by itself.
_HARMLESS = MappingProxyType(
    {
        DIV: Sign.POSITIVE,
        LOG: Sign.POSITIVE,
        RSQRT: Sign.POSITIVE,
        SQRT: Sign.EVEN,
        LOG1P: Sign.NONNEGATIVE,
    }
)


# -- slopes of roots and of their squares ------------------------------------------------------------------------------
def even_root_slope(y: Any) -> Any:
    """½/y, and 0 where y = √s is 0 and s is flat there: the least subgradient, as of |x| = √x²."""
    zero = zeros_of(type_of(y))
    return bind1(SELECT, NO_PARAMS, apply1(EQ, stop_gradient(y), zero), zero, apply1(DIV, full_like(y, 0.5), y))


def power_slope(s: Any, n: int) -> Any:
    """n · s^(n-1)."""
    return apply1(MUL, full_like(s, n), bind1(INTEGER_POW, Exponent(n - 1), s))


# -- signs -------------------------------------------------------------------------------------------------------------
# Ops whose result has the sign of their operands, all of them; the first entry only for those that read positions.
_SAME = frozenset(
    {RESHAPE, TRANSPOSE, BROADCAST, REVERSE, SLICE, CONCATENATE, REDUCE_MAX, REDUCE_MIN, STOP_GRADIENT, MIN}
)


def _sign(graph: Graph, node: Node, signs: Sequence[int]) -> int:
    op, ins, outs, params, _ = node
    if not graph.types[outs[0]].dtype.is_float:
        return 0
    if op is FULL:
        return _sign_of_number(params)
    rule = _SIGNS.get(op)
    if rule is not None:
        return rule(params, [signs[id] for id in ins])
    if op in _SAME:
        return min([signs[id] for id in ins], default=0)
    if op is REDUCE_SUM:
        return signs[ins[0]] if graph.types[ins[0]].size else Sign.EVEN
    if op is MUL:
        return Sign.EVEN if ins[0] == ins[1] else _product([signs[id] for id in ins])
    if op is DOT_GENERAL:
        return _sign_of_dot(graph, node)
    if op is CONVERT:
        source, target = graph.types[ins[0]].dtype, graph.types[outs[0]].dtype
        held = signs[ins[0]] if source.is_float and target.is_float else 0
        return held if target.width >= source.width else min(held, Sign.EVEN)
    if isinstance(params, Composed):
        return _sign_of_body(params.body, [signs[id] for id in ins])
    return 0


def _sign_of_number(fill: Any) -> int:
    if fill.bits >> (fill.dtype.width - 1):
        return Sign.UNKNOWN
    return Sign.POSITIVE if fill.bits else Sign.EVEN


def _sum(params: Any, signs: list[int]) -> int:
    least, most = min(signs), max(signs)
    return least if least == 0 or most < Sign.POSITIVE else Sign.POSITIVE


def _product(signs: list[int]) -> int:
    return min(min(signs), Sign.EVEN)  # a product of positive numbers may underflow


def _quotient(params: Any, signs: list[int]) -> int:
    x, y = signs
    return min(x, Sign.EVEN) if y == Sign.POSITIVE else min(x, y, Sign.NONNEGATIVE)


def _power(params: Any, signs: list[int]) -> int:
    n = params.exponent
    if n % 2 == 0:
        return Sign.EVEN if n > 0 else Sign.NONNEGATIVE if n else Sign.POSITIVE
    return 0 if not signs[0] else Sign.EVEN if n > 1 else signs[0] if n == 1 else Sign.NONNEGATIVE


def _largest(params: Any, signs: list[int]) -> int:
    least, most = min(signs), max(signs)
    return most if most == Sign.POSITIVE else least if least else min(most, Sign.NONNEGATIVE)


def _clamped(params: Any, signs: list[int]) -> int:
    low, _, high = signs
    return Sign.POSITIVE if low == high == Sign.POSITIVE else min(low, high, Sign.NONNEGATIVE)


_SIGNS = MappingProxyType(
    {
        ADD: _sum,
        DIV: _quotient,
        INTEGER_POW: _power,
        MAX: _largest,
        CLAMP: _clamped,
        ABS: lambda params, signs: Sign.NONNEGATIVE,
        HYPOT: lambda params, signs: Sign.NONNEGATIVE,
        SQUARE: lambda params, signs: Sign.EVEN,
        COSH: lambda params, signs: Sign.POSITIVE,
        EXP: lambda params, signs: Sign.NONNEGATIVE,
        LOGISTIC: lambda params, signs: Sign.NONNEGATIVE,
        SQRT: lambda params, signs: Sign.POSITIVE if signs[0] == Sign.POSITIVE else Sign.NONNEGATIVE,
        SELECT: lambda params, signs: min(signs[1:]),
        GATHER: lambda params, signs: min(signs[0], Sign.EVEN),
    }
)


def _sign_of_dot(graph: Graph, node: Node) -> int:
    """x · x: every axis contracted with itself or paired."""
    _, ins, _, params, _ = node
    same = ins[0] == ins[1] and params.lhs_contract == params.rhs_contract and params.lhs_batch == params.rhs_batch
    whole = len(params.lhs_contract) + len(params.lhs_batch) == graph.types[ins[0]].rank
    return Sign.EVEN if same and whole else 0


def _sign_of_body(body: Graph, given: list[int]) -> int:
    return signs_of(body, given)[body.outputs[0]] if len(body.outputs) == 1 else 0


def signs_of(graph: Graph, given: Sequence[int]) -> bytearray:
    """The `Sign` of every value, those of the inputs given."""
    signs = bytearray(len(graph.types))
    for id, sign in zip(graph.inputs, given, strict=True):
        signs[id] = sign
    for node in graph.nodes:
        sign = _sign(graph, node, signs)
        if sign:
            for id in node.outputs:
                signs[id] = sign
    return signs


_ROOTS = frozenset({SQRT, ABS, HYPOT, EUCLIDEAN_NORM})


# -- squares of roots --------------------------------------------------------------------------------------------------
def _even_power(node: Node) -> int:
    """k where the node is x ↦ x²ᵏ, else 0."""
    op, ins, _, params, _ = node
    if op is MUL or op is SQUARE:
        return 1 if ins[0] == ins[-1] else 0
    if op is INTEGER_POW and params.exponent > 0 and params.exponent % 2 == 0:
        return params.exponent // 2
    return 0


def _square(graph: Graph, root: Node, half: int) -> Square | None:
    type = graph.types[root.inputs[0]] if root.inputs else None
    if type is None or not graph.types[root.outputs[0]].dtype.is_float or not type.dtype.is_float:
        return None
    if root.op is EUCLIDEAN_NORM:
        builder = Builder(name="norm²")
        x = builder.add_input(type)
        squares = builder.apply(MUL, NO_PARAMS, (x, x))
        radicand = builder.finish((builder.apply(REDUCE_SUM, Axes(root.params.attribute("axes")), (squares,)).id,))
    elif isinstance(root.params, Composed):
        radicand = _radicand(root.params.body)
    else:
        builder = Builder(name=f"{root.op.name}²")
        xs = [builder.add_input(type) for _ in root.inputs]
        if root.op is not SQRT:
            xs = [builder.apply(MUL, NO_PARAMS, (x, x)) for x in xs]
        s = xs[0] if len(xs) == 1 else builder.apply(ADD, NO_PARAMS, (xs[0], xs[1]))
        radicand = builder.finish((s.id,))
    return None if radicand is None else Square(radicand, root.inputs, half)


def _radicand(body: Graph) -> Graph | None:
    """What a body takes the root of in its last step, if it does."""
    if len(body.outputs) != 1:
        return None
    for node in reversed(body.nodes):
        if node.outputs[0] == body.outputs[0]:
            if node.op is not SQRT:
                return None
            return Graph(
                inputs=body.inputs, nodes=body.nodes, outputs=node.inputs, types=body.types, name=f"{body.name}²"
            )
    return None
