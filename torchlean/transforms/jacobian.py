"""Jacobians and Hessians: one linearisation, mapped over a basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any

from torchlean import pytree
from torchlean.errors import GradError, message
from torchlean.ir import ops
from torchlean.ir.builder import type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.types import TensorType
from torchlean.transforms.api import linearize, trace_abstract, vjp, with_aux
from torchlean.transforms.batching import vmap
from torchlean.transforms.holomorphic import Over, require_holomorphic, require_known_side
from torchlean.transforms.trees import as_float_leaf, function_name, is_tensor, normal_argnums, shown_type


def _partial(
    f: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any], chosen: tuple[int, ...]
) -> Any:
    def of_chosen(*given: Any) -> Any:
        full = list(arguments)
        for position, argument in zip(chosen, given, strict=True):
            full[position] = argument
        return f(*full, **keywords)

    of_chosen.__name__ = function_name(f)  # for graphs and messages
    return of_chosen


def _basis(types: Sequence[TensorType]) -> list[Any]:
    """For each type, [total, *shape]: row i is the i-th unit vector of the concatenation of all entries."""
    total = sum([type.size for type in types])
    made: list[Any] = []
    start = 0
    for type in types:
        row, column = [ops.iota((total, type.size), axis, DType.I64) for axis in (0, 1)]
        block = ops.convert(ops.eq(row, ops.add(column, start)), type.dtype)
        made.append(ops.reshape(block, (total, *type.shape)))
        start += type.size
    return made


def _require_floats(trees: tuple[Any, ...], chosen: tuple[int, ...], what: str, f: Any, over: Over) -> None:
    named = [(tree, f"args[{position}]") for tree, position in zip(trees, chosen, strict=True)]
    paths = [path for tree, name in named for path in pytree.paths(tree, name)]
    for leaf, path in zip(pytree.leaves(trees), paths, strict=True):
        leaf = as_float_leaf(leaf)
        if not is_tensor(leaf) or not over.takes(type_of(leaf)):
            got = shown_type(leaf)
            raise GradError(
                message(
                    f"{what} of {function_name(f)} with respect to {path}: {got}",
                    expected=over.expected,
                    got=got,
                    fix=over.fix(type_of(leaf) if is_tensor(leaf) else None),
                    where=str(caller_location()),
                )
            )


def _holomorphic(f: Callable[..., Any], inputs: tuple[Any, ...], *, has_aux: bool, what: str) -> None:
    """Refuse a function of complex inputs that is not holomorphic, or whose results are not complex."""
    graph = trace_abstract((lambda *given: f(*given)[0]) if has_aux else f, inputs, {}, ()).graph
    for type in graph.output_types:
        if not type.dtype.is_complex:
            require_known_side(type, Over.HOLOMORPHIC, what, function_name(f))
    require_holomorphic(graph, range(len(pytree.leaves(inputs))), function_name(f))


def jacfwd(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    ieee_derivatives: bool = False,
) -> Callable[..., Any]:
    """The Jacobian, one column at a time (forward mode): a tree out×in whose leaves have shape out.shape + in.shape.

    With `holomorphic` both sides are complex and the entries are complex derivatives.
    """
    return _by_columns(f, argnums, has_aux, "jacfwd", _over(holomorphic), ieee_derivatives)


def _over(holomorphic: bool) -> Over:
    return Over.HOLOMORPHIC if holomorphic else Over.REAL


def _by_columns(
    f: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, what: str, over: Over, ieee: bool
) -> Callable[..., Any]:
    @wraps(f)
    def jacobian(*arguments: Any, **keywords: Any) -> Any:
        chosen = normal_argnums(argnums, len(arguments), what)
        inputs = tuple([pytree.map(as_float_leaf, arguments[position]) for position in chosen])
        _require_floats(inputs, chosen, what, f, over)
        kept: list[Any] = []
        partial = _partial(f, arguments, keywords, chosen)
        if over is Over.HOLOMORPHIC:
            _holomorphic(partial, inputs, has_aux=has_aux, what=what)
        if has_aux:
            # aux is read at the primal point by a plain call; the derivative is of the output alone
            kept.append(with_aux(partial(*inputs), what)[1])
            _, pushforward = linearize(lambda *given: partial(*given)[0], *inputs, ieee_derivatives=ieee)
        else:
            _, pushforward = linearize(partial, *inputs, ieee_derivatives=ieee)
        leaves, treedef = pytree.flatten(inputs)
        types = [type_of(leaf) for leaf in leaves]
        columns = vmap(pushforward)(*pytree.unflatten(treedef, _basis(types)))
        result = pytree.map(lambda column: _split_columns(column, types, treedef, argnums), columns)
        return (result, kept[0]) if has_aux else result

    return jacobian


def _split_columns(column: Any, types: Sequence[TensorType], treedef: Any, argnums: int | Sequence[int]) -> Any:
    """[total, *out] → a tree of [*out, *in]."""
    rank = type_of(column).rank
    last = ops.transpose(column, (*range(1, rank), 0)) if rank > 1 else column
    out_shape = type_of(last).shape[:-1]
    parts: list[Any] = []
    start = 0
    for type in types:
        part = last[(Ellipsis, slice(start, start + type.size))]
        parts.append(ops.reshape(part, out_shape + type.shape))
        start += type.size
    tree = pytree.unflatten(treedef, parts)
    return tree[0] if isinstance(argnums, int) else tree


def jacrev(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    ieee_derivatives: bool = False,
) -> Callable[..., Any]:
    """The Jacobian, one row at a time (reverse mode): a tree out×in whose leaves have shape out.shape + in.shape.

    With `holomorphic` both sides are complex and the entries are complex derivatives.
    """
    return _by_rows(f, argnums, has_aux, "jacrev", _over(holomorphic), ieee_derivatives)


def _by_rows(
    f: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, what: str, over: Over, ieee: bool
) -> Callable[..., Any]:
    @wraps(f)
    def jacobian(*arguments: Any, **keywords: Any) -> Any:
        chosen = normal_argnums(argnums, len(arguments), what)
        inputs = tuple([pytree.map(as_float_leaf, arguments[position]) for position in chosen])
        _require_floats(inputs, chosen, what, f, over)
        partial = _partial(f, arguments, keywords, chosen)
        if over is Over.HOLOMORPHIC:
            _holomorphic(partial, inputs, has_aux=has_aux, what=what)
        if has_aux:
            made = vjp(lambda *given: with_aux(partial(*given), what), *inputs, has_aux=True, ieee_derivatives=ieee)
        else:
            made = vjp(partial, *inputs, ieee_derivatives=ieee)
        value, pullback = made[0], made[1]
        out_leaves, out_treedef = pytree.flatten(value)
        out_types = [type_of(leaf) for leaf in out_leaves]
        rows = vmap(pullback)(pytree.unflatten(out_treedef, _basis(out_types)))
        if over is Over.HOLOMORPHIC:  # what is pulled back is conj(f′): the inner product is Re(conj(a)·b)
            rows = pytree.map(ops.conj, rows)
        blocks: list[Any] = []
        start = 0
        for type in out_types:
            stop = start + prod(type.shape)
            block = pytree.map(lambda row, a=start, b=stop, t=type: _row_block(row, a, b, t), rows)
            blocks.append(block[0] if isinstance(argnums, int) else block)
            start = stop
        result = pytree.unflatten(out_treedef, blocks)
        return (result, made[2]) if has_aux else result

    return jacobian


def _row_block(row: Any, start: int, stop: int, type: TensorType) -> Any:
    """[total, *in] → [*out, *in] for one output leaf."""
    return ops.reshape(row[start:stop], type.shape + type_of(row).shape[1:])


def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    ieee_derivatives: bool = False,
) -> Callable[..., Any]:
    """Second derivatives, forward over reverse: jacfwd(jacrev(f)); a tree in×in for a scalar function."""
    rows = _by_rows(f, argnums, has_aux, "hessian", Over.REAL, ieee_derivatives)
    return _by_columns(rows, argnums, has_aux, "hessian", Over.REAL, ieee_derivatives)
