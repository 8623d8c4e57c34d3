"""vmap: map a function over an axis of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from torchlean import pytree
from torchlean.errors import StructureError, message
from torchlean.ir import ops
from torchlean.ir.builder import answerer, type_of
from torchlean.ir.location import caller_location
from torchlean.ir.types import TensorType
from torchlean.transforms.trees import OutTree, function_name, is_number, is_tensor, leaf_paths, trace_tree
from torchlean.transforms.vmap import vmap_graph_partial

_SHOWN = 10  # mapped sizes listed in a message


def vmap(
    f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None
) -> Callable[..., Any]:
    """`f` mapped over an axis of its positional arguments.

    `in_axes`: an int, None (not mapped), or a tuple of pytree prefixes, one per argument; negative axes count from the
    end. `out_axes`: where the mapped axis goes in the results, a pytree prefix; None for results that do not depend on
    a mapped argument. Keyword arguments are mapped over axis 0. Raises StructureError listing every argument when the
    sizes differ.
    """

    @wraps(f)
    def mapped_function(*arguments: Any, **keywords: Any) -> Any:
        axes_tree = tuple(in_axes) if isinstance(in_axes, list) else in_axes
        leaves, treedef = pytree.flatten((arguments, keywords))
        axes: list[Any] = [
            *_spread(axes_tree, arguments, "in_axes", "arguments", f),
            *([0] * len(pytree.leaves(keywords))),
        ]
        paths = leaf_paths(arguments) + pytree.paths(keywords, "kwargs")
        positions = [at for at, axis in enumerate(axes) if axis is not None]
        normal = _normal_axes(leaves, axes, paths, f)
        size = _mapped_size(leaves, normal, paths, axis_size, f)
        chosen = [at for at, leaf in enumerate(leaves) if at in set(positions) or is_tensor(leaf)]
        types: list[TensorType] = []
        operands: list[Any] = []
        for at in chosen:
            leaf, axis = leaves[at], normal[at]
            full = type_of(leaf)
            if axis is None:
                types.append(full)
                operands.append(leaf)
            else:
                types.append(full.with_shape(full.shape[:axis] + full.shape[axis + 1 :]))
                order = (axis, *[a for a in range(full.rank) if a != axis])
                operands.append(ops.transpose(leaf, order) if axis else leaf)
        traced = trace_tree(
            lambda tree: (f(*tree[0], **tree[1]),), leaves, treedef, chosen, name=function_name(f), types=types
        )
        captured = traced.operands[len(chosen) :]
        flags = [normal[at] is not None for at in chosen] + [False] * len(captured)
        graph, out_mapped = vmap_graph_partial(traced.graph, size, flags)
        results = answerer().evaluate(graph, (*operands, *captured))
        return _placed(traced.outs[0], results, out_mapped, out_axes, size, f)

    return mapped_function


def _spread(axes: Any, tree: Any, name: str, whose: str, f: Any) -> list[Any]:
    """One axis per leaf of `tree` from a prefix of it; a prefix that does not fit is refused with the place."""
    try:
        return pytree.broadcast_prefix(axes, tree, name)
    except StructureError as error:
        lines = str(error).splitlines()
        place = lines[0].partition(", at ")[2] or name
        found = dict([line.strip().split(": ", 1) for line in lines[1:]])
    raise StructureError(
        message(
            f"vmap of {function_name(f)}: {name} does not fit the {whose}, at {place}",
            expected=f"a prefix of {found.get('got', '').strip()}",
            got=found.get("expected", "").strip(),
            fix=f"give {name} the containers of the {whose}, or one axis for all of them",
            where=str(caller_location()),
        )
    )


def _normal_axes(leaves: Sequence[Any], axes: Sequence[Any], paths: Sequence[str], f: Any) -> list[int | None]:
    normal: list[int | None] = []
    for leaf, axis, path in zip(leaves, axes, paths, strict=True):
        if axis is None:
            normal.append(None)
            continue
        if not (is_tensor(leaf) or is_number(leaf)):
            raise StructureError(
                message(
                    f"vmap of {function_name(f)}: {path} is a {type(leaf).__name__}, which has no axis {axis}",
                    expected="an array",
                    got=type(leaf).__name__,
                    fix="use None in in_axes for it",
                    where=str(caller_location()),
                )
            )
        full = type_of(leaf)
        if not isinstance(axis, int) or not -full.rank <= axis < full.rank:
            raise StructureError(
                message(
                    f"vmap of {function_name(f)}: {path}, {full}, has no axis {axis!r}",
                    expected=f"an axis in [{-full.rank}, {full.rank}), or None"
                    if full.rank
                    else "None: it is a scalar",
                    got=repr(axis),
                    fix="change in_axes for that argument",
                    where=str(caller_location()),
                )
            )
        normal.append(axis % full.rank)
    return normal


def _mapped_size(
    leaves: Sequence[Any], axes: Sequence[int | None], paths: Sequence[str], axis_size: Any, f: Any
) -> int:
    if axis_size is not None and (not isinstance(axis_size, int) or axis_size < 0):
        raise StructureError(
            message(
                f"vmap of {function_name(f)}: axis_size {axis_size!r} is no size",
                expected="an integer ≥ 0, or None",
                got=repr(axis_size),
                fix="leave axis_size out when an argument is mapped",
                where=str(caller_location()),
            )
        )
    sizes = {
        path: type_of(leaf).shape[axis]
        for leaf, axis, path in zip(leaves, axes, paths, strict=True)
        if axis is not None
    }
    distinct = set(sizes.values()) | ({axis_size} if axis_size is not None else set())
    if len(distinct) == 1:
        return distinct.pop()
    if not distinct:
        raise StructureError(
            message(
                f"vmap of {function_name(f)} maps no argument",
                expected="at least one argument with an axis in in_axes, or axis_size",
                got=f"{len(leaves)} argument leaves, none of them mapped",
                fix="map an argument, or pass axis_size=",
                where=str(caller_location()),
            )
        )
    each = [
        f"{path}: {type_of(leaf)} axis {axis} has {type_of(leaf).shape[axis]}"
        for leaf, axis, path in zip(leaves, axes, paths, strict=True)
        if axis is not None
    ]
    listed = ", ".join(each[:_SHOWN]) + (f", and {len(each) - _SHOWN} more" if len(each) > _SHOWN else "")
    raise StructureError(
        message(
            f"vmap of {function_name(f)}: mapped sizes differ",
            expected="one size for every mapped axis" if axis_size is None else f"axis_size={axis_size} everywhere",
            got=listed,
            fix="change in_axes, or the arguments' shapes",
            where=str(caller_location()),
        )
    )


def _placed(out: OutTree, results: Sequence[Any], out_mapped: Sequence[bool], out_axes: Any, size: int, f: Any) -> Any:
    """Put the mapped axis where `out_axes` says; broadcast results that are not mapped."""
    tree = out.rebuild(results)
    leaves, treedef = pytree.flatten(tree)
    axes = _spread(out_axes, tree, "out_axes", "result", f)
    kept = {at for at, _ in out.kept}
    flags = iter(out_mapped)
    placed: list[Any] = []
    for at, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
        if at in kept:
            placed.append(leaf)
            continue
        is_mapped = next(flags)
        if axis is None:
            if is_mapped:
                raise StructureError(
                    message(
                        f"vmap of {function_name(f)}: out_axes is None for a result that depends on a mapped argument",
                        expected="an axis",
                        got="None",
                        fix="give that result an axis in out_axes",
                        where=str(caller_location()),
                    )
                )
            placed.append(leaf)
            continue
        if not is_mapped:
            shape = type_of(leaf).shape
            leaf = ops.broadcast(leaf, (size, *shape), tuple(range(1, len(shape) + 1)))
        rank = type_of(leaf).rank
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise StructureError(
                message(
                    f"vmap of {function_name(f)}: out_axes {axis!r} is no axis of a result of {type_of(leaf)}",
                    expected=f"an axis in [{-rank}, {rank})",
                    got=repr(axis),
                    fix="change out_axes",
                    where=str(caller_location()),
                )
            )
        at_axis = axis % rank
        order = list(range(1, rank))
        order.insert(at_axis, 0)
        placed.append(ops.transpose(leaf, tuple(order)) if at_axis else leaf)
    return pytree.unflatten(treedef, placed)
