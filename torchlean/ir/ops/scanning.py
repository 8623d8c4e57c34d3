"""scan: a closed body run a fixed number of times over the leading axis of its inputs, with a carry.

Forward mode carries tangents beside the primals. Reverse mode is a forward scan that also stacks what each step must
remember, then a scan the other way round whose body is the body's own VJP; cotangents of constants ride in its carry.
`Save` says what is remembered: the carries that come in (the body runs once more), or the body's residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

from torchlean.ir.builder import bind, bind1, type_of
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.op import NO_PARAMS, Op, TypeFault
from torchlean.ir.ops.branches import all_mapped
from torchlean.ir.ops.closed import (
    Kept,
    apply,
    are_zero,
    arranged,
    chosen,
    forward_values,
    inlined,
    is_graph,
    keeping,
    require_carry,
    require_operands,
    spread_out,
)
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.cut import leading, move_axis
from torchlean.ir.ops.elementwise import ADD
from torchlean.ir.rules import Reverse, Structured, StructuredBatch
from torchlean.ir.types import TensorType
from torchlean.record import record


class Save(Enum):
    """What the forward pass of a derivative keeps for the reverse pass."""

    CARRIES = "carries"  # each step's incoming carry; the body is computed once more
    RESIDUALS = "residuals"  # everything the body's VJP reads; nothing is computed twice

    __hash__ = object.__hash__


@record
class Scan:
    """`body`: (constants, carry, one entry of each input) → (carry, one entry of each stacked result).

    `consts`, `carries`: how many of the operands are constants, then carries; the rest are scanned over. `length`: the
    number of steps. `reverse`: from the last entry to the first, results in the places of their inputs.
    """

    body: Graph
    consts: int
    carries: int
    length: int
    reverse: bool
    save: Save


def stacked_type(type: TensorType, length: int) -> TensorType:
    """The type of `length` entries, one after another along a new leading axis."""
    return TensorType((length, *type.shape), type.dtype)


def _type_rule(params: Scan, *types: TensorType) -> tuple[TensorType, ...]:
    consts, carries, length = params.consts, params.carries, params.length
    body = params.body
    if not is_graph(body) or min(consts, carries, length) < 0 or consts + carries > len(types):
        raise TypeFault(
            f"{consts} constants, {carries} carries and {length} steps do not describe {len(types)} operands",
            expected="counts of at least 0, together at most the number of operands, and a length of at least 0",
            got=f"consts {consts}, carries {carries}, length {length}, {len(types)} operands",
            fix="call ops.scan, which works them out",
        )
    entries = list(types[: consts + carries])
    for position, type in enumerate(types[consts + carries :]):
        if not type.shape or type.shape[0] != length:
            raise TypeFault(
                f"input {position} does not have {length} entries",
                expected=f"a leading axis of {length}",
                got=str(type),
                fix="scan over inputs of one length, the number of steps",
            )
        entries.append(TensorType(type.shape[1:], type.dtype))
    require_operands("body", body, entries)
    made = body.output_types
    require_carry("scan", made[:carries], types[consts : consts + carries])
    return (*made[:carries], *[stacked_type(type, length) for type in made[carries:]])


def _denote(algebra: Any, params: Scan, *operands: Any) -> tuple[Any, ...]:
    """The loop."""
    first = params.consts + params.carries
    consts, carry, xs = operands[: params.consts], operands[params.consts : first], operands[first:]
    rows: list[tuple[Any, ...]] = []
    for step in steps(params):
        made = denote(params.body, (*consts, *carry, *[_entry(algebra, x, step) for x in xs]), algebra)
        carry, row = made[: params.carries], made[params.carries :]
        rows.append(row)
    if params.reverse:
        rows.reverse()
    types = params.body.output_types[params.carries :]
    if not rows:
        empty = [np.zeros((0, *type.shape), dtype=type.dtype.carrier) for type in types]
        return (*carry, *[algebra.constant(array) for array in empty])
    columns = [algebra.shape(lambda *vs: np.stack(vs), *column) for column in zip(*rows, strict=True)]
    return (*carry, *columns)


def steps(params: Scan) -> range:
    """The positions in the order they are visited."""
    return range(params.length - 1, -1, -1) if params.reverse else range(params.length)


def _entry(algebra: Any, x: Any, step: int) -> Any:
    return algebra.shape(lambda v: v[step, ...], x)


# -- forward mode ------------------------------------------------------------------------------------------------------
def _jvp(recurse: Any, params: Scan, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    consts, carries, body = params.consts, params.carries, params.body
    first = consts + carries
    active = [tangent is not None for tangent in tangents]
    while True:  # a carry that is moved after a step must be carried with a tangent from the start
        pushed, moved = recurse(body, tuple(active))
        grown = [a or b for a, b in zip(active[consts:first], moved[:carries], strict=True)]
        if grown == active[consts:first]:
            break
        active[consts:first] = grown
    tangents = [
        zeros_of(type_of(x)) if a and t is None else t for a, x, t in zip(active, primals, tangents, strict=True)
    ]
    count = len(body.inputs)
    with_tangent = spread_out(active, pushed.inputs[count:])
    outs = len(body.outputs)
    found = spread_out(moved, pushed.outputs[outs:])
    leaving = [type if id is None else id for type, id in zip(body.output_types, found, strict=True)]

    def interleaved(plain: Sequence[Any], beside: Sequence[Any]) -> list[Any]:
        made: list[Any] = []
        for start, stop in ((0, consts), (consts, first), (first, count)):
            made += [*plain[start:stop], *chosen(active[start:stop], beside[start:stop])]
        return made

    out_moved = [*active[consts:first], *moved[carries:]]
    outputs = [
        *pushed.outputs[:carries],
        *chosen(out_moved[:carries], leaving[:carries]),
        *pushed.outputs[carries:outs],
        *chosen(out_moved[carries:], leaving[carries:]),
    ]
    graph = arranged(pushed, interleaved(pushed.inputs[:count], with_tangent), outputs)
    more, wider = sum(active[:consts]), sum(active[consts:first])
    made = bind(
        SCAN,
        Scan(graph, consts + more, carries + wider, params.length, params.reverse, params.save),
        *interleaved(primals, tangents),
    )
    ends = carries + wider, carries + wider + outs - carries
    results = [*made[:carries], *made[ends[0] : ends[1]]]
    return results, spread_out(out_moved, [*made[carries : ends[0]], *made[ends[1] :]])


# -- reverse mode ------------------------------------------------------------------------------------------------------
def _kept(reverse: Reverse, params: Scan, wrt: tuple[int, ...], seeded: Sequence[int]) -> Kept:
    """What a step of the reverse pass remembers of the step before, and what it computes from that."""
    body = params.body
    full = reverse.vjp(body, wrt, with_outputs=True, seeded=seeded)
    return keeping(body, full, forward_values(full, len(body.outputs)) if params.save is Save.RESIDUALS else ())


def _vjp(reverse: Reverse, params: Scan, primals: Any, cotangents: Any, wrt: tuple[int, ...], extend: Any) -> list[Any]:
    consts, carries = params.consts, params.carries
    first, count = consts + carries, len(primals)
    flags, leaving = _fixed_point(reverse.active, params, [at in wrt for at in range(count)])
    active = tuple([at for at in range(count) if flags[at]])

    # The cotangents: of the carries that have one, of the stacked results that got one; of constants, in sums.
    outs, types = len(params.body.outputs), params.body.output_types
    turning = [at for at in range(carries) if flags[consts + at]]
    seeded = [at for at in range(carries, outs) if leaving[at] and cotangents[at] is not None]
    forward, remembered, late = _kept(reverse, params, active, [*turning, *seeded])
    reached = [at for at, is_zero in zip(active, are_zero(late), strict=True) if not is_zero]
    summed = [at for at in reached if at < consts]
    scanned = [at for at in reached if at >= first]

    # Where each remembered value comes from: an operand, a constant computed once, or one saved at every step.
    inputs = {id: at for at, id in enumerate(forward.inputs)}
    fixed = _from_constants(forward, consts)
    hoisted = [id for id in remembered if fixed[id] and id not in inputs]
    saved = [id for id in remembered if not fixed[id] and (id not in inputs or inputs[id] < first)]
    stacks: Sequence[Any] = ()
    if saved:
        body = arranged(forward, forward.inputs, [*forward.outputs, *saved])
        stacks = extend(Scan(body, consts, carries, params.length, params.reverse, params.save))
    once = apply(arranged(forward, forward.inputs[:consts], hoisted), primals[:consts]) if hoisted else []
    source = dict(zip([*hoisted, *saved], [*once, *stacks], strict=True))
    source |= {id: primals[at] for id, at in inputs.items() if id not in source}
    loose = [id for id in remembered if fixed[id]]
    rows = [id for id in remembered if not fixed[id]]

    def step(*given: Any) -> list[Any]:
        remaining = iter(given)

        def taken(keys: Sequence[int]) -> dict[int, Any]:
            return {key: next(remaining) for key in keys}

        known = taken(loose)
        seeds = taken(turning)
        sums = taken(summed)
        known |= taken(rows)
        seeds |= taken(seeded)
        reads = [*[known[id] for id in remembered], *[seeds[at] for at in (*turning, *seeded)]]
        made = dict(zip(active, apply(late, reads), strict=True))
        added = [bind1(ADD, NO_PARAMS, sums[at], made[at]) for at in summed]
        return [*[made[consts + at] for at in turning], *added, *[made[at] for at in scanned]]

    starts = [zeros_of(types[at]) if cotangents[at] is None else cotangents[at] for at in turning]
    starts += [zeros_of(type_of(primals[at])) for at in summed]
    carried = [source[id] for id in loose], starts
    over = [*[source[id] for id in rows], *[cotangents[at] for at in seeded]]
    entry_types = [type_of(x).with_shape(type_of(x).shape[1:]) for x in over]
    graph = inlined(step, [*[type_of(x) for part in carried for x in part], *entry_types], f"{params.body.name}.vjp")
    back = Scan(graph, len(loose), len(starts), params.length, not params.reverse, params.save)
    made = bind(SCAN, back, *carried[0], *carried[1], *over) if graph.outputs else ()
    found = dict(zip([*[consts + at for at in turning], *summed, *scanned], made, strict=True))
    return [found.get(at) if at in wrt else None for at in range(count)]


def _fixed_point(active: Any, params: Scan, flags: Sequence[bool]) -> tuple[list[bool], list[bool]]:
    """Flags of the operands, carries included that become active after a step, and of the body's results."""
    consts, first = params.consts, params.consts + params.carries
    flags = list(flags)
    while True:
        leaving = list(active(params.body, flags))
        grown = [a or b for a, b in zip(flags[consts:first], leaving[: params.carries], strict=True)]
        if grown == flags[consts:first]:
            return flags, leaving
        flags[consts:first] = grown


