"""The transforms users call: functions to functions, over pytrees, with JAX's names, argument order and results.

Each traces the function, rewrites the graph, and hands the result to whatever answers ops: inside a trace the nodes are
appended, outside it the session evaluates them. So any composition needs no code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from torchlean import pytree
from torchlean.errors import GradError, StructureError, TypeRuleError, message, shown
from torchlean.ir.builder import answerer, bind1, type_of
from torchlean.ir.graph import Graph
from torchlean.ir.location import caller_location
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.operators import Operators
from torchlean.ir.ops.create import zeros_of
from torchlean.ir.ops.elementwise import STOP_GRADIENT
from torchlean.ir.ops.parts import CONJ
from torchlean.ir.rules import NoTangent
from torchlean.ir.types import TensorType
from torchlean.transforms.holomorphic import Over, require_holomorphic, require_known_side
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.pulling import gradient, pulled_apart
from torchlean.transforms.rewrite import dead_code_eliminated, split, with_outputs
from torchlean.transforms.slopes import derivatives
from torchlean.transforms.trees import (
    TracedTree,
    as_float_leaf,
    function_name,
    is_number,
    is_tensor,
    leaf_paths,
    normal_argnums,
    require_same_tree,
    shown_type,
    trace_tree,
)
from torchlean.transforms.vjp import active_values, grad_graph


def with_aux(result: Any, what: str) -> tuple[Any, Any]:
    """The pair a function with auxiliary results returned; anything else is refused."""
    if not (isinstance(result, tuple) and len(result) == 2):
        raise TypeRuleError(
            message(
                f"{what}: with has_aux=True the function must return a pair (output, aux)",
                expected="a tuple of two",
                got=f"a tuple of {len(result)}" if isinstance(result, tuple) else shown_type(result),
                fix="return (output, aux), or drop has_aux",
                where=str(caller_location()),
            )
        )
    return result


def _leaf_positions(parts: Sequence[Any], argnums: tuple[int, ...]) -> tuple[list[int], dict[int, range]]:
    """Positions, among the leaves of all arguments, of those of the chosen ones. `parts`: the arguments' structures."""
    ranges: dict[int, range] = {}
    start = 0
    for position, part in enumerate(parts):
        ranges[position] = range(start, start + part.num_leaves)
        start += part.num_leaves
    return [leaf for position in argnums for leaf in ranges[position]], ranges


def _float_leaves(
    leaves: list[Any], positions: Sequence[int], arguments: tuple[Any, ...], what: str, over: Over
) -> None:
    """Make Python floats arrays; refuse leaves without a derivative, with their path."""
    for position in positions:
        leaf = leaves[position]
        if isinstance(leaf, Operators) and over.takes(leaf.type):
            continue
        leaf = as_float_leaf(leaf)
        if not is_tensor(leaf) or not over.takes(type_of(leaf)):
            path = leaf_paths(arguments)[position]
            got = shown_type(leaf)
            raise GradError(
                message(
                    f"{what} with respect to {path}: {got}",
                    expected=over.expected,
                    got=got,
                    fix=over.fix(type_of(leaf) if is_tensor(leaf) else None),
                    where=str(caller_location()),
                )
            )
        leaves[position] = leaf


def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    ieee_derivatives: bool = False,
) -> Callable[..., Any]:
    """A function returning (f(…), gradient): the gradient of a scalar `f` with respect to `argnums`.

    The gradient has the tree of the argument (a tuple of trees for a tuple of argnums); with `has_aux`, `f` returns
    (value, aux) and the result is ((value, aux), gradient). Raises GradError for a non-scalar or non-float result, for
    an integer argument (naming its path), and where every path from the result ends in an op without derivative.
    With `holomorphic`, arguments and result are complex and the gradient is f′(z); ops that are not holomorphic are
    refused. With `ieee_derivatives` a zero times an infinite slope is NaN; without, see docs/derivatives.md.
    """
    over = Over.HOLOMORPHIC if holomorphic else Over.REAL
    return _gradient(f, argnums, has_aux, over, ieee_derivatives, alone=False)


