"""Loops as users call them, with JAX's names and argument order: scan, while_loop, fori_loop, map.

The function is traced once, whatever the number of steps, and becomes the closed body of one node.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from torchlean import pytree
from torchlean.errors import StructureError, TypeRuleError, message, shown
from torchlean.ir.builder import Value, bind, bind1, type_of
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.calling import (
    Body,
    Given,
    captured_first,
    given_tree,
    require_same_carry,
    traced_body,
)
from torchlean.ir.ops.closed import apply
from torchlean.ir.ops.create import IOTA, Iota, full, full_like
from torchlean.ir.ops.elementwise import ADD, LT, convert
from torchlean.ir.ops.index import slice_, stack
from torchlean.ir.ops.layout import RESHAPE, NewShape
from torchlean.ir.ops.promote import promote_dtypes
from torchlean.ir.ops.repeating import PREDICATE, WHILE, While
from torchlean.ir.ops.scanning import SCAN, Save, Scan
from torchlean.ir.types import TensorType

_MOST_LISTED = 10


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    save: str = "carries",
) -> tuple[Any, Any]:
    """Loop with a carry: `f(carry, x) -> (carry, y)` along the leading axis of the leaves of `xs`.

    Returns the last carry and the ys, stacked along a new leading axis. `xs` may be None, with a `length`. `reverse`
    goes from the last x to the first; each y stays in the place of its x. `unroll=True`, or a number of at least
    `length`, writes the steps out instead of looping; a smaller number changes nothing.

    `save` says what a reverse-mode derivative keeps: `"carries"`, the carry of each step, and runs `f` once more; or
    `"residuals"`, everything the derivative of `f` reads, and computes nothing twice.

    Raises TypeRuleError or StructureError when the carry comes back with another type or structure, naming the leaf;
    when the xs differ in length; and when neither xs nor length says how many steps there are.
    """
    return _scan("scan", "f", f, init, xs, length, reverse, unroll, _saved(save))


def _saved(save: str) -> Save:
    for known in Save:
        if save == known.value:
            return known
    raise TypeRuleError(
        message(
            "scan: unknown choice of what to save",
            expected=" or ".join([repr(known.value) for known in Save]),
            got=repr(save),
            fix="leave it out, or use one of these",
            where=str(caller_location()),
        )
    )


def _scan(
    what: str,
    role: str,
    f: Callable[..., Any],
    init: Any,
    xs: Any,
    length: int | None,
    reverse: bool,
    unroll: int | bool,
    save: Save,
    user: Any = None,
) -> tuple[Any, Any]:
    """`user`: the user's own function, where `f` is one of ours around it."""
    carry = given_tree(what, "init", init)
    inputs = given_tree(what, "xs", xs)
    steps = _length(what, inputs, length)
    entries = [TensorType(type.shape[1:], type.dtype) for type in inputs.types]
    body = traced_body(what, role, f, [(carry.treedef, carry.types), (inputs.treedef, entries)], user=user)
    pair = body.tree
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise StructureError(
            message(
                f"{what}: {role} `{body.graph.name}` must return a pair (carry, y)",
                expected="a tuple of two; y may be None",
                got=f"a tuple of {len(pair)}" if isinstance(pair, tuple) else _kind(pair),
                fix="return the new carry, then what is stacked",
                where=str(caller_location()),
            )
        )
    after, ys = pair
    leaving = pytree.leaves(after)
    require_same_carry(what, role, carry, body, after, leaving)
    if _is_unrolled(what, unroll, steps):
        made = _written_out(body, carry, inputs, steps, reverse)
    elif body.graph.outputs:
        params = Scan(captured_first(body), len(body.captured), len(carry.leaves), steps, bool(reverse), save)
        made = list(bind(SCAN, params, *body.captured, *carry.leaves, *inputs.leaves))
    else:
        made = []
    count = len(carry.leaves)
    return carry.tree_of(made[:count]), pytree.unflatten(pytree.structure(ys), made[count:])


def _kind(tree: Any) -> str:
    return str(tree) if isinstance(tree, TensorType) else f"a {type(tree).__name__}"