def _active(active: Any, params: Scan, flags: Sequence[bool]) -> list[bool]:
    inside, leaving = _fixed_point(active, params, flags)
    carries = inside[params.consts : params.consts + params.carries]
    return [*carries, *leaving[params.carries :]]


def _from_constants(graph: Graph, consts: int) -> bytearray:
    """1 for each value that depends on no input but the first `consts`."""
    fixed = bytearray(len(graph.types))
    for id in graph.inputs[:consts]:
        fixed[id] = 1
    for node in graph.nodes:
        if all([fixed[id] for id in node.inputs]):
            for id in node.outputs:
                fixed[id] = 1
    return fixed


# -- batching ----------------------------------------------------------------------------------------------------------
def _batch(recurse: Any, params: Scan, size: int, operands: Any, mapped: Any) -> tuple[list[Any], list[bool]]:
    consts, carries = params.consts, params.carries
    first = consts + carries
    marks = list(mapped)
    while True:  # a carry that is mapped after a step is mapped from the start
        graph, flags = recurse(params.body, size, tuple(marks))
        grown = [a or b for a, b in zip(marks[consts:first], flags[:carries], strict=True)]
        if grown == marks[consts:first]:
            break
        marks[consts:first] = grown
    wanted = [*marks[consts:first], *flags[carries:]]
    body = all_mapped(graph, size, flags, wanted)
    placed = [
        leading(x, size, m) if want and at < first else move_axis(x, 0, 1) if m and at >= first else x
        for at, (x, m, want) in enumerate(zip(operands, mapped, marks, strict=True))
    ]
    made = bind(SCAN, Scan(body, consts, carries, params.length, params.reverse, params.save), *placed)
    stacked = [move_axis(x, 1, 0) if m else x for x, m in zip(made[carries:], wanted[carries:], strict=True)]
    return [*made[:carries], *stacked], wanted


SCAN = Op(
    name="scan",
    params=Scan,
    type_rule=_type_rule,
    denote=_denote,
    diff=Structured(jvp=_jvp, vjp=_vjp, active=_active),
    batch=StructuredBatch(_batch),
    reduces=False,
    doc="Run a body along the leading axis of its inputs with a carry; the last carry, and the results stacked.",
)

OPS = (SCAN,)