def _gradient(
    f: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, over: Over, ieee: bool, *, alone: bool
) -> Callable[..., Any]:
    """`value_and_grad` over one of the fields; with `alone`, `grad`."""
    what = "complex_grad" if over is Over.COMPLEX else "grad"

    @wraps(f)
    def with_gradient(*arguments: Any, **keywords: Any) -> Any:
        first = argnums.__class__ is int and argnums == 0 and arguments
        chosen = (0,) if first else normal_argnums(argnums, len(arguments), what)
        leaves, treedef = pytree.flatten((arguments, keywords))
        parts = pytree.parts(pytree.parts(treedef)[0])
        wanted, ranges = _leaf_positions(parts, chosen)
        _float_leaves(leaves, wanted, arguments, what, over)
        current: Any = answerer()
        memory = current.remembered if current.watch is None else None
        positions = _traced_positions(leaves, wanted)
        bodies = None if memory is None else current.bodies
        traced = _trace_call(f, leaves, treedef, positions, has_aux=has_aux, what=what, bodies=bodies)
        wrt = tuple(range(len(wanted))) if positions == wanted else _places(positions, wanted)

        def checked(graph: Graph) -> tuple[Graph, bytearray]:
            graph = dead_code_eliminated(graph)
            _require_scalar(graph.output_types[: traced.sizes[0]], f, over, what)
            active = active_values(graph, wrt)
            _require_path(graph, wrt, active, f)
            if over is Over.HOLOMORPHIC:
                require_holomorphic(graph, wrt, function_name(f))
            return graph, active

        def derived() -> Graph:
            graph, active = checked(traced.graph)
            made = grad_graph(graph, wrt, mode=derivatives(ieee), active=active)
            return dead_code_eliminated(with_outputs(made, made.outputs[unwanted:]))

        if memory is None:
            graph, active = checked(traced.graph)
            results = gradient(graph, traced.operands, wrt, derivatives(ieee), active)
        else:
            unwanted = traced.sizes[0] if alone else 0
            key = traced.graph, (wrt, traced.sizes[0], unwanted, over, ieee)
            results = [*[None] * unwanted, *memory.results(current, key, traced.operands, len(positions), derived)]
        outs = sum(traced.sizes)
        by_leaf = dict(zip(wanted, results[outs:], strict=True))
        if over is Over.HOLOMORPHIC:  # what is pulled back is conj(f′): the inner product is Re(conj(a)·b)
            by_leaf = {leaf: bind1(CONJ, NO_PARAMS, ct) for leaf, ct in by_leaf.items()}
        gradients = tuple(
            [pytree.unflatten(parts[position], [by_leaf[leaf] for leaf in ranges[position]]) for position in chosen]
        )
        pulled = gradients[0] if isinstance(argnums, int) else gradients
        aux = traced.outs[1].rebuild(results[traced.sizes[0] : outs]) if has_aux else None
        if alone:
            return (pulled, aux) if has_aux else pulled
        value = traced.outs[0].rebuild(results[: traced.sizes[0]])
        return ((value, aux) if has_aux else value), pulled

    return with_gradient


def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    holomorphic: bool = False,
    ieee_derivatives: bool = False,
) -> Callable[..., Any]:
    """The gradient function of a scalar `f`; with `has_aux` it returns (gradient, aux). See `value_and_grad`."""
    over = Over.HOLOMORPHIC if holomorphic else Over.REAL
    return _gradient(f, argnums, has_aux, over, ieee_derivatives, alone=True)


def complex_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    *,
    ieee_derivatives: bool = False,
) -> Callable[..., Any]:
    """∂L/∂re + i·∂L/∂im of a real scalar L with respect to complex (or real) arguments: p − lr·g descends.

    JAX's `grad` returns the conjugate. Otherwise as `grad`.
    """
    return _gradient(f, argnums, has_aux, Over.COMPLEX, ieee_derivatives, alone=True)


