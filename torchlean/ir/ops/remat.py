"""checkpoint: a closed part of a program whose intermediate values are computed again by its derivative.

It is a node with a sub-graph in every pass: forward, the node gives its results and what its policy keeps; in reverse
another such node holds the forward values it computes again next to the VJP, and drops them when it is done. Because
both are closed, no equal node outside is shared with one inside, and nothing undoes the recomputation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from torchlean.ir.builder import bind
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph, Node
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.ops.closed import (
    apply,
    arranged,
    forward_values,
    is_graph,
    keeping,
    require_operands,
    spread_out,
)
from torchlean.ir.ops.composite import Composed
from torchlean.ir.ops.dot import DOT_GENERAL
from torchlean.ir.ops.window import CONV
from torchlean.ir.rules import Elementwise, Pointwise, Reverse, Structured, StructuredBatch, Unit
from torchlean.ir.types import TensorType
from torchlean.record import record


class Policy(Enum):
    """Which forward values a checkpointed part keeps for its derivative, besides its operands."""

    NOTHING = "nothing"
    DOTS = "dots"  # results of matrix products and convolutions
    NAMES = "names"
    EVERYTHING = "everything"

    __hash__ = object.__hash__


@record
class Checkpoint:
    """`body`: the part; `policy`: what is kept; `names`: the names kept under `Policy.NAMES`."""

    body: Graph
    policy: Policy
    names: tuple[str, ...]


def _type_rule(params: Checkpoint, *types: TensorType) -> tuple[TensorType, ...]:
    if not is_graph(params.body):
        raise TypeFault("there is no body", expected="a graph", got=repr(params.body)[:60], fix="call ops.checkpoint")
    require_operands("body", params.body, types)
    return params.body.output_types


def _jvp(recurse: Any, params: Checkpoint, primals: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
    pushed, moved = recurse(params.body, tuple([tangent is not None for tangent in tangents]))
    graph = arranged(pushed, pushed.inputs, pushed.outputs)
    present = [tangent for tangent in tangents if tangent is not None]
    made = bind(CHECKPOINT, Checkpoint(graph, params.policy, params.names), *primals, *present)
    outs = len(params.body.outputs)
    return list(made[:outs]), spread_out(moved, made[outs:])


def _vjp(
    reverse: Reverse, params: Checkpoint, primals: Any, cotangents: Any, wrt: tuple[int, ...], extend: Any
) -> list[Any]:
    body = params.body
    count, outs = len(body.inputs), len(body.outputs)
    seeded = [at for at, ct in enumerate(cotangents) if ct is not None]
    full = reverse.vjp(body, wrt, with_outputs=True, seeded=seeded)
    everything = params.policy is Policy.EVERYTHING
    wanted = forward_values(full, outs) if everything else list(_chosen(params))
    forward, values, late = keeping(body, full, wanted)
    operands = dict(zip(forward.inputs, primals, strict=True))
    saved = [id for id in values if id not in operands]
    if saved:
        kept = arranged(forward, forward.inputs, [*forward.outputs, *saved])
        operands |= dict(zip(saved, extend(Checkpoint(kept, params.policy, params.names)), strict=True))
    given = [*[operands[id] for id in values], *[cotangents[at] for at in seeded]]
    made = apply(late, given) if everything else bind(CHECKPOINT, Checkpoint(late, params.policy, params.names), *given)
    found = dict(zip(wrt, made, strict=True))
    return [found.get(position) for position in range(count)]


def _chosen(params: Checkpoint) -> Iterator[int]:
    """The values of the body that the policy keeps."""
    for node in params.body.nodes:
        if params.policy is Policy.DOTS and _multiplies(node):
            yield from node.outputs
        elif params.policy is Policy.NAMES and node.op is CHECKPOINT_NAME and node.params.name in params.names:
            yield from node.inputs  # the value itself, which derivatives read too; the name is an identity


def _multiplies(node: Node) -> bool:
    if isinstance(node.params, Composed):
        return any([_multiplies(inner) for inner in node.params.body.nodes])
    return node.op is DOT_GENERAL or node.op is CONV


def _active(active: Any, params: Checkpoint, flags: Sequence[bool]) -> Sequence[bool]:
    return active(params.body, flags)


def _batch(recurse: Any, params: Checkpoint, size: int, operands: Any, mapped: Any) -> tuple[list[Any], list[bool]]:
    graph, flags = recurse(params.body, size, tuple(mapped))
    body = arranged(graph, graph.inputs, graph.outputs)
    return list(bind(CHECKPOINT, Checkpoint(body, params.policy, params.names), *operands)), list(flags)


CHECKPOINT = Op(
    name="checkpoint",
    params=Checkpoint,
    type_rule=_type_rule,
    denote=lambda algebra, params, *operands: denote(params.body, operands, algebra),
    diff=Structured(jvp=_jvp, vjp=_vjp, active=_active),
    batch=StructuredBatch(_batch),
    reduces=False,
    doc="Its body applied to the operands; a derivative computes the body's values again instead of keeping them.",
)


@record
class Name:
    """`name`: what a policy calls the value by."""

    name: str


CHECKPOINT_NAME = Op(
    name="checkpoint_name",
    params=Name,
    type_rule=lambda params, x: (x,),
    denote=lambda algebra, params, x: (x,),
    diff=Elementwise((Unit.PLUS,)),
    batch=Pointwise(),
    reduces=False,
    doc="The operand, under a name that a checkpoint policy may keep it by.",
)

OPS = (CHECKPOINT, CHECKPOINT_NAME)
