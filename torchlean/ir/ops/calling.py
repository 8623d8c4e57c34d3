"""Functions of users, over trees, as closed graphs; and what is said when their results do not fit.

What a function closes over, traced values and eager arrays, becomes further inputs of its graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from torchlean import pytree
from torchlean.errors import StructureError, TypeRuleError, message, shown
from torchlean.ir.builder import Value, is_python_number, type_of
from torchlean.ir.graph import Graph
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.ops.closed import arranged
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType

_MOST_LISTED = 5


class Given(NamedTuple):
    """A tree of operands: its leaves, their types and paths, and which are plain Python numbers."""

    leaves: tuple[Any, ...]
    types: tuple[TensorType, ...]
    paths: tuple[str, ...]
    treedef: Any

    def tree_of(self, leaves: Sequence[Any]) -> Any:
        return pytree.unflatten(self.treedef, leaves)


class Body(NamedTuple):
    """A traced function. `graph`: (its arguments' leaves, what it captured) → the leaves of its result."""

    graph: Graph
    captured: tuple[Any, ...]
    out: Any  # the tree structure of the result
    weak: tuple[bool, ...]  # which leaves of the result are plain Python numbers

    @property
    def tree(self) -> Any:
        """The result with types for leaves."""
        return pytree.unflatten(self.out, self.graph.output_types)


def function_label(f: Any) -> str:
    """A function's name for graphs and messages."""
    return getattr(f, "__name__", None) or type(f).__name__


def given_tree(what: str, name: str, tree: Any) -> Given:
    """The operands in a tree of the user's; a leaf that holds no numbers is refused with its path."""
    found, treedef = pytree.flatten_with_path(tree, name)
    types = [_leaf_type(what, path, leaf, "close over it in the function instead") for path, leaf in found]
    return Given(tuple([leaf for _, leaf in found]), tuple(types), tuple([path for path, _ in found]), treedef)


def _leaf_type(what: str, path: str, leaf: Any, fix: str) -> TensorType:
    if not isinstance(leaf, Operators | np.ndarray | np.generic) and not is_python_number(leaf):
        raise TypeRuleError(
            message(
                f"{what}: {path} is a {type(leaf).__name__}",
                expected="arrays and numbers",
                got=shown(leaf),
                fix=fix,
                where=str(caller_location()),
            )
        )
    return type_of(leaf)


Argument = tuple[Any, Sequence[TensorType]]  # the structure of a tree, and the types of its leaves


def traced_body(
    what: str, role: str, f: Callable[..., Any], arguments: Sequence[Argument], *, user: Any = None
) -> Body:
    """Trace `f` at trees of types: `(structure, types)` per argument. `role` is what `what` calls the function.

    `user`: the user's own function, where `f` is one of ours around it.
    """
    own = f if user is None else user
    if not callable(own):
        raise TypeRuleError(
            message(
                f"{what}: {role} is a {type(own).__name__}",
                expected="a function",
                got=shown(own),
                fix=f"pass a function as {role}",
                where=str(caller_location()),
            )
        )
    found: list[Any] = []

    def flat(*values: Value) -> list[Any]:
        remaining = iter(values)
        trees = [pytree.unflatten(treedef, [next(remaining) for _ in types]) for treedef, types in arguments]
        leaves, treedef = pytree.flatten_with_path(f(*trees), f"{role}(…)")
        for path, leaf in leaves:
            _leaf_type(what, path, leaf, "return arrays, numbers, or None")
        found.append((treedef, tuple([is_python_number(leaf) for _, leaf in leaves])))
        return [leaf for _, leaf in leaves]

    types = [type for _, each in arguments for type in each]
    traced = trace_flat(flat, types, name=function_label(own), capture_arrays=True)
    graph = arranged(traced.graph, traced.graph.inputs, traced.graph.outputs)
    return Body(graph, traced.captured, *found[0])


def captured_first(body: Body) -> Graph:
    """The body's graph with what it captured in front of its arguments."""
    inputs = body.graph.inputs
    count = len(inputs) - len(body.captured)
    return arranged(body.graph, [*inputs[count:], *inputs[:count]], body.graph.outputs)


def require_same_carry(what: str, role: str, given: Given, body: Body, tree: Any, types: Sequence[TensorType]) -> None:
    """Refuse a function that returns the carry with another structure, or other types, than it takes.

    `tree`: the carry it returns, with types for leaves; `types`: those leaves.
    """
    enters = given.tree_of(given.types)
    fault = pytree.differs(enters, tree, "carry")
    if fault is not None:
        raise StructureError(
            message(
                f"{what}: the carry that {role} `{body.graph.name}` returns has another structure: {fault}",
                expected=f"the structure it takes: {given.treedef}",
                got=str(pytree.structure(tree)),
                fix=f"return the carry from {role} with the containers, keys and lengths of the initial one",
                where=str(caller_location()),
            )
        )
    paths = pytree.paths(enters, "carry")
    changed = [at for at, (before, after) in enumerate(zip(given.types, types, strict=True)) if before != after]
    if not changed:
        return
    listed = [_enters_and_leaves(paths[at], given.leaves[at], given.types[at], types[at]) for at in changed]
    more = f"; and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
    first = changed[0]
    raise TypeRuleError(
        message(
            f"{what}: carry changes type across an iteration: {'; '.join(listed[:_MOST_LISTED])}{more}",
            expected=f"every leaf of the carry to leave {role} `{body.graph.name}` with the type it enters with",
            got=f"{paths[first]}: {types[first]} from {given.types[first]}",
            fix=_carry_fix(role, paths[first], given.leaves[first], given.types[first], types[first]),
            where=str(caller_location()),
        )
    )


def _enters_and_leaves(path: str, leaf: Any, before: TensorType, after: TensorType) -> str:
    weak = f" (the Python number {leaf!r})" if is_python_number(leaf) else ""
    return f"{path} enters as {before}{weak}, leaves as {after}"


def _carry_fix(role: str, path: str, leaf: Any, before: TensorType, after: TensorType) -> str:
    if before.shape != after.shape:
        return f"start {path} with the shape it has after a step, or reshape it in {role}"
    if is_python_number(leaf):
        number = repr(type(after.dtype.carrier.type(leaf).item())(leaf))
        exact = number if after.dtype.short in ("f32", "i32", "bool") else f"numpy.{after.dtype.label}({leaf!r})"
        return f"a Python number in a carry is not promoted: start {path} as {exact}"
    return f"convert it where the carry starts (ops.convert(x, '{after.dtype.short}')), or in {role}"


def same_capture(value: Any) -> tuple[int, int]:
    """Equal for captured values that are one: a value of a trace, or an eager array."""
    return (id(value.builder), value.id) if isinstance(value, Value) else (id(value), -1)