def _traced_positions(leaves: Sequence[Any], wanted: Sequence[int]) -> list[int]:
    """Leaves that become graph inputs: the wanted ones and every other tensor, in leaf order."""
    chosen = set(wanted)
    return [position for position, leaf in enumerate(leaves) if position in chosen or is_tensor(leaf)]


def _places(positions: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...]:
    """Which of the traced inputs the wanted leaves are."""
    order = {position: at for at, position in enumerate(positions)}
    return tuple([order[position] for position in wanted])


def _trace_call(
    f: Callable[..., Any],
    leaves: list[Any],
    treedef: Any,
    positions: Sequence[int],
    *,
    has_aux: bool,
    what: str,
    bodies: dict[Any, Any] | None = None,
) -> TracedTree:
    def call(tree: Any) -> tuple[Any, ...]:
        arguments, keywords = tree
        result = f(*arguments, **keywords)
        return with_aux(result, what) if has_aux else (result,)

    traced = trace_tree(call, leaves, treedef, positions, name=function_name(f), bodies=bodies)
    return traced if bodies is not None else traced._replace(graph=dead_code_eliminated(traced.graph))


def _require_scalar(types: Sequence[TensorType], f: Callable[..., Any], over: Over, what: str) -> None:
    if len(types) == 1 and not types[0].shape:
        if types[0].dtype.is_complex if over is Over.HOLOMORPHIC else types[0].dtype.is_float:
            return
        require_known_side(types[0], over, what, function_name(f))
    got = ", ".join(map(str, types)) or "no tensor"
    raise GradError(
        message(
            f"{what} of {function_name(f)}, which returns {got}",
            expected="one complex scalar" if over is Over.HOLOMORPHIC else "one floating point scalar",
            got=got,
            fix="reduce it (x.sum(), x.mean()), or use vjp or jacrev" if types else "return the scalar",
            where=str(caller_location()),
        )
    )


def _require_path(graph: Graph, wrt: Sequence[int], active: bytearray, f: Callable[..., Any]) -> None:
    """Refuse a result that depends on the arguments only through ops without a derivative."""
    out = graph.outputs[0]
    if active[out]:
        return
    depends = bytearray(len(graph.types))
    for position in wrt:
        depends[graph.inputs[position]] = 1
    for node in graph.nodes:
        if any([depends[id] for id in node.inputs]):
            for id in node.outputs:
                depends[id] = 1
    if not depends[out]:
        return  # a constant function: the gradient is zero
    for node in graph.nodes:
        cuts = any([active[id] for id in node.inputs]) and not any([active[id] for id in node.outputs])
        if cuts and node.op is not STOP_GRADIENT:
            reason = node.op.diff.reason if isinstance(node.op.diff, NoTangent) else "its result is no float"
            raise GradError(
                message(
                    f"grad of {function_name(f)}: the result depends on the argument only through {node.op.name} of "
                    f"{graph.types[node.inputs[0]]}",
                    expected="a differentiable path from the argument to the result",
                    got=f"{node.op.name}: {reason}",
                    fix="use a differentiable op there, or stop_gradient if zero is meant",
                    where=str(node.where),
                )
            )


def _check_tangents(primals: Sequence[Any], tangents: Sequence[Any], paths: Sequence[str], what: str) -> None:
    for primal, tangent, path in zip(primals, tangents, paths, strict=True):
        if not (is_tensor(primal) or is_number(primal)):
            continue  # passed through as it is
        expected, got = type_of(primal), shown_type(tangent)
        if str(expected) != got and expected.dtype.is_inexact:
            raise TypeRuleError(
                message(
                    f"{what}: the tangent of {path} is {got}, its primal {expected}",
                    expected=str(expected),
                    got=got,
                    fix="give the tangent the primal's shape and dtype",
                    where=str(caller_location()),
                )
            )