def _length(what: str, xs: Given, length: int | None) -> int:
    """The number of steps; every leaf of xs must have it."""
    if length is not None and (isinstance(length, bool) or not hasattr(length, "__index__") or length < 0):
        raise TypeRuleError(
            message(
                f"{what}: the length is no number of steps",
                expected="an integer of at least 0, known while tracing",
                got=shown(length),
                fix="pass a Python integer; for a number known only at run time use while_loop",
                where=str(caller_location()),
            )
        )
    scalars = [f"{path}: {type}" for path, type in zip(xs.paths, xs.types, strict=True) if not type.shape]
    if scalars:
        raise TypeRuleError(
            message(
                f"{what}: {scalars[0].replace(': ', ' is ')}, which has no axis to go along",
                expected="a leading axis on every leaf of xs",
                got=", ".join(scalars[:_MOST_LISTED]),
                fix="close over it in the function, or put it in the carry",
                where=str(caller_location()),
            )
        )
    lengths = {type.shape[0] for type in xs.types} | (set() if length is None else {operator.index(length)})
    if len(lengths) == 1:
        return lengths.pop()
    if not lengths:
        raise StructureError(
            message(
                f"{what}: nothing says how many steps to take",
                expected="xs with at least one array, or a length",
                got="no arrays in xs, and no length",
                fix="pass length=…",
                where=str(caller_location()),
            )
        )
    listed = [f"{path}: {type} has {type.shape[0]}" for path, type in zip(xs.paths, xs.types, strict=True)]
    more = [f"and {len(listed) - _MOST_LISTED} more"] if len(listed) > _MOST_LISTED else []
    raise StructureError(
        message(
            f"{what}: xs have different lengths" if length is None else f"{what}: xs do not have length {length}",
            expected="one length for the leading axis of every leaf"
            if length is None
            else f"a leading axis of {length}",
            got=", ".join([*listed[:_MOST_LISTED], *more]),
            fix="cut or pad the leaves that differ" if length is None else "drop length=, or cut the leaves",
            where=str(caller_location()),
        )
    )


def _is_unrolled(what: str, unroll: int | bool, steps: int) -> bool:
    if isinstance(unroll, bool):
        return unroll and steps > 0
    if not hasattr(unroll, "__index__") or unroll < 1:
        raise TypeRuleError(
            message(
                f"{what}: unroll is no number of steps",
                expected="an integer of at least 1, or a boolean",
                got=shown(unroll),
                fix="leave it out",
                where=str(caller_location()),
            )
        )
    return unroll > 1 and 0 < steps <= unroll


def _written_out(body: Body, carry: Given, xs: Given, steps: int, reverse: bool) -> list[Any]:
    """The steps of a scan one after another."""
    count = len(carry.leaves)
    values: list[Any] = list(carry.leaves)
    rows: list[list[Any]] = []
    for step in range(steps - 1, -1, -1) if reverse else range(steps):
        entries = [_entry(x, step) for x in xs.leaves]
        made = apply(body.graph, [*values, *entries, *body.captured])
        values = made[:count]
        rows.append(made[count:])
    if reverse:
        rows.reverse()
    return [*values, *[stack(column) for column in zip(*rows, strict=True)]]


def _entry(x: Any, step: int) -> Any:
    shape = type_of(x).shape
    rest = (0,) * (len(shape) - 1)
    row = slice_(x, (step, *rest), (step + 1, *shape[1:]))
    return bind1(RESHAPE, NewShape(shape[1:]), row)


def while_loop(cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init_val: Any) -> Any:
    """`body_fun(carry) -> carry`, repeated as long as `cond_fun(carry)`, one boolean, holds; the last carry.

    Forward mode only: the number of steps is unknown, so a reverse-mode derivative is refused. Raises TypeRuleError or
    StructureError for a carry that comes back with another type or structure, and for a condition that is no boolean.
    """
    return _while("while_loop", "body_fun", cond_fun, body_fun, init_val)


def _while(
    what: str, role: str, cond_fun: Callable[..., Any], body_fun: Callable[..., Any], init: Any, user: Any = None
) -> Any:
    """`user`: the user's own body, where `body_fun` is one of ours around it, and its carry a counter and theirs."""
    counted = user is not None
    theirs = given_tree(what, "init_val", init[1] if counted else init)
    carry = given_tree(what, "init_val", init) if counted else theirs
    if not carry.leaves:
        raise StructureError(
            message(
                f"{what}: the initial carry holds no array",
                expected="something that changes from step to step",
                got=shown(init),
                fix="carry what the condition looks at",
                where=str(caller_location()),
            )
        )
    arguments = [(carry.treedef, carry.types)]
    condition = traced_body(what, "cond_fun", cond_fun, arguments)
    asked = condition.tree
    if asked != PREDICATE:
        got = str(asked) if isinstance(asked, TensorType) else f"a {type(asked).__name__}"
        raise TypeRuleError(
            message(
                f"{what}: cond_fun `{condition.graph.name}` returns {got}",
                expected=f"{PREDICATE}, one boolean",
                got=got,
                fix=_condition_fix(asked),
                where=str(caller_location()),
            )
        )
    body = traced_body(what, role, body_fun, arguments, user=user)
    after, types = body.tree, body.graph.output_types
    require_same_carry(what, role, theirs, body, after[1] if counted else after, types[1:] if counted else types)
    params = While(captured_first(condition), captured_first(body), len(condition.captured), len(body.captured))
    return carry.tree_of(bind(WHILE, params, *condition.captured, *body.captured, *carry.leaves))


