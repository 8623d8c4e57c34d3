"""`checkify`: a function that returns its faults as a value instead of raising them, under every transform.

The function's graph is rewritten: for each thing that can go wrong, a mask of where it does, and the first place in the
mask as an integer. So the error is data like any result: it can be mapped, jitted, and carried as aux of a gradient.
Composites stay as they are, with their kernels and derivative rules; what they hold is checked beside them, on nodes a
plan shares with them. Bodies of control flow are not looked into: a `debug.check` in one still raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from functools import wraps
from types import MappingProxyType
from typing import Any

import numpy as np

from torchlean import pytree
from torchlean.errors import CheckFailed, message
from torchlean.ir import ops
from torchlean.ir.builder import CURRENT, Builder, Value, answerer
from torchlean.ir.flops import MOVES
from torchlean.ir.graph import Graph, Node, quiet
from torchlean.ir.location import SourceLocation
from torchlean.ir.op import EffectOp
from torchlean.ir.ops.composite import Composite
from torchlean.ir.ops.effect import CHECK, Message, failure, place_text
from torchlean.ir.ops.gather import Mode
from torchlean.ir.rules import Elementwise
from torchlean.ir.types import Shape, show_types
from torchlean.transforms.rewrite import dead_code_eliminated
from torchlean.transforms.trees import function_name, is_tensor, trace_tree

_INDEXED = frozenset({"gather", "scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"})
_DIVIDING = frozenset({"div", "rem", "remainder", "floor_divide"})  # the second operand divides


class Errors(Flag):
    """What `checkify` looks for; combine with `|`."""

    USER = auto()  # conditions stated with debug.check
    INDEX = auto()  # positions outside their axis, which reads would fill or clip and writes would drop
    DIV = auto()  # division by zero
    NAN = auto()  # a NaN made from operands without one
    ALL = USER | INDEX | DIV | NAN


@dataclass(frozen=True, slots=True)
class Stated:
    """One thing that is checked, known when the function is traced."""

    kind: Errors
    what: str  # op and operand types, or nothing for the user's own
    where: str
    shape: Shape  # of the mask
    message: Message | None  # of the user's own
    values: int  # how many of the error's values belong to it

    def text(self, position: int, values: Sequence[Any], example: Sequence[int]) -> str:
        """What went wrong at the row-major `position` of the mask, in an example of the vmaps around `checkify`."""
        if self.message is not None:
            return failure(self.message, position, self.shape, values, example)
        place = place_text([int(i) for i in np.unravel_index(position, self.shape)], example)
        if self.kind is Errors.INDEX:
            return f"index {int(values[0])} is outside {self.what}{place}"
        return f"{self.what} {'divides by 0' if self.kind is Errors.DIV else 'made NaN'}{place}"


@dataclass(frozen=True, slots=True)
class Error:
    """What went wrong, if anything: `get()` says it, `throw()` raises it. A tree of arrays, mapped like any result.

    `first`: for each of `stated` the row-major position of its first fault, or -1. `values`: what the texts name.
    """

    first: Any
    values: tuple[Any, ...]
    stated: tuple[Stated, ...]

    def get(self) -> str | None:
        """The first fault in program order (of the first example at fault, under vmap) with its line, or None."""
        found = self._found()
        return None if found is None else f"{found[0]} ({found[1].where})"

    def throw(self) -> None:
        """Raise CheckFailed if anything went wrong."""
        found = self._found()
        if found is None:
            return
        text, stated = found
        raise CheckFailed(
            message(
                text,
                expected=_EXPECTED[stated.kind],
                got=f"a fault of kind {stated.kind.name}",
                fix="look at the values on that line; debug.print shows them when the program runs",
                where=stated.where,
            )
        )

    def _found(self) -> tuple[str, Stated] | None:
        first = np.asarray(self.first)
        failing = np.argwhere(first >= 0)
        if not len(failing):
            return None
        *example, which = [int(i) for i in failing[0]]
        stated = self.stated[which]
        start = sum([before.values for before in self.stated[:which]])
        values = [np.asarray(value)[tuple(example)] for value in self.values[start : start + stated.values]]
        return stated.text(int(first[tuple(failing[0])]), values, example), stated

    def __repr__(self) -> str:
        if isinstance(self.first, Value):
            return f"Error(traced, {len(self.stated)} checks)"
        return f"Error({self.get() or f'none in {len(self.stated)} checks'})"


pytree.register_dataclass(Error, ("first", "values"), ("stated",))

_EXPECTED = MappingProxyType(
    {
        Errors.USER: "the condition to hold",
        Errors.INDEX: "positions in [0, the axis's size); only constant ones may be negative",
        Errors.DIV: "a divisor other than 0",
        Errors.NAN: "no NaN from operands without one",
    }
)


def checkify(f: Callable[..., Any], errors: Errors = Errors.USER) -> Callable[..., tuple[Error, Any]]:
    """`f`, returning (error, result): what `errors` names is returned as an Error, and nothing of it is raised.

    The result is what `f` computes; where the error is one, it need not mean anything. `jit(checkify(f))`,
    `vmap(checkify(f))` and `grad` of it (the error as aux) work, and so does `checkify` of a transformed function.
    """

    @wraps(f)
    def checked(*arguments: Any, **keywords: Any) -> tuple[Error, Any]:
        leaves, treedef = pytree.flatten((arguments, keywords))
        positions = [position for position, leaf in enumerate(leaves) if is_tensor(leaf)]
        traced = trace_tree(lambda t: (f(*t[0], **t[1]),), leaves, treedef, positions, name=function_name(f))
        graph, stated = checked_graph(traced.graph, errors)
        made = answerer().evaluate(graph, traced.operands)
        count = len(traced.graph.outputs)
        return Error(made[count], tuple(made[count + 1 :]), stated), traced.outs[0].rebuild(made[:count])

    return checked


def checked_graph(graph: Graph, errors: Errors) -> tuple[Graph, tuple[Stated, ...]]:
    """The graph with outputs (its own, positions i32[checks], values of the texts), and what was checked."""
    rewriting = _Rewriting(graph, errors)
    token = CURRENT.set(rewriting.builder)
    try:
        inputs = [rewriting.builder.add_input(type) for type in graph.input_types]
        outputs = rewriting.nodes(dead_code_eliminated(graph), inputs)
        rewriting.builder.where = None
        firsts = rewriting.firsts
        first = ops.stack(firsts) if firsts else ops.constant(np.zeros(0, dtype=np.int32))
        ids = [value.id for value in (*outputs, first, *rewriting.values)]
    finally:
        CURRENT.reset(token)
    return dead_code_eliminated(rewriting.builder.finish(tuple(ids))), tuple(rewriting.stated)


class _Rewriting:
    """A graph being copied with its checks."""

    def __init__(self, graph: Graph, errors: Errors) -> None:
        self.builder = Builder(name=graph.name)
        self.errors = errors
        self.stated: list[Stated] = []
        self.firsts: list[Any] = []
        self.values: list[Any] = []

    def nodes(
        self, graph: Graph, inputs: Sequence[Value], call: SourceLocation | None = None, acts: bool = True
    ) -> list[Value]:
        """Copy the nodes. In the body of a composite, `call` is the user's line, and `acts` says who prints: we do."""
        values: dict[int, Value] = dict(zip(graph.inputs, inputs, strict=True))
        for node in graph.nodes:
            ins = [values[id] for id in node.inputs]
            self.builder.where = call or node.where
            if node.op is CHECK and Errors.USER in self.errors:
                self.user(node, ins)
                continue
            if node.op.__class__ is EffectOp and not acts:
                continue
            outs = self.copied(graph, self.beside(node, ins, acts), ins)
            values.update(zip(node.outputs, outs, strict=True))
            self.check(node, ins, outs, in_body=call is not None)
        return [values[id] for id in graph.outputs]

    def copied(self, graph: Graph, node: Node, ins: Sequence[Value]) -> list[Value]:
        """The node itself."""
        placed = node._replace(where=self.builder.where or node.where)
        types = tuple([graph.types[id] for id in node.outputs])
        return [self.builder.value(id) for id in self.builder.emit_typed(placed, tuple([v.id for v in ins]), types)]

    def beside(self, node: Node, ins: Sequence[Value], acts: bool) -> Node:
        """Check what a composite holds, if anything; the node to use for its value."""
        if not isinstance(node.op, Composite):
            return node
        body: Graph = node.params.body
        takes_over = Errors.USER in self.errors and body.has_effects
        if takes_over or self.holds(body):
            self.nodes(body, ins, self.builder.where, acts and takes_over)
        return quiet(node) if body.has_effects and (takes_over or not acts) else node

    def holds(self, body: Graph) -> bool:
        """Whether a body, or one in it, has an op to be checked inside."""
        names = (_INDEXED if Errors.INDEX in self.errors else frozenset[str]()) | (
            _DIVIDING if Errors.DIV in self.errors else frozenset[str]()
        )
        return bool(names) and any(
            [
                node.op.name in names or (isinstance(node.op, Composite) and self.holds(node.params.body))
                for node in body.nodes
            ]
        )

    # -- what is checked ---------------------------------------------------------------------------------------------
    def user(self, node: Node, ins: Sequence[Value]) -> None:
        condition, *values = ins
        params: Message = node.params
        self.state(Errors.USER, "", params.where, ops.logical_not(condition), values, params)

    def check(self, node: Node, ins: Sequence[Value], outs: Sequence[Value], *, in_body: bool) -> None:
        name, where = node.op.name, str(self.builder.where)
        types = show_types(tuple([value.type for value in ins]))
        if name in _INDEXED and Errors.INDEX in self.errors:
            x, indices = ins[:2]
            axis = node.params.axis
            size = x.type.shape[axis]
            bad = ops.logical_or(ops.lt(indices, 0), ops.ge(indices, size))
            place = _first(bad)
            if place is not None:
                count = indices.type.size
                flat = ops.reshape(indices, (count,))
                worst = ops.take(flat, ops.max(place, 0), mode=Mode.CLIP)
                self.state(Errors.INDEX, f"axis {axis} of {name} of {types}", where, bad, [worst], None)
        if name in _DIVIDING and Errors.DIV in self.errors:
            self.state(Errors.DIV, f"{name} of {types}", where, ops.eq(ins[1], 0), (), None)
        if Errors.NAN in self.errors and not in_body and ins and name not in MOVES:
            for out in outs:
                if not (out.type.dtype.is_bool or out.type.dtype.is_integer):
                    self.state(Errors.NAN, f"{name} of {types}", where, _made_nan(node, ins, out), (), None)

    def state(
        self, kind: Errors, what: str, where: str, bad: Value, values: Sequence[Value], text: Message | None
    ) -> None:
        first = _first(bad)
        if first is None:
            return
        self.stated.append(Stated(kind, what, where, bad.type.shape, text, len(values)))
        self.firsts.append(first)
        self.values += values


def _first(bad: Value) -> Any:
    """i32[]: the row-major position of the first True, or -1; None when there are no entries."""
    count = bad.type.size
    if count == 0:
        return None
    flat = ops.convert(ops.reshape(bad, (count,)), "i32")
    return ops.select(ops.gt(ops.reduce_max(flat, (0,)), 0), ops.argmax(flat, 0), -1)


def _made_nan(node: Node, ins: Sequence[Value], out: Value) -> Any:
    """Where the result is NaN and the operands are not: entry by entry, or at all."""
    bad = ops.ne(out, out)
    for value in ins:
        if value.type.dtype.is_bool or value.type.dtype.is_integer:
            continue
        good = ops.eq(value, value)
        if not (isinstance(node.op.diff, Elementwise) and value.type.shape == out.type.shape):
            if value.type.size == 0:
                continue
            flat = ops.convert(ops.reshape(good, (value.type.size,)), "i32")
            good = ops.broadcast_to(ops.gt(ops.reduce_min(flat, (0,)), 0), out.type.shape)
        bad = ops.logical_and(bad, good)
    return bad