def _forward(f: Callable[..., Any], primals: Any, has_aux: bool, what: str, ieee: bool) -> tuple[Any, ...]:
    """Trace at every leaf of the primals; their float positions and the JVP graph."""
    leaves, treedef = pytree.flatten((tuple(primals), {}))
    leaves = [as_float_leaf(leaf) for leaf in leaves]
    positions = _traced_positions(leaves, [])
    traced = _trace_call(f, leaves, treedef, positions, has_aux=has_aux, what=what)
    captured = len(traced.operands) - len(positions)
    active = [type_of(leaves[position]).dtype.is_inexact for position in positions]
    flags = [*active, *([False] * captured)]
    graph, out_active = jvp_graph(traced.graph, flags, apart=what == "linearize", mode=derivatives(ieee))
    return leaves, traced, positions, active, graph, out_active


def jvp(
    f: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False, *, ieee_derivatives: bool = False
) -> Any:
    """(f(*primals), directional derivative along tangents); with `has_aux`, (output, tangent, aux).

    `tangents` has the tree, shapes and dtypes of `primals`. A float output that does not depend on the primals has
    tangent zeros; so has an integer output.
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise TypeRuleError(
                message(
                    f"jvp takes {name} as a tuple, one entry per argument of {function_name(f)}",
                    expected="a tuple",
                    got=shown_type(given),
                    fix="write jvp(f, (x,), (t,))",
                    where=str(caller_location()),
                )
            )
    require_same_tree(tuple(primals), tuple(tangents), "tangents", "jvp")
    leaves, traced, positions, active, graph, out_active = _forward(f, primals, has_aux, "jvp", ieee_derivatives)
    directions = [as_float_leaf(leaf) for leaf in pytree.leaves(tuple(tangents))]
    _check_tangents(leaves, directions, pytree.paths(tuple(primals), "primals"), "jvp")
    present = [directions[position] for position, is_float in zip(positions, active, strict=True) if is_float]
    results = answerer().evaluate(dead_code_eliminated(graph), (*traced.operands, *present))
    outs = len(traced.graph.outputs)
    moved = _filled_tangents(results[outs:], out_active, traced.graph.output_types)
    first = traced.sizes[0]
    value, tangent = traced.outs[0].rebuild(results[:first]), traced.outs[0].rebuild(moved[:first])
    if has_aux:
        return value, tangent, traced.outs[1].rebuild(results[first:outs])
    return value, tangent


def _filled_tangents(made: Sequence[Any], out_active: Sequence[bool], types: Sequence[TensorType]) -> list[Any]:
    """One tangent per output, zeros where none arrived."""
    remaining = list(made)
    return [
        remaining.pop(0) if is_active else zeros_of(type) for is_active, type in zip(out_active, types, strict=True)
    ]


def linearize(f: Callable[..., Any], *primals: Any, ieee_derivatives: bool = False) -> tuple[Any, Callable[..., Any]]:
    """(f(*primals), f_jvp): the primal is evaluated once; `f_jvp(*tangents)` may be called many times."""
    leaves, traced, positions, active, graph, out_active = _forward(f, primals, False, "linearize", ieee_derivatives)
    known = len(traced.operands)
    parts = split(graph, known, len(traced.graph.outputs))
    early = answerer().evaluate(parts.early, traced.operands)
    outs = parts.early_outputs
    value = traced.outs[0].rebuild(early[:outs])
    residuals = early[outs:]

    def pushforward(*tangents: Any) -> Any:
        require_same_tree(tuple(primals), tuple(tangents), "tangents", "linearize")
        directions = [as_float_leaf(leaf) for leaf in pytree.leaves(tuple(tangents))]
        _check_tangents(leaves, directions, pytree.paths(tuple(primals), "primals"), "linearize")
        present = [directions[position] for position, is_float in zip(positions, active, strict=True) if is_float]
        made = answerer().evaluate(parts.late, (*residuals, *present))
        return traced.outs[0].rebuild(_filled_tangents(made, out_active, traced.graph.output_types))

    return value, pushforward


def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False, ieee_derivatives: bool = False) -> Any:
    """(f(*primals), pullback[, aux]): `pullback(cotangents)` returns a tuple with one tree per primal.

    The cotangents have the tree and types of the output. The forward pass runs once; the pullback may be called many
    times. Integer primals get zeros.
    """
    leaves, treedef = pytree.flatten((tuple(primals), {}))
    leaves = [as_float_leaf(leaf) for leaf in leaves]
    positions = _traced_positions(leaves, [])
    traced = _trace_call(f, leaves, treedef, positions, has_aux=has_aux, what="vjp")
    early, pull = pulled_apart(traced.graph, traced.operands, len(positions), derivatives(ieee_derivatives))
    outs = len(traced.graph.outputs)
    first = traced.sizes[0]
    value = traced.outs[0].rebuild(early[:first])
    out_types = traced.graph.output_types

    def pullback(cotangents: Any) -> tuple[Any, ...]:
        require_same_tree(value, cotangents, "cotangents", "vjp")
        given = [as_float_leaf(leaf) for leaf in pytree.leaves(cotangents)]
        for got, expected, path in zip(given, out_types, pytree.paths(value, "output"), strict=False):
            if shown_type(got) != str(expected):
                raise StructureError(
                    message(
                        f"vjp: the cotangent of {path} is {shown_type(got)}, the output {expected}",
                        expected=str(expected),
                        got=shown_type(got),
                        fix="give the cotangent the output's shape and dtype",
                        where=str(caller_location()),
                    )
                )
        extra = [zeros_of(type) for type in out_types[first:]]
        made = pull((*given, *extra))
        by_leaf = dict(zip(positions, made, strict=True))
        pulled = [by_leaf.get(position) for position in range(len(leaves))]
        arguments, _ = pytree.unflatten(treedef, pulled)
        return arguments

    if has_aux:
        return value, pullback, traced.outs[1].rebuild(early[first:outs])
    return value, pullback


def make_graph(f: Callable[..., Any], static_argnums: int | Sequence[int] = ()) -> Callable[..., Graph]:
    """A function that traces `f` on its arguments' types and returns the graph; arguments may be `TensorType`s."""

    @wraps(f)
    def traced_graph(*arguments: Any, **keywords: Any) -> Graph:
        return trace_abstract(f, arguments, keywords, static_argnums).graph

    return traced_graph


