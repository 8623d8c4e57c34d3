"""`check_nan` and `check_finite`: run a function's kernels one by one and name the first that made a NaN or infinity.

A result is at fault where its operands are not: entry by entry for elementwise ops, else when no operand holds such a
value. A NaN that was passed in and comes out again is blamed on the argument. A composite is looked into when
its result is at fault, so what a composite masks is not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple, NoReturn

import numpy as np

from torchlean import pytree
from torchlean.backends.profile import Profile
from torchlean.debug.inside import holds_bodies, run_bodies
from torchlean.errors import NonFiniteError, TraceError, message
from torchlean.ir.builder import Builder, Value, answerer
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import SourceLocation, caller_location, is_ours
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.rules import Elementwise
from torchlean.ir.types import show_types, type_of_array
from torchlean.runtime.array import Array
from torchlean.runtime.session import Session
from torchlean.transforms.lower import Lowered
from torchlean.transforms.rewrite import dead_code_eliminated
from torchlean.transforms.trees import function_name, is_tensor, trace_tree


class Fault(NamedTuple):
    """What counts as a fault: NaN alone, or every value that is not finite."""

    infinities: bool

    def of(self, array: Any) -> np.ndarray[Any, Any] | None:
        """Which entries are at fault; None when none is, or the array holds no such numbers."""
        held = np.asarray(array)
        if held.dtype.kind in "biu":
            return None
        bad = ~np.isfinite(held) if self.infinities else np.isnan(held)
        return bad if bad.any() else None


class Made(NamedTuple):
    """The first entry at fault of a node's results: which result, where in it."""

    result: int
    entry: tuple[int, ...]


def made_fault(op: Op, fault: Fault, operands: Sequence[Any], results: Sequence[Any]) -> Made | None:
    """The first entry at fault that the op made itself, or None. An op without operands makes what the user wrote."""
    if not operands:
        return None
    held: list[Any] | None = None
    for position, result in enumerate(results):
        bad = fault.of(result)
        if bad is None:
            continue
        if held is None:
            held = [fault.of(operand) for operand in operands]
        passed = [mask for mask in held if mask is not None]
        if isinstance(op.diff, Elementwise) and all(mask.shape == bad.shape for mask in passed):
            for mask in passed:
                bad = bad & ~mask
        elif passed:
            continue
        if bad.any():
            return Made(position, tuple([int(i) for i in np.argwhere(bad)[0]]))
    return None


# -- the report --------------------------------------------------------------------------------------------------------
class Place(NamedTuple):
    """A composite whose body is run: its name, and whether its function is the user's, so that lines in it help."""

    name: str
    is_users: bool


def report(
    op: Op,
    params: Any,
    fault: Fault,
    operands: Sequence[Any],
    results: Sequence[Any],
    made: Made,
    where: SourceLocation,
    inner: SourceLocation,
    places: tuple[Place, ...],
) -> NonFiniteError:
    """The error: op, types, entry, enclosing composites, derivative, operands by range, a way out, the user's line."""
    arrays = [np.asarray(operand) for operand in operands]
    value = np.asarray(results[made.result])[made.entry]
    types = show_types(tuple([type_of_array(array) for array in arrays]))
    which = f" in result {made.result}" if len(results) > 1 else ""
    what = f"{op_name(op, params)} of {types} made {_name(value)}{which}{_at(made.entry)}"
    for place in reversed(places):
        what += f", inside {place.name}"
    if places and places[-1].is_users:
        what += f" at {inner}"
    derivative = inner.derivative_of or where.derivative_of
    if derivative:
        what += f", in the derivative of {derivative}"
    shape = np.shape(results[made.result])
    described = [f"operand {at}: {describe(array, made.entry, shape)}" for at, array in enumerate(arrays)]
    return NonFiniteError(
        message(
            what,
            expected="finite results of finite operands" if fault.infinities else "no NaN from operands without one",
            got="; ".join(described[:4]) + ("; …" if len(described) > 4 else ""),
            fix=_advice(op.name, bool(derivative), any(_has_infinity(array) for array in arrays), value),
            where=str(where),
        )
    )


def op_name(op: Op, params: Any) -> str:
    """The op's name; of a custom rule's call, the function's."""
    return getattr(params, "label", op.name)


