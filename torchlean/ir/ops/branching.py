"""Branches as users call them, with JAX's names and argument order: cond, switch. Every branch is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torchlean import pytree
from torchlean.errors import StructureError, TypeRuleError, message, shown
from torchlean.ir.builder import bind, bind1, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph
from torchlean.ir.location import caller_location
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.branches import COND, Branches
from torchlean.ir.ops.calling import Body, given_tree, same_capture, traced_body
from torchlean.ir.ops.closed import apply, arranged
from torchlean.ir.ops.create import full, full_like
from torchlean.ir.ops.elementwise import CLAMP, convert
from torchlean.ir.types import TensorType


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands)` where the boolean scalar `pred` holds, else `false_fun(*operands)`; one of them runs.

    Both are traced, and must return equal structures and types. Under vmap with a mapped `pred` both run, and `select`
    chooses. Raises TypeRuleError for a `pred` that is no boolean scalar, and names both functions and the leaf where
    their results differ.
    """
    asked = given_tree("cond", "pred", pred)
    if pytree.is_leaf(pred) and asked.types == (TensorType((), DType.BOOL),):
        index = full((), int(pred)) if isinstance(pred, bool) else convert(pred, DType.I32)
        return _chosen("cond", index, (("true_fun", true_fun), ("false_fun", false_fun)), operands, backwards=True)
    got = str(asked.types[0]) if pytree.is_leaf(pred) else f"a {type(pred).__name__}"
    is_mask = pytree.is_leaf(pred) and asked.types[0].dtype.is_bool
    raise TypeRuleError(
        message(
            f"cond: the predicate is {got}",
            expected="bool[], one boolean",
            got=got,
            fix="choose entry by entry with ops.select, or map cond over the axis with vmap"
            if is_mask
            else "compare it, as in x > 0",
            where=str(caller_location()),
        )
    )


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    """`branches[index](*operands)` for an integer scalar `index`, clamped to the branches there are; one of them runs.

    All are traced, and must return equal structures and types.
    """
    if not isinstance(branches, Sequence) or not branches:
        raise TypeRuleError(
            message(
                "switch: there are no branches to choose from",
                expected="a list or tuple of at least one function",
                got=shown(branches),
                fix="pass the functions as a list",
                where=str(caller_location()),
            )
        )
    asked = given_tree("switch", "index", index)
    if not pytree.is_leaf(index) or asked.types[0].shape or not asked.types[0].dtype.is_integer:
        got = str(asked.types[0]) if pytree.is_leaf(index) else f"a {type(index).__name__}"
        raise TypeRuleError(
            message(
                f"switch: the index is {got}",
                expected="an integer scalar",
                got=got,
                fix="convert it with ops.convert(i, 'i32')",
                where=str(caller_location()),
            )
        )
    named = tuple([(f"branches[{position}]", branch) for position, branch in enumerate(branches)])
    return _chosen("switch", _as_i32(index, len(branches)), named, operands)


def _as_i32(index: Any, count: int) -> Any:
    """The index as int32; one of another dtype is clamped first, since it may not fit."""
    if isinstance(index, int):
        return full((), min(max(index, 0), count - 1))
    if type_of(index).dtype is DType.I32:
        return index
    return convert(bind1(CLAMP, NO_PARAMS, full_like(index, 0), index, full_like(index, count - 1)), DType.I32)


def _chosen(
    what: str,
    index: Any,
    named: Sequence[tuple[str, Callable[..., Any]]],
    operands: tuple[Any, ...],
    *,
    backwards: bool = False,
) -> Any:
    """Trace the functions in the user's order, require equal results, and emit the node; `backwards`: the last is 0."""
    given = [given_tree(what, f"operands[{position}]", operand) for position, operand in enumerate(operands)]
    arguments = [(each.treedef, each.types) for each in given]
    bodies = [traced_body(what, role, f, arguments) for role, f in named]
    _require_equal_results(what, [role for role, _ in named], bodies)
    leaves = [leaf for each in given for leaf in each.leaves]
    if not bodies[0].graph.outputs:
        return pytree.unflatten(bodies[0].out, [])
    if len(bodies) == 1:
        made: Any = apply(bodies[0].graph, [*leaves, *bodies[0].captured])
    else:
        captured = {same_capture(value): value for body in bodies for value in body.captured}
        branches = tuple([_with_all_captured(body, captured, len(leaves)) for body in bodies])
        branches = branches[::-1] if backwards else branches
        made = bind(COND, Branches(branches), index, *captured.values(), *leaves)
    return pytree.unflatten(bodies[0].out, made)


def _with_all_captured(body: Body, captured: dict[tuple[int, int], Any], count: int) -> Graph:
    """The branch's graph with what all branches captured in front of its arguments."""
    graph = body.graph
    mine = dict(zip([same_capture(value) for value in body.captured], graph.inputs[count:], strict=True))
    front = [mine.get(key, type_of(value)) for key, value in captured.items()]
    return arranged(graph, [*front, *graph.inputs[:count]], graph.outputs)


def _require_equal_results(what: str, roles: Sequence[str], bodies: Sequence[Body]) -> None:
    first = bodies[0]
    for role, body in zip(roles[1:], bodies[1:], strict=True):
        names = f"{roles[0]} `{first.graph.name}` and {role} `{body.graph.name}`"
        fault = pytree.differs(first.tree, body.tree, "out")
        if fault is not None:
            raise StructureError(
                message(
                    f"{what}: {names} return different structures: {fault}",
                    expected=f"the structure of {roles[0]}: {first.out}",
                    got=f"that of {role}: {body.out}",
                    fix="return the same containers, keys and lengths from every branch",
                    where=str(caller_location()),
                )
            )
        paths = pytree.paths(first.tree, "out")
        pairs = zip(paths, first.graph.output_types, body.graph.output_types, strict=True)
        differing = [(path, a, b) for path, a, b in pairs if a != b]
        if differing:
            listed = "; ".join([f"{path} is {a} and {b}" for path, a, b in differing[:5]])
            at = paths.index(differing[0][0])
            weak = first.weak[at] or body.weak[at]
            raise TypeRuleError(
                message(
                    f"{what}: {names} return different types: {listed}",
                    expected="equal types at every leaf",
                    got=", ".join(
                        [
                            f"{path}: {a} from `{first.graph.name}`, {b} from `{body.graph.name}`"
                            for path, a, b in differing[:5]
                        ]
                    ),
                    fix=_result_fix(differing[0], weak),
                    where=str(caller_location()),
                )
            )


def _result_fix(fault: tuple[str, TensorType, TensorType], weak: bool) -> str:
    path, a, b = fault
    if a.shape != b.shape:
        return f"broadcast or reshape {path} in one of them"
    if weak:
        return f"a Python number is not promoted to the other branch's dtype: return {path} as an array of that dtype"
    return f"convert {path} in one of them, e.g. with ops.convert(x, '{a.dtype.short}')"
