"""Functions over pytrees: which leaves of a call are tensors, and tracing with structure kept on both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set, ValuesView
from typing import Any, NamedTuple

import numpy as np

from torchlean import pytree
from torchlean.errors import StructureError, TypeRuleError, message
from torchlean.ir.builder import HOST, NUMBER, Value, is_python_number, type_of
from torchlean.ir.graph import Graph
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType

TENSOR = (Operators, *HOST)
_INTEGER = (int, np.integer)
_PASSED = (*TENSOR, *NUMBER)  # results that a graph may give


def is_tensor(leaf: Any) -> bool:
    """Whether a leaf holds numbers with a dtype: a traced value, an eager array, a NumPy array or scalar."""
    return isinstance(leaf, TENSOR)


def is_number(leaf: Any) -> bool:
    """Whether a leaf is a plain Python number."""
    return is_python_number(leaf)


class OutTree(NamedTuple):
    """How to rebuild a function's result: leaves that are tensors come from the graph, the others are kept."""

    treedef: Any
    kept: tuple[tuple[int, Any], ...]  # (position, leaf) of leaves that are no tensors

    def rebuild(self, tensors: Sequence[Any]) -> Any:
        """The result with its tensor leaves replaced."""
        if not self.kept:
            return pytree.unflatten(self.treedef, tensors)
        leaves = list(tensors)
        for position, leaf in self.kept:
            leaves.insert(position, leaf)
        return pytree.unflatten(self.treedef, leaves)


_LEAF = OutTree(pytree.structure(0), ())


class TracedTree(NamedTuple):
    """A function traced at some leaves of its arguments. `outs` has one entry per result tree of `f`."""

    graph: Graph
    operands: tuple[Any, ...]  # what the traced inputs stand for: the chosen leaves, then the captured values
    outs: tuple[OutTree, ...]
    sizes: tuple[int, ...]  # tensor leaves per result tree


def trace_tree(
    f: Callable[..., tuple[Any, ...]],
    leaves: Sequence[Any],
    treedef: Any,
    chosen: Sequence[int],
    *,
    name: str,
    types: Sequence[TensorType] | None = None,
    bodies: dict[Any, Any] | None = None,
) -> TracedTree:
    """Trace `f`, which takes the rebuilt tree and returns a tuple of result trees, at the leaves `chosen`.

    The other leaves reach `f` unchanged. Python numbers among results become constants; other objects are kept. With
    `bodies`, known bodies of composites, every array `f` closes over is an operand, whose values the graph leaves open.
    """
    operands = [leaves[position] for position in chosen]
    input_types = [type_of(operand) for operand in operands] if types is None else types
    found: list[OutTree] = []
    sizes: list[int] = []

    def flat(*values: Value) -> list[Any]:
        filled = list(leaves)
        for position, value in zip(chosen, values, strict=True):
            filled[position] = value
        results: list[Any] = []
        for tree in f(pytree.unflatten(treedef, filled)):
            if tree.__class__ is Value:  # most often
                results.append(tree)
                found.append(_LEAF)
                sizes.append(1)
                continue
            out_leaves, out_treedef = pytree.flatten(tree)
            tensors: list[Any] = []
            kept: list[tuple[int, Any]] = []
            for at, leaf in enumerate(out_leaves):
                if isinstance(leaf, _PASSED):
                    tensors.append(leaf)
                elif isinstance(leaf, Iterator | Set | ValuesView):
                    raise _no_container(leaf, pytree.paths(tree, "result")[at], name)
                else:
                    kept.append((at, leaf))
            found.append(OutTree(out_treedef, tuple(kept)))
            sizes.append(len(tensors))
            results += tensors
        return results

    open_ = bodies is not None
    traced = trace_flat(flat, input_types, name=name, capture_arrays=open_, capture_constants=open_, bodies=bodies)
    return TracedTree(traced.graph, (*operands, *traced.captured), tuple(found), tuple(sizes))


def _no_container(leaf: Any, path: str, name: str) -> TypeRuleError:
    """The refusal of a result that holds its values out of sight: a generator, a set, a view."""
    return TypeRuleError(
        message(
            f"{name} returned a {type(leaf).__name__} at {path}",
            expected="arrays and numbers in lists, tuples, dicts or registered nodes; other objects pass unchanged",
            got=f"a {type(leaf).__name__}, whose entries a trace cannot see",
            fix="return list(...) or tuple(...) of it",
            where=str(caller_location()),
        )
    )


def function_name(f: Any) -> str:
    """A function's name for graphs and messages."""
    return getattr(f, "__name__", None) or type(f).__name__


def normal_argnums(argnums: int | Sequence[int], count: int, what: str, name: str = "argnums") -> tuple[int, ...]:
    """Non-negative argument positions; a position the call does not have is refused. `name`: the parameter's."""
    given: tuple[Any, ...] = tuple(argnums) if isinstance(argnums, list | tuple) else (argnums,)
    for position in given:
        if not isinstance(position, _INTEGER) or not -count <= position < count:
            raise TypeRuleError(
                message(
                    f"{what}: {name} {position!r} is no position of a positional argument",
                    expected=f"an integer in [{-count}, {count})" if count else "a call with positional arguments",
                    got=f"{position!r}, and {count} positional arguments",
                    fix=f"pass the argument by position, or change {name}",
                    where=str(caller_location()),
                )
            )
    return tuple([int(position) % count for position in given])


def leaf_paths(arguments: tuple[Any, ...]) -> list[str]:
    """`args[0]['w']` for each leaf of positional arguments."""
    return pytree.paths(arguments, "args")


def as_float_leaf(leaf: Any) -> Any:
    """A Python float to differentiate at becomes a float32 scalar, a Python complex number a complex64 one."""
    if isinstance(leaf, float | complex) and is_python_number(leaf):
        return np.float32(leaf) if isinstance(leaf, float) else np.complex64(leaf)
    return leaf


def shown_type(leaf: Any) -> str:
    """The type of a tensor or number (or a type itself), or the class of anything else: for messages."""
    if isinstance(leaf, TensorType):
        return str(leaf)
    return str(type_of(leaf)) if is_tensor(leaf) or is_number(leaf) else type(leaf).__name__


def shown_types(tree: Any) -> str:
    """A tree with the types of its leaves, such as `{'w': f32[3]}`: for messages."""
    leaves, treedef = pytree.flatten(tree)
    return str(pytree.unflatten(treedef, [_Shown(shown_type(leaf)) for leaf in leaves]))


class _Shown:
    """A leaf that prints as its text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def require_same_tree(expected: Any, got: Any, what: str, by: str) -> None:
    """Refuse a tree whose structure differs, saying where. `what` names the tree, `by` the transform."""
    fault = pytree.differs(expected, got, what)
    if fault is not None:
        raise StructureError(
            message(
                f"{by}: the {what} have another tree structure, {fault}",
                expected=shown_types(expected),
                got=shown_types(got),
                fix="build them with the same containers, keys and lengths",
                where=str(caller_location()),
            )
        )
