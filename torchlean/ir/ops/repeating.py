"""while: a closed body repeated as long as a closed condition holds.

Forward mode carries tangents beside the primals. There is no reverse mode: the number of steps, and so what would have
to be remembered, is unknown. Mapped over a condition, the body runs until no example asks for more; an example that is
done keeps its carry, by `select`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlean.ir.builder import bind, bind1, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.op import NO_PARAMS, Op, TypeFault
from torchlean.ir.ops.branches import all_mapped, per_example
from torchlean.ir.ops.closed import (
    apply,
    arranged,
    chosen,
    inlined,
    is_graph,
    require_carry,
    require_operands,
    spread_out,
    unwatched,
)
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.cut import leading
from torchlean.ir.ops.elementwise import CONVERT, GT, Target
from torchlean.ir.ops.spread import REDUCE_SUM, Axes
from torchlean.ir.rules import NoReverse, Structured, StructuredBatch
from torchlean.ir.types import TensorType, show_types
from torchlean.record import record

PREDICATE = TensorType((), DType.BOOL)


@record
class While:
    """`condition`: (its constants, carry) → bool; `body`: (its constants, carry) → carry.

    The operands are the constants of the condition, those of the body, then the carry.
    """

    condition: Graph
    body: Graph
    condition_consts: int
    body_consts: int


def _parts(params: While, entries: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """The condition's constants, the body's, and the carry."""
    first = params.condition_consts
    second = first + params.body_consts
    return list(entries[:first]), list(entries[first:second]), list(entries[second:])


def _type_rule(params: While, *types: TensorType) -> tuple[TensorType, ...]:
    counts = params.condition_consts, params.body_consts
    if not is_graph(params.condition) or not is_graph(params.body) or min(counts) < 0 or sum(counts) > len(types):
        raise TypeFault(
            f"{counts[0]} and {counts[1]} constants do not describe {len(types)} operands",
            expected="counts of at least 0, together at most the number of operands",
            got=f"condition_consts {counts[0]}, body_consts {counts[1]}, {len(types)} operands",
            fix="call ops.while_loop, which works them out",
        )
    mine, theirs, carry = _parts(params, types)
    require_operands("condition", params.condition, [*mine, *carry])
    require_operands("body", params.body, [*theirs, *carry])
    if params.condition.output_types != (PREDICATE,):
        raise TypeFault(
            "the condition is no single boolean",
            expected=str(PREDICATE),
            got=show_types(params.condition.output_types) or "nothing",
            fix="compare, and reduce an array of booleans to one",
        )
    require_carry("while", params.body.output_types, carry)
    return tuple(carry)


def _denote(algebra: Any, params: While, *operands: Any) -> tuple[Any, ...]:
    mine, theirs, carry = _parts(params, operands)
    while True:
        (goes_on,) = denote(params.condition, (*mine, *carry), algebra)
        if not bool(np.asarray(algebra.exact(lambda p: p, goes_on))):
            return tuple(carry)
        carry = list(denote(params.body, (*theirs, *carry), algebra))


def _jvp(recurse: Any, params: While, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    _, consts, carry = _parts(params, primals)
    _, const_tangents, carry_tangents = _parts(params, tangents)
    active = [tangent is not None for tangent in carry_tangents]
    beside = [tangent is not None for tangent in const_tangents]
    while True:  # a carry that is moved after a step must be carried with a tangent from the start
        pushed, moved = recurse(params.body, (*beside, *active))
        grown = [a or b for a, b in zip(active, moved, strict=True)]
        if grown == active:
            break
        active = grown
    first, count, outs = len(consts), len(params.body.inputs), len(carry)
    with_tangent = spread_out([*beside, *active], pushed.inputs[count:])
    found = spread_out(moved, pushed.outputs[outs:])
    leaving = [type if id is None else id for type, id in zip(params.body.output_types, found, strict=True)]
    body = arranged(
        pushed,
        [
            *pushed.inputs[:first],
            *chosen(beside, with_tangent[:first]),
            *pushed.inputs[first:count],
            *chosen(active, with_tangent[first:]),
        ],
        [*pushed.outputs[:outs], *chosen(active, leaving)],
    )
    condition = params.condition
    unread = chosen(active, params.body.output_types)
    condition = arranged(condition, [*condition.inputs, *unread], condition.outputs)
    starts = [zeros_of(type_of(x)) if t is None else t for x, t in zip(carry, carry_tangents, strict=True)]
    made = bind(
        WHILE,
        While(condition, body, params.condition_consts, first + sum(beside)),
        *primals[: params.condition_consts + first],
        *chosen(beside, const_tangents),
        *carry,
        *chosen(active, starts),
    )
    return list(made[:outs]), spread_out(active, made[outs:])


def _active(active: Any, params: While, flags: Sequence[bool]) -> list[bool]:
    _, consts, carry = _parts(params, flags)
    while True:
        grown = [a or b for a, b in zip(carry, active(params.body, [*consts, *carry]), strict=True)]
        if grown == carry:
            return grown
        carry = grown


def _batch(recurse: Any, params: While, size: int, operands: Any, mapped: Any) -> tuple[list[Any], list[bool]]:
    mine, theirs, carry = _parts(params, operands)
    my_marks, their_marks, marks = _parts(params, mapped)
    while True:  # a carry that is mapped after a step is mapped from the start; if the condition is, so is all of it
        body, flags = recurse(params.body, size, (*their_marks, *marks))
        condition, (asked,) = recurse(params.condition, size, (*my_marks, *marks))
        grown = [asked or a or b for a, b in zip(marks, flags, strict=True)]
        if grown == marks:
            break
        marks = grown
    body = all_mapped(body, size, flags, marks)
    was = _parts(params, mapped)[2]
    carry = [leading(x, size, m or not want) for x, m, want in zip(carry, was, marks, strict=True)]
    if not asked:
        made = bind(WHILE, While(condition, body, len(mine), len(theirs)), *mine, *theirs, *carry)
        return list(made), marks
    condition, body = unwatched(condition), unwatched(body)

    def any_left(*given: Any) -> list[Any]:
        (each,) = apply(condition, given)
        total = bind1(REDUCE_SUM, Axes((0,)), bind1(CONVERT, Target(DType.I32), each))
        return [bind1(GT, NO_PARAMS, total, zeros_of(type_of(total)))]

    def step(*given: Any) -> list[Any]:
        before = given[len(mine) + len(theirs) :]
        (each,) = apply(condition, [*given[: len(mine)], *before])
        after = apply(body, given[len(mine) :])
        return [per_example(each, new, old) for new, old in zip(after, before, strict=True)]

    types = [type_of(x) for x in (*mine, *theirs, *carry)]
    whole = While(
        inlined(any_left, condition.input_types, condition.name),
        inlined(step, types, body.name),
        len(mine),
        len(mine) + len(theirs),
    )
    return list(bind(WHILE, whole, *mine, *mine, *theirs, *carry)), marks


WHILE = Op(
    name="while",
    params=While,
    type_rule=_type_rule,
    denote=_denote,
    diff=Structured(
        jvp=_jvp,
        vjp=NoReverse(
            "the number of steps is known only when it runs, and so is what would have to be remembered",
            "use ops.scan with a fixed length (ops.fori_loop with Python integers as bounds is one), "
            "or ops.stop_gradient if no gradient is wanted",
        ),
        active=_active,
    ),
    batch=StructuredBatch(_batch),
    reduces=False,
    doc="Repeat a body on a carry while a condition on the carry holds.",
)

OPS = (WHILE,)