def _condition_fix(asked: Any) -> str:
    if isinstance(asked, TensorType) and asked.dtype.is_bool:
        return "reduce it to one boolean, or map the loop over the axis with vmap"
    return "return a comparison, such as x > 0"


def fori_loop(lower: Any, upper: Any, body_fun: Callable[..., Any], init_val: Any) -> Any:
    """`body_fun(i, carry) -> carry` for i from `lower` up to, not including, `upper`; the last carry.

    With bounds known while tracing it is a scan, and reverse mode works; with a traced bound it is a while loop, which
    has forward mode only. `i` is int32, or int64 where a known bound needs it (with traced bounds, of their dtype).
    """
    bounds = [_bound(name, bound) for name, bound in (("lower", lower), ("upper", upper))]
    if not any([isinstance(bound, Value) for bound in bounds]):
        first, last = bounds
        count = max(0, last - first)
        narrow = first >= -(2**31) and max(first, last) < 2**31
        numbers = bind1(IOTA, Iota((count,), DType.I32 if narrow else DType.I64, 0))
        numbers = bind1(ADD, NO_PARAMS, numbers, full_like(numbers, first)) if first else numbers

        def scanned(carry: Any, i: Any) -> tuple[Any, None]:
            return body_fun(i, carry), None

        return _scan("fori_loop", "body_fun", scanned, init_val, numbers, count, False, 1, Save.CARRIES, body_fun)[0]
    dtype = _common_dtype([type_of(bound) for bound in bounds if isinstance(bound, Value)])
    start, stop = [convert(b, dtype) if isinstance(b, Value) else full((), b, dtype) for b in bounds]

    def goes_on(carry: Any) -> Any:
        return bind1(LT, NO_PARAMS, carry[0], stop)

    def step(carry: Any) -> Any:
        return bind1(ADD, NO_PARAMS, carry[0], full_like(carry[0], 1)), body_fun(carry[0], carry[1])

    return _while("fori_loop", "body_fun", goes_on, step, (start, init_val), body_fun)[1]


def _common_dtype(bounds: Sequence[TensorType]) -> DType:
    """The dtype of a counter that reaches every traced bound."""
    dtype = bounds[0].dtype if len(bounds) == 1 else promote_dtypes(bounds[0].dtype, bounds[1].dtype)
    if dtype is not None and dtype.is_integer:
        return dtype
    raise TypeRuleError(
        message(
            f"fori_loop from {bounds[0]} to {bounds[1]}: no integer dtype holds both bounds",
            expected="bounds of one dtype",
            got=f"{bounds[0].dtype.short} and {bounds[1].dtype.short}",
            fix="convert one of them, e.g. with ops.convert(x, 'i64')",
            where=str(caller_location()),
        )
    )


def _bound(name: str, bound: Any) -> Any:
    """A Python integer, or a traced integer scalar."""
    if isinstance(bound, Value):
        if not bound.type.shape and bound.type.dtype.is_integer:
            return bound
        got = str(bound.type)
    else:
        try:
            return operator.index(bound)
        except TypeError:
            got = shown(bound)
    raise TypeRuleError(
        message(
            f"fori_loop: {name} is no integer",
            expected="a Python integer, or an integer scalar",
            got=got,
            fix="convert it with int(), or ops.convert(x, 'i32')",
            where=str(caller_location()),
        )
    )


def map(f: Callable[..., Any], xs: Any) -> Any:
    """`f` of each entry of the leading axis of `xs`, one after another; the results stacked.

    As `vmap(f)(xs)`, with the memory of one call of `f` at a time.
    """

    def step(carry: None, x: Any) -> tuple[None, Any]:
        return None, f(x)

    return _scan("map", "f", step, None, xs, None, False, 1, Save.CARRIES, f)[1]