def describe(array: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """`f32[3], min -1.0, max 2.0, there -1.0`: never the entries, however few."""
    held = np.asarray(array)
    text = str(type_of_array(held))
    if not held.size:
        return f"{text}, empty"
    if held.dtype.kind == "b":
        text += f", {int(held.sum())} of {held.size} true"
    elif held.dtype.kind == "c":
        text += f", |·| up to {np.abs(held).max()}"
    elif held.ndim:
        good = held[~np.isnan(held)] if held.dtype.kind not in "iu" else held
        text += f", min {good.min()!s}, max {good.max()!s}" if good.size else ", all NaN"
    if held.shape == shape and held.size:
        text += f", there {held[index]!s}" if held.ndim else f" = {held[()]!s}"
    elif held.ndim == 0:
        text += f" = {held[()]!s}"
    return text


def _at(index: tuple[int, ...]) -> str:
    return f" at {list(index)}" if index else ""


def _name(value: Any) -> str:
    if np.isnan(value):
        return "NaN"
    return "-inf" if not isinstance(value, np.complexfloating) and value < 0 else "inf"


def _has_infinity(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind not in "biu" and bool(np.isinf(array).any())


def _advice(op: str, derivative: bool, infinite: bool, value: Any) -> str:
    if derivative:
        return "choose the argument before the op, as in log(select(ok, x, 1)), not only its result after it"
    if infinite and np.isnan(value):
        return "an operand is infinite already: debug.check_finite(f) names what made it"
    if op in ("log", "sqrt", "rsqrt", "pow"):
        return f"keep the argument where {op} is finite: ops.max(x, small), or select a safe argument first"
    if op in ("div", "integer_pow"):
        return "keep the divisor away from 0: select a safe one before dividing"
    if op in ("exp", "expm1"):
        return "subtract the maximum first, or use log_softmax, logsumexp or a log-space form"
    return "look at the operands above; debug.print shows them when the program runs"


# -- the walk ----------------------------------------------------------------------------------------------------------
class Walker:
    """Runs graphs on a session, kernel by kernel, and raises at the first fault."""

    def __init__(self, session: Session, fault: Fault) -> None:
        self.session = session
        self.fault = fault

    def run(
        self,
        graph: Graph,
        operands: Sequence[Any],
        call: SourceLocation | None = None,
        places: tuple[Place, ...] = (),
    ) -> list[Any]:
        """The outputs. `call` is the user's line when this is the body of a composite, those in `places`."""
        graph = dead_code_eliminated(graph)
        last: dict[int, int] = {}
        for at, node in enumerate(graph.nodes):
            for id in (*node.inputs, *node.outputs):
                last[id] = at
        for id in graph.outputs:
            last[id] = len(graph.nodes)
        values: dict[int, Any] = dict(zip(graph.inputs, operands, strict=True))
        for at, node in enumerate(graph.nodes):
            ins = tuple([values[id] for id in node.inputs])
            results = self.session.bind(node.op, node.params, ins)
            self.examine(node.op, node.params, ins, results, call or node.where, node.where, places)
            for id, result in zip(node.outputs, results, strict=True):
                values[id] = result
            for id in {*node.inputs, *node.outputs}:
                if last[id] == at:
                    del values[id]
        return [values[id] for id in graph.outputs]

    def examine(
        self,
        op: Op,
        params: Any,
        operands: Sequence[Any],
        results: Sequence[Any],
        where: SourceLocation,
        inner: SourceLocation,
        places: tuple[Place, ...],
    ) -> None:
        """Raise if the op made a fault; for a composite, at the op in its body that did."""
        made = made_fault(op, self.fault, operands, results)
        if made is None:
            return
        if holds_bodies(op):

            def run(body: Graph, given: Sequence[Any], which: str) -> list[Any]:
                place = Place(op_name(op, params) + which, _is_users(op, params))
                return self.run(body, given, where, (*places, place))

            run_bodies(op, params, operands, self.session.array, run)
        raise report(op, params, self.fault, operands, results, made, where, inner, places)


def _is_users(op: Op, params: Any) -> bool:
    """Whether the body was written outside this package: of control flow, a custom rule, or a user's composite."""
    if not isinstance(op, Composite) or hasattr(params, "label"):
        return True
    code = getattr(op.function, "__code__", None)
    return code is not None and not is_ours(code)


# -- the functions -----------------------------------------------------------------------------------------------------
def check_nan(f: Callable[..., Any], *, profile: Profile | None = None) -> Callable[..., Any]:
    """`f`, run kernel by kernel: NonFiniteError names the first op that made a NaN from operands without one.

    The text has the op, its types and the user's line, the composites it lies in, the op whose derivative it belongs
    to, and the range of each operand. `f` may be a transformed, jitted or lowered function. Slow, for debugging; inside
    a trace use `checkify`, which returns the fault.
    """
    return _checked(f, Fault(infinities=False), profile, "check_nan")


def check_finite(f: Callable[..., Any], *, profile: Profile | None = None) -> Callable[..., Any]:
    """`check_nan` for infinities as well: the first op that made a value that is not finite from finite operands."""
    return _checked(f, Fault(infinities=True), profile, "check_finite")


def _checked(f: Callable[..., Any], fault: Fault, profile: Profile | None, what: str) -> Callable[..., Any]:
    def run(*arguments: Any, **keywords: Any) -> Any:
        leaves, treedef = pytree.flatten((arguments, keywords))
        current = answerer()
        if isinstance(current, Builder) or any([isinstance(leaf, Value) for leaf in leaves]):
            raise _in_a_trace(what, f)
        if isinstance(f, Lowered):
            f(*arguments, **keywords)  # refuses arguments it was not lowered for
            graph, operands, rebuild = f.graph, leaves, f._out.rebuild
            chosen = profile or f.plan.profile
        else:
            positions = [position for position, leaf in enumerate(leaves) if is_tensor(leaf)]
            traced = trace_tree(lambda t: (f(*t[0], **t[1]),), leaves, treedef, positions, name=function_name(f))
            graph, operands, rebuild = traced.graph, list(traced.operands), traced.outs[0].rebuild
            chosen = profile or getattr(current, "profile", None)
        session = Session() if chosen is None else Session(chosen)
        held = [operand if isinstance(operand, Array) else session.array(operand) for operand in operands]
        results = Walker(session, fault).run(graph, held)
        for result in results:
            if fault.of(result) is not None:
                _blame(graph, held, fault, f, arguments, keywords)
        return rebuild(results)

    return run if isinstance(f, Lowered) else wraps(f)(run)


def _blame(
    graph: Graph, operands: Sequence[Any], fault: Fault, f: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """The result is at fault, but no op made it so: name the argument, or the constant, that was so from the start."""
    leaves, _ = pytree.flatten((arguments, keywords))
    paths = pytree.paths(arguments, "args") + pytree.paths(keywords, "kwargs")
    tensors = [path for path, leaf in zip(paths, leaves, strict=True) if is_tensor(leaf) or isinstance(f, Lowered)]
    for at, operand in enumerate(operands):
        bad = fault.of(operand)
        if bad is not None:
            name = tensors[at] if at < len(tensors) else "a captured value"
            index = tuple([int(i) for i in np.argwhere(bad)[0]])
            held = np.asarray(operand)
            _refuse_given(f"{name} of {type_of_array(held)} holds {_name(held[index])}{_at(index)}", f, None)
    for node in graph.nodes:
        if not node.inputs:
            array = _constant(node)
            bad = None if array is None else fault.of(array)
            if bad is not None and array is not None:
                index = tuple([int(i) for i in np.argwhere(bad)[0]])
                what = f"{node.op.name} of {type_of_array(array)} holds {_name(array[index])}{_at(index)}"
                _refuse_given(what, f, node.where)


def _constant(node: Node) -> np.ndarray[Any, Any] | None:
    held = getattr(node.params, "array", None)
    return held if held is not None else getattr(node.params, "entry", None)


def _refuse_given(what: str, f: Any, where: SourceLocation | None) -> NoReturn:
    raise NonFiniteError(
        message(
            f"{what}, and so does the result of {function_name(f)}; no op made one",
            expected="arguments and constants without such values",
            got="one that was there from the start",
            fix="look at where the value comes from",
            where=str(where or caller_location()),
        )
    )


def _in_a_trace(what: str, f: Any) -> TraceError:
    return TraceError(
        message(
            f"{what} of {function_name(f)} inside a trace",
            expected="concrete arrays: it runs the program kernel by kernel",
            got="traced values",
            fix=f"put it outermost, {what}(jit(grad(f))); inside, use checkify(f, errors=Errors.NAN)",
            where=str(caller_location()),
        )
    )