def eval_shape(f: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """The tree of output types of `f(*arguments)`; nothing is computed. Arguments may be `TensorType`s."""
    traced = trace_abstract(f, arguments, keywords, ())
    return traced.outs[0].rebuild(traced.graph.output_types)


def trace_abstract(
    f: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any], static_argnums: int | Sequence[int]
) -> TracedTree:
    """Trace `f` with every leaf an input: arrays, Python numbers and `TensorType`s; static arguments pass through."""
    static = (
        normal_argnums(static_argnums, len(arguments), function_name(f), "static_argnums")
        if isinstance(static_argnums, int) or len(static_argnums)
        else ()
    )
    dynamic = tuple([argument for position, argument in enumerate(arguments) if position not in static])
    leaves, treedef = pytree.flatten((dynamic, keywords))
    types: list[TensorType] = []
    for at, leaf in enumerate(leaves):
        if isinstance(leaf, TensorType):
            types.append(leaf)
        else:
            try:
                types.append(type_of(leaf))
            except TypeRuleError:
                named = [f"args[{position}]" for position in range(len(arguments)) if position not in static]
                paths = [path for name, tree in zip(named, dynamic, strict=True) for path in pytree.paths(tree, name)]
                path = [*paths, *pytree.paths(keywords, "kwargs")][at]
                raise TypeRuleError(
                    message(
                        f"{function_name(f)}: the argument leaf {path} has the type {type(leaf).__name__}",
                        expected="an array, a Python number or a TensorType",
                        got=shown(leaf),
                        fix="pass it as a static argument (static_argnums)",
                        where=str(caller_location()),
                    )
                ) from None

    def call(tree: Any) -> tuple[Any, ...]:
        given, named = tree
        remaining = iter(given)
        full = [arguments[at] if at in static else next(remaining) for at in range(len(arguments))]
        return (f(*full, **named),)

    return trace_tree(call, leaves, treedef, range(len(leaves)), name=function_name(f), types=types)
