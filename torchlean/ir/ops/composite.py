"""Composites: named bodies made of ops. Type, meaning, derivative and batching come from the body.

A call traces the body once per (attributes, operand types) and emits one node; the planner runs a fused capsule for it
or expands the body. Its gradient is a `<name>.vjp` composite node with a derived body, treated the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlean.errors import InternalError, TypeRuleError
from torchlean.ir.builder import Value, answerer, type_of
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.rules import HigherOrder, HigherOrderBatch
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, show_types
from torchlean.record import record


@record(compared=("attributes",))
class Composed:
    """`attributes`: the static arguments; `body`: the closed graph they and the operand types determine."""

    attributes: tuple[tuple[str, Any], ...]
    body: Graph

    def attribute(self, name: str) -> Any:
        """A static argument by name."""
        for key, value in self.attributes:
            if key == name:
                return value
        raise KeyError(name)


@record(eq=False)
class Composite(Op):
    """An op defined by a traceable `function(*operands, **attributes)`; `gradient` is its `.vjp` op."""

    function: Callable[..., Any]
    gradient: Op | None


def _type_rule(params: Composed, *types: TensorType) -> tuple[TensorType, ...]:
    if types != params.body.input_types:
        raise TypeFault(
            "operands do not fit the body",
            expected=show_types(params.body.input_types),
            got=show_types(types),
            fix="call the composite again for these operands",
        )
    return params.body.output_types


def _denote(algebra: Any, params: Composed, *arrays: Any) -> tuple[Any, ...]:
    return denote(params.body, arrays, algebra)


def _jvp(recurse: Any, params: Composed, primals: Any, tangents: Any, outputs: Any) -> list[Any]:
    active = tuple([tangent is not None for tangent in tangents])
    graph, out_active = recurse(params.body, active)
    present = tuple([tangent for tangent in tangents if tangent is not None])
    made = list(answerer().evaluate(graph, (*primals, *present))[len(params.body.outputs) :])
    return [made.pop(0) if is_active else None for is_active in out_active]


def _vjp_inlined(
    recurse: Any, op: Op, params: Composed, primals: Any, cotangents: Any, wrt: tuple[int, ...]
) -> list[Any]:
    graph = recurse(params.body, wrt)
    made = dict(zip(wrt, answerer().evaluate(graph, (*primals, *cotangents)), strict=True))
    return [made.get(position) for position in range(len(primals))]


def _vjp_as_node(
    recurse: Any, op: Op, params: Composed, primals: Any, cotangents: Any, wrt: tuple[int, ...]
) -> list[Any]:
    assert isinstance(op, Composite)
    assert op.gradient is not None
    current = answerer()
    bodies = current.bodies
    attributes = (("wrt", wrt), *recurse.variant, *params.attributes)  # a body derived otherwise is another node
    key = (op.gradient, attributes, params.body.input_types)
    derived = bodies.get(key)
    if derived is None:
        derived = Composed(attributes, recurse(params.body, wrt))
        bodies[key] = derived
    results = current.bind(op.gradient, derived, (*primals, *cotangents))
    made = dict(zip(wrt, results, strict=True))
    return [made.get(position) for position in range(len(primals))]


def _batch(recurse: Any, params: Composed, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    return answerer().evaluate(recurse(params.body, size, tuple(mapped)), tuple(operands))


def _gradient_of(name: str, reduces: bool) -> Composite:
    return Composite(
        name=f"{name}.vjp",
        params=Composed,
        type_rule=_type_rule,
        denote=_denote,
        diff=HigherOrder(jvp=_jvp, vjp=_vjp_inlined),
        batch=HigherOrderBatch(_batch),
        reduces=reduces,
        doc=f"Cotangents of {name}'s operands from its operands and the cotangents of its results.",
        function=_no_function,
        gradient=None,
    )


def _no_function(*operands: Any, **attributes: Any) -> Any:
    raise InternalError("a derived composite has no function of its own")


def composite(
    name: str, function: Callable[..., Any], *, reduces: bool, reduces_in_gradient: bool, doc: str
) -> Composite:
    """A composite op whose body is `function(*operands, **attributes)`: pure, and fixed by attributes and types.

    `reduces` (and `reduces_in_gradient`, for its `.vjp`) say whether a value depends on a summation order; a body that
    contains a reduction while this is False is an InternalError when it is traced.
    """
    return Composite(
        name=name,
        params=Composed,
        type_rule=_type_rule,
        denote=_denote,
        diff=HigherOrder(jvp=_jvp, vjp=_vjp_as_node),
        batch=HigherOrderBatch(_batch),
        reduces=reduces,
        doc=doc,
        function=function,
        gradient=_gradient_of(name, reduces_in_gradient),
    )


def call(op: Composite, *operands: Any, **attributes: Any) -> Any:
    """Apply a composite to tensors; attributes are static and hashable. One result, or a tuple of them."""
    current = answerer()
    bodies = current.bodies
    key = (op, tuple(attributes.items()), tuple([type_of(operand) for operand in operands]))
    params = bodies.get(key)
    if params is None:
        params = Composed(key[1], _trace_body(op, key[2], attributes))
        bodies[key] = params
    results = current.bind(op, params, operands)
    return results[0] if len(results) == 1 else results


def _trace_body(op: Composite, types: tuple[TensorType, ...], attributes: dict[str, Any]) -> Graph:
    def flat(*values: Value) -> tuple[Any, ...]:
        made = op.function(*values, **attributes)
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    try:
        traced = trace_flat(flat, types, name=op.name)
    except TypeRuleError as error:  # of an op the user has not called
        if str(error).startswith(op.name):
            raise
        raise TypeRuleError(f"{op.name} of {show_types(types)}: {error}") from None
    if traced.captured:
        raise InternalError(f"composite {op.name} uses a value that is not an operand: {traced.captured[0]!r}")
    if not op.reduces and any(node.op.reduces for node in traced.graph.nodes):
        raise InternalError(f"composite {op.name} says it does not reduce, but its body does")
    return traced.graph
